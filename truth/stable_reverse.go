package truth

import (
	"slices"

	"tokitai/def"
	"tokitai/num/ball"
)

// A value is wide if it has one value per column, else narrow. The derivatives of an element
// in column c by all values of its row are found in three steps, in time proportional to the
// number of columns for the whole row:
//
//  1. Between wide values of a column, and from these to narrow ones, derivatives are those of
//     the column alone (column). This is done for the output, and for the argument of
//     each reduction of a row.
//  2. Narrow values are few. Reductions among them lead on to the narrow values that their
//     arguments read (reduction.into). Eliminating them from the last to the first gives dy/ds
//     for each reduction s (eliminate).
//  3. The derivative by a wide value in column j is Σ_s dy/ds·ds/dv_j, and for j = c also the
//     direct one. What the inequality needs is the sum of their magnitudes over j (spread).

// column holds the derivatives of a wide value by the wide and narrow values that it is
// computed from in the same column, reductions of rows being narrow.
type column struct {
	of     *def.Node
	order  []*def.Node // the wide values, last first
	wide   [][]ball.Ball
	isSame []bool // by Node.ID: the derivatives are those by the only value that is computed from it
	narrow adjoints

	// By Node.ID of narrow values that are added to, or subtracted from, a single wide one, if
	// nobody eliminates them: the derivatives by that one with this sign; else 0.
	signs []int

	isFixed     []bool // by Node.ID: the derivatives are the same in all rows
	isFound     bool   // those are found
	keepsNarrow bool   // keeps the derivatives by narrow values too, since they are not eliminated
}

// adjoints are derivatives by narrow values, by Node.ID: those of each column, or of a single
// value.
type adjoints struct {
	by    [][]ball.Ball
	isSet []bool
	n     int
	*arena
}

func (p *perturbation) newAdjoints(n int) adjoints {
	nodes := len(p.call.d.Math().Nodes)
	return adjoints{make([][]ball.Ball, nodes), make([]bool, nodes), n, p.arena}
}

// to returns where the derivatives by a node are stored, and whether they must be set rather than
// added to.
func (a *adjoints) to(id int) (place []ball.Ball, isFirst bool) {
	if a.by[id] == nil {
		a.by[id] = a.balls(a.n)
	}
	isFirst = !a.isSet[id]
	a.isSet[id] = true
	return a.by[id], isFirst
}

// at returns the derivatives by a node, nil if there are none.
func (a *adjoints) at(id int) []ball.Ball {
	if !a.isSet[id] {
		return nil
	}
	return a.by[id]
}

func (p *perturbation) newColumn(of *def.Node, keepsNarrow bool) *column {
	nodes := p.call.d.Math().Nodes
	z := &column{of: of, wide: make([][]ball.Ball, len(nodes)), narrow: p.newAdjoints(p.box.cols), signs: make([]int, len(nodes)), keepsNarrow: keepsNarrow}
	flags := make([]bool, 2*len(nodes))
	z.isSame, z.isFixed = flags[:len(nodes)], flags[len(nodes):]
	uses := make([]int, len(nodes))
	uses[of.ID] = 1
	for _, n := range slices.Backward(nodes[:of.ID+1]) {
		if uses[n.ID] > 0 && isWide(n) && p.varies[n.ID] && n.Type == def.Float {
			z.order = append(z.order, n)
			for k := range p.slopes[n.ID] {
				uses[n.Args[k].ID]++
			}
		}
	}
	for id := range z.isFixed {
		z.isFixed[id] = true
	}
	for _, n := range z.order {
		if z.wide[n.ID] == nil {
			z.wide[n.ID] = p.balls(p.box.cols)
		}
		for k, d := range p.slopes[n.ID] {
			a := n.Args[k]
			if d.sign == 1 && isWide(a) && uses[a.ID] == 1 && a != of {
				z.wide[a.ID], z.isSame[a.ID] = z.wide[n.ID], true
			}
			if keepsNarrow && !isWide(a) && uses[a.ID] == 1 {
				z.signs[a.ID] = d.sign
			}
			z.isFixed[a.ID] = z.isFixed[a.ID] && z.isFixed[n.ID] && (d.sign != 0 || isFixedSlope(n, k))
		}
	}
	if len(z.order) > 0 {
		one := z.wide[of.ID]
		for j := range one {
			one[j] = oneBall
		}
	}
	return z
}

// isFixedSlope reports whether the slope of a node in an argument is the same in all rows: that of a
// product is the other factor.
func isFixedSlope(n *def.Node, k int) bool {
	if (n.Op == def.OpMul || n.Op == def.OpFMA) && k < 2 {
		return !isPerRow(n.Args[1-k])
	}
	return !isPerRow(n)
}

func isWide(n *def.Node) bool { return n.Extent&def.PerColumn != 0 }

