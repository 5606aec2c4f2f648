package dropout

import (
	"tokitai/bound"
	"tokitai/def"
	"tokitai/num"
)

func bounds(d *def.Definition) []bound.Form {
	in, out := d.Operands[0].Name, d.Operands[1].Name
	return []bound.Form{{
		Output: out,
		Text:   []string{"bound = u*|" + out + "| + 2^-150 for elements that are kept, else 0"},
		At: func(call *bound.Call) func(r, c int) float64 {
			x, isKept := call.Matrix(in), keeps(call)
			scale := call.Param("scale")
			return func(r, c int) float64 {
				if !isKept(r, c) {
					return 0
				}
				return bound.U*abs(x.At(r, c))*scale + bound.Tiny
			}
		},
	}}
}

func abs(x float64) float64 { return max(x, -x) }

// keeps returns which elements a call keeps.
func keeps(call *bound.Call) func(r, c int) bool {
	word := func(name string) uint32 { return uint32(int32(call.Params[call.Definition.Param(name)])) }
	wide := func(name string) uint64 { return uint64(word(name+"_low")) | uint64(word(name+"_high"))<<32 }
	seed, first, cols := wide("seed"), wide("first"), uint64(call.Operands[0].Cols)
	return func(r, c int) bool {
		number := first + uint64(r)*cols + uint64(c)
		return call.Param("scale") != 0 && num.RandomWord(seed, word("tensor"), word("step"), number) >= word("threshold")
	}
}
