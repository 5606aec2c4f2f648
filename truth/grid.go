package truth

import (
	"context"
	"math"
	"slices"

	"tokitai/def"
	"tokitai/num"
)

// Grid records which outputs of a call have only one right value, although the kernel may add
// in any order and fuse products with sums: all intermediate values lie on a grid that is
// coarse enough for binary32 to be exact. It is computed from the operands of the call.
type Grid struct {
	call *call
	at   [][]bool // by operand, row after row
}

// GridOptions are the options of FindGrid.
type GridOptions struct {
	Params []float64 // as the caller gave them, in the order of the definition
	Accum  def.Accum // of contractions

	// InAnyForm asks for outputs that every form of the expression gives, not only the
	// definition's own steps with sums in any order: factors multiplied out or taken out of
	// sums. These are outputs made of sums and products of inputs. The forms of a quotient, a
	// root or a function do not all give the same result: a mean that is updated with each
	// element divides differently. Outputs without a sum are left out, since
	// m + (1-b)*(g-m) rounds where b*m + (1-b)*g does not.
	InAnyForm bool

	Context context.Context // nil means no limit
}

// FindGrid finds the outputs of a call that lie on a grid. It writes nothing.
func FindGrid(d *def.Definition, operands []num.Array, o GridOptions) (*Grid, error) {
	k, err := newCall(d, operands, Options{Params: o.Params, Accum: o.Accum, Context: o.Context})
	if err != nil {
		return nil, err
	}
	g := &Grid{call: k, at: make([][]bool, len(d.Operands))}
	for i := range d.Operands {
		if d.Operands[i].IsOut {
			g.at[i] = make([]bool, operands[i].Rows*operands[i].Cols)
		}
	}
	return g, k.form.findGrid(g, o)
}

// sumsOf reports, by operand, which outputs of a rowwise definition depend on a sum.
func sumsOf(d *def.Definition) map[int]bool {
	depends := make([]bool, len(d.Math().Nodes))
	for _, n := range d.Math().Nodes { // arguments first
		depends[n.ID] = n.Op == def.OpRowSum || n.Op == def.OpColSum || n.Op == def.OpTotalSum ||
			slices.ContainsFunc(n.Args, func(a *def.Node) bool { return depends[a.ID] })
	}
	outputs := map[int]bool{}
	for _, o := range d.Math().Outputs {
		outputs[o.Operand] = depends[o.Value.ID]
	}
	return outputs
}

// Has reports whether an output element has only one right value.
func (g *Grid) Has(operand, row, col int) bool {
	return g.at[operand][row*g.call.operands[operand].Cols+col]
}

// significand is the number of bits that binary32 keeps.
const significand = 24

// units returns the lowest bit of each value.
func units(x []float64) []int {
	u := make([]int, len(x))
	for i, v := range x {
		u[i] = lowestBit(v)
	}
	return u
}

// sumOf returns the sum of products as a polynomial, given the units of their factors. Where
// the polynomial fits, float64 adds the products exactly.
func sumOf(p products, a, b []int) polynomial {
	z := polynomial{unit: noUnit, isExact: true}
	sum := 0.0
	for i, x := range p.a {
		t := x * p.b[i]
		if t == 0 {
			continue
		}
		sum, z.abs, z.unit = sum+t, z.abs+math.Abs(t), min(z.unit, a[i]+b[i])
		z.low = min(z.low, min(0, a[i])+min(0, b[i]))
		z.high = max(z.high, max(0, exponent(x))+max(0, exponent(p.b[i])))
	}
	z.value, z.high = z.value.FromFloat64(sum), max(z.high, exponent(z.abs))
	return z
}
