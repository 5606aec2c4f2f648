package def

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"tokitai/num"
)

// operand parses "in x[R,C] f16 bf16 f32", "out y[R,C] as x or f32, may be x" or "in
// label[R] i32 in [0,C) or ignore" or "in count[R] i32".
func (p *parser) operand(c *cursor) error {
	role, name := c.next(), c.next()
	if err := p.declare(name); err != nil {
		return err
	}
	o := Operand{Name: name.text, IsIn: role.text != "out", IsOut: role.text != "in"}
	if err := p.dims(c, &o); err != nil {
		return err
	}
	if err := p.storage(c, &o); err != nil {
		return err
	}
	d := p.b.d
	d.Operands = append(d.Operands, o)
	p.b.inputs = append(p.b.inputs, nil)
	if !o.IsIn {
		return nil
	}
	n := &Node{Op: OpInput, Name: o.Name, Extent: o.Extent, Operand: len(d.Operands) - 1, owner: p.b}
	if o.IsInt() {
		n.Type = Int
	}
	p.b.inputs[len(d.Operands)-1] = n
	p.scope.values[o.Name] = Value{n}
	return nil
}

var extents = map[string]Extent{"R,C": PerElement, "R,K": PerSlot, "R": PerRow, "C": PerColumn, "": Scalar}

// dims parses the sizes in brackets.
func (p *parser) dims(c *cursor, o *Operand) error {
	open := c.peek()
	if err := c.expect("["); err != nil {
		return err
	}
	for !c.accept("]") {
		if len(o.Dims) > 0 {
			if err := c.expect(","); err != nil {
				return err
			}
		}
		t := c.next()
		if t.kind != tokenName {
			return t.errorf("unexpected %s, want the letter of a size", t)
		}
		o.Dims = append(o.Dims, t.text)
	}
	if p.b.d.Expression() == nil {
		return nil
	}
	extent, ok := extents[strings.Join(o.Dims, ",")]
	if isTable := len(o.Dims) == 1 || len(o.Dims) == 2 && o.Dims[1] == "C"; !ok && isTable && o.IsIn && !o.IsOut {
		if err := checkSize(o.Dims[0]); err != nil {
			return open.errorf("operand %s: %v", o.Name, err)
		}
		extent, ok = Chosen|extents[strings.Join(o.Dims[1:], ",")], true
	}
	if !ok {
		return open.errorf("operand %s has the sizes %v, want [R,C], [R], [C], [R,K] or [], or a letter for the rows of a table that is read", o.Name, o.Dims)
	}
	if o.Extent = extent; o.IsIn && extent == Scalar {
		return open.errorf("operand %s: an input has at least one size; a single number is a parameter", o.Name)
	}
	if o.IsIn && o.IsOut && extent != PerElement {
		return open.errorf("operand %s: only values per element can be updated in place", o.Name)
	}
	return nil
}

// storage parses the formats of an operand and what follows them.
func (p *parser) storage(c *cursor, o *Operand) error {
	first := c.peek()
	if first.kind == tokenEnd { // as in Go: every format of real values
		o.DTypes = AnyFloat
		return nil
	}
	formats := func() error {
		for {
			t := c.peek()
			f, err := num.ParseDType(t.text)
			if t.kind != tokenName || err != nil {
				return nil
			}
			if slices.Contains(o.DTypes.Allowed, f) {
				return t.errorf("operand %s: %s is named twice", o.Name, f)
			}
			o.DTypes.Allowed = append(o.DTypes.Allowed, f)
			c.next()
		}
	}
	if c.accept("as") {
		like := c.next()
		if like.kind != tokenName {
			return like.errorf("unexpected %s, want the name of an operand", like)
		}
		o.DTypes.Like = like.text
		if !c.accept("or") {
			return p.sharing(c, o)
		}
	}
	if err := formats(); err != nil {
		return err
	}
	if len(o.DTypes.Allowed) == 0 {
		return c.peek().errorf("unexpected %s, want a format: f16, bf16, f32 or i32", c.peek())
	}
	if slices.Contains(o.DTypes.Allowed, indexDType) {
		if len(o.DTypes.Allowed) > 1 || o.DTypes.Like != "" {
			return first.errorf("operand %s: i32 does not store real values", o.Name)
		}
		if c.accept("in") {
			return p.index(c, o)
		}
	}
	return p.sharing(c, o)
}

