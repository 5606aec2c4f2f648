package truth

import (
	"math"

	"tokitai/num/ball"
)

// pairs computes Σ_j |a·f_j + b·g_j|·E_j for many a and b in a time that grows with the
// logarithm of the number of terms. With the ratios r = g/f in ascending order and the weights
// w = |f|·E, it is
//
//	Σ_j w_j·|a + b·r_j| = |b|·Σ_j w_j·|r_j - t|,  t = -a/b,
//
// for which totals of w and w·r on both sides of t suffice.
type pairs struct {
	ratios          []float64
	weights         []float64
	totals, moments []float64 // of w and w·r, before each; one more than there are ratios
	rest            float64   // Σ |g|·E where f = 0
	first, perCell  float64
	cells           []int // the first ratio in each cell
	keys, other     []keyed
	unsorted        []float64
}

// keyed is a place in a row with the key that it is sorted by.
type keyed struct {
	key   uint64
	place int
}

// take takes the numbers of a row, midpoints alone.
func (z *pairs) take(f, g []ball.Ball, errors []float64) {
	z.rest = 0
	z.keys = z.keys[:0]
	ratios := z.scratch(len(f))
	for j, x := range f {
		if x.Mid == 0 {
			z.rest += float64(math.Abs(g[j].Mid) * errors[j])
			continue
		}
		ratios[j] = g[j].Mid / x.Mid
		z.keys = append(z.keys, keyed{orderedBits(ratios[j]), j})
	}
	z.sort()
	z.ratios, z.totals, z.moments = z.ratios[:0], append(z.totals[:0], 0), append(z.moments[:0], 0)
	total, moment := 0.0, 0.0
	for _, k := range z.keys {
		r, w := ratios[k.place], math.Abs(f[k.place].Mid)*errors[k.place]
		total += w
		moment += float64(w * r)
		z.ratios, z.totals, z.moments = append(z.ratios, r), append(z.totals, total), append(z.moments, moment)
	}
	z.divide()
}

func (z *pairs) scratch(n int) []float64 {
	if len(z.unsorted) < n {
		z.unsorted = make([]float64, n)
	}
	return z.unsorted[:n]
}

// orderedBits maps numbers to integers in the same order.
func orderedBits(x float64) uint64 {
	b := math.Float64bits(x)
	if b>>63 == 1 {
		return ^b
	}
	return b | 1<<63
}

// sort sorts the keys by their first 33 bits, eleven at a time from the last, and then by all of
// them, which moves few.
func (z *pairs) sort() {
	if len(z.keys) < 64 {
		insert(z.keys)
		return
	}
	z.other = append(z.other[:0], z.keys...)
	from, to := z.keys, z.other
	for shift := 31; shift < 64; shift += 11 {
		var starts [1 << 11]int
		for _, k := range from {
			starts[k.key>>shift&(1<<11-1)]++
		}
		next := 0
		for d, n := range starts {
			starts[d], next = next, next+n
		}
		for _, k := range from {
			d := k.key >> shift & (1<<11 - 1)
			to[starts[d]] = k
			starts[d]++
		}
		from, to = to, from
	}
	z.keys, z.other = from, to
	insert(z.keys)
}

// insert sorts keys that are almost in order.
func insert(keys []keyed) {
	for i, k := range keys {
		for i > 0 && keys[i-1].key > k.key {
			keys[i] = keys[i-1]
			i--
		}
		keys[i] = k
	}
}

// search returns the number of ratios below t. Cells of equal width, as many as there are ratios,
// say where to look.
func (z *pairs) search(t float64) int {
	cell := (t - z.first) * z.perCell
	switch {
	case !(cell > 0):
		return 0
	case !(cell < float64(len(z.cells)-1)):
		return len(z.ratios)
	}
	lo, hi := z.cells[int(cell)], z.cells[int(cell)+1]
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); z.ratios[mid] < t {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// divide finds the ratios of each cell. The first cell that may hold a ratio is the one in which
// search looks for it: both compute it alike, and it increases with the ratio.
func (z *pairs) divide() {
	n := len(z.ratios)
	z.cells = z.cells[:0]
	if n == 0 {
		return
	}
	z.first = z.ratios[0]
	z.perCell = float64(n) / (z.ratios[n-1] - z.first)
	i := 0
	for cell := range n + 1 {
		for i < n && (z.ratios[i]-z.first)*z.perCell < float64(cell) {
			i++
		}
		z.cells = append(z.cells, i)
	}
	z.cells = append(z.cells, n)
}

// sum returns the sum, up to the rounding of float64: about the number of terms, times 2^-52, of
// Σ_j (|a·f_j| + |b·g_j|)·E_j.
func (z *pairs) sum(a, b float64) float64 {
	last := len(z.ratios)
	t := -a / b
	i := z.search(t)
	above := (z.moments[last] - z.moments[i]) - float64(t*(z.totals[last]-z.totals[i]))
	below := float64(t*z.totals[i]) - z.moments[i]
	return math.Abs(b) * (above + below + z.rest)
}
