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
	ratios         []float64 // ascending, then some that are infinite
	before         []totals  // of the ratios before each; one more than there are ratios
	rest           float64   // Σ |g|·E where f = 0
	first, perCell float64
	all            cells
	unsorted       []weighted
	sorted         []weighted
	found          []float64

	ofCell cells      // of the numbers of one cell
	inCell []weighted // before they are sorted
}

// totals are sums of w and w·r.
type totals struct{ weight, moment float64 }

type weighted struct{ ratio, weight float64 }

// few is the number of ratios that are compared at once, rather than searched.
const few = 4

// take takes the numbers of a row, midpoints alone, and sums the magnitudes of midpoints and radii.
func (z *pairs) take(f, g *dense, errors []float64) {
	n := len(errors)
	z.unsorted = slices.Grow(z.unsorted[:0], n)[:n]
	unsorted := z.unsorted
	count := 0
	first, last := math.Inf(1), math.Inf(-1)
	fs, gs := f.by[:n], g.by[:n]
	fSize, fSlack, gSize, gSlack, rest := 0.0, 0.0, 0.0, 0.0, 0.0
	for j, e := range errors {
		x, y := fs[j], gs[j]
		w, v := float64(math.Abs(x.Mid)*e), float64(math.Abs(y.Mid)*e)
		fSize += w
		fSlack += float64(x.Rad * e)
		gSize += v
		gSlack += float64(y.Rad * e)
		if x.Mid == 0 {
			rest += v
			continue
		}
		r := y.Mid / x.Mid
		if r < first {
			first = r
		}
		if r > last {
			last = r
		}
		unsorted[count] = weighted{ratio: r, weight: w}
		count++
	}
	f.size, f.slack, g.size, g.slack, z.rest = fSize, fSlack, gSize, gSlack, rest
	z.unsorted = unsorted[:count]
	z.first, z.perCell = first, float64(count)/(last-first)
	z.sort()
	z.ratios = slices.Grow(z.ratios[:0], count+few)[:count+few]
	z.before = slices.Grow(z.before[:0], count+1)[:count+1]
	ratios, before := z.ratios[:count], z.before[:count]
	sum := totals{}
	for i, x := range z.sorted[:count] {
		ratios[i], before[i] = x.ratio, sum
		sum.weight += x.weight
		sum.moment += float64(x.weight * x.ratio)
	}
	z.before[count] = sum
	for i := range few {
		z.ratios[count+i] = math.Inf(1)
	}
}

// cellOf returns the cell of a number, given where it is in units of a cell. It does not decrease as
// the number grows, so that a number in a higher cell is larger. Which cell a NaN has is of no
// interest.
func cellOf(at float64, last int) int { return max(0, min(int(min(at, float64(last))), last)) }

// sort distributes the numbers over the cells and sorts each cell.
func (z *pairs) sort() {
	n := len(z.unsorted)
	z.sorted = slices.Grow(z.sorted[:0], n)[:n]
	z.all.sort(z.sorted, z.unsorted, z.first, z.perCell, z.sortCell)
}

// cells divides numbers among cells of equal width, as many as there are numbers.
type cells struct {
	starts []int32 // the first number in each cell, and how many there are in all
	of     []int32 // of the unsorted ones
}

// sort sorts by cells; the numbers of a cell are in the opposite order until each sorts them.
func (z *cells) sort(sorted, unsorted []weighted, first, perCell float64, each func([]weighted)) {
	n := len(unsorted)
	z.starts = slices.Grow(z.starts[:0], n+1)[:n+1]
	z.of = slices.Grow(z.of[:0], n)[:n]
	starts, of := z.starts, z.of
	clear(starts)
	for i, x := range unsorted {
		cell := cellOf((x.ratio-first)*perCell, n-1)
		of[i] = int32(cell)
		starts[cell]++
	}
	end := int32(0)
	for k, count := range starts {
		end += count
		starts[k] = end
	}
	for i, cell := range of {
		at := starts[cell] - 1
		starts[cell] = at
		sorted[at] = unsorted[i]
	}
	start := starts[0]
	for _, end := range starts[1:] {
		switch end - start {
		case 0, 1:
		case 2:
			exchange((*[2]weighted)(sorted[start:end]))
		default:
			each(sorted[start:end])
		}
		start = end
	}
}

