package ball

import "math"

// The functions here are for derivatives: they compute one operation for every place of vectors, in
// loops without calls, or several places at once where the processor has instructions for that
// (slopes_amd64.s). Both have the same bits.

// Times multiplies a derivative by a slope: the product, but 0 times an unknown number is 0, because
// what does not depend on a value does not depend on what is unknown about it. The radius is that of
// Mul.
func (a Ball) Times(b Ball) Ball {
	if a.Mid == 0 && a.Rad == 0 || b.Mid == 0 && b.Rad == 0 {
		return Ball{}
	}
	m, k := math.Abs(a.Mid), math.Abs(b.Mid)
	r := float64(m*b.Rad) + float64((k+b.Rad)*a.Rad) + float64(float64(m*k)*0x1p-52)
	return Ball{float64(a.Mid * b.Mid), float64(r*grow) + tiny}
}

// SetProducts sets to to a times b (Times). A single b stands for a vector of any length.
func SetProducts(to, a, b []Ball) {
	to, b = to[:len(a)], ofLength(b, len(a))
	n := setManyProducts(to, a, b)
	if len(b) == 1 {
		for j := n; j < len(a); j++ {
			to[j] = a[j].Times(b[0])
		}
		return
	}
	for j := n; j < len(a); j++ {
		to[j] = a[j].Times(b[j])
	}
}

// AddProducts adds a times b (Times) to to. A single b stands for a vector of any length.
func AddProducts(to, a, b []Ball) {
	to, b = to[:len(a)], ofLength(b, len(a))
	n := addManyProducts(to, a, b)
	if len(b) == 1 {
		for j := n; j < len(a); j++ {
			to[j] = to[j].Add(a[j].Times(b[0]))
		}
		return
	}
	for j := n; j < len(a); j++ {
		to[j] = to[j].Add(a[j].Times(b[j]))
	}
}

// ofLength checks the length of b, which may be single.
func ofLength(b []Ball, n int) []Ball {
	if len(b) == 1 {
		return b
	}
	return b[:n]
}

// AddSigned adds a, or -a, to to.
func AddSigned(to, a []Ball, isNegative bool) {
	to = to[:len(a)]
	for j := addMany(to, a, isNegative); j < len(a); j++ {
		x := a[j]
		if isNegative {
			x = x.Neg()
		}
		to[j] = to[j].Add(x)
	}
}

// SetMeans sets to to (a + b)/2.
func SetMeans(to, a, b []Ball) {
	to, b = to[:len(a)], b[:len(a)]
	for j := setManyMeans(to, a, b); j < len(a); j++ {
		x := a[j].Add(b[j])
		m := Ball{x.Mid * 0.5, float64(x.Rad*0.5) + tiny}
		if (x == Ball{}) {
			m = x
		}
		to[j] = m
	}
}

// AddMagnitudes adds (|Mid|+Rad)·weight to totals, which may be a little less than the largest
// magnitude, by rounding.
func AddMagnitudes(totals []float64, a []Ball, weights []float64) {
	totals, weights = totals[:len(a)], weights[:len(a)]
	for j := addManyMagnitudes(totals, a, weights); j < len(a); j++ {
		totals[j] += float64((math.Abs(a[j].Mid) + a[j].Rad) * weights[j])
	}
}

// AddWeighted adds (|Mid|+Rad)·weight·grow to totals.
func AddWeighted(totals []float64, a []Ball, weight, grow float64) {
	totals = totals[:len(a)]
	for j := addManyWeighted(totals, a, weight, grow); j < len(a); j++ {
		totals[j] += float64((math.Abs(a[j].Mid) + a[j].Rad) * weight * grow)
	}
}

// Noise is what is added to the results of a step: errors of (|Mid|+Rad)·Relative + Absolute, up to
// rounding. An exact 0 stays. Its methods report whether a result may be beyond the limit, or is
// unknown, and whether one reaches below 0. In each, a vector of a single ball stands for one of any
// length.
type Noise struct {
	Relative, Absolute, Limit float64
	Errors                    []float64 // takes the errors; if it is nil, none are added
}

type stepKind int

const (
	copied stepKind = iota
	added
	subtracted
	multiplied
	squared
)

// Copy sets to to a with errors.
func (z *Noise) Copy(to, a []Ball) (isBeyond, isBelow bool) { return z.step(copied, to, a, a) }

// Add sets to to a + b with errors.
func (z *Noise) Add(to, a, b []Ball) (isBeyond, isBelow bool) { return z.step(added, to, a, b) }

// Sub sets to to a - b with errors.
func (z *Noise) Sub(to, a, b []Ball) (isBeyond, isBelow bool) { return z.step(subtracted, to, a, b) }

// Mul sets to to a·b with errors.
func (z *Noise) Mul(to, a, b []Ball) (isBeyond, isBelow bool) { return z.step(multiplied, to, a, b) }

// Sqr sets to to a² with errors.
func (z *Noise) Sqr(to, a []Ball) (isBeyond, isBelow bool) { return z.step(squared, to, a, a) }

func (z *Noise) step(kind stepKind, to, a, b []Ball) (isBeyond, isBelow bool) {
	a, b = ofLength(a, len(to)), ofLength(b, len(to))
	errors := z.Errors
	if errors != nil {
		errors = errors[:len(to)]
	}
	n, isBeyond, isBelow := z.stepMany(kind, to, a, b)
	if n == len(to) {
		return isBeyond, isBelow
	}
	rest := to[n:]
	if len(a) > 1 {
		a = a[n:]
	}
	if len(b) > 1 {
		b = b[n:]
	}
	switch kind {
	case copied:
		if len(a) < len(rest) {
			fill(rest, a[0])
		} else {
			copy(rest, a)
		}
	case added:
		AddAll(rest, a, b)
	case subtracted:
		SubAll(rest, a, b)
	case multiplied:
		MulAll(rest, a, b)
	case squared:
		SqrAll(rest, a)
	}
	if errors != nil {
		errors = errors[n:]
	}
	const grow = 1 + 0x1p-50
	for j, x := range rest {
		m := math.Abs(x.Mid)
		if errors != nil {
			w := 0.0
			if x != (Ball{}) {
				w = float64((float64((m+x.Rad)*z.Relative) + z.Absolute) * grow)
				x.Rad = float64((x.Rad + w) * grow)
				rest[j] = x
			}
			errors[j] = w
		}
		isBeyond = isBeyond || !(m+x.Rad <= z.Limit)
		isBelow = isBelow || x.Mid < x.Rad
	}
	return isBeyond, isBelow
}
