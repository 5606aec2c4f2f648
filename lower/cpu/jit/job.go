package jit

import (
	"math"
	"slices"
	"unsafe"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/lower/cpu"
	"tokitai/num"
)

// The number of elements in an item: enough rows that fetching the next one pays, and few
// enough that all workers have something to do until the end.
const (
	leastPerItem  = 1 << 15
	mostPerItem   = 1 << 18
	itemsOfWorker = 16
)

// job is one execution of a program.
type job struct {
	p        *program
	operands []num.Array
	params   []float64
	rows     int
	cols     int
	phase    phase

	// An item is a range of perItem rows, of perItem lanes of the column sums, or of
	// perItem elements of a flat definition.
	lanes   int
	perItem int
	items   int

	entry    int    // of the function that computes rows
	parts    []part // of a row that takes too long for one call; nil if none does
	isFolded bool   // a flat definition's elements are one row

	columns [][]float32 // values per column, by number
	zeros   []float32   // the row of a table that has no row of an index
	partial [][]float32 // by column sum: a row for each item
	totals  [][]float32 // by total sum: the sums of the flat rows
	ints    [][]uint32  // by total sum of int32: the sums of the items
	main    *worker     // computes what does not depend on the row
	workers []*worker   // by number; nil until it is needed
	version int         // of what main has computed
}

type phase uint8

const (
	bound phase = iota
	rowsPhase
	columnsPhase
	done
)

// worker is the memory that one worker uses.
type worker struct {
	memory  []byte // of the code: words and slots
	version int    // of main's slots that it has
	kept    [][]float32
	lanes   [][]float32 // by row sum
	terms   [][]float32 // by total sum that code does not add up: the terms of a row
	sums    [][]float32 // by column sum: that of the current lane
	stack   [][]float32 // by level and column sum: sums of 2^level lanes
	totals  [][]float32 // by total sum that code does not add up: lanes of the flat row
	pair    [][]float32
}

var _ cpu.Job = (*job)(nil)

// Bind implements cpu.Program.
func (p *program) Bind(c *lower.Call, workers int) cpu.Job {
	j, _ := p.jobs.Get().(*job)
	if j == nil {
		j = &job{p: p}
	}
	j.operands = j.operands[:0]
	for i := range c.Operands {
		j.operands = append(j.operands, c.Operands[i].Array)
	}
	j.params = append(j.params[:0], c.Params...)
	j.rows, j.cols = c.Rows, c.Cols
	j.fold()
	if p.apart != nil && !j.isFolded {
		j.Release()
		return p.apart.Bind(c, workers)
	}
	j.entry, j.parts = p.entries.rows, p.entries.parts
	if p.entries.streamed >= 0 && j.isAligned() {
		j.entry, j.parts = p.entries.streamed, p.entries.streamedParts
	}
	j.divide(workers)
	j.prepare(workers)
	j.phase = bound
	return j
}

// fold treats the contiguous operands of a flat definition as one row.
func (j *job) fold() {
	j.isFolded = j.p.flat && cpu.Fold(j.p.d, j.operands)
	if j.isFolded {
		j.rows, j.cols = 1, j.rows*j.cols
	}
}

// isAligned reports whether the rows of all outputs are aligned.
func (j *job) isAligned() bool {
	for i := range j.operands {
		if o := &j.p.d.Operands[i]; o.IsOut && o.Extent == def.PerElement && !isAligned(&j.operands[i]) {
			return false
		}
	}
	return true
}

// divide divides the call into items.
func (j *job) divide(workers int) {
	p := j.p
	elements := max(leastPerItem, min(mostPerItem, j.rows*j.cols/(itemsOfWorker*workers)))
	j.lanes = j.rows
	if len(p.colSums) > 0 {
		j.lanes = min(j.rows, num.ColLanes(j.cols))
	}
	switch {
	case j.isFolded:
		j.perItem = num.FlatRow
		if len(p.totals) == 0 {
			j.perItem = elements &^ (slotBytes - 1) // so that each range is aligned as the first is
		}
		j.items = divideUp(j.cols, j.perItem)
	case len(p.totals) > 0: // flat rows do not end where rows do: one worker takes all
		j.perItem, j.items = j.rows, min(1, j.rows)
	case len(p.colSums) > 0:
		perLane := divideUp(j.rows, max(1, j.lanes)) * j.cols
		j.perItem = 1 // a power of two, so that the lanes are a part of the tree
		for j.perItem*perLane < elements && j.perItem < j.lanes/16 {
			j.perItem *= 2
		}
		j.items = divideUp(j.lanes, j.perItem)
	default:
		j.perItem = max(1, elements/j.cols)
		j.items = divideUp(j.rows, j.perItem)
	}
}

