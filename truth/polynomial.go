package truth

import (
	"math"
	"math/big"
	"math/bits"

	"tokitai/num"
	"tokitai/num/ball"
)

// polynomial is a number computed from inputs by additions and multiplications, seen as the sum of
// the monomials that remain when everything is multiplied out. It is a ball.Number, so that
// definitions can be evaluated with it.
//
// All monomials are integer multiples of 2^unit, and their magnitudes add up to abs. If
// abs < 2^24·2^unit, every form of the expression is exact in binary32 at every step, with
// sums in any order, and products fused or not. For a step of any form computes some
// polynomial p that is later multiplied by another, q, and the monomials of p·q are among
// those of the whole. With abs(q) >= 2^unit(q),
//
//	abs(p)/2^unit(p) <= abs(p·q)/2^unit(p·q) <= abs/2^unit < 2^24
//
// so that p is a multiple of 2^unit(p) below 2^24 of them. If q is 0, then p does not matter.
// What remains is the range of exponents: low bounds the units of all partial products from
// below, high the exponents of all partial sums and products from above.
type polynomial struct {
	value           ball.Ball
	abs             float64
	unit, low, high int
	isExact         bool // is a sum of products of inputs; otherwise only value is known
}

// noUnit is the unit of a zero, out of reach of others.
const noUnit = 1 << 13

// lowestBit returns the exponent of the lowest bit that is set in a finite number.
func lowestBit(x float64) int {
	if x == 0 {
		return noUnit
	}
	fraction, e := math.Frexp(x)
	return e - 53 + bits.TrailingZeros64(uint64(math.Abs(fraction)*(1<<53)))
}

// exponent returns the least e with |x| < 2^e, and 0 for 0.
func exponent(x float64) int {
	_, e := math.Frexp(x)
	return e
}

// fits reports whether the number has at most that many bits in every form.
func (x polynomial) fits(most int) bool {
	return x.isExact && x.value.Known() && (x.abs == 0 || x.abs < math.Ldexp(1, most+x.unit) && x.low >= -126 && x.high < 127)
}

func (x polynomial) isZero() bool { return x.isExact && x.abs == 0 && x.value.Known() }

// inexact returns a number that is not a sum of products.
func inexact(v ball.Ball) polynomial { return polynomial{value: v} }

func (x polynomial) FromFloat64(v float64) polynomial {
	z := polynomial{value: x.value.FromFloat64(v), abs: math.Abs(v), unit: lowestBit(v), isExact: math.Abs(v) <= math.MaxFloat64}
	if v != 0 {
		z.low, z.high = min(0, z.unit), max(0, exponent(v))
	}
	return z
}

func (x polynomial) Add(y polynomial) polynomial { return x.add(y, x.value.Add(y.value)) }
func (x polynomial) Sub(y polynomial) polynomial { return x.add(y, x.value.Sub(y.value)) }

func (x polynomial) add(y polynomial, value ball.Ball) polynomial {
	switch {
	case !x.isExact || !y.isExact:
		return inexact(value)
	case x.abs == 0:
		y.value = value
		return y
	case y.abs == 0:
		x.value = value
		return x
	}
	abs := x.abs + y.abs
	return polynomial{value, abs, min(x.unit, y.unit), min(x.low, y.low), max(x.high, y.high, exponent(abs)), true}
}

// Mul multiplies. A zero stays zero whatever it is multiplied by, if that is finite in
// every form.
func (x polynomial) Mul(y polynomial) polynomial {
	value := x.value.Mul(y.value)
	switch {
	case x.isZero() && y.isModest() || y.isZero() && x.isModest():
		return x.FromFloat64(0)
	case !x.isExact || !y.isExact:
		return inexact(value)
	}
	return polynomial{value, x.abs * y.abs, x.unit + y.unit, x.low + y.low, x.high + y.high, true}
}

// isModest reports whether the number is far from overflow.
func (x polynomial) isModest() bool {
	lo, hi := x.value.Bounds()
	return x.value.Known() && max(-lo, hi) <= 0x1p64
}

// Div keeps a zero. Any other quotient depends on the form.
func (x polynomial) Div(y polynomial) polynomial {
	value := x.value.Div(y.value)
	if lo, hi := y.value.Bounds(); x.isZero() && value.Known() && max(lo, -hi) >= 0x1p-64 {
		return x.FromFloat64(0)
	}
	return inexact(value)
}

func (x polynomial) Sum(terms []polynomial) polynomial {
	for _, t := range terms {
		x = x.Add(t)
	}
	return x
}

