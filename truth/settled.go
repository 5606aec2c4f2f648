package truth

import (
	"math"
	"math/big"

	"tokitai/num"
	"tokitai/num/ball"
)

// settled is a binary32 number that the definition's own steps, each correctly rounded, give
// whatever the order of its sums, and whether or not products are fused with the additions that
// follow. It is a ball.Number, so that definitions can be evaluated with it. A number that is not
// settled may have any value.
//
// A step on settled numbers gives a settled number, with two exceptions: an addition to a rounded
// product, which a fused step would not round, and a sum, which is settled if its terms add up to
// less than 2^24 units of their lowest bit. A function is settled where every implementation gives
// the same value: exp(0) is 1.
type settled struct {
	v                float32
	isSettled        bool
	isRoundedProduct bool // and the exact product is another number
}

func settle(v float32) settled {
	return settled{v: v, isSettled: math.Abs(float64(v)) <= math.MaxFloat32}
}

// to returns the result v of a step on x, and with that of a step on x and y. The result is settled
// if the arguments are.
func (x settled) to(v float32) settled {
	if !x.isSettled {
		return settled{}
	}
	return settle(v)
}

func (x settled) with(y settled, v float32) settled {
	if !y.isSettled {
		return settled{}
	}
	return x.to(v)
}

func (x settled) Add(y settled) settled {
	switch {
	case !x.isSettled || !y.isSettled:
		return settled{}
	case y.v == 0:
		return x
	case x.v == 0:
		return y
	case x.isRoundedProduct || y.isRoundedProduct:
		return settled{}
	}
	return settle(x.v + y.v)
}

func (x settled) Sub(y settled) settled { return x.Add(y.Neg()) }

func (x settled) Mul(y settled) settled {
	z := x.with(y, x.v*y.v)
	z.isRoundedProduct = float64(z.v) != float64(x.v)*float64(y.v)
	return z
}

func (x settled) Sqr() settled { return x.Mul(x) }

func (x settled) Div(y settled) settled {
	if y.v == 0 {
		return settled{}
	}
	return x.with(y, x.v/y.v)
}

// Sum adds in any order.
func (x settled) Sum(terms []settled) settled {
	abs, unit, sum := math.Abs(float64(x.v)), lowestBit(float64(x.v)), float64(x.v)
	if !x.isSettled {
		return x
	}
	for _, t := range terms {
		if !t.isSettled || t.isRoundedProduct {
			return settled{}
		}
		abs, unit, sum = abs+math.Abs(float64(t.v)), min(unit, lowestBit(float64(t.v))), sum+float64(t.v)
	}
	if abs != 0 && !(abs < math.Ldexp(1, significand+unit)) {
		return settled{}
	}
	return settle(float32(sum))
}

func (x settled) Neg() settled { x.v = -x.v; return x }
func (x settled) Abs() settled { x.v = max(x.v, -x.v); return x }

func (x settled) Min(y settled) settled {
	if x.isSettled && y.isSettled && y.v < x.v {
		return y
	}
	return x.with(y, x.v).as(x)
}

func (x settled) Max(y settled) settled {
	if x.isSettled && y.isSettled && y.v > x.v {
		return y
	}
	return x.with(y, x.v).as(x)
}

// as returns x, marked as a rounded product if y is one.
func (x settled) as(y settled) settled {
	x.isRoundedProduct = x.isSettled && y.isRoundedProduct
	return x
}

func (x settled) Hull(y settled) settled {
	if x.v != y.v {
		return settled{}
	}
	return x.with(y, x.v).as(x)
}

func (x settled) Scale2(n int) settled {
	v := float32(math.Ldexp(float64(x.v), n))
	if math.Ldexp(float64(v), -n) != float64(x.v) {
		return settled{}
	}
	return x.to(v)
}

func (x settled) Less(y settled) ball.Truth   { return x.compare(y, x.v < y.v) }
func (x settled) LessEq(y settled) ball.Truth { return x.compare(y, x.v <= y.v) }
func (x settled) Equal(y settled) ball.Truth  { return x.compare(y, x.v == y.v) }

func (x settled) compare(y settled, claim bool) ball.Truth {
	if !x.isSettled || !y.isSettled {
		return ball.Maybe
	}
	return truth(claim)
}

func (x settled) Sqrt() settled { return x.to(float32(math.Sqrt(float64(x.v)))) }

// Recip and Rsqrt are settled for powers of two and of four.
func (x settled) Recip() settled {
	if f, _ := math.Frexp(float64(x.v)); math.Abs(f) != 0.5 {
		return settled{}
	}
	return x.to(1 / x.v)
}

func (x settled) Rsqrt() settled { return x.Sqrt().Recip() }

// Exp is settled where its value is 1, or so small that it rounds to zero.
func (x settled) Exp() settled {
	if x.v < -200*math.Ln2 {
		return x.to(0)
	}
	return x.where(0, 1)
}

func (x settled) Exp2() settled {
	if x.v < -200 {
		return x.to(0)
	}
	return x.where(0, 1)
}

func (x settled) Expm1() settled   { return x.where(0, 0) }
func (x settled) Log() settled     { return x.where(1, 0) }
func (x settled) Log2() settled    { return x.where(1, 0) }
func (x settled) Log1p() settled   { return x.where(0, 0) }
func (x settled) Sin() settled     { return x.where(0, 0) }
func (x settled) Cos() settled     { return x.where(0, 1) }
func (x settled) Tanh() settled    { return x.where(0, 0) }
func (x settled) Erf() settled     { return x.where(0, 0) }
func (x settled) Erfcx() settled   { return x.where(0, 1) }
func (x settled) Sigmoid() settled { return settled{} }

// where returns the value of a function that is settled at one argument.
func (x settled) where(argument, value float32) settled {
	if x.v != argument {
		return settled{}
	}
	return x.to(value)
}

func (settled) Widen(_, _ float64) settled { return settled{} }
func (settled) FromRat(*big.Rat) settled   { return settled{} }
func (settled) Pi() settled                { return settled{} }

// FromFloat64 returns a binary32 number.
func (settled) FromFloat64(v float64) settled {
	if float64(float32(v)) != v {
		return settled{}
	}
	return settle(float32(v))
}

func (x settled) Known() bool { return x.isSettled }

func (x settled) Bounds() (lo, hi float64) {
	if !x.isSettled {
		return math.Inf(-1), math.Inf(1)
	}
	return float64(x.v), float64(x.v)
}

func (x settled) Endpoints() (lo, hi float64) { return x.Bounds() }
func (settled) rounding() rounding[settled]   { return settling{exactly[settled]{settle(0)}} }

// settling rounds to storage formats; every other step has rounded already.
type settling struct{ exactly[settled] }

func (settling) store(xs []settled, d num.DType) {
	for j, x := range xs {
		xs[j] = x.to(num.Round(d, x.v))
	}
}

func (settling) storeRandomly(xs []settled, d num.DType, words []int32) {
	for j, x := range xs {
		xs[j] = x.to(num.StochasticRound(d, x.v, uint32(at(words, j))))
	}
}

func (r settling) adder(n, _ int, s shape) adder[settled] {
	return &collector[settled]{r: r, shape: s, terms: make([][]settled, n)}
}
