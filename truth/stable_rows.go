package truth

import (
	"math"

	"tokitai/def"
	"tokitai/num"
	"tokitai/num/ball"
)

// encloseRows evaluates a rowwise definition.
func (s *Stable) encloseRows() error {
	p, err := s.newPerturbation()
	if err != nil {
		return err
	}
	s.outputs = map[int]*stableOutput{}
	for _, n := range s.call.d.Math.Nodes {
		switch {
		case !p.box.isNeeded[n.ID]:
		case n.Op == def.OpRowSum:
			s.shapes[rowSums] = s.call.shape(p.box.cols, num.RowLanes(p.box.cols))
		case n.Op == def.OpColSum:
			s.shapes[columnSums] = s.call.shape(p.box.rows, num.ColLanes(p.box.cols))
		case n.Op == def.OpTotalSum:
			s.shapes[totalSums] = s.call.shape(p.box.rows*p.box.cols, flat)
		}
	}
	for i, o := range s.call.d.Operands {
		if o.IsOut && !o.IsInt() {
			n := s.call.operands[i].Rows * s.call.operands[i].Cols
			z := &stableOutput{exact: make([]ball.Ball, n), box: make([]ball.Ball, n), fixed: make([]float64, n)}
			for j := range z.fixed {
				z.fixed[j] = math.Inf(1)
			}
			s.outputs[i] = z
		}
	}
	for row := range p.box.rows {
		if err := s.call.ended(); err != nil {
			return err
		}
		for _, e := range []*evaluator[ball.Ball]{p.centre, p.box} {
			e.row = row
			e.each(func(n *def.Node) bool { return !n.Late && isPerRow(n) })
			for n, sum := range e.sums {
				sum.add(e.values[n.Args[0].ID].x)
			}
		}
		p.emit(row, func(n *def.Node) bool { return isPerRow(n) })
	}
	for _, e := range []*evaluator[ball.Ball]{p.centre, p.box} {
		e.each(func(n *def.Node) bool { return n.Late })
		if e.err != nil {
			return e.err
		}
	}
	p.emit(0, func(n *def.Node) bool { return !isPerRow(n) })
	return nil
}

// emit stores the values of outputs in a row.
func (p *perturbation) emit(row int, which func(*def.Node) bool) {
	for _, o := range p.call.d.Math.Outputs {
		if z := p.outputs[o.Operand]; z != nil && which(o.Value) {
			first := row * p.call.operands[o.Operand].Cols
			copy(z.exact[first:], p.centre.values[o.Value.ID].x)
			copy(z.box[first:], p.box.values[o.Value.ID].x)
		}
	}
}
