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

func fill(out []Ball, x Ball) {
	for j := range out {
		out[j] = x
	}
}
