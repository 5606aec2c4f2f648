package def

import (
	"fmt"
	"io"
	"strings"
)

// Expression is the form of a rowwise definition: the same expression with function calls kept, for
// truth, and expanded, for execution.
type Expression struct{ Math, Exec Graph }

func (f *Expression) String() string { return "rowwise" }

func (f *Expression) axes(*Definition) []Axis { return []Axis{{"R", Row}, {"C", Column}} }

func (f *Expression) sums(*Definition) []Sum {
	var list []Sum
	for _, n := range f.Math.Nodes {
		switch n.Op {
		case OpRowSum:
			list = append(list, Sum{Over: []string{"C"}})
		case OpColSum:
			list = append(list, Sum{Over: []string{"R"}})
		case OpTotalSum:
			list = append(list, Sum{Over: []string{"R", "C"}})
		}
	}
	return list
}

func (f *Expression) batchAxis(*Definition) string { return "R" }

func (f *Expression) batchUse(d *Definition, operand int) (use BatchUse, why string) {
	for _, out := range f.Exec.Outputs {
		switch {
		case out.Operand != operand:
		case d.Operands[operand].Extent&PerRow != 0:
			return rowUse(out.Value, map[*Node]bool{})
		case out.Value.Late:
			return WholeBatch, "sums over R"
		}
	}
	return WholeBatch, "has no rows"
}

// rowUse returns what a row of a node's values depends on. No value with rows uses a sum over
// rows: those are late.
func rowUse(n *Node, seen map[*Node]bool) (use BatchUse, why string) {
	if seen[n] {
		return OwnRow, ""
	}
	seen[n] = true
	switch n.Op {
	case OpRows:
		return WholeBatch, "uses the number of rows"
	case OpRandom:
		use, why = OwnPlace, "uses random words"
	}
	for _, a := range n.Args {
		if u, w := rowUse(a, seen); u > use {
			use, why = u, w
		}
	}
	return use, why
}

func (f *Expression) independent(d *Definition) []string {
	if f.divisible(d) == "R" {
		return []string{"R"}
	}
	return nil
}

func (f *Expression) divisible(*Definition) string {
	for _, n := range f.Exec.Nodes {
		switch n.Op {
		case OpColSum, OpTotalSum, OpRandom, OpRows:
			return ""
		}
	}
	return "R"
}

func (f *Expression) isFlat(d *Definition) bool {
	for i := range d.Operands {
		if e := d.Operands[i].Extent; e == PerRow || e == PerColumn {
			return false
		}
	}
	for _, n := range f.Exec.Nodes {
		switch {
		case n.Op.IsRowReduction(), n.Op == OpColSum, n.Op == OpCol, n.Op == OpColFloat, n.Op == OpRows, n.Op == OpColumns, n.Op == OpInside:
			return false
		}
	}
	return true
}

func (f *Expression) checkFactor(*Definition, Operand) bool { return false }

func (f *Expression) print(d *Definition, s *strings.Builder, docs bool) {
	printGraph(s, f.Math.Nodes, d)
	names := nodeNames(f.Math.Nodes, d)
	for _, o := range f.Math.Outputs {
		fmt.Fprintf(s, "  %s <- %s\n", d.Operands[o.Operand].Name, names[o.Value])
	}
	for _, f := range functionsIn(f.Math.Nodes) {
		s.WriteString(f.text(docs))
	}
	printRules(s, f.Math.Nodes)
}

func (f *Expression) digest(w io.Writer) {
	f.Math.digest(w)
	f.Exec.digest(w)
}

func (f *Expression) derivative(d *Definition, w wanted, known []*Function) (*Definition, error) {
	return newDifferentiator(d, w, known).run()
}
