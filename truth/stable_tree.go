package truth

import (
	"math"
	"slices"
)

// tree computes Σ_j |Σ_s a_s·g_sj|·E_j for many a and any number of sums s. The columns j are
// divided into halves, these into halves, and so on, each along the coordinate in which the
// directions of the vectors g_j differ most. If all vectors of a branch are on the same side of the
// plane perpendicular to a, their products with a have the same sign, and the sum of the vectors
// suffices. The plane cuts few branches: about √n of n for three sums.
type tree struct {
	isBuilt  bool
	dim      int
	scale    []float64 // the largest |g_sj| of each sum
	columns  []int     // those that count, in the order of the leaves
	branches []branch  // the whole first, each before its halves
	boxes    []float64 // of each branch: the least and the greatest of each coordinate of a direction
	totals   []float64 // of each branch: the sum of the vectors
	at       []float64 // of each column: the direction
	vectors  []float64 // of each column: g_j·E_j or its negative
	scaled   []float64 // scratch of sum
}

// branch is the columns from first up to end. next is the number of the branch after it and its
// halves.
type branch struct{ first, end, next int }

// mostInLeaf is the number of columns up to which a branch is not divided.
const mostInLeaf = 8

// build takes the derivatives and errors of a row, midpoints alone. The direction of a vector is
// the vector in units of scale, divided by its largest coordinate: the sign of a vector does not
// matter.
func (t *tree) build(sums []dense, errors []float64) {
	n := len(errors) * len(sums)
	t.isBuilt, t.dim = true, len(sums)
	t.columns, t.branches, t.boxes, t.totals = t.columns[:0], t.branches[:0], t.boxes[:0], t.totals[:0]
	t.at = slices.Grow(t.at[:0], n)[:n]
	t.vectors = slices.Grow(t.vectors[:0], n)[:n]
	t.scale = slices.Grow(t.scale[:0], t.dim)[:t.dim]
	t.scaled = slices.Grow(t.scaled[:0], t.dim)[:t.dim]
	for s := range sums {
		t.scale[s] = 0
		for _, d := range sums[s].by {
			t.scale[s] = max(t.scale[s], math.Abs(d.Mid))
		}
		if t.scale[s] == 0 {
			t.scale[s] = 1
		}
	}
	for j, e := range errors {
		vector, at := t.vectors[j*t.dim:(j+1)*t.dim], t.at[j*t.dim:(j+1)*t.dim]
		largest := 0.0
		for s := range sums {
			g := sums[s].by[j].Mid
			vector[s], at[s] = float64(g*e), g/t.scale[s]
			if math.Abs(at[s]) > math.Abs(largest) {
				largest = at[s]
			}
		}
		if e == 0 || largest == 0 {
			continue // it adds nothing
		}
		for s := range sums {
			if at[s] /= largest; largest < 0 {
				vector[s] = -vector[s]
			}
		}
		t.columns = append(t.columns, j)
	}
	if len(t.columns) > 0 {
		t.divide(0, len(t.columns))
	}
}

// divide adds a branch and its halves.
func (t *tree) divide(first, end int) {
	k := len(t.branches)
	t.branches = append(t.branches, branch{first: first, end: end})
	widest, width := 0, 0.0
	for s := range t.dim {
		lo, hi, total := math.Inf(1), math.Inf(-1), 0.0
		for _, j := range t.columns[first:end] {
			x := t.at[j*t.dim+s]
			lo, hi = min(lo, x), max(hi, x)
			total += t.vectors[j*t.dim+s]
		}
		t.boxes = append(t.boxes, lo, hi)
		t.totals = append(t.totals, total)
		if hi-lo > width {
			widest, width = s, hi-lo
		}
	}
	if end-first > mostInLeaf && width > 0 {
		middle := (first + end) / 2
		t.order(first, end, middle, widest)
		t.divide(first, middle)
		t.divide(middle, end)
	}
	t.branches[k].next = len(t.branches)
}

// order moves columns so that none before the middle has a larger coordinate s than one after it.
func (t *tree) order(first, end, middle, s int) {
	of := func(i int) float64 { return t.at[t.columns[i]*t.dim+s] }
	for lo, hi := first, end-1; lo < hi; {
		pivot := of((lo + hi) / 2)
		i, j := lo, hi
		for i <= j {
			for of(i) < pivot {
				i++
			}
			for of(j) > pivot {
				j--
			}
			if i <= j {
				t.columns[i], t.columns[j] = t.columns[j], t.columns[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case middle <= j:
			hi = j
		case middle >= i:
			lo = i
		default:
			return
		}
	}
}

// sum returns the sum for the coefficients a_s of sums, up to the rounding of float64: less than
// the number of columns, plus 4 times that of sums, times 2^-52, of Σ_j Σ_s |a_s·g_sj|·E_j.
func (t *tree) sum(sums []dense) float64 {
	for s := range sums {
		t.scaled[s] = float64(sums[s].a * t.scale[s])
	}
	total := 0.0
	for k := 0; k < len(t.branches); {
		b := &t.branches[k]
		box, lo, hi := t.boxes[2*k*t.dim:2*(k+1)*t.dim], 0.0, 0.0
		for s, a := range t.scaled {
			x, y := float64(a*box[2*s]), float64(a*box[2*s+1])
			lo, hi = lo+min(x, y), hi+max(x, y)
		}
		switch {
		case lo >= 0 || hi <= 0:
			total += math.Abs(along(sums, t.totals[k*t.dim:]))
			k = b.next
			continue
		case b.next == k+1:
			for _, j := range t.columns[b.first:b.end] {
				total += math.Abs(along(sums, t.vectors[j*t.dim:]))
			}
		}
		k++
	}
	return total
}

// along returns the scalar product of the coefficients and a vector.
func along(sums []dense, vector []float64) float64 {
	d := 0.0
	for s := range sums {
		d += float64(sums[s].a * vector[s])
	}
	return d
}
