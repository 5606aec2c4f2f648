package cpu

import (
	"fmt"
	"math"
	"sync"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// streamTile is how many queries of one head a worker takes at a time.
const streamTile = 128

// stream computes a stream by the programs of its parts: for each tile of queries, block after block
// of keys.
type stream struct {
	d     *def.Definition
	f     *def.Stream
	dtype num.DType
	accum def.Accum
	jobs  sync.Pool

	scores, body, scales, values, finite, joins, folds, means, logs Program

	weigh [2]Program // blocks of which every query sees every key, and others
}

func compileStream(d *def.Definition, dtypes []num.DType, _ Class) (Program, error) {
	return CompileStream(d, dtypes, def.FMAChain, CompilePiece)
}

// CompileStream lowers a stream to a program that runs those which compile makes of its parts. Their
// products have the given model.
func CompileStream(d *def.Definition, dtypes []num.DType, accum def.Accum, compile func(part lower.Piece, dtypes []num.DType) (Program, error)) (Program, error) {
	f := d.Form.(*def.Stream)
	p := &stream{d: d, f: f, dtype: dtypes[f.Query], accum: accum}
	parts, err := lower.PartsOf(f, p.dtype)
	if err != nil {
		return nil, err
	}
	const f32 = num.F32
	weigh := append(bodyDTypes(f, dtypes)[:len(f.Reads)], f32, f32)
	if p.dtype != f32 {
		weigh = append(weigh, p.dtype)
	}
	weigh = append(weigh, f32, f32, f32)
	for _, part := range []struct {
		to     *Program
		d      *def.Definition
		dtypes []num.DType
	}{
		{&p.scores, parts.Scores, []num.DType{p.dtype, p.dtype, f32}},
		{&p.body, parts.Body, bodyDTypes(f, dtypes)},
		{&p.scales, parts.Scales, []num.DType{f32, f32, f32}},
		{&p.values, parts.Values, []num.DType{p.dtype, p.dtype, f32}},
		{&p.finite, parts.Finite, []num.DType{p.dtype, f32}},
		{&p.joins, parts.Joins, []num.DType{f32, f32, f32, f32, f32}},
		{&p.folds, parts.Folds, []num.DType{f32, f32, f32, f32}},
		{&p.means, parts.Means, []num.DType{f32, f32, p.dtype}},
		{&p.logs, parts.Logs, []num.DType{f32, f32, f32}},
	} {
		if *part.to, err = compile(lower.Piece{Definition: part.d}, part.dtypes); err != nil {
			return nil, err
		}
	}
	for i := range parts.Weigh {
		if p.weigh[i], err = compile(parts.Weigh[i], weigh); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// bodyDTypes returns the formats of the body's operands.
func bodyDTypes(f *def.Stream, dtypes []num.DType) []num.DType {
	body := make([]num.DType, len(f.Body.Operands))
	for i := range body {
		switch {
		case f.Body.Operands[i].IsInt():
			body[i] = num.I32
		case i < len(f.Reads) && f.Reads[i] >= 0:
			body[i] = dtypes[f.Reads[i]]
		default:
			body[i] = num.F32
		}
	}
	return body
}

func (p *stream) String() string {
	return fmt.Sprintf("stream %s: tiles of %d queries, blocks of %d keys, by a program for each step, rule %s\n", p.d.Name, streamTile, def.StreamBlock, p.accum)
}

type streamJob struct {
	p                       *stream
	operands                []num.Array
	params                  []float64
	tokens, heads, shared   int
	depth, sequences, slots int
	started                 bool
	workers                 []*streamWorker
}

// streamWorker is the memory of one worker: a tile and a block.
type streamWorker struct {
	call            lower.Call
	body            []num.Array // what it reads and gives, the scores first
	weights         num.Array   // as stored; in f32 they take the place of the scores
	part, all       carried
	a, b, n, sum    num.Array // per row
	kept            num.Array // rows of which only those that are seen are copied
	checked         num.Array // per row: what is not finite
	arrays          []num.Array
	rows, keys      int // of the tile, or of a strip of it, and of the block
	first, firstKey int // of the tile and, where keys do not lie in pages, of its sequence
	sequence        int
}

// carried is the state of a tile's rows between blocks.
type carried struct {
	o, m, l num.Array // l and m have a column
}

func (c *carried) room(rows, depth int) {
	room(&c.o, num.F32, rows, depth)
	room(&c.m, num.F32, rows, 1)
	room(&c.l, num.F32, rows, 1)
}

// Bind implements Program.
func (p *stream) Bind(c *lower.Call, workers int) Job {
	j, _ := p.jobs.Get().(*streamJob)
	if j == nil {
		j = &streamJob{p: p}
	}
	j.bind(c)
	j.slots = lower.GroupSlots(j.tokens, streamTile, j.sequences)
	for len(j.workers) < workers {
		j.workers = append(j.workers, &streamWorker{})
	}
	return j
}

// bind takes the operands of a call.
func (j *streamJob) bind(c *lower.Call) {
	p := j.p
	j.operands = j.operands[:0]
	for i := range c.Operands {
		j.operands = append(j.operands, c.Operands[i].Array)
	}
	j.params = append(j.params[:0], c.Params...)
	j.tokens, j.heads, j.shared, j.depth = c.Size(p.d, "T"), c.Size(p.d, "G"), c.Size(p.d, "J"), c.Size(p.d, "D")
	j.sequences = j.operands[p.f.QueryStarts].Rows - 1
	j.started = false
}

// Next implements Job.
func (j *streamJob) Next() (int, bool) {
	if j.started {
		return 0, false
	}
	j.started = true
	return j.slots * j.heads * j.shared, true
}

// Release implements Job.
func (j *streamJob) Release() {
	clear(j.operands) // the pool must not keep operands alive
	j.p.jobs.Put(j)
}

// Do implements Job: a tile of queries of one head.
func (j *streamJob) Do(worker, item int) {
	f := j.p.f
	slot, head := item/(j.heads*j.shared), item%(j.heads*j.shared)
	queries := &j.operands[f.QueryStarts]
	at := func(b int) int { return int(queries.Int(b, 0)) }
	b := lower.GroupOf(at, j.sequences, streamTile, slot)
	first := at(b) + (slot-lower.GroupSlot(at(b), streamTile, b))*streamTile
	rows := min(streamTile, at(b+1)-first)
	if rows <= 0 {
		return
	}
	w, n := j.workers[worker], 0
	if w.sequence = b; f.IsPaged() {
		n = int(j.operands[f.Lengths].Int(b, 0))
	} else {
		keys := &j.operands[f.KeyStarts]
		w.firstKey = int(keys.Int(b, 0))
		n = int(keys.Int(b+1, 0)) - w.firstKey
	}
	j.tile(w, head, first, rows, n-(at(b+1)-first), n)
}

// token returns where a key of the worker's sequence lies among the rows of keys, and how many of the
// keys from it on lie behind each other, n at most.
func (j *streamJob) token(w *streamWorker, key, n int) (row, count int) {
	if !j.p.f.IsPaged() {
		return w.firstKey + key, n
	}
	each := j.operands[j.p.f.Key].Batch.Axes[1].Size
	return int(j.operands[j.p.f.Pages].Int(w.sequence, key/each))*each + key%each, min(n, each-key%each)
}

// tile computes rows of one head from query first on, which stands at a place among n keys.
func (j *streamJob) tile(w *streamWorker, head, first, rows, place, n int) {
	w.size(j, rows)
	w.first = first
	query, heads := lower.Range{Low: place, High: place + rows - 1}, lower.Range{Low: head, High: head}
	isJoined := false
	for segment := 0; segment == 0 || segment < n; segment += def.StreamSegment {
		w.begin(j, head, place, segment)
		end := min(segment+def.StreamSegment, n)
		for block := segment; block < end; block += def.StreamBlock {
			keys := min(def.StreamBlock, end-block)
			sight := lower.SightOf(j.p.f, j.params, query, lower.Range{Low: block, High: block + keys - 1}, heads)
			if sight != lower.NoKey {
				j.block(w, head, place, block, keys, sight)
			}
		}
		if isJoined {
			j.join(w)
		} else {
			w.part, w.all, isJoined = w.all, w.part, true
		}
	}
	j.store(w, head)
}

// size makes room for a tile of rows.
func (w *streamWorker) size(j *streamJob, rows int) {
	if w.rows == rows && w.part.o.Cols == j.depth {
		return
	}
	w.rows, w.keys = rows, 0
	w.part.room(rows, j.depth)
	w.all.room(rows, j.depth)
	for _, a := range [...]*num.Array{&w.a, &w.b, &w.n, &w.sum} {
		room(a, num.F32, rows, 1)
	}
}

// sizeBlock makes room for a block of keys.
func (w *streamWorker) sizeBlock(j *streamJob, keys int) {
	if w.keys == keys {
		return
	}
	w.keys = keys
	if j.p.dtype != num.F32 {
		room(&w.weights, j.p.dtype, w.rows, keys)
	}
	body := j.p.f.Body
	for len(w.body) < len(body.Operands) {
		w.body = append(w.body, num.Array{})
	}
	for i := range body.Operands {
		o, dtype := &body.Operands[i], num.F32
		switch {
		case o.IsInt():
			dtype = num.I32
		case i < len(j.p.f.Reads) && j.p.f.Reads[i] >= 0:
			dtype = j.operands[j.p.f.Reads[i]].DType
		}
		rows, cols := 1, 1
		if o.Extent&def.PerRow != 0 {
			rows = w.rows
		}
		if o.Extent&def.PerColumn != 0 {
			cols = keys
		}
		room(&w.body[i], dtype, rows, cols)
	}
}

// begin begins a segment.
func (w *streamWorker) begin(j *streamJob, head, place, segment int) {
	clear(w.part.o.Data)
	hasBase := segment == 0 && j.p.f.HasBase()
	if hasBase {
		w.sizeBlock(j, 1)
		j.runBody(w, head, place, 0)
	}
	for r := range w.rows {
		m, l := float32(math.Inf(-1)), float32(0)
		if hasBase {
			m, l = w.body[len(w.body)-1].At(r, 0), 1
		}
		w.part.m.Set(r, 0, m)
		w.part.l.Set(r, 0, l)
	}
}

// run executes a program on arrays, here and now.
func (w *streamWorker) run(p Program, rows, cols int, params []float64, arrays ...num.Array) {
	w.call.Operands = w.call.Operands[:0]
	for _, a := range arrays {
		w.call.Operands = append(w.call.Operands, lower.Operand{Array: a})
	}
	w.call.Params, w.call.Rows, w.call.Cols = params, rows, cols
	job := p.Bind(&w.call, 1)
	for {
		items, ok := job.Next()
		if !ok {
			break
		}
		for i := range items {
			job.Do(0, i)
		}
	}
	job.Release()
}

// matrix returns rows of one head of an operand of tokens and heads as a matrix.
func matrix(a *num.Array, perToken, token, head, rows int) num.Array {
	first := a.Index(token*perToken+head, 0)
	stride := a.Cols
	if rows > 1 {
		stride = a.Index((token+1)*perToken+head, 0) - first
	}
	return num.Array{DType: a.DType, Rows: rows, Cols: a.Cols, Stride: stride, Data: a.Data[first*a.DType.Size():]}
}

// block takes a block of keys into the state.
func (j *streamJob) block(w *streamWorker, head, place, block, keys int, sight lower.Sight) {
	f := j.p.f
	w.sizeBlock(j, keys)
	q := matrix(&j.operands[f.Query], j.heads*j.shared, w.first, head, w.rows)
	for first := 0; first < keys; {
		row, n := j.token(w, block+first, keys-first)
		k := matrix(&j.operands[f.Key], j.heads, row, head/j.shared, n)
		w.run(j.p.scores, 0, 0, nil, q, k, columns(&w.body[0], first, n))
		first += n
	}
	j.fillBody(w, head, place, block)
	weights := w.body[0]
	w.arrays = append(append(w.arrays[:0], w.body[:len(f.Reads)]...), w.part.m, w.part.l)
	if j.p.dtype != num.F32 {
		weights = w.weights
		w.arrays = append(w.arrays, weights)
	}
	isPartial := 0
	if sight != lower.EveryKey {
		isPartial = 1
	}
	w.arrays = append(w.arrays, w.a, w.n, w.sum)
	w.run(j.p.weigh[isPartial], w.rows, keys, j.params, w.arrays...)
	w.part.m, w.n = w.n, w.part.m
	w.part.l, w.sum = w.sum, w.part.l
	for _, a := range view[float32](&w.a, 0, 0, w.rows) { // its rows are neighbours
		if a != 1 {
			w.run(j.p.scales, w.rows, j.depth, nil, w.part.o, w.a, w.part.o)
			break
		}
	}
	for first := 0; first < keys; {
		row, n := j.token(w, block+first, keys-first)
		v := matrix(&j.operands[f.Value], j.heads, row, head/j.shared, n)
		if p := columns(&weights, first, n); sight != lower.EveryKey && !w.isFinite(j.p.finite, &v) {
			j.addVisible(w, &p, &v, head, place, block, first)
		} else {
			w.run(j.p.values, 0, 0, nil, p, v, w.part.o)
		}
		first += n
	}
}

// columns returns n columns of a matrix.
func columns(a *num.Array, first, n int) num.Array {
	return num.Array{DType: a.DType, Rows: a.Rows, Cols: n, Stride: a.Stride, Data: a.Data[first*a.DType.Size():]}
}

// runBody computes the body.
func (j *streamJob) runBody(w *streamWorker, head, place, block int) {
	j.fillBody(w, head, place, block)
	w.run(j.p.body, w.rows, w.keys, j.params, w.body...)
}

// fillBody fills what the body reads, but for the scores.
func (j *streamJob) fillBody(w *streamWorker, head, place, block int) {
	for i, read := range j.p.f.Reads {
		a := &w.body[i]
		switch {
		case i == 0:
		case i == 1:
			for r, x := 0, view[int32](a, 0, 0, w.rows); r < len(x); r++ { // its rows are neighbours
				x[r] = int32(place + r)
			}
		case i == 2:
			for c, x := 0, view[int32](a, 0, 0, w.keys); c < len(x); c++ {
				x[c] = int32(block + c)
			}
		case i == 3:
			for r, x := 0, view[int32](a, 0, 0, w.rows); r < len(x); r++ {
				x[r] = int32(head)
			}
		default:
			j.read(w, a, read, head, block)
		}
	}
}

// read copies what the tile and the block need of an operand of the body.
func (j *streamJob) read(w *streamWorker, to *num.Array, operand, head, block int) {
	dims, from := j.p.d.Operands[operand].Dims, &j.operands[operand]
	g, shared := head/j.shared, head%j.shared
	for r := range to.Rows {
		for c := range to.Cols {
			row, col := 0, 0
			switch {
			case dims[0] == "G":
				row, col = g, shared
			case dims[0] == "T" && len(dims) == 3:
				row, col = (w.first+r)*j.heads+g, shared
			case dims[0] == "T":
				row = w.first + r
			default:
				if row = w.firstKey + block + c; len(dims) == 2 {
					col = g
				}
			}
			if row < from.Rows { // a base has no keys
				to.SetBits(r, c, from.Bits(row, col))
			}
		}
	}
}

// isFinite reports whether a matrix has finite values alone.
func (w *streamWorker) isFinite(finite Program, a *num.Array) bool {
	room(&w.checked, num.F32, a.Rows, 1)
	w.run(finite, a.Rows, a.Cols, nil, *a, w.checked)
	for _, x := range view[float32](&w.checked, 0, 0, a.Rows) {
		if x != 0 {
			return false
		}
	}
	return true
}

// addVisible adds the values of visible keys, row by row, with zeros in place of the others. first is the first of v's
// keys in the block.
func (j *streamJob) addVisible(w *streamWorker, weights, v *num.Array, head, place, block, first int) {
	seen := j.seen(w, head, place, block)
	room(&w.kept, v.DType, v.Rows, v.Cols)
	for r := range w.rows {
		keepRows(&w.kept, v, 0, func(k int) bool { return isSeen(&seen, r, first+k) })
		w.run(j.p.values, 0, 0, nil, matrix(weights, 1, r, 0, 1), w.kept, matrix(&w.part.o, 1, r, 0, 1))
	}
}

// seen returns which keys of a block are seen. The body computes that from any scores.
func (j *streamJob) seen(w *streamWorker, head, place, block int) num.Array {
	scores := w.body[0]
	w.body[0] = num.NewArray(num.F32, w.rows, w.keys)
	j.runBody(w, head, place, block)
	w.body[0] = scores
	return w.body[len(j.p.f.Reads)+1]
}

// join adds the segment's state to that of the ones before it.
func (j *streamJob) join(w *streamWorker) {
	w.run(j.p.joins, w.rows, 1, nil, w.all.m, w.part.m, w.n, w.a, w.b)
	w.all.m, w.n = w.n, w.all.m
	all, part := view[float32](&w.all.l, 0, 0, w.rows), view[float32](&w.part.l, 0, 0, w.rows)
	for r := range all {
		all[r] = num.FMA(all[r], w.a.At(r, 0), float32(part[r]*w.b.At(r, 0)))
	}
	w.run(j.p.folds, w.rows, j.depth, nil, w.all.o, w.a, w.part.o, w.b)
}

// store stores the results of the tile.
func (j *streamJob) store(w *streamWorker, head int) {
	f := j.p.f
	perToken := j.heads * j.shared
	w.run(j.p.logs, w.rows, 1, nil, w.all.m, w.all.l, w.n)
	w.run(j.p.means, w.rows, j.depth, nil, w.all.o, w.all.l, matrix(&j.operands[f.Out], perToken, w.first, head, w.rows))
	for r := range w.rows {
		m, l, sum := w.all.m.At(r, 0), w.all.l.At(r, 0), w.n.At(r, 0)
		hasNoKey, isNaN := l == 0, m != m || m > math.MaxFloat32
		if hasNoKey || isNaN {
			sum = float32(math.Inf(-1))
			x := float32(0)
			if !hasNoKey {
				x, sum = float32(math.NaN()), float32(math.NaN())
			}
			row := matrix(&j.operands[f.Out], perToken, w.first+r, head, 1)
			for c := range j.depth {
				row.Set(0, c, x)
			}
		}
		j.operands[f.LogSum].Set((w.first+r)*j.heads+head/j.shared, head%j.shared, sum)
	}
}
