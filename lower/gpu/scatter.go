package gpu

import (
	_ "embed"
	"fmt"
	"math"
	"strings"

	"tokitai/def"
	"tokitai/num"
)

//go:embed kernels/scatter.cu
var scatterText string

// scatter plans the launches of kernels/scatter.cu.
type scatter struct {
	d       *def.Definition
	isExact bool              // the sum does not depend on the order of its terms
	entries map[string]string // by their names in the text
}

func compileScatter(d *def.Definition, dtypes []num.DType, name string) *Kernel {
	p := &scatter{d: d, isExact: dtypes[1] == num.F16, entries: map[string]string{}}
	k := &Kernel{Source: Source{Name: name}, plan: p}
	var pairs []string
	for _, entry := range []string{"CLEAR", "COUNT", "ALLOCATE", "PLACE", "ORDER", "SUM_VECTOR", "SUM_ELEMENT", "COMBINE"} {
		p.entries[entry] = name + "_" + strings.ToLower(entry)
		pairs = append(pairs, "ENTRY_"+entry, p.entries[entry])
		if entry != "ORDER" || !p.isExact {
			k.Source.Entries = append(k.Source.Entries, p.entries[entry])
		}
	}
	in, out := dtypes[1], dtypes[2]
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
		"ACCUMULATE", number(d.Accumulate),
		"INPUT_PATTERN(X)", patternOf(in),
		"OUTPUT_PATTERN(X)", patternOf(out),
		"OUTPUT_OF(PATTERN)", output,
		"WIDEN_INPUT(PATTERN)", fmt.Sprintf("widen_%s(PATTERN)", in),
		"WIDEN_OUTPUT(PATTERN)", fmt.Sprintf("widen_%s(PATTERN)", out),
		"NARROW_OUTPUT(X)", fmt.Sprintf("narrow_%s(X)", out),
	)
	b.WriteByte('\n')
	b.WriteString(named(scatterText, pairs...))
	k.Source.Text = b.String()
	return k
}

// number is a condition as the preprocessor knows it.
func number(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// patternOf is the expression for the bits of X.
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

// scratchMemory hands out pieces that begin at multiples of 256 bytes.
type scratchMemory struct {
	base uint64
	used int64
}

func (s *scratchMemory) words(n int) uint64 {
	at := s.base + uint64(s.used)
	s.used += (4*int64(n) + 255) / 256 * 256
	return at
}

func (p *scatter) launches(operands []Operand, _ []float64, limits Limits) ([]Launch, int64, error) {
	index, in, result := &operands[0], &operands[1], &operands[2]
	queries, rows, cols := index.Rows, result.Rows, result.Cols
	if queries > math.MaxInt32 || rows >= math.MaxInt32 {
		return nil, 0, fmt.Errorf("%s: %d queries into %d rows are too many, want at most 2^31-1 and 2^31-2", p.d.Name, queries, rows)
	}
	chunk := def.ScatterChunk
	frequent := queries / (chunk + 1)  // rows that have more queries than a chunk, at most
	chunks := queries/chunk + frequent // of those rows, at most
	listed := queries + chunk*chunks   // positions
	partialWords := 1
	if p.isExact {
		partialWords = 2
	}
	scratch := scratchMemory{base: limits.Scratch}
	counters := scratch.words(4)
	counts, first := scratch.words(scatterGroup*tiles(rows, scatterGroup)), scratch.words(scatterGroup*tiles(rows, scatterGroup))
	numbers, positions := scratch.words(queries), scratch.words(listed)
	ordered := positions
	if !p.isExact {
		ordered = scratch.words(listed)
	}
	frequentRows, largeRows, chunkRows := scratch.words(frequent), scratch.words(queries/(sortedQueries+1)), scratch.words(chunks)
	partial := scratch.words(partialWords * chunks * cols)

	var plan []Launch
	launch := func(entry string, x, y int, block [3]uint32, params []byte) {
		plan = append(plan, Launch{Entry: p.entries[entry], Grid: [3]uint32{uint32(x), uint32(y), 1}, Block: block, Params: params})
	}
	block := [3]uint32{256, 1, 1}
	lists := words(index.Pointer, counters, counts, first, numbers, positions, ordered, frequentRows, largeRows, chunkRows, index.Stride, queries, rows)
	launch("CLEAR", tiles(rows+scatterGroup, 256), 1, block, lists)
	launch("COUNT", tiles(queries, 256), 1, block, lists)
	launch("ALLOCATE", tiles(rows, allocatedRows), 1, block, lists)
	launch("PLACE", tiles(queries, 256), 1, block, lists)
	if !p.isExact {
		launch("ORDER", min(tiles(queries, 256), 8*limits.Multiprocessors), 1, block, lists)
	}

	// sum adds up columns from one on, which a thread owns by so many.
	sum := func(entry string, from, columns, perThread int) {
		block := columnBlock(tiles(columns, perThread))
		chunkBlocks := min(tiles(chunks, int(block[1])), 4*limits.Multiprocessors)
		rowBlocks := tiles(tiles(rows, scatterGroup), int(block[1]))
		slabs := tiles(columns, perThread*int(block[0]))
		launch(entry, chunkBlocks+rowBlocks, min(slabs, maxSlabs), block, words(counters, counts, first, ordered, frequentRows, chunkRows,
			in.Pointer+uint64(from*in.DType.Size()), result.Pointer+uint64(from*result.DType.Size()), partial+uint64(4*partialWords*from),
			in.Stride, result.Stride, cols, queries, rows, columns, chunkBlocks))
	}
	perThread := 16 / in.DType.Size()
	vector := 0 // columns that are moved 16 bytes at a time
	if isVector(in) && isVector(result) {
		vector = cols / perThread * perThread
	}
	if vector > 0 {
		sum("SUM_VECTOR", 0, vector, perThread)
	}
	if vector < cols {
		sum("SUM_ELEMENT", vector, cols-vector, 1)
	}
	if frequent > 0 {
		launch("COMBINE", min(frequent, limits.Multiprocessors), min(tiles(cols, combinedColumns), maxSlabs), [3]uint32{combinedColumns, 1, 1},
			words(counters, counts, first, ordered, frequentRows, chunkRows, in.Pointer, result.Pointer, partial, in.Stride, result.Stride, cols, queries, rows, cols, 0))
	}
	return plan, scratch.used, nil
}

// maxSlabs is the most blocks that a launch has along the columns; kernels walk over the rest.
const maxSlabs = 1 << 15
