package exact

import (
	"math"
	"math/big"

	"tokitai/num"
)

// bigPrec holds every bit of a sum of products of binary32 numbers: the lowest is
// 2^-298, the highest below 2^(256+32) for fewer than 2^32 products.
const bigPrec = 640

// Big returns init + Σ a[k]*b[k] exactly; nil if an operand is NaN or infinite.
func Big[E Operand](a, b []E, init E) *big.Float {
	checkLengths(a, b)
	if init-init != 0 {
		return nil
	}
	sum := new(big.Float).SetPrec(bigPrec).SetFloat64(float64(init))
	var p big.Float
	for i := range a {
		x := float64(a[i]) * float64(b[i]) // exact
		if a[i]-a[i] != 0 || b[i]-b[i] != 0 {
			return nil
		}
		sum.Add(sum, p.SetFloat64(x))
	}
	return sum
}

// RoundBig rounds a finite number once, to nearest even. Zero gives +0.
func RoundBig(d num.DType, x *big.Float) uint32 {
	if x.Sign() == 0 {
		return 0
	}
	// Rounded to odd in binary64, x rounds to d as x itself does: binary64 has more
	// than two bits beyond any d, and a wider range at both ends.
	y := new(big.Float).SetPrec(53).SetMode(big.ToZero).Set(x)
	f, _ := y.Float64()
	switch e := y.MantExp(nil); {
	case e <= -1022:
		f = math.Copysign(0x1p-1022, float64(x.Sign()))
	case y.Acc() != big.Exact && e <= 1024:
		f = math.Float64frombits(math.Float64bits(f) | 1)
	}
	return num.NarrowF64(d, f)
}
