package cpu

import (
	"math"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// rowJob is one execution of a vector program.
type rowJob struct {
	p        *rowwise
	operands []num.Array
	params   []float64
	rows     int
	cols     int
	phase    phase

	// An item is the rows r with r mod lanes in [item·perItem, (item+1)·perItem), or a
	// flat range of perItem elements.
	lanes   int
	perItem int

	single    []float32   // by Node.ID: values of the call (late ones too)
	columnar  [][]float32 // by slot: values per column
	colLanes  [][]float32 // by column sum: lanes × cols
	totals    [][]float32 // by total sum: the sums of the flat rows
	scratch   []float32   // lanes of the sum of the totals
	workers   []*worker
	active    int // workers of this execution
	maxLength int // of a piece
}

type phase uint8

const (
	bound phase = iota // nothing has run yet
	rowsPhase
	columnsPhase
	done
)

// worker is the memory that one worker uses.
type worker struct {
	frame  [][]float32 // by slot, for the current piece
	memory [][]float32 // by slot: what is the worker's own
	single []float32   // by Node.ID: values of the row
	best   []float32   // by Node.ID of an arg-max or arg-min: the value in its column
	lanes  [][]float32 // by row sum
	total  [][]float32 // by total sum
}

// piece is a part of a row: columns col … col+n−1; e is the flat index of its
// first element.
type piece struct {
	row, col, n, e int
}

// Bind implements Program.
func (p *rowwise) Bind(c *lower.Call, workers int) Job {
	j, _ := p.jobs.Get().(*rowJob)
	if j == nil {
		j = &rowJob{p: p}
	}
	j.operands = j.operands[:0]
	for i := range c.Operands {
		j.operands = append(j.operands, c.Operands[i].Array)
	}
	j.params = append(j.params[:0], c.Params...)
	j.rows, j.cols = c.Rows, c.Cols
	j.fold()
	j.prepare(workers)
	j.phase = bound
	return j
}

// fold treats the contiguous operands of a flat definition as one row.
func (j *rowJob) fold() {
	if j.p.flat && Fold(j.p.d, j.operands) {
		j.rows, j.cols = 1, j.rows*j.cols
	}
	j.maxLength = min(chunk, j.cols)
}

// Fold makes one row of the elements of a flat definition's operands, if they are contiguous, and
// reports whether they are.
func Fold(d *def.Definition, operands []num.Array) bool {
	for i := range operands {
		if a := &operands[i]; d.Operands[i].Extent == def.PerElement && a.Stride != a.Cols && a.Rows != 1 {
			return false
		}
	}
	for i := range operands {
		if a := &operands[i]; d.Operands[i].Extent == def.PerElement {
			a.Rows, a.Cols, a.Stride = 1, a.Rows*a.Cols, a.Rows*a.Cols
		}
	}
	return true
}

// prepare sizes all scratch memory and computes what does not depend on the row.
func (j *rowJob) prepare(workers int) {
	p := j.p
	j.lanes = j.rows
	if len(p.columnSums) > 0 {
		j.lanes = min(max(1, j.rows), num.ColLanes(j.cols)) // the lane of no rows is zeros
	}
	if p.flat {
		j.perItem = num.FlatRow
		if len(p.totalSums) == 0 {
			j.perItem = 1 << 14
		}
	} else {
		j.perItem = max(1, 1<<14/j.cols)
		if len(p.totalSums) > 0 {
			j.perItem = max(1, j.lanes) // flat rows do not end where rows do: one worker takes all
		}
	}

	j.single = grow(j.single, len(p.d.Exec().Nodes))
	j.columnar = growAll(j.columnar, len(p.slots))
	for s, plan := range p.slots {
		if plan.memory == perColumn {
			j.columnar[s] = grow(j.columnar[s], j.cols)
		}
	}
	j.colLanes = growAll(j.colLanes, len(p.columnSums))
	for i := range p.columnSums {
		j.colLanes[i] = grow(j.colLanes[i], j.lanes*j.cols)
		clear(j.colLanes[i])
	}
	j.totals = growAll(j.totals, len(p.totalSums))
	for i := range p.totalSums {
		j.totals[i] = grow(j.totals[i], max(1, (j.rows*j.cols+num.FlatRow-1)/num.FlatRow))
		if j.rows*j.cols == 0 {
			j.totals[i][0] = 0
		}
	}
	j.active = workers
	for len(j.workers) < workers {
		j.workers = append(j.workers, &worker{})
	}
	for _, w := range j.workers[:workers] {
		j.prepareWorker(w)
	}

	j.evaluate(j.single, &p.scalars, 0)
	w := j.workers[0]
	j.fill(w, &p.scalars, j.single)
	for col := 0; len(p.once) > 0 && col < j.cols; col += chunk {
		j.execute(w, p.once, piece{col: col, n: min(chunk, j.cols-col)})
	}
	for _, w := range j.workers[:workers] {
		copy(w.single, j.single)
		j.fill(w, &p.scalars, j.single)
	}
}

// prepareWorker sizes the scratch memory of a worker.
func (j *rowJob) prepareWorker(w *worker) {
	p := j.p
	w.frame = growAll(w.frame, len(p.slots))
	w.memory = growAll(w.memory, len(p.slots))
	for s, plan := range p.slots {
		switch plan.memory {
		case temporary, broadcast:
			w.memory[s] = grow(w.memory[s], j.maxLength)
		case keptRow:
			w.memory[s] = grow(w.memory[s], j.cols)
		}
	}
	w.single = grow(w.single, len(p.d.Exec().Nodes))
	w.best = grow(w.best, len(p.d.Exec().Nodes))
	w.lanes = growAll(w.lanes, p.rowSums)
	lanes := p.sumLanes
	if lanes == 0 {
		lanes = num.RowLanes(j.cols)
	}
	for i := range w.lanes {
		w.lanes[i] = grow(w.lanes[i], lanes)
	}
	w.total = growAll(w.total, len(p.totalSums))
	for i := range w.total {
		w.total[i] = grow(w.total[i], num.RowLanes(num.FlatRow))
	}
}

// Next implements Job.
func (j *rowJob) Next() (int, bool) {
	switch j.phase {
	case bound:
		j.phase = rowsPhase
		if j.p.flat {
			return (j.rows*j.cols + j.perItem - 1) / j.perItem, true
		}
		return (j.lanes + j.perItem - 1) / j.perItem, true
	case rowsPhase:
		j.finishTotals()
		if len(j.p.columns) > 0 {
			j.phase = columnsPhase
			return (j.cols + chunk - 1) / chunk, true
		}
	}
	j.phase = done
	return 0, false
}

// Do implements Job.
func (j *rowJob) Do(worker, item int) {
	w := j.workers[worker]
	switch {
	case j.phase == columnsPhase:
		j.finishColumns(w, item*chunk)
	case j.p.flat:
		j.flatRange(w, item)
	default:
		for first := 0; first < j.rows; first += j.lanes {
			end := min(first+min((item+1)*j.perItem, j.lanes), j.rows)
			for r := first + item*j.perItem; r < end; r++ {
				j.oneRow(w, r)
			}
		}
	}
}

// Release implements Job.
func (j *rowJob) Release() {
	clear(j.operands)
	for _, w := range j.workers {
		clear(w.frame)
	}
	j.p.jobs.Put(j)
}

// flatRange computes the elements of an item of a flat definition.
func (j *rowJob) flatRange(w *worker, item int) {
	first := item * j.perItem
	end := min(first+j.perItem, j.rows*j.cols)
	for e := first; e < end; {
		at := piece{row: e / j.cols, col: e % j.cols, e: e}
		at.n = min(chunk, end-e, j.cols-at.col)
		j.execute(w, j.p.passes[0].code, at)
		e += at.n
	}
}

// addToTotal adds elements from flat index e on to the lanes of their flat row, and stores
// the row's sum when it is complete. All elements of a flat row go to one worker, in
// ascending order.
func (j *rowJob) addToTotal(w *worker, sum int, x []float32, e int) {
	for len(x) > 0 {
		row, at := e/num.FlatRow, e%num.FlatRow
		length := min(num.FlatRow, j.rows*j.cols-row*num.FlatRow)
		n := min(len(x), length-at)
		lanes := w.total[sum][:num.RowLanes(length)]
		if at == 0 {
			clear(lanes)
		}
		of := j.p.totalSums[sum].Type
		addToLanes(plus(of), lanes, x[:n], at)
		if at+n == length {
			j.totals[sum][row] = treeOf(of, lanes[:min(len(lanes), length)])
		}
		x = x[n:]
		e += n
	}
}

// oneRow computes everything that belongs to a row.
func (j *rowJob) oneRow(w *worker, row int) {
	p := j.p
	j.evaluate(w.single, &p.start, row)
	j.fill(w, &p.start, w.single)
	for i := range p.passes {
		pass := &p.passes[i]
		for _, n := range pass.reductions {
			j.begin(w, n)
		}
		for col := 0; col < j.cols; col += chunk {
			j.execute(w, pass.code, piece{row: row, col: col, n: min(chunk, j.cols-col), e: row*j.cols + col})
		}
		for _, in := range pass.code {
			if in.action == actRowSum {
				w.single[in.node.ID] = treeOf(in.node.Type, w.lanes[in.sum][:min(len(w.lanes[in.sum]), j.cols)])
				clear(w.lanes[in.sum])
			}
		}
		j.evaluate(w.single, &pass.after, row)
		j.fill(w, &pass.after, w.single)
	}
	for i := range p.rowOutputs {
		o := &p.rowOutputs[i]
		Store(&j.operands[o.Operand], row, 0, w.single[o.Node.ID:][:1])
	}
}

// begin sets a reduction to its value for an empty row.
func (j *rowJob) begin(w *worker, n *def.Node) {
	w.single[n.ID] = 0
	switch n.Op {
	case def.OpRowMax:
		w.single[n.ID] = float32(math.Inf(-1))
	case def.OpRowMin:
		w.single[n.ID] = float32(math.Inf(1))
	case def.OpRowArgMax:
		w.best[n.ID] = float32(math.Inf(-1))
	case def.OpRowArgMin:
		w.best[n.ID] = float32(math.Inf(1))
	}
}

// fill broadcasts single values.
func (j *rowJob) fill(w *worker, values *singles, single []float32) {
	for _, s := range values.fills {
		fill(w.memory[s], single[j.p.slots[s].node.ID])
	}
}

// execute runs code on a piece.
func (j *rowJob) execute(w *worker, code []instruction, at piece) {
	j.setFrame(w, at)
	for i := range code {
		in := &code[i]
		switch in.action {
		case actApply:
			d := w.frame[in.dst]
			switch {
			case in.c != noSlot:
				in.run(d, w.frame[in.a], w.frame[in.b], w.frame[in.c])
			case in.b != noSlot:
				in.run(d, w.frame[in.a], w.frame[in.b], nil)
			default:
				in.run(d, w.frame[in.a], nil, nil)
			}
		case actLoad:
			Load(w.frame[in.dst], &j.operands[in.operand], j.rowOf(in.operand, at), at.col)
		case actStored:
			LoadPatterns(w.frame[in.dst], &j.operands[in.operand], j.rowOf(in.operand, at), at.col)
		case actLookup:
			j.lookup(w.frame[in.dst], in.operand, ints(w.single)[in.node.Args[1].ID], at.col)
		case actCol:
			for i, x := 0, ints(w.frame[in.dst]); i < len(x); i++ {
				x[i] = int32(at.col + i)
			}
		case actColFloat:
			for i, x := 0, w.frame[in.dst]; i < len(x); i++ {
				x[i] = float32(at.col + i)
			}
		case actRandom:
			j.words(w.frame[in.dst], w.single, in.node, at)
		case actInside:
			x, a := ints(w.frame[in.dst]), ints(w.frame[in.a])
			for i := range x {
				x[i] = truth(a[i] >= 0 && int(a[i]) < j.cols)
			}
		case actRowSum:
			addToLanes(plus(in.node.Type), w.lanes[in.sum], w.frame[in.a], at.col)
		case actRowMax:
			w.single[in.node.ID] = maxOf(w.single[in.node.ID], w.frame[in.a])
		case actRowMin:
			w.single[in.node.ID] = minOf(w.single[in.node.ID], w.frame[in.a])
		case actRowArgMax:
			id := in.node.ID
			w.best[id] = argMaxOf(w.best[id], &ints(w.single)[id], w.frame[in.a], at.col)
		case actRowArgMin:
			id := in.node.ID
			w.best[id] = argMinOf(w.best[id], &ints(w.single)[id], w.frame[in.a], at.col)
		case actAt:
			k := int(ints(w.single)[in.node.Args[1].ID]) - at.col
			if k >= 0 && k < at.n {
				w.single[in.node.ID] = w.frame[in.a][k]
			}
		case actColSum:
			lane := at.row % j.lanes * j.cols
			sum := j.colLanes[in.sum][lane+at.col:][:at.n]
			plus(in.node.Type)(sum, sum, w.frame[in.a], nil)
		case actTotalSum:
			j.addToTotal(w, in.sum, w.frame[in.a], at.e)
		case actStore:
			Store(&j.operands[in.operand], j.rowOf(in.operand, at), at.col, w.frame[in.a])
		}
	}
}

// setFrame points the slots of a worker at a piece.
func (j *rowJob) setFrame(w *worker, at piece) {
	for s := range j.p.slots {
		switch plan := &j.p.slots[s]; plan.memory {
		case temporary, broadcast:
			w.frame[s] = w.memory[s][:at.n]
		case keptRow:
			w.frame[s] = w.memory[s][at.col : at.col+at.n]
		case perColumn:
			w.frame[s] = j.columnar[s][at.col : at.col+at.n]
		case inputView:
			a := &j.operands[plan.operand]
			w.frame[s] = view[float32](a, j.rowOf(plan.operand, at), at.col, at.n)
		}
	}
}

// rowOf returns the row of an operand that a piece belongs to.
func (j *rowJob) rowOf(operand int, at piece) int {
	if j.p.d.Operands[operand].Extent&def.PerRow == 0 {
		return 0
	}
	return at.row
}

// finishTotals adds up the sums of flat rows, and computes the single values that follow.
func (j *rowJob) finishTotals() {
	for i, n := range j.p.totalSums {
		x := j.totals[i]
		for len(x) > 1 {
			sums := 0
			for first := 0; first < len(x); first += num.FlatRow {
				row := x[first:min(first+num.FlatRow, len(x))]
				j.scratch = grow(j.scratch, num.RowLanes(len(row)))
				clear(j.scratch)
				addToLanes(plus(n.Type), j.scratch, row, 0)
				x[sums] = treeOf(n.Type, j.scratch[:min(len(j.scratch), len(row))])
				sums++
			}
			x = x[:sums]
		}
		j.single[n.ID] = x[0]
	}
	j.evaluate(j.single, &j.p.lateScalars, 0)
	for _, o := range j.p.scalarOutputs {
		Store(&j.operands[o.Operand], 0, 0, j.single[o.Node.ID:][:1])
	}
	for _, w := range j.workers[:j.active] {
		j.fill(w, &j.p.lateScalars, j.single)
	}
}

// finishColumns adds up the lanes of a block of columns, and computes and stores
// the values per column that follow.
func (j *rowJob) finishColumns(w *worker, col int) {
	at := piece{col: col, n: min(chunk, j.cols-col)}
	for i, n := range j.p.columnSums {
		lane := func(l int) []float32 { return j.colLanes[i][l*j.cols+col:][:at.n] }
		for count := j.lanes; count > 1; count = (count + 1) / 2 {
			for l := range count / 2 {
				plus(n.Type)(lane(l), lane(2*l), lane(2*l+1), nil)
			}
			if count%2 == 1 {
				copy(lane(count/2), lane(count-1))
			}
		}
		for s, plan := range j.p.slots {
			if plan.memory == perColumn && plan.node == n {
				copy(j.columnar[s][col:], lane(0))
			}
		}
	}
	j.execute(w, j.p.columns, at)
}

// evaluate computes single values of a row or of the call.
func (j *rowJob) evaluate(values []float32, all *singles, row int) {
	for i := range all.values {
		j.evaluateSingle(values, &all.values[i], row)
	}
}

// evaluateSingle computes one value with the same primitives, on slices of one.
func (j *rowJob) evaluateSingle(values []float32, v *single, row int) {
	n := v.node
	out := values[n.ID : n.ID+1]
	arg := func(i int) []float32 {
		if i < len(n.Args) {
			return values[n.Args[i].ID : n.Args[i].ID+1]
		}
		return nil
	}
	switch n.Op {
	case def.OpInput:
		Load(out, &j.operands[n.Operand], row, 0)
	case def.OpStored:
		LoadPatterns(out, &j.operands[n.Operand], row, 0)
	case def.OpLookup:
		j.lookup(out, n.Args[0].Operand, ints(values)[n.Args[1].ID], 0)
	case def.OpParam:
		if n.Type == def.Int {
			ints(out)[0] = int32(j.params[n.Param])
		} else {
			out[0] = float32(j.params[n.Param])
		}
	case def.OpConst:
		out[0] = n.Real.F32()
	case def.OpInt:
		ints(out)[0] = n.Int
	case def.OpColumns:
		out[0] = float32(j.cols)
	case def.OpRows:
		out[0] = float32(j.rows)
	case def.OpInside:
		i := ints(arg(0))[0]
		ints(out)[0] = truth(i >= 0 && int(i) < j.cols)
	case def.OpAt:
		out[0] = 0
		if i := int(ints(arg(1))[0]); i >= 0 && i < j.cols {
			Load(out, &j.operands[n.Args[0].Operand], row, i)
		}
	default:
		v.run(out, arg(0), arg(1), arg(2))
	}
}

// lookup reads a row of a table from a column on, or +0 if the table has no such row.
func (j *rowJob) lookup(d []float32, operand int, row int32, col int) {
	if a := &j.operands[operand]; row >= 0 && int(row) < a.Rows {
		Load(d, a, int(row), col)
	} else {
		clear(d)
	}
}

// words fills d with the words of a piece's elements: random ones, or their numbers.
func (j *rowJob) words(d []float32, single []float32, n *def.Node, at piece) {
	x, s := ints(d), ints(single)
	arg := func(i int) uint32 { return uint32(s[n.Args[i].ID]) }
	wide := func(i int) uint64 { return uint64(arg(i)) | uint64(arg(i+1))<<32 }
	first := uint64(at.e)
	block := func(e uint64) [4]uint32 { return [4]uint32{uint32(e >> 2), uint32(e >> 34), arg(2), arg(3)} }
	switch n.Op {
	case def.OpElement:
		first += wide(0)
		for i := range x {
			x[i] = int32(uint32(first + uint64(i)))
		}
		return
	case def.OpElementHigh:
		first += wide(0)
		for i := range x {
			x[i] = int32(uint32((first + uint64(i)) >> 32))
		}
		return
	case def.OpRandomRow:
		first = uint64(at.col)
		block = func(e uint64) [4]uint32 { return [4]uint32{uint32(e >> 2), arg(2), arg(3), arg(4)} }
	case def.OpRandom:
		if len(n.Args) > 4 {
			first += wide(4)
		}
	}
	seed := wide(0)
	for i := 0; i < len(x); {
		e := first + uint64(i)
		words := num.Philox(seed, block(e))
		for k := e & 3; k < 4 && i < len(x); k++ {
			x[i] = int32(words[k])
			i++
		}
	}
}
