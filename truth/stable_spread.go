package truth

import (
	"cmp"
	"math"
	"slices"

	"tokitai/def"
	"tokitai/num/ball"
)

// spread holds the derivatives of all reductions of a row by one wide value that has an error,
// in all columns. It bounds Σ_j |Σ_s a_s·g_sj|·E_j, where a_s = dy/ds, g_sj = ds/dv_j and E_j is
// the error: exactly up to second order, not by Σ_s |a_s|·Σ_j |g_sj|·E_j, which counts twice what
// cancels.
type spread struct {
	node   *def.Node
	errors []float64
	sums   []dense
	others []sparse

	// For two sums, a_1·g_1j + a_2·g_2j = g_1j·(a_1 + a_2·r_j): columns with their ratio
	// r = g_2/g_1 in ascending order, and for each the totals of weight = |g_1|·E and of weight·r
	// over the columns before it, which ends with those of all.
	ratios          []ratio
	weights, moment []float64
	rest            float64 // Σ |g_2|·E where g_1 = 0

	isAbsolute bool // the errors are those of underflow alone, for which Σ_s |a_s|·Σ_j |g_sj|·E_j will do
}

type ratio struct{ r, weight float64 }

// dense is the part of a row sum.
type dense struct {
	sum      *reduction
	by       []ball.Ball
	size     float64 // Σ |mid of by|·E
	slack    float64 // Σ (rad of by)·E
	uniform  float64 // a, rad of a: scratch of at
	isActive bool
}

// sparse is the part of a maximum, a minimum, or an element at an index.
type sparse struct {
	of *reduction
	by []ball.Ball
}

// newSpread returns the spread of a wide value; nil if no reduction depends on it.
func (p *perturbation) newSpread(n *def.Node) *spread {
	z := &spread{node: n, isAbsolute: p.noise[n.ID].isAbsolute()}
	for _, m := range p.call.d.Math.Nodes {
		r := p.reductions[m.ID]
		switch {
		case r == nil || r.arg == nil || r.arg.wide[n.ID] == nil:
		case r.isSum:
			z.sums = append(z.sums, dense{sum: r, by: r.arg.wide[n.ID]})
		default:
			z.others = append(z.others, sparse{r, r.arg.wide[n.ID]})
		}
	}
	if len(z.sums) == 0 && len(z.others) == 0 {
		return nil
	}
	return z
}

// prepare takes the errors and derivatives of the current row.
func (z *spread) prepare(p *perturbation) {
	z.errors = p.errors[z.node.ID]
	for i := range z.sums {
		s := &z.sums[i]
		s.size, s.slack = 0, 0
		for j, d := range s.by {
			e := at(z.errors, j)
			s.size += float64(math.Abs(d.Mid) * e)
			s.slack += float64(d.Rad * e)
		}
		grow := 1 + float64(len(s.by)+8)*0x1p-52
		s.size, s.slack = s.size*grow, s.slack*grow
	}
	if len(z.sums) == 2 && !z.isAbsolute {
		z.sort()
	}
}

// sort prepares two sums.
func (z *spread) sort() {
	first, second := z.sums[0].by, z.sums[1].by
	z.ratios, z.rest = z.ratios[:0], 0
	for j, d := range first {
		e := at(z.errors, j)
		if d.Mid == 0 {
			z.rest += float64(math.Abs(second[j].Mid) * e)
			continue
		}
		z.ratios = append(z.ratios, ratio{second[j].Mid / d.Mid, math.Abs(d.Mid) * e})
	}
	slices.SortFunc(z.ratios, func(a, b ratio) int { return cmp.Compare(a.r, b.r) })
	z.weights, z.moment = append(z.weights[:0], 0), append(z.moment[:0], 0)
	weight, moment := 0.0, 0.0
	for _, x := range z.ratios {
		weight += x.weight
		moment += float64(x.weight * x.r)
		z.weights, z.moment = append(z.weights, weight), append(z.moment, moment)
	}
}

// two returns Σ_j |a·g_1j + b·g_2j|·E_j for midpoints, up to rounding.
func (z *spread) two(a, b float64) float64 {
	last := len(z.ratios)
	if b == 0 {
		return math.Abs(a) * z.weights[last]
	}
	zero := -a / b
	i, _ := slices.BinarySearchFunc(z.ratios, zero, func(x ratio, t float64) int { return cmp.Compare(x.r, t) })
	above := (z.moment[last] - z.moment[i]) - float64(zero*(z.weights[last]-z.weights[i]))
	below := float64(zero*z.weights[i]) - z.moment[i]
	return math.Abs(b) * (above + below + z.rest)
}

