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
type scatter struct{ d *def.Definition }

// The entries of kernels/scatter.cu, in their order.
const (
	scatterCount = iota
	scatterScan
	scatterPlace
	scatterBounds
	scatterSumVector
	scatterSumElement
	scatterLongVector
	scatterLongElement
	scatterCheck
)

// scatterEntries are their names in the text.
var scatterEntries = [...]string{"COUNT", "SCAN", "PLACE", "BOUNDS", "SUM_VECTOR", "SUM_ELEMENT", "LONG_VECTOR", "LONG_ELEMENT"}

func compileScatter(d *def.Definition, dtypes []num.DType, name string) *Kernel {
	k := &Kernel{Source: Source{Name: name}, d: d, planner: &scatter{d}, check: scatterCheck}
	var pairs []string
	for i, entry := range scatterEntries {
		k.Source.Entries = append(k.Source.Entries, name+"_"+strings.ToLower(entry))
		pairs = append(pairs, "ENTRY_"+entry, k.Source.Entries[i])
	}
	k.Source.Entries = append(k.Source.Entries, name+"_check")
	pairs = append(pairs, "IS_REFUSED", name+"_is_refused")
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
	b.WriteString(checkSource(d, name) + "\n")
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

// launches implements planner.
func (k *scatter) launches(p *Plan, operands []Operand, _ []float64, limits Limits) error {
	index, in, result := &operands[0], &operands[1], &operands[2]
	queries, rows, cols := index.Rows, result.Rows, result.Cols
	if queries > math.MaxInt32 || rows >= math.MaxInt32 {
		return fmt.Errorf("%s: %d queries into %d rows are too many, want at most 2^31-1 and 2^31-2", k.d.Name, queries, rows)
	}
	blocks := tiles(queries, sortTile)
	counts, begins := p.reserve(256*blocks), p.reserve(256)
	first := p.reserve(rows + 1)
	keys := [2]int64{p.reserve(queries), p.reserve(queries)}
	positions := [2]int64{p.reserve(queries), p.reserve(queries)}

	block := [3]uint32{256, 1, 1}
	passes := tiles(bits.Len(uint(rows)), sortDigit) // keys are 0 to rows: the last stands for no row
	from, to := 0, 1
	for pass := range passes {
		indexAt := index.Pointer
		if pass > 0 {
			indexAt = 0
		}
		for _, step := range [...]struct{ entry, blocks int }{{scatterCount, blocks}, {scatterScan, 1}, {scatterPlace, blocks}} {
			p.launch(step.entry, [3]uint32{uint32(step.blocks), 1, 1}, block, 0)
			p.pointers(indexAt)
			p.scratches(keys[from], positions[from], keys[to], positions[to], counts, begins)
			p.ints(index.Stride, queries, rows, blocks, sortDigit*pass) // the shift's neighbour is not used
		}
		from, to = to, from
	}
	p.launch(scatterBounds, [3]uint32{uint32(tiles(rows+1, 256)), 1, 1}, block, 0)
	p.scratches(keys[from], first)
	p.ints(queries, rows)

	sum, long, perThread := scatterSumElement, scatterLongElement, 1
	if isVector(in) {
		sum, long, perThread = scatterSumVector, scatterLongVector, 8
	}
	sums := func(entry int, grid, block [3]uint32) {
		p.launch(entry, grid, block, 0)
		p.scratches(positions[from], first)
		p.pointers(in.Pointer, result.Pointer)
		p.refused()
		p.ints(in.Stride, result.Stride, rows, cols)
	}
	short := columnBlock(tiles(cols, perThread))
	sums(sum, [3]uint32{uint32(tiles(rows, int(short[1]))), 1, 1}, short)
	if queries > longAbove { // else no index can occur so often
		slabs := tiles(cols, 32*perThread)
		sums(long, [3]uint32{uint32(min(rows, 4*limits.Multiprocessors)), uint32(min(slabs, 64)), 1}, block)
	}
	return nil
}
