package def

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tokitai/num"
)

// Version is the first line of every definition's text: the version of the language.
const Version = "tokitai-def 1"

// print returns the definition's text: the version, kind and name, operands, parameters, a
// line per node, the expansions of the functions that are called, and the rules of the
// sums. With docs it includes the lines for readers: formulas, clauses, and results of
// functions outside their domain. Those lines are not part of the identity.
func (d *Definition) print(docs bool) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s\n%s %s\n", Version, d.Form, d.Name)
	for i := range d.Operands {
		fmt.Fprintf(&s, "  %s\n", d.operandText(&d.Operands[i]))
	}
	for i := range d.Params {
		fmt.Fprintf(&s, "  %s\n", d.Params[i].text())
	}
	if docs {
		printDocs(&s, "formula", d.formula)
		printDocs(&s, "clause", d.clauses)
	}
	d.Form.print(d, &s, docs)
	return s.String()
}

func printDocs(s *strings.Builder, word string, lines []string) {
	for _, l := range lines {
		fmt.Fprintf(s, "  %s %q\n", word, l)
	}
}

// operandText returns an operand's line: its role, name, sizes and formats, and the inputs
// that it may replace in place.
func (d *Definition) operandText(o *Operand) string {
	role := "in"
	switch {
	case o.IsIn && o.IsOut:
		role = "inout"
	case o.IsOut:
		role = "out"
	}
	text := fmt.Sprintf("%-5s %s[%s] %s", role, o.Name, strings.Join(o.Dims, ","), o.DTypes.text())
	switch {
	case o.IsOffsets:
		return text + " ascending from 0 to " + o.Bound
	case o.IsLengths:
		return fmt.Sprintf("%s in [0,%s]", text, o.Bound)
	case o.Lengths != "":
		return fmt.Sprintf("%s in [0,%s) within %s", text, o.Bound, o.Lengths)
	case o.IsIndex && o.Except != "":
		return fmt.Sprintf("%s in [0,%s) or %s", text, o.Bound, o.Except)
	case o.IsIndex:
		return fmt.Sprintf("%s in [0,%s)", text, o.Bound)
	}
	if partners := d.InPlacePartners(o); len(partners) > 0 {
		text += ", may be " + strings.Join(partners, " or ")
	}
	return text
}

// text returns the formats of a rule: "f16 bf16 f32", "as x" or "as x or f32".
func (r Rule) text() string {
	var formats []string
	for _, f := range r.Allowed {
		formats = append(formats, f.String())
	}
	list := strings.Join(formats, " ")
	switch {
	case r.Like == "":
		return list
	case list == "":
		return "as " + r.Like
	}
	return "as " + r.Like + " or " + list
}

// text returns a parameter's line.
func (p *Param) text() string {
	kind := "float"
	if p.IsInt {
		kind = "int32"
	}
	s := "param " + p.Name + " " + kind
	if r := p.Range.String(); r != "" {
		s += " in " + r
	}
	if p.Default != nil {
		s += " default " + numberText(*p.Default)
	}
	return s
}

// rules holds the rules of sums. Those of floats depend on sizes alone. The reference follows them
// and every lowering reproduces them. Package num implements them; TestRules compares the
// two.
var rules = []*sumRule{
	{OpRowSum, Float, append([]string{
		"rule rowsum(x): the sum of x[0], ..., x[n-1], a row of n elements",
		"  L = " + lanesText("n", num.RowLanes, 2048, 8192),
	}, lanesLines...)},
	{OpColSum, Float, append([]string{
		"rule colsum(x): the sum of x[0], ..., x[n-1], a column of n elements in C columns",
		"  L = " + lanesText("C", num.ColLanes, 256, 2048),
	}, lanesLines...)},
	{OpTotalSum, Float, []string{
		"rule totalsum(x): the sum of x[0], ..., x[n-1], all elements row after row",
		fmt.Sprintf("  s[i] = the rowsum of x[%di], ..., x[%di+%d], of fewer at the end", num.FlatRow, num.FlatRow, num.FlatRow-1),
		"  s is summed likewise, until one is left",
	}},
	{OpRowSum, Int, []string{"rule rowsum(i): the sum of a row of int32 modulo 2^32, in any order"}},
	{OpColSum, Int, []string{"rule colsum(i): the sum of a column of int32 modulo 2^32, in any order"}},
	{OpTotalSum, Int, []string{"rule totalsum(i): the sum of all int32 modulo 2^32, in any order"}},
}

// sumRule is the rule of a sum of values of one type.
type sumRule struct {
	op    Op
	of    Type
	lines []string
}

// name returns the word that the rule is about.
func (r *sumRule) name() string {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.lines[0], "rule "), "(")
	return name
}

// ruleIn returns the rule that begins with a line, or nil: the one whose head it has, or else
// one for the same node.
func ruleIn(line string) *sumRule {
	line = fold(line)
	var near *sumRule
	for _, r := range append(rules, &streamRule, &streamBackwardRule, &pagesRule) {
		head, _, _ := strings.Cut(r.lines[0], ":")
		switch {
		case strings.HasPrefix(line, head+":"):
			return r
		case near == nil && strings.HasPrefix(line, "rule "+r.name()+"("):
			near = r
		}
	}
	return near
}

// lanesLines say how the elements of a sum are dealt to lanes, and how lanes are added.
var lanesLines = []string{
	"  s[i] = +0 + x[i] + x[i+L] + x[i+2L] + ... for i from 0 to L-1, added from left to right",
	"  s[i] = s[2i] + s[2i+1], until one is left",
}

