package protocol

import (
	"math"

	"tokitai/num"
)

// Hello is a client's first request.
type Hello struct {
	Lowest, Highest uint32 // versions that the client speaks
	Client          string
}

// Append adds the body to b.
func (m *Hello) Append(b []byte) []byte {
	b = append(b, Magic...)
	b = appendU32(b, m.Lowest)
	b = appendU32(b, m.Highest)
	return appendString(b, m.Client)
}

// ParseHello is the inverse of Append.
func ParseHello(body []byte) (m Hello, err error) {
	r := reader{rest: body}
	if magic := r.take(len(Magic), "magic"); r.err == nil && string(magic) != Magic {
		r.fail("the magic is %q, want %q", magic, Magic)
	}
	m.Lowest, m.Highest = r.u32("lowest version"), r.u32("highest version")
	m.Client = r.string("client")
	return m, r.end()
}

// Welcome is the good reply to a Hello.
type Welcome struct {
	Version     uint32
	Generation  uint64
	Build       string
	Device      string
	Description string
	MaxFrame    int64
	MemoryLimit int64
	HasArenas   bool // it takes ARENA
	CanFork     bool // it takes FORK
}

// Bits of a Welcome's last field.
const (
	featureArena = 1 << iota
	featureFork
)

// Append adds the body to b.
func (m *Welcome) Append(b []byte) []byte {
	b = appendU32(b, m.Version)
	b = appendU64(b, m.Generation)
	b = appendString(b, clipped(m.Build))
	b = appendString(b, clipped(m.Device))
	b = appendString(b, clipped(m.Description))
	b = appendU64(b, uint64(m.MaxFrame))
	b = appendU64(b, uint64(m.MemoryLimit))
	var features uint32
	if m.HasArenas {
		features |= featureArena
	}
	if m.CanFork {
		features |= featureFork
	}
	return appendU32(b, features)
}

// ParseWelcome is the inverse of Append.
func ParseWelcome(body []byte) (m Welcome, err error) {
	r := reader{rest: body}
	m.Version, m.Generation = r.u32("version"), r.u64("generation")
	m.Build, m.Device, m.Description = r.string("build"), r.string("device"), r.string("description")
	m.MaxFrame, m.MemoryLimit = r.size("max-frame"), r.size("memory-limit")
	features := r.u32("features")
	if features > featureArena|featureFork {
		r.fail("features is %d, want at most %d", features, featureArena|featureFork)
	}
	m.HasArenas, m.CanFork = features&featureArena != 0, features&featureFork != 0
	return m, r.end()
}

// Place is where the data of a tensor are.
type Place uint8

// The places.
const (
	InFrame Place = iota
	InArena
	InHandle
)

// Bits of Tensor.Carried: which frames carry the data of a tensor.
const (
	WithRequest = 1
	WithReply   = 2
)

// Tensor is an operand's format, shape and place.
type Tensor struct {
	DType   num.DType
	Place   Place
	Carried uint8 // in frames only
	Shape   []int
	Arena   uint32 // in an arena only
	Handle  uint64 // in memory of a handle only
	Offset  int64  // in bytes; not in frames
	Stride  int    // elements from row to row; not in frames
}

const maxRank = 255

func (t *Tensor) append(b []byte) []byte {
	b = append(b, dtypeNumber(t.DType), uint8(t.Place), t.Carried)
	b = appendU32(b, uint32(len(t.Shape)))
	for _, n := range t.Shape {
		b = appendU64(b, uint64(n))
	}
	switch t.Place {
	case InArena:
		b = appendU32(b, t.Arena)
	case InHandle:
		b = appendU64(b, t.Handle)
	default:
		return b
	}
	b = appendU64(b, uint64(t.Offset))
	return appendU64(b, uint64(t.Stride))
}

