package truth

import (
	"cmp"
	"math"
	"slices"

	"tokitai/def"
	"tokitai/num"
)

// A row's sums are computed once. However large the error of a sum is, it is the same for all
// elements of the row: the error of element i is
//
//	Σ_s c_is·δ_s + its own,    c_is = dy_i/ds·Σ|terms of s|,    |δ_s| <= factor of the sum's shape
//
// with one δ_s for the whole row. So elements that were stored bound Σ_s c_is·δ_s for the others:
// where c of an element is a combination Σ_j a_j·c_j of those of other elements, it lies in the sum of
// their intervals, each times a_j.

// jointSum has the derivatives of the elements of an output by one sum over their row, times the
// magnitudes of its terms: midpoints and radii, row after row.
type jointSum struct {
	by, slack []float64
}

// keepJoint keeps the derivatives of the current row by its sums.
func (z *result) keepJoint(p *perturbation) {
	out, first := p.outputs[z.of.Operand], p.box.row*z.width
	at := 0
	for _, n := range p.narrow {
		if n.Op != def.OpRowSum {
			continue
		}
		if at == len(out.joint) {
			size := len(out.exact)
			out.joint = append(out.joint, jointSum{make([]float64, size), make([]float64, size)})
		}
		size := p.sizes[n.ID][0]
		for i, d := range z.column.narrow.at(n.ID) {
			out.joint[at].by[first+i] = d.Mid * size
			out.joint[at].slack[first+i] = float64(d.Rad*size) + float64(math.Abs(d.Mid)*size*0x1p-48)
		}
		at++
	}
}

// interval is a range of Σ_s c_s·δ_s.
type interval struct{ lo, hi float64 }

// witness is an element that was stored, and so bounds the errors of its row's sums.
type witness struct {
	c       []float64
	between interval // of Σ_s c_s·δ_s
	room    float64  // half of its width
}

// Joint is a row of an output, with elements of it that were stored.
type Joint struct {
	s            *Stable
	operand, row int
	most         []float64 // |δ_s|, at most
	witnesses    []witness
}

// mostBases is how many independent sets of witnesses bound another element.
const mostBases = 8

// JointOf bounds the errors of the sums over a row by the stored values of some of its elements. It
// returns nil if nothing follows from them, or if they contradict each other.
func (s *Stable) JointOf(operand, row int, columns []int, stored func(col int) uint32) *Joint {
	z := s.outputs[operand]
	if z == nil || len(z.joint) == 0 || z.words != nil {
		return nil
	}
	j := &Joint{s: s, operand: operand, row: row}
	for range z.joint {
		j.most = append(j.most, s.shapes[rowSums].factor())
	}
	for range 3 { // smaller errors of sums mean smaller second-order terms, and those mean smaller errors
		j.find(columns, stored)
		for k := range j.most {
			unit := make([]float64, len(j.most))
			unit[k] = 1
			between, ok := j.bound(unit)
			if !ok {
				return nil
			}
			j.most[k] = min(j.most[k], max(between.hi, -between.lo))
		}
	}
	return j
}

// Between returns the first and the last stored value that an element of the row may have, which is
// no witness; ok is false if nothing is known of it.
func (j *Joint) Between(col int) (lo, hi uint32, ok bool) {
	s, z := j.s, j.s.outputs[j.operand]
	if !s.Known(j.operand, j.row, col) {
		return 0, 0, false
	}
	shared, ok := j.bound(j.at(col))
	if !ok {
		return 0, 0, false
	}
	d, exact, room := s.call.operands[j.operand].DType, z.exact[s.index(j.operand, j.row, col)].Mid, j.ownError(col)
	return num.NarrowF64(d, exact+shared.lo-room), num.NarrowF64(d, exact+shared.hi+room), true
}

// at returns c of an element.
func (j *Joint) at(col int) []float64 {
	var c []float64
	for _, sum := range j.s.outputs[j.operand].joint {
		c = append(c, sum.by[j.s.index(j.operand, j.row, col)])
	}
	return c
}

