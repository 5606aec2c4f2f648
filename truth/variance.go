package truth

import (
	"math"

	"tokitai/def"
)

// OrderVariance returns the variance of the error of a sum of binary32 numbers in a declared
// order, in a model in which the rounding errors of its additions are independent of each
// other: an addition whose result is in [2^e, 2^(e+1)) has an error that is uniformly
// distributed between ±unit·2^e, so that
//
//	σ² = unit²/3 · Σ 4^e   over all partial sums.
//
// Sums below 2^-125 are exact. The model assumes terms whose last bits are random. Of
// additions that drop a single bit, half are exact and half are ties: the true variance
// is 3/2 times that of the model. If n bits are dropped, the factor is 1 + 2/4^n.
func OrderVariance(o def.Order, terms []float64) float64 {
	sum := 0.0
	o.Walk(terms, func(partial float64) {
		if m := math.Abs(partial); m >= 0x1p-125 {
			power := math.Ldexp(1, math.Ilogb(m))
			sum += float64(power * power)
		}
	})
	return sum * (unit * unit / 3)
}
