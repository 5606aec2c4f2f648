package gpu_test

import (
	"fmt"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/trial/randdef"
)

// TestIndexed compares random gather-sums, dispatches and row writes with the reference, with rows of
// 16 bytes and others.
func TestIndexed(t *testing.T) {
	t.Parallel()
	p := &tables{}
	g := gen.New("indexed")
	for i := range testlevel.Pick(4, 60, 500) {
		d := []func(*gen.Generator) *def.Definition{randdef.GatherSum, randdef.Dispatch, randdef.RowWrite}[i%3](g)
		dtypes := randdef.DTypes(g, d)
		k := p.compile(t, d, dtypes)
		for range 12 {
			sizes := randdef.IndexedSizes(g, d, 1500)
			c := randdef.NewCase(g, d, dtypes, sizes)
			var operands []num.Array
			for _, a := range c.Operands {
				operands = append(operands, a.Clone())
			}
			lead, gap := 0, (8-sizes["D"]%8)%8
			if g.Below(3) == 0 {
				lead, gap = 4, g.Below(4)
			}
			p.add(t, fmt.Sprint(d.Name, i, dtypes, sizes, lead, gap), d, k, operands, lead, gap)
		}
	}
	for warp, seed := range map[int]uint64{32: 0, 64: 7} {
		if text := p.run(t, simtest.Plain, warp, seed); text != "" {
			t.Fatal(text)
		}
	}
}
