package num

import (
	"math"
	"sort"
	"sync"
	"testing"

	"tokitai/internal/testlevel"
)

// TestNarrowExhaustive narrows all 2^32 binary32 patterns to every narrow format. Each
// part of the magnitudes walks upward, the slow format's neighbour with it, and
// both signs are checked.
func TestNarrowExhaustive(t *testing.T) {
	testlevel.Need(t, testlevel.Exhaustive, "all 2^32 patterns take about a minute")
	const parts = 64
	for _, s := range slowFormats {
		t.Run(s.dtype.String(), func(t *testing.T) {
			var group sync.WaitGroup
			starts := make(chan uint32, parts)
			for i := range uint32(parts) {
				starts <- i * (1 << 31 / parts)
			}
			close(starts)
			for range 8 {
				group.Go(func() {
					for start := range starts {
						narrowRange(t, s, start, 1<<31/parts)
					}
				})
			}
			group.Wait()
		})
	}
}

func narrowRange(t *testing.T, s slowFormat, start, n uint32) {
	lo := sort.SearchFloat64s(s.values, float64(math.Float32frombits(start))) - 1
	for magnitude := start; magnitude < start+n; magnitude++ {
		x := math.Float32frombits(magnitude)
		want := uint32(s.nan)
		if x == x {
			for lo+1 < len(s.values) && s.values[lo+1] < float64(x) {
				lo++
			}
			want = uint32(s.nearest(float64(x), lo))
		}
		wantNegative := want
		if want != uint32(s.nan) {
			wantNegative |= uint32(s.sign)
		}
		got := Canonical(s.dtype, Narrow(s.dtype, x))
		gotNegative := Canonical(s.dtype, Narrow(s.dtype, math.Float32frombits(magnitude|1<<31)))
		if got != want || gotNegative != wantNegative {
			t.Errorf("%v of %#08x and its negative: got %#04x and %#04x, want %#04x and %#04x",
				s.dtype, magnitude, got, gotNegative, want, wantNegative)
			return
		}
	}
}