func (r *reader) tensor() (t Tensor) {
	if t.DType = r.dtype(); r.err != nil {
		return t
	}
	t.Place, t.Carried = Place(r.u8("place")), r.u8("data")
	switch {
	case t.Place > InHandle:
		r.fail("place is %d, want 0 to 2", t.Place)
	case t.Place == InFrame && (t.Carried == 0 || t.Carried > 3), t.Place != InFrame && t.Carried != 0:
		r.fail("data are %d with place %d, want 1 to 3 with place 0, otherwise 0", t.Carried, t.Place)
	}
	rank := r.count("sizes", 8)
	if rank > maxRank {
		r.fail("%d sizes, want at most %d", rank, maxRank)
		return t
	}
	t.Shape = make([]int, rank)
	for i := range t.Shape {
		t.Shape[i] = int(r.size("size"))
	}
	switch t.Place {
	case InArena:
		t.Arena = r.u32("arena")
	case InHandle:
		t.Handle = r.u64("handle")
	default:
		return t
	}
	t.Offset, t.Stride = r.size("offset"), int(r.size("row stride"))
	return t
}

// Bytes returns the bytes of the elements without gaps. It returns false if they exceed int64
// or a size is below 0.
func (t *Tensor) Bytes() (int64, bool) {
	n := int64(t.DType.Size())
	for _, size := range t.Shape {
		if size < 0 || size > 0 && n > math.MaxInt64/int64(size) {
			return 0, false
		}
		n *= int64(size)
	}
	return n, true
}

// Param is a named number.
type Param struct {
	Name  string
	Value float64
}

// Operand is a named tensor.
type Operand struct {
	Name   string
	Tensor Tensor
}

// Call is one call of a definition. Policy, BadIndex and Admission are numbered as in
// package engine.
type Call struct {
	Definition                  string
	Policy, BadIndex, Admission uint8
	Lowering                    string
	Params                      []Param
	Operands                    []Operand
}

// Append adds the call to b.
func (c *Call) Append(b []byte) []byte {
	b = appendString(b, c.Definition)
	b = append(b, c.Policy, c.BadIndex, c.Admission, 0)
	b = appendString(b, c.Lowering)
	b = appendU32(b, uint32(len(c.Params)))
	for i := range c.Params {
		b = appendString(b, c.Params[i].Name)
		b = appendU64(b, math.Float64bits(c.Params[i].Value))
	}
	b = appendU32(b, uint32(len(c.Operands)))
	for i := range c.Operands {
		b = appendString(b, c.Operands[i].Name)
		b = c.Operands[i].Tensor.append(b)
	}
	return b
}

func (r *reader) call() (c Call) {
	c.Definition = r.string("definition")
	c.Policy, c.BadIndex, c.Admission = r.u8("policy"), r.u8("bad index"), r.u8("admission")
	for _, v := range [...]struct {
		what  string
		value uint8
		most  uint8
	}{{"policy", c.Policy, 1}, {"bad index", c.BadIndex, 1}, {"admission", c.Admission, 1}, {"the byte after it", r.u8("the byte after admission"), 0}} {
		if v.value > v.most {
			r.fail("%s is %d, want at most %d", v.what, v.value, v.most)
		}
	}
	c.Lowering = r.string("lowering")
	c.Params = make([]Param, r.countUpTo(MaxParams, "parameters", 12))
	for i := range c.Params {
		c.Params[i] = Param{Name: r.string("parameter"), Value: r.f64("value")}
	}
	c.Operands = make([]Operand, r.countUpTo(maxOperands, "operands", 11))
	for i := range c.Operands {
		c.Operands[i] = Operand{Name: r.string("operand"), Tensor: r.tensor()}
	}
	return c
}

// Limits of a CALL, so that reading it takes no more memory than a large frame.
const (
	maxCalls    = 1 << 14
	maxOperands = 32
	MaxParams   = 32 // of one call
)

// AppendCalls adds the body of a CALL to b, without its data.
func AppendCalls(b []byte, calls []Call) []byte {
	b = appendU32(b, uint32(len(calls)))
	for i := range calls {
		b = calls[i].Append(b)
	}
	return b
}

