package verify

import (
	"context"
	"math"
	"slices"

	bounds "tokitai/bound"
	"tokitai/def"
	"tokitai/num"
	"tokitai/op"
	"tokitai/promise"
	"tokitai/reference"
	"tokitai/truth"
)

// class decides what a bounded kernel may return for an element that has no set of values, because
// it depends on an input that is NaN or infinite, or because an intermediate result may overflow.
//
//   - If intermediate results may overflow, which may depend on the order, any value is admissible.
//   - If the answer is zero in every form, such as a number divided by an infinity, only zero is.
//   - Any other finite answer has the set of the limit, if the definition has one: a masked logit
//     of -Inf is equivalent to a very large negative one. Otherwise any finite number is admissible.
//     NaN is admissible too if a clause says that other forms give it.
//   - NaN from an input that is NaN is NaN in every form.
//   - If the answer is an infinity, or NaN made of infinities, and all forms agree on it, only the
//     answer is admissible. If they do not agree, promise stable also admits NaN for an infinity,
//     and any infinity for NaN: y*dy - y*dot and y*(dy - dot) are both right. It also admits the
//     result of a usual form of the operation, with or without the declared roundings (a value that
//     underflows in f16, times an infinity), NaN if a clause leaves it open or says that other forms
//     give it, and both infinities and NaN if rounding errors may change the sign of a finite factor.
type class struct {
	v        *view
	ordinary *truth.Result // what its arithmetic may give, with 1 for every input that is NaN or infinite; nil if none is
	limit    *view         // the same call with large numbers for infinities; nil if there are none; it has sets if an element needs them
	forms    *truth.Forms  // nil if the definition's own form is promised
	alsoNaN  []places      // at which other forms give NaN for a number or an infinity
	orNaN    []places      // at which a result is infinite or NaN
	usual    [][]num.Array // what usual forms of the operation give, and declared roundings
}

// places reports whether an element is one of a set of places.
type places = func(operand, row, col int) bool

// classOf returns the classes of a tile's outputs.
func (v *view) classOf(ctx context.Context) (*class, error) {
	d := v.target.Definition
	inputs, hasSpecial := withoutSpecial(d, v.inputs)
	c := &class{v: v}
	if v.target.Promised() == promise.Stable && (hasSpecial || hasLarge(d, v.inputs)) {
		var err error
		if c.forms, err = truth.FindForms(ctx, d, v.inputs, v.l.params); err != nil {
			return nil, err
		}
		c.alsoNaN = v.placesOf(func(c *op.Clause) op.Covering { return c.OthersGiveNaN })
	}
	if !hasSpecial {
		return c, nil
	}
	var err error
	if c.ordinary, err = truth.Enclose(d, inputs, v.ordered(ctx)); err != nil {
		return nil, err
	}
	tamed, hasInfinity := truth.Tame(d, v.inputs)
	if !hasInfinity {
		return c, nil
	}
	limit := *v
	limit.inputs = tamed
	if limit.answer, err = v.target.interpret(ctx, v.l, tamed); err != nil {
		return nil, err
	}
	if c.limit = &limit; c.needsLimit() {
		if err := limit.prepare(ctx, manner{}); err != nil {
			return nil, err
		}
	}
	if c.forms == nil {
		return c, nil
	}
	c.orNaN = v.placesOf(func(c *op.Clause) op.Covering {
		if c.OrNaN {
			return c.Covers
		}
		return nil
	})
	declares := &v.target.Lowering.Promise.Declares
	for _, form := range v.target.forms() {
		if form == d && len(declares.Roundings) == 0 && !declares.Flushes() {
			continue
		}
		given := v.inputs
		if declares.Flushes() {
			given = flushed(d, given)
		}
		answer, err := interpret(form, given, reference.Options{Params: v.l.params, Accum: v.l.accum(), Rounded: declares.Roundings, Context: ctx})
		if err != nil {
			return nil, err
		}
		c.usual = append(c.usual, answer)
	}
	return c, nil
}

// flushed returns the inputs with subnormals replaced by zeros: an infinity times one of them is
// NaN then.
func flushed(d *def.Definition, inputs []num.Array) []num.Array {
	list := slices.Clone(inputs)
	for i := range list {
		if o := &d.Operands[i]; !o.IsIn || o.IsInt() {
			continue
		}
		a := list[i].Clone()
		for r := range a.Rows {
			for c := range a.Cols {
				if x := a.At(r, c); math.Abs(float64(x)) < 0x1p-126 {
					a.Set(r, c, 0*x)
				}
			}
		}
		list[i] = a
	}
	return list
}

// hasLarge reports whether products of a few inputs may overflow.
func hasLarge(d *def.Definition, inputs []num.Array) bool {
	for i, a := range inputs {
		if !d.Operands[i].IsIn || d.Operands[i].IsIndex || num.MaxFinite(a.DType) < 0x1p24 {
			continue
		}
		for r := range a.Rows {
			for c := range a.Cols {
				if x := a.At(r, c); x > 0x1p24 || x < -0x1p24 {
					return true
				}
			}
		}
	}
	return false
}

