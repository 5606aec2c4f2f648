package truth

import (
	"tokitai/def"
	"tokitai/num/ball"
)

// A sum is called split if its terms are sums or differences themselves, such as x - first in
// LayerNorm. A kernel may sum the parts instead, and subtract later what is the same for all
// terms. So a term counts with the larger of its own magnitude and those of its parts that differ
// between columns, and the sum with at least k additions, for the subtraction.

func isSum(n *def.Node) bool {
	return n.Type == def.Float && (n.Op == def.OpRowSum || n.Op == def.OpColSum || n.Op == def.OpTotalSum)
}

func isSplit(n *def.Node) bool {
	return isSum(n) && (n.Args[0].Op == def.OpAdd || n.Args[0].Op == def.OpSub)
}

// quotients returns how many products or quotients a kernel may compute, and let underflow, in
// place of one: k, or the number of terms of a sum that is divided or multiplied by a value that
// is the same for all terms. A kernel may divide the terms instead, as one does that updates a
// mean with every element.
func (s *Stable) quotients(n *def.Node) float64 {
	most := 1
	for k, a := range n.Args {
		isFirst := n.Op == def.OpMul || n.Op == def.OpDiv && k == 0
		if isFirst && isSum(a) && n.Args[1-k].Extent&a.Args[0].Extent&^a.Extent == 0 {
			most = s.length(a)
		}
	}
	return float64(max(stableFactor, most))
}

// length returns the number of terms of a sum.
func (s *Stable) length(n *def.Node) int {
	for i, o := range s.call.d.Operands {
		if a := s.call.operands[i]; o.Extent == def.PerElement {
			return map[def.Op]int{def.OpRowSum: a.Cols, def.OpColSum: a.Rows, def.OpTotalSum: a.Rows * a.Cols}[n.Op]
		}
	}
	return 1
}

// shapeOf returns the shape of a sum.
func (p *perturbation) shapeOf(n *def.Node) shape {
	return p.shapes[map[def.Op]sumKind{def.OpRowSum: rowSums, def.OpColSum: columnSums, def.OpTotalSum: totalSums}[n.Op]]
}

// leastError returns by how much the error of k additions exceeds that of a split sum in its shape.
func (p *perturbation) leastError(n *def.Node, j int) float64 {
	if !isSplit(n) {
		return 0
	}
	return float64(max(0, stableFactor*unit-p.shapeOf(n).factor()) * p.sizes[n.ID][j])
}

// disturbSplit adds the error of the parts to the box of a split sum.
func (p *perturbation) disturbSplit(n *def.Node) {
	out := p.box.values[n.ID].x
	if n.Op == def.OpRowSum {
		p.sizes[n.ID][0] = 0
		p.addTermSizes(n)
		p.errors[n.ID][0] = p.leastError(n, 0)
	}
	factor := max(p.shapeOf(n).factor(), stableFactor*unit)
	for j := range out {
		out[j] = out[j].Widen(0, float64(p.sizes[n.ID][j]*factor))
	}
}

// addTermSizes adds the magnitudes of the terms of the current row to those of a sum.
func (p *perturbation) addTermSizes(n *def.Node) {
	sizes := p.sizes[n.ID]
	m := mask(sizes)
	if terms := p.box.values[n.Args[0].ID].x; isSplit(n) {
		parts := p.scratch[:len(terms)]
		clear(parts)
		p.addParts(parts, n.Args[0])
		for j, x := range terms {
			_, _, most := reach(x)
			if part := parts[j]; part > most || part != part {
				most = part
			}
			sizes[j&m] += most
		}
	} else if m == 0 {
		size := sizes[0]
		for _, x := range terms {
			_, _, most := reach(x)
			size += most
		}
		sizes[0] = size
	} else {
		for j, x := range terms {
			_, _, most := reach(x)
			sizes[j] += most
		}
	}
	grow := 1 + float64(p.box.cols+1)*0x1p-52
	for j := range sizes {
		sizes[j] *= grow
	}
}

// addParts adds the magnitudes of the parts of a wide value.
func (p *perturbation) addParts(to []float64, n *def.Node) {
	switch n.Op {
	case def.OpAdd, def.OpSub, def.OpNeg:
		for _, a := range n.Args {
			if isWide(a) {
				p.addParts(to, a)
			}
		}
		return
	}
	ball.AddWeighted(to, p.box.values[n.ID].x, 1+0x1p-48, 1)
}