func (x polynomial) Neg() polynomial { x.value = x.value.Neg(); return x }
func (x polynomial) Abs() polynomial { x.value = x.value.Abs(); return x }
func (x polynomial) Sqr() polynomial { return x.Mul(x) }

func (x polynomial) Scale2(n int) polynomial {
	power := x.FromFloat64(math.Ldexp(1, n))
	return x.Mul(power)
}

// Min and Max choose between numbers that are the same in every form.
func (x polynomial) Min(y polynomial) polynomial {
	return x.choose(y, x.LessEq(y), x.value.Min(y.value))
}
func (x polynomial) Max(y polynomial) polynomial {
	return x.choose(y, y.LessEq(x), x.value.Max(y.value))
}

func (x polynomial) choose(y polynomial, isX ball.Truth, value ball.Ball) polynomial {
	switch isX {
	case ball.Yes:
		return x
	case ball.No:
		return y
	}
	return inexact(value)
}

func (x polynomial) Hull(y polynomial) polynomial { return inexact(x.value.Hull(y.value)) }

// Comparisons are decided between numbers that are the same in every form.
func (x polynomial) Less(y polynomial) ball.Truth   { return x.compare(y, x.value.Less(y.value)) }
func (x polynomial) LessEq(y polynomial) ball.Truth { return x.compare(y, x.value.LessEq(y.value)) }
func (x polynomial) Equal(y polynomial) ball.Truth  { return x.compare(y, x.value.Equal(y.value)) }

func (x polynomial) compare(y polynomial, claim ball.Truth) ball.Truth {
	if x.fits(significand) && y.fits(significand) {
		return claim
	}
	return ball.Maybe
}

func (x polynomial) Sqrt() polynomial    { return x.function(ball.Ball.Sqrt) }
func (x polynomial) Recip() polynomial   { return x.function(ball.Ball.Recip) }
func (x polynomial) Rsqrt() polynomial   { return x.function(ball.Ball.Rsqrt) }
func (x polynomial) Exp() polynomial     { return x.function(ball.Ball.Exp) }
func (x polynomial) Exp2() polynomial    { return x.function(ball.Ball.Exp2) }
func (x polynomial) Expm1() polynomial   { return x.function(ball.Ball.Expm1) }
func (x polynomial) Log() polynomial     { return x.function(ball.Ball.Log) }
func (x polynomial) Log2() polynomial    { return x.function(ball.Ball.Log2) }
func (x polynomial) Log1p() polynomial   { return x.function(ball.Ball.Log1p) }
func (x polynomial) Sin() polynomial     { return x.function(ball.Ball.Sin) }
func (x polynomial) Cos() polynomial     { return x.function(ball.Ball.Cos) }
func (x polynomial) Tanh() polynomial    { return x.function(ball.Ball.Tanh) }
func (x polynomial) Erf() polynomial     { return x.function(ball.Ball.Erf) }
func (x polynomial) Erfcx() polynomial   { return x.function(ball.Ball.Erfcx) }
func (x polynomial) Sigmoid() polynomial { return x.function(ball.Ball.Sigmoid) }

func (x polynomial) function(f func(ball.Ball) ball.Ball) polynomial { return inexact(f(x.value)) }

func (x polynomial) Widen(u, eta float64) polynomial { return inexact(x.value.Widen(u, eta)) }
func (x polynomial) FromRat(r *big.Rat) polynomial   { return inexact(x.value.FromRat(r)) }
func (x polynomial) Pi() polynomial                  { return inexact(x.value.Pi()) }

func (x polynomial) Known() bool                 { return x.value.Known() }
func (x polynomial) Bounds() (lo, hi float64)    { return x.value.Bounds() }
func (x polynomial) Endpoints() (lo, hi float64) { return x.value.Endpoints() }
func (polynomial) rounding() rounding[polynomial] {
	return storing{exactly[polynomial]{polynomial{}.FromFloat64(0)}}
}

// storing keeps polynomials that a storage format can hold, and adds no other rounding: those
// of single steps do not matter where a polynomial fits.
type storing struct{ exactly[polynomial] }

func (storing) store(xs []polynomial, d num.DType) {
	for j, x := range xs {
		if lo, hi := x.value.Bounds(); !x.fits(significand) || lo != hi || float64(num.Round(d, float32(lo))) != lo {
			xs[j] = inexact(x.value)
		}
	}
}

func (s storing) storeRandomly(xs []polynomial, d num.DType, _ []int32) { s.store(xs, d) }
