package truth

import (
	"math"

	"tokitai/num/ball"
)

// runningSum is a number of sums side by side, to which rows of terms are added. The
// terms wait in blocks, because a ball adds many at a time more tightly.
type runningSum[T ball.Number[T]] struct {
	mode    Mode
	height  int
	sums    []T
	sizes   []size // in mode Rounded
	pending []T    // block terms of the first sum, then of the second, …
	block   int
	waiting int // in each
}

// newRunningSum makes n sums of which each takes width terms of a row, and which the
// definition adds up in the given height.
func newRunningSum[T ball.Number[T]](zero T, mode Mode, n, width, height int) *runningSum[T] {
	s := &runningSum[T]{mode: mode, height: height, sums: make([]T, n), block: max(width, 64)}
	for j := range s.sums {
		s.sums[j] = zero
	}
	s.pending = make([]T, n*s.block)
	if mode == Rounded {
		s.sizes = make([]size, n)
	}
	return s
}

// add takes a row: its terms all go to one sum, or one to each.
func (s *runningSum[T]) add(row []T) {
	width := len(row) / len(s.sums)
	if s.waiting+width > s.block {
		s.flush()
	}
	for j, x := range row {
		s.pending[j/width*s.block+s.waiting+j%width] = x
	}
	s.waiting += width
}

func (s *runningSum[T]) flush() {
	for j := range s.sums {
		terms := s.pending[j*s.block:][:s.waiting]
		s.sums[j] = s.sums[j].Sum(terms)
		if s.mode == Rounded {
			s.sizes[j] = addSizes(s.sizes[j], terms)
		}
	}
	s.waiting = 0
}

func (s *runningSum[T]) total(out []T) {
	s.flush()
	copy(out, s.sums)
	for j, z := range s.sizes {
		out[j] = roundedSum(out[j], z, s.height)
	}
}

// size is how large terms are.
type size struct {
	n     int
	abs   float64 // Σ of the largest magnitudes, as float64 adds them up
	least float64 // the lowest of 0 and all terms
}

func addSizes[T ball.Number[T]](z size, terms []T) size {
	z.n += len(terms)
	for _, x := range terms {
		lo, hi := x.Bounds()
		z.abs += max(-lo, hi)
		z.least = min(z.least, lo)
	}
	return z
}

// roundedSum adds the error of binary32 to an exact sum: in a tree of the given height
// it is at most gamma(height)·Σ|x| (Higham 2002, section 4.2). As long as
// Σ|x|·(1+gamma) can be represented no partial sum overflows, and without a term below
// zero none is below zero. n float64 additions leave Σ|x| at most n·2^-53 of itself too
// small.
func roundedSum[T ball.Number[T]](sum T, z size, height int) T {
	abs := z.abs * (1 + float64(z.n)*0x1p-52)
	g := gamma(height)
	if !(abs*(1+g) <= math.MaxFloat32) {
		return sum.FromFloat64(math.NaN())
	}
	sum = sum.Widen(0, abs*g)
	if z.least == 0 {
		return sum.Max(sum.FromFloat64(0))
	}
	return sum
}
