package cpu

import (
	"testing"

	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/trial/randdef"
)

// TestRankBelow compares the ranks below a limit, and the columns of ranks, with sorted rows, whose elements
// are often equal.
func TestRankBelow(t *testing.T) {
	t.Parallel()
	var m orderMemory
	g := gen.New(t.Name())
	for range 300 {
		x := num.NewArray(num.F32, 1, 1+g.Below(130))
		randdef.Contenders(g, x)
		row := make([]float32, x.Cols)
		Load(row, &x, 0, 0)
		want, got := make([]int32, x.Cols), make([]int32, x.Cols)
		m.rank(want, row)
		limit := g.Below(x.Cols/3 + 2)
		m.rankBelow(limit, got, row)
		for c := range want {
			if want[c] < int32(limit) && got[c] != want[c] || want[c] >= int32(limit) && got[c] < int32(limit) {
				t.Fatalf("the %d first of %v: element %d has rank %d, want %d", limit, row, c, got[c], want[c])
			}
		}
		for c, rank := range want {
			if k := m.kth(row, int(rank)); k != int32(c) {
				t.Fatalf("of %v: column %d has rank %d, want %d", row, k, rank, c)
			}
		}
	}
}
