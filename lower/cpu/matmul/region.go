package matmul

import (
	"unsafe"

	"tokitai/lower"
)

// region is the walk over large products: for each, region after region of the result,
// and for each region, block after block of the summed index. Two phases do one block:
// workers pack the operands of the region, then they multiply its tiles.
type region struct {
	number      int // of the current product, -1 before the first
	product     product
	row, col, k int // where the region and its block of the summed index begin
	rows        division
	cols, depth int

	tilePanels   int // of the left operand in a tile
	down, across int // tiles

	isPacking             bool // the current phase
	leftItems, rightItems int  // of it
	left, right           panels
	leftBlock, rightBlock int         // bytes from the panels of a block to those of the next
	packsRight            bool        // not by tile
	packed                packedBlock // what right holds

	leftMemory, rightMemory, sumsMemory scratch
}

// packedBlock names a block of the right operand.
type packedBlock struct {
	isSet          bool
	number, col, k int
}

// packPanels is the number of panels that one item packs.
const packPanels = 4

// begin starts the walk.
func (g *region) begin() { g.number, g.isPacking, g.packed = -1, false, packedBlock{} }

// forget drops the pointers to operands.
func (g *region) forget() { g.product = product{} }

// next begins the next phase.
func (g *region) next(j *job) (int, bool) {
	if g.isPacking {
		g.isPacking = false
		return g.down * g.across, true
	}
	if !g.advance(j) {
		return 0, false
	}
	if items := g.prepare(j); items > 0 {
		g.isPacking = true
		return items, true
	}
	return g.down * g.across, true
}

// advance moves on to the next block. It reports false after the last.
func (g *region) advance(j *job) bool {
	p := &g.product
	if g.number >= 0 {
		if g.k += g.depth; g.k < p.end {
			return true
		}
		g.k = p.k
		if g.row += g.rows.rows; g.row < p.rows {
			return true
		}
		g.row = p.row
		if g.col += g.cols; g.col < p.cols {
			return true
		}
	}
	for {
		g.number++
		if g.number == j.products.Count {
			return false
		}
		*p = j.product(g.number)
		if j.p.grouping == lower.GroupedRows {
			group := g.number / j.products.PerGroup
			p.row, p.rows = j.offset(group), j.offset(group+1)
		}
		if p.row < p.rows {
			g.row, g.col, g.k = p.row, 0, p.k
			return true
		}
	}
}

// prepare sets the current block up and returns the number of items to pack.
func (g *region) prepare(j *job) int {
	p, plan, c := &g.product, &j.plan, j.p.code
	g.rows = divide(min(plan.regionRows, p.rows-g.row), c.rows)
	g.cols, g.depth = min(plan.regionCols, p.cols-g.col), min(plan.regionDepth, p.end-g.k)
	g.tilePanels = max(plan.tileRows/c.rows, 1)
	if plan.tileRows >= g.rows.rows {
		g.tilePanels = g.rows.count
	}
	g.down, g.across = parts(g.rows.count, g.tilePanels), parts(g.cols, plan.tileCols)

	blocks := max(parts(g.depth, plan.depth), 1)
	g.left, g.leftItems = panels{}, 0
	if !plan.leftDirect {
		g.left.step = c.leftStep()
		g.left.stride = panelStride(g.left.step, min(plan.depth, g.depth))
		g.leftBlock = g.rows.count * g.left.stride
		g.left.at = g.leftMemory.get(blocks * g.leftBlock)
		g.leftItems = parts(g.rows.count, packPanels)
	}
	g.rightItems = 0
	g.packsRight = g.down > 1 && !plan.rightDirect
	if block := (packedBlock{true, g.number, g.col, g.k}); g.packsRight && g.packed != block {
		g.packed = block
		count := parts(g.cols, c.vectors*c.lanes)
		g.right.step = c.vectors * c.lanes * 4
		g.right.stride = panelStride(g.right.step, min(plan.depth, g.depth))
		g.rightBlock = count * g.right.stride
		g.right.at = g.rightMemory.get(blocks * g.rightBlock)
		g.rightItems = parts(count, packPanels)
	}
	if g.severalBlocks() {
		g.sumsMemory.get(g.sumsBytes(j) * g.down * g.across)
	}
	return g.leftItems + g.rightItems
}

