package gpu

import (
	"fmt"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// rowwise is a rowwise definition as a handful of kernels. If the rows kernel fills the
// lanes of column sums itself, columns and scalars follow; otherwise the kernels are launched
// in this order:
//
//	rows           row reductions, outputs per row and, unless sums need the reductions first, per element
//	column_lanes   the lanes of column sums
//	total_flat     the sums of flat rows of 65,536 elements (total_rows where rows are strided); total_next adds them up
//	rows           here, if no sum depends on a row reduction: sums read what rows overwrites
//	flat, elements element outputs that rows does not store
//	columns        the sums of lanes, and outputs per column
//	scalars        scalar outputs
type rowwise struct {
	d       *def.Definition
	dtypes  []num.DType
	variant Variant
	base    string

	operands []string // identifiers of operands and parameters
	params   []string

	columnSums []*def.Node
	totalSums  []*def.Node
	handedOn   []*def.Node // row reductions that later kernels read from scratch memory
	walks      [spread + 1]*walk

	elementOutputs, rowOutputs, columnOutputs, scalarOutputs []def.Output

	slotOutputs []def.Output // packed values
	isShort     bool         // rows have at most shortRow columns, and may be ordered
	hasRows     bool         // the definition has row reductions
	isSplit     bool         // sums depend on row reductions: rows stores nothing per element
	rowEntries  []rowEntry
	flatU       int // groups that a thread of the flat kernel loads at once
	fields      []field
	paramBytes  int // of all fields
	source      Source
	entries     rowwiseEntries
}

func compileRowwise(d *def.Definition, dtypes []num.DType, v Variant, base string) *Kernel {
	if stages := d.Stages(dtypes); stages != nil {
		return compileStages(d, stages, dtypes, v, base)
	}
	return (&rowwise{d: d, dtypes: slices.Clone(dtypes), variant: v, base: base}).compile()
}

func (k *rowwise) compile() *Kernel {
	d, base := k.d, k.base
	k.nameOperands()
	k.classify()
	k.layout()
	k.source.Name = base
	var s text
	k.header(&s)
	if hasIndex(d) {
		s.WriteString("\n" + checkSource(d, base))
		k.source.Entries = append(k.source.Entries, base+"_check")
	}
	if k.hasRows {
		k.rows(&s)
	}
	if len(k.columnSums) > 0 {
		k.columnLanes(&s)
	}
	if len(k.totalSums) > 0 {
		if d.IsFlat() {
			k.totals(&s, true)
		}
		k.totals(&s, false)
		k.totalNext(&s)
	}
	if k.storesElements() {
		if d.IsFlat() {
			k.flat(&s)
		}
		k.elements(&s)
	}
	if len(k.columnOutputs) > 0 {
		k.columns(&s)
	}
	if len(k.scalarOutputs) > 0 {
		k.scalars(&s)
	}
	k.source.Text = s.String()
	k.number()
	return &Kernel{Source: k.source, d: d, planner: k, check: k.entries.check}
}

func (k *rowwise) nameOperands() {
	var names []string
	for _, o := range k.d.Operands {
		names = append(names, o.Name)
	}
	for _, p := range k.d.Params {
		names = append(names, p.Name)
	}
	ids := uniqueIdentifiers(names, "_stride", "_rows", "_slots")
	k.operands, k.params = ids[:len(k.d.Operands)], ids[len(k.d.Operands):]
}

// classify finds out which kernels the definition needs.
func (k *rowwise) classify() {
	for _, o := range k.d.Exec().Outputs {
		switch o.Value.Extent {
		case def.PerElement:
			k.elementOutputs = append(k.elementOutputs, o)
		case def.PerRow:
			k.rowOutputs = append(k.rowOutputs, o)
		case def.PerSlot:
			k.slotOutputs = append(k.slotOutputs, o)
		case def.PerColumn:
			k.columnOutputs = append(k.columnOutputs, o)
		default:
			k.scalarOutputs = append(k.scalarOutputs, o)
		}
	}
	for _, n := range k.d.Exec().Nodes {
		switch {
		case n.Op == def.OpColSum:
			k.columnSums = append(k.columnSums, n)
		case n.Op == def.OpTotalSum:
			k.totalSums = append(k.totalSums, n)
		case lower.IsRowReduction(n), n.Op.NeedsRow():
			k.hasRows = true
		}
	}
	sums := slices.Concat(k.columnSums, k.totalSums)
	k.isSplit = len(k.afterRows(nil, sums).Received()) > 0
	if k.isSplit {
		k.handedOn = k.afterRows(k.elementOutputs, sums).Received()
	}
}

// afterRows plans a kernel that stores outputs and adds up sums when row reductions are
// known.
func (k *rowwise) afterRows(stores []def.Output, sums []*def.Node) *lower.Program {
	return lower.NewProgram(k.d, k.dtypes, lower.Part{Stores: stores, Values: sums, Given: lower.IsRowReduction}, costs{k, reread})
}

// afterSums plans a kernel that stores outputs when column and total sums are known.
func (k *rowwise) afterSums(stores []def.Output) *lower.Program {
	return lower.NewProgram(k.d, k.dtypes, lower.Part{Stores: stores, Given: lower.IsSum}, costs{k, reread})
}

// storesElements reports whether element outputs, or outputs per row that need no
// reduction, have a kernel of their own.
func (k *rowwise) storesElements() bool {
	if k.hasRows {
		return k.isSplit && len(k.elementOutputs) > 0
	}
	return len(k.elementOutputs)+len(k.rowOutputs) > 0
}

// header writes the comment at the top and the struct of parameters.
func (k *rowwise) header(s *text) {
	s.line("// %s, %s access", k.d.Name, k.variant)
	for _, f := range k.d.Contract().Formula {
		s.line("//   %s", f)
	}
	s.line("//")
	var stored []string
	for i, o := range k.d.Operands {
		stored = append(stored, o.Name+" "+k.dtypes[i].String())
	}
	s.line("// Operands    %s", strings.Join(stored, ", "))
	s.line("// Definition  sha256 %s", k.d.Hash())
	s.line("")
	s.open("struct %s_params {", k.base)
	for _, f := range k.fields {
		s.line("%s %s;%s", f.typeName, f.name, f.note)
	}
	s.close("};")
}

// entry writes the beginning of a kernel.
func (k *rowwise) entry(s *text, suffix string, threads int) {
	name := k.base + "_" + suffix
	k.source.Entries = append(k.source.Entries, name)
	s.open("KERNEL(%s, %d)(const %s_params p) {", name, threads, k.base)
	if hasIndex(k.d) {
		s.line("if (%s_is_refused(p.refused)) return;", k.base)
	}
}

// describe returns a node as a comment shows it: max = rowmax(x).
func (k *rowwise) describe(n *def.Node) string {
	var args []string
	for _, a := range n.Args {
		switch {
		case a.Op == def.OpConst:
			args = append(args, a.Real.String())
		case a.Op == def.OpInt:
			args = append(args, fmt.Sprint(a.Int))
		case a.Name != "":
			args = append(args, a.Name)
		default:
			args = append(args, name(a))
		}
	}
	text := fmt.Sprintf("%s(%s)", n.Op, strings.Join(args, ", "))
	if n.Name != "" {
		text = n.Name + " = " + text
	}
	return text
}
