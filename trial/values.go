package trial

import "tokitai/num"

// Fill stores a value in every element, row by row, each with one rounding.
func Fill(a num.Array, value func(r, c int) float32) {
	FillBits(a, func(r, c int) uint32 { return num.Narrow(a.DType, value(r, c)) })
}

// FillBits stores a pattern in every element, row by row.
func FillBits(a num.Array, bits func(r, c int) uint32) {
	for r := range a.Rows {
		for c := range a.Cols {
			a.SetBits(r, c, bits(r, c))
		}
	}
}

// Copy copies the elements of an array to another of the same format and size.
func Copy(to, from num.Array) {
	for r := range from.Rows {
		copy(rowBytes(to, r), rowBytes(from, r))
	}
}
