package num

import (
	"encoding/binary"
	"math"
)

// Array is a matrix of stored values in host memory: Rows rows of Cols columns,
// little-endian, with Stride elements from one row to the next. Packages reference
// and truth read and write Arrays; they know no tensors and no devices.
//
// A value per column is an Array of one row; a value per row is an Array of one
// column. An Array with batch axes is a stack of matrices of equal size, whose rows
// are counted through: Rows is the number of rows of all matrices together.
type Array struct {
	DType      DType
	Rows, Cols int
	Stride     int // elements from one row of a matrix to the next; at least Cols
	Data       []byte
	Batch      Batch
}

// NewArray returns a zeroed contiguous array.
func NewArray(d DType, rows, cols int) Array {
	return Array{DType: d, Rows: rows, Cols: cols, Stride: cols, Data: make([]byte, rows*cols*d.Size())}
}

// ArrayOf returns a contiguous array of the values, each rounded once to d.
func ArrayOf(d DType, rows, cols int, values ...float32) Array {
	a := NewArray(d, rows, cols)
	for i, v := range values {
		a.Set(i/cols, i%cols, v)
	}
	return a
}

// IndexArray returns a contiguous array of int32 values, one per row.
func IndexArray(values ...int32) Array {
	a := NewArray(I32, len(values), 1)
	for i, v := range values {
		a.SetBits(i, 0, uint32(v))
	}
	return a
}

// Matrices returns the number of matrices: 1 without batch axes.
func (a *Array) Matrices() int { return a.Batch.Len() }

// Matrix returns matrix i of a stack, in the same memory. Matrices are counted with the
// last batch axis fastest.
func (a *Array) Matrix(i int) Array {
	m := *a
	m.Rows, m.Batch = a.Rows/a.Matrices(), Batch{}
	m.Data = a.Data[a.Batch.Offset(i)*a.DType.Size():]
	return m
}

// RowIn returns the number of row r within its matrix.
func (a *Array) RowIn(r int) int {
	if a.Batch.Count == 0 {
		return r
	}
	return r % (a.Rows / a.Matrices())
}

// Index returns the position of an element, counted in elements from the first.
func (a *Array) Index(r, c int) int {
	if a.Batch.Count == 0 {
		return r*a.Stride + c
	}
	return a.batchIndex(r, c)
}

// batchIndex is Index in a stack of matrices: apart, so that Index is compiled in line.
func (a *Array) batchIndex(r, c int) int {
	if a.isOneMatrix() {
		return r*a.Stride + c
	}
	rows := a.Rows / a.Matrices()
	return a.Batch.Offset(r/rows) + r%rows*a.Stride + c
}

// isOneMatrix reports whether the rows of each matrix follow those of the one before, as most do: then
// no element's place needs a division.
func (a *Array) isOneMatrix() bool {
	n := a.Batch.Count - 1
	stride := a.Batch.Axes[n].Stride
	for k := n; k >= 0; k-- { // each axis goes over what is inside it
		x := &a.Batch.Axes[k]
		if x.Stride != stride {
			return false
		}
		stride *= x.Size
	}
	return stride == a.Rows*a.Stride
}

// AsRow returns a as one row in the same memory, if its rows follow each other without gaps.
func (a *Array) AsRow() (row Array, ok bool) {
	if a.Batch.Count > 0 || a.Stride != a.Cols && a.Rows != 1 {
		return Array{}, false
	}
	n := a.Rows * a.Cols
	return Array{DType: a.DType, Rows: 1, Cols: n, Stride: n, Data: a.Data}, true
}

// Row returns the stored elements of row r.
func (a *Array) Row(r int) []byte {
	size := a.DType.Size()
	return a.Data[a.Index(r, 0)*size:][:a.Cols*size]
}

// Span returns the number of elements from the first to the end of the last one, gaps
// included.
func (a *Array) Span() int {
	if a.Rows == 0 {
		return 0
	}
	last := (a.Rows/a.Matrices() - 1) * a.Stride
	for _, x := range a.Batch.Axes[:a.Batch.Count] {
		last += (x.Size - 1) * x.Stride
	}
	return last + a.Cols
}

// Bits64 returns the bit pattern of one element of any format.
func (a *Array) Bits64(r, c int) uint64 {
	if a.DType.Size() == 8 {
		return binary.LittleEndian.Uint64(a.Data[8*a.Index(r, c):])
	}
	return uint64(a.Bits(r, c))
}

