package protocol

// Question is a call whose operands are all in the frame: the body of a TRUTH, and the end of
// that of a JUDGE.
type Question struct {
	Call Call
	Data []byte // of the operands that are read
}

// Append adds the body to b.
func (m *Question) Append(b []byte) []byte { return append(m.Call.Append(b), m.Data...) }

// ParseTruth reads the body of a TRUTH.
func ParseTruth(body []byte) (m Question, err error) {
	r := reader{rest: body}
	m.Call = r.inFrame()
	m.Data = r.data(&m.Call, WithRequest)
	return m, r.end()
}

// Judge asks whether outputs are admissible: the body of a JUDGE. Texts are as the command line
// of the program takes them, and may be empty.
type Judge struct {
	Promise, Profile, Declaration string
	Waived                        []string // clauses
	Question
	Outputs []byte // data of the operands that are written, as they are to be judged
}

// maxWaived is the largest number of clauses that a JUDGE waives.
const maxWaived = 256

// Append adds the body to b.
func (m *Judge) Append(b []byte) []byte {
	for _, text := range [...]string{m.Promise, m.Profile, m.Declaration} {
		b = appendString(b, text)
	}
	b = appendU32(b, uint32(len(m.Waived)))
	for _, name := range m.Waived {
		b = appendString(b, name)
	}
	return append(m.Question.Append(b), m.Outputs...)
}

// ParseJudge is the inverse of Append.
func ParseJudge(body []byte) (m Judge, err error) {
	r := reader{rest: body}
	m.Promise, m.Profile, m.Declaration = r.string("promise"), r.string("profile"), r.string("declaration")
	m.Waived = make([]string, r.countUpTo(maxWaived, "waived clauses", 4))
	for i := range m.Waived {
		m.Waived[i] = r.string("waived clause")
	}
	m.Call = r.inFrame()
	m.Data = r.data(&m.Call, WithRequest)
	m.Outputs = r.data(&m.Call, WithReply)
	return m, r.end()
}

// inFrame reads a call that has no operand in an arena or in the memory of a handle.
func (r *reader) inFrame() Call {
	c := r.call()
	for i := range c.Operands {
		if place := c.Operands[i].Tensor.Place; place != InFrame {
			r.fail("%s has place %d, want 0", c.Operands[i].Name, place)
		}
	}
	return c
}

// data reads the data of operands of a call.
func (r *reader) data(c *Call, with uint8) []byte {
	n, ok := c.carried(with)
	switch {
	case r.err != nil:
		return nil
	case !ok:
		r.fail("operands that no frame can hold")
		return nil
	case n > int64(len(r.rest)):
		r.fail("%d bytes of data, want %d", len(r.rest), n)
		return nil
	}
	return r.take(int(n), "data")
}

// TruthBytes returns the number of bytes in the good reply to a TRUTH: two f64 for each element
// of the operands that are written. The call must be valid, as ParseTruth returns it.
func TruthBytes(c *Call) (sum int64, ok bool) {
	const most = 1 << 56
	for i := range c.Operands {
		t := &c.Operands[i].Tensor
		if t.Carried&WithReply == 0 {
			continue
		}
		n, ok := t.Bytes()
		if !ok || n > most || sum > most {
			return 0, false
		}
		sum += n / int64(t.DType.Size()) * 16
	}
	return sum, true
}
