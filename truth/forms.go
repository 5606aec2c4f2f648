package truth

import (
	"context"
	"math"
	"math/big"

	"tokitai/def"
	"tokitai/num"
	"tokitai/num/ball"
)

// Forms records, for each output of a call, whether all algebraically equal forms of the
// definition give the same result where inputs are infinite, and whether some form may overflow.
// The order of a sum of products makes no difference: it gives the same infinity or NaN in every
// order. Multiplying a factor into a sum can make one, as (2-1)*Inf is infinite and 2*Inf - 1*Inf
// is NaN. So can a division. If rounding errors may change the sign of a factor, an infinity
// multiplied by it may have either sign.
type Forms struct {
	call *call
	at   [][]form // by operand, row after row
}

// form holds what Forms knows about one output.
type form struct{ isOne, isZero, isNaN, mayOverflow, isEither bool }

// FindForms finds where the forms of a definition agree, for a call. It writes nothing.
func FindForms(ctx context.Context, d *def.Definition, operands []num.Array, params []float64) (*Forms, error) {
	k, err := newCall(d, operands, Options{Params: params, Context: ctx})
	if err != nil {
		return nil, err
	}
	f := &Forms{call: k, at: room[form](k)}
	return f, k.form.findForms(f)
}

// formOfScaled returns the form of a sum of products times scales, which kernels may multiply into
// the factors, or with each other first. All forms agree on infinities if all scales are finite and
// no partial product can overflow, which times zero is NaN, or underflow to zero, which times an
// infinity is NaN. If a scale is NaN or infinite, so is the product of all.
func formOfScaled(scales []float64, p products) form {
	high, low, product := 0, 0, 1.0
	one, hasInfinite, finite := form{}, false, 1.0
	for _, scale := range scales {
		if math.IsInf(scale, 0) {
			hasInfinite = true
		} else {
			finite *= math.Abs(scale)
		}
		high, low, product = high+max(0, exponent(scale)), low+min(0, exponent(scale)), product*math.Abs(scale)
	}
	sum, abs, highest, lowest := 0.0, 0.0, 0, 0 // highest and lowest are exponents of the factors of one product
	sizes := 0.0                                // of the factors
	for i := range p.a {
		up, down := 0, 0
		for _, factor := range []float64{p.a[i], p.b[i]} {
			if factor != 0 && math.Abs(factor) <= math.MaxFloat64 {
				up, down = up+max(0, exponent(factor)), down+min(0, exponent(factor))
				sizes += math.Abs(factor)
			}
		}
		highest, lowest = max(highest, up), min(lowest, down)
		product := p.a[i] * p.b[i]
		if sum += product; math.Abs(product) <= math.MaxFloat64 {
			abs += math.Abs(product)
		}
	}
	n := len(p.a)
	lost := 0x1p-149 * (float64(n)*(1+finite) + sizes) // products that underflow, and factors that do when they are scaled
	one.isEither = hasInfinite && finite > 0 && finite*math.Abs(sum) <= finite*gamma(4*n+4)*abs+lost
	one.mayOverflow = high+max(highest, exponent(abs)) > 127
	one.isOne = !one.mayOverflow && low+lowest >= -126 && product >= 0x1p-126 && product <= math.MaxFloat32
	return one
}

// Agree reports whether an output that is NaN or infinite is the same in every form: NaN, or an
// infinity of the same sign.
func (f *Forms) Agree(operand, row, col int) bool {
	return f.at[operand] != nil && f.at[operand][row*f.call.operands[operand].Cols+col].isOne
}

// IsEither reports whether an infinite output may have either sign, or be NaN: it has an infinite
// factor, and rounding errors may change the sign of another factor.
func (f *Forms) IsEither(operand, row, col int) bool {
	return f.at[operand] != nil && f.at[operand][row*f.call.operands[operand].Cols+col].isEither
}

// IsNaN reports whether every form gives NaN for an output, since an input that is NaN reaches it.
func (f *Forms) IsNaN(operand, row, col int) bool {
	return f.at[operand] != nil && f.at[operand][row*f.call.operands[operand].Cols+col].isNaN
}