// SetBits64 sets the bit pattern of one element of any format.
func (a *Array) SetBits64(r, c int, bits uint64) {
	if a.DType.Size() == 8 {
		binary.LittleEndian.PutUint64(a.Data[8*a.Index(r, c):], bits)
		return
	}
	a.SetBits(r, c, uint32(bits))
}

// Bits returns the bit pattern of one element, which has at most 32 bits: all formats but
// I64 do.
func (a *Array) Bits(r, c int) uint32 {
	i := a.Index(r, c)
	switch a.DType.Size() {
	case 1:
		return uint32(a.Data[i])
	case 2:
		return uint32(binary.LittleEndian.Uint16(a.Data[2*i:]))
	case 8:
		panic("num: Bits of " + a.DType.String())
	}
	return binary.LittleEndian.Uint32(a.Data[4*i:])
}

// SetBits sets the bit pattern of one element, which has at most 32 bits.
func (a *Array) SetBits(r, c int, bits uint32) {
	i := a.Index(r, c)
	switch a.DType.Size() {
	case 1:
		a.Data[i] = uint8(bits)
	case 2:
		binary.LittleEndian.PutUint16(a.Data[2*i:], uint16(bits))
	case 8:
		panic("num: SetBits of " + a.DType.String())
	default:
		binary.LittleEndian.PutUint32(a.Data[4*i:], bits)
	}
}

// At returns the value of one element: exactly if it is real, and the nearest binary32 of
// an integer.
func (a *Array) At(r, c int) float32 {
	if a.DType == F32 { // most calls
		return math.Float32frombits(binary.LittleEndian.Uint32(a.Data[4*a.Index(r, c):]))
	}
	return Value(a.DType, a.Bits64(r, c))
}

// Integer returns the value of one element of a format of integers.
func (a *Array) Integer(r, c int) int64 { return SignExtend(a.DType, a.Bits64(r, c)) }

// Int returns the value of one element of an I32 array.
func (a *Array) Int(r, c int) int32 { return int32(a.Bits(r, c)) }

// Set stores v with one rounding to nearest even; NearestInteger rounds to integers.
func (a *Array) Set(r, c int, v float32) { a.SetBits64(r, c, Stored(a.DType, v)) }

// Like returns a zeroed contiguous array of the same size, with the same batch axes.
func (a Array) Like(d DType) Array {
	b := NewArray(d, a.Rows, a.Cols)
	b.Batch = a.Batch.contiguous(a.Rows / a.Matrices() * a.Cols)
	return b
}

// Clone returns a contiguous copy with the same batch axes. What is broadcast is copied
// out.
func (a Array) Clone() Array {
	b := a.Like(a.DType)
	for r := range a.Rows {
		copy(b.Row(r), a.Row(r))
	}
	return b
}

// Pattern is a type that holds the bit patterns of stored values: those of every format in
// 64 bits, and in 32 bits those of all formats but I64.
type Pattern interface{ uint32 | uint64 }

// Value returns the value of a stored pattern of any format: Widen, for those of 64 bits
// too.
func Value(d DType, bits uint64) float32 {
	if d == I64 {
		return float32(int64(bits))
	}
	return Widen(d, uint32(bits))
}

// Widen returns the value of a stored pattern of at most 32 bits, exactly. Integers convert
// to the nearest binary32.
func Widen(d DType, bits uint32) float32 {
	switch d {
	case F16:
		return F16ToF32(uint16(bits))
	case BF16:
		return BF16ToF32(uint16(bits))
	case F32:
		return math.Float32frombits(bits)
	case E4M3:
		return E4M3ToF32(uint8(bits))
	case E5M2:
		return E5M2ToF32(uint8(bits))
	case I8, I32:
		return float32(SignExtend(d, uint64(bits)))
	}
	panic("num: Widen of " + d.String())
}

// Narrow rounds v once, to nearest even, and returns the stored pattern.
func Narrow(d DType, v float32) uint32 {
	switch d {
	case F16:
		return uint32(F32ToF16(v))
	case BF16:
		return uint32(F32ToBF16(v))
	case F32:
		return math.Float32bits(v)
	case E4M3, E5M2:
		return d.format().round(float64(v))
	}
	panic("num: Narrow to " + d.String())
}

// NarrowF64 rounds v once, to nearest even, and returns the stored pattern: it
// never goes through binary32.
func NarrowF64(d DType, v float64) uint32 {
	switch d {
	case F16:
		return uint32(F64ToF16(v))
	case BF16:
		return uint32(F64ToBF16(v))
	case F32:
		return math.Float32bits(float32(v))
	case E4M3, E5M2:
		return d.format().round(v)
	}
	panic("num: NarrowF64 to " + d.String())
}
