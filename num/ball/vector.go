package ball

import "math"

// The functions here compute one operation for every place of vectors, in loops without calls. A
// vector of a single ball stands for one of any length. Each result has the bits of the method of
// the same name.

// AddAll sets out to a + b.
func AddAll(out, a, b []Ball) {
	switch {
	case len(b) != len(out):
		if len(a) != len(out) {
			fill(out, a[0].Add(b[0]))
			return
		}
		one := b[0]
		for j, x := range a {
			out[j] = x.Add(one)
		}
	case len(a) != len(out):
		one := a[0]
		for j, x := range b {
			out[j] = one.Add(x)
		}
	default:
		b = b[:len(a)]
		for j, x := range a {
			out[j] = x.Add(b[j])
		}
	}
}

// SubAll sets out to a - b.
func SubAll(out, a, b []Ball) {
	switch {
	case len(b) != len(out):
		if len(a) != len(out) {
			fill(out, a[0].Sub(b[0]))
			return
		}
		one := b[0]
		for j, x := range a {
			out[j] = x.Sub(one)
		}
	case len(a) != len(out):
		one := a[0]
		for j, x := range b {
			out[j] = one.Sub(x)
		}
	default:
		b = b[:len(a)]
		for j, x := range a {
			out[j] = x.Sub(b[j])
		}
	}
}

// MulAll sets out to a·b.
func MulAll(out, a, b []Ball) {
	switch {
	case len(b) != len(out):
		if len(a) != len(out) {
			fill(out, a[0].Mul(b[0]))
			return
		}
		y := b[0]
		reach := math.Abs(y.Mid) + y.Rad
		for j, x := range a {
			r := float64(math.Abs(x.Mid)*y.Rad) + float64(reach*x.Rad)
			if r == 0 && (x == Ball{} || y == Ball{}) {
				out[j] = Ball{}
				continue
			}
			out[j] = outward(x.Mid*y.Mid, r)
		}
	case len(a) != len(out):
		x := a[0]
		m := math.Abs(x.Mid)
		for j, y := range b {
			r := float64(m*y.Rad) + float64((math.Abs(y.Mid)+y.Rad)*x.Rad)
			if r == 0 && (x == Ball{} || y == Ball{}) {
				out[j] = Ball{}
				continue
			}
			out[j] = outward(x.Mid*y.Mid, r)
		}
	default:
		b = b[:len(a)]
		for j, x := range a {
			y := b[j]
			r := float64(math.Abs(x.Mid)*y.Rad) + float64((math.Abs(y.Mid)+y.Rad)*x.Rad)
			if r == 0 && (x == Ball{} || y == Ball{}) {
				out[j] = Ball{}
				continue
			}
			out[j] = outward(x.Mid*y.Mid, r)
		}
	}
}

// SqrAll sets out to a².
func SqrAll(out, a []Ball) {
	if len(a) != len(out) {
		fill(out, a[0].Sqr())
		return
	}
	for j, x := range a {
		if m := math.Abs(x.Mid); x.Rad <= m && m != 0 {
			out[j] = outward(float64(m*m)+float64(x.Rad*x.Rad), 2*m*x.Rad)
		} else {
			out[j] = x.Sqr()
		}
	}
}

func fill(out []Ball, x Ball) {
	for j := range out {
		out[j] = x
	}
}

// SumReach returns the sum of the terms (Ball.Sum), a sum of their largest magnitudes, in which each
// term is a little too large, and whether one of them reaches below 0.
func SumReach(terms []Ball) (sum Ball, abs float64, isBelow bool) {
	p := Ball{}.start()
	for _, x := range terms {
		p = p.plus(x)
		m := math.Abs(x.Mid) + x.Rad
		abs += m + float64(m*0x1p-51)
		if x.Mid < x.Rad {
			isBelow = true
		}
	}
	return p.total(len(terms)), abs, isBelow
}

// AddReach adds the largest magnitude of each ball, as Bounds has it, to totals, and takes note of
// known ones that reach below 0.
func AddReach(totals []float64, isBelow []bool, of []Ball) {
	totals, isBelow = totals[:len(of)], isBelow[:len(of)]
	for j, x := range of {
		s, e := twoSum(math.Abs(x.Mid), x.Rad)
		up := uint64(0)
		if e > 0 {
			up = 1
		}
		if s = math.Float64frombits(math.Float64bits(s) + up); !(s <= math.MaxFloat64) {
			s = math.Inf(1)
		}
		totals[j] += s
		if !(x.Rad <= x.Mid) {
			isBelow[j] = true
		}
	}
}

// Block is the number of terms that Sums add together.
const Block = 64

// Sums are sums of vectors, place by place. Each has the bits that Ball.Sum gives if it adds the
// first Block terms to 0, the next ones to that, and so on.
type Sums struct {
	parts []partialSum
	n     int
}

// NewSums returns sums of no terms, as many as the vectors have places.
func NewSums(places int) *Sums { return &Sums{parts: make([]partialSum, places)} }

// Add adds one term to each sum.
func (z *Sums) Add(terms []Ball) {
	if z.n == Block {
		for j, p := range z.parts {
			z.parts[j] = p.total(z.n).start()
		}
		z.n = 0
	}
	parts := z.parts[:len(terms)]
	for j, x := range terms {
		parts[j] = parts[j].plus(x)
	}
	z.n++
}

// Total sets out to the sums.
func (z *Sums) Total(out []Ball) {
	for j, p := range z.parts {
		out[j] = p.total(z.n)
	}
}
