package attention

import (
	"math"

	"tokitai/bound"
	"tokitai/num"
	"tokitai/op"
)

// query is one row of a call, a query and head, in binary64.
type query struct {
	place     int // in its sequence
	keys      []int
	products  []float64 // the sum of |q*k|, by key
	exponents []float64
	largest   float64
}

// queries returns the queries of a call by their row of o.
type queries struct {
	call           *bound.Call
	q, k, v        num.Array
	groups, shared int // G and J
	kappa          float64
	at             func(row int) *query
}

func queriesOf(c *bound.Call) *queries {
	operand := func(name string) num.Array { return c.Operands[c.Definition.Operand(name)] }
	z := &queries{call: c, q: operand("q"), k: operand("k"), v: operand("v"), kappa: c.Param("kappa")}
	z.groups = z.q.Batch.Axes[1].Size
	z.shared = z.q.Rows / max(1, z.q.Matrices())
	z.at = op.ByRow(z.read)
	return z
}

// row returns the row of o that a place of an output belongs to.
func (z *queries) row(operand, row, col int) int {
	if z.call.Definition.Operands[operand].Name == "lse" {
		return row*z.shared + col
	}
	return row
}

// group returns the group of a row of o.
func (z *queries) group(row int) int { return row / z.shared % z.groups }

// read computes the exponents of a row.
func (z *queries) read(row int) *query {
	starts := z.call.Operands[z.call.Definition.Operand("qstart")]
	token, b := row/(z.groups*z.shared), 0
	for token >= int(starts.Int(b+1, 0)) {
		b++
	}
	n, place := z.keysOf(b)
	x := &query{place: n - (int(starts.Int(b+1, 0)) - token), largest: math.Inf(-1)}
	for key := range x.place + 1 {
		at := place(key)*z.groups + z.group(row)
		sum, abs := 0.0, 0.0
		for d := range z.q.Cols {
			product := float64(z.q.At(row, d)) * float64(z.k.At(at, d)) // exact
			sum, abs = sum+product, abs+math.Abs(product)
		}
		x.keys = append(x.keys, at)
		x.products = append(x.products, abs)
		x.exponents = append(x.exponents, sum*z.kappa)
		x.largest = math.Max(x.largest, sum*z.kappa)
	}
	return x
}

// keysOf returns how many keys a sequence has, and where each of them lies.
func (z *queries) keysOf(b int) (n int, place func(key int) int) {
	operand := func(name string) *num.Array { return &z.call.Operands[z.call.Definition.Operand(name)] }
	if z.call.Definition.Operand("kstart") >= 0 {
		starts := operand("kstart")
		first := int(starts.Int(b, 0))
		return int(starts.Int(b+1, 0)) - first, func(key int) int { return first + key }
	}
	pages, each := operand("pages"), z.k.Batch.Axes[1].Size
	return int(operand("klen").Int(b, 0)), func(key int) int { return int(pages.Int(b, key/each))*each + key%each }
}
