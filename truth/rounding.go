package truth

import (
	"math"
	"math/bits"

	"tokitai/num"
)

// The model of one binary32 operation, to nearest: the computed value is
// x·(1+δ) + η with |δ| <= unit, and |η| <= tiny where the exact result may lie
// between two subnormals (a product, a quotient, an FMA); sums of binary32 numbers
// are multiples of the smallest one, so an addition that ends among the subnormals
// is exact, and roots do not end there. All this as long as nothing overflows.
const (
	unit = 0x1p-24
	tiny = 0x1p-150
)

// storageError is the same model for rounding to d and back, and the largest finite
// value: relative error, absolute error. Binary32 needs no rounding.
func storageError(d num.DType) (u, eta, limit float64) {
	if d == num.F32 {
		return 0, 0, math.MaxFloat32
	}
	return num.ULP(d, 1) / 2, num.ULP(d, 0) / 2, num.MaxFinite(d)
}

// gamma bounds the relative effect of n roundings one after the other:
// (1+unit)^n - 1 <= n·unit/(1 - n·unit) (Higham 2002, lemma 3.1); +Inf if that means
// nothing.
func gamma(n int) float64 {
	x := float64(n) * unit
	if x >= 1 {
		return math.Inf(1)
	}
	return x / (1 - x) * (1 + 0x1p-50)
}

// laneHeight is how many additions that round a summand passes, at most, in a sum of
// n terms in the given number of lanes: the first term of a lane is added to +0,
// which is exact, and the lanes in use meet in a binary tree.
func laneHeight(n, lanes int) int {
	used := min(n, lanes)
	return (n+lanes-1)/lanes - 1 + bits.Len(uint(used-1))
}

// totalHeight is the same for a sum over all elements: rows of num.FlatRow, whose
// sums form a row, and so on until one is left.
func totalHeight(n int) int {
	h := 0
	for n > 1 {
		last := n % num.FlatRow
		longest := min(n, num.FlatRow)
		level := laneHeight(longest, num.RowLanes(longest))
		if last > 0 {
			level = max(level, laneHeight(last, num.RowLanes(last)))
		}
		h += level
		n = (n + num.FlatRow - 1) / num.FlatRow
	}
	return h
}
