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

//go:embed kernels/row_write.cu
var rowWriteText string

// rowWrite plans the launches of kernels/row_write.cu.
type rowWrite struct{ d *def.Definition }

// The entries of kernels/row_write.cu, in their order.
const (
	rowWriteVector = iota
	rowWriteElement
	rowWriteClear
	rowWriteClaim
	rowWriteCheck
)

var rowWriteEntries = [...]string{"VECTOR", "ELEMENT", "CLEAR", "CLAIM", "CHECK"}

func compileRowWrite(d *def.Definition, dtypes []num.DType, _ Variant, name string) *Kernel {
	k := &Kernel{Source: Source{Name: name}, d: d, planner: &rowWrite{d}, check: rowWriteCheck}
	pairs := []string{"IS_REFUSED", name + "_is_refused"}
	for _, entry := range rowWriteEntries {
		full := name + "_" + strings.ToLower(entry)
		pairs = append(pairs, "ENTRY_"+entry, full)
		k.Source.Entries = append(k.Source.Entries, full)
	}
	var b strings.Builder
	heading(&b, d, dtypes)
	fmt.Fprintf(&b, "typedef u%d Element;\n\n", width(dtypes[d.Form.(*def.RowWrite).Rows]))
	b.WriteString(checkSource(d, name) + "\n")
	b.WriteString(named(rowWriteText, pairs...))
	k.Source.Text = b.String()
	return k
}

// fewQueries is up to how many queries a thread compares an index with all later ones.
const fewQueries = 64

// launches implements planner.
func (k *rowWrite) launches(p *Plan, c *lower.Call, _ Limits) error {
	f := k.d.Form.(*def.RowWrite)
	index, rows, table := &c.Operands[f.Index], &c.Operands[f.Rows], &c.Operands[f.Table]
	const rowsPerThread = 4
	queries := index.Rows
	if queries > math.MaxInt32 {
		return fmt.Errorf("%s: %d rows are too many, want at most 2^31-1", k.d.Name, queries)
	}
	isMany := queries > fewQueries
	var writers int64
	if isMany {
		writers = p.reserve(table.Rows)
	}
	launch := func(entry, blocks int, block [3]uint32) {
		p.launch(entry, [3]uint32{uint32(blocks), 1, 1}, block, 0)
		p.pointers(index.Pointer, rows.Pointer, table.Pointer)
		if isMany {
			p.scratch(writers)
		} else {
			p.pointers(0)
		}
		p.refused()
		p.ints(index.Stride, rows.Stride, table.Stride, queries, table.Rows, rows.Cols)
	}
	if isMany {
		launch(rowWriteClear, tiles(queries, 256), [3]uint32{256, 1, 1})
		launch(rowWriteClaim, tiles(queries, 256), [3]uint32{256, 1, 1})
	}
	entry, perWord := rowWriteElement, 1
	if isVector(rows) && isVector(table) {
		entry, perWord = rowWriteVector, 16/rows.DType.Size()
	}
	block := columnBlock(tiles(rows.Cols, perWord))
	launch(entry, tiles(queries, rowsPerThread*int(block[1])), block)
	return nil
}