// lanesText returns the number of lanes by size, up to each limit and beyond.
func lanesText(size string, lanes func(int) int, limits ...int) string {
	s := ""
	for _, l := range limits {
		s += fmt.Sprintf("%d if %s <= %d, ", lanes(l), size, l)
	}
	return s + fmt.Sprintf("else %d", lanes(math.MaxInt))
}

// printRules adds the rules of the sums among the nodes. A total sum is made of row sums.
func printRules(s *strings.Builder, nodes []*Node) {
	type sum struct {
		op Op
		of Type
	}
	has := map[sum]bool{}
	for _, n := range nodes {
		has[sum{n.Op, n.Type}] = true
	}
	has[sum{OpRowSum, Float}] = has[sum{OpRowSum, Float}] || has[sum{OpTotalSum, Float}]
	for _, r := range rules {
		if has[sum{r.op, r.of}] {
			s.WriteString(strings.Join(r.lines, "\n") + "\n")
		}
	}
}

// unnamedForm matches the printed names of unnamed values.
var unnamedForm = regexp.MustCompile(`^t[0-9]+$`)

// nodeNames returns the printed names of all nodes: leaves by their name or value,
// computed nodes by the name given with As, or t1, t2, … in order. If functions give
// several values the same name, the later ones are numbered, so that names are unique.
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
	names := make(map[*Node]string, len(nodes))
	given := map[string]int{} // number of computed nodes, and arguments, with the name
	for _, n := range nodes {
		if n.Op == OpArg {
			given[n.Name]++
		}
	}
	next := 1
	for _, n := range nodes {
		switch {
		case n.Op == OpConst:
			names[n] = n.Real.String()
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

func intText(v int32) string {
	if v < -1<<10 || v > 1<<10 {
		return fmt.Sprintf("0x%08x", uint32(v))
	}
	return fmt.Sprintf("%di", v)
}

func printGraph(s *strings.Builder, nodes []*Node, names map[*Node]string) {
	for _, n := range nodes {
		if len(n.Args) > 0 {
			s.WriteString("  " + names[n] + " = " + formatNode(n, names) + "\n")
		}
	}
}

// Line returns the line of the text that computes a node of the graph, such as "visible = lesseq(key, query)".
func (g *Graph) Line(n *Node) string {
	names := nodeNames(g.Nodes, nil)
	return names[n] + " = " + formatNode(n, names)
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
	if n.Op == OpLookup {
		return args[0] + "[" + args[1] + "]"
	}
	return op + "(" + strings.Join(args, ", ") + ")"
}

// functionsIn returns the functions that are called, once each, sorted by name.
func functionsIn(nodes []*Node) []*Function {
	called := map[string]*Function{}
	for _, n := range nodes {
		if n.Op == OpCall {
			called[n.Func.Name] = n.Func
		}
	}
	var names []string
	for name := range called {
		names = append(names, name)
	}
	slices.Sort(names)
	var functions []*Function
	for _, name := range names {
		functions = append(functions, called[name])
	}
	return functions
}

// Functions returns the functions that the definition calls, sorted by name.
func (d *Definition) Functions() []*Function {
	if f := d.Fused(); f != nil {
		return f.Body.Functions()
	}
	return functionsIn(d.Math().Nodes)
}

// FunctionsFor returns the functions that are computed where values are stored in a format: those
// that the definition calls, and the one that gives the weights of a form that has weights.
func (d *Definition) FunctionsFor(f num.DType) []*Function {
	functions := d.Functions()
	if weighs, ok := d.Form.(interface{ Weights(num.DType) *Function }); ok {
		functions = append(functions, weighs.Weights(f))
	}
	return functions
}

// Text returns the function's promise and expansion, as in the text of the definitions
// that call it. Functions called inside it are expanded.
func (f *Function) Text() string { return f.text(false) }

func (f *Function) text(docs bool) string {
	g := f.Expansion()
	var s strings.Builder
	fmt.Fprintf(&s, "function %s(x): %s within %s for %s\n", f.Name, f.Math, f.errorText(formatULPs(f.ULPs)), f.Domain)
	if docs && f.Outside != "" {
		printDocs(&s, "outside", []string{f.Outside})
	}
	names := nodeNames(g.Nodes, nil)
	printGraph(&s, g.Nodes, names)
	fmt.Fprintf(&s, "  return %s\n", names[g.Outputs[0].Value])
	return s.String()
}

// Expansion returns the expansion of the function as a separate graph, with the argument
// as a node [OpArg] and calls of other functions expanded.
func (f *Function) Expansion() Graph {
	b := &Builder{d: &Definition{}, outputs: []Output{{Value: f.Expand(newArgument()).node}}}
	return b.graph(true)
}

func newArgument() Value { return Value{&Node{Op: OpArg, Name: "x", Extent: PerElement}} }

func formatULPs(u float64) string {
	if u == math.Trunc(u) {
		return strconv.FormatFloat(u, 'f', 1, 64)
	}
	return numberText(u)
}

// Lines returns the text of a graph, a line per node, with the rules of its sums.
func (g Graph) Lines(d *Definition) []string {
	var s strings.Builder
	names := nodeNames(g.Nodes, d)
	printGraph(&s, g.Nodes, names)
	for _, o := range g.Outputs {
		fmt.Fprintf(&s, "  %s <- %s\n", d.Operands[o.Operand].Name, names[o.Value])
	}
	printRules(&s, g.Nodes)
	return strings.Split(strings.TrimRight(s.String(), "\n"), "\n")
}
