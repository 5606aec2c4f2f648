package prove

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"tokitai/def"
)

// parts are the nodes of an expansion by their names in a pattern.
type parts map[string]*def.Node

var patternLine = regexp.MustCompile(`^\s*(\w+) = (\w+)\(([^)]*)\)$`)

// match finds the nodes of an expansion that a pattern names. A pattern has the form of a
// function's text, from the result up: the first line is the result. A name that begins with
// a capital letter stands for any constant, and a name that no line defines for any node. The
// operation horner(n) is a chain of FMAs with constants, a polynomial of n.
func (e *expansion) match(pattern string) (parts, error) {
	type line struct {
		op   string
		args []string
	}
	lines := map[string]line{}
	result := ""
	for text := range strings.SplitSeq(strings.TrimSpace(pattern), "\n") {
		m := patternLine.FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("the pattern has a line %q", text)
		}
		if result == "" {
			result = m[1]
		}
		lines[m[1]] = line{m[2], strings.Split(m[3], ", ")}
	}
	found := parts{}
	var find func(name string, n *def.Node) error
	find = func(name string, n *def.Node) error {
		if first := name[0]; first == '-' || first == '+' || '0' <= first && first <= '9' || name == "NaN" {
			if !isLiteral(n, name) {
				return fmt.Errorf("%s is not %s", e.coq(n), name)
			}
			return nil
		}
		if old, ok := found[name]; ok {
			if old != n {
				return fmt.Errorf("%s is not %s, as elsewhere", e.coq(n), e.coq(old))
			}
			return nil
		}
		found[name] = n
		if 'A' <= name[0] && name[0] <= 'Z' {
			if n.Op != def.OpConst && n.Op != def.OpInt {
				return fmt.Errorf("%s is no constant", e.coq(n))
			}
			return nil
		}
		l, ok := lines[name]
		if !ok {
			return nil
		}
		if l.op == "horner" {
			h, err := hornerAt(n)
			if err != nil {
				return fmt.Errorf("%s: %w", e.coq(n), err)
			}
			return find(l.args[0], h.of)
		}
		if n.Op.String() != l.op || len(n.Args) != len(l.args) {
			return fmt.Errorf("%s is not made by %s", e.coq(n), l.op)
		}
		for i, a := range l.args {
			if err := find(a, n.Args[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return found, find(result, e.out)
}

// isLiteral reports whether n is the constant of a literal: 23i is an integer, 1 a float.
func isLiteral(n *def.Node, literal string) bool {
	if text, isInt := strings.CutSuffix(literal, "i"); isInt && n.Op == def.OpInt {
		v, err := strconv.ParseInt(text, 0, 32)
		return err == nil && int32(v) == n.Int
	}
	v, err := strconv.ParseFloat(literal, 64)
	if err != nil || n.Op != def.OpConst {
		return false
	}
	c := float64(n.Real.F32())
	return c == v || math.IsNaN(c) && math.IsNaN(v)
}

// names returns the Coq names of the parts.
func (p parts) names(e *expansion) map[string]string {
	names := map[string]string{}
	for name, n := range p {
		names[name] = e.coq(n)
	}
	return names
}
