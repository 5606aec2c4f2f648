package truth

import (
	"math"
	"slices"

	"tokitai/def"
	"tokitai/num"
	"tokitai/num/ball"
)

// shape describes how the terms of a sum are added: in an order, or as the definition sums a
// whole tensor.
type shape struct {
	n        int
	order    def.Order
	isOfRows bool // rows of num.FlatRow, whose sums form a row, and so on until one is left
}

// flat stands for the lanes of a sum over a whole tensor.
const flat = 0

// shape returns the shape of a sum of n terms: Options.Order, or else the definition's own
// number of lanes.
func (k *call) shape(n, lanes int) shape {
	switch {
	case k.Order != nil:
		return shape{n: n, order: *k.Order}
	case lanes == flat:
		return shape{n: n, isOfRows: true}
	}
	return shape{n: n, order: laneOrder(lanes)}
}

// isFixed reports whether the shape determines every addition.
func (s shape) isFixed() bool { return s.isOfRows || s.order.IsDeclared() }

func (s shape) height() int {
	if s.isOfRows {
		return totalHeight(s.n)
	}
	return s.order.Height(s.n)
}

// factor bounds the error of a sum of binary32 numbers, relative to Σ|x|:
// gamma(height) (Higham 2002, section 4.2), and (n-1)·unit in any order (Jeannerod and
// Rump 2013). Additions do not underflow.
func (s shape) factor() float64 { return s.factorAt(math.MaxInt) }

// factorAt is the factor of a sum in the shape, if that has at most the given height, or else in
// any order of that height.
func (s shape) factorAt(height int) float64 {
	return min(gamma(min(s.height(), max(height, 0))), float64(max(s.n-1, 0))*unit)
}

// laneOrder returns the definition's own order of a row.
func laneOrder(lanes int) def.Order { return def.Order{Kind: def.Lanes, Width: lanes} }

// totalHeight returns the largest number of rounding additions that a term of a sum over
// a whole tensor passes through.
func totalHeight(n int) int {
	h := 0
	for n > 1 {
		last := n % num.FlatRow
		longest := min(n, num.FlatRow)
		level := laneOrder(num.RowLanes(longest)).Height(longest)
		if last > 0 {
			level = max(level, laneOrder(num.RowLanes(last)).Height(last))
		}
		h += level
		n = (n + num.FlatRow - 1) / num.FlatRow
	}
	return h
}

// fold adds terms in a fixed shape.
func fold[T any](s shape, terms []T, add func(a, b T) T) T {
	if !s.isOfRows {
		return def.Fold(s.order, terms, add)
	}
	for len(terms) > 1 {
		var sums []T
		for row := range slices.Chunk(terms, num.FlatRow) {
			sums = append(sums, def.Fold(laneOrder(num.RowLanes(len(row))), row, add))
		}
		terms = sums
	}
	return def.Fold(def.Sequential, terms, add)
}

// adder computes several sums at once. The terms of a row are all added to one sum, or one to
// each sum.
type adder[T any] interface {
	add(row []T)
	total(out []T)
}

// collector keeps all terms.
type collector[T any] struct {
	r     rounding[T]
	shape shape
	terms [][]T // by sum
}

func (c *collector[T]) add(row []T) {
	width := len(row) / len(c.terms)
	for j := range c.terms {
		c.terms[j] = append(c.terms[j], row[j*width:(j+1)*width]...)
	}
}

func (c *collector[T]) total(out []T) {
	for j, terms := range c.terms {
		out[j] = c.r.sum(terms, c.shape)
	}
}

// block is the number of terms that are added together, because Ball.Sum of many terms is tighter.
const block = ball.Block

// newAdder returns n sums, each of which takes width terms of a row: all of it, or one. If the sums
// are rounded, factor has the error relative to the magnitudes of their terms.
func newAdder[T ball.Number[T]](zero T, n, width int, isRounded bool, factor float64) adder[T] {
	if _, ok := any(zero).(ball.Ball); ok && width == 1 {
		return any(newEachColumn(n, isRounded, factor)).(adder[T])
	}
	s := &runningSum[T]{sums: make([]T, n), block: max(width, block), factor: factor}
	for j := range s.sums {
		s.sums[j] = zero
	}
	s.pending = make([]T, n*s.block)
	if isRounded {
		s.sizes = make([]size, n)
	}
	return s
}