// mayOverflow reports whether a kernel may overflow while it computes an element for which the
// definition's own steps do not.
func (c *class) mayOverflow(operand, row, col int) bool {
	return c.forms != nil && c.forms.MayOverflow(operand, row, col)
}

// isOpen reports whether an element that has no set may have any value.
func (c *class) isOpen(operand, row, col int) bool {
	return c.ordinary == nil || c.v.exact.At(operand, row, col).Known() || !c.ordinary.At(operand, row, col).Known()
}

// hasLimit reports whether a finite element has the set of the limit.
func (c *class) hasLimit(operand, row, col int) bool {
	isZero := c.forms != nil && c.forms.IsZero(operand, row, col)
	return !isZero && c.limit != nil && c.limit.answer[operand].Bits64(row, col) == c.v.answer[operand].Bits64(row, col)
}

// needsLimit reports whether some element has the set of the limit.
func (c *class) needsLimit() bool {
	for i, a := range c.v.answer {
		if !c.v.target.isJudged(i) {
			continue
		}
		for row := range a.Rows {
			for col := range a.Cols {
				if x := float64(a.At(row, col)); !math.IsNaN(x) && !math.IsInf(x, 0) && c.hasLimit(i, row, col) && !c.isOpen(i, row, col) {
					return true
				}
			}
		}
	}
	return false
}

func (c *class) at(operand, row, col int) set {
	d, y := c.v.got[operand].DType, c.v.answer[operand].Bits64(row, col)
	switch value := float64(num.Value(d, y)); {
	case math.IsNaN(value) && c.forms != nil && c.forms.IsNaN(operand, row, col):
		return set{lo: y, hi: y} // even if finite values overflow besides
	case c.isOpen(operand, row, col):
		return set{isOpen: true}
	case !math.IsNaN(value) && !math.IsInf(value, 0):
		return c.finite(operand, row, col)
	case math.IsInf(value, 0) && c.forms != nil && c.forms.IsEither(operand, row, col):
		return set{lo: y, hi: y, noNumber: true}
	case math.IsInf(value, 0) && (isAmong(c.orNaN, operand, row, col) || isAmong(c.alsoNaN, operand, row, col) || c.isUsuallyNaN(operand, row, col)):
		return set{lo: y, hi: y, orNaN: true}
	case c.forms == nil || c.forms.Agree(operand, row, col):
		return set{lo: y, hi: y}
	case math.IsInf(value, 0):
		return set{lo: y, hi: y, orNaN: true}
	case c.limit == nil || num.IsNaN(d, c.limit.answer[operand].Bits64(row, col)):
		return set{lo: y, hi: y} // infinities are not the reason
	default:
		return set{lo: y, hi: y, noNumber: true}
	}
}

// finite returns the set of an element whose answer is finite.
func (c *class) finite(operand, row, col int) set {
	d := c.v.got[operand].DType
	most := num.FromIndex(d, math.MaxInt32) - 1 // the largest finite value
	s := set{lo: uint64(num.FromIndex(d, -num.Index(d, most))), hi: uint64(most)}
	if c.forms != nil && c.forms.IsZero(operand, row, col) {
		s = set{} // +0
	} else if c.hasLimit(operand, row, col) {
		if limit := c.limit.sets.at(operand, row, col); limit.count > 0 {
			limit.isOnGrid = false
			s = limit
		}
	}
	s.orNaN = s.orNaN || isAmong(c.alsoNaN, operand, row, col)
	return s
}

// isUsuallyNaN reports whether a usual form of the operation gives NaN for an element.
func (c *class) isUsuallyNaN(operand, row, col int) bool {
	return slices.ContainsFunc(c.usual, func(answer []num.Array) bool {
		return num.IsNaN(answer[operand].DType, answer[operand].Bits64(row, col))
	})
}

func isAmong(list []places, operand, row, col int) bool {
	return slices.ContainsFunc(list, func(is places) bool { return is(operand, row, col) })
}

// placesOf returns the places that covering names for the definition's clauses.
func (v *view) placesOf(covering func(c *op.Clause) op.Covering) []places {
	var list []places
	if v.target.Operation == nil {
		return nil
	}
	for i := range v.target.Operation.Clauses {
		c := &v.target.Operation.Clauses[i]
		if at := covering(c); c.Definition == v.target.Definition && at != nil {
			list = append(list, at(&bounds.Call{Definition: c.Definition, Params: v.l.params, Operands: v.inputs}))
		}
	}
	return list
}

// withoutSpecial returns the inputs with 1 in the place of every NaN and infinity, and
// reports whether there was one.
func withoutSpecial(d *def.Definition, inputs []num.Array) (ordinary []num.Array, hasSpecial bool) {
	for i, a := range inputs {
		isCopy := false
		for r := range a.Rows {
			for c := range a.Cols {
				if !d.Operands[i].IsIn || d.Operands[i].IsIndex {
					break
				}
				if x := a.At(r, c); x-x == 0 {
					continue
				}
				if !isCopy {
					a, isCopy, hasSpecial = a.Clone(), true, true
				}
				a.Set(r, c, 1)
			}
		}
		ordinary = append(ordinary, a)
	}
	return ordinary, hasSpecial
}
