package truth

import (
	"math"
	"slices"

	"tokitai/def"
	"tokitai/num/ball"
	"tokitai/truth/internal/tune"
)

// spread holds the derivatives of all reductions of a row by one wide value that has an error,
// in all columns. It bounds
//
//	Σ_j |Σ_s a_s·g_sj|·E_j
//
// where a_s = dy/ds, g_sj = ds/dv_j and E_j is the error. The bound is exact up to second order;
// Σ_s |a_s|·Σ_j |g_sj|·E_j would count contributions that cancel. For an element in column c, its
// direct derivative is added for j = c.
type spread struct {
	node   *def.Node
	errors []float64
	sums   []dense
	others []sparse
	pairs  pairs // if there are two sums
	tree   tree  // if there are more, and many columns

	isMinor bool // the errors are only those of underflow and of single steps: the sum of magnitudes suffices
	coarse  float64
}

// dense is the part of a row sum.
type dense struct {
	sum   *reduction
	by    []ball.Ball
	size  float64 // Σ |mid of by|·E
	slack float64 // Σ (rad of by)·E

	// For the current element.
	from []ball.Ball // dy/ds, nil if there is none
	a    float64     // its midpoint, 0 if it cancels
}

// sparse is the part of a maximum, a minimum, or an element at an index.
type sparse struct {
	of   *reduction
	by   []ball.Ball
	from []ball.Ball // dy/ds, nil if there is none
	most float64     // the largest |by|·E of several columns
}

// newSpread returns the spread of a wide value; nil if no reduction depends on it.
func (p *perturbation) newSpread(n *def.Node) *spread {
	z := &spread{node: n, isMinor: p.noise[n.ID].isAbsolute() || isStep(n)}
	for _, r := range p.reductions {
		switch {
		case r == nil || r.arg == nil || r.arg.wide[n.ID] == nil:
		case r.isSum:
			z.sums = append(z.sums, dense{sum: r, by: r.arg.wide[n.ID]})
		default:
			z.others = append(z.others, sparse{of: r, by: r.arg.wide[n.ID]})
		}
	}
	if len(z.sums) == 0 && len(z.others) == 0 {
		return nil
	}
	return z
}

func isStep(n *def.Node) bool {
	return n.Op == def.OpAdd || n.Op == def.OpSub || n.Op == def.OpMul || n.Op == def.OpFMA
}

// prepare takes the errors and derivatives of the current row.
func (z *spread) prepare(p *perturbation) {
	z.errors = p.errors[z.node.ID]
	isPair := len(z.sums) == 2 && !z.isMinor
	if isPair {
		z.pairs.take(&z.sums[0], &z.sums[1], z.errors)
	}
	for i := range z.sums {
		s := &z.sums[i]
		if !isPair {
			s.size, s.slack = 0, 0
			for j, d := range s.by {
				s.size += float64(math.Abs(d.Mid) * z.errors[j])
				s.slack += float64(d.Rad * z.errors[j])
			}
		}
		grow := 1 + float64(len(s.by)+8)*0x1p-52
		s.size, s.slack = s.size*grow, s.slack*grow
	}
	for i := range z.others {
		o := &z.others[i]
		o.most = 0
		for _, j := range o.of.columns {
			o.most = max(o.most, float64((math.Abs(o.by[j].Mid)+o.by[j].Rad)*z.errors[j]))
		}
	}
	z.tree.isBuilt = false
	z.coarse = float64(len(z.errors)+64) * 0x1p-50
}

// addTo adds the bounds of elements to totals. by has their derivatives by narrow values; own
// has the direct ones, each in its own column, or is nil.
func (z *spread) addTo(totals []float64, by *adjoints, own []ball.Ball) {
	if !z.take(by) {
		ball.AddMagnitudes(totals, own, z.errors)
		return
	}
	switch {
	case z.isMinor:
		z.addMagnitudes(totals, own)
		return
	case len(z.sums) == 1 && z.sums[0].from != nil && own != nil:
		z.addOne(totals, own)
		return
	case len(z.sums) == 2 && z.sums[0].from != nil && z.sums[1].from != nil && own != nil && z.othersCancel():
		z.addTwo(totals, own)
		return
	}
	for i := range totals {
		if own != nil {
			totals[i] += z.total(i, i, own[i], false)
		} else {
			totals[i] += z.total(i, -1, ball.Ball{}, false)
		}
	}
}