func divideUp(n, by int) int { return (n + by - 1) / by }

// partials returns how many rows of partial column sums there are: one for each item, or
// one for each lane if rows have to be computed in order.
func (j *job) partials() int {
	if len(j.p.totals) > 0 {
		return max(1, j.lanes)
	}
	return max(1, j.items) // that of no rows is zeros
}

// prepare sizes all memory and computes what does not depend on the row.
func (j *job) prepare(workers int) {
	p := j.p
	j.columns = growAll(j.columns, p.columns, j.cols)
	j.partial = growAll(j.partial, len(p.colSums), j.partials()*j.cols)
	if len(p.totals) > 0 || j.rows == 0 {
		for i := range j.partial {
			clear(j.partial[i])
		}
	}
	j.totals = growAll(j.totals, len(p.totals), max(1, divideUp(j.rows*j.cols, num.FlatRow)))
	if j.rows*j.cols == 0 {
		for i := range j.totals {
			j.totals[i][0] = 0
		}
	}
	for len(j.ints) < len(p.ints) {
		j.ints = append(j.ints, nil)
	}
	for i := range p.ints {
		j.ints[i] = slices.Grow(j.ints[i][:0], j.items)[:j.items]
	}
	if p.layout.zeros != 0 {
		j.zeros = alignedFloats(j.zeros, j.cols) // which nobody writes
	}
	for len(j.workers) < workers {
		j.workers = append(j.workers, nil)
	}
	if j.main == nil {
		j.main = newWorker(p)
	}
	w := j.main
	j.prepareWorker(w)
	for _, x := range p.params {
		bits := math.Float32bits(float32(j.params[x.param]))
		if x.isInt {
			bits = uint32(int32(j.params[x.param]))
		}
		w.fill(x.place, bits)
	}
	w.fill(p.s.cols, math.Float32bits(float32(j.cols)))
	w.fill(p.s.rows, math.Float32bits(float32(j.rows)))
	w.fill(p.s.intCols, uint32(j.cols))
	j.call(w, p.entries.once, 1, 1)
	j.perColumn(w, p.entries.onceColumns, 0, j.cols)
	j.version++
}

// worker returns a worker that knows all that main has computed.
func (j *job) worker(number int) *worker {
	w := j.workers[number]
	if w == nil {
		w = newWorker(j.p)
		j.workers[number] = w
	}
	if w.version != j.version {
		w.version = j.version
		copy(w.memory[8*maxWords:], j.main.memory[8*maxWords:])
		j.prepareWorker(w)
	}
	return w
}

// newWorker returns a worker whose memory holds the constants of a program.
func newWorker(p *program) *worker {
	w := &worker{memory: alignedMemory(p.layout.bytes())}
	for bits, at := range p.layout.constants {
		w.fill(at, bits)
	}
	return w
}

// alignedMemory returns memory that begins at a multiple of a slot.
func alignedMemory(bytes int) []byte {
	b := make([]byte, bytes+slotBytes)
	skip := int(-uintptr(unsafe.Pointer(&b[0])) % slotBytes)
	return b[skip:][:bytes:bytes]
}

// alignedFloats returns n floats, s itself if it is large enough. There is room for a
// whole vector behind them.
func alignedFloats(s []float32, n int) []float32 {
	if cap(s) >= n {
		return s[:n]
	}
	b := alignedMemory(4*n + slotBytes)
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)[:n]
}

// growAll returns count slices of at least n floats.
func growAll(s [][]float32, count, n int) [][]float32 {
	for len(s) < count {
		s = append(s, nil)
	}
	for i := range count {
		s[i] = alignedFloats(s[i], n)
	}
	return s
}

// prepareWorker sizes the memory of a worker and tells its code where it is.
func (j *job) prepareWorker(w *worker) {
	p := j.p
	w.kept = growAll(w.kept, p.kept, j.cols)
	w.sums = growAll(w.sums, len(p.colSums), j.cols)
	rowLength := j.cols
	if j.isFolded {
		rowLength = min(j.cols, j.perItem)
	}
	w.lanes = growAll(w.lanes, len(p.layout.sums), p.layout.rowLanes(rowLength))
	for i, at := range p.layout.sums {
		w.set(at, addressOf(w.lanes[i]))
	}
	j.setLanes(w, rowLength)
	if !p.flat {
		w.terms = growAll(w.terms, len(p.totals), j.cols)
		w.totals = growAll(w.totals, len(p.totals), num.RowLanes(num.FlatRow))
	}
	j.pointTables(w)
	for i := range p.layout.arrays {
		switch a := &p.layout.arrays[i]; a.kind {
		case keptArray:
			w.set(a.pointer, addressOf(w.kept[a.index]))
		case sumArray:
			w.set(a.pointer, addressOf(w.sums[a.index]))
		case totalArray:
			w.set(a.pointer, addressOf(w.terms[a.index]))
		case columnArray:
			w.set(a.pointer, addressOf(j.columns[a.index]))
		}
	}
}

