package def

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// print gives the stable text form: kind and name, operands, parameters, a line a
// node, and the expansions of the functions that are called.
func (d *Definition) print() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s %s\n", d.Kind, d.Name)
	for _, o := range d.Operands {
		role := "in   "
		switch {
		case o.IsIn && o.IsOut:
			role = "inout"
		case o.IsOut:
			role = "out  "
		}
		fmt.Fprintf(&s, "  %s %s[%s]%s\n", role, o.Name, strings.Join(o.Dims, ","), indexNote(o))
	}
	for _, p := range d.Params {
		kind := "float"
		if p.IsInt {
			kind = "int32"
		}
		fmt.Fprintf(&s, "  param %s %s\n", p.Name, kind)
	}
	switch d.Kind {
	case KindRowwise:
		printGraph(&s, d.Math.Nodes, d)
		for _, o := range d.Math.Outputs {
			fmt.Fprintf(&s, "  %s <- %s\n", d.Operands[o.Operand].Name, nodeNames(d.Math.Nodes, d)[o.Value])
		}
		printFunctions(&s, d.Math.Nodes)
	case KindContraction:
		d.printContraction(&s)
	case KindGather:
		fmt.Fprintf(&s, "  %s[q,d] <- bits of %s[%s[q],d], +0 for a bad index\n", d.Operands[2].Name, d.Operands[1].Name, d.Operands[0].Name)
	case KindScatterAdd:
		first := "+0"
		if d.Accumulate {
			first = d.Operands[2].Name + "[v,d]"
		}
		fmt.Fprintf(&s, "  %s[v,d] <- %s + sum of %s[q,d] over %s[q] = v\n", d.Operands[2].Name, first, d.Operands[1].Name, d.Operands[0].Name)
		fmt.Fprintf(&s, "    %s f16: exact, one rounding, an exact zero is +0\n", d.Operands[1].Name)
		fmt.Fprintf(&s, "    else: q ascending in chunks of %d, each from +0, chunk sums added ascending\n", ScatterChunk)
	}
	return s.String()
}

func indexNote(o Operand) string {
	switch {
	case !o.IsIndex:
		return ""
	case o.Except != "":
		return fmt.Sprintf(" int32 in 0..%s-1 or %s", o.Bound, o.Except)
	}
	return fmt.Sprintf(" int32 in 0..%s-1", o.Bound)
}

func (d *Definition) printContraction(s *strings.Builder) {
	k := strings.ToLower(d.SummedOver())
	index := func(o Operand) string {
		return fmt.Sprintf("%s[%s,%s]", o.Name, strings.ToLower(o.Dims[0]), strings.ToLower(o.Dims[1]))
	}
	first := "+0"
	if d.Accumulate {
		first = index(d.Operands[2])
	}
	fmt.Fprintf(s, "  %s <- %s + sum over %s ascending of %s * %s\n", index(d.Operands[2]), first, k, index(d.Operands[0]), index(d.Operands[1]))
}

// nodeNames names every node: leaves by their name or value, computed nodes by
// the name given with As, or t1, t2, … in order. Where functions give one name to
// several values, the later ones are numbered: no two nodes look alike.
func nodeNames(nodes []*Node, d *Definition) map[*Node]string {
	taken := map[string]bool{}
	if d != nil {
		for _, o := range d.Operands {
			taken[o.Name] = true
		}
		for _, p := range d.Params {
			taken[p.Name] = true
		}
	}
	for _, n := range nodes {
		if len(n.Args) > 0 && n.Name != "" {
			taken[n.Name] = true
		}
	}
	names := map[*Node]string{}
	given := map[string]int{} // how many computed nodes have the name; an argument counts too
	for _, n := range nodes {
		if n.Op == OpArg {
			given[n.Name]++
		}
	}
	next := 1
	for _, n := range nodes {
		switch {
		case n.Op == OpConst:
			names[n] = constText(n.Real)
		case n.Op == OpInt:
			names[n] = intText(n.Int)
		case n.Name != "" && len(n.Args) == 0:
			names[n] = n.Name
		case n.Name != "":
			names[n] = n.Name
			if given[n.Name]++; given[n.Name] > 1 {
				names[n] += "." + strconv.Itoa(given[n.Name])
			}
		default:
			for taken["t"+strconv.Itoa(next)] {
				next++
			}
			names[n] = "t" + strconv.Itoa(next)
			next++
		}
	}
	return names
}

// constText shows a constant that is exact in binary32 as itself, and any other
// as the real number with the binary32 that is executed.
func constText(r *Real) string {
	if r.IsExact() {
		return strconv.FormatFloat(float64(r.F32()), 'g', -1, 32)
	}
	return fmt.Sprintf("%s{%s}", r, strconv.FormatFloat(float64(r.F32()), 'x', -1, 32))
}

func intText(v int32) string {
	if v < -1<<10 || v > 1<<10 {
		return fmt.Sprintf("0x%08x", uint32(v))
	}
	return fmt.Sprintf("%di", v)
}

func printGraph(s *strings.Builder, nodes []*Node, d *Definition) {
	names := nodeNames(nodes, d)
	for _, n := range nodes {
		if len(n.Args) > 0 {
			fmt.Fprintf(s, "  %s = %s\n", names[n], formatNode(n, names))
		}
	}
}

func formatNode(n *Node, names map[*Node]string) string {
	op := n.Op.String()
	var args []string
	switch n.Op {
	case OpCall:
		op = n.Func.Name
	case OpRound, OpSRound:
		args = append(args, n.Storage.String())
	}
	for _, a := range n.Args {
		args = append(args, names[a])
	}
	return op + "(" + strings.Join(args, ", ") + ")"
}

// printFunctions adds the expansion of every function that is called, once, in
// the order of their names.
func printFunctions(s *strings.Builder, nodes []*Node) {
	called := map[string]*Function{}
	var find func(n *Node)
	find = func(n *Node) {
		if n.Op == OpCall {
			called[n.Func.Name] = n.Func
		}
		for _, a := range n.Args {
			find(a)
		}
	}
	for _, n := range nodes {
		find(n)
	}
	var names []string
	for name := range called {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		s.WriteString(called[name].Text())
	}
}

// Text is the function's expansion in the form of Definition.Text. Functions
// called inside it are expanded.
func (f *Function) Text() string {
	arg := &Node{Op: OpArg, Name: "x", Extent: PerElement}
	b := &Builder{d: &Definition{}, outputs: []Output{{Value: f.Expand(arg)}}}
	g := b.graph(true)
	var s strings.Builder
	fmt.Fprintf(&s, "function %s(x): %s within %s ulp for %s\n", f.Name, f.Math, formatULPs(f.ULPs), f.Domain)
	printGraph(&s, g.Nodes, nil)
	fmt.Fprintf(&s, "  return %s\n", nodeNames(g.Nodes, nil)[g.Outputs[0].Value])
	return s.String()
}

func formatULPs(u float64) string {
	if u == math.Trunc(u) {
		return strconv.FormatFloat(u, 'f', 1, 64)
	}
	return strconv.FormatFloat(u, 'g', -1, 64)
}

// Lines shows a graph a line a node, for explanations.
func (g Graph) Lines(d *Definition) []string {
	var s strings.Builder
	printGraph(&s, g.Nodes, d)
	names := nodeNames(g.Nodes, d)
	for _, o := range g.Outputs {
		fmt.Fprintf(&s, "  %s <- %s\n", d.Operands[o.Operand].Name, names[o.Value])
	}
	return strings.Split(strings.TrimRight(s.String(), "\n"), "\n")
}