// eachColumn encloses exact sums of balls, one for each column, and adds the rounding error at the
// end.
type eachColumn struct {
	sums    *ball.Sums
	abs     []float64 // Σ of the largest magnitudes, if the sums are rounded
	isBelow []bool    // whether a term is below 0
	n       int
	factor  float64 // of their error
}

func newEachColumn(n int, isRounded bool, factor float64) *eachColumn {
	s := &eachColumn{sums: ball.NewSums(n), factor: factor}
	if isRounded {
		s.abs, s.isBelow = make([]float64, n), make([]bool, n)
	}
	return s
}

func (s *eachColumn) add(row []ball.Ball) {
	s.sums.Add(row)
	if s.n++; s.abs != nil {
		ball.AddReach(s.abs, s.isBelow, row)
	}
}

func (s *eachColumn) total(out []ball.Ball) {
	s.sums.Total(out)
	for j, abs := range s.abs {
		z := size{n: s.n, abs: abs}
		if s.isBelow[j] {
			z.least = -1
		}
		out[j] = roundedSum(out[j], z, s.factor)
	}
}

// runningSum encloses exact sums and adds the rounding error at the end. It collects the terms
// in blocks.
type runningSum[T ball.Number[T]] struct {
	sums    []T
	pending []T // block terms of the first sum, then of the second, …
	block   int
	waiting int     // in each
	sizes   []size  // if the sums are rounded
	factor  float64 // of their error
}

func (s *runningSum[T]) add(row []T) {
	width := len(row) / len(s.sums)
	if s.waiting+width > s.block {
		s.flush()
	}
	if width == len(row) {
		copy(s.pending[s.waiting:], row)
	} else {
		for j, x := range row {
			s.pending[j*s.block+s.waiting] = x
		}
	}
	s.waiting += width
}

func (s *runningSum[T]) flush() {
	for j := range s.sums {
		terms := s.pending[j*s.block:][:s.waiting]
		s.sums[j] = s.sums[j].Sum(terms)
		if s.sizes != nil {
			s.sizes[j] = addSizes(s.sizes[j], terms)
		}
	}
	s.waiting = 0
}

func (s *runningSum[T]) total(out []T) {
	s.flush()
	copy(out, s.sums)
	for j, z := range s.sizes {
		out[j] = roundedSum(out[j], z, s.factor)
	}
}

// size holds the magnitudes of terms.
type size struct {
	n     int
	abs   float64 // Σ of the largest magnitudes, in float64
	least float64 // the lowest of 0 and all terms, or any number below 0 in its place
}

func addSizes[T ball.Number[T]](z size, terms []T) size {
	for _, x := range terms {
		z = z.with(x.Bounds())
	}
	return z
}

// with adds a term between lo and hi.
func (z size) with(lo, hi float64) size {
	if lo < z.least {
		z.least = lo
	}
	if -lo > hi {
		hi = -lo
	}
	z.abs += hi
	z.n++
	return z
}

// total bounds Σ|x|: n float64 additions leave it at most n·2^-53 of itself too small.
func (z size) total() float64 { return z.abs * (1 + float64(z.n)*0x1p-52) }

// roundedSum adds the error of binary32 to an exact sum: at most factor·Σ|x|. As long as
// Σ|x|·(1+factor) can be represented no partial sum overflows, and without a term below
// zero none is below zero.
func roundedSum[T ball.Number[T]](sum T, z size, factor float64) T {
	abs := z.total()
	if !(abs*(1+factor) <= math.MaxFloat32) {
		return sum.FromFloat64(math.NaN())
	}
	sum = sum.Widen(0, abs*factor)
	if z.least == 0 {
		return sum.Max(sum.FromFloat64(0))
	}
	return sum
}
