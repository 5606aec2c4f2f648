// Package lower holds what every lowering of a rowwise definition needs: the
// order in which its nodes can be computed. lower/cpu turns a schedule into
// vector programs.
//
// A definition decides order and roundings; a lowering decides only what cannot
// change a bit: threads, chunks, passes over a row, what is kept and what is
// computed again.
package lower

import "tokitai/def"

// Schedule is a rowwise definition as passes over each row.
type Schedule struct {
	Once   []*def.Node // per column or per call, known before the first row
	Start  []*def.Node // per row, known before the first pass over it
	Passes []Pass
	Late   []*def.Node // after the last row: column and total sums and what follows from them
}

// Pass is one walk over the elements of a row. Element outputs, column sums and
// total sums belong to the last pass: no later one reads an input, so that an
// output may replace it.
type Pass struct {
	Elements   []*def.Node // all that this pass needs per element, arguments first
	Reductions []*def.Node // row reductions over elements of this pass
	Sums       []*def.Node // column and total sums over elements of this pass
	Stores     []def.Output
	After      []*def.Node // row values known once the pass is over
}

// IsRowLoad reports whether n is a row's element read straight from an input, for
// which no pass is needed.
func IsRowLoad(n *def.Node) bool { return n.Op == def.OpAt && n.Args[0].Op == def.OpInput }

// NewSchedule divides a definition into passes, as few as its chain of row
// reductions allows.
func NewSchedule(d *def.Definition) Schedule {
	g := d.Exec
	isRow := func(n *def.Node) bool { return n.Extent&def.PerRow != 0 && !n.Late }
	isElement := func(n *def.Node) bool { return n.Extent == def.PerElement && !n.Late }
	needsPass := func(n *def.Node) bool { return n.Op.IsRowReduction() && !IsRowLoad(n) }

	// level[n]: the pass in which an element can be computed, or before which a
	// row value is known.
	level := make([]int, len(g.Nodes))
	last := 0
	for _, n := range g.Nodes {
		for _, a := range n.Args {
			if isRow(a) {
				level[n.ID] = max(level[n.ID], level[a.ID])
			}
		}
		if needsPass(n) {
			last = max(last, level[n.ID])
			level[n.ID]++
		}
		if n.Op == def.OpColSum || n.Op == def.OpTotalSum || IsRowLoad(n) {
			last = max(last, level[n.ID])
		}
	}
	for _, o := range g.Outputs {
		if isElement(o.Value) {
			last = max(last, level[o.Value.ID])
		}
	}

	s := Schedule{Passes: make([]Pass, last+1)}
	for _, n := range g.Nodes {
		switch {
		case n.Op == def.OpColSum || n.Op == def.OpTotalSum:
			s.Passes[last].Sums = append(s.Passes[last].Sums, n)
			s.Late = append(s.Late, n)
		case n.Late:
			s.Late = append(s.Late, n)
		case !isRow(n):
			s.Once = append(s.Once, n)
		case isElement(n):
		case needsPass(n):
			p := &s.Passes[level[n.ID]-1]
			p.Reductions = append(p.Reductions, n)
			p.After = append(p.After, n)
		case level[n.ID] == 0:
			s.Start = append(s.Start, n)
		default:
			p := &s.Passes[level[n.ID]-1]
			p.After = append(p.After, n)
		}
	}
	for _, o := range g.Outputs {
		if isElement(o.Value) {
			s.Passes[last].Stores = append(s.Passes[last].Stores, o)
		}
	}
	for i := range s.Passes {
		s.Passes[i].Elements = elementsOf(g, &s.Passes[i], isElement)
	}
	return s
}

// elementsOf collects the element nodes that a pass needs.
func elementsOf(g def.Graph, p *Pass, isElement func(*def.Node) bool) []*def.Node {
	needed := make([]bool, len(g.Nodes))
	for _, n := range p.Reductions {
		needed[n.Args[0].ID] = true
	}
	for _, n := range p.Sums {
		needed[n.Args[0].ID] = true
	}
	for _, o := range p.Stores {
		needed[o.Value.ID] = true
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		if n := g.Nodes[i]; needed[i] && isElement(n) {
			for _, a := range n.Args {
				needed[a.ID] = true
			}
		}
	}
	var elements []*def.Node
	for i, n := range g.Nodes {
		if needed[i] && isElement(n) {
			elements = append(elements, n)
		}
	}
	return elements
}