// IsZero reports whether an output is zero in every form: if everything is multiplied out, all
// terms are zero. The reciprocal of an infinity is such a zero.
func (f *Forms) IsZero(operand, row, col int) bool {
	return f.at[operand] != nil && f.at[operand][row*f.call.operands[operand].Cols+col].isZero
}

// MayOverflow reports whether some order or form of the computation of an output multiplies factors
// whose product exceeds binary32, even if the definition's own steps do not. A plain sum of
// products has no such forms.
func (f *Forms) MayOverflow(operand, row, col int) bool {
	return f.at[operand] != nil && f.at[operand][row*f.call.operands[operand].Cols+col].mayOverflow
}

// nature is a number with the kinds of its monomials: the terms that remain when the expression
// that computes it is multiplied out. A quotient, or a function of anything but a single infinity,
// counts as an input. nature is a ball.Number, so that definitions can be evaluated with it.
type nature struct {
	kinds    kinds
	value    ball.Ball // unknown if not finite
	isLinear bool      // nothing was multiplied, so there is no factor to take out
	high     int       // upper bound of the exponents of all partial products, at least 0
	overflew bool      // a partial product on the way, inside a function, may have overflowed

	hasInfinity bool // an input is infinite; otherwise signs do not matter

	sign  int     // 1 or -1 if the number, or the infinity, is of that sign in every form, else 0
	size  float64 // sum of the magnitudes of the monomials, to which rounding errors are relative
	steps int     // number of roundings in sequence
	lost  float64 // what underflow and the errors of functions' arguments add to the error
}

// error bounds the error of the number in any form. As in promise stable, every step counts four
// times.
func (x nature) error() float64 { return float64(gamma(4*x.steps+4)*x.size) + x.lost }

// isEither reports whether the number is an infinity whose sign is not known.
func (x nature) isEither() bool { return x.sign == 0 && x.kinds&isInfinite != 0 }

// signOf returns the common sign of all numbers within off of an enclosure, or 0 if they differ.
func signOf(value ball.Ball, off float64) int {
	switch lo, hi := value.Bounds(); {
	case !value.Known():
		return 0
	case lo-off > 0:
		return 1
	case hi+off < 0:
		return -1
	}
	return 0
}

// mayOverflow reports whether a partial product exceeds binary32 in some form.
func (x nature) mayOverflow() bool { return x.overflew || x.high > 127 }

// after marks z as computed from x.
func (z nature) after(x nature) nature {
	z.overflew = z.overflew || x.mayOverflow()
	return z
}

// kinds is a set of kinds of monomials.
type kinds uint8

const (
	isZero kinds = 1 << iota
	isPositive
	isNegative
	isPlusInfinity
	isMinusInfinity
	isUndefined // 0 times an infinity, or the like
	isNaN       // from an input that is NaN
)

const isInfinite = isPlusInfinity | isMinusInfinity

// isOne reports whether all forms agree. NaN stays NaN in every form. Infinities of one sign stay
// infinite; infinities of both signs give NaN if nothing is multiplied.
func (x nature) isOne() bool {
	switch {
	case x.kinds&isNaN != 0:
		return true
	case x.kinds&isUndefined != 0:
		return false
	}
	return x.kinds&isInfinite != isInfinite || x.isLinear
}

func (x nature) FromFloat64(v float64) nature {
	z := nature{value: x.value.FromFloat64(v), isLinear: true, hasInfinity: x.hasInfinity}
	if math.Abs(v) <= math.MaxFloat64 {
		z.high, z.size = max(0, exponent(v)), math.Abs(v)
	}
	switch {
	case v != v:
		z.kinds = isNaN
	case math.IsInf(v, 1):
		z.kinds, z.sign = isPlusInfinity, 1
	case math.IsInf(v, -1):
		z.kinds, z.sign = isMinusInfinity, -1
	case v == 0:
		z.kinds = isZero
	case v > 0:
		z.kinds, z.sign = isPositive, 1
	default:
		z.kinds, z.sign = isNegative, -1
	}
	return z
}

