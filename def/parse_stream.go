package def

import (
	"fmt"
	"slices"
	"strings"

	"tokitai/num"
)

// stream parses a stream: operands, parameters, the values of its body, and the line that weighs.
func (p *parser) stream() (*Definition, error) {
	header := p.places[""]
	body := p.lines
	if err := p.functions(); err != nil { // which may stand below their use
		return nil, err
	}
	p.lines = body

	b := newStreamBuilder(p.b.d.Name)
	b.body.d.formula, b.body.d.clauses = p.b.d.formula, p.b.d.clauses
	p.b = b.body
	for i, o := range streamLeaves {
		p.places[o.Name] = header
		p.scope.values[o.Name] = Value{b.body.inputs[i]}
	}
	s := &streamParser{parser: p, b: b}
	_, s.isBackward = p.form.Form.(*StreamBackward)
	for l := p.next(); l != nil; l = p.next() {
		if err := s.line(l); err != nil {
			return nil, err
		}
	}
	if s.form.Query == "" {
		return nil, header.errorf("the text has no line %s", s.weighText())
	}
	s.form.Formula, s.form.Clauses = b.body.d.formula, b.body.d.clauses
	for i, to := range []**Function{&s.form.Functions.Short, &s.form.Functions.Exp2, &s.form.Functions.Log2} {
		*to = p.scope.functions[streamFunctionNames[i]]
	}
	d, err := s.finish()
	if err == nil {
		d, err = d.seal()
	}
	if err != nil {
		return nil, header.errorf("%v", err)
	}
	for i, l := range s.declared {
		want := d.operandText(&d.Operands[min(i, len(d.Operands)-1)])
		if i >= len(d.Operands) || fold(l.raw) != fold(want) {
			return nil, l.start().errorf("unexpected %q, want %q: a %s has the operands query, key, value, those that its values read, starts of queries, starts of keys%s", fold(l.raw), fold(want), d.Form, map[bool]string{false: " or lengths and pages, and two outputs", true: ", the gradient of the mean, the mean, the logarithm of the weights, and the gradients"}[s.isBackward])
		}
	}
	return d, nil
}

// streamParser parses a stream line by line.
type streamParser struct {
	*parser
	b        *StreamBuilder
	form     StreamBackwardForm // or the part of it that a stream has
	declared []textLine         // operands
	operands []Operand

	isBackward bool
}

// weighText shows the line that weighs.
func (s *streamParser) weighText() string {
	if s.isBackward {
		return "DQUERY, DKEY, DVALUE <- weigh_backward(VALUE, EXPONENT, CONDITION, SLOPE, SCALE, DOUT, OUT, LOGSUM)"
	}
	return "OUT, LOGSUM <- weigh(VALUE, EXPONENT, CONDITION)"
}

func (s *streamParser) finish() (*Definition, error) {
	if s.isBackward {
		return s.b.finishBackward(s.form)
	}
	return s.b.finish(s.form.StreamForm)
}

func (s *streamParser) line(l *textLine) error {
	switch {
	case l.begins("function"):
		s.skipFunction()
		return nil
	case l.begins("rule"):
		return s.rule(l)
	case l.isProse:
		return s.prose(l)
	case l.declares("in", "out", "inout"):
		s.declared = append(s.declared, *l)
		return s.operand(l)
	}
	c := newCursor(l.tokens, l.number, 1)
	if first := c.peek(); first.kind == tokenName && c.peekAt(1).is(",") {
		return s.weigh(c)
	}
	return s.statement(l)
}

// operand takes down an operand. The values of the body read those whose sizes are those of a
// row or a column; all others are compared with what the form has.
func (s *streamParser) operand(l *textLine) error {
	role, name := l.tokens[0], l.tokens[1]
	if err := s.declare(name); err != nil {
		return err
	}
	_, sizes, _ := strings.Cut(l.raw, "[")
	sizes, rest, ok := strings.Cut(sizes, "]")
	if !ok {
		return name.errorf("operand %s: want its sizes in brackets", name.text)
	}
	o := Operand{Name: name.text, IsIn: role.text != "out", IsOut: role.text != "in"}
	for _, size := range strings.Split(sizes, ",") {
		o.Dims = append(o.Dims, strings.TrimSpace(size))
	}
	words := strings.Fields(cutComment(rest))
	if len(words) > 1 && words[0] == "as" {
		o.DTypes.Like, words = words[1], words[2:]
	}
	for _, word := range words {
		if f, err := num.ParseDType(word); err == nil {
			o.DTypes.Allowed = append(o.DTypes.Allowed, f)
		}
	}
	s.operands = append(s.operands, o)
	isStarts := func(o Operand) bool { return slices.Equal(o.Dims, []string{"B+1"}) }
	_, isRead := streamExtents[strings.Join(o.Dims, ",")]
	if !isRead || !o.IsIn || s.isBackward && slices.ContainsFunc(s.operands, isStarts) { // where LOGSUM is below
		return nil
	}
	if o.DTypes.Like == "" && len(o.DTypes.Allowed) == 0 {
		o.DTypes = AnyFloat
	}
	s.scope.values[o.Name] = s.b.In(o.Name, o.Dims, o.DTypes)
	return nil
}