// ownError bounds the error of an element that it does not share with its row.
func (j *Joint) ownError(col int) float64 {
	z, i := j.s.outputs[j.operand], j.s.index(j.operand, j.row, col)
	own, m := z.fixed[i], math.Abs(z.exact[i].Mid)+z.exact[i].Rad
	for k, sum := range z.joint {
		own += float64(sum.slack[i] * j.most[k])
		m += float64((math.Abs(sum.by[i]) + sum.slack[i]) * j.most[k])
	}
	return float64((own+float64(stableFactor*unit*(m+own)))*(1+0x1p-40)) + z.exact[i].Rad + j.s.allowed(j.operand, j.row, col)
}

// find makes witnesses of elements, those that say most about the sums first.
func (j *Joint) find(columns []int, stored func(col int) uint32) {
	z, d := j.s.outputs[j.operand], j.s.call.operands[j.operand].DType
	j.witnesses = j.witnesses[:0]
	for _, col := range columns {
		v := float64(num.Value(d, uint64(stored(col))))
		if v-v != 0 || !j.s.Known(j.operand, j.row, col) {
			continue
		}
		off := v - z.exact[j.s.index(j.operand, j.row, col)].Mid
		room := j.ownError(col) + num.ULP(d, v) // at least half of the gap to each neighbour
		if c := j.at(col); norm(c) > 0 {
			j.witnesses = append(j.witnesses, witness{c, interval{off - room, off + room}, room})
		}
	}
	slices.SortStableFunc(j.witnesses, func(a, b witness) int { return cmp.Compare(norm(b.c)/b.room, norm(a.c)/a.room) })
}

// bound bounds Σ_s c_s·δ_s for given c, from several bases of witnesses; ok is false if they
// contradict each other.
func (j *Joint) bound(c []float64) (found interval, ok bool) {
	for k := range c {
		found.hi += math.Abs(c[k]) * j.most[k]
	}
	found.lo = -found.hi
	left := slices.Clone(j.witnesses)
	for range mostBases {
		basis, directions := basisOf(left, len(c))
		if len(basis) == 0 {
			break
		}
		// c = Σ a_k·c_k + rest: each direction belongs to one witness and those before it.
		rest, sum, size := slices.Clone(c), interval{}, 0.0
		for k := len(basis) - 1; k >= 0; k-- {
			w := &left[basis[k]]
			a := dot(rest, directions[k]) / dot(w.c, directions[k])
			subtract(rest, w.c, a)
			p, q := a*w.between.lo, a*w.between.hi
			sum.lo, sum.hi, size = sum.lo+min(p, q), sum.hi+max(p, q), size+math.Abs(p)+math.Abs(q)
		}
		slack := 0.0
		for k, x := range rest {
			slack += math.Abs(x) * j.most[k]
		}
		slack += (size + slack) * 0x1p-40 // of the arithmetic here
		if sum.lo-slack > found.hi || sum.hi+slack < found.lo {
			return interval{}, false
		}
		found = interval{max(found.lo, sum.lo-slack), min(found.hi, sum.hi+slack)}
		for k := len(basis) - 1; k >= 0; k-- {
			left = slices.Delete(left, basis[k], basis[k]+1)
		}
	}
	return found, true
}

// basisOf returns the first witnesses that are independent of those before, and for each the
// direction that it adds.
func basisOf(list []witness, most int) (basis []int, directions [][]float64) {
	for k := range list {
		c := slices.Clone(list[k].c)
		for _, e := range directions {
			subtract(c, e, dot(c, e))
		}
		if n := norm(c); n > norm(list[k].c)/1024 { // otherwise it says what the others say
			divide(c, n)
			if basis, directions = append(basis, k), append(directions, c); len(basis) == most {
				break
			}
		}
	}
	return basis, directions
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i] * b[i])
	}
	return sum
}

func norm(a []float64) float64 { return math.Sqrt(dot(a, a)) }

func divide(a []float64, by float64) {
	for i := range a {
		a[i] /= by
	}
}

func subtract(a, b []float64, times float64) {
	for i := range a {
		a[i] -= float64(times * b[i])
	}
}