// of returns a number that is known only by an enclosure. It may be zero if it may underflow in
// binary32.
func (x nature) of(value ball.Ball) nature {
	const smallest = 0x1p-126
	lo, hi := value.Bounds()
	z := nature{value: value, isLinear: true, hasInfinity: x.hasInfinity, sign: signOf(value, 0), size: max(hi, -lo), steps: 1}
	if hi > 0 {
		z.kinds |= isPositive
	}
	if lo < 0 {
		z.kinds |= isNegative
	}
	if lo < smallest && hi > -smallest {
		z.kinds |= isZero
	}
	if z.high = max(0, exponent(max(hi, -lo))); !value.Known() {
		z.kinds, z.high = z.kinds|isUndefined, 0
	}
	return z
}

// negated swaps the signs.
func (k kinds) negated() kinds {
	z := k & (isZero | isUndefined | isNaN)
	for _, pair := range [...][2]kinds{{isPositive, isNegative}, {isNegative, isPositive}, {isPlusInfinity, isMinusInfinity}, {isMinusInfinity, isPlusInfinity}} {
		if k&pair[0] != 0 {
			z |= pair[1]
		}
	}
	return z
}

// times returns the kinds of all products.
func (k kinds) times(l kinds) (z kinds) {
	for _, part := range [...]kinds{isZero, isPositive, isNegative, isPlusInfinity, isMinusInfinity, isUndefined, isNaN} {
		if k&part == 0 {
			continue
		}
		switch part {
		case isNaN, isUndefined:
			z |= part | l&isNaN
		case isPositive:
			z |= l
		case isNegative:
			z |= l.negated()
		case isZero:
			if z |= l & (isNaN | isUndefined); l&(isZero|isPositive|isNegative) != 0 {
				z |= isZero
			}
			if l&isInfinite != 0 {
				z |= isUndefined
			}
		default:
			if z |= l & (isNaN | isUndefined); l&isZero != 0 {
				z |= isUndefined
			}
			same, other := part, part.negated()
			if l&(isPositive|isPlusInfinity) != 0 {
				z |= same
			}
			if l&(isNegative|isMinusInfinity) != 0 {
				z |= other
			}
		}
	}
	return z
}

func (x nature) Add(y nature) nature {
	z := x.or(y, x.value.Add(y.value))
	z.isLinear, z.size, z.steps, z.lost = x.isLinear && y.isLinear, x.size+y.size, max(x.steps, y.steps)+1, x.lost+y.lost
	switch isX, isY := x.kinds&isInfinite != 0, y.kinds&isInfinite != 0; {
	case isX && !isY:
		z.sign = x.sign
	case isY && !isX:
		z.sign = y.sign
	case z.sign == 0:
		z.sign = signOf(z.value, z.error())
	}
	return z
}

// or returns a number that may be x or y, with the given enclosure.
func (x nature) or(y nature, value ball.Ball) nature {
	z := nature{
		kinds: x.kinds | y.kinds, value: value, high: max(x.high, y.high), overflew: x.overflew || y.overflew, hasInfinity: x.hasInfinity,
		size: max(x.size, y.size), steps: max(x.steps, y.steps), lost: max(x.lost, y.lost),
	}
	if x.sign == y.sign {
		z.sign = x.sign
	}
	return z
}

func (x nature) Sub(y nature) nature { return x.Add(y.Neg()) }

func (x nature) Mul(y nature) nature {
	z := nature{
		kinds: x.kinds.times(y.kinds), value: x.value.Mul(y.value), high: x.high + y.high, overflew: x.overflew || y.overflew, hasInfinity: x.hasInfinity,
		sign: x.sign * y.sign, size: x.size * y.size, steps: x.steps + y.steps + 1, lost: x.error()*y.lost + x.lost*(y.size+y.error()) + x.size*y.lost + 0x1p-149,
	}
	if lo, hi := z.value.Bounds(); z.value.Known() && lo > -0x1p-126 && hi < 0x1p-126 {
		z.kinds |= isZero // in some form
	}
	return z
}

