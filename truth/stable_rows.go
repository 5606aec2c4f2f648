package truth

import (
	"math"
	"slices"

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
	defer p.release()
	var results []*result
	s.outputs = map[int]*stableOutput{}
	for _, o := range s.call.d.Math().Outputs {
		if o.Value.Type != def.Float {
			continue
		}
		n := s.call.operands[o.Operand].Rows * s.call.operands[o.Operand].Cols
		z := &stableOutput{exact: make([]ball.Ball, n), box: make([]ball.Ball, n), fixed: make([]float64, n)}
		for kind, shape := range s.shapes {
			if shape.n > 0 && (sumKind(kind) == rowSums || !isPerRow(o.Value)) {
				z.slopes[kind] = make([]float64, n)
			}
		}
		if s.isStoredByWord(o.Value) {
			z.words = make([]uint32, n)
		}
		s.outputs[o.Operand] = z
		if isPerRow(o.Value) {
			z := p.newResult(o)
			z.isCopy = z.isCopy || slices.ContainsFunc(results, func(before *result) bool { return before.of.Value == o.Value })
			results = append(results, z)
		}
	}
	late := p.newLateSums()
	for row := range p.box.rows {
		if err := s.call.ended(); err != nil {
			return err
		}
		p.centre.row, p.box.row = row, row
		for _, z := range results {
			if !z.isCopy {
				z.place(p)
			}
		}
		for _, e := range []*evaluator[ball.Ball]{p.centre, p.box} {
			e.each(e.perRow)
			e.addSums()
		}
		for _, n := range p.ofRow {
			p.findSlopes(n)
		}
		p.differentiate()
		for _, z := range results {
			z.find(p)
		}
		for _, z := range late {
			p.addTermSizes(z.node)
			z.add(p)
			s.keepTerms(p, z.node)
		}
	}
	for _, e := range []*evaluator[ball.Ball]{p.centre, p.box} {
		e.each(e.late)
		if e.err != nil {
			return e.err
		}
	}
	p.finishLate(late)
	return nil
}

// plan finds what depends on what.
func (p *perturbation) plan() {
	nodes := p.call.d.Math().Nodes
	count := len(nodes)
	p.isExact, p.varies, p.isSet = make([]bool, count), make([]bool, count), make([]bool, count)
	p.errors, p.sizes, p.extremes, p.slopes = make([][]float64, count), make([][]float64, count), make([]float64, count), make([][]slope, count)
	p.scratch = p.floats(p.box.cols)
	p.means, p.meanOf = make([][]ball.Ball, count), make([]int, count)
	p.reductions, p.spreads = make([]*reduction, count), make([]*spread, count)
	for _, n := range nodes {
		p.isExact[n.ID] = p.Stable.isExact(n, p.isExact)
		p.varies[n.ID] = p.isVarying(n)
		if !p.box.isNeeded[n.ID] || !p.varies[n.ID] || n.Type != def.Float || n.Op == def.OpPacked {
			continue // errors of packed values are those of the elements
		}
		length := 1
		if isWide(n) {
			length = p.box.cols
		}
		if p.hasError(n) {
			p.errors[n.ID] = p.floats(length)
			if !n.Late {
				p.noisy = append(p.noisy, n)
			}
		}
		if isSum(n) {
			p.sizes[n.ID] = p.floats(length)
		}
		if p.slopes[n.ID] = p.newSlopes(n, length); p.slopes[n.ID] != nil && !n.Late && isPerRow(n) {
			p.ofRow = append(p.ofRow, n)
		}
		switch {
		case n.Op == def.OpRowSum:
			p.shapes[rowSums] = p.call.shape(p.box.cols, num.RowLanes(p.box.cols))
		case n.Op == def.OpColSum:
			p.shapes[columnSums] = p.call.shape(p.box.rows, num.ColLanes(p.box.cols))
		case n.Op == def.OpTotalSum:
			p.shapes[totalSums] = p.call.shape(p.box.rows*p.box.cols, flat)
		}
		if n.Op.IsRowReduction() || n.Op == def.OpTotalSum {
			p.reductions[n.ID] = p.newReduction(n)
		}
		if !isWide(n) && !n.Late {
			p.narrow = append(p.narrow, n)
		}
	}
	slices.Reverse(p.narrow)
	for _, n := range p.noisy {
		if isWide(n) {
			p.spreads[n.ID] = p.newSpread(n)
		}
	}
}