// weigh parses "o, lse <- weigh(v, t, visible)", or "dq, dk, dv <- weigh_backward(v, t, visible, h,
// scale, do, o, lse)".
func (s *streamParser) weigh(c *cursor) error {
	out := c.peek()
	results := []*string{&s.form.Out, &s.form.LogSum}
	word, floats, read := "weigh", 2, []*string(nil) // values, and operands after them
	if s.isBackward {
		results = []*string{&s.form.QueryGradient, &s.form.KeyGradient, &s.form.ValueGradient, &s.form.BaseGradient}
		word, floats, read = "weigh_backward", 4, []*string{&s.form.OutGradient, &s.form.Out, &s.form.LogSum}
	}
	var names []string
	for len(names) == 0 || c.accept(",") {
		names = append(names, c.next().text)
	}
	for _, want := range []string{"<-", word, "("} {
		if err := c.expect(want); err != nil {
			return err
		}
	}
	value := c.next()
	var values []Value
	for !c.accept(")") {
		if err := c.expect(","); err != nil {
			return err
		}
		if len(values) == floats && len(read) > 0 {
			*read[0], read = c.next().text, read[1:]
			continue
		}
		e, err := parseExpression(c)
		if err != nil {
			return err
		}
		v, err := e.build(&s.scope)
		if err != nil {
			return s.explain(err)
		}
		values = append(values, v)
	}
	if err := c.finished(); err != nil {
		return err
	}
	hasBase := len(values) == floats+1
	want := len(results)
	if s.isBackward && !hasBase {
		want--
	}
	switch {
	case len(read) > 0 || len(values) != floats && !hasBase:
		return out.errorf("%s has %d values besides %s, want %s, or one more, a base", word, len(values), value, s.weighText())
	case len(names) != want:
		return out.errorf("%s has %d results here, want %d", word, len(names), want)
	}
	for i, name := range names {
		*results[i] = name
	}
	s.form.Value = value.text
	if s.isBackward {
		s.b.WeighBackward(values[0], values[1], values[2], values[3], values[4:]...)
	} else {
		s.b.Weigh(values[0], values[1], values[2:]...)
	}
	return s.roles(out, names)
}

// roles finds the operands by their sizes.
func (s *streamParser) roles(at token, results []string) error {
	type role struct {
		to   *string
		dims string
		nth  int
	}
	roles := []role{{&s.form.Query, "T,G,J,D", 0}, {&s.form.Key, "S,G,D", 0}, {&s.form.QueryStarts, "B+1", 0}, {&s.form.KeyStarts, "B+1", 1}}
	if slices.ContainsFunc(s.operands, func(o Operand) bool { return slices.Equal(o.Dims, []string{"B", "M"}) }) {
		roles = []role{roles[0], {&s.form.Key, "P,N,G,D", 0}, roles[2], {&s.form.Lengths, "B", 0}, {&s.form.Pages, "B,M", 0}}
	}
	for _, role := range roles {
		n := 0
		i := slices.IndexFunc(s.operands, func(o Operand) bool {
			n++
			if strings.Join(o.Dims, ",") != role.dims || !o.IsIn {
				n--
				return false
			}
			return n > role.nth
		})
		if i < 0 {
			return at.errorf("a stream reads an operand [%s]%s", role.dims, map[int]string{1: ", twice"}[role.nth])
		}
		*role.to = s.operands[i].Name
	}
	if s.form.Value == s.form.Key {
		return at.errorf("%s is the key; want the value", s.form.Key)
	}
	for _, name := range append(results, s.form.Value) {
		if !slices.ContainsFunc(s.operands, func(o Operand) bool { return o.Name == name }) {
			return at.errorf("%v", fmt.Errorf("%s is not an operand that was declared", name))
		}
	}
	return nil
}
