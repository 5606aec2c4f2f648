package table_test

import (
	"testing"

	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/trial/randdef"
)

// TestGatherSum compares random gather-sums with the reference.
func TestGatherSum(t *testing.T) {
	g := gen.New("indexed")
	for range testlevel.Pick(300, 3000, 30_000) {
		d := randdef.GatherSum(g)
		compare(t, randdef.NewCase(g, d, randdef.DTypes(g, d), randdef.IndexedSizes(g, d, 9000)), 1+g.Below(4), g)
	}
}