// ParseCalls reads the body of a CALL. The data are the elements of all operands that the
// request carries, one after the other.
func ParseCalls(body []byte) (calls []Call, data []byte, err error) {
	r := reader{rest: body}
	calls = make([]Call, r.countUpTo(maxCalls, "calls", 20))
	if r.err == nil && len(calls) == 0 {
		r.fail("no calls, want at least one")
	}
	var want int64
	for i := range calls {
		calls[i] = r.call()
		n, ok := calls[i].carried(WithRequest)
		if want += n; !ok || want < 0 {
			r.fail("call %d has operands in the frames that no frame can hold", i)
		}
	}
	data = r.remaining()
	if r.err == nil && int64(len(data)) != want {
		r.fail("%d bytes of data, want %d", len(data), want)
	}
	return calls, data, r.err
}

// carried returns the number of bytes that the request or the reply carries.
func (c *Call) carried(with uint8) (sum int64, ok bool) {
	for i := range c.Operands {
		t := &c.Operands[i].Tensor
		if t.Carried&with == 0 {
			continue
		}
		n, ok := t.Bytes()
		if !ok || sum > math.MaxInt64-n {
			return 0, false
		}
		sum += n
	}
	return sum, true
}

// ReplyBytes returns the number of data bytes in the reply to calls. They must be valid, as
// ParseCalls returns them.
func ReplyBytes(calls []Call) (sum int64, ok bool) {
	for i := range calls {
		n, ok := calls[i].carried(WithReply)
		if !ok || sum > math.MaxInt64-n {
			return 0, false
		}
		sum += n
	}
	return sum, true
}

// Results is the good reply to a CALL.
type Results struct {
	KernelNanoseconds uint64
	Lowerings         []string // of each call
	Data              []byte
}

// Append adds the body to b.
func (m *Results) Append(b []byte) []byte {
	b = appendU64(b, m.KernelNanoseconds)
	b = appendU32(b, uint32(len(m.Lowerings)))
	for _, name := range m.Lowerings {
		b = appendString(b, name)
	}
	return append(b, m.Data...)
}

// ParseResults is the inverse of Append.
func ParseResults(body []byte) (m Results, err error) {
	r := reader{rest: body}
	m.KernelNanoseconds = r.u64("nanoseconds")
	m.Lowerings = make([]string, r.count("lowerings", 4))
	for i := range m.Lowerings {
		m.Lowerings[i] = r.string("lowering")
	}
	m.Data = r.remaining()
	return m, r.err
}

// End is one end of a transfer: the frames, or an arena.
type End struct {
	Place  Place // InFrame or InArena
	Arena  uint32
	Offset int64
}

func (e *End) append(b []byte) []byte {
	b = append(b, uint8(e.Place))
	if e.Place == InArena {
		b = appendU32(b, e.Arena)
		b = appendU64(b, uint64(e.Offset))
	}
	return b
}

func (r *reader) transferEnd() (e End) {
	switch e.Place = Place(r.u8("place")); e.Place {
	case InFrame:
	case InArena:
		e.Arena, e.Offset = r.u32("arena"), r.size("offset in the arena")
	default:
		r.fail("place is %d, want 0 or 1", e.Place)
	}
	return e
}

// Transfer is the body of a WRITE or a READ.
type Transfer struct {
	Handle        uint64
	Offset, Bytes int64
	End           End
	Data          []byte // of a WRITE from the frames
}

// Append adds the body to b, without data.
func (m *Transfer) Append(b []byte) []byte {
	b = appendU64(b, m.Handle)
	b = appendU64(b, uint64(m.Offset))
	b = appendU64(b, uint64(m.Bytes))
	return m.End.append(b)
}

// ParseWrite reads the body of a WRITE, with its data.
func ParseWrite(body []byte) (m Transfer, err error) {
	r := reader{rest: body}
	r.transfer(&m)
	if m.End.Place == InFrame && r.err == nil {
		m.Data = r.remaining()
		if int64(len(m.Data)) != m.Bytes {
			r.fail("%d bytes of data, want %d", len(m.Data), m.Bytes)
		}
	}
	return m, r.end()
}

// ParseRead reads the body of a READ.
func ParseRead(body []byte) (m Transfer, err error) {
	r := reader{rest: body}
	r.transfer(&m)
	return m, r.end()
}

func (r *reader) transfer(m *Transfer) {
	m.Handle, m.Offset, m.Bytes = r.u64("handle"), r.size("offset"), r.size("bytes")
	m.End = r.transferEnd()
}

