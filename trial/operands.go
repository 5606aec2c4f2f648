package trial

import (
	"bytes"
	"slices"

	"tokitai/def"
	"tokitai/num"
)

// Operands are the operands of one call of a definition in host memory.
type Operands struct {
	Definition *def.Definition

	blocks []*block // by operand; an output in the place of an input has the input's
	places []int    // by operand: the one in whose memory it is, mostly itself
}

func (x *Operands) add(b *block) {
	x.places = append(x.places, len(x.blocks))
	x.blocks = append(x.blocks, b)
}

// New lays out operands of the given formats, one for each operand, and sizes, by the
// letters of the definition. All of their memory holds the guard byte. A nil layout puts
// them right behind their guards, without gaps.
func New(d *def.Definition, dtypes []num.DType, sizes map[string]int, layout func(operand int) Layout) *Operands {
	x := &Operands{Definition: d}
	for i := range d.Operands {
		x.Add(dtypes[i], sizes, layoutOf(layout, i))
	}
	return x
}

// Add lays out the next operand of a definition, and returns it, for those who draw layouts
// and values in turn.
func (x *Operands) Add(dtype num.DType, sizes map[string]int, l Layout) num.Array {
	o := &x.Definition.Operands[len(x.blocks)]
	rows, cols := o.Matrix(sizes)
	b := newBlock(o, dtype, rows, cols, batchOf(o, sizes), l).guarded()
	x.add(b)
	return b.array
}

func layoutOf(layout func(int) Layout, operand int) Layout {
	if layout == nil {
		return Layout{}
	}
	return layout(operand)
}

// CopyOf lays out copies of the given arrays, which are in the order of the definition.
func CopyOf(d *def.Definition, arrays []num.Array, layout func(operand int) Layout) *Operands {
	x := &Operands{Definition: d}
	for i, a := range arrays {
		var batch []int
		for _, x := range a.Batch.Axes[:a.Batch.Count] {
			batch = append(batch, x.Size)
		}
		b := newBlock(&d.Operands[i], a.DType, a.Rows, a.Cols, batch, layoutOf(layout, i)).guarded()
		Copy(b.array, a)
		x.add(b)
	}
	return x
}

// Wrap returns operands that are the given arrays themselves, without guards: a caller's
// own data.
func Wrap(d *def.Definition, arrays []num.Array) *Operands {
	x := &Operands{Definition: d}
	for _, a := range arrays {
		step := a.Stride
		if a.Batch.Count > 0 {
			step = a.Cols // what is between the rows of a stack may be other rows
		}
		x.add(&block{array: a, memory: a.Data[:spanBytes(a)], step: step, length: a.Span()})
	}
	return x
}

// Array returns operand i: a view of its memory.
func (x *Operands) Array(i int) num.Array { return x.blocks[i].array }

// Arrays returns all operands in the order of the definition: views of their memory.
func (x *Operands) Arrays() []num.Array {
	arrays := make([]num.Array, len(x.blocks))
	for i, b := range x.blocks {
		arrays[i] = b.array
	}
	return arrays
}

// Copies returns copies of all operands, each in memory of its own and without gaps, for
// whoever computes the answer.
func (x *Operands) Copies() []num.Array {
	arrays := x.Arrays()
	for i, a := range arrays {
		arrays[i] = a.Clone()
	}
	return arrays
}

// Memory returns the memory of operand i with its guards, and where in it the first
// element is, in bytes.
func (x *Operands) Memory(i int) (memory []byte, offset int) {
	return x.blocks[i].memory, x.blocks[i].start
}

// Clone returns a copy with the same layout. Outputs that are in the place of inputs
// stay there.
func (x *Operands) Clone() *Operands {
	y := &Operands{Definition: x.Definition, blocks: make([]*block, len(x.blocks)), places: slices.Clone(x.places)}
	for i, b := range x.blocks {
		if x.places[i] == i {
			y.blocks[i] = b.in(bytes.Clone(b.memory))
		}
	}
	y.share(x.blocks)
	return y
}

// share gives outputs that are in the place of inputs their memory, and inputs that share
// memory theirs, whose layouts are given.
func (x *Operands) share(layouts []*block) {
	for i, p := range x.places {
		if p != i {
			x.blocks[i] = layouts[i].in(x.blocks[p].memory)
		}
	}
}

