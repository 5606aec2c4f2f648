package truth

import (
	"sync"

	"tokitai/num/ball"
)

// arena allocates vectors that live as long as one evaluation. The next one uses the same memory.
type arena struct {
	ofBalls  slab[ball.Ball]
	ofFloats slab[float64]
}

var arenas = sync.Pool{New: func() any { return &arena{} }}

// balls returns a vector whose values are yet to be set.
func (a *arena) balls(n int) []ball.Ball { return a.ofBalls.take(n) }

// floats returns a vector of zeros.
func (a *arena) floats(n int) []float64 {
	z := a.ofFloats.take(n)
	clear(z)
	return z
}

// release frees all vectors: they must not be used any more.
func (a *arena) release() {
	a.ofBalls.reset()
	a.ofFloats.reset()
	arenas.Put(a)
}

// slab is memory that is taken piece by piece.
type slab[T any] struct {
	memory []T
	used   int
	beyond int // elements that did not fit
}

func (s *slab[T]) take(n int) []T {
	if s.used+n > len(s.memory) {
		s.beyond += n
		return make([]T, n)
	}
	z := s.memory[s.used : s.used+n : s.used+n]
	s.used += n
	return z
}

// mostKept is the number of elements that a slab keeps for the next evaluation.
const mostKept = 1 << 20

func (s *slab[T]) reset() {
	if need := s.used + s.beyond; s.beyond > 0 && len(s.memory) < mostKept {
		s.memory = make([]T, min(need, mostKept))
	}
	s.used, s.beyond = 0, 0
}
