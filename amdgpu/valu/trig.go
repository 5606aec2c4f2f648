package valu

import (
	"math"
	"math/big"
	"sync"
)

// trigBits is the number of bits of 2/π that v_trig_preop_f64 has.
const trigBits = 1201

// twoOverPi returns the integer part of 2/π·2**1201.
var twoOverPi = sync.OnceValue(func() *big.Int {
	const guard = 64
	// π = 16·arctan(1/5) - 4·arctan(1/239), with terms of arctan(1/n) = Σ (-1)**k / ((2k+1)·n**(2k+1)).
	one := new(big.Int).Lsh(big.NewInt(1), trigBits+guard)
	arctan := func(n int64) *big.Int {
		sum, power := new(big.Int), new(big.Int).Quo(one, big.NewInt(n))
		for k := int64(0); power.Sign() != 0; k++ {
			term := new(big.Int).Quo(power, big.NewInt(2*k+1))
			if k%2 == 0 {
				sum.Add(sum, term)
			} else {
				sum.Sub(sum, term)
			}
			power.Quo(power, big.NewInt(n*n))
		}
		return sum
	}
	pi := new(big.Int).Mul(arctan(5), big.NewInt(16))
	pi.Sub(pi, new(big.Int).Mul(arctan(239), big.NewInt(4)))
	r := new(big.Int).Lsh(one, trigBits+guard+1)
	return r.Rsh(r.Quo(r, pi), guard)
})

// trigPreop returns 53 bits of 2/π, the n-th such piece, later ones for a large x: by them x is
// reduced to a quadrant.
func trigPreop(_ *lane, x, n, _ uint64) uint64 {
	e := double.exponent(x)
	shift := int(n&31) * 53
	if e > 1077 {
		shift += e - 1077
	}
	bits := new(big.Int)
	if shift < trigBits {
		bits.Lsh(twoOverPi(), uint(shift))
		bits.Rsh(bits, trigBits-53)
		bits.And(bits, big.NewInt(1<<53-1))
	}
	scale := -53 - shift
	if e >= 1968 {
		scale += 128
	}
	return math.Float64bits(math.Ldexp(float64(bits.Int64()), scale))
}
