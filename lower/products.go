package lower

import (
	"tokitai/def"
	"tokitai/num"
)

// Products is a contraction as matrix products, one for each index of its batch axes and
// each group. They are numbered with the groups outermost and the result's last batch
// axis fastest.
type Products struct {
	Count    int // Groups × PerGroup
	Groups   int // 1 without groups
	PerGroup int

	// The sizes of one product. The one that groups divide is that of all together.
	Rows, Cols, Depth int

	Left, Right, Result Walk
}

// Walk says where an operand's matrix for a product begins.
type Walk struct {
	Count int
	Axes  [num.MaxBatchAxes]WalkAxis // the first Count of them
}

// WalkAxis is one of an operand's batch axes: product i has index i/Divisor mod Size of it.
type WalkAxis struct{ Divisor, Size, Stride int }

// Offset returns the first element of the matrix for product i, in elements.
func (w *Walk) Offset(i int) int {
	at := 0
	for k := range w.Count {
		x := &w.Axes[k]
		index := i
		if x.Divisor > 1 { // a division takes as long as small products
			index /= x.Divisor
		}
		if index >= x.Size {
			index %= x.Size
		}
		at += index * x.Stride
	}
	return at
}

// Grouping is what the groups of a contraction divide.
type Grouping uint8

const (
	Ungrouped   Grouping = iota
	GroupedRows          // rows of the left operand and of the result; each group has a right operand
	GroupedSums          // the summed index; each group has a result
)

// GroupingOf returns what the groups of a contraction divide.
func GroupingOf(d *def.Definition) Grouping {
	switch d.Groups().Of {
	case "":
		return Ungrouped
	case d.SummedOver():
		return GroupedSums
	}
	return GroupedRows
}

// SetCall divides a call of a contraction, or of the first of the products that end in an expression.
func (p *Products) SetCall(d *def.Definition, c *Call) {
	left, right, result := c.OfProduct(d)
	if f := d.Fused(); f != nil {
		d = f.Products[0]
	}
	p.Set(d, &left.Array, &right.Array, &result.Array)
}

// Set divides a contraction whose operands have been checked. It allocates nothing.
func (p *Products) Set(d *def.Definition, left, right, result *num.Array) {
	*p = Products{Count: 1, Groups: 1, Rows: result.Rows / result.Matrices(), Cols: result.Cols}
	if p.Depth = left.Cols; d.Product().TransposeLeft {
		p.Depth = left.Rows / left.Matrices()
	}
	if !d.HasAxes() {
		p.PerGroup = 1
		return
	}
	operands := [...]*num.Array{left, right, result}
	walks := [...]*Walk{&p.Left, &p.Right, &p.Result}
	batch := d.Operands[d.Product().Result].BatchDims()
	for i := len(batch) - 1; i >= 0; i-- {
		if batch[i] != d.Groups().Number {
			p.axis(d, operands, walks, batch[i])
		}
	}
	if p.PerGroup = p.Count; d.Groups().Number != "" {
		p.axis(d, operands, walks, d.Groups().Number)
	}
	p.Groups = p.Count / p.PerGroup
}

// axis adds a letter outside of those that have been added: to the number of products,
// and to the walks of the operands that have it.
func (p *Products) axis(d *def.Definition, operands [3]*num.Array, walks [3]*Walk, letter string) {
	size := 1
	for i, a := range operands {
		first, end := axesOf(&d.Operands[i], &a.Batch, letter)
		divisor := p.Count
		for k := end - 1; k >= first; k-- {
			x := &a.Batch.Axes[k]
			walks[i].Axes[walks[i].Count] = WalkAxis{divisor, x.Size, x.Stride}
			walks[i].Count++
			divisor *= x.Size
		}
		if first < end {
			size = divisor / p.Count
		}
	}
	p.Count *= size
}

// axesOf returns which of an operand's batch axes a letter stands for: one, or for the
// first letter all that the others leave.
func axesOf(o *def.Operand, b *num.Batch, letter string) (first, end int) {
	letters := o.BatchDims()
	for i, l := range letters {
		if l != letter {
			continue
		}
		end = b.Count - (len(letters) - 1 - i)
		if i == 0 {
			return 0, end
		}
		return end - 1, end
	}
	return 0, 0
}

// Tiles of grouped rows are found without a list of them. Group g, which begins at row
// offsets[g], has the slots from offsets[g]/size + g up to those of the next group, where
// size is the rows of a tile: one more than floor(offsets[g+1]/size) - floor(offsets[g]/size),
// which is enough for its rows. A slot that it does not need has no rows.

// GroupSlot returns the first slot of group g, whose rows begin at offset.
func GroupSlot(offset, size, g int) int { return offset/size + g }

// GroupSlots returns the number of slots of all groups of that many rows.
func GroupSlots(rows, size, groups int) int { return rows/size + groups }

// GroupOf returns the group that a slot belongs to.
func GroupOf(offset func(g int) int, groups, size, slot int) int {
	first, end := 0, groups // the group is first or later, and before end
	for end-first > 1 {
		middle := (first + end) / 2
		if GroupSlot(offset(middle), size, middle) <= slot {
			first = middle
		} else {
			end = middle
		}
	}
	return first
}
