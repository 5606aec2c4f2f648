package reference

import (
	"math"
	"math/bits"
	"slices"
)

// ordered returns the columns of a row in the order of its elements: larger ones first, NaN before
// every number, of equal ones the lower column. It sorts numbers of 64 bits, the place of the
// element's value above its column: comparing elements takes three times as long.
func ordered(x []float32) []int {
	keys := make([]uint64, len(x))
	for c, v := range x {
		keys[c] = uint64(place(v))<<32 | uint64(c)
	}
	slices.Sort(keys)
	columns := make([]int, len(x))
	for i, k := range keys {
		columns[i] = int(uint32(k))
	}
	return columns
}

// place returns a number that is smaller for what comes earlier, and the same for +0 and -0.
func place(x float32) uint32 {
	switch b := math.Float32bits(x); {
	case x != x:
		return 0
	case x >= 0:
		return 1<<31 - b&^(1<<31)
	default:
		return b
	}
}

func clamp(k, cols int) int { return max(0, min(k, cols-1)) }

// lastOfNucleus returns the column of the last element, in the order of x, before which there is
// less mass than the share p of all mass, but at least that of the first.
func lastOfNucleus(x, e []float32, p float32) int32 {
	var total uint64
	for _, v := range e {
		total += mass(v, 1<<30)
	}
	hi, lo := bits.Mul64(total, mass(p, 1<<31))
	limit := max(hi<<33|lo>>31, 1)
	var last int
	var before uint64
	for _, c := range ordered(x) {
		if before >= limit {
			break
		}
		last = c
		before += mass(e[c], 1<<30)
	}
	return int32(last)
}

// mass returns a share of a unit as an integer; the product is exact in binary64.
func mass(share float32, unit float64) uint64 {
	if share != share {
		return 0
	}
	return uint64(math.RoundToEven(float64(max(0, min(share, 1))) * unit))
}

// packed puts the values that are kept into slots, and fills the rest.
func packed[T any](slots []T, keep []int32, x []T, rest T) {
	n := 0
	for c, k := range keep {
		if k != 0 && n < len(slots) {
			slots[n] = x[c]
			n++
		}
	}
	for ; n < len(slots); n++ {
		slots[n] = rest
	}
}

// unpacked takes for each value that is kept the next slot.
func unpacked[T any](out []T, keep []int32, slots []T) {
	n := 0
	for c, k := range keep {
		var none T
		out[c] = none
		if k != 0 {
			if n < len(slots) {
				out[c] = slots[n]
			}
			n++
		}
	}
}
