package gpu

import (
	_ "embed"
	"fmt"
	"math"
	"strings"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

//go:embed kernels/gather_sum.cu
var gatherSumText string

// gatherSum plans the launches of kernels/gather_sum.cu.
type gatherSum struct{ d *def.Definition }

// The entries of kernels/gather_sum.cu, in their order.
const (
	gatherSumVector = iota
	gatherSumElement
	gatherSumCheck
)

func compileGatherSum(d *def.Definition, dtypes []num.DType, _ Variant, name string) *Kernel {
	f := d.Form.(*def.LookupSum)
	table, weight := dtypes[f.Table], num.F32
	if f.IsWeighted() {
		weight = dtypes[f.Weight]
	}
	pair, element := fmt.Sprintf("narrow_pair_%s(LOW, HIGH)", table), "(Element)(PATTERN)"
	if table == num.F32 {
		pair, element = "0", "float_of(PATTERN)"
	}
	entries := []string{name + "_vector", name + "_element", name + "_check"}
	var b strings.Builder
	heading(&b, d, dtypes)
	fmt.Fprintf(&b, "typedef %s Element;\ntypedef %s Weight;\n", table, weight)
	macros(&b,
		"WEIGHTED", number(f.IsWeighted()),
		"PATTERN_OF(X)", patternOf(table),
		"ELEMENT_OF(PATTERN)", element,
		"WIDEN(PATTERN)", fmt.Sprintf("widen_%s(PATTERN)", table),
		"NARROW(X)", fmt.Sprintf("narrow_%s(X)", table),
		"NARROW_PAIR(LOW, HIGH)", pair,
		"WIDEN_WEIGHT(X)", fmt.Sprintf("widen_%s(%s)", weight, patternOf(weight)),
	)
	b.WriteByte('\n')
	b.WriteString(checkSource(d, name) + "\n")
	b.WriteString(named(gatherSumText, "ENTRY_VECTOR", entries[gatherSumVector], "ENTRY_ELEMENT", entries[gatherSumElement], "IS_REFUSED", name+"_is_refused"))
	return &Kernel{Source: Source{Name: name, Text: b.String(), Entries: entries}, d: d, planner: &gatherSum{d}, check: gatherSumCheck}
}

// launches implements planner.
func (k *gatherSum) launches(p *Plan, c *lower.Call, _ Limits) error {
	f := k.d.Form.(*def.LookupSum)
	index, table, out := &c.Operands[f.Index], &c.Operands[f.Table], &c.Operands[f.Out]
	weight := &lower.Operand{}
	if f.IsWeighted() {
		weight = &c.Operands[f.Weight]
	}
	entry, perThread := gatherSumElement, 1
	if isVector(table) && isVector(out) {
		entry, perThread = gatherSumVector, 16/table.DType.Size()
	}
	block := columnBlock(tiles(out.Cols, perThread))
	blocks := tiles(out.Rows, int(block[1]))
	if blocks > math.MaxInt32 {
		return fmt.Errorf("%s: %d rows are too many: they need more than 2^31 blocks", k.d.Name, out.Rows)
	}
	p.launch(entry, [3]uint32{uint32(blocks), 1, 1}, block, 0)
	p.pointers(index.Pointer, table.Pointer, weight.Pointer, out.Pointer)
	p.refused()
	p.ints(index.Stride, table.Stride, weight.Stride, out.Stride, out.Rows, table.Rows, out.Cols, index.Cols)
	return nil
}
