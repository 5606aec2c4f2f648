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

//go:embed kernels/scatter.cu
var scatterText string

// scatter plans the launches of kernels/scatter.cu.
type scatter struct {
	d       *def.Definition
	isExact bool // the sum does not depend on the order of its terms
}

// The entries of kernels/scatter.cu, in their order.
const (
	scatterClear = iota
	scatterCount
	scatterAllocate
	scatterPlace
	scatterSumVector
	scatterSumElement
	scatterCombine
	scatterCheck
	scatterOrder // where the sum depends on the order
)

// scatterEntries are the names of the entries in the text.
var scatterEntries = [...]string{"CLEAR", "COUNT", "ALLOCATE", "PLACE", "SUM_VECTOR", "SUM_ELEMENT", "COMBINE", "CHECK", "ORDER"}

func compileScatter(d *def.Definition, dtypes []num.DType, _ Variant, name string) *Kernel {
	f := d.Form.(*def.Scatter)
	in, out := dtypes[f.Rows], dtypes[f.Result]
	p := &scatter{d: d, isExact: in == num.F16}
	k := &Kernel{Source: Source{Name: name}, d: d, planner: p, check: scatterCheck}
	var pairs []string
	for i, entry := range scatterEntries {
		full := name + "_" + strings.ToLower(entry)
		pairs = append(pairs, "ENTRY_"+entry, full)
		if i != scatterOrder || !p.isExact {
			k.Source.Entries = append(k.Source.Entries, full)
		}
	}
	pairs = append(pairs, "IS_REFUSED", name+"_is_refused")
	partial, output := "float", "(Output)(PATTERN)"
	if p.isExact {
		partial = "u64"
	}
	if out == num.F32 {
		output = "float_of(PATTERN)"
	}
	var b strings.Builder
	heading(&b, d, dtypes)
	fmt.Fprintf(&b, "typedef %s Input;\ntypedef %s Output;\ntypedef %s Partial;\n", in, out, partial)
	macros(&b,
		"EXACT", number(p.isExact),
		"OUTPUT_IS_F16", number(out == num.F16),
		"ACCUMULATE", number(d.Accumulates()),
		"INPUT_PATTERN(X)", patternOf(in),
		"OUTPUT_PATTERN(X)", patternOf(out),
		"OUTPUT_OF(PATTERN)", output,
		"WIDEN_INPUT(PATTERN)", fmt.Sprintf("widen_%s(PATTERN)", in),
		"WIDEN_OUTPUT(PATTERN)", fmt.Sprintf("widen_%s(PATTERN)", out),
		"NARROW_OUTPUT(X)", fmt.Sprintf("narrow_%s(X)", out),
	)
	b.WriteByte('\n')
	b.WriteString(checkSource(d, name) + "\n")
	b.WriteString(named(scatterText, pairs...))
	k.Source.Text = b.String()
	return k
}

// number returns a condition for the preprocessor.
func number(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// patternOf returns the expression for the bits of X.
func patternOf(d num.DType) string {
	if d == num.F32 {
		return "bits_of(X)"
	}
	return "(u32)(X)"
}

const (
	scatterGroup    = 4    // neighbouring rows that a thread adds up
	allocatedRows   = 1024 // of a block
	sortedQueries   = 4096 // of a row, by comparing them
	combinedColumns = 64   // of a block
)

// launches implements planner.
func (k *scatter) launches(p *Plan, c *lower.Call, limits Limits) error {
	f := k.d.Form.(*def.Scatter)
	index, in, result := &c.Operands[f.Index], &c.Operands[f.Rows], &c.Operands[f.Result]
	queries, rows, cols := index.Rows, result.Rows, result.Cols
	if queries > math.MaxInt32 || rows >= math.MaxInt32 {
		return fmt.Errorf("%s: %d queries into %d rows are too many, want at most 2^31-1 and 2^31-2", k.d.Name, queries, rows)
	}
	chunk := def.ScatterChunk
	frequent := queries / (chunk + 1)  // rows that have more queries than a chunk, at most
	chunks := queries/chunk + frequent // of those rows, at most
	listed := queries + chunk*chunks   // positions
	partialWords := 1
	if k.isExact {
		partialWords = 2
	}
	counters := p.reserve(4)
	counts, first := p.reserve(scatterGroup*tiles(rows, scatterGroup)), p.reserve(scatterGroup*tiles(rows, scatterGroup))
	numbers, positions := p.reserve(queries), p.reserve(listed)
	ordered := positions
	if !k.isExact {
		ordered = p.reserve(listed)
	}
	frequentRows, largeRows, chunkRows := p.reserve(frequent), p.reserve(queries/(sortedQueries+1)), p.reserve(chunks)
	partial := p.reserve(partialWords * chunks * cols)

	list := func(entry, blocks int) {
		p.launch(entry, [3]uint32{uint32(blocks), 1, 1}, [3]uint32{256, 1, 1}, 0)
		p.pointers(index.Pointer)
		p.scratches(counters, counts, first, numbers, positions, ordered, frequentRows, largeRows, chunkRows)
		p.ints(index.Stride, queries, rows)
	}
	list(scatterClear, tiles(rows+scatterGroup, 256))
	list(scatterCount, tiles(queries, 256))
	list(scatterAllocate, tiles(rows, allocatedRows))
	list(scatterPlace, tiles(queries, 256))
	if !k.isExact {
		list(scatterOrder, min(tiles(queries, 256), 8*limits.Multiprocessors))
	}

	// sums launches an entry that adds up columns.
	sums := func(entry, from, columns, chunkBlocks int, grid, block [3]uint32) {
		p.launch(entry, grid, block, 0)
		p.scratches(counters, counts, first, ordered, frequentRows, chunkRows)
		p.pointers(in.Pointer+uint64(from*in.DType.Size()), result.Pointer+uint64(from*result.DType.Size()))
		p.scratches(partial + int64(4*partialWords*from))
		p.refused()
		p.ints(in.Stride, result.Stride, cols, queries, rows, columns, chunkBlocks)
	}
	sum := func(entry, from, columns, perThread int) { // which a thread owns by so many
		block := columnBlock(tiles(columns, perThread))
		chunkBlocks := min(tiles(chunks, int(block[1])), 4*limits.Multiprocessors)
		rowBlocks := tiles(tiles(rows, scatterGroup), int(block[1]))
		slabs := tiles(columns, perThread*int(block[0]))
		sums(entry, from, columns, chunkBlocks, [3]uint32{uint32(chunkBlocks + rowBlocks), uint32(min(slabs, maxSlabs)), 1}, block)
	}
	perThread := 16 / in.DType.Size()
	vector := 0 // columns that are moved 16 bytes at a time
	if isVector(in) && isVector(result) {
		vector = cols / perThread * perThread
	}
	if vector > 0 {
		sum(scatterSumVector, 0, vector, perThread)
	}
	if vector < cols {
		sum(scatterSumElement, vector, cols-vector, 1)
	}
	if frequent > 0 {
		sums(scatterCombine, 0, cols, 0, [3]uint32{uint32(min(frequent, limits.Multiprocessors)), uint32(min(tiles(cols, combinedColumns), maxSlabs)), 1}, [3]uint32{combinedColumns, 1, 1})
	}
	return nil
}

// maxSlabs is the most blocks of a launch along the columns; kernels loop over the rest.
const maxSlabs = 1 << 15
