package truth

import (
	"math"
	"slices"

	"tokitai/def"
	"tokitai/num"
)

// UsualOrders lists orders in which kernels add. For random terms the sequential order has the
// largest variance, but terms that cancel in one order may not cancel in another.
var UsualOrders = []def.Order{def.Sequential, {Kind: def.Pairwise}, {Kind: def.Lanes, Width: 2}, {Kind: def.Lanes, Width: 16}, {Kind: def.Chunks, Width: 2}}

// Deviation describes the error that rounding gives one sum in usual orders, forward and backward.
type Deviation struct {
	Least, Most float64 // standard deviations, as OrderVariance models them
	Actual      float64 // largest error in binary32, which is larger where roundings are alike
}

// mostKeptTerms is how many terms of the column sums of an output are kept for Deviation.
const mostKeptTerms = 1 << 22

// keepTerms keeps the terms that the current row adds to an output of column sums.
func (s *Stable) keepTerms(p *perturbation, n *def.Node) {
	for _, o := range s.call.d.Math().Outputs {
		if o.Value != n || n.Op != def.OpColSum || p.box.rows*p.box.cols > mostKeptTerms {
			continue
		}
		out := s.outputs[o.Operand]
		for _, x := range p.centre.values[n.Args[0].ID].x {
			out.terms = append(out.terms, x.Mid)
		}
	}
}

// Deviation returns the deviation of the sum that an element is, in units of the output; ok is
// false if the element is no sum of its own, or if that sum is exact or that of a tensor core.
func (s *Stable) Deviation(operand, row, col int) (d Deviation, ok bool) {
	terms, mayRound, scale, ok := s.termsOf(operand, row, col)
	if !ok {
		return d, false
	}
	d = deviationOf(terms, mayRound)
	return Deviation{d.Least * scale, d.Most * scale, d.Actual * scale}, true
}

// ChainDeviation returns the standard deviation of the same sum in sequential order, forward or
// backward, whichever is larger. That takes a fraction of the time.
func (s *Stable) ChainDeviation(operand, row, col int) (deviation float64, ok bool) {
	terms, mayRound, scale, ok := s.termsOf(operand, row, col)
	if !ok {
		return 0, false
	}
	return chainDeviation(terms, mayRound) * scale, true
}

// termsOf returns the terms of the sum that an element is, without zeros. They may be rounded before
// they are added, and their sum is multiplied by scale. They are valid until the next call.
func (s *Stable) termsOf(operand, row, col int) (terms []float64, mayRound bool, scale float64, ok bool) {
	if s.isInt(operand) || !s.Known(operand, row, col) {
		return nil, false, 0, false
	}
	if s.sums != nil {
		return s.sums.termsAt(row, col)
	}
	out := s.outputs[operand]
	if out == nil || out.terms == nil {
		return nil, false, 0, false
	}
	for cols := s.call.operands[operand].Cols; col < len(out.terms); col += cols {
		if x := out.terms[col]; x != 0 {
			terms = append(terms, x)
		}
	}
	return terms, true, 1, true
}

func (z *stableSums) termsAt(row, col int) (terms []float64, mayRound bool, scale float64, ok bool) {
	k := z.call
	if k.d.Copies() || k.d.Ring().IsExact() || k.Accum != def.FMAChain {
		return nil, false, 0, false
	}
	if z.termsOf == nil {
		of, err := z.form.terms.terms(k)
		if err != nil {
			return nil, false, 0, false
		}
		z.termsOf = of
	}
	p := z.termsOf(row, col)
	terms = z.terms64[:0]
	if p.init != 0 {
		terms = append(terms, p.init)
	}
	for i, a := range p.a {
		if x := a * p.b[i]; x != 0 {
			terms = append(terms, x)
		}
	}
	z.terms64 = terms
	scale = 1
	for _, x := range k.scalesOf(row, col) {
		scale *= math.Abs(x)
	}
	return terms, z.form.factors(k) == num.F32 && !z.form.areUnweighted(), scale, true
}

// deviationOf returns the deviation of a sum of terms.
func deviationOf(terms []float64, mayRound bool) Deviation {
	if len(terms) == 0 {
		return Deviation{}
	}
	lowest, ofTerms := lowestOf(terms), 0.0
	forward, rounded := slices.Clone(terms), slices.Clone(terms)
	sum := 0.0
	for i, x := range terms {
		sum += x
		if mayRound {
			ofTerms += varianceOfRounding(x, lowestBit(x))
			rounded[i] = float64(float32(x))
		}
	}
	d := Deviation{Least: math.Inf(1)}
	for range 2 {
		for _, o := range UsualOrders {
			variance := 0.0
			o.Walk(forward, func(partial float64) { variance += varianceOfRounding(partial, lowest) })
			d.Least, d.Most = min(d.Least, math.Sqrt(variance)), max(d.Most, math.Sqrt(variance+ofTerms))
			d.Actual = max(d.Actual, math.Abs(def.Fold(o, forward, addOnce)-sum))
			if mayRound {
				d.Actual = max(d.Actual, math.Abs(def.Fold(o, rounded, addOnce)-sum))
			}
		}
		slices.Reverse(forward)
		slices.Reverse(rounded)
	}
	return d
}

// addOnce returns a + b rounded once, to binary32. The sum in binary64 is rounded to odd first, so
// that it is no tie that the exact sum is not: products fused with their additions come that close.
func addOnce(a, b float64) float64 {
	sum := a + b
	part := sum - a
	if rest := (a - (sum - part)) + (b - part); rest != 0 && math.Float64bits(sum)&1 == 0 {
		sum = math.Nextafter(sum, math.Copysign(math.Inf(1), rest))
	}
	return float64(float32(sum))
}

func chainDeviation(terms []float64, mayRound bool) float64 {
	lowest, ofTerms, forward, backward := lowestOf(terms), 0.0, 0.0, 0.0
	sum, partial := 0.0, 0.0
	for _, x := range terms {
		sum += x
		if mayRound {
			ofTerms += varianceOfRounding(x, lowest)
		}
	}
	for i, x := range terms {
		if i > 0 {
			backward += varianceOfRounding(sum-partial, lowest)
		}
		if partial += x; i > 0 {
			forward += varianceOfRounding(partial, lowest)
		}
	}
	return math.Sqrt(max(forward, backward) + ofTerms)
}

// lowestOf returns the exponent of the last bit that any term has, and so any partial sum.
func lowestOf(terms []float64) int {
	lowest := noUnit
	for _, x := range terms {
		lowest = min(lowest, lowestBit(x))
	}
	return lowest
}

// varianceOfRounding returns the variance of the error of a result whose last bit is known, when it
// is rounded to binary32, in the model of OrderVariance. It is 0 if the result is exact.
func varianceOfRounding(result float64, last int) float64 {
	const exponent, bias = 0x7ff << 52, 1023
	power := math.Float64bits(result) & exponent
	if e := int(power>>52) - bias; e < -125 || e-23 <= last {
		return 0
	}
	m := math.Float64frombits(power)
	return float64(m*m) * (unit * unit / 3)
}