// severalBlocks reports whether accumulators outlive a phase.
func (g *region) severalBlocks() bool { return g.depth < g.product.end-g.product.k }

// sumsBytes returns the size of a tile's accumulators.
func (g *region) sumsBytes(j *job) int {
	return sumsBytes(g.tilePanels*j.p.code.rows, j.plan.tileCols)
}

// do does one item of the current phase.
func (g *region) do(j *job, w *worker, item int) {
	p, c := &g.product, j.p.code
	if !g.isPacking {
		g.multiply(j, w, item/g.across, item%g.across)
		return
	}
	width := c.vectors * c.lanes
	for k := 0; k == 0 || k < g.depth; k += j.plan.depth {
		block, depth := k/j.plan.depth, min(j.plan.depth, g.depth-k)
		if item < g.leftItems {
			first := item * packPanels
			to := g.left
			to.at = unsafe.Add(to.at, block*g.leftBlock+first*to.stride)
			t := tile{product: p, row: g.row, rows: g.rows}
			w.packLeft(&to, &t, first, min(first+packPanels, g.rows.count), g.k+k, depth)
		} else {
			first := (item - g.leftItems) * packPanels
			to := g.right
			to.at = unsafe.Add(to.at, block*g.rightBlock+first*to.stride)
			w.packRight(&to, p, g.col+first*width, min(packPanels*width, g.cols-first*width), g.k+k, depth)
		}
	}
}

// multiply computes the current block of a tile.
func (g *region) multiply(j *job, w *worker, down, across int) {
	p, width := &g.product, j.p.code.vectors*j.p.code.lanes
	t := tile{
		product: p, row: g.row, rows: g.rows,
		firstPanel: down * g.tilePanels, endPanel: min((down+1)*g.tilePanels, g.rows.count),
		col: g.col + across*j.plan.tileCols, cols: min(j.plan.tileCols, g.cols-across*j.plan.tileCols),
	}
	acc := sums{row: sumsRow(t.cols)}
	if g.severalBlocks() {
		acc.at = unsafe.Add(g.sumsMemory.get(0), (down*g.across+across)*g.sumsBytes(j))
	} else {
		acc.at = w.accumulators.get(g.sumsBytes(j))
	}
	left, right := g.left, g.right
	var leftAt, rightAt unsafe.Pointer
	if left.at != nil {
		leftAt = unsafe.Add(left.at, t.firstPanel*left.stride)
	}
	if g.packsRight {
		rightAt = unsafe.Add(right.at, across*j.plan.tileCols/width*right.stride)
	} else if right = (panels{}); !j.plan.rightDirect {
		right.step = width * 4
		right.stride = panelStride(right.step, min(j.plan.depth, g.depth))
		right.at = w.rightPanels.get(parts(t.cols, width) * right.stride)
	}
	for k := 0; ; k += j.plan.depth {
		n := min(j.plan.depth, g.depth-k)
		if leftAt != nil {
			left.at = unsafe.Add(leftAt, k/j.plan.depth*g.leftBlock)
		}
		if g.packsRight {
			right.at = unsafe.Add(rightAt, k/j.plan.depth*g.rightBlock)
		} else if right.at != nil {
			w.packRight(&right, p, t.col, t.cols, g.k+k, n)
		}
		w.fetcher = g.fetches(&t, &left, &right, k+n < g.depth)
		w.multiply(j, &t, &left, &right, &acc, g.k+k, n, g.k+k == p.k, g.k+k+n == p.end)
		if k+n == g.depth {
			w.fetcher = fetcher{}
			return
		}
	}
}

// fetches returns what to fetch during a block of a tile: packed columns, one panel ahead,
// and packed rows, one block ahead if there is one.
func (g *region) fetches(t *tile, left, right *panels, hasNext bool) fetcher {
	var f fetcher
	if g.packsRight {
		f.rightStride = right.stride
	}
	if left.at != nil && hasNext {
		f.left = span{uintptr(left.at) + uintptr(g.leftBlock), (t.endPanel - t.firstPanel) * left.stride}
		f.leftShare = parts(f.left.bytes, t.cols)
	}
	return f
}
