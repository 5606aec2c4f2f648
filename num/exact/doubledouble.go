package exact

import "math"

// doubleDouble returns the sum as s+c (|c| at most half an ulp of s), off by at most r;
// abs is an upper bound of the sum of all magnitudes.
//
// Error. Each addition s+p leaves an exact error e_i, |e_i| <= u|s_i| <= uA(1+Ku),
// u = 2^-53; fewer than n = K+4 of them are added up in c with a relative error of
// nu altogether: |S - (s+c)| <= nu*Σ|e_i| <= (nu)²A(1+2nu). Below nu is twice that, and
// the factor four covers a rounding of c±r too: |c| <= u|s|, so it is below 2u²A.
func doubleDouble[E Operand](a, b []E, init E, abs float64) (s, c, r float64) {
	s, c = compensated(a, b, float64(init))
	nu := float64(len(a)+4) * 0x1p-52
	s, c = twoSum(s, c)
	return s, c, abs * nu * nu
}

// compensated returns the sum and, separately, the sum of its rounding errors, in
// two lanes.
func compensated[E Operand](a, b []E, init float64) (s, c float64) {
	s0, c0, s1, c1 := init, 0.0, 0.0, 0.0
	for len(a) >= 2 && len(b) >= 2 {
		p, q := float64(a[0])*float64(b[0]), float64(a[1])*float64(b[1])
		var d, e float64
		s0, d = twoSum(s0, float64(p))
		s1, e = twoSum(s1, float64(q))
		c0, c1 = c0+d, c1+e
		a, b = a[2:], b[2:]
	}
	if len(a) > 0 {
		var d float64
		s0, d = twoSum(s0, float64(float64(a[0])*float64(b[0])))
		c0 += d
	}
	s, e := twoSum(s0, s1)
	return s, (c0 + c1) + e
}

// twoSum returns x+y rounded, and the rounding error exactly (Knuth).
func twoSum(x, y float64) (s, e float64) {
	s = x + y
	v := s - x
	return s, (x - (s - v)) + (y - v)
}

// oddSum returns x+y rounded to odd.
func oddSum(x, y float64) float64 {
	s, e := twoSum(x, y)
	bits := math.Float64bits(s)
	if e == 0 || bits&1 == 1 {
		return s
	}
	if (e > 0) == (s > 0) {
		return math.Float64frombits(bits + 1)
	}
	return math.Float64frombits(bits - 1)
}
