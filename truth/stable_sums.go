package truth

import (
	"tokitai/def"
	"tokitai/num/ball"
	"tokitai/num/exact"
)

// stableSums holds the elements of a definition that is not rowwise: exact sums, and what their
// error in an order of any height is computed from.
type stableSums struct {
	call  *call // in mode Rounded
	sums  []exact.Product
	terms []int32   // products, without an old value
	least []float64 // error that no order avoids, of a model that is not a chain; may be nil
	most  int       // of the terms
}

// encloseSums evaluates a definition that is not rowwise.
func (s *Stable) encloseSums() error {
	k := *s.call
	k.Mode = Rounded
	if k.d.Kind == def.KindContraction {
		if err := k.Model.Takes(k.operands[0].DType); err != nil {
			return err
		}
	}
	n := k.operands[2].Rows * k.operands[2].Cols
	z := &stableSums{call: &k, sums: make([]exact.Product, n), terms: make([]int32, n)}
	if k.Model != def.FMAChain {
		z.least = make([]float64, n)
	}
	k.keep = func(i int, p products, sum exact.Product) {
		z.sums[i], z.terms[i] = sum, int32(len(p.a))
		z.most = max(z.most, len(p.a))
		switch {
		case z.least == nil:
		case k.Model.P > 0:
			z.least[i] = modelError(p, k.operands[0].DType, k.Model, sum.Abs, k.d.Accumulate)
		default:
			z.least[i] = k.stepsError(p)
		}
	}
	s.sums = z
	return k.encloseSums(nil)
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
	return z.call.encloseScaled(v.Widen(0, z.error(i, height)), row, col)
}

func (z *stableSums) error(i, height int) float64 {
	k, terms, least := z.call, int(z.terms[i]), 0.0
	if z.least != nil {
		least = z.least[i]
	}
	if k.d.Kind == def.KindGather || k.Model.P > 0 {
		return least
	}
	return max(least, k.orderError(z.orderOf(terms, height), terms, z.sums[i].Abs))
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
	if z.call.d.Accumulate {
		h = max(h, order.Height(terms+1))
		if order.IsDeclared() && terms > 0 {
			h = max(h, order.Height(terms)+1)
		}
	}
	return h
}

func (z *stableSums) mostHeight() int {
	if z.call.d.Kind == def.KindGather || z.call.Model.P > 0 {
		return 0
	}
	return z.heightOf(*z.call.Order, z.most)
}
