package cpu

import (
	"unsafe"

	"tokitai/num"
)

// view returns n stored elements of a row, without copying.
func view[T uint16 | int32 | float32](a *num.Array, row, col, n int) []T {
	var t T
	size := int(unsafe.Sizeof(t))
	bytes := a.Data[(row*a.Stride+col)*size:][:n*size]
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(bytes))), n)
}

// Load reads elements of a row from a column on, widened to binary32; int32 keep their
// patterns. The array has no batch axes.
func Load(d []float32, a *num.Array, row, col int) {
	switch a.DType {
	case num.F16:
		num.F16sToF32s(d, view[uint16](a, row, col, len(d)))
	case num.BF16:
		num.BF16sToF32s(d, view[uint16](a, row, col, len(d)))
	case num.E4M3:
		num.E4M3sToF32s(d, a.Data[row*a.Stride+col:][:len(d)])
	case num.E5M2:
		num.E5M2sToF32s(d, a.Data[row*a.Stride+col:][:len(d)])
	default:
		copy(d, view[float32](a, row, col, len(d)))
	}
}

// LoadPatterns reads the patterns of elements, those of 16 bits zero-extended. The array has no
// batch axes.
func LoadPatterns(d []float32, a *num.Array, row, col int) {
	if a.DType.Size() == 4 {
		copy(d, view[float32](a, row, col, len(d)))
		return
	}
	x := ints(d)
	for i, p := range view[uint16](a, row, col, len(d)) {
		x[i] = int32(p)
	}
}

// Store writes elements of a row from a column on, each rounded once.
func Store(a *num.Array, row, col int, x []float32) {
	switch a.DType {
	case num.F16:
		num.F32sToF16s(view[uint16](a, row, col, len(x)), x)
	case num.BF16:
		num.F32sToBF16s(view[uint16](a, row, col, len(x)), x)
	case num.E4M3, num.E5M2:
		to := a.Data[row*a.Stride+col:][:len(x)]
		for i, v := range x {
			to[i] = uint8(num.Narrow(a.DType, v))
		}
	default:
		copy(view[float32](a, row, col, len(x)), x)
	}
}

// grow returns a slice of n elements, s itself if it is large enough.
func grow(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n)
	}
	return s[:n]
}

// room makes a an array of a size, in its own memory if that is large enough. What it holds is unspecified.
func room(a *num.Array, d num.DType, rows, cols int) {
	n := rows * cols * d.Size()
	if cap(a.Data) < n {
		*a = num.NewArray(d, rows, cols)
		return
	}
	*a = num.Array{DType: d, Rows: rows, Cols: cols, Stride: cols, Data: a.Data[:n]}
}

// growAll returns s with at least n slices.
func growAll(s [][]float32, n int) [][]float32 {
	for len(s) < n {
		s = append(s, nil)
	}
	return s
}