// total bounds the effect of the errors of all columns on an element. by has the derivatives
// by narrow values, i is the place of the element in these; own is the direct derivative in
// column c, which is negative if there is none. If the column is left out, only the others count.
func (z *spread) total(by *adjoints, i, c int, own ball.Ball, isLeftOut bool) float64 {
	sum, slack, triangle := 0.0, 0.0, 0.0
	count := 0
	for k := range z.sums {
		s := &z.sums[k]
		s.isActive = false
		a := by.at(s.sum.node.ID)
		if a == nil {
			continue
		}
		x := a[i]
		m := math.Abs(x.Mid)
		slack += float64(m*s.slack) + float64(x.Rad*(s.size+s.slack))
		if m <= x.Rad || z.isAbsolute { // it cancels: what is left is of second order
			slack += float64(m * s.size)
			continue
		}
		s.isActive, s.uniform = true, x.Mid
		triangle += float64(m * s.size)
		count++
	}
	switch {
	case count == 1:
		sum = triangle
	case count == 2 && len(z.sums) == 2:
		sum = z.two(z.sums[0].uniform, z.sums[1].uniform)
	case count >= 2:
		sum = z.direct()
	}
	if !(sum <= triangle) {
		sum = triangle
	}
	// Columns in which there is more than the sums.
	if c >= 0 {
		sum += z.correct(by, i, c, c, own, isLeftOut)
	}
	for k, o := range z.others {
		a := by.at(o.of.node.ID)
		if a == nil || len(o.of.columns) == 0 {
			continue
		}
		if len(o.of.columns) > 1 {
			most := 0.0
			for _, j := range o.of.columns {
				most = max(most, float64((math.Abs(o.by[j].Mid)+o.by[j].Rad)*at(z.errors, j)))
			}
			slack += float64((math.Abs(a[i].Mid) + a[i].Rad) * most)
			continue
		}
		if j := o.of.columns[0]; j != c && !z.isBefore(k, j, by) {
			sum += z.correct(by, i, j, c, own, false)
		}
	}
	n := float64(len(z.errors) + 64)
	return (max(sum, 0) + slack + float64(triangle*n*0x1p-50)) * (1 + 0x1p-45)
}

// isBefore reports whether one of the reductions before number k also takes column j.
func (z *spread) isBefore(k, j int, by *adjoints) bool {
	return slices.ContainsFunc(z.others[:k], func(o sparse) bool {
		return by.at(o.of.node.ID) != nil && len(o.of.columns) == 1 && o.of.columns[0] == j
	})
}

// correct returns what column j adds to the part that the active sums have there: with the
// direct derivative, if j is c, and with the reductions that take that column alone.
func (z *spread) correct(by *adjoints, i, j, c int, own ball.Ball, isLeftOut bool) float64 {
	e := at(z.errors, j)
	if e == 0 {
		return 0
	}
	sums := ball.Ball{}
	for k := range z.sums {
		if s := &z.sums[k]; s.isActive {
			sums = sums.Add(ball.Ball{Mid: s.uniform}.Mul(ball.Ball{Mid: s.by[j].Mid}))
		}
	}
	if isLeftOut {
		return -float64(math.Abs(sums.Mid) * e)
	}
	all := sums
	if j == c {
		all = all.Add(own)
	}
	for _, o := range z.others {
		if a := by.at(o.of.node.ID); a != nil && len(o.of.columns) == 1 && o.of.columns[0] == j {
			all = all.Add(times(a[i], o.by[j]))
		}
	}
	return float64((math.Abs(all.Mid) + all.Rad - math.Abs(sums.Mid)) * e)
}

// at encloses the derivative of an element by the value in column j.
func (z *spread) at(by *adjoints, i, j int) ball.Ball {
	d := ball.Ball{}
	for k := range z.sums {
		if a := by.at(z.sums[k].sum.node.ID); a != nil {
			d = d.Add(times(a[i], z.sums[k].by[j]))
		}
	}
	for _, o := range z.others {
		a := by.at(o.of.node.ID)
		switch {
		case a == nil || !slices.Contains(o.of.columns, j):
		case len(o.of.columns) == 1:
			d = d.Add(times(a[i], o.by[j]))
		default:
			d = d.Add(times(times(a[i], o.by[j]), halfBall))
		}
	}
	return d
}

// direct returns Σ_j |Σ_s a_s·g_sj|·E_j for midpoints, up to rounding, column by column.
func (z *spread) direct() float64 {
	sum := 0.0
	for j := range z.sums[0].by {
		d := 0.0
		for k := range z.sums {
			if s := &z.sums[k]; s.isActive {
				d += float64(s.uniform * s.by[j].Mid)
			}
		}
		sum += float64(math.Abs(d) * at(z.errors, j))
	}
	return sum
}
