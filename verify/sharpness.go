package verify

import "math"

// count counts an element's set.
func (j *judgement) count(s *set) {
	if s.isOnGrid {
		j.OnGrid++
	}
	switch {
	case s.isOpen:
		j.Unspecified++
	case s.count > 0:
		j.Admissible.count(s.count)
	}
}

// sizes counts admissible sets by size: exactly up to a limit, by powers of two beyond.
type sizes struct {
	N     int64           `json:"n"`
	Sum   float64         `json:"sum"`
	Worst int64           `json:"worst"`
	Over  int64           `json:"over_one"`
	Small map[int64]int64 `json:"small,omitempty"` // number of sets by size, or by the power of two below it
}

const exactSizes = 256

func (s *sizes) count(n int64) {
	s.N++
	s.Sum += float64(n)
	s.Worst = max(s.Worst, n)
	if n > 1 {
		s.Over++
		if s.Small == nil {
			s.Small = map[int64]int64{}
		}
		s.Small[bucket(n)]++
	}
}

func bucket(n int64) int64 {
	if n <= exactSizes {
		return n
	}
	return int64(math.Ldexp(1, math.Ilogb(float64(n))))
}

func (s *sizes) add(t sizes) {
	s.N += t.N
	s.Sum += t.Sum
	s.Worst = max(s.Worst, t.Worst)
	s.Over += t.Over
	for size, n := range t.Small {
		if s.Small == nil {
			s.Small = map[int64]int64{}
		}
		s.Small[size] += n
	}
}

// median returns the median size; beyond the limit, the power of two below it.
func (s *sizes) median() float64 {
	left := s.N/2 - (s.N - s.Over)
	if left < 0 {
		return 1
	}
	for _, size := range sortedKeys(s.Small) {
		if left -= s.Small[size]; left < 0 {
			return float64(size)
		}
	}
	return float64(s.Worst)
}
