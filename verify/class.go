package verify

import (
	"math"

	"tokitai/def"
	"tokitai/num"
	"tokitai/truth"
)

// class is what a bounded kernel may give where there is no set of values. Where a NaN or an
// infinity among the inputs reaches the element, only its class is known: NaN, an infinity, or
// some finite number. Where an intermediate result may overflow, nothing is known, since that
// may depend on the order.
type class struct {
	v        *view
	ordinary *truth.Result // what its arithmetic may give, with 1 for every input that is no number; nil if all are numbers
}

// classOf returns the classes of a tile's outputs.
func (v *view) classOf(o truth.Options) (*class, error) {
	inputs, hasSpecial := withoutSpecial(v.target.Definition, v.inputs)
	if !hasSpecial {
		return &class{v, nil}, nil
	}
	ordinary, err := truth.Enclose(v.target.Definition, inputs, o)
	return &class{v, ordinary}, err
}

func (c *class) at(operand, row, col int) set {
	d, y := c.v.got[operand].DType, c.v.answer[operand].Bits(row, col)
	switch {
	case c.ordinary == nil || c.v.exact.At(operand, row, col).Known() || !c.ordinary.At(operand, row, col).Known():
		return set{isOpen: true}
	case num.IsNaN(d, y) || math.IsInf(float64(num.Widen(d, y)), 0):
		return set{lo: y, hi: y}
	}
	most := num.FromIndex(d, math.MaxInt32) - 1 // the largest finite value
	return set{lo: num.FromIndex(d, -num.Index(d, most)), hi: most}
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
