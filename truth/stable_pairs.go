package truth

import (
	"cmp"
	"math"
	"slices"

	"tokitai/num/ball"
)

// pairs computes Σ_j |a·f_j + b·g_j|·E_j for many a and b, in nearly constant time for each pair.
// With the ratios r = g/f in ascending order and the weights w = |f|·E, the sum is
//
//	Σ_j w_j·|a + b·r_j| = |b|·Σ_j w_j·|r_j - t|,  t = -a/b,
//
// for which the totals of w and w·r on both sides of t suffice. The ratios are sorted, and t is
// found, by cells of equal width, as many as there are ratios.
type pairs struct {
	ratios         []float64
	before         []totals // of the ratios before each; one more than there are ratios
	rest           float64  // Σ |g|·E where f = 0
	first, perCell float64
	cells          []int // the first ratio in each cell, and the number of all
	unsorted       []weighted
	sorted         []weighted
}

// totals are sums of w and w·r.
type totals struct{ weight, moment float64 }

type weighted struct {
	ratio, weight float64
	cell          int
}

// take takes the numbers of a row, midpoints alone.
func (z *pairs) take(f, g []ball.Ball, errors []float64) {
	z.rest = 0
	z.unsorted = z.unsorted[:0]
	first, last := math.Inf(1), math.Inf(-1)
	for j, x := range f {
		if x.Mid == 0 {
			z.rest += float64(math.Abs(g[j].Mid) * errors[j])
			continue
		}
		r := g[j].Mid / x.Mid
		first, last = min(first, r), max(last, r)
		z.unsorted = append(z.unsorted, weighted{ratio: r, weight: float64(math.Abs(x.Mid) * errors[j])})
	}
	z.first, z.perCell = first, float64(len(z.unsorted))/(last-first)
	z.sort()
	n := len(z.sorted)
	z.ratios = slices.Grow(z.ratios[:0], n)[:n]
	z.before = slices.Grow(z.before[:0], n+1)[:n+1]
	sum := totals{}
	z.before[0] = sum
	for i := range z.sorted {
		x := &z.sorted[i]
		sum.weight += x.weight
		sum.moment += float64(x.weight * x.ratio)
		z.ratios[i], z.before[i+1] = x.ratio, sum
	}
}

// cellOf returns the cell of a number. It does not decrease as the number grows, so that a number
// in a higher cell is larger.
func (z *pairs) cellOf(t float64) int {
	cell := (t - z.first) * z.perCell
	switch {
	case cell >= float64(len(z.unsorted)):
		return len(z.unsorted) - 1
	case cell >= 1:
		return int(cell)
	}
	return 0
}

// sort distributes the numbers over the cells and sorts each cell.
func (z *pairs) sort() {
	n := len(z.unsorted)
	z.cells = slices.Grow(z.cells[:0], n+1)[:n+1]
	z.sorted = slices.Grow(z.sorted[:0], n)[:n]
	clear(z.cells)
	for i := range z.unsorted {
		x := &z.unsorted[i]
		x.cell = z.cellOf(x.ratio)
		z.cells[x.cell]++
	}
	end := 0
	for k, count := range z.cells {
		end += count
		z.cells[k] = end
	}
	for i := range z.unsorted {
		x := &z.unsorted[i]
		z.cells[x.cell]--
		z.sorted[z.cells[x.cell]] = *x
	}
	for k := range n {
		if in := z.sorted[z.cells[k]:z.cells[k+1]]; len(in) > 1 {
			sortCell(in)
		}
	}
}

// sortCell sorts the numbers of a cell, which are few as a rule.
func sortCell(in []weighted) {
	if len(in) > 12 {
		slices.SortFunc(in, func(a, b weighted) int { return cmp.Compare(a.ratio, b.ratio) })
		return
	}
	for i := 1; i < len(in); i++ {
		for j := i; j > 0 && in[j].ratio < in[j-1].ratio; j-- {
			in[j], in[j-1] = in[j-1], in[j]
		}
	}
}

// below returns the number of ratios below t.
func (z *pairs) below(t float64) int {
	if len(z.ratios) == 0 {
		return 0
	}
	k := z.cellOf(t)
	lo, hi := z.cells[k], z.cells[k+1]
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); z.ratios[mid] < t {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// sum returns the sum, up to the rounding of float64: about the number of terms, times 2^-52, of
// Σ_j (|a·f_j| + |b·g_j|)·E_j.
func (z *pairs) sum(a, b float64) float64 {
	last := len(z.ratios)
	t := -a / b
	i := z.below(t)
	all, before := z.before[last], z.before[i]
	above := (all.moment - before.moment) - float64(t*(all.weight-before.weight))
	below := float64(t*before.weight) - before.moment
	return math.Abs(b) * (above + below + z.rest)
}
