package def

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Expression is the form of a rowwise definition: the same expression with function calls kept, for
// truth, and expanded, for execution.
type Expression struct{ Math, Exec Graph }

func (f *Expression) String() string { return "rowwise" }

func (f *Expression) axes(d *Definition) []Axis {
	list := []Axis{{"R", Row}, {"C", Column}}
	if slices.ContainsFunc(d.Operands, func(o Operand) bool { return o.Extent == PerSlot }) {
		list = append(list, Axis{"K", Slot})
	}
	for _, letter := range d.tableSizes() {
		list = append(list, Axis{letter, Indexed})
	}
	return list
}

func (f *Expression) sums(*Definition) []Sum {
	var list []Sum
	for _, n := range f.Math.Nodes {
		if n.Type == Int { // no order changes a sum of int32
			continue
		}
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
	case OpElement, OpElementHigh:
		use, why = OwnPlace, "uses the numbers of elements"
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
		case OpColSum, OpTotalSum, OpRandom, OpElement, OpElementHigh, OpRows:
			return ""
		}
	}
	return "R"
}

func (f *Expression) isFlat(d *Definition) bool {
	for i := range d.Operands {
		if o := &d.Operands[i]; o.Extent == PerRow || o.Extent == PerColumn || o.Extent == PerSlot || o.IsTable() {
			return false
		}
	}
	for _, n := range f.Exec.Nodes {
		switch {
		case n.Op.ReadsRow(), n.Op == OpColSum, n.Op == OpCol, n.Op == OpColFloat, n.Op == OpPartner, n.Op == OpRandomRow, n.Op == OpRows, n.Op == OpColumns, n.Op == OpInside:
			return false
		}
	}
	return true
}

// mayBeFP8 returns true for what is written and never read: no pass widens FP8.
func (f *Expression) mayBeFP8(_ *Definition, o Operand) bool { return o.IsOut && !o.IsIn }

func (f *Expression) print(d *Definition, s *strings.Builder, docs bool) {
	names := nodeNames(f.Math.Nodes, d)
	printGraph(s, f.Math.Nodes, names)
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
