package truth

import (
	"cmp"
	"math"
	"math/bits"

	"tokitai/def"
	"tokitai/num"
	"tokitai/num/ball"
	"tokitai/num/exact"
)

// Contractions, gathers and scatter-adds are the same over the real numbers: every
// element is init + Σ a[k]·b[k] of stored values, which a contraction may multiply by
// scales. They differ in the order of the binary32 additions.

// products are the terms of one element.
type products struct {
	a, b []float64
	init float64
}

// terms is what differs between forms whose one result is a sum of products of stored values.
type terms interface {
	// result returns the position of the result.
	result() int
	// factors returns the format of the factors.
	factors(k *call) num.DType
	// areUnweighted reports whether the second factors are all 1.
	areUnweighted() bool
	// check returns an error if the options do not fit.
	check(k *call) error
	// terms returns a function that returns the terms of an element, which are valid until its
	// next call.
	terms(k *call) (func(r, c int) products, error)
	// ownError bounds the error of the binary32 sum in the definition's own order.
	ownError(k *call, p products, abs float64) float64
}

// sums evaluates forms whose one result is a sum of products.
type sums struct{ terms }

func (s sums) enclose(k *call, r *Result) error {
	if err := s.check(k); err != nil {
		return err
	}
	r.enclosures = room[ball.Ball](k)
	return s.encloseAll(k, r.enclosures[s.result()])
}

// encloseAll encloses the elements of the result in out.
func (s sums) encloseAll(k *call, out []ball.Ball) error {
	if f, ok := s.terms.(productTerms); ok {
		return f.encloseAll(k, out)
	}
	terms, err := s.terms.terms(k)
	if err != nil {
		return err
	}
	result := k.operands[s.result()]
	for r := range result.Rows {
		if err := k.ended(); err != nil {
			return err
		}
		for c := range result.Cols {
			p, i := terms(r, c), r*result.Cols+c
			z := exact.Float64(p.a, p.b, p.init)
			if k.keep != nil {
				k.keep(i, p, z)
				continue
			}
			out[i] = s.encloseSum(k, p, z)
		}
	}
	return nil
}

// roundSums rounds sums of products, which are always decided.
func (s sums) round(k *call, z *Rounding, open *places) error {
	terms, err := s.terms.terms(k)
	if err != nil {
		return err
	}
	result := k.operands[open.operand]
	for row, columns := range open.columns {
		for _, c := range columns {
			p := terms(row, c)
			i := row*result.Cols + c
			if scales := k.scalesOf(row, c); len(scales) > 0 {
				z.Bits[i] = exact.RoundBig(result.DType, multiplied(exact.Big(p.a, p.b, p.init), scales))
			} else {
				z.Bits[i], _ = exact.Round(result.DType, p.a, p.b, p.init)
			}
			z.State[i] = ByBig
		}
	}
	return nil
}

// findGrid finds the elements of a contraction or a scatter-add whose sums of products, old value
// included, are exact in every order, wherever the scales are multiplied in.
func (s sums) findGrid(g *Grid, _ GridOptions) error {
	k := g.call
	if k.d.Copies() {
		for i := range g.at[s.result()] {
			g.at[s.result()][i] = true
		}
		return nil
	}
	terms, err := s.terms.terms(k)
	if err != nil {
		return err
	}
	bits := significand
	if m := k.Accum.Inner(); !s.areUnweighted() && m != def.FMAChain { // the largest term has F fractional bits, the result R
		if bits = min(bits, m.F+1); m.R > 0 {
			bits = min(bits, m.R+1)
		}
	}
	var row *float64
	var left []int
	columns := map[*float64][]int{}
	unitsOf := func(p products) (a, b []int) {
		if _, isProduct := s.terms.(productTerms); !isProduct { // elements share memory
			return units(p.a), units(p.b)
		}
		if row != &p.a[0] {
			row, left = &p.a[0], units(p.a)
		}
		at := &p.b[0]
		if columns[at] == nil {
			columns[at] = units(p.b)
		}
		return left, columns[at]
	}
	result := k.operands[s.result()]
	for r := range result.Rows {
		if err := k.ended(); err != nil {
			return err
		}
		for c := range result.Cols {
			p := terms(r, c)
			v := polynomial{}.FromFloat64(p.init)
			if len(p.a) > 0 {
				left, right := unitsOf(p)
				v = v.Add(sumOf(p, left, right))
			}
			for _, scale := range k.scalesOf(r, c) {
				v = v.Mul(v.FromFloat64(scale))
			}
			g.at[s.result()][r*result.Cols+c] = v.fits(bits)
		}
	}
	return nil
}