// pointTables tells code where tables are.
func (j *job) pointTables(w *worker) {
	for i, t := range j.p.layout.tables {
		a := &j.operands[i]
		w.set(t.pointer, uintptr(unsafe.Pointer(unsafe.SliceData(a.Data))))
		w.set(t.stride, uintptr(a.Stride*a.DType.Size()))
		w.set(t.rows, uintptr(a.Rows))
	}
	if at := j.p.layout.zeros; at != 0 {
		w.set(at, addressOf(j.zeros))
	}
}

// setLanes tells code how many lanes the sums over a row of that length have.
func (j *job) setLanes(w *worker, length int) {
	lanes := j.p.layout.rowLanes(length)
	w.set(wordMask, uintptr(lanes-1))
	// Lanes beyond the row are zero, and change no sum.
	used := j.p.lanes
	for used < min(lanes, length) {
		used *= 2
	}
	w.set(wordVectors, uintptr(used/j.p.lanes))
}

func addressOf(x []float32) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(x))) }

// set sets a word of the code's memory.
func (w *worker) set(at place, x uintptr) { *(*uintptr)(unsafe.Pointer(&w.memory[at])) = x }

// fill sets all lanes of a slot; place 0 is none.
func (w *worker) fill(at place, bits uint32) {
	if at == 0 {
		return
	}
	slot := (*[slotBytes / 4]uint32)(unsafe.Pointer(&w.memory[at]))
	for i := range slot {
		slot[i] = bits
	}
}

// first returns the first lane of a slot.
func (w *worker) first(at place) float32 { return *(*float32)(unsafe.Pointer(&w.memory[at])) }

// call calls a function, if there is one, on rows of the given number of columns.
func (j *job) call(w *worker, entry, rows, cols int) {
	if entry < 0 {
		return
	}
	w.set(wordRows, uintptr(rows))
	w.set(wordCols, uintptr(cols))
	j.p.code.Call(entry, unsafe.Pointer(&w.memory[0]))
}

// point sets the addresses of the operands to a row and column, and their strides to step
// rows.
func (j *job) point(w *worker, row, col, step int) {
	for i := range j.p.layout.arrays {
		a := &j.p.layout.arrays[i]
		if a.kind != operandArray {
			continue
		}
		o := &j.operands[a.index]
		size := o.DType.Size()
		offset := 0
		extent := j.p.d.Operands[a.index].Extent
		if extent&def.PerRow != 0 {
			offset = row * o.Stride * size
			w.set(a.stride, uintptr(step*o.Stride*size))
		}
		if extent&def.PerColumn != 0 {
			offset += col * size
		}
		w.set(a.pointer, uintptr(unsafe.Pointer(unsafe.SliceData(o.Data)))+uintptr(offset))
	}
	if s := j.p.s; s.elementLow != 0 {
		e, by := uint64(row)*uint64(j.cols)+uint64(col), uint64(step)*uint64(j.cols)
		w.fill(s.elementLow, uint32(e))
		w.fill(s.elementHigh, uint32(e>>32))
		w.fill(s.stepLow, uint32(by))
		w.fill(s.stepHigh, uint32(by>>32))
	}
}

// Next implements cpu.Job.
func (j *job) Next() (int, bool) {
	switch j.phase {
	case bound:
		j.phase = rowsPhase
		return j.items, true
	case rowsPhase:
		j.finishTotals()
		if j.p.entries.lateColumns >= 0 {
			j.phase = columnsPhase
			return divideUp(j.cols, columnsPerItem), true
		}
	}
	j.phase = done
	return 0, false
}

// Do implements cpu.Job.
func (j *job) Do(worker, item int) {
	w := j.worker(worker)
	if j.phase == columnsPhase {
		j.finishColumns(w, item*columnsPerItem)
		return
	}
	for _, n := range j.p.ints {
		w.fill(j.p.s.intTotals[n], 0)
	}
	j.rowsOfItem(w, item)
	for i, n := range j.p.ints {
		j.ints[i][item] = math.Float32bits(w.first(j.p.s.intTotals[n]))
	}
}