func (x nature) Sqr() nature { return x.Mul(x) }
func (x nature) Neg() nature {
	x.kinds, x.value, x.sign = x.kinds.negated(), x.value.Neg(), -x.sign
	return x
}

func (x nature) Abs() nature {
	if x.kinds&^(isNegative|isMinusInfinity) == 0 {
		return x.Neg()
	}
	if x.kinds&(isNegative|isMinusInfinity) == 0 {
		return x
	}
	z := x.of(x.value.Abs()).after(x)
	z.sign, z.size, z.steps, z.lost = 1, x.size, x.steps, x.lost
	return z
}

func (x nature) Div(y nature) nature { return x.Mul(y.Recip()) }

// Recip of an infinity is zero.
func (x nature) Recip() nature {
	return x.function(ball.Ball.Recip, map[kinds]float64{isPlusInfinity: 0, isMinusInfinity: 0}).signed(x.sign)
}

func (x nature) Sum(terms []nature) nature {
	for _, t := range terms {
		x = x.Add(t)
	}
	return x
}

// function applies f. Its values at single infinities are given by at.
func (x nature) function(f func(ball.Ball) ball.Ball, at map[kinds]float64) nature {
	if v, ok := at[x.infinity()]; ok {
		return x.FromFloat64(v).after(x)
	}
	z := x.of(f(x.value)).after(x)
	z.kinds |= x.kinds & isNaN
	if !x.hasInfinity {
		return z
	}
	around := f(x.value.Widen(0, x.error()))
	lo, hi := around.Bounds()
	if z.lost = hi - lo; !around.Known() {
		z.lost = math.Inf(1)
	}
	z.sign = signOf(around, 0)
	return z
}

// signed returns the number with the given sign, which the caller knows the function to have.
func (x nature) signed(sign int) nature {
	x.sign = sign
	return x
}

// infinity returns the infinity that the number is in every form, or 0 if there is none.
func (x nature) infinity() kinds {
	if one := x.kinds & isInfinite; x.isOne() && x.kinds&isNaN == 0 && one != isInfinite {
		return one
	}
	return 0
}

var (
	toNothing = map[kinds]float64{isMinusInfinity: 0, isPlusInfinity: math.Inf(1)}
	toAll     = map[kinds]float64{isPlusInfinity: math.Inf(1)}
	toOne     = map[kinds]float64{isMinusInfinity: -1, isPlusInfinity: 1}
)

func (x nature) Sqrt() nature { return x.function(ball.Ball.Sqrt, toAll).signed(1) }
func (x nature) Rsqrt() nature {
	return x.function(ball.Ball.Rsqrt, map[kinds]float64{isPlusInfinity: 0}).signed(1)
}
func (x nature) Exp() nature  { return x.function(ball.Ball.Exp, toNothing).signed(1) }
func (x nature) Exp2() nature { return x.function(ball.Ball.Exp2, toNothing).signed(1) }
func (x nature) Expm1() nature {
	return x.function(ball.Ball.Expm1, map[kinds]float64{isMinusInfinity: -1, isPlusInfinity: math.Inf(1)}).signed(x.sign)
}
func (x nature) Log() nature   { return x.function(ball.Ball.Log, toAll) }
func (x nature) Log2() nature  { return x.function(ball.Ball.Log2, toAll) }
func (x nature) Log1p() nature { return x.function(ball.Ball.Log1p, toAll).signed(x.sign) }
func (x nature) Sin() nature   { return x.function(ball.Ball.Sin, nil) }
func (x nature) Cos() nature   { return x.function(ball.Ball.Cos, nil) }
func (x nature) Tanh() nature  { return x.function(ball.Ball.Tanh, toOne).signed(x.sign) }
func (x nature) Erf() nature   { return x.function(ball.Ball.Erf, toOne).signed(x.sign) }
func (x nature) Erfcx() nature {
	return x.function(ball.Ball.Erfcx, map[kinds]float64{isPlusInfinity: 0}).signed(1)
}
func (x nature) Sigmoid() nature {
	return x.function(ball.Ball.Sigmoid, map[kinds]float64{isMinusInfinity: 0, isPlusInfinity: 1}).signed(1)
}

