package trial

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

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

	// Order is the order in memory, outermost first, of an operand's batch axes, by number,
	// and of its rows, which have the number after the last axis. Nil stands for that of the
	// operand: matrix after matrix.
	Order []int

	// IsRepeated says of each batch axis of an input whether all its indices are the same
	// memory; nil for none.
	IsRepeated []bool

	Guards Guards // what lies around the operand
	Key    uint64 // of what is drawn there

	// Far is how far apart the rows of a matrix lie on a device: the last one begins at least
	// 2^Far elements behind the first. 0 stands for no farther than the gap says.
	Far int
}

// poisons are patterns that no kernel is expected to write: NaNs with an unusual payload,
// and integers that are no index. There are two of each, because a kernel may write one of
// them by chance.
var poisons = map[num.DType][2]uint64{
	num.F16:  {0x7e5a, 0xff2d},
	num.BF16: {0x7fda, 0xffad},
	num.F32:  {0x7fc5a5a5, 0xffda5a5a},
	num.E4M3: {0x7f, 0xff}, // which has no others
	num.E5M2: {0x7f, 0xfd},
	num.I32:  {0x9e5a5a5a, 0xe1a5a5a5},
	num.I64:  {0x9e5a5a5a_a5c35a3c, 0xe1a5a5a5_5a3ca5c3},
}

// Poisons returns the two patterns of a format with which Operands.Poison fills outputs.
func Poisons(d num.DType) [2]uint64 { return poisons[d] }

// block is the memory of one operand: a guard, the rows with a gap after each, a guard.
// Without memory it is a layout.
type block struct {
	array  num.Array // the operand, a view of memory
	memory []byte
	start  int   // of the first element in memory, in bytes
	step   int   // elements of a row with its gap
	length int   // elements of all rows in memory with their gaps
	order  []int // of a stack, as in Layout
	guards Guards
	key    uint64
	far    *block // the layout on a device, if it is another
}

// nan is the NaN that formats round to theirs.
var nan = float32(math.NaN())

// newBlock lays out an operand of rows×cols; those of a stack are in matrices, whose
// number along each batch axis is given.
func newBlock(o *def.Operand, dtype num.DType, rows, cols int, batch []int, l Layout) *block {
	far := spread(o, dtype, rows, cols, batch, &l)
	step := cols
	switch {
	case rows == 1:
	case len(o.Dims) > 1:
		step += l.Gap
	default:
		step += l.ColumnGap
	}
	b := &block{array: num.Array{DType: dtype, Rows: rows, Cols: cols, Stride: step}, start: GuardBytes + l.Offset*dtype.Size(), step: step, length: rows * step, guards: l.Guards, key: l.Key, far: far}
	if len(batch) > 0 {
		b.stack(batch, l)
	}
	return b
}

// stack gives the operand its batch axes.
func (b *block) stack(batch []int, l Layout) {
	sizes := append(slices.Clone(batch), b.array.Rows)
	for _, n := range batch {
		sizes[len(batch)] /= n
	}
	if b.order = l.Order; b.order == nil {
		for i := range sizes {
			b.order = append(b.order, i)
		}
	}
	strides, next := make([]int, len(sizes)), b.step
	for _, i := range slices.Backward(b.order) {
		if i < len(l.IsRepeated) && l.IsRepeated[i] {
			continue
		}
		strides[i] = next
		next *= sizes[i]
	}
	b.array.Stride, b.length = strides[len(batch)], next
	for i, n := range batch {
		b.array.Batch.Append(n, strides[i])
	}
}

// batchOf returns the sizes of an operand's batch axes.
func batchOf(o *def.Operand, sizes map[string]int) []int {
	var batch []int
	for _, letter := range o.BatchDims() {
		batch = append(batch, sizes[letter])
	}
	return batch
}

// in returns a block of the same layout in the given memory; nil for none.
func (b *block) in(memory []byte) *block {
	c := *b
	if c.memory, c.array.Data = memory, nil; memory != nil {
		end := c.start + spanBytes(b.array)
		c.array.Data = memory[c.start:end:end]
	}
	return &c
}

// guarded returns a block of the same layout in new memory, which holds what guards hold.
func (b *block) guarded() *block {
	memory := make([]byte, b.end()+GuardBytes)
	b.guards.fill(memory, b.array.DType, b.key)
	return b.in(memory)
}

// bytes returns how much memory the block takes, or an error if that cannot be counted.
func (b *block) bytes() (int64, error) {
	a := b.array
	high, low := bits.Mul64(uint64(a.Rows), uint64(b.step))
	if limit := uint64(math.MaxInt-b.start-GuardBytes) / uint64(a.DType.Size()); high != 0 || low > limit {
		return 0, fmt.Errorf("has %d rows, %d elements apart, want at most %d elements of %v", a.Rows, b.step, limit, a.DType)
	}
	return int64(b.end()) + GuardBytes, nil
}

// end returns where the gap after the last row ends in memory, in bytes.
func (b *block) end() int { return b.start + b.length*b.array.DType.Size() }

// isLike reports whether two blocks have the same layout.
func (b *block) isLike(c *block) bool {
	x, y := b.array, c.array
	return x.DType == y.DType && x.Rows == y.Rows && x.Cols == y.Cols && x.Stride == y.Stride && x.Batch == y.Batch && b.step == c.step && b.start == c.start && len(b.memory) == len(c.memory)
}

// spanBytes returns the number of bytes from an array's first element to the end of its
// last.
func spanBytes(a num.Array) int { return a.Span() * a.DType.Size() }