// isVarying reports whether a node depends on a value that has an error.
func (p *perturbation) isVarying(n *def.Node) bool {
	if n.Type != def.Float && p.isExact[n.ID] && !p.o.Declares.FlushesSubnormals {
		return false
	}
	return isSum(n) || !p.noise[n.ID].isNone() || slices.ContainsFunc(n.Args, func(a *def.Node) bool { return p.varies[a.ID] })
}

// hasError reports whether a node has an error of its own, or may be cut.
func (p *perturbation) hasError(n *def.Node) bool {
	switch n.Op {
	case def.OpSelect, def.OpRint, def.OpScale, def.OpAt, def.OpIToF:
		return true
	case def.OpRowSum:
		return isSplit(n)
	}
	return !p.noise[n.ID].isNone()
}

// newSlopes allocates the slopes of a node, and sets those of sums and differences.
func (p *perturbation) newSlopes(n *def.Node, length int) []slope {
	if n.Op.IsRowReduction() || n.Op == def.OpColSum || n.Op == def.OpTotalSum {
		return nil
	}
	if n.Op == def.OpLookup || n.Op == def.OpPartner { // the error of an element that is read is its own
		return []slope{}
	}
	z := make([]slope, len(n.Args))
	for k, a := range n.Args {
		switch {
		case !p.varies[a.ID] || a.Type != def.Float || p.call.isStored(n):
		case n.Op == def.OpNeg || n.Op == def.OpSub && k == 1:
			z[k].sign = -1
		case n.Op == def.OpAdd, n.Op == def.OpSub, n.Op == def.OpRound, n.Op == def.OpSRound, n.Op == def.OpFMA && k == 2:
			z[k].sign = 1
		case n.Op == def.OpRint, n.Op == def.OpScale && k == 1, n.Op == def.OpMul, n.Op == def.OpFMA:
		default:
			z[k].by = p.balls(length)
		}
	}
	return z
}

// eachVarying calls f for the values that vary, arguments first.
func (p *perturbation) eachVarying(which func(*def.Node) bool, f func(*def.Node)) {
	for _, n := range p.call.d.Math().Nodes {
		if p.slopes[n.ID] != nil && which(n) {
			f(n)
		}
	}
}

// differentiate finds the derivatives of all reductions of the current row.
func (p *perturbation) differentiate() {
	for _, r := range p.reductions {
		if r != nil {
			r.differentiate(p)
		}
	}
	for _, z := range p.spreads {
		if z != nil {
			z.prepare(p)
		}
	}
}

// result finds the errors of an output of a row.
type result struct {
	of     def.Output
	column *column  // of a wide output
	single adjoints // of a narrow one
	width  int
	isCopy bool // the values are those of an output before

	// Of a packed output: the errors of a row's elements, which find puts into slots.
	elements *stableOutput
	packed   def.Output
}

func (p *perturbation) newResult(o def.Output) *result {
	z := &result{of: o, width: p.call.operands[o.Operand].Cols}
	if o.Value.Op == def.OpPacked {
		z.packed, z.of.Value, z.width = o, o.Value.Args[1], p.box.cols
		n := z.width
		z.elements = &stableOutput{exact: make([]ball.Ball, n), box: make([]ball.Ball, n), fixed: make([]float64, n)}
		if p.outputs[o.Operand].slopes[rowSums] != nil {
			z.elements.slopes[rowSums] = make([]float64, n)
		}
		z.isCopy = true
	}
	if isWide(z.of.Value) {
		z.column = p.newColumn(z.of.Value, false)
	} else {
		z.single = p.newAdjoints(1)
	}
	return z
}

// place lets the values of the current row be computed where the output has them. A value that is
// stored twice is copied to the second output.
func (z *result) place(p *perturbation) {
	out := p.outputs[z.of.Operand]
	first := p.box.row * z.width
	p.centre.values[z.of.Value.ID].x = out.exact[first : first+z.width : first+z.width]
	p.box.values[z.of.Value.ID].x = out.box[first : first+z.width : first+z.width]
}

