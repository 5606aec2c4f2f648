package truth

import (
	"math"

	"tokitai/def"
	"tokitai/num/ball"
	"tokitai/num/exact"
)

// stableSums holds the elements of a definition that is not rowwise: exact sums, and the data from
// which their error in an order of any height is computed.
type stableSums struct {
	form  sums
	call  *call // in mode Rounded
	sums  []exact.Product
	terms []int32      // products, without an old value
	least []float64    // error that no order avoids, of a model that is not a chain; may be nil
	sizes [][2]float64 // Σ|a| and Σ|b|, where scales may be multiplied into the factors or subnormal factors be zeros; may be nil
	most  int          // of the terms

	isFlushed bool // subnormal numbers may become zeros

	// Made when termsAt is first asked.
	termsOf func(row, col int) products
	terms64 []float64
}

// A subnormal number that becomes a zero loses less than this.
const smallestNormal = 0x1p-126

func (form sums) encloseStable(s *Stable) error {
	k := *s.call
	k.Mode = Rounded
	if err := form.check(&k); err != nil {
		return err
	}
	result := &k.operands[form.result()]
	n := result.Rows * result.Cols
	z := &stableSums{form: form, call: &k, sums: make([]exact.Product, n), terms: make([]int32, n)}
	if k.Accum != def.FMAChain {
		z.least = make([]float64, n)
	}
	if z.isFlushed = s.o.Declares.FlushesSubnormals; z.isFlushed || k.d.HasScales() {
		z.sizes = make([][2]float64, n)
	}
	k.keep = func(i int, p products, sum exact.Product) {
		z.sums[i], z.terms[i] = sum, int32(len(p.a))
		z.most = max(z.most, len(p.a))
		if z.sizes != nil {
			z.sizes[i] = sizesOf(p)
		}
		switch {
		case z.least == nil:
		case k.Accum.P > 0:
			z.least[i] = accumError(p, form.factors(&k), k.Accum, sum.Abs, k.d.Accumulates())
		default:
			z.least[i] = stepsError(p, form.factors(&k), k.Accum)
		}
	}
	s.sums = z
	return form.encloseAll(&k, nil)
}

// exact encloses the exact result.
func (z *stableSums) exact(i, row, col int) ball.Ball {
	k := *z.call
	k.Mode = Exact
	return k.encloseScaled(z.sums[i].Ball(), row, col)
}

// at encloses the results of an order of at most the given height.
func (z *stableSums) at(i, row, col, height int) ball.Ball {
	v := z.sums[i].Ball()
	if !v.Known() {
		return v
	}
	v = v.Widen(0, z.error(i, height))
	if z.isFlushed {
		v = v.Widen(0, z.flushed(i))
	}
	if z.call.d.HasScales() {
		return z.scaled(i, v, row, col)
	}
	return v
}

// sizesOf returns Σ|a| and Σ|b|, rounded up.
func sizesOf(p products) (sizes [2]float64) {
	for i := range p.a {
		sizes[0] += math.Abs(p.a[i])
		sizes[1] += math.Abs(p.b[i])
	}
	for i := range sizes {
		sizes[i] *= 1 + float64(len(p.a))*0x1p-52
	}
	return sizes
}

// flushed bounds the error if every subnormal number becomes zero: the factors, each multiplied by
// the other one; the products; the partial sums; the old value, and the result. Zeros have no
// error.
func (z *stableSums) flushed(i int) float64 {
	if z.call.d.Copies() || z.sums[i].Abs == 0 {
		return 0
	}
	lost := 2*float64(z.terms[i]) + 2
	if !z.form.areUnweighted() {
		lost += z.sizes[i][0] + z.sizes[i][1]
	}
	return smallestNormal * lost * (1 + 0x1p-40)
}

// scaled multiplies a sum by the scales r of its row and c of its column in any way: one after
// the other, with each other first, or into the factors. That takes two more roundings of the sum,
// or three more of every product. A subnormal intermediate result has an error of eta: s·r, which
// is multiplied by c; s·c; r·c, which is multiplied by the sum; each a·r and b·c; and the result.
// If the definition's own steps may overflow, the result is unknown.
func (z *stableSums) scaled(i int, sum ball.Ball, row, col int) ball.Ball {
	k, size := z.call, z.sums[i].Abs
	own := k.encloseScaled(sum, row, col)
	if !own.Known() || size == 0 {
		return own
	}
	r, c, eta := 1.0, 1.0, tiny
	if at := k.d.Operand(k.d.Scales().Row); at >= 0 {
		r = float64(k.operands[at].At(row, 0))
	}
	if at := k.d.Operand(k.d.Scales().Col); at >= 0 {
		c = float64(k.operands[at].At(col, 0))
	}
	if r == 0 || c == 0 {
		return own
	}
	if z.isFlushed {
		eta = smallestNormal
	}
	once := max(math.Abs(c), math.Abs(r), size)
	each := float64(math.Abs(c)*z.sizes[i][1]) + float64(math.Abs(r)*z.sizes[i][0]) + 2*float64(z.terms[i])
	return sum.Widen(0, 4*unit*size).Mul(ball.FromFloat64(r)).Mul(ball.FromFloat64(c)).Widen(4*unit, 2*eta*(1+max(once, each)))
}

func (z *stableSums) error(i, height int) float64 {
	k, terms, least := z.call, int(z.terms[i]), 0.0
	if z.least != nil {
		least = z.least[i]
	}
	switch {
	case k.d.Copies() || k.Accum.P > 0:
		return least
	case k.d.Ring().IsExact():
		return unit * z.sums[i].Abs
	}
	return max(least, z.form.orderError(k, z.orderOf(terms, height), terms, z.sums[i].Abs))
}

// orderOf returns the order of a sum: the declared one, or the one of the given height if that
// is lower.
func (z *stableSums) orderOf(terms, height int) def.Order {
	if order := *z.call.Order; height >= z.heightOf(order, terms) {
		return order
	}
	return def.Order{Kind: def.Height, Width: max(height, 0)}
}

// heightOf returns the height of a sum of products and, if the definition accumulates, an old
// value.
func (z *stableSums) heightOf(order def.Order, terms int) int {
	h := order.Height(terms)
	if z.call.d.Accumulates() {
		h = max(h, order.Height(terms+1))
		if order.IsDeclared() && terms > 0 {
			h = max(h, order.Height(terms)+1)
		}
	}
	return h
}

func (z *stableSums) mostHeight() int {
	if z.call.d.Copies() || z.call.d.Ring().IsExact() || z.call.Accum.P > 0 {
		return 0
	}
	return z.heightOf(*z.call.Order, z.most)
}
