package truthtest

import (
	"math"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/norm"
	"tokitai/truth"
)

// TestStableHeightsAreThoseOfTheOrder checks that a declared order limits the height of sums.
func TestStableHeightsAreThoseOfTheOrder(t *testing.T) {
	x, total := num.NewArray(num.F32, 1, 1024), num.NewArray(num.F32, 1, 1)
	for c := range x.Cols {
		x.Set(0, c, float32(1+math.Sin(float64(c))))
	}
	count := func(o def.Order, height int) int64 {
		s, err := truth.EncloseStable(norm.SquareSumDefinition, []num.Array{x, total}, truth.StableOptions{Order: o})
		if err != nil {
			t.Fatal(err)
		}
		return s.Count(1, 0, 0, height)
	}
	any, pairwise := def.Order{}, def.Order{Kind: def.Pairwise}
	if got, want := count(pairwise, math.MaxInt), count(any, pairwise.Height(1024)); got != want {
		t.Errorf("pairwise sums admit %d values, sums of the same height %d", got, want)
	}
	if narrow, wide := count(pairwise, math.MaxInt), count(any, math.MaxInt); narrow*8 > wide {
		t.Errorf("pairwise sums admit %d values, sums in any order %d", narrow, wide)
	}
}
