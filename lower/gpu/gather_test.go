package gpu_test

import (
	"fmt"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/op/embedding"
)

// randomBits fills an array with any patterns, NaN of all payloads among them.
func randomBits(g *gen.Generator, d num.DType, rows, cols int) num.Array {
	a := num.NewArray(d, rows, cols)
	for r := range rows {
		for c := range cols {
			a.SetBits(r, c, uint32(g.Next()))
		}
	}
	return a
}

// indices are n rows of v, a few of them bad on demand.
func indices(g *gen.Generator, n, v int, bad bool) num.Array {
	a := num.NewArray(num.I32, n, 1)
	for q := range n {
		i := uint32(g.Below(v))
		if bad && g.Below(5) == 0 {
			i = []uint32{uint32(v), 1 << 31, ^uint32(0), 1<<31 - 1}[g.Below(4)]
		}
		a.SetBits(q, 0, i)
	}
	return a
}

// TestGather: rows are copied bit for bit, by any index, in any layout.
func TestGather(t *testing.T) {
	t.Parallel()
	d := embedding.ForwardDefinition
	p := &tables{}
	g := gen.New("gather")
	for _, dtypes := range d.Formats() {
		k := p.compile(t, d, dtypes)
		for i, s := range [][3]int{{1, 1, 1}, {5, 3, 8}, {17, 9, 33}, {70, 200, 4}, {9, 4, 300}, {3, 2, 2100}, {33, 7, 16}} {
			for _, lead := range []int{0, 4} {
				operands := []num.Array{indices(g, s[0], s[1], i%2 == 0), randomBits(g, dtypes[1], s[1], s[2]), num.NewArray(dtypes[2], s[0], s[2])}
				gap := (8 - s[2]%8) % 8 // every row is aligned, or
				if i%3 == 2 {
					gap = 3
				}
				p.add(t, fmt.Sprint(dtypes, s, lead, gap), d, k, operands, lead, gap)
			}
		}
	}
	for warp, seed := range map[int]uint64{32: 0, 64: 7} {
		if text := p.run(t, simtest.Plain, warp, seed); text != "" {
			t.Fatal(text)
		}
	}
}

// tableDefinitions are what the hand-written kernels compute.
var tableDefinitions = append([]*def.Definition{embedding.ForwardDefinition, embedding.BackwardDefinition, embedding.AccumulateDefinition}, gemms...)

// TestTableSources: every source is stable, has its entries, and carries its formula.
func TestTableSources(t *testing.T) {
	for _, d := range tableDefinitions {
		for _, dtypes := range d.Formats() {
			k, err := gpu.Compile(d, dtypes, gpu.Element)
			if err != nil {
				t.Fatal(err)
			}
			again, _ := gpu.Compile(d, dtypes, gpu.Vector)
			if k.Source.Text != again.Source.Text {
				t.Errorf("%s %v: the source depends on more than definition and formats", d.Name, dtypes)
			}
			for _, entry := range k.Source.Entries {
				if !strings.Contains(k.Source.Text, "("+entry+", ") {
					t.Errorf("%s %v: no kernel named %s", d.Name, dtypes, entry)
				}
			}
			if !strings.HasPrefix(k.Source.Text, "// ") || strings.Contains(k.Source.Text, "ENTRY_") {
				t.Errorf("%s %v: the source is not filled in:\n%.300s", d.Name, dtypes, k.Source.Text)
			}
		}
	}
}