// sortCell sorts the numbers of a cell. Many are divided once more. The order of equal ones is that of
// slices.SortFunc.
func (z *pairs) sortCell(in []weighted) {
	if len(in) <= 12 {
		insert(in)
		return
	}
	z.inCell = append(z.inCell[:0], in...)
	first, last := math.Inf(1), math.Inf(-1)
	for _, x := range in {
		if x.ratio < first {
			first = x.ratio
		}
		if x.ratio > last {
			last = x.ratio
		}
	}
	if perCell := float64(len(in)) / (last - first); perCell > 0 && perCell <= math.MaxFloat64 {
		z.ofCell.sort(in, z.inCell, first, perCell, insertFew)
		if isAscending(in) {
			return
		}
		copy(in, z.inCell)
	}
	slices.SortFunc(in, compare)
}

func compare(a, b weighted) int { return cmp.Compare(a.ratio, b.ratio) }

// isAscending reports whether each number is above the one before.
func isAscending(in []weighted) bool {
	for i := 1; i < len(in); i++ {
		if !(in[i-1].ratio < in[i].ratio) {
			return false
		}
	}
	return true
}

// insertFew sorts numbers, of which there are few as a rule.
func insertFew(in []weighted) {
	if len(in) > 12 {
		slices.SortFunc(in, compare)
		return
	}
	insert(in)
}

// insert sorts numbers, and leaves equal ones in their order.
func insert(in []weighted) {
	for i := 1; i < len(in); i++ {
		for j := i; j > 0 && in[j].ratio < in[j-1].ratio; j-- {
			in[j], in[j-1] = in[j-1], in[j]
		}
	}
}

// exchange sorts two numbers, without a jump that a processor would have to guess.
func exchange(in *[2]weighted) {
	i := less(in[1].ratio, in[0].ratio) & 1
	in[0], in[1] = in[i], in[1-i]
}

// less is 1 if x is below y, else 0, without a jump.
func less(x, y float64) int {
	if x < y {
		return 1
	}
	return 0
}

// sum returns the sum, up to the rounding of float64: about the number of terms, times 2^-52, of
// Σ_j (|a·f_j| + |b·g_j|)·E_j.
func (z *pairs) sum(a, b float64) float64 {
	return z.sums([]ball.Ball{{Mid: a}}, []ball.Ball{{Mid: b}})[0]
}

// sums returns the sums for the midpoints of many a and b. They are valid until the next call.
func (z *pairs) sums(a, b []ball.Ball) []float64 {
	z.found = slices.Grow(z.found[:0], len(a))[:len(a)]
	b, found := b[:len(a)], z.found
	ratios, before, starts, first, perCell, rest := z.ratios, z.before, z.all.starts, z.first, z.perCell, z.rest
	count := len(before) - 1
	all := before[count]
	for i := range a {
		y := b[i].Mid
		t := -a[i].Mid / y
		n := 0 // the number of ratios below t
		if count > 0 {
			k := cellOf((t-first)*perCell, count-1)
			lo := int(starts[k])
			for left := int(starts[k+1]) - lo; left > few; { // the number is between lo and lo+left
				half := left >> 1
				lo += half * less(ratios[lo+half-1], t)
				left -= half
			}
			r := (*[few]float64)(ratios[lo : lo+few]) // none from lo+left on is below t
			n = lo + less(r[0], t) + less(r[1], t) + less(r[2], t) + less(r[3], t)
		}
		above := (all.moment - before[n].moment) - float64(t*(all.weight-before[n].weight))
		below := float64(t*before[n].weight) - before[n].moment
		found[i] = math.Abs(y) * (above + below + rest)
	}
	return found
}
