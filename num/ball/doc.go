// Package ball implements ball arithmetic: a real number is enclosed by a midpoint
// and a radius, and the result of an operation contains the exact real result for
// every choice of operands inside their balls.
//
// Three types share one method set, the constraint [Number], so that an evaluator
// is written once for all:
//
//   - [Ball]: a float64 midpoint and radius, tens of millions of operations a
//     second, relative radius from 2^-52 up;
//   - [Big]: math/big midpoint and radius at a precision carried by the value,
//     for what a Ball cannot decide;
//   - [Interval]: two float64 ends, for steps that are correctly rounded to binary32,
//     which map ends to ends.
//
// A ball may be unknown: it then stands for any real number, or none. NaN and
// infinite inputs become unknown; so do division by a ball that contains 0, the
// logarithm of a ball that reaches 0, the root of a ball entirely below 0, and every
// overflow. Known reports whether a ball is known. If any operand is unknown, so is
// the result, even of 0 times unknown. The package knows nothing of rounding to
// storage formats and nothing of special values: callers handle NaN and infinities
// first.
//
// No type uses the processor's directed rounding. Reading order: this file,
// ball.go (the arithmetic and the one lemma every float64 radius rests on),
// vector.go (the same for vectors), slopes.go (vectors of derivatives and of perturbed steps, four
// places at once where the processor can, slopes_amd64.s),
// elementary.go (exponentials, logarithms and tanh in float64, with proofs), function.go
// (functions of a Ball), wave.go (sine and cosine), erf.go, erfcx.go, big.go, bigpoint.go,
// bigfunc.go and bigwave.go (the same at any precision), interval.go.
package ball

import "math/big"

// Number is the method set shared by Ball, Big and Interval. Every operation is the
// exact real operation, enclosed. Operands and results are values and never change.
type Number[T any] interface {
	Add(T) T
	Sub(T) T
	Mul(T) T
	Div(T) T // unknown if the divisor contains 0
	Min(T) T
	Max(T) T
	Hull(T) T // contains both operands

	Neg() T
	Abs() T
	Sqr() T   // x*x with one x: never reaches below 0 by more than rounding
	Sqrt() T  // the part below 0 is cut off; unknown if all of it is
	Recip() T // 1/x
	Rsqrt() T // 1/sqrt(x); unknown if the ball reaches 0
	Exp() T
	Exp2() T
	Expm1() T
	Log() T   // unknown if the ball reaches 0
	Log2() T  // unknown if the ball reaches 0
	Log1p() T // log(1+x); unknown if the ball reaches -1
	Sin() T
	Cos() T
	Tanh() T
	Erf() T
	Erfcx() T   // exp(x²)*(1-erf(x)); unknown if the ball reaches below -1
	Sigmoid() T // 1/(1+exp(-x))

	// Scale2 multiplies by 2^n.
	Scale2(n int) T
	// Sum adds all terms to the receiver, more tightly than repeated Add.
	Sum(terms []T) T
	// Widen adds (|mid|+rad)*u + eta to the radius: the model of one rounded operation
	// with relative error u and absolute error eta. An Interval applies the model to
	// each end.
	Widen(u, eta float64) T

	// Less compares x < y, LessEq x <= y, Equal x = y.
	Less(T) Truth
	LessEq(T) Truth
	Equal(T) Truth

	// Known reports whether the ball is known; see the package comment.
	Known() bool
	// Bounds returns float64 endpoints, rounded outward; -Inf, +Inf if unknown. Here
	// and in Endpoints an end that is 0 is +0.
	Bounds() (lo, hi float64)
	// Endpoints returns the endpoints rounded to odd: rounding these to nearest in
	// any format of at most 51 bits whose smallest value is above 2^-1000 gives
	// exactly what rounding the real endpoints gives. Use it to decide a rounding,
	// Bounds to bound. -Inf, +Inf if unknown.
	Endpoints() (lo, hi float64)

	// The constructors take only the precision from the receiver.

	// FromFloat64 returns exactly x; unknown if x is NaN or infinite.
	FromFloat64(x float64) T
	// FromRat encloses x.
	FromRat(x *big.Rat) T
	// Pi encloses π.
	Pi() T
}

// Truth is the result of comparing two balls.
type Truth int8

const (
	Maybe Truth = iota // true for some points of the balls, false for others, or unknown
	No
	Yes
)

func (t Truth) String() string {
	return [...]string{Maybe: "maybe", No: "no", Yes: "yes"}[t]
}

// ordered decides x < y (strict) or x <= y from outward endpoints. It works for
// any ordered pair of endpoints through cmp values: hiLo is the order of x's upper
// and y's lower endpoint, loHi that of x's lower and y's upper one.
func ordered(hiLo, loHi int, strict bool) Truth {
	switch {
	case hiLo < 0 || hiLo == 0 && !strict:
		return Yes
	case loHi > 0 || loHi == 0 && strict:
		return No
	}
	return Maybe
}