// addMagnitudes adds the sums of magnitudes.
func (z *spread) addMagnitudes(totals []float64, own []ball.Ball) {
	ball.AddMagnitudes(totals, own, z.errors)
	for k := range z.sums {
		ball.AddWeighted(totals, z.sums[k].from, z.sums[k].size+z.sums[k].slack, 1)
	}
	for k := range z.others {
		ball.AddWeighted(totals, z.others[k].from, z.others[k].most, 1)
	}
}

// addOne is addTo for one sum, which only direct derivatives can cancel.
func (z *spread) addOne(totals []float64, own []ball.Ball) {
	s := &z.sums[0]
	from, by, errors := s.from[:len(totals)], s.by[:len(totals)], z.errors[:len(totals)]
	isAlone := z.othersCancel()
	for i, d := range own[:len(totals)] {
		x := from[i]
		s.a = x.Mid
		m := math.Abs(x.Mid)
		sums := float64(x.Mid * by[i].Mid)
		total := float64(m*s.size*(1+z.coarse)) + float64(m*s.slack) + float64(x.Rad*(s.size+s.slack))
		if isAlone {
			total += float64((math.Abs(d.Mid+sums) - math.Abs(sums) + d.Rad + float64(math.Abs(d.Mid)*0x1p-50)) * errors[i])
			for k := range z.others {
				if o := &z.others[k]; o.from != nil {
					total += float64((math.Abs(o.from[i].Mid) + o.from[i].Rad) * o.most)
				}
			}
		} else {
			total += z.correct(i, i, d, false) + z.elsewhere(i, i)
		}
		totals[i] += total
	}
}

// addTwo is addTo for two sums, if the other reductions cancel.
func (z *spread) addTwo(totals []float64, own []ball.Ball) {
	f, g := &z.sums[0], &z.sums[1]
	n := len(totals)
	xs, ys, fs, gs, errors := f.from[:n], g.from[:n], f.by[:n], g.by[:n], z.errors[:n]
	found := z.pairs.sums(xs, ys)[:n]
	fSize, fSlack, fAll, gSize, gSlack, gAll, coarse := f.size, f.slack, f.size+f.slack, g.size, g.slack, g.size+g.slack, z.coarse
	for i, d := range own[:n] {
		x, y := xs[i], ys[i]
		m, n := math.Abs(x.Mid), math.Abs(y.Mid)
		triangle := float64(m*fSize) + float64(n*gSize)
		sum := found[i]
		if !(sum <= triangle) {
			sum = triangle
		}
		total := sum + float64(triangle*coarse) + float64(m*fSlack) + float64(n*gSlack) + float64(x.Rad*fAll) + float64(y.Rad*gAll)
		sums := float64(x.Mid*fs[i].Mid) + float64(y.Mid*gs[i].Mid)
		found[i] = total + float64((math.Abs(d.Mid+sums)-math.Abs(sums)+d.Rad+float64(math.Abs(d.Mid)*0x1p-50))*errors[i])
	}
	for k := range z.others {
		ball.AddWeighted(found, z.others[k].from, z.others[k].most, 1)
	}
	for i, total := range found {
		totals[i] += total
	}
}

// othersCancel reports whether the derivatives by all reductions other than sums are zeros up to
// second order, such as that by the maximum in softmax.
func (z *spread) othersCancel() bool {
	for k := range z.others {
		for _, x := range z.others[k].from {
			if math.Abs(x.Mid) > x.Rad {
				return false
			}
		}
	}
	return true
}

// elsewhere returns what the reductions other than sums add in columns other than c.
func (z *spread) elsewhere(i, c int) float64 {
	total := 0.0
	for k := range z.others {
		o := &z.others[k]
		switch {
		case o.from == nil:
		case len(o.of.columns) > 1:
			total += float64((math.Abs(o.from[i].Mid) + o.from[i].Rad) * o.most)
		case o.of.columns[0] != c && !z.isBefore(k):
			total += z.correct(i, o.of.columns[0], ball.Ball{}, false)
		}
	}
	return total
}

