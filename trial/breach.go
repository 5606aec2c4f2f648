package trial

import (
	"bytes"
	"fmt"

	"tokitai/num"
)

// Breach is memory that a call changed and that no call may change.
type Breach struct {
	Operand int    // that it belongs to
	Reason  string // such as "it writes outside y"
	Detail  string // where first, what is there now, and how many bytes changed; "" if there is nothing to add
}

// String reads it writes outside y: 4 bytes changed, first at element 3 after the last one, now
// 0x3c00 (1).
func (b *Breach) String() string {
	if b.Detail == "" {
		return b.Reason
	}
	return b.Reason + ": " + b.Detail
}

// What a call may not do, before the name of an operand.
const (
	outside = "it writes outside "
	between = "it writes between the rows of "
	toInput = "it writes to its input "
)

// Breach compares all memory outside the outputs with what it was before the call: guards,
// gaps between rows, inputs that no output has replaced. It returns nil if nothing has
// changed.
func (x *Operands) Breach(before *Operands) *Breach {
	for i, b := range x.blocks {
		if p := x.places[i]; p != i && (x.Definition.Operands[i].IsOut || x.isReplaced(p)) {
			continue // the memory of an input that it has taken
		}
		o, was := &x.Definition.Operands[i], before.blocks[i]
		if !b.isLike(was) {
			return &Breach{Operand: i, Reason: o.Name + " is not laid out as it was before the call"}
		}
		if breach := b.breach(was, i, o.Name, o.IsOut || x.isReplaced(i)); breach != nil {
			return breach
		}
	}
	return nil
}

// breach compares an operand's memory with what it was: everything, or with mayWrite all but
// its elements. It returns nil if nothing has changed.
func (b *block) breach(was *block, operand int, name string, mayWrite bool) *Breach {
	if bytes.Equal(b.memory, was.memory) {
		return nil
	}
	end := min(b.end(), len(b.memory))
	var stray changes
	stray.compare(b, was, 0, b.start)
	stray.compare(b, was, end, len(b.memory))
	if stray.bytes > 0 {
		return &Breach{operand, outside + name, stray.text(b, b.outsideAt(stray.first))}
	}
	if mayWrite && b.step == b.array.Cols {
		return nil // there are no gaps
	}
	size := b.array.DType.Size()
	var gaps, elements changes
	gapRow, elementRow := 0, 0
	seen := map[int]bool{} // of a stack, whose matrices may be one memory
	for r := range b.array.Rows {
		at := b.array.Index(r, 0)
		if b.array.Batch.Count > 0 {
			if seen[at] {
				continue
			}
			seen[at] = true
		}
		from, to := b.start+at*size, b.start+(at+b.array.Cols)*size
		if gaps.compare(b, was, min(to, end), min(from+b.step*size, end)); gaps.bytes == 0 {
			gapRow = r + 1
		}
		if mayWrite {
			continue
		}
		if elements.compare(b, was, from, to); elements.bytes == 0 {
			elementRow = r + 1
		}
	}
	switch {
	case gaps.bytes > 0 && (elements.bytes == 0 || gapRow <= elementRow):
		at := (gaps.first-b.start)/size - b.array.Index(gapRow, b.array.Cols-1)
		return &Breach{operand, between + name, gaps.text(b, fmt.Sprintf("element %d of the gap after row %d", at, gapRow))}
	case elements.bytes > 0:
		at := (elements.first-b.start)/size - b.array.Index(elementRow, 0)
		return &Breach{operand, toInput + name, elements.text(b, fmt.Sprintf("element %d of row %d", at, elementRow))}
	}
	return nil
}

// changes counts the bytes of a memory that have changed.
type changes struct {
	bytes int
	first int // of them
}

// compare adds the bytes between two places.
func (c *changes) compare(now, was *block, from, to int) {
	if from >= to || bytes.Equal(now.memory[from:to], was.memory[from:to]) {
		return
	}
	for i := from; i < to; i++ {
		if now.memory[i] == was.memory[i] {
			continue
		}
		if c.bytes++; c.bytes == 1 {
			c.first = i
		}
	}
}

// text reads 4 bytes changed, first PLACE, now 0x3c00 (1).
func (c *changes) text(b *block, place string) string {
	text := fmt.Sprintf("%d bytes changed, first at ", c.bytes)
	if c.bytes == 1 {
		text = "1 byte changed, at "
	}
	return text + place + ", now " + b.valueAt(c.first)
}

// outsideAt says how far from the operand a byte of its guards is. The first element after
// the last one in memory is element 1.
func (b *block) outsideAt(at int) string {
	size := b.array.DType.Size()
	if at < b.start {
		return fmt.Sprintf("element %d before the first one", (b.start-at+size-1)/size)
	}
	last := b.end() - (b.step-b.array.Cols)*size
	return fmt.Sprintf("element %d after the last one", (at-last)/size+1)
}

// valueAt returns the element that a byte belongs to, as text: the pattern and the value.
func (b *block) valueAt(at int) string {
	size := b.array.DType.Size()
	from := at - ((at-b.start)%size+size)%size
	if from < 0 || from+size > len(b.memory) {
		return fmt.Sprintf("0x%02x", b.memory[at])
	}
	one := num.Array{DType: b.array.DType, Rows: 1, Cols: 1, Stride: 1, Data: b.memory[from : from+size]}
	bits := one.Bits64(0, 0)
	if one.DType.IsInteger() {
		return Pattern(one.DType, bits)
	}
	return fmt.Sprintf("%s (%v)", Pattern(one.DType, bits), num.Value(one.DType, bits))
}
