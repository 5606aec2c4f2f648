package def

import "fmt"

// Columns 2i and 2i+1 of a row are a pair. Texts have the partners of operands and of lookups alone;
// those of computed values are computed from them.

// Partner returns, for each element or column, the value in the other column of its pair. The last column of
// an odd number has no partner: it gets +0, or 0 of int32.
func (x Value) Partner() Value {
	n := newNode(OpPartner, x)
	n.check(x.Type(), x.Type())
	switch {
	case n.err != nil:
	case x.Type() == Bool:
		n.err = fmt.Errorf("%s: %s is a bool, want a float or an int32", n.brief(), x.node.label())
	case x.Extent()&PerColumn == 0:
		n.err = fmt.Errorf("%s: %s is %s, want one per element or per column", n.brief(), x.node.label(), x.Extent())
	case x.node.Op == OpColSum:
		return ColSum(Value{x.node.Args[0]}.Partner())
	case x.IsLate():
		n.err = fmt.Errorf("%s: %s is known only after the last row", n.brief(), x.node.label())
	case !isRead(x.node):
		return partnerOfComputed(x)
	}
	return Value{n}
}

// isRead reports whether n is read from an operand in the element's own column.
func isRead(n *Node) bool { return n.Op == OpInput || n.Op == OpStored || n.Op == OpLookup }

// partners computes the partners of values, where there are any.
type partners struct {
	column Value // of the partner
	known  map[*Node]*Node
}

func partnerOfComputed(x Value) Value {
	none := Zero
	if x.Type() == Int {
		none = IntConst(0)
	}
	p := &partners{new(Builder).Col().IXor(IntConst(1)), map[*Node]*Node{}}
	return Select(p.column.Inside(), Value{p.of(x.node)}, none)
}

// of returns the node that computes in each column what n computes in its partner.
func (p *partners) of(n *Node) *Node {
	if n.err != nil || n.Extent&PerColumn == 0 {
		return n
	}
	if p.known[n] == nil {
		p.known[n] = p.compute(n)
	}
	return p.known[n]
}

func (p *partners) compute(n *Node) *Node {
	switch n.Op {
	case OpInput, OpStored, OpLookup:
		return Value{n}.Partner().node
	case OpPartner:
		return n.Args[0]
	case OpCol:
		return p.column.node
	case OpColFloat:
		return p.column.IToF().node
	case OpCall:
		return n.Func.Of(Value{p.of(n.Args[0])}).node
	case OpRank, OpUnpacked, OpRandom, OpRandomRow, OpElement, OpElementHigh:
		return &Node{Op: OpPartner, Type: n.Type, Extent: n.Extent, err: fmt.Errorf("partner of %s: want a value that is computed from operands in its own column", n.brief())}
	}
	c := *n
	c.Name, c.Args = "", make([]*Node, len(n.Args))
	for i, a := range n.Args {
		c.Args[i] = p.of(a)
		if c.err == nil {
			c.err = c.Args[i].err
		}
	}
	return &c
}