// index parses "[0,C) or ignore".
func (p *parser) index(c *cursor, o *Operand) error {
	start := c.peek()
	o.IsIndex = true
	for _, want := range []string{"[", "0", ","} {
		if err := c.expect(want); err != nil {
			return err
		}
	}
	bound := c.next()
	o.Bound = bound.text
	if err := c.expect(")"); err != nil {
		return err
	}
	if c.accept("or") {
		except := c.next()
		o.Except = except.text
		if except.kind != tokenName {
			return except.errorf("unexpected %s, want the name of a parameter", except)
		}
	}
	if p.b.d.Expression() != nil && (o.Bound != "C" && checkSize(o.Bound) != nil || o.Extent != PerRow || o.IsOut) {
		return start.errorf("operand %s: want an index to be an input with one value per row, in [0,C) or in the rows of a table", o.Name)
	}
	return c.finished()
}

// sharing parses ", may be x or z", which checkSharing checks later.
func (p *parser) sharing(c *cursor, o *Operand) error {
	if !c.accept(",") {
		return c.finished()
	}
	for _, want := range []string{"may", "be"} {
		if err := c.expect(want); err != nil {
			return err
		}
	}
	start := c.peek()
	var names []string
	for {
		t := c.next()
		if t.kind != tokenName {
			return t.errorf("unexpected %s, want the name of an operand", t)
		}
		names = append(names, t.text)
		if !c.accept("or") {
			break
		}
	}
	p.sharings = append(p.sharings, sharing{start, o.Name, strings.Join(names, " or ")})
	return c.finished()
}

// checkSharing compares the text's claims about shared memory with the definition.
func (p *parser) checkSharing(d *Definition) error {
	for _, said := range p.sharings {
		holds := strings.Join(d.InPlacePartners(&d.Operands[d.Operand(said.operand)]), " or ")
		if said.with != holds {
			return said.at.errorf("operand %s may be the memory of %s, want %s", said.operand, said.with, cmp.Or(holds, "none"))
		}
	}
	return nil
}

// param parses "param eps float in [0,+Inf) default 1e-05".
func (p *parser) param(c *cursor) error {
	c.next()
	name := c.next()
	if err := p.declare(name); err != nil {
		return err
	}
	var opts []ParamOption
	kind := c.next()
	t, isInt := Float, kind.is("int32")
	if isInt {
		t = Int
	} else if !kind.is("float") {
		return kind.errorf("unexpected %s, want float or int32", kind)
	}
	if c.accept("in") {
		r, err := parseRange(c)
		if err != nil {
			return err
		}
		opts = append(opts, func(p *Param) { p.Range = r })
	}
	if c.accept("default") {
		v, err := parseNumber(c)
		if err != nil {
			return err
		}
		opts = append(opts, Default(v))
	}
	if err := c.finished(); err != nil {
		return err
	}
	p.scope.values[name.text] = p.b.param(name.text, t, opts)
	if err := p.b.d.Params[len(p.b.d.Params)-1].check(); err != nil {
		return name.errorf("%v", err)
	}
	return nil
}

// parseRange parses an interval: [0,1], (0,+Inf).
func parseRange(c *cursor) (Range, error) {
	open := c.next()
	if !open.is("[") && !open.is("(") {
		return Range{}, open.errorf("unexpected %s, want a range such as [0,1] or (0,+Inf)", open)
	}
	r := Range{IsLimited: true}
	var err error
	if r.Low, err = parseNumber(c); err != nil {
		return r, err
	}
	if err := c.expect(","); err != nil {
		return r, err
	}
	if r.High, err = parseNumber(c); err != nil {
		return r, err
	}
	end := c.next()
	r.IsAbove = open.is("(") && !math.IsInf(r.Low, -1)
	switch {
	case !end.is("]") && !end.is(")"):
		return r, end.errorf("unexpected %s, want the end of a range", end)
	case end.is(")") != math.IsInf(r.High, 1):
		return r, end.errorf("unexpected %s: a range ends with a number and \"]\", or with +Inf and \")\"", end)
	case open.is("[") && math.IsInf(r.Low, 0):
		return r, open.errorf("unexpected %s: an infinite end is not in the range", open)
	}
	return r, nil
}

// parseNumber parses a binary64.
func parseNumber(c *cursor) (float64, error) {
	start := c.peek()
	sign := ""
	if start.is("-") || start.is("+") {
		sign = c.next().text
	}
	t := c.next()
	if t.is("Inf") && sign != "" {
		return math.Inf(map[string]int{"-": -1, "+": 1}[sign]), nil
	}
	v, err := strconv.ParseFloat(sign+t.text, 64)
	if t.kind != tokenNumber || err != nil || strings.ContainsAny(t.text, "_") {
		return 0, start.errorf("unexpected %s%s, want a number", sign, t.text)
	}
	return v, nil
}
