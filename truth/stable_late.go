package truth

import (
	"math"

	"tokitai/def"
	"tokitai/num/ball"
)

// lateSum collects the errors of a sum over columns or over the whole tensor, row by row. Errors
// of values that belong to a row add up. A value that all rows share, such as a weight per column,
// has the same error in all rows, so its derivatives are added before their magnitude is taken. An
// exception is the effect of a shared value of one column on the sum of another column, through a
// reduction of rows: it is added row by row.
type lateSum struct {
	node   *def.Node
	column *column  // of a column sum: the derivatives of its terms
	single adjoints // of a total
	fixed  []float64
	slopes []float64     // of row sums
	shared [][]ball.Ball // by Node.ID; by column for a total
}

func (p *perturbation) newLateSums() []*lateSum {
	var late []*lateSum
	for _, n := range p.call.d.Math().Nodes {
		if !p.box.isNeeded[n.ID] || !isLateSum(n) || n.Type != def.Float {
			continue
		}
		z := &lateSum{node: n, shared: make([][]ball.Ball, len(p.varies))}
		length := 1
		if n.Op == def.OpColSum {
			length = p.box.cols
			z.column = p.newColumn(n.Args[0], false)
		} else {
			z.single = p.newAdjoints(1)
		}
		z.fixed, z.slopes = p.floats(length), p.floats(length)
		late = append(late, z)
	}
	return late
}

// add adds the errors of the current row.
func (z *lateSum) add(p *perturbation) {
	if !p.varies[z.node.Args[0].ID] {
		return
	}
	if z.column != nil {
		z.column.differentiate(p)
		p.eliminate(&z.column.narrow, p.narrow)
		p.addErrors(z.column, &z.column.narrow, z.fixed, z.slopes, func(n *def.Node, of *column, by *adjoints) { z.share(p, n, of, by) })
		return
	}
	p.start(&z.single, z.node)
	p.eliminate(&z.single, []*def.Node{z.node})
	p.eliminate(&z.single, p.narrow)
	p.addErrors(nil, &z.single, z.fixed, z.slopes, func(n *def.Node, of *column, by *adjoints) { z.share(p, n, of, by) })
}

// share adds the derivatives by a value that all rows share.
func (z *lateSum) share(p *perturbation, n *def.Node, of *column, by *adjoints) {
	spread := p.spreads[n.ID]
	if spread != nil && !spread.take(by) {
		spread = nil
	}
	total := z.shared[n.ID]
	if total == nil {
		length := len(z.fixed)
		if isWide(n) {
			length = p.box.cols
		}
		total = p.balls(length)
		clear(total)
		z.shared[n.ID] = total
	}
	switch {
	case !isWide(n):
		for i, d := range by.at(n.ID) {
			total[i] = total[i].Add(d)
		}
	case of == nil:
		if spread != nil {
			for j := range total {
				total[j] = total[j].Add(spread.at(0, j))
			}
		}
	default:
		if of.wide[n.ID] != nil {
			for c, d := range of.wide[n.ID] {
				total[c] = total[c].Add(d)
			}
		}
		if spread != nil {
			for c := range total {
				z.fixed[c] += spread.total(c, c, ball.Ball{}, true)
				total[c] = total[c].Add(spread.at(c, c))
			}
		}
	}
}

// finishLate finds the errors of the outputs that are known after the last row.
func (p *perturbation) finishLate(late []*lateSum) {
	for _, z := range late {
		for j := range z.fixed {
			z.fixed[j] += p.leastError(z.node, j)
		}
		if z.column == nil { // what the shared values of all columns change
			for _, n := range p.noisy {
				if isWide(n) && z.shared[n.ID] != nil {
					for j, d := range z.shared[n.ID] {
						z.fixed[0] += float64((math.Abs(d.Mid) + d.Rad) * p.errors[n.ID][j])
					}
					z.shared[n.ID] = nil
				}
			}
		}
		grow := 1 + (float64(p.box.rows)*float64(len(p.noisy)+8)+float64(p.box.cols))*0x1p-50
		for j := range z.fixed {
			z.fixed[j], z.slopes[j] = z.fixed[j]*grow, z.slopes[j]*grow
		}
	}
	p.eachVarying(func(n *def.Node) bool { return n.Late }, p.findSlopes)
	for _, o := range p.call.d.Math().Outputs {
		if o.Value.Type == def.Float && !isPerRow(o.Value) {
			p.findLate(o, late)
		}
	}
}

// findLate finds the errors of an output that is known after the last row.
func (p *perturbation) findLate(o def.Output, late []*lateSum) {
	n, out := o.Value, p.outputs[o.Operand]
	copy(out.exact, p.centre.values[n.ID].x)
	copy(out.box, p.box.values[n.ID].x)
	if !p.varies[n.ID] {
		return
	}
	var of *column
	single := p.newAdjoints(1)
	by := &single
	if isWide(n) {
		of = p.newColumn(n, false)
		of.differentiate(p)
		by = &of.narrow
	} else {
		p.start(by, n)
	}
	p.eliminate(by, p.lateNarrow())
	// derivatives returns those of the output by a node, nil if there are none.
	derivatives := func(n *def.Node) []ball.Ball {
		if !isWide(n) {
			return by.at(n.ID)
		}
		if of == nil {
			return nil
		}
		return of.wide[n.ID]
	}
	for i := range out.fixed {
		fixed := 0.0
		for _, n := range p.call.d.Math().Nodes {
			if p.errors[n.ID] == nil || isPerRow(n) {
				continue
			}
			d := ball.Ball{}
			if own := derivatives(n); own != nil {
				d = own[i]
			}
			for _, z := range late {
				if a := derivatives(z.node); a != nil && z.shared[n.ID] != nil {
					d = d.Add(a[i].Times(at(z.shared[n.ID], i)))
				}
			}
			fixed += float64((math.Abs(d.Mid) + d.Rad) * at(p.errors[n.ID], i))
		}
		for _, z := range late {
			a := derivatives(z.node)
			if a == nil {
				continue
			}
			m := float64((math.Abs(a[i].Mid) + a[i].Rad) * (1 + 0x1p-48))
			fixed += float64(m * at(z.fixed, i))
			if out.slopes[rowSums] != nil {
				out.slopes[rowSums][i] += float64(m * at(z.slopes, i))
			}
			kind := columnSums
			if z.node.Op == def.OpTotalSum {
				kind = totalSums
			}
			out.slopes[kind][i] += float64(m * at(p.sizes[z.node.ID], i))
		}
		out.fixed[i] = fixed * (1 + float64(len(p.varies)+8)*0x1p-50)
	}
}

// lateNarrow returns the single values that vary and that no row has, the last first, without
// the sums themselves.
func (p *perturbation) lateNarrow() []*def.Node {
	var list []*def.Node
	nodes := p.call.d.Math().Nodes
	for i := len(nodes) - 1; i >= 0; i-- {
		if n := nodes[i]; p.slopes[n.ID] != nil && !isWide(n) && !isPerRow(n) {
			list = append(list, n)
		}
	}
	return list
}
