package matmul

import (
	"tokitai/num"
)

// The sizes of blocks. A tile's packed operands and accumulators take a few hundred KiB
// each: they stay in the second-level cache while a panel of the right operand stays in
// the first.
const (
	directDepth = 2048 // the same, where each element of the right operand is read once

	// Operands of binary32 are multiplied where they lie if that costs less than packing
	// them, in products of less than directWork multiply-adds.
	directWork = 1 << 26

	// Products of at least sharedWork multiply-adds have their operands packed once for all
	// workers, region by region of the result.
	sharedWork   = 1 << 25
	regionLines  = 1120 // rows and columns of a region
	regionMemory = 24 << 20

	// itemWork is the number of multiply-adds that is worth waking a worker for.
	itemWork = 1 << 19
)

// plan says how products of one size are cut. Rows and columns are those of the result, or
// of its transpose where the plan is swapped.
type plan struct {
	swapped bool

	// Operands that are multiplied where they lie.
	leftDirect, rightDirect bool

	depth              int // indices of the sum in a block
	tileRows, tileCols int
	tilesPerItem       int // not shared

	// shared says that workers pack the operands of a region together before they multiply
	// its tiles; where a region has one tile from top to bottom, each packs the columns of its own tiles.
	shared                              bool
	regionRows, regionCols, regionDepth int
}

// extent is what a plan is made for.
type extent struct {
	rows, cols, depth int
	products          int
	groupedRows       bool
	leftView          view // with the distances of any product
	rightView         view
	dtype             num.DType
	workers           int
}

// planFor returns the plan for products of one size.
func (t *target) planFor(e *extent) plan {
	var p plan
	// Vectors run across columns: a result with few of them is computed as its transpose.
	across := func(n int) int { return (n + t.lanes - 1) / t.lanes }
	if !e.groupedRows && 5*e.cols*across(e.rows) < 4*e.rows*across(e.cols) {
		p.swapped = true
		e.rows, e.cols, e.leftView, e.rightView = e.cols, e.rows, e.rightView, e.leftView
	}
	work := e.rows * e.cols * e.depth
	size := e.dtype.Size()
	onePanel := e.rows <= t.rows
	p.rightDirect = e.rightView.line == size && (t.partial || e.cols%t.lanes == 0) && (onePanel || e.dtype == num.F32 && work < directWork)
	p.leftDirect = e.dtype == num.F32 && e.leftView.staysCached(e.rows, e.cols, work)
	p.depth = depthBlock
	if p.rightDirect && onePanel {
		p.depth = directDepth
	}
	p.tileRows, p.tileCols = tilePanels*t.rows, tileVectors*t.lanes
	if work >= sharedWork && !onePanel {
		p.shareOperands(t, e)
		return p
	}
	p.cut(t, e)
	return p
}

// shareOperands sets the sizes of regions.
func (p *plan) shareOperands(t *target, e *extent) {
	p.shared, p.rightDirect = true, false
	p.regionRows, p.regionCols = evenly(e.rows, regionLines, t.rows), evenly(e.cols, regionLines, t.lanes*t.vectors)
	if e.rows <= p.tileRows { // columns are packed by tile
		p.regionCols = e.cols
		p.regionDepth = e.depth
		p.tileRows = e.rows
		return
	}
	lines := p.regionRows + p.regionCols
	p.regionDepth = evenly(e.depth, max(regionMemory/4/lines/p.depth, 1)*p.depth, p.depth)
	p.tileRows = evenly(p.regionRows, p.tileRows, t.rows)
	p.tileCols = evenly(p.regionCols, p.tileCols, t.lanes*t.vectors)
	if tiles := (p.regionRows + p.tileRows - 1) / p.tileRows * ((p.regionCols + p.tileCols - 1) / p.tileCols); tiles < 4*e.workers {
		p.tileCols = evenly(p.tileCols, p.tileCols/2, t.lanes*t.vectors)
	}
}

// cut sets the tiles of products that share nothing: enough for the workers, each with as
// little to pack as can be.
func (p *plan) cut(t *target, e *extent) {
	work := max(e.rows*e.cols*e.depth, 1)
	items := min(max(work*e.products/itemWork, 1), 4*e.workers)
	pieces := max((items+e.products-1)/e.products, 1)
	if pieces > 1 && e.products == 1 && !(p.leftDirect && p.rightDirect) {
		pieces = min(pieces, 2*e.workers)
	}
	panel := t.lanes * t.vectors
	best := 0
	rows, cols := p.tileRows, p.tileCols
	for down := 1; down <= pieces; down++ {
		across := (pieces + down - 1) / down
		r := min(rows, (e.rows+down-1)/down)
		c := min(cols, ((e.cols+across-1)/across+panel-1)/panel*panel)
		if lines := r + c; best == 0 || lines < best {
			best, p.tileRows, p.tileCols = lines, r, c
		}
	}
	down, over := (e.rows+p.tileRows-1)/p.tileRows, (e.cols+p.tileCols-1)/p.tileCols
	p.tileRows = (e.rows + down - 1) / down
	p.tilesPerItem = max(1, down*over*e.products/items)
}

// evenly returns a size of tiles of at most most, a multiple of unit, that divides n into
// tiles of about equal size.
func evenly(n, most, unit int) int {
	count := (n + most - 1) / most
	return ((n+count-1)/count + unit - 1) / unit * unit
}

// staysCached reports whether a left operand is fast to read where it lies, time and again
// for every panel of columns. Rows a multiple of a page apart contend for the same places
// in the cache; packed, they do not.
func (v *view) staysCached(rows, cols, work int) bool {
	const page = 4096
	switch {
	case rows <= 4 || work < 1<<21:
		return true
	case v.line < v.step: // the elements of one step are neighbours
		return work < sharedWork
	}
	return cols <= 320 && v.line%page != 0 && v.line < 4*page
}

var (
	tilePanels  = 18  // panels of the left operand in a tile
	tileVectors = 16  // vectors across a tile
	depthBlock  = 256 // indices of the sum that are multiplied at a time
)
