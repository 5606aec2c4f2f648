package def

import "slices"

// A Demand is a condition under which a value is needed: all its parts hold.
type Demand []Condition

// Condition holds where a bool with one value, or one per row, is IsTrue.
type Condition struct {
	Value  *Node
	IsTrue bool
}

// Demands returns the conditions under which the outputs depend on each node, by Node.ID: a value that is needed
// in one branch alone of selections by row is needed only where they take it. Nil is no condition.
func (g Graph) Demands() []Demand {
	demands, isReached := make([]Demand, len(g.Nodes)), make([]bool, len(g.Nodes))
	need := func(n *Node, d Demand) {
		if isReached[n.ID] {
			demands[n.ID] = slices.DeleteFunc(slices.Clone(demands[n.ID]), func(t Condition) bool { return !slices.Contains(d, t) })
		} else {
			demands[n.ID], isReached[n.ID] = d, true
		}
	}
	for _, o := range g.Outputs {
		need(o.Value, nil)
	}
	for _, n := range slices.Backward(g.Nodes) {
		if !isReached[n.ID] {
			continue
		}
		for i, a := range n.Args {
			d := demands[n.ID]
			if n.Op == OpSelect && i > 0 && n.Args[0].Extent&PerColumn == 0 && !n.Args[0].Late {
				d = append(slices.Clone(d), Condition{n.Args[0], i == 1})
			}
			need(a, d)
		}
	}
	return demands
}

// isRowInput reports whether a value is known before any element of its row is read.
func isRowInput(n *Node) bool {
	return n.Extent&PerColumn == 0 && !n.Late && !n.Op.ReadsRow() && !slices.ContainsFunc(n.Args, func(a *Node) bool { return !isRowInput(a) && !a.IsTable() })
}

// node returns an int32 per row that is 0 where a demand does not hold, or nil if there is no condition that is
// known before any element of the row is read.
func (d Demand) node() *Node {
	var n *Node
	yes, no := &Node{Op: OpInt, Type: Int, Int: 1}, &Node{Op: OpInt, Type: Int}
	for _, t := range d {
		if !isRowInput(t.Value) {
			continue
		}
		if n == nil {
			n = yes
		}
		args := []*Node{t.Value, n, no}
		if !t.IsTrue {
			args = []*Node{t.Value, no, n}
		}
		n = &Node{Op: OpSelect, Type: Int, Extent: PerRow, Args: args}
	}
	return n
}

// dependsOnRow reports whether a demand may hold in some rows alone, which is known before any of their elements are read.
func (d Demand) dependsOnRow() bool {
	return slices.ContainsFunc(d, func(t Condition) bool { return t.Value.Extent&PerRow != 0 && isRowInput(t.Value) })
}
