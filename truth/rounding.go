package truth

import (
	"math"

	"tokitai/num"
	"tokitai/num/ball"
)

// The model of one binary32 operation, to nearest: the computed value is
// x·(1+δ) + η with |δ| <= unit, and |η| <= tiny where the exact result may lie
// between two subnormals (a product, a quotient, an FMA); sums of binary32 numbers
// are multiples of the smallest one, so an addition that ends among the subnormals
// is exact, and roots do not end there. All this as long as nothing overflows.
const (
	unit = 0x1p-24
	tiny = 0x1p-150
)

// storageError returns the relative and the absolute error of the same model for rounding
// to d and back, and the largest finite value. Binary32 needs no rounding.
func storageError(d num.DType) (u, eta, limit float64) {
	if d == num.F32 {
		return 0, 0, math.MaxFloat32
	}
	return num.ULP(d, 1) / 2, num.ULP(d, 0) / 2, num.MaxFinite(d)
}

// gamma bounds the relative effect of n roundings one after the other:
// (1+unit)^n - 1 <= n·unit/(1 - n·unit) (Higham 2002, lemma 3.1). It is +Inf if n·unit is
// 1 or more.
func gamma(n int) float64 {
	x := float64(n) * unit
	if x >= 1 {
		return math.Inf(1)
	}
	return x / (1 - x) * (1 + 0x1p-50)
}

// rounding applies the rounding of execution to exact results, several values at a
// time. There are three: none (mode Exact), any binary32 arithmetic within the model
// above (mode Rounded), and correctly rounded arithmetic (Options.IsIEEE).
type rounding[T any] interface {
	// step rounds elementary operations, with errors u and eta in the model.
	step(xs []T, u, eta float64)
	// scale rounds scale nodes: twice if a result is subnormal.
	scale(xs []T)
	// function rounds any computation with errors u and eta in the model. Its result may
	// cross zero.
	function(xs []T, u, eta float64)
	// store rounds to a storage format and back.
	store(xs []T, d num.DType)
	// keep rounds to a storage format, where that is part of the mathematics (stored.go).
	keep(xs []T, d num.DType)
	// storeRandomly rounds to a storage format, up or down by random words.
	storeRandomly(xs []T, d num.DType, words []int32)
	// sum adds terms in a shape.
	sum(terms []T, s shape) T
	// adder returns n sums of a shape, each of which takes width terms of a row.
	adder(n, width int, s shape) adder[T]
}

// rounder is a kind of number with a rounding of its own.
type rounder[T any] interface{ rounding() rounding[T] }

var (
	_ rounder[polynomial] = polynomial{}
	_ rounder[settled]    = settled{}
)

// roundingOf returns the rounding of a mode. Numbers may have a rounding of their own; that of
// intervals is nearest. Stochastic rounding follows the random words only for kernels with an
// Order: the documented bound of a definition must hold for all words.
func roundingOf[T ball.Number[T]](o Options, zero T) rounding[T] {
	if own, ok := any(zero).(rounder[T]); ok {
		return own.rounding()
	}
	if o.Mode == Exact {
		return exactly[T]{zero}
	}
	if r, ok := any(nearest{}).(rounding[T]); ok {
		return r
	}
	return widened[T]{zero, o.Order != nil}
}

// exactly does not round.
type exactly[T ball.Number[T]] struct{ zero T }

func (exactly[T]) step([]T, float64, float64)            {}
func (exactly[T]) scale([]T)                             {}
func (exactly[T]) function([]T, float64, float64)        {}
func (exactly[T]) store([]T, num.DType)                  {}
func (exactly[T]) storeRandomly([]T, num.DType, []int32) {}
func (r exactly[T]) sum(terms []T, _ shape) T            { return r.zero.Sum(terms) }
func (r exactly[T]) adder(n, width int, _ shape) adder[T] {
	return newAdder(r.zero, n, width, false, 0)
}

// widened adds the largest error of the model to every result.
type widened[T ball.Number[T]] struct {
	zero   T
	byWord bool // stochastic rounding follows the random words
}

func (r widened[T]) step(xs []T, u, eta float64) { r.within(xs, u, eta, math.MaxFloat32) }
func (r widened[T]) scale(xs []T)                { r.within(xs, 0, 2*tiny, math.MaxFloat32) }

