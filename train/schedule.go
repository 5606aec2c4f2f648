package train

import (
	"math/big"

	"tokitai/num/ball"
)

// RateAt returns the learning rate of a step, which counts from 1: the real number of these formulas,
// rounded once to binary64. With w = warmup and T = steps,
//
//	step <= w:  rate * step/w
//	cosine:     min_rate + (rate - min_rate) * (1 + cos(pi * (step-w)/(T-w))) / 2
//	linear:     rate + (min_rate - rate) * (step-w)/(T-w)
//	constant:   rate
func (c *Config) RateAt(step int) float64 {
	rate, low := rational(c.Rate), rational(c.MinRate)
	if step <= c.Warmup {
		v, _ := rate.Mul(rate, big.NewRat(int64(step), int64(c.Warmup))).Float64()
		return v
	}
	if c.Schedule == "constant" {
		return c.Rate
	}
	at := big.NewRat(int64(step-c.Warmup), int64(c.Steps-c.Warmup))
	share := new(big.Rat).Sub(big.NewRat(1, 1), at) // of rate - min_rate
	if c.Schedule == "cosine" {
		cos, isRational := rationalCos(at)
		if !isRational {
			return c.cosine(at)
		}
		share.Mul(cos.Add(cos, big.NewRat(1, 1)), big.NewRat(1, 2))
	}
	share.Mul(share, rate.Sub(rate, low))
	v, _ := share.Add(share, low).Float64()
	return v
}

func rational(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }

// rationalCos returns cos(pi*x) for the x from 0 to 1 for which both are rational: all of them, by
// Niven's theorem. At any other x the cosine is irrational, so that rounding it is never a tie.
func rationalCos(x *big.Rat) (cos *big.Rat, ok bool) {
	for _, p := range [][4]int64{{0, 1, 1, 1}, {1, 3, 1, 2}, {1, 2, 0, 1}, {2, 3, -1, 2}, {1, 1, -1, 1}} {
		if x.Cmp(big.NewRat(p[0], p[1])) == 0 {
			return big.NewRat(p[2], p[3]), true
		}
	}
	return nil, false
}

// cosine encloses the rate ever more narrowly, until one binary64 is nearest to all of the enclosure.
func (c *Config) cosine(at *big.Rat) float64 {
	for prec := uint(96); ; prec *= 2 {
		one := ball.NewBig(1, prec)
		share := one.FromRat(at).Mul(one.Pi()).Cos().Add(one).Scale2(-1)
		v := one.FromFloat64(c.Rate).Sub(one.FromFloat64(c.MinRate)).Mul(share).Add(one.FromFloat64(c.MinRate))
		if lo, hi := nearest(v); lo == hi {
			return lo
		}
	}
}

// nearest returns the binary64 nearest to the ends of an enclosure.
func nearest(v ball.Big) (lo, hi float64) {
	ends := func(sign int) float64 {
		r := new(big.Float).SetPrec(v.Prec() + 64).Copy(v.Rad())
		if sign < 0 {
			r.Neg(r)
		}
		x, _ := new(big.Float).SetPrec(2*v.Prec()+128).Add(v.Mid(), r).Float64()
		return x
	}
	return ends(-1), ends(1)
}
