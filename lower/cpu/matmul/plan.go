package matmul

import "tokitai/num"

// blocking has the sizes that decide how products are cut. None of them can change a
// result.
type blocking struct {
	// Sizes of tiles. A tile's packed operands and its accumulators take a few hundred KiB
	// each and stay in the second-level cache; a panel of the right operand, depth steps
	// long, stays in the first.
	panels  int // of the left operand in a tile
	vectors int // across a tile
	depth   int // steps of the summed index in a block

	// The same where a right operand of more than streamBytes is read where it lies, from
	// memory: few long rows of it at a time.
	streamVectors, streamDepth, streamBytes int
	lineDepth                               int // the same, in lines

	// tinyWork is the number of multiply-adds from which on a product of few columns of 16 bits or
	// fewer is computed as its transpose, so that its right operand can be read in lines.
	tinyWork int

	// Operands of binary32 that are multiplied where they lie rather than packed: left ones
	// whose rows are neighbours up to rowsBytes, and right ones up to rightBytes, or for up to
	// rightPanels panels of rows.
	rowsBytes   int
	rightBytes  int
	rightPanels int

	// Products of at least sharedWork multiply-adds and more than sharedTiles tiles have their
	// operands packed once for all workers, region by region of the result.
	sharedWork   int
	sharedTiles  int
	regionLines  int // rows, and columns, of a region
	regionMemory int // bytes of packed operands

	// A result of at least storedBytes, with at least storedPanels panels of columns, whose sums have at
	// most storedDepth terms for each lane of a vector takes longer to store than to compute. It is stored
	// some rows at a time, since a few columns of many rows lie in as many pages.
	storedBytes  int
	storedPanels int
	storedDepth  int

	// While operands are packed that have at least fetchedBytes together, fetchedSteps steps are fetched ahead:
	// the processor does not foresee rows in other pages.
	fetchedBytes, fetchedSteps int

	// itemWork is the number of multiply-adds that is worth waking a worker for.
	itemWork int
}

var defaultBlocking = blocking{
	panels: 18, vectors: 16, depth: 256, streamVectors: 128, streamDepth: 32, streamBytes: 512 << 10, lineDepth: 2048,
	tinyWork: 1 << 21, rowsBytes: 32 << 10, rightBytes: 64 << 10, rightPanels: 3,
	sharedWork: 1 << 27, sharedTiles: 2, regionLines: 1120, regionMemory: 24 << 20,
	storedBytes: 2 << 20, storedPanels: 12, storedDepth: 8, fetchedBytes: 4 << 20, fetchedSteps: 8, itemWork: 1 << 19,
}

// plan says how products of one size are cut. Rows and columns are those of the result, or
// of its transpose where the plan is swapped.
type plan struct {
	swapped bool

	// Operands that are multiplied where they lie: a right one in vectors, or in lines.
	leftDirect, rightDirect, rightLines bool

	byPanels bool // all columns of one panel of rows are computed before the next

	depth              int // steps of the summed index in a block
	tileRows, tileCols int
	tilesPerItem       int // not shared

	// shared says that workers pack the operands of a region together before they multiply
	// its tiles. Where a region is one tile from top to bottom, nobody else needs the
	// columns of a tile, and a worker packs those of its own tiles.
	shared                              bool
	regionRows, regionCols, regionDepth int
}

// extent is what a plan is made for.
type extent struct {
	rows, cols, depth int // of one product; means where groups divide them
	products          int
	groupedRows       bool
	groupedSums       bool
	left, right       view // of any product: the distances count
	dtype             num.DType
	workers           int
}