// find finds the errors in the current row.
func (z *result) find(p *perturbation) {
	n, out := z.of.Value, p.outputs[z.of.Operand]
	first := p.box.row * z.width
	if z.elements != nil {
		out, first = z.elements, 0
		clear(out.fixed)
		clear(out.slopes[rowSums])
		defer z.pack(p)
	}
	if z.isCopy {
		copy(out.exact[first:], p.centre.values[n.ID].x)
		copy(out.box[first:], p.box.values[n.ID].x)
	}
	if out.words != nil {
		for j, word := range p.centre.values[n.Args[1].ID].i {
			out.words[first+j] = uint32(word.one)
		}
	}
	if !p.varies[n.ID] {
		return
	}
	fixed := out.fixed[first : first+z.width]
	var slopes []float64
	if out.slopes[rowSums] != nil {
		slopes = out.slopes[rowSums][first : first+z.width]
	}
	if z.column != nil {
		z.column.differentiate(p)
		p.eliminate(&z.column.narrow, p.narrow)
		p.addErrors(z.column, &z.column.narrow, fixed, slopes, nil)
		if z.elements == nil {
			z.keepJoint(p)
		}
	} else {
		p.start(&z.single, n)
		p.eliminate(&z.single, p.narrow)
		p.addErrors(nil, &z.single, fixed, slopes, nil)
	}
	for i, e := range fixed {
		fixed[i] = e * (1 + float64(len(p.noisy)+8)*0x1p-50)
	}
}

// pack gives the slots of the current row the errors of their elements. Where it is open which element
// a slot has, the enclosure of the perturbed values is all that is known.
func (z *result) pack(p *perturbation) {
	n, out := z.packed.Value, p.outputs[z.packed.Operand]
	slots := len(p.box.values[n.ID].x)
	first := p.box.row * slots
	copy(out.exact[first:first+slots], p.centre.values[n.ID].x)
	copy(out.box[first:first+slots], p.box.values[n.ID].x)
	slot, isOpen := first, false
	for c, keep := range p.box.values[n.Args[0].ID].claim {
		if isOpen = isOpen || keep == ball.Maybe; isOpen || slot == first+slots {
			break
		}
		if keep == ball.Yes {
			out.fixed[slot] = z.elements.fixed[c]
			if out.slopes[rowSums] != nil {
				out.slopes[rowSums][slot] = z.elements.slopes[rowSums][c]
			}
			slot++
		}
	}
	for ; isOpen && slot < first+slots; slot++ {
		out.fixed[slot] = math.Inf(1)
	}
}

// start begins with the derivative of a narrow value by itself.
func (p *perturbation) start(a *adjoints, n *def.Node) {
	clear(a.isSet)
	one, _ := a.to(n.ID)
	one[0] = oneBall
}

// addErrors adds the effects of the errors of the current row: to fixed those that do not depend on
// sums, and to slopes those of the row's sums, per unit of their factor. of has the direct
// derivatives of a wide value, and is nil for a narrow one. Values that all rows share are passed
// to shared, if it is not nil.
func (p *perturbation) addErrors(of *column, by *adjoints, fixed, slopes []float64, shared func(n *def.Node, of *column, by *adjoints)) {
	for _, n := range p.noisy {
		switch z := p.spreads[n.ID]; {
		case shared != nil && !isPerRow(n):
			shared(n, of, by)
		case !isWide(n):
			if e := p.errors[n.ID][0]; e != 0 {
				ball.AddWeighted(fixed, by.at(n.ID), e, 1)
			}
		case of == nil || of.wide[n.ID] == nil:
			if z != nil {
				z.addTo(fixed, by, nil)
			}
		case z == nil:
			ball.AddMagnitudes(fixed, of.wide[n.ID], p.errors[n.ID])
		default:
			z.addTo(fixed, by, of.wide[n.ID])
		}
	}
	for _, n := range p.narrow {
		if n.Op == def.OpRowSum {
			ball.AddWeighted(slopes, by.at(n.ID), p.sizes[n.ID][0], 1+0x1p-48)
		}
	}
}
