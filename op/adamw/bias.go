package adamw

import "math"

// biasCorrection is 1 − betaᵗ, correct to the last bit of binary64 but for rare
// ties and for a beta within 2⁻⁵⁰ of 1: the power is taken in double-double
// arithmetic, so that 1 − betaᵗ keeps its digits where betaᵗ is close to 1, and the
// same bits come out on every machine.
func biasCorrection(beta float64, t int) float64 {
	result, square := pair{1, 0}, pair{beta, 0}
	for ; t > 0; t >>= 1 {
		if t&1 == 1 {
			result = result.mul(square)
		}
		square = square.mul(square)
	}
	s := 1 - result.high
	lost := (1 - s) - result.high // what the subtraction rounded away
	return s + (lost - result.low)
}

// pair is an unevaluated sum of two binary64: about 106 bits.
type pair struct{ high, low float64 }

func (x pair) mul(y pair) pair {
	p := float64(x.high * y.high)
	e := math.FMA(x.high, y.high, -p) + (float64(x.high*y.low) + float64(x.low*y.high))
	s := p + e
	return pair{s, e - (s - p)}
}
