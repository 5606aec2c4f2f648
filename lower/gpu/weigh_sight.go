package gpu

import (
	"fmt"

	"tokitai/def"
)

// sight writes the function that says what the queries and heads of ranges see of the keys of another one: 0 if
// nothing, 2 if everything, 1 if that is not known. It is the condition of a stream over intervals, as [lower.SightOf] computes it. What comes from operands and
// floats is unknown.
func (b *weighBody) sight(s *text) {
	s.open("DEVICE int sight_of(const Params& p, i64 query_low, i64 query_high, i64 key_low, i64 key_high, i64 head_low, i64 head_high) {")
	s.line("const i64 LEAST = -2147483648LL, MOST = 2147483647LL;")
	condition := b.f.Math.Outputs[1].Value
	needed := map[*def.Node]bool{condition: true}
	for i := len(b.f.Math.Nodes) - 1; i >= 0; i-- {
		n := b.f.Math.Nodes[i]
		if needed[n] && isBounded(n) {
			for _, a := range n.Args {
				needed[a] = true
			}
		}
	}
	for _, n := range b.f.Math.Nodes {
		switch {
		case !needed[n]:
		case n.Type == def.Int:
			low, high := b.bounds(n)
			s.line("i64 low%[1]d = %[2]s, high%[1]d = %[3]s;", n.ID, low, high)
			if n.Op == def.OpIAdd || n.Op == def.OpISub { // they wrap
				s.line("if (low%d < LEAST || high%[1]d > MOST) low%[1]d = LEAST, high%[1]d = MOST;", n.ID)
			}
		case n.Type == def.Bool:
			never, always := b.claims(n)
			s.line("const bool never%[1]d = %[2]s, always%[1]d = %[3]s;", n.ID, never, always)
		}
	}
	s.line("return never%d ? 0 : always%[1]d ? 2 : 1;", condition.ID)
	s.close("}")
	s.line("")
}

// isBounded reports whether the interval of a node follows from those of its arguments.
func isBounded(n *def.Node) bool {
	switch n.Op {
	case def.OpIAdd, def.OpISub, def.OpSelect:
		return n.Type != def.Float
	case def.OpLess, def.OpLessEqual, def.OpEqual, def.OpNotEqual:
		return n.Args[0].Type == def.Int
	}
	return false
}

// bounds returns the ends of an int32's interval.
func (b *weighBody) bounds(n *def.Node) (low, high string) {
	switch {
	case n.Op == def.OpInput && n.Operand > 0 && n.Operand < 4:
		return [...]string{"", "query_low", "key_low", "head_low"}[n.Operand], [...]string{"", "query_high", "key_high", "head_high"}[n.Operand]
	case n.Op == def.OpParam:
		return "p." + b.params[n.Param], "p." + b.params[n.Param]
	case n.Op == def.OpInt:
		return intText(n.Int), intText(n.Int)
	}
	if !isBounded(n) {
		return "LEAST", "MOST"
	}
	x, y := n.Args[len(n.Args)-2].ID, n.Args[len(n.Args)-1].ID
	switch n.Op {
	case def.OpIAdd:
		return fmt.Sprintf("low%d + low%d", x, y), fmt.Sprintf("high%d + high%d", x, y)
	case def.OpISub:
		return fmt.Sprintf("low%d - high%d", x, y), fmt.Sprintf("high%d - low%d", x, y)
	}
	c := n.Args[0].ID
	pick := func(end, compare string) string {
		return fmt.Sprintf("always%d ? %s%d : never%[1]d ? %[2]s%[4]d : %[2]s%[3]d %[5]s %[2]s%[4]d ? %[2]s%[3]d : %[2]s%[4]d", c, end, x, y, compare)
	}
	return pick("low", "<"), pick("high", ">")
}

// claims returns when a bool is false, and when it is true, whatever the values in the intervals are.
func (b *weighBody) claims(n *def.Node) (never, always string) {
	if !isBounded(n) {
		return "false", "false"
	}
	x, y := n.Args[len(n.Args)-2].ID, n.Args[len(n.Args)-1].ID
	apart := fmt.Sprintf("high%d < low%d || high%[2]d < low%[1]d", x, y)
	one := fmt.Sprintf("low%d == high%[1]d && low%d == high%[2]d && low%[1]d == low%[2]d", x, y)
	switch n.Op {
	case def.OpLess:
		return fmt.Sprintf("low%d >= high%d", x, y), fmt.Sprintf("high%d < low%d", x, y)
	case def.OpLessEqual:
		return fmt.Sprintf("low%d > high%d", x, y), fmt.Sprintf("high%d <= low%d", x, y)
	case def.OpEqual:
		return apart, one
	case def.OpNotEqual:
		return one, apart
	}
	c := n.Args[0].ID
	pick := func(claim string) string {
		return fmt.Sprintf("always%d ? %s%d : never%[1]d ? %[2]s%[4]d : %[2]s%[3]d && %[2]s%[4]d", c, claim, x, y)
	}
	return pick("never"), pick("always")
}
