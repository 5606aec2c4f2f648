package ball

import "math"

// Elementary functions of a float64, each with a proven relative error. They do not
// call the functions of package math, which are assembly on some machines and have
// no proof; math.Exp on amd64 has been measured at 1.76 ulp.
//
// Notation: u = 2^-53; one operation rounds by at most u relatively, and by at most
// 2^-61 absolutely if the result is below 2^-7. All tables and constants are in
// tables.go, computed at 300 bits. The bounds hold for results of at least 2^-1022
// in magnitude; below that 2^-1074 is to be added (every caller's radius has it).
const (
	expErr     = 0x1.1p-53
	expm1Err   = 0x1p-50
	logErr     = 0x1p-51
	log2Err    = 0x1.8p-51
	log1pErr   = 0x1.4p-51
	tanhErr    = 0x1.5p-50
	sigmoidErr = 0x1p-51

	expMin, expMax   = -700, 709   // where pointExp and pointExpm1 are proven
	exp2Min, exp2Max = -1009, 1023 // where pointExp2 is
)

// reduce writes x = k*ln2/64 + r, |r| <= 0.005416 < 2^-7.5, for |x| <= 709.
//
// Adding 1.5*2^52 rounds fl(x*64/ln2) to the integer k; constant and product are
// off by less than 2^16*2^-52, so |x - k*ln2/64| <= (1/2 + 2^-36)*ln2/64.
//
// Error of r. ln2/64 = ln64Hi + ln64Lo, ln64Hi cut to a multiple of 2^-41. For k = 0,
// r = x exactly. Otherwise |k| < 2^16, so k*ln64Hi is an exact product, a multiple of
// 2^-41; |x| >= 2^-8, so x is a multiple of 2^-60; their difference is a multiple of
// 2^-60 below 2^-7, exact. k*ln64Lo < 2^-25 is off by less than 2^-77. The last
// subtraction rounds by at most 2^-61. In all: |error of r| <= 2^-61 + 2^-77.
func reduce(x float64) (k int, r float64) {
	t := float64(x*inv64) + 0x1.8p52
	n := t - 0x1.8p52
	return int(int32(math.Float64bits(t))), (x - float64(n*ln64Hi)) - float64(n*ln64Lo)
}

// expm1Poly returns the Taylor polynomial of degree 6 of exp(r)-1, |r| < 2^-7.5.
//
// The remainder is below r^7/5040*1.01 < 2^-64.7, relatively to r below 2^-57.2.
// p = r + r²q with |r²q| < 2^-16, whose handful of roundings stay below
// 2^-66.5 (relatively to r: 0.02u). The last addition rounds by u|p|, at most 2^-61.
//
//	absolute error against exp(r)-1:            2^-61 + 2^-66.5 + 2^-64.7 <= 2^-60.85
//	relative error:                             1.1u
//	absolute error including that of r (k≠0):   2^-60.85 + 1.01*(2^-61+2^-77) <= 2^-59.9
func expm1Poly(r float64) float64 {
	s := r * r
	lo := 0.5 + float64(r*(1.0/6))
	hi := (1.0/24 + float64(r*(1.0/120))) + float64(s*(1.0/720))
	return r + float64(s*(lo+float64(s*hi)))
}

// pointExp returns exp(x) for expMin <= x <= expMax, relative error at most expErr.
//
// exp(x) = 2^n * T * exp(r), T = 2^(j/64) = hi + lo, |lo| <= 2^-53. With P the exact
// exp(r)-1, T*exp(r) = hi + (lo + hi*P + lo*P), and the computed bracket is off by
//
//	hi*2^-59.9          error of p, hi < 2
//	2^-60 + 2^-60       roundings of hi*p and of the sum, both below 2^-6
//	2^-60.5             lo*P left out
//
// together below 2^-57.6. The last addition rounds by at most u relatively, so the
// relative error is at most u + 2^-57.6/0.994 + u*2^-57 < 1.05u. Scaling by
// 2^n is exact: -1010 <= n <= 1023 and the result is normal.
func pointExp(x float64) float64 {
	k, r := reduce(x)
	t := &expTable[k&63]
	y := t.hi + (t.lo + float64(t.hi*expm1Poly(r)))
	return float64(y * pow2(k>>6))
}

// pointExp2 returns 2^x for exp2Min <= x <= exp2Max, relative error at most expErr; exact
// where x is an integer.
//
// x = k/64 + f exactly: x*64 rounds to the integer k, and f, |f| <= 2^-7, is a multiple
// of the last bit of x. r = f*ln2 is off by 2u relatively, ln 2 and the product having
// one rounding each, absolutely by less than 2^-59.5. So in the bracket of pointExp
// hi*2^-59.9 becomes 2*(2^-59.5 + 2^-60.85), and all of it stays below 2^-57.2: the
// relative error is at most u + 2^-57.2/0.994 + u*2^-57 < 1.06u.
func pointExp2(x float64) float64 {
	shift := float64(x*64) + 0x1.8p52
	k := int(int32(math.Float64bits(shift)))
	f := x - (shift-0x1.8p52)*(1.0/64)
	t := &expTable[k&63]
	y := t.hi + (t.lo + float64(t.hi*expm1Poly(float64(f*math.Ln2))))
	return float64(y * pow2(k>>6))
}

