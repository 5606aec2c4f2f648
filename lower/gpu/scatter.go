package gpu

import (
	_ "embed"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"tokitai/def"
	"tokitai/num"
)

//go:embed kernels/scatter.cu
var scatterText string

// scatter plans the launches of kernels/scatter.cu.
type scatter struct {
	d       *def.Definition
	entries map[string]string // by their names in the text
}

func compileScatter(d *def.Definition, dtypes []num.DType, name string) *Kernel {
	p := &scatter{d: d, entries: map[string]string{}}
	k := &Kernel{Source: Source{Name: name}, plan: p}
	var pairs []string
	for _, entry := range []string{"COUNT", "SCAN", "PLACE", "BOUNDS", "SUM_VECTOR", "SUM_ELEMENT", "LONG_VECTOR", "LONG_ELEMENT"} {
		p.entries[entry] = name + "_" + strings.ToLower(entry)
		pairs = append(pairs, "ENTRY_"+entry, p.entries[entry])
		k.Source.Entries = append(k.Source.Entries, p.entries[entry])
	}
	in, out := dtypes[1], dtypes[2]
	var b strings.Builder
	heading(&b, d, dtypes)
	fmt.Fprintf(&b, "typedef %s Input;\ntypedef %s Output;\ntypedef Group%d InputGroup;\n", in, out, width(in))
	macros(&b,
		"EXACT", number(in == num.F16),
		"OUTPUT_IS_F16", number(out == num.F16),
		"ACCUMULATE", number(d.Accumulate),
		"FETCH(AT, N)", fmt.Sprintf("fetch%d(AT, N)", width(in)),
		"FETCH_VECTOR(AT, N)", fmt.Sprintf("fetch%d_vector(AT, N)", width(in)),
		"GET(GROUP, J)", fmt.Sprintf("get_%s(GROUP, J)", in),
		"LOAD_OUTPUT(AT)", fmt.Sprintf("load_%s(AT)", out),
		"STORE_OUTPUT(AT, X)", fmt.Sprintf("store_%s(AT, X)", out),
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

const (
	sortTile  = 1024 // queries that a block sorts
	sortDigit = 8    // bits that a pass sorts by
	longAbove = def.ScatterChunk
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
	blocks := tiles(queries, sortTile)
	scratch := scratchMemory{base: limits.Scratch}
	counts, begins := scratch.words(256*blocks), scratch.words(256)
	first := scratch.words(rows + 1)
	keys := [2]uint64{scratch.words(queries), scratch.words(queries)}
	positions := [2]uint64{scratch.words(queries), scratch.words(queries)}

	var plan []Launch
	launch := func(entry string, grid, block [3]uint32, params []byte) {
		plan = append(plan, Launch{Entry: p.entries[entry], Grid: grid, Block: block, Params: params})
	}
	block := [3]uint32{256, 1, 1}
	passes := tiles(bits.Len(uint(rows)), sortDigit) // keys are 0 to rows: the last stands for no row
	from, to := 0, 1
	for pass := range passes {
		indexAt := index.Pointer
		if pass > 0 {
			indexAt = 0
		}
		params := words(indexAt, keys[from], positions[from], keys[to], positions[to], counts, begins,
			index.Stride, queries, rows, blocks, sortDigit*pass) // the shift's neighbour is not used
		launch("COUNT", [3]uint32{uint32(blocks), 1, 1}, block, params)
		launch("SCAN", [3]uint32{1, 1, 1}, block, params)
		launch("PLACE", [3]uint32{uint32(blocks), 1, 1}, block, params)
		from, to = to, from
	}
	launch("BOUNDS", [3]uint32{uint32(tiles(rows+1, 256)), 1, 1}, block, words(keys[from], first, queries, rows))

	variant, perThread := "ELEMENT", 1
	if isVector(in) {
		variant, perThread = "VECTOR", 8
	}
	params := words(positions[from], first, in.Pointer, result.Pointer, in.Stride, result.Stride, rows, cols)
	short := columnBlock(tiles(cols, perThread))
	launch("SUM_"+variant, [3]uint32{uint32(tiles(rows, int(short[1]))), 1, 1}, short, params)
	if queries > longAbove { // else no index can occur so often
		slabs := tiles(cols, 32*perThread)
		launch("LONG_"+variant, [3]uint32{uint32(min(rows, 4*limits.Multiprocessors)), uint32(min(slabs, 64)), 1}, block, params)
	}
	return plan, scratch.used, nil
}