// differentiate finds the derivatives in the current row. Those that are the same in all rows are
// found in the first.
func (z *column) differentiate(p *perturbation) {
	clear(z.narrow.isSet)
	if len(z.order) == 0 {
		return
	}
	isSet := p.isSet
	for _, n := range z.order {
		isSet[n.ID] = false
	}
	isSet[z.of.ID] = true
	for _, n := range z.order {
		from := z.wide[n.ID]
		if !isSet[n.ID] {
			clear(from)
		}
		isTwice := false
		for k, d := range p.slopes[n.ID] {
			if d.sign == 0 && d.by == nil {
				continue
			}
			a := n.Args[k]
			isKept := z.isFound && z.isFixed[a.ID]
			switch {
			case z.isSame[a.ID]:
				isSet[a.ID] = true
			case k == 0 && n.Op == def.OpMul && n.Args[0] == n.Args[1] && isWide(a) && !isSet[a.ID]:
				if !isKept {
					to := z.wide[a.ID]
					ball.SetProducts(to, from, d.by)
					ball.AddSigned(to, to, false)
				}
				isSet[a.ID] = true
				isTwice = true
			case isTwice:
				isTwice = false
			case z.signs[a.ID] != 0:
				z.narrow.by[a.ID], z.narrow.isSet[a.ID] = from, true
			case isWide(a):
				if !isKept {
					chain(z.wide[a.ID], from, d, !isSet[a.ID])
				}
				isSet[a.ID] = true
			default:
				if to, isFirst := z.narrow.to(a.ID); !isKept || !z.keepsNarrow {
					chain(to, from, d, isFirst)
				}
			}
		}
	}
	z.isFound = true
}

// chain adds from·d to the derivatives, or sets them. A derivative of 0 stays 0 whatever d is. One
// that is added to 0 for the first time gets the bits of a product, not those of a sum.
func chain(to, from []ball.Ball, d slope, isFirst bool) {
	to = to[:len(from)]
	switch {
	case d.by == nil && isFirst && d.sign > 0:
		copy(to, from)
	case d.by == nil && isFirst:
		for j, a := range from {
			to[j] = a.Neg()
		}
	case d.by == nil:
		ball.AddSigned(to, from, d.sign < 0)
	case isFirst:
		ball.SetProducts(to, from, d.by)
	default:
		ball.AddProducts(to, from, d.by)
	}
}

// reduction is a narrow value that is computed from a row of wide ones.
type reduction struct {
	node *def.Node
	arg  *column     // nil if the argument does not vary
	into []ball.Ball // by Node.ID: derivatives by the narrow values that the argument reads
	has  []bool      // by Node.ID: whether it has one

	// A sum depends on all columns. Any other reduction depends on these: on one of them, or on
	// several with weights that add up to 1.
	isSum   bool
	columns []int
}

func (p *perturbation) newReduction(n *def.Node) *reduction {
	count := len(p.call.d.Math().Nodes)
	z := &reduction{node: n, isSum: n.Op == def.OpRowSum || n.Op == def.OpTotalSum, into: make([]ball.Ball, count), has: make([]bool, count)}
	if p.varies[n.Args[0].ID] {
		z.arg = p.newColumn(n.Args[0], true)
	}
	return z
}

// differentiate finds the derivatives in the current row.
func (z *reduction) differentiate(p *perturbation) {
	clear(z.has)
	z.columns = z.columns[:0]
	if z.arg == nil {
		return
	}
	if !z.isSum {
		p.chosen(z)
		if len(z.columns) == 0 {
			return
		}
	}
	isFound := z.arg.isFound
	z.arg.differentiate(p)
	var last []ball.Ball // the vector that was summed last
	var sum ball.Ball
	for id, isSet := range z.arg.narrow.isSet {
		if !isSet {
			continue
		}
		z.has[id] = true
		by := z.arg.narrow.by[id]
		switch {
		case !z.isSum:
			sum = by[z.columns[0]]
			for _, j := range z.columns[1:] {
				sum = sum.Hull(by[j])
			}
		case isFound && z.arg.isFixed[id]:
			continue
		case last == nil || &last[0] != &by[0]:
			sum, last = ball.Ball{}.Sum(by), by
		}
		z.into[id] = sum
		if z.arg.signs[id] < 0 {
			z.into[id] = sum.Neg()
		}
	}
}

// chosen finds the columns that a reduction other than a sum may take its value from. An
// element at one of several indices, or at a column of an extreme that is not decided, is cut.
func (p *perturbation) chosen(z *reduction) {
	n := z.node
	x := p.box.values[n.Args[0].ID].x
	if n.Op == def.OpAt {
		clear(p.errors[n.ID])
		switch index := p.box.values[n.Args[1].ID].i[0]; {
		case !index.isOne():
			p.cut(n, 0)
		case index.one >= 0 && int(index.one) < len(x):
			z.columns = append(z.columns, int(index.one))
		}
		return
	}
	for j, v := range x {
		lo, hi, _ := reach(v)
		if n.Op == def.OpRowMin {
			hi = -lo
		}
		if !(hi < p.extremes[n.ID]) {
			z.columns = append(z.columns, j)
		}
	}
}

// eliminate follows derivatives by narrow values through the narrow values that these are
// computed from, the last first.
func (p *perturbation) eliminate(a *adjoints, narrow []*def.Node) {
	for _, n := range narrow {
		from := a.at(n.ID)
		if from == nil {
			continue
		}
		if r := p.reductions[n.ID]; r != nil {
			for id, has := range r.has {
				if has {
					to, isFirst := a.to(id)
					chain(to, from, slope{by: r.into[id : id+1]}, isFirst)
				}
			}
			continue
		}
		for k, d := range p.slopes[n.ID] {
			if d.sign != 0 || d.by != nil {
				to, isFirst := a.to(n.Args[k].ID)
				chain(to, from, d, isFirst)
			}
		}
	}
}
