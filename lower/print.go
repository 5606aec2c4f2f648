package lower

import (
	"fmt"
	"strings"

	"tokitai/def"
)

var actionNames = [...]string{
	Load: "load", LoadAt: "load at", LoadRow: "load row", Receive: "receive", Take: "take", Compute: "compute",
	Accumulate: "accumulate", Finish: "finish", Store: "store",
}

func (a Action) String() string { return actionNames[a] }

// String lists the program: the steps of every block, a line each. Values have numbers.
// A comment holds a value's name, says whether another block reads it, and which values
// end with the step.
func (p *Program) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "program %s\n", p.Definition.Name)
	for b, name := range p.Blocks() {
		if len(b.Steps) == 0 {
			continue
		}
		fmt.Fprintf(&s, "%s:", name)
		if len(b.Reads) > 0 {
			fmt.Fprintf(&s, " reads %s", numbers(b.Reads))
		}
		s.WriteByte('\n')
		for i := range b.Steps {
			fmt.Fprintf(&s, "  %s\n", p.line(&b.Steps[i]))
		}
	}
	return s.String()
}

func passName(format string, pass int) string { return fmt.Sprintf(format, pass+1) }

func number(n *def.Node) string { return fmt.Sprintf("%%%d", n.ID) }

func numbers(nodes []*def.Node) string {
	var all []string
	for _, n := range nodes {
		all = append(all, number(n))
	}
	return strings.Join(all, " ")
}

// line lists one step.
func (p *Program) line(s *Step) string {
	text := p.operation(s)
	var notes []string
	if s.Defines() && s.Node.Name != "" && (len(s.Node.Args) > 0 || s.Action == Take) {
		notes = append(notes, s.Node.Name)
	}
	if s.Keep {
		notes = append(notes, "kept")
	}
	if len(s.Kills) > 0 {
		notes = append(notes, "ends "+numbers(s.Kills))
	}
	if len(notes) > 0 {
		text += " ; " + strings.Join(notes, ", ")
	}
	return text
}

// operation lists what a step does.
func (p *Program) operation(s *Step) string {
	n := s.Node
	switch s.Action {
	case Store:
		return fmt.Sprintf("store %s %s = %s", p.Definition.Operands[s.Operand].Name, s.Format, number(n))
	case Accumulate:
		return fmt.Sprintf("%s %s into %s", n.Op, numbers(n.Args), number(n))
	case Load:
		return fmt.Sprintf("%s = load %s %s", number(n), p.Definition.Operands[s.Operand].Name, s.Format)
	case LoadAt:
		return fmt.Sprintf("%s = load %s %s at %s", number(n), p.Definition.Operands[s.Operand].Name, s.Format, numbers(s.Uses()))
	case LoadRow:
		return fmt.Sprintf("%s = load %s %s in row %s", number(n), p.Definition.Operands[s.Operand].Name, s.Format, numbers(s.Uses()))
	case Take, Receive, Finish:
		return fmt.Sprintf("%s = %s %s", number(n), s.Action, n.Op)
	}
	text := fmt.Sprintf("%s = %s", number(n), n.Op)
	switch n.Op {
	case def.OpConst:
		return text + " " + n.Real.String()
	case def.OpInt:
		return fmt.Sprintf("%s %d", text, n.Int)
	case def.OpParam:
		return text + " " + n.Name
	case def.OpRound, def.OpSRound:
		text += " " + s.Format.String()
	}
	if len(n.Args) > 0 {
		text += " " + numbers(n.Args)
	}
	return text
}