func (r widened[T]) function(xs []T, u, eta float64) {
	for j, x := range xs {
		xs[j] = x.Widen(u, eta)
	}
}

func (r widened[T]) store(xs []T, d num.DType) {
	u, eta, limit := storageError(d)
	r.within(xs, u, eta, limit)
}

// storeRandomly adds the distance to either neighbour; or it rounds the ends, as nearest does:
// what is rounded is a binary32.
func (r widened[T]) storeRandomly(xs []T, d num.DType, words []int32) {
	if !r.byWord {
		u, eta, limit := storageError(d)
		r.within(xs, 2*u, 2*eta, limit)
		return
	}
	for j, x := range xs {
		lo, hi := x.Endpoints()
		stored := func(end float64) T {
			return x.FromFloat64(float64(num.StochasticRound(d, float32(end), uint32(at(words, j)))))
		}
		xs[j] = stored(lo).Hull(stored(hi))
	}
}

// within adds the error of a rounding. Zero rounds to itself, a rounding never changes a sign,
// and a value that may exceed the limit may become infinite.
func (r widened[T]) within(xs []T, u, eta, limit float64) {
	if u == 0 && eta == 0 {
		return
	}
	for j, x := range xs {
		lo, hi := x.Bounds()
		m := max(-lo, hi)
		switch {
		case lo == 0 && hi == 0:
			continue
		case !(m+float64(m*u) <= limit):
			xs[j] = x.FromFloat64(math.NaN())
			continue
		}
		xs[j] = x.Widen(u, eta)
		switch reach := float64(m*u) + eta; {
		case lo >= 0 && lo <= reach:
			xs[j] = xs[j].Max(r.zero)
		case hi <= 0 && -hi <= reach:
			xs[j] = xs[j].Min(r.zero)
		}
	}
}

func (r widened[T]) sum(terms []T, s shape) T {
	return roundedSum(r.zero.Sum(terms), addSizes(size{}, terms), s.factor())
}

func (r widened[T]) adder(n, width int, s shape) adder[T] {
	return newAdder(r.zero, n, width, true, s.factor())
}

// nearest rounds the ends of intervals as binary32 rounds results. Rounding to nearest
// is monotonic, so all results of a step lie between its results at the ends, and no
// error is added. A function, or a sum in an undeclared order, is widened by its error;
// its result is a binary32 too, so the interval shrinks to the first and the last of
// these. The same holds for scale, whose two roundings matter only for subnormals.
type nearest struct{}

func (nearest) step(xs []ball.Interval, _, _ float64) {
	for j, x := range xs {
		xs[j] = x.Nearest()
	}
}

func (r nearest) scale(xs []ball.Interval) { r.function(xs, 0, 2*tiny) }

func (nearest) function(xs []ball.Interval, u, eta float64) {
	for j, x := range xs {
		xs[j] = x.Widen(u, eta).Inside()
	}
}

func (nearest) store(xs []ball.Interval, d num.DType) {
	ends(xs, func(x float32, _ int) float32 { return num.Round(d, x) })
}

// storeRandomly rounds the ends: for a given word, stochastic rounding is monotonic.
func (nearest) storeRandomly(xs []ball.Interval, d num.DType, words []int32) {
	ends(xs, func(x float32, j int) float32 { return num.StochasticRound(d, x, uint32(at(words, j))) })
}

// ends applies a monotonic function to both ends.
func ends(xs []ball.Interval, f func(x float32, j int) float32) {
	for j, x := range xs {
		lo := x.FromFloat64(float64(f(float32(x.Lo), j)))
		xs[j] = lo.Hull(x.FromFloat64(float64(f(float32(x.Hi), j))))
	}
}

// sum adds the terms; in a fixed shape each addition is a step.
func (nearest) sum(terms []ball.Interval, s shape) ball.Interval {
	if s.isFixed() {
		return fold(s, terms, func(a, b ball.Interval) ball.Interval { return a.Add(b).Nearest() })
	}
	return widened[ball.Interval]{}.sum(terms, s).Inside()
}

func (r nearest) adder(n, _ int, s shape) adder[ball.Interval] {
	return &collector[ball.Interval]{r: r, shape: s, terms: make([][]ball.Interval, n)}
}