// Replace puts the output out in the place of the input in: both are one memory, which
// holds the input. It reports whether the definition and the formats allow that, and
// whether the input's place is still free.
func (x *Operands) Replace(out, in int) bool {
	d := x.Definition
	if !d.MayReplace(&d.Operands[out], &d.Operands[in]) || x.Array(out).DType != x.Array(in).DType || x.places[out] != out || x.places[in] != in || x.isReplaced(in) {
		return false
	}
	x.places[out], x.blocks[out] = in, x.blocks[in]
	return true
}

// isReplaced reports whether an output is in the place of the input i.
func (x *Operands) isReplaced(i int) bool {
	for out, in := range x.places {
		if out != i && in == i && x.Definition.Operands[out].IsOut {
			return true
		}
	}
	return false
}

// isPure reports whether operand i is only written, in memory of its own.
func (x *Operands) isPure(i int) bool {
	o := &x.Definition.Operands[i]
	return o.IsOut && !o.IsIn && x.places[i] == i
}

// Poison fills the outputs that the kernel does not read with a poison, 0 or 1. A kernel
// that adds to an output, or leaves an element as it was, gives NaN.
func (x *Operands) Poison(which int) {
	for i, b := range x.blocks {
		if x.isPure(i) {
			bits := poisons[b.array.DType][which]
			FillBits(b.array, func(int, int) uint64 { return bits })
		}
	}
}

// Place is one element of an operand.
type Place struct{ Operand, Row, Col int }

// MostUnwritten is how many places Unwritten lists: enough to say that elements were left
// out.
const MostUnwritten = 1 << 16

// Unwritten lists elements of outputs that hold the very pattern they held before the
// call, of all outputs that are only written and not omitted, by name, or among the given
// places. One call shows suspects: a kernel may write that pattern. What two calls with
// different contents before (Poison) both leave was not written.
func (x *Operands) Unwritten(before *Operands, omitted []string, among []Place) []Place {
	var list []Place
	hold := func(p Place) {
		now, then := x.Array(p.Operand), before.Array(p.Operand)
		if len(list) < MostUnwritten && now.Bits64(p.Row, p.Col) == then.Bits64(p.Row, p.Col) {
			list = append(list, p)
		}
	}
	if among != nil {
		for _, p := range among {
			hold(p)
		}
		return list
	}
	for i, b := range x.blocks {
		if !x.isPure(i) || slices.Contains(omitted, x.Definition.Operands[i].Name) {
			continue
		}
		size := b.array.DType.Size()
		for r := range b.array.Rows {
			now, then := b.array.Row(r), before.blocks[i].array.Row(r)
			for c := 0; c < len(now); c += size {
				if bytes.Equal(now[c:c+size], then[c:c+size]) {
					hold(Place{i, r, c / size})
				}
			}
		}
	}
	return list
}

// Difference returns the first output element that differs from the answer, which has its
// operands in the order of the definition; nil if there is none.
func (x *Operands) Difference(answer []num.Array) *Difference {
	d := x.Definition
	for i := range d.Operands {
		if !d.Operands[i].IsOut {
			continue
		}
		if f := RuleOf(d).Difference(d.Operands[i].Name, x.Array(i), answer[i]); f != nil {
			return f
		}
	}
	return nil
}

// Fault says what a call has done wrong: its breach, or else the first output that differs
// from the answer. want is as it was before the call, but for its outputs, which are the
// answer. Fault returns "" if nothing is wrong.
func (x *Operands) Fault(want *Operands) string {
	if b := x.Breach(want); b != nil {
		return b.String()
	}
	if d := x.Difference(want.Arrays()); d != nil {
		return d.String()
	}
	return ""
}

// DTypes returns the formats of the operands.
func (x *Operands) DTypes() []num.DType {
	var dtypes []num.DType
	for _, b := range x.blocks {
		dtypes = append(dtypes, b.array.DType)
	}
	return dtypes
}

// AxisOf returns how an operand's k-th size, which does not count columns, is found in a
// row: row/per mod n is the index.
func AxisOf(o *def.Operand, a num.Array, k int) (per, n int) {
	batch := len(o.BatchDims())
	rows := a.Rows / a.Matrices()
	if k >= batch {
		return 1, rows
	}
	per = rows
	for j := k + 1; j < batch; j++ {
		per *= a.Batch.Axes[j].Size
	}
	return per, a.Batch.Axes[k].Size
}
