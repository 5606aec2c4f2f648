package def

import (
	"fmt"
	"strings"

	"tokitai/num"
)

// fixed returns the parser of a form whose text is fixed: operands and their sizes say everything, and
// all other words must be those that it prints. build takes a definition with the operands as they are
// declared.
func fixed(build func(d *Definition, ring Ring) (*Definition, error)) func(*parser) (*Definition, error) {
	return func(p *parser) (*Definition, error) { return p.fixed(build) }
}

// operandCountError says that a form takes another number of operands.
func operandCountError(d *Definition, want string) error {
	return fmt.Errorf("a %s with %d operands, want %s", d.Form, len(d.Operands), want)
}

func (p *parser) fixed(build func(d *Definition, ring Ring) (*Definition, error)) (*Definition, error) {
	header := p.places[""]
	var rest []textLine
	var ring Ring
	for l := p.next(); l != nil; l = p.next() {
		var err error
		switch {
		case l.declares("in", "out", "inout"):
			rest = append(rest, *l)
			err = p.fixedOperand(l)
		case l.isProse && !l.begins("rule"):
			err = p.prose(l)
		default:
			rest = append(rest, *l)
			ring = ringIn(l.raw)
		}
		if err != nil {
			return nil, err
		}
	}
	d, err := build(p.b.d, ring)
	if err != nil {
		return nil, header.errorf("%v", err)
	}
	want := strings.Split(strings.TrimRight(d.Text(), "\n"), "\n")[2:]
	for i, l := range rest {
		if i >= len(want) {
			return nil, l.start().errorf("unexpected %q, want the end of the text", fold(l.raw))
		}
		if fold(l.raw) != fold(want[i]) {
			return nil, l.start().errorf("unexpected %q, want %q", fold(l.raw), fold(want[i]))
		}
	}
	if len(rest) < len(want) {
		return nil, header.errorf("the text ends too early, want %q", fold(want[len(rest)]))
	}
	return d, nil
}

// fixedOperand takes down the role, name and sizes of an operand; the rest of its line
// is compared later.
func (p *parser) fixedOperand(l *textLine) error {
	role, name := l.tokens[0], l.tokens[1]
	if err := p.declare(name); err != nil {
		return err
	}
	o := Operand{Name: name.text, IsIn: role.text != "out", IsOut: role.text != "in"}
	_, sizes, _ := strings.Cut(l.raw, "[")
	sizes, _, ok := strings.Cut(sizes, "]")
	if !ok {
		return name.errorf("operand %s: want its sizes in brackets", o.Name)
	}
	for _, s := range strings.Split(sizes, ",") {
		o.Dims = append(o.Dims, strings.TrimSpace(s))
	}
	_, formats, _ := strings.Cut(l.raw, "]")
	for _, word := range strings.Fields(cutComment(formats)) {
		if f, err := num.ParseDType(word); err == nil {
			o.DTypes.Allowed = append(o.DTypes.Allowed, f)
		}
	}
	p.b.d.Operands = append(p.b.d.Operands, o)
	return nil
}
