package ball

import "math"

// Sine and cosine of a Ball and of an Interval. They are not monotonic, so a wide
// argument is enclosed by the values at its ends and the extrema between them.

const (
	// sinErr and cosErr are relative errors; see pointSinCos for what is added.
	sinErr = 0x1p-52
	cosErr = 0x1.4p-52

	// waveLimit is the largest argument that pointSinCos reduces. Beyond, the result in
	// float64 is [-1, 1].
	waveLimit = 0x1p20
)

// everyWave is [-1, 1].
var everyWave = Ball{0, 1}

// quarter returns k, r and rl with x = k*π/2 + r + rl, |r| <= π/4 + 2^-30, for |x| <= 2^20.
//
// Adding 1.5*2^52 rounds fl(x*2/π) to k; constant and product are off by less than
// 2^20*2^-52 in all. π/2 = quarter1 + quarter2 + quarter3, the first two cut to
// multiples of 2^-32 and 2^-65, and |k| < 2^20, so that k*quarter1 and k*quarter2 are
// exact products.
//
// x - k*quarter1 is exact: both are multiples of 2^-53 (|x| > 1/2, unless k = 0), and
// the difference is below 1. From it k*quarter2 is subtracted with its rounding error
// l, exactly. k*quarter3 < k*2^-65 is off by k*2^-118 for quarter3 and as much for the
// product. l minus that rounds by u²|h| + u*k*2^-65 at most. In all r + rl is off by
// less than k*2^-116, and by 2^-104 of itself: u²|h| counts only where |h| is far above
// k*2^-65, and then h is r. For k = 0 nothing rounds, and r = x.
func quarter(x float64) (k int, r, rl float64) {
	t := float64(x*(2/math.Pi)) + 0x1.8p52
	n := t - 0x1.8p52
	h, l := twoSum(x-float64(n*quarter1), -float64(n*quarter2))
	r, rl = twoSum(h, l-float64(n*quarter3))
	return int(int32(math.Float64bits(t))), r, rl
}

// pointSinCos returns sin x and cos x for |x| <= waveLimit, each off by at most its
// relative error plus waveSlack(k).
//
// Taylor polynomials around 0, of degrees 17 and 16; with s = r² < 0.617 what is cut
// off is below s^9/19! < 2^-63 relatively to r, and below s^9/18! < 2^-58. The part rl,
// at most u|r|, counts to first order; what is left out is 0.02u|rl| in the sine and
// 0.11u|rl| in the cosine.
//
//	sin = r + (r*s*p + rl*(1 - s/2))    |r*s*p| < 0.081 is off by 6u of itself, of
//	                                    the result (at least 0.9|r|) less than 0.7u;
//	                                    the last sum rounds by u: below 2u
//	cos = (1 - s/2) + (s²*q - r*rl)     s/2 < 0.309 is off by u of itself, the
//	                                    difference rounds by u/2, s²*q < 0.016 by 6u
//	                                    of itself, the last sum by u/2: 1.5u of at
//	                                    least 0.707, and 0.1u: below 2.3u
func pointSinCos(x float64) (sin, cos float64, k int) {
	k, r, rl := quarter(x)
	s := float64(r * r)
	var p, q float64
	for i := len(sinTaylor) - 1; i >= 0; i-- {
		p = sinTaylor[i] + float64(s*p)
		q = cosTaylor[i] + float64(s*q)
	}
	sinR := r + (float64(float64(r*s)*p) + float64(rl*(1-float64(0.5*s))))
	cosR := (1 - float64(0.5*s)) + (float64(float64(s*s)*q) - float64(r*rl))
	switch k & 3 {
	case 0:
		return sinR, cosR, k
	case 1:
		return cosR, -sinR, k
	case 2:
		return -sinR, -cosR, k
	}
	return -cosR, sinR, k
}

// waveSlack returns the absolute error of the reduction.
func waveSlack(k int) float64 { return math.Abs(float64(k)) * 0x1p-116 }

// sinTaylor are the coefficients of (sin r - r)/r³ in r², cosTaylor those of
// (cos r - 1 + r²/2)/r⁴.
var (
	sinTaylor = [8]float64{-1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800,
		1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000}
	cosTaylor = [8]float64{1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600,
		-1.0 / 87178291200, 1.0 / 20922789888000}
)

// Sin: |sin(a+h) - sin(a)| <= |cos a|*|sin h| + |sin a|*(1-cos h) <= |cos a|*r + r²/2.
func (a Ball) Sin() Ball {
	if a.Rad <= 0x1p-4 && math.Abs(a.Mid) <= waveLimit {
		if (a == Ball{}) {
			return a
		}
		sin, cos, k := pointSinCos(a.Mid)
		return wave(sin, float64(math.Abs(sin)*sinErr), cos, a.Rad, k)
	}
	if !a.Known() {
		return unknown
	}
	lo, hi := a.Bounds()
	return between(waveBetween(lo, hi, sinAt, 1))
}

// Cos has the radius of Sin with the slope |sin a|. cos(0) = 1 exactly.
func (a Ball) Cos() Ball {
	if a.Rad <= 0x1p-4 && math.Abs(a.Mid) <= waveLimit {
		if (a == Ball{}) {
			return Ball{Mid: 1}
		}
		sin, cos, k := pointSinCos(a.Mid)
		return wave(cos, float64(math.Abs(cos)*cosErr), sin, a.Rad, k)
	}
	if !a.Known() {
		return unknown
	}
	lo, hi := a.Bounds()
	return between(waveBetween(lo, hi, cosAt, 0))
}

// wave returns a ball around c, which is off by err and the slack of k; slope is the other of
// sine and cosine, off by less than 2^-50 even if tiny.
func wave(c, err, slope, r float64, k int) Ball {
	return outward(c, err+waveSlack(k)+float64(r*(math.Abs(slope)+(0x1p-50+float64(0.5*r)))))
}

func sinAt(x float64) Ball { return FromFloat64(x).Sin() }
func cosAt(x float64) Ball { return FromFloat64(x).Cos() }

// waveBetween bounds a wave over [lo, hi], whose maxima are at top + 4m quarter turns for
// all integers m, and its minima half way between. An extremum that may lie between the
// ends counts: if it is just outside, the value at an end is almost the same.
func waveBetween(lo, hi float64, at func(float64) Ball, top float64) (l, h float64) {
	if !(-waveLimit <= lo && hi <= waveLimit && hi-lo < 6) {
		return everyWave.Bounds()
	}
	l, h = at(lo).Bounds()
	if lo == hi {
		return l, h
	}
	l2, h2 := at(hi).Bounds()
	l, h = min(l, l2), max(h, h2)
	// In quarter turns the ends are off by less than 2^20*2^-51.
	first, last := float64(lo*(2/math.Pi))-0x1p-30, float64(hi*(2/math.Pi))+0x1p-30
	passes := func(place float64) bool { return place+4*math.Ceil((first-place)/4) <= last }
	if passes(top) {
		h = 1
	}
	if passes(top + 2) {
		l = -1
	}
	return l, h
}

func (a Interval) Sin() Interval { return a.wave(sinAt, 1) }
func (a Interval) Cos() Interval { return a.wave(cosAt, 0) }

func (a Interval) wave(at func(float64) Ball, top float64) Interval {
	if !a.Known() {
		return unknownInterval
	}
	return interval(waveBetween(a.Lo, a.Hi, at, top))
}