// planFor returns the plan for products of one size. It swaps the extent where the plan is
// swapped.
func (b *blocking) planFor(t *target, e *extent) plan {
	var p plan
	size := e.dtype.Size()
	inLines := func(v *view, rows int) bool { // whether v can be multiplied by few rows, in lines
		return v.step == size && v.line != size && rows <= linePanels*t.lineRows && (t.partial || !e.groupedSums && e.depth%t.lanes == 0)
	}
	// Vectors run across columns: a result with few of them is computed as its transpose.
	work := e.rows * e.cols * e.depth
	// Reading several panels of rows in lines costs more than that saves, but for formats that are packed otherwise.
	isNarrow := 5*e.cols*parts(e.rows, t.lanes) < 4*e.rows*parts(e.cols, t.lanes)
	if e.cols < e.rows && inLines(&e.left, e.cols) {
		if e.dtype != num.F32 {
			isNarrow = isNarrow || work >= b.tinyWork
		} else if e.cols > t.lineRows {
			isNarrow = false
		}
	}
	if isNarrow && !e.groupedRows {
		p.swapped = true
		e.rows, e.cols, e.left, e.right = e.cols, e.rows, e.right, e.left
	}
	isOnePanel := e.rows <= t.rows // then each element of the right operand is read once
	p.depth, p.tileRows, p.tileCols = b.depth, b.panels*t.rows, b.vectors*t.lanes
	if blocks := b.depth / max(e.depth, b.depth/4, 1); blocks > 1 { // short ones leave room for more
		p.tileCols *= blocks
	}
	p.leftDirect = e.dtype == num.F32 && b.readsLeft(t, e)
	p.byPanels = b.storesLongest(t, e)
	isStreamed := false // the right operand is read from memory where it lies
	switch {
	case e.right.line == size && (t.masks(e.dtype) || e.cols%t.lanes == 0):
		p.rightDirect = isOnePanel || e.dtype == num.F32 && b.readsRight(t, e)
		isFew := isOnePanel || p.rightDirect && parts(e.rows, t.rows) <= b.rightPanels
		if isStreamed = isFew && e.cols*e.depth*size > b.streamBytes; isStreamed {
			p.depth, p.tileCols = b.streamDepth, b.streamVectors*t.lanes
		}
	case inLines(&e.right, e.rows):
		p.rightLines, p.leftDirect = true, false
		p.depth, p.tileCols = b.lineDepth, b.streamVectors*t.lanes
	}
	if tiles := parts(e.rows, p.tileRows) * parts(e.cols, p.tileCols); work >= b.sharedWork && !isStreamed && !p.rightLines && tiles > b.sharedTiles {
		p.share(b, t, e)
	} else {
		p.cut(b, t, e)
	}
	return p
}

// storesLongest reports whether a product takes longer to store than to compute.
func (b *blocking) storesLongest(t *target, e *extent) bool {
	return e.depth <= b.storedDepth*t.lanes && e.rows*e.cols*num.F32.Size() >= b.storedBytes && e.cols >= b.storedPanels*t.vectors*t.lanes
}

// linePanels is the number of panels up to which it is better to transpose the right
// operand for each than to pack it.
const linePanels = 3

// readsLeft reports whether a left operand of binary32 is multiplied where it lies, time and
// again for every panel of columns.
func (b *blocking) readsLeft(t *target, e *extent) bool {
	const (
		fewRows   = 4
		fewPanels = 8
		conflict  = 4096 // rows a multiple of it apart contend for the same places in the cache
		ways      = 8    // that is how many places there are
	)
	switch v := &e.left; {
	case e.rows <= fewRows || e.cols <= t.vectors*t.lanes:
		return true
	case v.line < v.step: // the elements of one step are neighbours: a line of the cache has those of other panels too
		return e.rows*e.depth*num.F32.Size() <= b.rowsBytes
	default:
		isFew := parts(e.cols, t.vectors*t.lanes) <= fewPanels
		return v.line%(conflict/2) != 0 || isFew && (v.line%conflict != 0 || t.rows <= ways)
	}
}

