package lower

import (
	"tokitai/def"
	"tokitai/num"
)

// Tiles divides the results of a contraction into tiles of at most TileRows × TileCols
// elements, whatever the number of its matrices: the independent items of its work.
type Tiles struct {
	Products
	Scales
	TileRows, TileCols int

	grouping            Grouping
	left, right, result num.Array
	offsets             num.Array // of the groups
	down                int       // tiles of one product, or of one index of the batch axes where rows are grouped
	across              int
}

// Tile is a part of the result, with what it is computed from.
type Tile struct {
	Left, Right, Result num.Array // matrices
	Row, Rows           int
	Col, Cols           int
	K, End              int // of the summed index
}

// Set divides a call of a contraction, whose operands have been checked. It allocates
// nothing.
func (t *Tiles) Set(d *def.Definition, c *Call, rows, cols int) {
	left, right, result := c.OfProduct(d)
	*t = Tiles{
		TileRows: rows, TileCols: cols, grouping: GroupingOf(d),
		left: left.Array, right: right.Array, result: result.Array,
	}
	t.Products.Set(d, &t.left, &t.right, &t.result)
	t.Scales.Set(d, c)
	t.across = (t.Cols + cols - 1) / cols
	t.down = (t.Rows + rows - 1) / rows
	if t.grouping != Ungrouped {
		t.offsets = c.OffsetsOf(d).Array
	}
	if t.grouping == GroupedRows {
		t.down = GroupSlots(t.Rows, rows, t.Groups)
	}
}

// Len returns the number of items. Some have no rows where rows are grouped.
func (t *Tiles) Len() int {
	products := t.Count
	if t.grouping == GroupedRows {
		products = t.PerGroup
	}
	return products * t.down * t.across
}

// At sets x to the tile of an item. It reports whether the tile has rows.
func (t *Tiles) At(x *Tile, item int) bool {
	perProduct := t.down * t.across
	product, item := item/perProduct, item%perProduct
	down, across := item/t.across, item%t.across
	rows := t.Rows
	x.Row, x.K, x.End = down*t.TileRows, 0, t.Depth
	switch t.grouping {
	case GroupedRows:
		at := func(g int) int { return int(t.offsets.Int(g, 0)) }
		g := GroupOf(at, t.Groups, t.TileRows, down)
		product += g * t.PerGroup
		x.Row = at(g) + (down-GroupSlot(at(g), t.TileRows, g))*t.TileRows
		rows = at(g + 1)
	case GroupedSums:
		g := product / t.PerGroup
		x.K, x.End = int(t.offsets.Int(g, 0)), int(t.offsets.Int(g+1, 0))
	}
	x.Col = across * t.TileCols
	x.Rows, x.Cols = min(t.TileRows, rows-x.Row), min(t.TileCols, t.Cols-x.Col)
	x.Left = matrixAt(&t.left, &t.Left, product)
	x.Right = matrixAt(&t.right, &t.Right, product)
	x.Result = matrixAt(&t.result, &t.Result, product)
	return x.Rows > 0
}

func matrixAt(a *num.Array, w *Walk, product int) num.Array {
	m := num.Array{DType: a.DType, Rows: a.Rows, Cols: a.Cols, Stride: a.Stride, Data: a.Data}
	if w.Count > 0 {
		m.Rows, m.Data = a.Rows/a.Matrices(), a.Data[w.Offset(product)*a.DType.Size():]
	}
	return m
}
