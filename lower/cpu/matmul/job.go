package matmul

import (
	"sync"
	"unsafe"

	"tokitai/lower"
	lowercpu "tokitai/lower/cpu"
	"tokitai/num"
)

// jobs are those that have ended, for their scratch memory.
var jobs sync.Pool

// job is one execution of a program.
type job struct {
	p                   *program
	left, right, result num.Array
	offsets             num.Array // of the groups
	products            lower.Products
	plan                plan
	workers             []*worker

	// Products that share nothing are one phase.
	tilesDown, tilesAcross int // of one product, or of one index of the batch axes where rows are grouped
	tiles                  int
	whole                  division // of the rows of a whole tile
	started                bool

	shared region
}

// product is one product as the plan sees it.
type product struct {
	left, right view
	result      view // its lines are columns
	row, rows   int
	cols        int
	k, end      int // of the summed index
}

// Bind implements Program.
func (p *program) Bind(c *lower.Call, workers int) lowercpu.Job {
	j, _ := jobs.Get().(*job)
	if j == nil {
		j = &job{}
	}
	j.p = p
	left, right, result := c.OfProduct(p.d)
	j.left, j.right, j.result = left.Array, right.Array, result.Array
	j.products.Set(p.d, &j.left, &j.right, &j.result)
	if p.grouping != lower.Ungrouped {
		j.offsets = c.OffsetsOf(p.d).Array
	}
	e := extent{
		rows: j.products.Rows, cols: j.products.Cols, depth: j.products.Depth, products: j.products.Count,
		groupedRows: p.grouping == lower.GroupedRows, groupedSums: p.grouping == lower.GroupedSums, dtype: p.code.dtype, workers: workers,
		left: operandView(&j.left, 0, p.d.Product().TransposeLeft), right: operandView(&j.right, 0, !p.d.Product().TransposeRight),
	}
	switch p.grouping {
	case lower.GroupedRows:
		e.rows = max(e.rows/j.products.Groups, 1)
	case lower.GroupedSums:
		e.depth = max(e.depth/j.products.Groups, 1)
	}
	j.plan = p.blocking.planFor(&p.code.target, &e)
	j.started = false
	for len(j.workers) < workers {
		j.workers = append(j.workers, &worker{})
	}
	for _, w := range j.workers {
		w.code, w.ahead = p.code, p.blocking.fetches(&e)
	}
	if j.plan.shared {
		j.shared.begin()
		return j
	}
	j.whole = divide(j.plan.tileRows, p.code.rows)
	j.tilesDown, j.tilesAcross = parts(e.rows, j.plan.tileRows), parts(e.cols, j.plan.tileCols)
	j.tiles = j.products.Count
	if p.grouping == lower.GroupedRows {
		j.tilesDown, j.tiles = lower.GroupSlots(j.products.Rows, j.plan.tileRows, j.products.Groups), j.products.PerGroup
	}
	j.tiles *= j.tilesDown * j.tilesAcross
	return j
}

// Next implements Job.
func (j *job) Next() (int, bool) {
	if j.plan.shared {
		return j.shared.next(j)
	}
	if j.started {
		return 0, false
	}
	j.started = true
	return parts(j.tiles, j.plan.tilesPerItem), true
}

// Do implements Job.
func (j *job) Do(worker, item int) {
	w := j.workers[worker]
	if j.plan.shared {
		j.shared.do(j, w, item)
	} else {
		first := item * j.plan.tilesPerItem
		for i := first; i < min(first+j.plan.tilesPerItem, j.tiles); i++ {
			j.tile(w, i)
		}
	}
	w.forget()
}

// Release implements Job.
func (j *job) Release() {
	j.left, j.right, j.result, j.offsets = num.Array{}, num.Array{}, num.Array{}, num.Array{}
	j.shared.forget()
	jobs.Put(j)
}

// operandView returns a matrix as lines: its rows, or its columns.
func operandView(a *num.Array, offset int, linesAreColumns bool) view {
	size := a.DType.Size()
	v := view{at: unsafe.Pointer(unsafe.SliceData(a.Data[offset*size:])), line: a.Stride * size, step: size}
	if linesAreColumns {
		v.line, v.step = v.step, v.line
	}
	return v
}

// product returns a product, without the rows of its group where rows are grouped.
func (j *job) product(i int) product {
	d := j.p.d
	p := product{
		left:   operandView(&j.left, j.products.Left.Offset(i), d.Product().TransposeLeft),
		right:  operandView(&j.right, j.products.Right.Offset(i), !d.Product().TransposeRight),
		result: operandView(&j.result, j.products.Result.Offset(i), true),
		rows:   j.products.Rows, cols: j.products.Cols, end: j.products.Depth,
	}
	if j.p.grouping == lower.GroupedSums {
		g := i / j.products.PerGroup
		p.k, p.end = j.offset(g), j.offset(g+1)
	}
	if j.plan.swapped {
		p.left, p.right = p.right, p.left
		p.rows, p.cols = p.cols, p.rows
		p.result.line, p.result.step = p.result.step, p.result.line
	}
	return p
}

// offset returns where a group begins.
func (j *job) offset(g int) int { return int(j.offsets.Int(g, 0)) }

// tile computes a tile of products that share nothing.
func (j *job) tile(w *worker, i int) {
	n, down, across := i, 0, 0
	if perProduct := j.tilesDown * j.tilesAcross; perProduct > 1 { // a division takes as long as small products
		n, i = i/perProduct, i%perProduct
		down, across = i/j.tilesAcross, i%j.tilesAcross
	}
	row, group := down*j.plan.tileRows, -1
	if j.p.grouping == lower.GroupedRows {
		group = lower.GroupOf(j.offset, j.products.Groups, j.plan.tileRows, down)
		n += group * j.products.PerGroup
		row = j.offset(group) + (down-lower.GroupSlot(j.offset(group), j.plan.tileRows, group))*j.plan.tileRows
	}
	p := j.product(n)
	if group >= 0 {
		p.rows = j.offset(group + 1)
	}
	col := across * j.plan.tileCols
	rows, cols := min(j.plan.tileRows, p.rows-row), min(j.plan.tileCols, p.cols-col)
	if rows <= 0 {
		return
	}
	t := tile{product: &p, row: row, col: col, cols: cols, rows: j.whole}
	if rows != j.whole.rows {
		t.rows = divide(rows, j.p.code.rows)
	}
	w.compute(j, &t)
}
