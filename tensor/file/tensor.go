package file

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"tokitai/device"
	"tokitai/num"
)

// Tensor is a tensor in a file.
type Tensor struct {
	DType num.DType // after reading: I32 for 64-bit indices
	Shape []int

	set    *Set
	name   string
	isWide bool // the file has 64-bit integers
}

// String returns text such as `model.safetensors: tensor "x"`.
func (t *Tensor) String() string { return t.set.path + ": " + t.subject() }

func (t *Tensor) subject() string {
	if t.set.IsArray() {
		return "the array"
	}
	return fmt.Sprintf("tensor %q", t.name)
}

func (t *Tensor) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", t, fmt.Errorf(format, args...))
}

// piece is the number of bytes read between two checks of the context.
const piece = 8 << 20

// Read reads the data into memory, which must have its size. It narrows 64-bit indices to
// 32 bits; if one does not fit, the error is a device.ArgumentError. If ctx ends, Read
// returns its error.
func (t *Tensor) Read(ctx context.Context, memory []byte) error {
	data, err := t.set.source.Data(t.name)
	if err != nil {
		return err
	}
	fill, want := t.fill, int64(len(memory))
	if t.isWide {
		fill, want = t.narrow, 2*want
	}
	if data.Size() != want {
		return t.errorf("got memory for %d bytes of data, want %d", want, data.Size())
	}
	for at := 0; at < len(memory); at += piece {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := memory[at:min(at+piece, len(memory))]
		if err := fill(part, data, at); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tensor) fill(memory []byte, data io.Reader, _ int) error {
	if _, err := io.ReadFull(data, memory); err != nil {
		return t.errorf("reading the data: %w", err)
	}
	return nil
}

// narrow fills memory, at byte offset at of the whole, with narrowed indices.
func (t *Tensor) narrow(memory []byte, data io.Reader, at int) error {
	wide := make([]byte, 2*len(memory))
	if err := t.fill(wide, data, at); err != nil {
		return err
	}
	for i := range len(memory) / 4 {
		index := int64(binary.LittleEndian.Uint64(wide[8*i:]))
		if int64(int32(index)) != index {
			return &device.ArgumentError{
				Op: t.set.path, Operand: t.subject(), Got: fmt.Sprintf("has %d at %v", index, position(at/4+i, t.Shape)),
				Want: fmt.Sprintf("indices from %d to %d", math.MinInt32, math.MaxInt32),
			}
		}
		binary.LittleEndian.PutUint32(memory[4*i:], uint32(index))
	}
	return nil
}

// position returns the coordinates of the i-th element in row-major order.
func position(i int, shape []int) []int {
	at := make([]int, len(shape))
	for k := len(shape) - 1; k >= 0; k-- {
		at[k], i = i%shape[k], i/shape[k]
	}
	return at
}