func (x nature) Scale2(n int) nature {
	x.value, x.high = x.value.Scale2(n), max(0, x.high+n)
	x.size, x.lost = math.Ldexp(x.size, n), math.Ldexp(x.lost, n)+0x1p-149
	return x
}

// Min and Max choose an argument if it is certain which one to choose.
func (x nature) Min(y nature) nature { return x.choose(y, x.LessEq(y), x.value.Min(y.value)) }
func (x nature) Max(y nature) nature { return x.choose(y, y.LessEq(x), x.value.Max(y.value)) }

func (x nature) choose(y nature, isX ball.Truth, value ball.Ball) nature {
	switch {
	case (x.kinds|y.kinds)&isNaN != 0:
		return x.FromFloat64(math.NaN())
	case isX == ball.Yes:
		return x
	case isX == ball.No:
		return y
	}
	return x.or(y, value)
}

func (x nature) Hull(y nature) nature {
	return x.or(y, x.value.Hull(y.value))
}

func (x nature) Less(y nature) ball.Truth {
	return x.compare(y, x.value.Less(y.value), func(a, b float64) bool { return a < b })
}

func (x nature) LessEq(y nature) ball.Truth {
	return x.compare(y, x.value.LessEq(y.value), func(a, b float64) bool { return a <= b })
}

func (x nature) Equal(y nature) ball.Truth {
	return x.compare(y, x.value.Equal(y.value), func(a, b float64) bool { return a == b })
}

// compare compares infinities by their sign, and NaN with nothing.
func (x nature) compare(y nature, claim ball.Truth, compare func(a, b float64) bool) ball.Truth {
	place := func(v nature) (at float64, ok bool) {
		switch v.infinity() {
		case isPlusInfinity:
			return 1, true
		case isMinusInfinity:
			return -1, true
		}
		return 0, v.value.Known()
	}
	if (x.kinds|y.kinds)&isNaN != 0 {
		return ball.No
	}
	a, isA := place(x)
	b, isB := place(y)
	if isA && isB && (a != 0 || b != 0) {
		return truth(compare(a, b))
	}
	return claim
}

func (x nature) Widen(u, eta float64) nature { x.value = x.value.Widen(u, eta); return x }
func (x nature) FromRat(r *big.Rat) nature   { return x.of(x.value.FromRat(r)) }
func (x nature) Pi() nature                  { return x.of(x.value.Pi()) }

func (x nature) Known() bool                 { return x.value.Known() }
func (x nature) Bounds() (lo, hi float64)    { return x.value.Bounds() }
func (x nature) Endpoints() (lo, hi float64) { return x.value.Endpoints() }

// Tame returns the inputs with a large number in the place of every infinity, of the same sign,
// and reports whether there was one. Where a definition gives the same for both, the number
// stands for the limit.
func Tame(d *def.Definition, inputs []num.Array) (tamed []num.Array, hasInfinity bool) {
	for i, a := range inputs {
		isCopy := false
		for r := range a.Rows {
			for c := range a.Cols {
				if !d.Operands[i].IsIn || d.Operands[i].IsIndex {
					break
				}
				x := a.At(r, c)
				if !math.IsInf(float64(x), 0) {
					continue
				}
				if !isCopy {
					a, isCopy, hasInfinity = a.Clone(), true, true
				}
				a.Set(r, c, float32(math.Copysign(min(0x1p40, math.Ldexp(1, math.Ilogb(num.MaxFinite(a.DType)))), float64(x))))
			}
		}
		tamed = append(tamed, a)
	}
	return tamed, hasInfinity
}