// take takes the derivatives by the reductions; it reports whether there are any.
func (z *spread) take(by *adjoints) bool {
	isAny := false
	for k := range z.sums {
		s := &z.sums[k]
		s.from = by.at(s.sum.node.ID)
		isAny = isAny || s.from != nil
	}
	for k := range z.others {
		o := &z.others[k]
		o.from = by.at(o.of.node.ID)
		if len(o.of.columns) == 0 {
			o.from = nil
		}
		isAny = isAny || o.from != nil
	}
	return isAny
}

// total bounds the effect of the errors of all columns on element i. own is its direct
// derivative in column c, which is negative if there is none. If the column is left out, only the
// others count.
func (z *spread) total(i, c int, own ball.Ball, isLeftOut bool) float64 {
	slack, triangle := 0.0, 0.0
	count := 0
	for k := range z.sums {
		s := &z.sums[k]
		s.a = 0
		if s.from == nil {
			continue
		}
		x := s.from[i]
		m := math.Abs(x.Mid)
		slack += float64(m*s.slack) + float64(x.Rad*(s.size+s.slack))
		if m <= x.Rad { // it cancels up to second order
			slack += float64(m * s.size)
			continue
		}
		s.a = x.Mid
		triangle += float64(m * s.size)
		count++
	}
	sum := triangle
	switch {
	case count == 2 && len(z.sums) == 2 && !z.isMinor:
		sum = z.pairs.sum(z.sums[0].a, z.sums[1].a)
	case count >= 2 && len(z.errors) < tune.LeastTree:
		sum = z.direct()
	case count >= 2:
		if !z.tree.isBuilt {
			z.tree.build(z.sums, z.errors)
		}
		sum = z.tree.sum(z.sums)
	}
	if !(sum <= triangle) {
		sum = triangle
	}
	if c >= 0 {
		sum += z.correct(i, c, own, isLeftOut)
	}
	sum += z.elsewhere(i, c)
	return max(sum, 0) + slack + float64(triangle*z.coarse)
}

// isBefore reports whether one of the reductions before number k takes the same column.
func (z *spread) isBefore(k int) bool {
	j := z.others[k].of.columns[0]
	return slices.ContainsFunc(z.others[:k], func(o sparse) bool {
		return o.from != nil && len(o.of.columns) == 1 && o.of.columns[0] == j
	})
}

// correct returns what column j adds to the part that the sums have there: by a direct
// derivative, and by the reductions that take that column alone.
func (z *spread) correct(i, j int, own ball.Ball, isLeftOut bool) float64 {
	e := z.errors[j]
	if e == 0 {
		return 0
	}
	sums := 0.0
	for k := range z.sums {
		sums += float64(z.sums[k].a * z.sums[k].by[j].Mid)
	}
	if isLeftOut {
		return -float64(math.Abs(sums) * e)
	}
	for k := range z.others {
		if o := &z.others[k]; o.from != nil && len(o.of.columns) == 1 && o.of.columns[0] == j {
			own = own.Add(o.from[i].Times(o.by[j]))
		}
	}
	m := math.Abs(own.Mid)
	return float64((math.Abs(own.Mid+sums) - math.Abs(sums) + own.Rad + float64(m*0x1p-50)) * e)
}

// direct returns Σ_j |Σ_s a_s·g_sj|·E_j for midpoints, up to rounding, column by column.
func (z *spread) direct() float64 {
	sum := 0.0
	for j, e := range z.errors {
		d := 0.0
		for k := range z.sums {
			d += float64(z.sums[k].a * z.sums[k].by[j].Mid)
		}
		sum += float64(math.Abs(d) * e)
	}
	return sum
}

// at encloses the derivative of element i by the value in column j.
func (z *spread) at(i, j int) ball.Ball {
	d := ball.Ball{}
	for k := range z.sums {
		if s := &z.sums[k]; s.from != nil {
			d = d.Add(s.from[i].Times(s.by[j]))
		}
	}
	for k := range z.others {
		o := &z.others[k]
		switch {
		case o.from == nil || !slices.Contains(o.of.columns, j):
		case len(o.of.columns) == 1:
			d = d.Add(o.from[i].Times(o.by[j]))
		default:
			d = d.Add(o.from[i].Times(o.by[j]).Times(halfBall))
		}
	}
	return d
}