func (s sums) findForms(f *Forms) error {
	k := f.call
	result := k.operands[s.result()]
	terms := func(int, int) products { return products{} }
	if k.d.HasScales() {
		var err error
		if terms, err = s.terms.terms(k); err != nil {
			return err
		}
	}
	for r := range result.Rows {
		if err := k.ended(); err != nil {
			return err
		}
		for c := range result.Cols {
			one := form{isOne: true}
			if scales := k.scalesOf(r, c); len(scales) > 0 {
				one = formOfScaled(scales, terms(r, c))
			}
			f.at[s.result()][r*result.Cols+c] = one
		}
	}
	return nil
}

// encloseSum encloses the exact sum, or in mode Rounded every binary32 result of it.
func (s sums) encloseSum(k *call, p products, z exact.Product) ball.Ball {
	v := z.Ball()
	if k.Mode == Rounded && v.Known() {
		v = v.Widen(0, s.sumError(k, p, z.Abs))
	}
	return v
}

// sumError bounds the error of the binary32 sum, in Options.Order or in the definition's
// own order; +Inf if it may overflow. abs is at least |init| + Σ|a·b|.
func (s sums) sumError(k *call, p products, abs float64) float64 {
	switch {
	case k.d.Copies():
		return 0
	case k.Order != nil && k.Accum == def.FMAChain:
		return s.orderError(k, *k.Order, len(p.a), abs)
	case k.Order != nil && k.Accum.P == 0:
		return max(s.orderError(k, *k.Order, len(p.a), abs), stepsError(p, s.factors(k), k.Accum))
	}
	return s.ownError(k, p, abs)
}

// accumError bounds the error of a sum by an accumulation rule.
func accumError(p products, d num.DType, m def.Accum, abs float64, accumulates bool) float64 {
	switch {
	case len(p.a) == 0:
		return 0
	case m.P > 0:
		return panelsError(p, d, m, abs, accumulates)
	case m != def.FMAChain:
		return mmaError(p, d, m, abs)
	}
	return chainError(p, d != num.F32, abs)
}

// panelsError bounds the error of panels and the tree over them. Panel i is off by e_i, the
// error of its own sum. Its computed sum s_i, |s_i| <= a_i + e_i with a_i the sum of its
// products' magnitudes, then passes the additions of the tree, and one more to the old
// result c, h in all, and ends up as (1+δ)^h of itself. Additions do not underflow. So the
// whole is off by
//
//	Σ e_i + gamma(h)·(|c| + Σ (a_i + e_i))
//
// at most. The a_i add up to abs - |c|, which abs bounds.
func panelsError(p products, d num.DType, m def.Accum, abs float64, accumulates bool) float64 {
	errors, count, depth := 0.0, 0, m.PanelDepth(len(p.a))
	for k := 0; k < len(p.a); k += depth {
		end := min(k+depth, len(p.a))
		errors += accumError(products{a: p.a[k:end], b: p.b[k:end]}, d, m.Inner(), abs, false)
		count++
	}
	height := bits.Len(uint(count - 1))
	if accumulates {
		height++
	}
	g := gamma(height)
	errors *= 1 + float64(count)*0x1p-52 // of this sum
	if !((abs+errors)*(1+g) <= math.MaxFloat32) {
		return math.Inf(1)
	}
	return (errors + float64(g*(abs+errors))) * (1 + 0x1p-50)
}

// orderError bounds the error of a sum of K products in an order. A scatter-add of f16 is
// then added in binary32 too.
//
// A term that goes through r roundings is multiplied by (1+δ)^r, so the error of the sum is
// at most gamma(r)·Σ|a·b|. The order gives the number of additions in r. A product of binary32
// factors is rounded once more, unless it is fused with an addition; stored values and
// products of 16-bit factors are not. If these are binary32 numbers, which products of bf16
// that underflow are not, the error is at most that of shape.factor.
//
// If a product is subnormal, it or the addition that it is fused with has an additional error
// of 2^-150, once for each product, which the additions that follow multiply by at most 1+gamma.
//
// An old value is one more term. It may be anywhere in a declared order, or be added to the
// sum of the others, which takes one more addition; the height of an order that is given only
// by its height includes it.
func (form sums) orderError(k *call, order def.Order, K int, abs float64) float64 {
	if K == 0 {
		return 0
	}
	s := shape{n: K, order: order}
	h := s.height()
	if k.d.Accumulates() {
		s.n++
		if h = s.height(); s.isFixed() {
			h = max(h, s.order.Height(K)+1)
		}
	}
	g, lost := gamma(h), 0.0
	if d := form.factors(k); form.areUnweighted() || d == num.F16 || d.IsFP8() {
		g = min(g, float64(s.n-1)*unit)
	} else {
		if d == num.F32 {
			g = gamma(h + 1)
		}
		lost = float64(K) * tiny * (1 + g)
	}
	if !(float64(abs*(1+g))+lost <= math.MaxFloat32) {
		return math.Inf(1)
	}
	return float64(abs*g) + lost
}

