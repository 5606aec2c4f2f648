package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"

	"tokitai/def"
	"tokitai/device"
	"tokitai/num"
	"tokitai/tensor"
)

// Every operand lies in a block of its own: guard words, then rows with gaps between
// them, then guard words. A kernel may change its outputs and nothing else.
const (
	guardElements = 32
	guardByte     = 0xa5
)

// poisons fill outputs before a run: NaNs that no arithmetic gives, and int32 that are
// no column. What still holds one afterwards was not written. There are two, because a
// kernel may write the first by chance.
var poisons = map[num.DType][2]uint32{
	num.F16:  {0x7e5a, 0xff2d},
	num.BF16: {0x7fda, 0xffad},
	num.F32:  {0x7fc5a5a5, 0xffda5a5a},
	num.I32:  {0x9e5a5a5a, 0xe1a5a5a5},
}

// block is an operand's memory on the host: what the kernel is given and what it is
// compared with.
type block struct {
	image  []byte    // with guards and gaps, as uploaded
	array  num.Array // the operand, in image
	offset int       // of the operand, in elements
	shape  []int
}

func newBlock(o *def.Operand, dtype num.DType, sizes map[string]int, gap, offset int) *block {
	rows, cols := o.Matrix(sizes)
	stride := cols
	if len(o.Dims) == 2 && rows > 1 {
		stride += gap
	}
	b := &block{offset: guardElements + offset}
	elements := b.offset + rows*stride + guardElements
	b.image = bytes.Repeat([]byte{guardByte}, elements*dtype.Size())
	b.array = num.Array{DType: dtype, Rows: rows, Cols: cols, Stride: stride, Data: b.image[b.offset*dtype.Size():]}
	switch len(o.Dims) {
	case 2:
		b.shape = []int{rows, cols}
	case 1:
		b.shape = []int{max(rows, cols)}
	default:
		b.shape = []int{1}
	}
	return b
}

// poison fills a block's elements.
func (b *block) poison(which int) {
	bits := poisons[b.array.DType][which]
	for r := range b.array.Rows {
		for c := range b.array.Cols {
			b.array.SetBits(r, c, bits)
		}
	}
}

// upload places the block on a device, and returns the operand as a tensor of it.
func (b *block) upload(dev device.Device) (whole, operand *tensor.Tensor, err error) {
	a := b.array
	whole, err = tensor.FromBytes(dev, a.DType, b.image, 1, len(b.image)/a.DType.Size())
	if err != nil {
		return nil, nil, err
	}
	operand, err = whole.Slice(0, 1, b.offset, b.offset+a.Rows*a.Stride)
	if err == nil && a.Stride != a.Cols { // rows with gaps are columns of something wider
		if operand, err = operand.Reshape(a.Rows, a.Stride); err == nil {
			operand, err = operand.Slice(0, a.Rows, 0, a.Cols)
		}
	}
	if err == nil {
		operand, err = operand.Reshape(b.shape...)
	}
	if err != nil {
		whole.Close()
		return nil, nil, err
	}
	return whole, operand, nil
}

// hashArray adds an operand to a hash: its name and a zero byte, its format and a zero
// byte, rows and columns as 64-bit integers, then the elements row by row, everything
// little-endian; if canonical, every NaN is one NaN.
func hashArray(h hash.Hash, name string, a num.Array, canonical bool) {
	h.Write([]byte(name))
	h.Write([]byte{0})
	h.Write([]byte(a.DType.String()))
	h.Write([]byte{0})
	var head [16]byte
	binary.LittleEndian.PutUint64(head[:], uint64(a.Rows))
	binary.LittleEndian.PutUint64(head[8:], uint64(a.Cols))
	h.Write(head[:])
	size := a.DType.Size()
	row := make([]byte, a.Cols*size)
	for r := range a.Rows {
		copy(row, a.Data[r*a.Stride*size:])
		if canonical {
			line := num.Array{DType: a.DType, Rows: 1, Cols: a.Cols, Stride: a.Cols, Data: row}
			for c := range a.Cols {
				if bits := line.Bits(0, c); num.IsNaN(a.DType, bits) {
					line.SetBits(0, c, num.Canonical(a.DType, bits))
				}
			}
		}
		h.Write(row)
	}
}

// hashInputs hashes the inputs of a definition, then its parameters: each its name and
// a zero byte, and the binary64 value, little-endian.
func hashInputs(d *def.Definition, operands []num.Array, params []float64) string {
	h := sha256.New()
	for i := range d.Operands {
		if o := &d.Operands[i]; o.IsIn {
			hashArray(h, o.Name, operands[i], false)
		}
	}
	for i, p := range d.Params {
		h.Write([]byte(p.Name + "\x00"))
		h.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(params[i])))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// hashOutputs hashes the outputs of a definition. Every NaN counts as one, unless bits
// are copied.
func hashOutputs(d *def.Definition, operands []num.Array) string {
	h := sha256.New()
	for i := range d.Operands {
		if o := &d.Operands[i]; o.IsOut {
			hashArray(h, o.Name, operands[i], d.Kind != def.KindGather)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