// Numbers appends numbers as u64: the body of requests that have nothing else.
func Numbers(b []byte, values ...uint64) []byte {
	for _, v := range values {
		b = appendU64(b, v)
	}
	return b
}

// ParseNumber reads a body of one u64.
func ParseNumber(body []byte) (uint64, error) {
	r := reader{rest: body}
	v := r.u64("number")
	return v, r.end()
}

// ParseNothing returns an error for a body that is not empty.
func ParseNothing(body []byte) error {
	r := reader{rest: body}
	return r.end()
}

// ArenaBody is the body of an ARENA.
type ArenaBody struct {
	Arena uint32
	Bytes int64
}

// Append adds the body to b.
func (m *ArenaBody) Append(b []byte) []byte {
	return appendU64(appendU32(b, m.Arena), uint64(m.Bytes))
}

// ParseArena is the inverse of Append.
func ParseArena(body []byte) (m ArenaBody, err error) {
	r := reader{rest: body}
	m.Arena, m.Bytes = r.u32("arena"), r.size("bytes")
	return m, r.end()
}

// AppendDrop adds the body of a DROP to b.
func AppendDrop(b []byte, arena uint32) []byte { return appendU32(b, arena) }

// ParseDrop is the inverse of AppendDrop.
func ParseDrop(body []byte) (arena uint32, err error) {
	r := reader{rest: body}
	arena = r.u32("arena")
	return arena, r.end()
}

// Bits of access: whether a definition reads or writes an operand.
const (
	IsRead    = 1
	IsWritten = 2
)

// Definition is a definition in the reply to a LIST.
type Definition struct {
	Name     string
	Operands []OperandUse
	Params   []string
}

// OperandUse is an operand and its access.
type OperandUse struct {
	Name   string
	Access uint8
}

// AppendList adds the good reply to a LIST to b.
func AppendList(b []byte, list []Definition) []byte {
	b = appendU32(b, uint32(len(list)))
	for _, d := range list {
		b = appendString(b, d.Name)
		b = appendU32(b, uint32(len(d.Operands)))
		for _, o := range d.Operands {
			b = append(appendString(b, o.Name), o.Access)
		}
		b = appendU32(b, uint32(len(d.Params)))
		for _, p := range d.Params {
			b = appendString(b, p)
		}
	}
	return b
}

// ParseList is the inverse of AppendList.
func ParseList(body []byte) (list []Definition, err error) {
	r := reader{rest: body}
	list = make([]Definition, r.count("definitions", 12))
	for i := range list {
		d := &list[i]
		d.Name = r.string("definition")
		d.Operands = make([]OperandUse, r.count("operands", 5))
		for k := range d.Operands {
			d.Operands[k] = OperandUse{Name: r.string("operand"), Access: r.access()}
		}
		d.Params = make([]string, r.count("parameters", 4))
		for k := range d.Params {
			d.Params[k] = r.string("parameter")
		}
	}
	return list, r.end()
}

func (r *reader) access() uint8 {
	a := r.u8("access")
	if r.err == nil && (a == 0 || a > IsRead|IsWritten) {
		r.fail("access is %d, want 1 to 3", a)
	}
	return a
}

// Stats is the good reply to a STATS.
type Stats struct {
	Requests, Errors  uint64
	KernelNanoseconds uint64
	HeldBytes         uint64
	PeakBytes         uint64
	Handles, Arenas   uint64
}

// Append adds the body to b.
func (m *Stats) Append(b []byte) []byte {
	return Numbers(b, m.Requests, m.Errors, m.KernelNanoseconds, m.HeldBytes, m.PeakBytes, m.Handles, m.Arenas)
}

// ParseStats is the inverse of Append.
func ParseStats(body []byte) (m Stats, err error) {
	r := reader{rest: body}
	for _, v := range []*uint64{&m.Requests, &m.Errors, &m.KernelNanoseconds, &m.HeldBytes, &m.PeakBytes, &m.Handles, &m.Arenas} {
		*v = r.u64("number")
	}
	return m, r.end()
}
