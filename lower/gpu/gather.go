package gpu

import (
	_ "embed"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

//go:embed kernels/gather.cu
var gatherText string

// gather plans the launches of kernels/gather.cu.
type gather struct{ d *def.Definition }

// The entries of kernels/gather.cu, in their order.
const (
	gatherVector = iota
	gatherElement
	gatherCheck
)

func compileGather(d *def.Definition, dtypes []num.DType, _ Variant, name string) *Kernel {
	entries := []string{name + "_vector", name + "_element", name + "_check"}
	var b strings.Builder
	heading(&b, d, dtypes)
	fmt.Fprintf(&b, "typedef u%d Element;\n\n", width(dtypes[d.Form.(*def.Lookup).Table]))
	b.WriteString(checkSource(d, name) + "\n")
	b.WriteString(named(gatherText, "ENTRY_VECTOR", entries[gatherVector], "ENTRY_ELEMENT", entries[gatherElement], "IS_REFUSED", name+"_is_refused"))
	return &Kernel{Source: Source{Name: name, Text: b.String(), Entries: entries}, d: d, planner: &gather{d}, check: gatherCheck}
}

// columnBlock returns a block of 256 threads: as many as useful along the columns of a row,
// the others along rows.
func columnBlock(columns int) [3]uint32 {
	x := 256
	if columns < 256 {
		x = 1 << bits.Len(uint(max(columns, 1)-1))
	}
	return [3]uint32{uint32(x), uint32(256 / x), 1}
}

// launches implements planner.
func (k *gather) launches(p *Plan, c *lower.Call, _ Limits) error {
	f := k.d.Form.(*def.Lookup)
	index, table, out := &c.Operands[f.Index], &c.Operands[f.Table], &c.Operands[f.Out]
	const rowsPerThread = 4
	entry, perWord := gatherElement, 1
	if isVector(table) && isVector(out) {
		entry, perWord = gatherVector, 16/table.DType.Size()
	}
	block := columnBlock(tiles(out.Cols, perWord))
	blocks := tiles(out.Rows, rowsPerThread*int(block[1]))
	if blocks > math.MaxInt32 {
		return fmt.Errorf("%s: %d rows are too many: they need more than 2^31 blocks", k.d.Name, out.Rows)
	}
	p.launch(entry, [3]uint32{uint32(blocks), 1, 1}, block, 0)
	p.pointers(index.Pointer, table.Pointer, out.Pointer)
	p.refused()
	p.ints(index.Stride, table.Stride, out.Stride, out.Rows, table.Rows, out.Cols)
	return nil
}
