package matmul

import (
	"unsafe"

	"tokitai/num"
)

// division cuts rows into panels of nearly equal height: the first long ones have height
// rows, the others one less.
type division struct {
	rows, count  int
	height, long int
}

func divide(rows, most int) division {
	count := parts(rows, most)
	d := division{rows: rows, count: count, height: rows / count, long: rows % count}
	if d.long == 0 {
		d.long = count
	} else {
		d.height++
	}
	return d
}

// first returns the first row of a panel.
func (d *division) first(panel int) int { return panel*d.height - max(0, panel-d.long) }

// heightOf returns the rows of a panel.
func (d *division) heightOf(panel int) int {
	if panel < d.long {
		return d.height
	}
	return d.height - 1
}

// tile is a part of a product's result.
type tile struct {
	product   *product
	row       int      // where the division begins
	rows      division // of the tile, or of the region that it lies in
	col, cols int

	// Panels of the division that belong to the tile.
	firstPanel, endPanel int
}

// worker is the memory that one worker uses.
type worker struct {
	mover
	multiplication            multiplyFrame
	leftPanels, rightPanels   scratch
	accumulators, transposing scratch
	rest                      scratch // columns of a right operand that fill no vector
	fetcher                   fetcher
}

func (w *worker) forget() {
	w.mover.forget()
	w.multiplication = multiplyFrame{}
}

// sums is where a tile's accumulators lie between blocks of the summed index.
type sums struct {
	at  unsafe.Pointer
	row int // bytes
}

// compute computes a tile on its own.
func (w *worker) compute(j *job, t *tile) {
	p, plan := t.product, &j.plan
	t.endPanel = t.rows.count
	acc := w.sums(t)
	depth := p.end - p.k
	block := min(plan.depth, depth)
	var left, right panels
	if !plan.leftDirect {
		left.step = w.leftStep()
		left.stride = panelStride(left.step, block)
		if plan.rightLines {
			left.step = 0
		}
		left.at = w.leftPanels.get(t.rows.count * left.stride)
	}
	if !plan.rightDirect && !plan.rightLines {
		right.step = w.vectors * w.lanes * 4
		right.stride = panelStride(right.step, block)
		right.at = w.rightPanels.get(parts(t.cols, w.vectors*w.lanes) * right.stride)
	}
	for k := p.k; ; k += block {
		n := min(block, p.end-k)
		if left.at != nil {
			w.packLeft(&left, t, t.firstPanel, t.endPanel, k, n)
		}
		if right.at != nil {
			w.packRight(&right, p, t.col, t.cols, k, n)
		}
		w.multiply(j, t, &left, &right, &acc, k, n, k == p.k, k+n == p.end)
		if k+n == p.end {
			return
		}
	}
}

// sums returns memory for the accumulators of a tile.
func (w *worker) sums(t *tile) sums {
	row := sumsRow(t.cols)
	return sums{w.accumulators.get(sumsBytes(t.rows.rows, t.cols)), row}
}

func sumsRow(cols int) int         { return padded(cols)*4 + 64 }
func sumsBytes(rows, cols int) int { return padded(rows)*sumsRow(cols) + padding }

// packLeft packs panels of rows, those of one height together.
func (w *worker) packLeft(to *panels, t *tile, first, end, k, depth int) {
	for i := first; i < end; {
		height, step, last := t.rows.heightOf(i), to.step, end
		if step == 0 {
			step = height * 4
		}
		if i < t.rows.long {
			last = min(end, t.rows.long)
		}
		w.packBeside(unsafe.Add(to.at, (i-first)*to.stride), step, to.stride, &t.product.left, w.dtype, t.row+t.rows.first(i), height, last-i, k, depth)
		i = last
	}
}

// packRight packs panels of columns.
func (w *worker) packRight(to *panels, p *product, col, cols, k, depth int) {
	width := w.vectors * w.lanes
	whole := cols / width
	w.packBeside(to.at, to.step, to.stride, &p.right, w.dtype, col, width, whole, k, depth)
	if rest := cols % width; rest > 0 {
		w.pack(unsafe.Add(to.at, whole*to.stride), to.step, &p.right, w.dtype, col+whole*width, rest, k, depth)
	}
}

