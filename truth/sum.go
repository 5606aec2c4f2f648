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
	abs     []float64 // Σ of the largest magnitudes, in mode Rounded
	terms   int       // added to each sum
	pending []T       // block terms of the first sum, then of the second, …
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
		s.abs = make([]float64, n)
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
			s.abs[j] += magnitude(terms)
		}
	}
	s.terms += s.waiting
	s.waiting = 0
}

func (s *runningSum[T]) total(out []T) {
	s.flush()
	copy(out, s.sums)
	for j, abs := range s.abs {
		out[j] = roundedSum(out[j], abs, s.terms, s.height)
	}
}

// magnitude is Σ of the largest magnitudes, as float64 adds them up.
func magnitude[T ball.Number[T]](terms []T) float64 {
	sum := 0.0
	for _, x := range terms {
		lo, hi := x.Bounds()
		sum += max(-lo, hi)
	}
	return sum
}

// roundedSum adds the error of binary32 to an exact sum of n terms: in a tree of the
// given height it is at most gamma(height)·Σ|x| (Higham 2002, section 4.2). As long as
// Σ|x|·(1+gamma) can be represented no partial sum overflows. abs, added up in
// float64, may be n·2^-53 of itself too small.
func roundedSum[T ball.Number[T]](sum T, abs float64, n, height int) T {
	abs *= 1 + float64(n)*0x1p-52
	g := gamma(height)
	if !(abs*(1+g) <= math.MaxFloat32) {
		return sum.FromFloat64(math.NaN())
	}
	return sum.Widen(0, abs*g)
}
