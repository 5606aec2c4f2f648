package cpu_test

import (
	"testing"

	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/trial/randdef"
)

// TestIndexed compares random gather-sums, dispatches and row writes with the reference.
func TestIndexed(t *testing.T) {
	g := gen.New("indexed")
	for range testlevel.Pick(150, 1000, 10_000) {
		d := randdef.Indexed(g)
		compareTable(t, randdef.NewCase(g, d, randdef.DTypes(g, d), randdef.IndexedSizes(g, d, 3000)), 1+g.Below(4), g)
	}
}
