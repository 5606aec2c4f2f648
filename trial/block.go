package trial

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"

	"tokitai/def"
	"tokitai/num"
)

// GuardBytes is how much memory lies before and after every operand. No alignment that a
// kernel looks for is larger, so that Layout.Offset alone decides how an operand is
// aligned.
const GuardBytes = 256

// GuardByte fills guards, gaps and outputs that nothing else has filled. Read as an
// element it is a small negative number in every floating-point format: unlike a NaN it
// cannot pass for an answer that is NaN.
const GuardByte = 0xa5

// Layout is where an operand lies in its memory.
type Layout struct {
	Offset    int // elements between the guard and the first element
	Gap       int // elements between one row of a matrix and the next
	ColumnGap int // elements between the values of an operand that has one for each row
}

// poisons are patterns that no kernel is expected to write: NaNs with an unusual payload,
// and int32 that are no index. There are two of each, because a kernel may write one of
// them by chance.
var poisons = map[num.DType][2]uint32{
	num.F16:  {0x7e5a, 0xff2d},
	num.BF16: {0x7fda, 0xffad},
	num.F32:  {0x7fc5a5a5, 0xffda5a5a},
	num.I32:  {0x9e5a5a5a, 0xe1a5a5a5},
}

// Poisons returns the two patterns of a format with which Operands.Poison fills outputs.
func Poisons(d num.DType) [2]uint32 { return poisons[d] }

// block is the memory of one operand: a guard, the rows with a gap after each, a guard.
// Without memory it is a layout.
type block struct {
	array  num.Array // the operand, a view of memory
	memory []byte
	start  int // of the first element in memory, in bytes
}

func newBlock(o *def.Operand, dtype num.DType, rows, cols int, l Layout) *block {
	stride := cols
	switch {
	case rows == 1:
	case len(o.Dims) > 1:
		stride += l.Gap
	default:
		stride += l.ColumnGap
	}
	return &block{array: num.Array{DType: dtype, Rows: rows, Cols: cols, Stride: stride}, start: GuardBytes + l.Offset*dtype.Size()}
}

// in returns a block of the same layout in the given memory.
func (b *block) in(memory []byte) *block {
	c := &block{array: b.array, memory: memory, start: b.start}
	end := c.start + spanBytes(b.array)
	c.array.Data = memory[c.start:end:end]
	return c
}

// guarded returns a block of the same layout in new memory.
func (b *block) guarded() *block { return b.in(bytes.Repeat([]byte{GuardByte}, b.end()+GuardBytes)) }

// bytes returns how much memory the block takes, or an error if that cannot be counted.
func (b *block) bytes() (int64, error) {
	a := b.array
	high, low := bits.Mul64(uint64(a.Rows), uint64(a.Stride))
	if limit := uint64(math.MaxInt-b.start-GuardBytes) / uint64(a.DType.Size()); high != 0 || low > limit {
		return 0, fmt.Errorf("has %d rows, %d elements apart, want at most %d elements of %v", a.Rows, a.Stride, limit, a.DType)
	}
	return int64(b.end()) + GuardBytes, nil
}

// end returns where the gap after the last row ends in memory, in bytes.
func (b *block) end() int { return b.start + b.array.Rows*b.array.Stride*b.array.DType.Size() }

// gap returns the memory between row r and the next. What has no guards ends with the
// last element.
func (b *block) gap(r int) []byte {
	size := b.array.DType.Size()
	from := b.start + (r*b.array.Stride+b.array.Cols)*size
	to := b.start + (r+1)*b.array.Stride*size
	return b.memory[min(from, len(b.memory)):min(to, len(b.memory))]
}

// disturbed says which of an operand's guards and gaps no longer hold the guard byte; it
// returns "" if all do.
func (b *block) disturbed(name string) string {
	isIntact := func(part []byte) bool { return bytes.Count(part, []byte{GuardByte}) == len(part) }
	if !isIntact(b.memory[:b.start]) || !isIntact(b.memory[b.end():]) {
		return outside + name
	}
	for r := range b.array.Rows {
		if !isIntact(b.gap(r)) {
			return between + name
		}
	}
	return ""
}

// What a call may not do, before the name of an operand.
const (
	outside = "it writes outside "
	between = "it writes between the rows of "
	toInput = "it writes to its input "
)

// isLike reports whether two blocks have the same layout.
func (b *block) isLike(c *block) bool {
	x, y := b.array, c.array
	return x.DType == y.DType && x.Rows == y.Rows && x.Cols == y.Cols && x.Stride == y.Stride && b.start == c.start && len(b.memory) == len(c.memory)
}

// spanBytes returns the number of bytes from an array's first element to the end of its
// last.
func spanBytes(a num.Array) int { return ((a.Rows-1)*a.Stride + a.Cols) * a.DType.Size() }

// rowBytes returns the elements of one row as they are stored.
func rowBytes(a num.Array, r int) []byte {
	size := a.DType.Size()
	return a.Data[r*a.Stride*size:][:a.Cols*size]
}
