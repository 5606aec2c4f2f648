package cpu

import "tokitai/num"

// Packer brings matrices of a storage format into binary32.
type Packer interface {
	// Pack copies a matrix, or its transpose. It may write up to the end of the last 16 columns of each
	// row and of the last 16 rows, in ascending order of rows, and a line of the cache beyond.
	Pack(to, from *num.Array, isTransposed bool)
}

// plainPacker is a Packer in plain Go.
type plainPacker struct{}

func (plainPacker) Pack(to, from *num.Array, isTransposed bool) {
	line := make([]float32, from.Cols)
	for r := range from.Rows {
		Load(line, from, r, 0)
		if !isTransposed {
			copy(view[float32](to, r, 0, from.Cols), line)
			continue
		}
		for c, x := range line {
			view[float32](to, c, r, 1)[0] = x
		}
	}
}

// packedRoom makes a a matrix of binary32 of a size, for a Packer to write to.
func packedRoom(a *num.Array, rows, cols int) {
	const unit = 16
	down, across := (rows+unit-1)/unit*unit, (cols+unit-1)/unit*unit
	room(a, num.F32, down+1, across)
	*a = num.Array{DType: num.F32, Rows: rows, Cols: cols, Stride: across, Data: a.Data}
}