// rowsOfItem computes the rows of an item.
func (j *job) rowsOfItem(w *worker, item int) {
	switch {
	case j.isFolded:
		j.flatRange(w, item)
	case len(j.p.totals) > 0:
		j.rowsInOrder(w)
	case len(j.p.colSums) > 0:
		j.lanesOfItem(w, item)
	default:
		first := item * j.perItem
		j.rowRange(w, first, min(j.perItem, j.rows-first), 1)
	}
}

// Release implements cpu.Job.
func (j *job) Release() {
	clear(j.operands)
	j.p.jobs.Put(j)
}

// rowRange computes rows that are step rows apart.
func (j *job) rowRange(w *worker, first, count, step int) {
	if j.parts != nil && j.cols > j.p.perCall {
		for row := first; count > 0; count, row = count-1, row+step {
			j.point(w, row, 0, step)
			j.rowInParts(w, j.cols)
		}
		return
	}
	j.point(w, first, 0, step)
	perCall := max(1, j.p.perCall/j.cols)
	for ; count > 0; count -= perCall {
		j.call(w, j.entry, min(count, perCall), j.cols)
	}
}

// rowInParts computes a row of that many columns by short calls.
func (j *job) rowInParts(w *worker, cols int) {
	for _, x := range j.parts {
		if !x.isColumns {
			j.call(w, x.entry, 1, cols)
			continue
		}
		for first := 0; first < cols; first += j.p.perCall {
			w.set(wordFirst, uintptr(first))
			j.call(w, x.entry, 1, min(first+j.p.perCall, cols))
		}
	}
}

// flatRange computes an item of a flat definition: a flat row if there are total sums.
func (j *job) flatRange(w *worker, item int) {
	first := item * j.perItem
	end := min(first+j.perItem, j.cols)
	switch {
	case len(j.p.totals) == 0:
		for ; first < end; first += j.p.perCall {
			j.point(w, 0, first, 1)
			j.call(w, j.entry, 1, min(j.p.perCall, end-first))
		}
	case j.parts != nil && end-first > j.p.perCall:
		j.setLanes(w, end-first)
		j.point(w, 0, first, 1)
		j.rowInParts(w, end-first)
	default:
		j.setLanes(w, end-first)
		j.point(w, 0, first, 1)
		j.call(w, j.entry, 1, end-first)
	}
	for i, total := range j.p.totals {
		j.totals[i][item] = w.first(j.p.s.uniform[total])
	}
}

// lanesOfItem computes the rows of an item's lanes of the column sums, lane by lane, so
// that the sums of a lane stay in the cache. Lanes are added up as a tree as they
// are computed.
func (j *job) lanesOfItem(w *worker, item int) {
	sums := len(j.p.colSums)
	first := item * j.perItem
	count := min(j.perItem, j.lanes-first)
	for lane := range count {
		for i := range w.sums {
			clear(w.sums[i])
		}
		j.rowRange(w, first+lane, divideUp(j.rows-first-lane, j.lanes), j.lanes)
		level := 0
		for ; lane>>level&1 == 1; level++ {
			j.join(w, w.sums, w.stack[level*sums:])
		}
		for len(w.stack) < (level+1)*sums {
			w.stack = append(w.stack, nil)
		}
		for i := range sums {
			at := &w.stack[level*sums+i]
			*at = alignedFloats(*at, j.cols)
			w.sums[i], *at = *at, w.sums[i]
		}
		j.pointSums(w)
	}
	var rest [][]float32 // of a number of lanes that is no power of two
	for level := 0; count>>level > 0; level++ {
		if count>>level&1 == 1 {
			all := w.stack[level*sums:][:sums]
			if rest != nil {
				j.join(w, all, rest)
			}
			rest = all
		}
	}
	for i := range sums {
		copy(j.partial[i][item*j.cols:], rest[i])
	}
}

// pointSums tells code where the sums of the current lane are.
func (j *job) pointSums(w *worker) {
	for i := range j.p.layout.arrays {
		if a := &j.p.layout.arrays[i]; a.kind == sumArray {
			w.set(a.pointer, addressOf(w.sums[a.index]))
		}
	}
}

// join adds the column sums y to x, and points code at the current lane again.
func (j *job) join(w *worker, x, y [][]float32) {
	for first, n := 0, len(x[0]); first < n; first += num.FlatRow {
		for i := range j.p.layout.arrays {
			switch a := &j.p.layout.arrays[i]; a.kind {
			case sumArray:
				w.set(a.pointer, addressOf(x[a.index][first:]))
			case addendArray:
				w.set(a.pointer, addressOf(y[a.index][first:]))
			}
		}
		j.call(w, j.p.entries.join, 1, min(num.FlatRow, n-first))
	}
	j.pointSums(w)
}