// multiply adds a block of products to the accumulators of a tile. The first block begins
// them, the last one stores the result. Where an operand is packed, its panels begin with
// the tile and the block.
func (w *worker) multiply(j *job, t *tile, left, right *panels, acc *sums, k, depth int, isFirst, isLast bool) {
	p := t.product
	result := &p.result
	accumulate := j.p.d.Accumulates()
	inPlace := j.p.result == num.F32 && result.line == 4 // the result can hold accumulators itself
	firstRow := t.rows.first(t.firstPanel)
	rows := t.rows.first(t.endPanel) - firstRow
	if isFirst && accumulate && !inPlace {
		w.pack(acc.at, acc.row, result, j.p.result, t.col, t.cols, t.row+firstRow, rows)
	}
	f := &w.multiplication
	f.depth = depth
	in, inRow := acc.at, acc.row
	if isFirst && !accumulate {
		in = nil
	} else if isFirst && inPlace {
		in, inRow = result.element(t.col, t.row+firstRow), result.step
	}
	out, outRow := acc.at, acc.row
	if isLast && inPlace {
		out, outRow = result.element(t.col, t.row+firstRow), result.step
	}
	f.inRow, f.outRow = inRow, outRow
	switch {
	case j.plan.rightLines:
		w.multiplyLinesOf(t, left, k, in, out)
	case j.plan.byPanels && inPlace && isLast:
		w.multiplyByPanels(t, left, right, k, in, out)
	default:
		w.multiplyVectors(t, left, right, k, in, out)
	}
	if isLast && !inPlace {
		buffer := unsafe.Pointer(nil)
		if result.line != j.p.result.Size() {
			buffer = w.transposing.get(padded(t.cols)*w.lanes*4 + padding)
		}
		w.unpack(result, j.p.result, t.row+firstRow, t.col, acc.at, acc.row, rows, t.cols, buffer)
	}
}

// multiplyByPanels multiplies by vectors, all columns of one panel of rows after the other.
func (w *worker) multiplyByPanels(t *tile, left, right *panels, k int, in, out unsafe.Pointer) {
	f := &w.multiplication
	one, rows := *t, *left
	for n := t.firstPanel; n < t.endPanel; n++ {
		row := t.rows.first(n) - t.rows.first(t.firstPanel)
		one.firstPanel, one.endPanel = n, n+1
		if left.at != nil {
			rows.at = unsafe.Add(left.at, (n-t.firstPanel)*left.stride)
		}
		from := in
		if in != nil {
			from = unsafe.Add(in, row*f.inRow)
		}
		w.multiplyVectors(&one, &rows, right, k, from, unsafe.Add(out, row*f.outRow))
	}
}

// multiplyVectors multiplies by vectors across the right operand.
func (w *worker) multiplyVectors(t *tile, left, right *panels, k int, in, out unsafe.Pointer) {
	p, f := t.product, &w.multiplication
	table := &w.code.multiply[rowsAdjacent]
	if left.at == nil && p.left.line != 4 {
		table = &w.code.multiply[stepsAdjacent]
	}
	widest := w.vectors
	f.bStep = right.step
	if right.at == nil {
		widest = w.widest(t.rows.height)
		f.bStep = p.right.step
		if w.dtype != num.F32 {
			table = &w.multiplyStored
		}
	}
	isOnePanel := t.endPanel-t.firstPanel == 1 && f.depth > 0 && w.fetcher.isEmpty()
	for c := 0; c < t.cols; {
		vectors := widest
		for vectors > 1 && (vectors-1)*w.lanes >= t.cols-c {
			vectors /= 2
		}
		cols := min(vectors*w.lanes, t.cols-c)
		switch {
		case f.depth == 0:
			f.b = out // nothing is read
		case right.at != nil:
			panel := w.vectors * w.lanes
			f.b, f.bPanel = unsafe.Add(right.at, c/panel*right.stride+c%panel*4), right.stride
		case !w.partial && cols < vectors*w.lanes:
			f.bStep = vectors * w.lanes * 4
			f.b = w.rest.get(panelStride(f.bStep, f.depth))
			w.pack(f.b, f.bStep, &p.right, w.dtype, t.col+c, cols, k, f.depth)
		default:
			f.b, f.bPanel = p.right.element(t.col+c, k), cols*p.right.line
		}
		lanes := cols - (vectors-1)*w.lanes
		f.mask, f.maskLanes = lowBits(lanes), unsafe.Pointer(&maskLanes[max(0, 8-lanes)])
		w.fetcher.begin(uintptr(f.b), cols)
		count := 1
		if isOnePanel && vectors == widest && t.cols-c >= 2*cols {
			count = (t.cols - c) / cols
		}
		w.columns(t, left, k, c, in, out, table, vectors, count)
		c += count * cols
	}
}