// stepsError bounds the error of a sum of K products on a tensor core (num.MMA) in any
// order: L products at a time, added to one of any number of partial sums, which are added
// up in binary32, as is an old value. That takes S = K/L steps, rounded up, at most S - 1
// additions of partial sums, and one of the old value.
//
// No partial sum, and no term of a step, exceeds M + e, where M is the sum of all
// magnitudes and e the error of the whole. With mmaError's bounds for a step,
//
//	e <= (N·2^-F + S·2^-R + S·2^-24)·(M + e) + N·2^-F·2^-126 + S·2^-(126+R)
//
// where R is 23 for results of binary32, and N = K, or K + S if F < 23.
// A subnormal counts with the smallest normal exponent of its format.
func stepsError(p products, d num.DType, accum def.Accum) float64 {
	least := num.ULP(d, 0) / num.ULP(d, 1)
	m := math.Abs(p.init)
	for j, a := range p.a {
		if b := p.b[j]; a != 0 && b != 0 {
			m += float64(max(math.Abs(a), least) * max(math.Abs(b), least))
		}
	}
	K := len(p.a)
	S := float64((K + accum.L - 1) / accum.L)
	m *= 1 + float64(K)*0x1p-50 // of this sum
	lost := float64(float64(K) * math.Ldexp(1, -accum.F))
	if accum.F < accFraction {
		lost += float64(S * math.Ldexp(1, -accum.F))
	}
	last := math.Ldexp(1, -cmp.Or(accum.R, 23))
	relative := (lost + float64(S*(last+0x1p-24))) * (1 + 0x1p-50)
	if relative >= 0.5 {
		return math.Inf(1)
	}
	e := (float64(relative*m) + float64(lost*0x1p-126) + float64(S*last)*0x1p-126) / (1 - relative) * (1 + 0x1p-50)
	if !(m+e <= math.MaxFloat32) {
		return math.Inf(1)
	}
	return e
}

// chainError returns a running bound for acc = fma(a[k], b[k], acc), k ascending. With s_k
// the exact partial sum and E_k the error of the computed one,
//
//	E_k <= E_(k-1) + u·|s_k + (error of the one before)| + η
//	    <= (1+u)·E_(k-1) + u·|s_k| + η,   so   E_K <= (u·Σ|s_k| + K·η) / (1-K·u),
//
// since (1+u)^K <= 1/(1-K·u). Factors of 16 bits have exact products, so that a first
// step from +0 does not round relatively. The partial sums computed here are off by at
// most K·2^-53·abs each.
func chainError(p products, isNarrow bool, abs float64) float64 {
	s, sum, largest := p.init, 0.0, 0.0
	for k := range p.a {
		s += float64(p.a[k] * p.b[k])
		m := math.Abs(s)
		largest = max(largest, m)
		if k > 0 || p.init != 0 || !isNarrow {
			sum += m
		}
	}
	K := float64(len(p.a))
	if K*unit >= 0.5 {
		return math.Inf(1)
	}
	slack := float64(K*0x1p-52) * abs
	e := (float64(unit*(sum+float64(K*slack))) + float64(K*tiny)) / (1 - K*unit) * (1 + K*0x1p-50)
	if !(largest+slack+e <= math.MaxFloat32) {
		return math.Inf(1)
	}
	return e
}

// accFraction is the number of fractional bits of an accumulator in binary32. Products of
// factors of 16 bits have fewer.
const accFraction = 23

// mmaError returns a running bound for steps of L products on a tensor core (num.MMA). A
// step aligns all terms at the largest exponent, that is, below the magnitude m of the
// largest term, and each loses less than 2^-F·m. One that has the largest exponent loses
// nothing if F >= 23, the most fractional bits that a term has, so that L of L+1 terms do.
// Then the sum loses less than 2^-R of itself, or 2^-(126+R), where R is 23 for results of
// binary32. A subnormal counts with the smallest normal exponent of its format.
func mmaError(p products, d num.DType, accum def.Accum, abs float64) float64 {
	least := num.ULP(d, 0) / num.ULP(d, 1)
	magnitude := func(x float64) float64 {
		if x == 0 {
			return 0
		}
		return max(math.Abs(x), least)
	}
	last := math.Ldexp(1, -cmp.Or(accum.R, 23))
	terms := float64(accum.L)
	if accum.F < accFraction {
		terms++
	}
	K := float64(len(p.a))
	slack := float64(K*0x1p-52) * abs // of the partial sums computed here
	s, e := p.init, 0.0
	for k := 0; k < len(p.a); k += accum.L {
		m := max(math.Abs(s)+slack+e, 0x1p-126)
		for j := k; j < min(k+accum.L, len(p.a)); j++ {
			m = max(m, magnitude(p.a[j])*magnitude(p.b[j]))
			s += float64(p.a[j] * p.b[j])
		}
		e += float64(terms*m) * math.Ldexp(1, -accum.F)
		e += float64((math.Abs(s)+slack+e)*last) + last*0x1p-126
		if !(math.Abs(s)+slack+e <= math.MaxFloat32) {
			return math.Inf(1)
		}
	}
	return e * (1 + K*0x1p-50)
}