// rowsInOrder computes all rows one after the other, for total sums whose flat rows do not
// end where rows do.
func (j *job) rowsInOrder(w *worker) {
	for row := range j.rows {
		for i := range j.p.layout.arrays {
			if a := &j.p.layout.arrays[i]; a.kind == sumArray {
				w.set(a.pointer, addressOf(j.partial[a.index][row%j.lanes*j.cols:]))
			}
		}
		j.rowRange(w, row, 1, 1)
		for i := range j.p.totals {
			j.addToTotal(w, i, w.terms[i], row*j.cols)
		}
	}
	j.pointSums(w)
}

// addToTotal adds terms from flat index e on to the lanes of their flat row, and stores
// the row's sum when it is complete.
func (j *job) addToTotal(w *worker, sum int, x []float32, e int) {
	for len(x) > 0 {
		row, at := e/num.FlatRow, e%num.FlatRow
		length := min(num.FlatRow, j.rows*j.cols-row*num.FlatRow)
		n := min(len(x), length-at)
		lanes := w.totals[sum][:num.RowLanes(length)]
		if at == 0 {
			clear(lanes)
		}
		for i, v := range x[:n] {
			lanes[(at+i)&(len(lanes)-1)] += v
		}
		if at+n == length {
			j.totals[sum][row] = num.Tree(lanes[:min(len(lanes), length)])
		}
		x = x[n:]
		e += n
	}
}

// finishTotals adds up the sums of flat rows, and computes the single values that follow.
func (j *job) finishTotals() {
	w := j.main
	for i, n := range j.p.totals {
		x := j.totals[i]
		for len(x) > 1 {
			sums := 0
			for first := 0; first < len(x); first += num.FlatRow {
				row := x[first:min(first+num.FlatRow, len(x))]
				x[sums] = num.LaneSum(row, num.RowLanes(len(row)))
				sums++
			}
			x = x[:sums]
		}
		w.fill(j.p.s.uniform[n], math.Float32bits(x[0]))
	}
	for i, n := range j.p.ints {
		sum := uint32(0)
		for _, x := range j.ints[i] {
			sum += x
		}
		w.fill(j.p.s.uniform[n], sum)
	}
	j.point(w, 0, 0, 1)
	j.call(w, j.p.entries.late, 1, j.cols)
	j.version++
}

// columnsPerItem is how many columns a worker takes at a time.
const columnsPerItem = 1 << 11

// finishColumns adds up the partial sums of a block of columns, and computes and stores the
// values per column that follow.
func (j *job) finishColumns(w *worker, col int) {
	n := min(columnsPerItem, j.cols-col)
	x, y := w.pairs(len(j.p.colSums))
	count := j.partials()
	for step := 1; step < count && len(x) > 0; step *= 2 {
		for l := 0; l+step < count; l += 2 * step {
			for i := range j.p.colSums {
				x[i] = j.partial[i][l*j.cols+col:][:n]
				y[i] = j.partial[i][(l+step)*j.cols+col:][:n]
			}
			j.join(w, x, y)
		}
	}
	for i, sum := range j.p.colSums {
		if at, ok := j.p.s.columns[sum]; ok {
			copy(j.columns[at][col:], j.partial[i][col:][:n])
		}
	}
	j.perColumn(w, j.p.entries.lateColumns, col, n)
}

// pairs returns two lists of n slices.
func (w *worker) pairs(n int) (x, y [][]float32) {
	if len(w.pair) < 2*n {
		w.pair = make([][]float32, 2*n)
	}
	return w.pair[:n], w.pair[n : 2*n]
}

// perColumn calls a function on a range of columns.
func (j *job) perColumn(w *worker, entry, col, n int) {
	if entry < 0 {
		return
	}
	for end := col + n; col < end; col += j.p.perCall {
		j.point(w, 0, col, 1)
		for i := range j.p.layout.arrays {
			if a := &j.p.layout.arrays[i]; a.kind == columnArray {
				w.set(a.pointer, addressOf(j.columns[a.index][col:]))
			}
		}
		j.call(w, entry, 1, min(j.p.perCall, end-col))
	}
	for i := range j.p.layout.arrays {
		if a := &j.p.layout.arrays[i]; a.kind == columnArray {
			w.set(a.pointer, addressOf(j.columns[a.index]))
		}
	}
}