// setSums sets where the accumulators of a register block lie: from a row and a column of the tile on.
func (w *worker) setSums(in, out unsafe.Pointer, row, c int) {
	f := &w.multiplication
	f.in = nil
	if in != nil {
		f.in = unsafe.Add(in, row*f.inRow+c*4)
	}
	f.out = unsafe.Add(out, row*f.outRow+c*4)
}

// multiplyLinesOf multiplies by lines of the right operand, a vector of columns at a time.
func (w *worker) multiplyLinesOf(t *tile, left *panels, k int, in, out unsafe.Pointer) {
	p, f := t.product, &w.multiplication
	f.lastSteps = lowBits(f.depth % w.lanes)
	f.bStep = w.lanes * p.right.line
	for c := 0; c < t.cols; c += w.lanes {
		lanes := min(w.lanes, t.cols-c)
		for l := range w.lanes {
			f.lines[l] = out // nothing is read
			if f.depth > 0 {
				f.lines[l] = p.right.element(t.col+c+min(l, lanes-1), k)
			}
		}
		f.mask, f.maskLanes = lowBits(lanes), unsafe.Pointer(&maskLanes[max(0, 8-lanes)])
		for n := t.firstPanel; n < t.endPanel; n++ {
			row := t.rows.first(n) - t.rows.first(t.firstPanel)
			f.a = unsafe.Add(left.at, (n-t.firstPanel)*left.stride)
			w.setSums(in, out, row, c)
			w.program.Call(w.multiplyLines[t.rows.heightOf(n)], unsafe.Pointer(f))
		}
	}
}

// columns multiplies all panels of a tile with one panel of columns, those of one height together, or the only
// panel of a tile with several of columns.
func (w *worker) columns(t *tile, left *panels, k, c int, in, out unsafe.Pointer, table *kernelTable, vectors, count int) {
	f := &w.multiplication
	firstRow := t.rows.first(t.firstPanel)
	for first := t.firstPanel; first < t.endPanel; {
		end, height := t.endPanel, t.rows.heightOf(first)
		if first < t.rows.long {
			end = min(end, t.rows.long)
		}
		switch {
		case f.depth == 0:
			f.a = out
		case left.at == nil:
			v := &t.product.left
			f.a, f.aRow, f.aStep, f.aPanel = v.element(t.row+t.rows.first(first), k), v.line, v.step, height*v.line
		default:
			f.a, f.aRow, f.aStep, f.aPanel = unsafe.Add(left.at, (first-t.firstPanel)*left.stride), 4, left.step, left.stride
		}
		w.setSums(in, out, t.rows.first(first)-firstRow, c)
		f.prefetch, f.panels = w.fetcher.take(end-first, f.depth)
		end = first + f.panels
		f.inPanel, f.outPanel = height*f.inRow, height*f.outRow
		if count == 1 {
			f.bPanel = 0
		} else {
			f.panels, f.aPanel, f.inPanel, f.outPanel = count, 0, vectors*w.lanes*4, vectors*w.lanes*4
		}
		w.program.Call(table[height][vectors], unsafe.Pointer(f))
		first = end
	}
}
