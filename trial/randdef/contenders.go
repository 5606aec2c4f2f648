package randdef

import (
	"math"

	"tokitai/internal/gen"
	"tokitai/num"
)

// contenderColumns are columns at which loops over a row begin or end.
var contenderColumns = []int{0, 1, 7, 8, 31, 32, 63, 64, 127, 128, 255, 256, 257, 511, 512, 513, 1023, 1024, 2047, 2048, 8191, 8192, 1<<16 - 1, 1 << 16}

// Contenders fills rows in which several columns compete for the largest and the smallest
// value: equal ones, zeros of either sign, infinities and NaNs, mostly two in a row, at
// random or where loops begin.
func Contenders(g *gen.Generator, a num.Array) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	minusZero := float32(math.Copysign(0, -1))
	column := func() int {
		for range 8 {
			if c := contenderColumns[g.Below(len(contenderColumns))]; c < a.Cols {
				return c
			}
		}
		return [...]int{g.Below(a.Cols), a.Cols - 1, max(a.Cols-2, 0)}[g.Below(3)]
	}
	pairs := [...][2]float32{
		{2, 2}, {2, 2}, {-2, -2}, {-2, -2}, {2, -2}, {nan, nan}, {nan, nan}, {nan, inf}, {nan, -inf},
		{inf, inf}, {-inf, -inf}, {inf, -inf}, {2, 0x1.ffp0}, {minusZero, 0}, {0, minusZero},
	}
	for r := range a.Rows {
		base := func() float32 { return g.Uniform(-1, 1) }
		switch g.Below(8) {
		case 0: // every column contends
			v := [...]float32{1, 0, minusZero, inf, -inf, nan}[g.Below(6)]
			base = func() float32 { return v }
		case 1: // many do
			base = func() float32 { return float32(g.Below(2)) }
		case 2, 3: // zeros are the largest
			base = func() float32 { return -g.Uniform(1, 2) / 2 }
		case 4, 5: // zeros are the smallest
			base = func() float32 { return g.Uniform(1, 2) / 2 }
		}
		for c := range a.Cols {
			a.Set(r, c, base())
		}
		pair := pairs[g.Below(len(pairs))]
		a.Set(r, column(), pair[0])
		a.Set(r, column(), pair[1])
		if g.Below(3) == 0 {
			a.Set(r, column(), pair[0])
		}
	}
}
