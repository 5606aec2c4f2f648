package cpu

import (
	"fmt"
	"strings"

	"tokitai/def"
)

// String lists the vector program: the values computed once, per row and in each pass,
// and their slots.
func (p *rowwise) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "vector program %s (", p.d.Name)
	for i, o := range p.d.Operands {
		if i > 0 {
			s.WriteString(", ")
		}
		fmt.Fprintf(&s, "%s %s", o.Name, p.dtypes[i])
	}
	shape := "rows"
	if p.flat {
		shape = "flat"
	}
	fmt.Fprintf(&s, "), %s in chunks of %d\n", shape, chunk)
	p.printCode(&s, "per column", p.once)
	p.printSingles(&s, "per row", p.start.nodes)
	for i, pass := range p.passes {
		p.printCode(&s, fmt.Sprintf("pass %d", i+1), pass.code)
		p.printSingles(&s, fmt.Sprintf("after pass %d", i+1), pass.after.nodes)
	}
	late := p.totalSums[:len(p.totalSums):len(p.totalSums)]
	for i := range p.lateScalars.values {
		late = append(late, p.lateScalars.values[i].node)
	}
	p.printSingles(&s, "after the last row", late)
	p.printCode(&s, "after the last row, per column", p.columns)
	return s.String()
}

// printCode lists instructions.
func (p *rowwise) printCode(s *strings.Builder, title string, code []instruction) {
	if len(code) == 0 {
		return
	}
	fmt.Fprintf(s, "%s:\n", title)
	for _, in := range code {
		switch in.action {
		case actStore:
			fmt.Fprintf(s, "  store %s = %s\n", p.d.Operands[in.operand].Name, p.slotName(in.a))
		case actLoad:
			fmt.Fprintf(s, "  %s = load %s\n", p.slotName(in.dst), p.d.Operands[in.operand].Name)
		case actRowSum, actRowMax, actRowMin, actRowArgMax, actRowArgMin, actAt, actColSum, actTotalSum:
			fmt.Fprintf(s, "  %s %s\n", in.node.Op, p.slotName(in.a))
		default:
			fmt.Fprintf(s, "  %s = %s", p.slotName(in.dst), in.node.Op)
			for _, a := range []slot{in.a, in.b, in.c} {
				if a != noSlot {
					fmt.Fprintf(s, " %s", p.slotName(a))
				}
			}
			if in.node.Name != "" {
				fmt.Fprintf(s, "    ; %s", in.node.Name)
			}
			s.WriteString("\n")
		}
	}
}

// printSingles lists single values on one line.
func (p *rowwise) printSingles(s *strings.Builder, title string, nodes []*def.Node) {
	var names []string
	for _, n := range nodes {
		if n.Name != "" {
			names = append(names, n.Name+" = "+n.Op.String())
		} else {
			names = append(names, n.Op.String())
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(s, "%s: %s\n", title, strings.Join(names, ", "))
	}
}

// slotName returns the name of a slot in listings.
func (p *rowwise) slotName(s slot) string {
	plan := p.slots[s]
	switch plan.memory {
	case broadcast:
		return "all(" + singleName(plan.node) + ")"
	case keptRow:
		return fmt.Sprintf("row%d", s)
	case perColumn:
		return fmt.Sprintf("col%d", s)
	case inputView:
		return p.d.Operands[plan.operand].Name
	}
	return fmt.Sprintf("v%d", s)
}

// singleName returns the name of a single value in listings.
func singleName(n *def.Node) string {
	switch {
	case n.Op == def.OpConst:
		return n.Real.String()
	case n.Op == def.OpInt:
		return fmt.Sprint(n.Int)
	case n.Name != "":
		return n.Name
	}
	return n.Op.String()
}
