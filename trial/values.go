package trial

import (
	"math"
	"slices"

	"tokitai/def"
	"tokitai/num"
)

// Fill stores a value in every element, row by row, each with one rounding.
func Fill(a num.Array, value func(r, c int) float32) {
	FillBits(a, func(r, c int) uint64 { return num.Stored(a.DType, value(r, c)) })
}

// FillBits stores a pattern in every element, row by row.
func FillBits[P num.Pattern](a num.Array, bits func(r, c int) P) {
	if a.DType.Size() == 8 {
		for r := range a.Rows {
			for c := range a.Cols {
				a.SetBits64(r, c, uint64(bits(r, c)))
			}
		}
		return
	}
	row := make([]uint32, a.Cols)
	for r := range a.Rows {
		for c := range row {
			row[c] = uint32(bits(r, c))
		}
		a.SetPatterns(r, row)
	}
}

// FillOffsets fills the offsets of groups that divide n: 0 first and n last, with the given
// cuts between them, at most n, in ascending order.
func FillOffsets(a num.Array, n int, cut func(i int) int) {
	at := make([]int, a.Rows)
	for i := 1; i < a.Rows-1; i++ {
		at[i] = cut(i)
	}
	at[a.Rows-1] = n
	slices.Sort(at)
	FillBits(a, func(i, _ int) uint32 { return uint32(at[i]) })
}

// DivideEqually fills an operand of offsets with groups of equal size, as far as n can be divided.
func DivideEqually(a num.Array, n int) {
	FillOffsets(a, n, func(i int) int { return i * n / (a.Rows - 1) })
}

// FillIndex fills an index that holds no offsets, by draws below its limit. Where lengths say how much of
// a row is in use, and are filled already, the rest holds what must not be read.
func FillIndex(d *def.Definition, operand int, arrays []num.Array, size func(letter string) int, draw func(row, col, limit int) int) {
	a, limit := arrays[operand], d.Operands[operand].Limit(size)
	for r := range a.Rows {
		used := d.InUse(operand, arrays, size, r)
		for c := range a.Cols {
			v := draw(r, c, limit)
			if c >= used {
				v = [...]int{-1, limit, math.MaxInt32, math.MinInt32}[(r+c)%4]
			}
			a.SetBits(r, c, uint32(int32(v)))
		}
	}
}

// Copy copies the elements of an array to another of the same format and size.
func Copy(to, from num.Array) {
	for r := range from.Rows {
		copy(to.Row(r), from.Row(r))
	}
}
