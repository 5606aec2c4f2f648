package def

import (
	"cmp"
	"slices"
	"strings"

	"tokitai/num"
)

// table parses a definition of another kind than rowwise. Its form is fixed: operands and
// their sizes say everything, and all other words must be those that it prints.
func (p *parser) table() (*Definition, error) {
	header := p.places[""]
	var rest []textLine
	var ring Ring
	for l := p.next(); l != nil; l = p.next() {
		var err error
		switch {
		case l.declares("in", "out", "inout"):
			rest = append(rest, *l)
			err = p.tableOperand(l)
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
	d, err := p.buildTable(header, ring)
	if err != nil {
		return nil, err
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

// tableOperand takes down the role, name and sizes of an operand; the rest of its line
// is compared later.
func (p *parser) tableOperand(l *textLine) error {
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

func (p *parser) buildTable(header token, ring Ring) (*Definition, error) {
	d, ops := p.b.d, p.b.d.Operands
	if n := len(ops); n < 3 || n > 3 && d.Kind != KindContraction || n > 6 {
		return nil, header.errorf("a %s with %d operands, want 3", d.Kind, n)
	}
	accumulate := ops[2].IsIn
	var built *Definition
	var err error
	switch d.Kind {
	case KindGather:
		built, err = Gather(d.Name, GatherForm{Index: ops[0].Name, Table: ops[1].Name, Out: ops[2].Name, Formula: d.formula, Clauses: d.clauses})
	case KindScatterAdd:
		built, err = ScatterAdd(d.Name, ScatterForm{Index: ops[0].Name, Rows: ops[1].Name, Result: ops[2].Name,
			Accumulate: accumulate, Formula: d.formula, Clauses: d.clauses})
	default:
		f := ContractionForm{
			Left: ops[0].Name, LeftDims: ops[0].Dims, Right: ops[1].Name, RightDims: ops[1].Dims,
			Result: ops[2].Name, ResultDims: ops[2].Dims, Accumulate: accumulate, Formula: d.formula, Clauses: d.clauses,
		}
		last := func(dims []string) []string { return dims[max(0, len(dims)-2):] }
		result := last(f.ResultDims)
		f.TransposeLeft = len(result) == 2 && slices.Index(last(f.LeftDims), result[0]) == 1
		f.TransposeRight = len(result) == 2 && slices.Index(last(f.RightDims), result[1]) == 0
		if f.Ring = ring; ring.IsExact() || slices.ContainsFunc(ops[0].DTypes.Allowed, num.DType.IsFP8) {
			f.Factors = ops[0].DTypes
		}
		for _, o := range ops[3:] {
			switch {
			case strings.HasSuffix(o.Dims[0], "+1"):
				f.Groups = p.groups(&f, o)
			case len(result) == 2 && o.Dims[0] == result[0]:
				f.Scales.Row = o.Name
			default:
				f.Scales.Col = o.Name
			}
		}
		built, err = Contraction(d.Name, f)
	}
	if err != nil {
		return nil, header.errorf("%v", err)
	}
	return built, nil
}

// groups finds out which size the offsets divide: the rows of the result, or, where the
// result has a matrix for each group, what is summed over.
func (p *parser) groups(f *ContractionForm, offsets Operand) Groups {
	g := Groups{Offsets: offsets.Name, Number: strings.TrimSuffix(cmp.Or(append(offsets.Dims, "")[0], ""), "+1")}
	n := len(f.ResultDims)
	if n < 2 || len(f.LeftDims) < 2 {
		return g
	}
	if f.ResultDims[0] != g.Number {
		g.Of = f.ResultDims[n-2]
		return g
	}
	k := len(f.LeftDims) - 1
	if f.TransposeLeft {
		k--
	}
	g.Of = f.LeftDims[k]
	return g
}