// pointExpm1 returns exp(x)-1 for expMin <= x <= expMax, relative error at most expm1Err.
//
// For k = 0 it is expm1Poly(x): 1.1u. Otherwise
//
//	exp(x)-1 = (2^n*hi - 1) + 2^n*(lo + hi*P + lo*P)
//
// with the second bracket off by e: for hi < 1.02 at most
// 1.02*2^-59.9 + 2^-61 + 2^-61 + 2^-60.5 < 2^-58.3, in general 2^-57.6 as above.
//
//	k = 1:         result > 0.0054; e < 2^-58.3: relative 2^-50.7, plus u
//	k = -1:        n = -1, 2^n*e < 2^-58.6, |result| > 0.0054: relative 2^-51, plus u
//	|k| > 1:       |result| > 0.016*max(1, 2^n): e gives 2^-51.6, plus below
//
// 2^n*hi - 1 is exact for n = 0 and n = -1 (Sterbenz); for n > 0 and n < -1 it rounds
// once more, by at most 2u of the result. In every case less than 2^-50.
func pointExpm1(x float64) float64 {
	k, r := reduce(x)
	t := &expTable[k&63]
	p := t.lo + float64(t.hi*expm1Poly(r))
	s := pow2(k >> 6)
	return (float64(s*t.hi) - 1) + float64(s*p)
}

// pointLog returns the natural logarithm of x > 0, relative error at most logErr.
//
// x = 2^k*m, m in [sqrt(1/2), sqrt(2)), i = round(128m), c near 128/i a multiple of
// 2^-16 below 2, f = m*c - 1, so
//
//	log x = k*ln2 - log c + log(1+f),  |f| <= 2^-8*1.41 + 1.42*2^-17 < 2^-7.5.
//
// m is split into two halves of at most 27 bits, so both products with c (17 bits)
// are exact, as is mh*c - 1; f rounds once, by at most 2^-61. For i = 128, c = 1
// and f = m-1 is exact. log(1+f) is the series of degree 7, remainder below
// f^8/8*1.01 < 2^-62.9; p = f²q < 2^-16 is off by less than 2^-66.5.
// The upper parts of ln2 and -log c are multiples of 2^-42, so h is exact; the lower
// parts and their sums, below 2^-32, are off by less than 2^-84.
//
//	i = 128, k = 0:  h = 0, the result is fl(f + p): u + 2^-8*(5u) + 2^-59 < 1.1u
//	otherwise:       |log x| > 0.0038; the second bracket is off by
//	                 1.01*2^-61 (f) + 2^-61 (its last sum) + 2^-62.9 + 2^-66 < 2^-59.7,
//	                 relative 2^-51.6, plus u for the last sum: below 2^-51.1
func pointLog(x float64) float64 {
	ix := math.Float64bits(x)
	k := 0
	if x < tiny {
		ix, k = math.Float64bits(float64(x*0x1p54)), -54
	}
	const sqrtHalf = 0x3fe6a09e667f3bcd
	e := int64(ix-sqrtHalf) >> 52
	ix -= uint64(e) << 52
	n := float64(k + int(e))
	m := math.Float64frombits(ix)
	mh := math.Float64frombits(ix &^ (1<<27 - 1))
	t := &logTable[int(float64(m*128)+0.5)-logFirst]

	f := (float64(mh*t.c) - 1) + float64((m-mh)*t.c)
	h := float64(n*ln2Hi) + t.hi
	return h + (f + ((float64(n*ln2Lo) + t.lo) + log1pRest(f)))
}

// log1pRest returns log(1+f) - f, the series of degree 7, for |f| < 2^-7.5.
func log1pRest(f float64) float64 {
	s := float64(f * f)
	q := float64(f*(1.0/3)) - 0.5
	q += float64(s * (float64(f*(1.0/5)) - 0.25))
	q += float64(float64(s*s) * (float64(f*(1.0/7)) - 1.0/6))
	return float64(s * q)
}

// pointLog2 returns the binary logarithm of x > 0, relative error at most log2Err: that of
// pointLog, below 2^-51.1, and 2u for 1/ln 2 and the product.
func pointLog2(x float64) float64 { return float64(pointLog(x) * math.Log2E) }

// pointLog1p returns log(1+x) for x > -1, relative error at most log1pErr.
//
// Up to 2^-8 it is the series of pointLog, where its error is below 1.1u. Beyond,
// 1+x = s+e exactly with |e| <= u*s, and log(1+x) = log(s) + log(1+e/s); e/s stands for
// the last logarithm within u², and its own rounding is u² too. pointLog is off by
// 2^-51.1 of a number that differs from the result, at least 0.0038, by u at most; the
// sum rounds by u: below 4.8u in all.
func pointLog1p(x float64) float64 {
	if math.Abs(x) <= 0x1p-8 {
		return x + log1pRest(x)
	}
	s, e := twoSum(1, x)
	return pointLog(s) + e/s
}

// pointTanh returns tanh(x) = e/(e+2), e = expm1(2|x|), relative error at most tanhErr.
//
// The relative error of e is multiplied by 2/(e+2) <= 1, the sum and the quotient
// round by u each: 2^-50 + 2u(1+u) < 1.3*2^-50. Beyond 20, 1 - tanh(x) < 2^-56.
func pointTanh(x float64) float64 {
	a := math.Abs(x)
	y := 1.0
	if a <= 20 {
		e := pointExpm1(2 * a)
		y = e / (e + 2)
	}
	return math.Copysign(y, x)
}

// pointSigmoid returns 1/(1+exp(-x)) for |x| <= 700, relative error at most sigmoidErr, with
// e = exp(-|x|) for the slope e/(1+e)². The relative error 1.05u of e counts at most
// once, the sum and the quotient round by u each: 3.1u < 2^-51.
func pointSigmoid(x float64) (y, e float64) {
	e = pointExp(-math.Abs(x))
	if x >= 0 {
		return 1 / (1 + e), e
	}
	return e / (1 + e), e
}