// readsRight is readsLeft for a right operand whose columns are neighbours. The processor
// does not foresee rows that are far apart, so that a large one is read slowly.
func (b *blocking) readsRight(t *target, e *extent) bool {
	return parts(e.rows, t.rows) <= b.rightPanels || e.cols*e.depth*num.F32.Size() <= b.rightBytes
}

// share sets the sizes of regions and their tiles.
func (p *plan) share(b *blocking, t *target, e *extent) {
	width := t.vectors * t.lanes
	p.shared = true
	p.regionRows, p.regionCols = evenly(e.rows, b.regionLines, t.rows), evenly(e.cols, b.regionLines, width)
	lines, memory := p.regionRows+p.regionCols, b.regionMemory
	if e.rows <= p.tileRows {
		p.regionRows, p.regionCols = p.tileRows, e.cols
		lines = p.regionRows
	} else {
		p.tileRows = evenly(p.regionRows, p.tileRows, t.rows)
		p.tileCols = evenly(p.regionCols, p.tileCols, width)
		if e.depth > 2*lines { // long sums: what is packed stays in the cache
			memory /= 6
		}
	}
	p.regionDepth = evenly(e.depth, max(memory/4/lines/p.depth, 1)*p.depth, p.depth)
	if parts(p.regionRows, p.tileRows)*parts(p.regionCols, p.tileCols) < 4*e.workers {
		p.tileCols = evenly(p.tileCols, max(p.tileCols/2, 1), width) // so that workers end together
	}
}

// cut sets the tiles of products that share nothing: enough for the workers, each with as
// little work as can be.
func (p *plan) cut(b *blocking, t *target, e *extent) {
	items := 1
	if e.workers > 1 {
		items = min(max(e.rows*e.cols*e.depth*e.products/b.itemWork, 1), 4*e.workers)
		if e.products == 1 && !(p.leftDirect && p.rightDirect) {
			items = min(items, 2*e.workers)
		}
	}
	pieces := parts(items, e.products)
	best, most := 0, *p
	for down := 1; down <= pieces; down++ {
		rows := min(most.tileRows, parts(e.rows, down))
		cols := min(most.tileCols, evenly(e.cols, parts(e.cols, parts(pieces, down)), t.vectors*t.lanes))
		if cost := p.cost(t, rows, cols) * parts(e.rows, rows) * parts(e.cols, cols); best == 0 || cost < best {
			best, p.tileRows, p.tileCols = cost, rows, cols
		}
	}
	p.tileRows = evenly(e.rows, p.tileRows, 1)
	if e.groupedRows { // some groups have more rows than the mean
		p.tileRows = max(p.tileRows, linePanels*t.rows)
	}
	p.tilesPerItem = max(1, parts(e.rows, p.tileRows)*parts(e.cols, p.tileCols)*e.products/items)
}

// cost estimates the time of a tile for each step of the summed index, in quarters of a
// cycle. Two multiply-adds of vectors begin in a cycle, each takes four, and packing takes
// about a quarter of a cycle for each row and one and a half for each vector of columns.
func (p *plan) cost(t *target, rows, cols int) int {
	panels, vectors := parts(rows, t.rows), parts(cols, t.lanes)
	cost := max(2*rows*vectors, 16*panels*parts(vectors, t.vectors))
	if !p.leftDirect {
		cost += rows
	}
	if !p.rightDirect && !p.rightLines {
		cost += 6 * vectors
	}
	return cost
}

// fetches returns how many steps are fetched ahead while operands are packed.
func (b *blocking) fetches(e *extent) int {
	if (e.rows+e.cols)*e.depth*e.products*e.dtype.Size() < b.fetchedBytes {
		return 0
	}
	return b.fetchedSteps
}

// parts returns the number of parts of a size that n has, the last one perhaps smaller.
func parts(n, size int) int { return (n + size - 1) / size }

// evenly returns the size, a multiple of unit, of equal parts of n that have at most most
// each, but for what rounding to units adds.
func evenly(n, most, unit int) int { return parts(parts(n, parts(n, most)), unit) * unit }
