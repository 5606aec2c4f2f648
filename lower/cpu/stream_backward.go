package cpu

import (
	"fmt"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// streamBackward computes the gradients of a stream by the programs of its parts: those of queries for
// a tile of queries, block after block of keys, and those of keys and values for a block of keys, tile
// after tile of queries. Nothing is shared between workers. Where there are enough heads, a worker
// computes all gradients of one instead (stream_whole.go).
type streamBackward struct {
	stream // which has the body, and the products
	f      *def.StreamBackward

	delta, queries, keys, adds, results, base Program

	gradients [2]Program // of blocks in which every query sees every key, and of others

	whole struct { // of operands that are packed
		gradients     [2]Program
		queries, keys Program
	}
}

func compileStreamBackward(d *def.Definition, dtypes []num.DType, _ Class) (Program, error) {
	return CompileStreamBackward(d, dtypes, def.FMAChain, plainPacker{}, CompilePiece)
}

// CompileStreamBackward lowers the gradients of a stream as [CompileStream] does a stream.
func CompileStreamBackward(d *def.Definition, dtypes []num.DType, accum def.Accum, packer Packer, compile func(part lower.Piece, dtypes []num.DType) (Program, error)) (Program, error) {
	f := d.Form.(*def.StreamBackward)
	dtype := dtypes[f.Query]
	p := &streamBackward{stream: stream{d: d, f: &f.Stream, dtype: dtype, accum: accum, packer: packer}, f: f}
	parts, err := lower.BackwardPartsOf(f, dtype)
	if err != nil {
		return nil, err
	}
	const f32 = num.F32
	replacing := append(bodyDTypes(&f.Stream, dtypes)[:len(f.Reads)], f32, f32, f32)
	gradients := append(bodyDTypes(&f.Stream, dtypes)[:len(f.Reads)], f32, f32, f32, dtype, dtype)
	type step struct {
		to     *Program
		d      *def.Definition
		dtypes []num.DType
	}
	steps := []step{
		{&p.stored.scores, parts.Products, []num.DType{dtype, dtype, f32}},
		{&p.body, parts.Body, bodyDTypes(&f.Stream, dtypes)},
		{&p.delta, parts.Delta, []num.DType{dtype, dtype, f32}},
		{&p.stored.finite, parts.Finite, []num.DType{dtype, f32}},
		{&p.gradients[0], parts.Gradients[0], gradients},
		{&p.gradients[1], parts.Gradients[1], gradients},
		{&p.queries, parts.Queries, []num.DType{dtype, dtype, f32}},
		{&p.keys, parts.Keys, []num.DType{dtype, dtype, f32}},
		{&p.adds, parts.Adds, []num.DType{f32, f32}},
		{&p.results, parts.Results, []num.DType{f32, dtype}},
	}
	if packer != nil {
		steps = append(steps,
			step{&p.packed.scores, parts.Packed, []num.DType{f32, f32, f32}},
			step{&p.packed.finite, parts.PackedFinite, []num.DType{f32, f32}},
			step{&p.whole.gradients[0], parts.Replacing[0], replacing},
			step{&p.whole.gradients[1], parts.Replacing[1], replacing},
			step{&p.whole.queries, parts.Queries, []num.DType{f32, f32, f32}},
			step{&p.whole.keys, parts.Keys, []num.DType{f32, f32, f32}})
	}
	if parts.Base != nil {
		steps = append(steps, step{&p.base, parts.Base, []num.DType{f32, f32, f32, f32}})
	}
	for _, x := range steps {
		if *x.to, err = compile(lower.Piece{Definition: x.d}, x.dtypes); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *streamBackward) String() string {
	return fmt.Sprintf("stream-backward %s: tiles of %d queries, blocks of %d keys, by a program for each step, rule %s\n", p.d.Name, streamTile, def.StreamBlock, p.accum)
}

type backwardJob struct {
	streamJob
	p        *streamBackward
	keySlots int
	scale    []float64 // of gradients of queries and keys
	isWhole  bool      // items are heads of keys of sequences
	workers  []*backwardWorker
}

// backwardWorker is the memory of one worker: a tile and a block.
type backwardWorker struct {
	streamWorker
	dp         num.Array
	queryPart  num.Array // of gradients of queries
	keys       int       // of the block
	p, ds      num.Array // as stored, after pad rows of zeros
	lse, delta num.Array // per row
	part, sum  [2]num.Array
	pad        int
	whole      wholeHead
}

// Bind implements Program.
func (p *streamBackward) Bind(c *lower.Call, workers int) Job {
	j, _ := p.jobs.Get().(*backwardJob)
	if j == nil {
		j = &backwardJob{streamJob: streamJob{p: &p.stream}, p: p}
	}
	j.bind(c)
	j.slots = lower.GroupSlots(j.tokens, streamTile, j.sequences)
	j.keySlots = lower.GroupSlots(c.Size(p.d, "S"), def.StreamBlock, j.sequences)
	j.isWhole = j.takesWhole(workers)
	for len(j.workers) < workers {
		j.workers = append(j.workers, &backwardWorker{})
	}
	w := j.workers[0]
	w.resize(j, 1, 1, 0)
	for i := range w.body {
		clear(w.body[i].Data)
	}
	w.run(p.body, 1, 1, j.params, w.body...) // the scale depends on parameters alone
	j.scale = append(j.scale[:0], float64(w.body[len(p.f.Reads)+p.f.Scale()].At(0, 0)))
	return j
}

// Next implements Job.
func (j *backwardJob) Next() (int, bool) {
	if j.started {
		return 0, false
	}
	j.started = true
	if j.isWhole {
		return j.sequences * j.heads, true
	}
	return j.keySlots*j.heads + j.slots*j.heads*j.shared, true
}

// Release implements Job.
func (j *backwardJob) Release() {
	clear(j.operands) // the pool must not keep operands alive
	j.p.jobs.Put(j)
}

// backwardSpan is the part of the tokens that belongs to a sequence.
type backwardSpan struct{ first, end, firstKey, keys int }

// place returns that of a query.
func (s backwardSpan) place(query int) int { return s.keys - (s.end - query) }

// Do implements Job: a block of keys of one head, or a tile of queries of one head.
func (j *backwardJob) Do(worker, item int) {
	w := j.workers[worker]
	if j.isWhole {
		j.wholeHead(w, item/j.heads, item%j.heads)
		return
	}
	if items := j.keySlots * j.heads; item >= items {
		slot, head := (item-items)/(j.heads*j.shared), (item-items)%(j.heads*j.shared)
		s, first, rows := j.find(j.p.f.QueryStarts, slot, streamTile)
		if rows > 0 {
			j.tile(w, s, head, first, rows)
		}
		return
	}
	slot, head := item/j.heads, item%j.heads
	s, first, keys := j.find(j.p.f.KeyStarts, slot, def.StreamBlock)
	if keys > 0 {
		j.block(w, s, head, first-s.firstKey, keys)
	}
}

// find returns the sequence of a slot, the first of its tokens, and how many it has.
func (j *backwardJob) find(starts, slot, size int) (s backwardSpan, first, n int) {
	at := j.startOf
	b := lower.GroupOf(func(b int) int { return at(starts, b) }, j.sequences, size, slot)
	first = at(starts, b) + (slot-lower.GroupSlot(at(starts, b), size, b))*size
	return j.spanOf(b), first, min(size, at(starts, b+1)-first)
}

// startOf returns where a sequence begins among queries or keys.
func (j *backwardJob) startOf(operand, b int) int { return int(j.operands[operand].Int(b, 0)) }

// spanOf returns the tokens of a sequence.
func (j *backwardJob) spanOf(b int) backwardSpan {
	f := j.p.f
	firstKey := j.startOf(f.KeyStarts, b)
	return backwardSpan{j.startOf(f.QueryStarts, b), j.startOf(f.QueryStarts, b+1), firstKey, j.startOf(f.KeyStarts, b+1) - firstKey}
}

// resize makes room for a tile and a block, and for rows of zeros before those of the tile.
func (w *backwardWorker) resize(j *backwardJob, rows, keys, pad int) {
	room(&w.lse, num.F32, rows, 1)
	room(&w.delta, num.F32, rows, 1)
	w.keys, w.pad = keys, pad
	w.size(&j.streamJob, rows, keys)
	room(&w.dp, num.F32, rows, keys)
	for _, a := range [...]*num.Array{&w.p, &w.ds} {
		room(a, j.p.dtype, pad+rows, keys)
		clear(a.Data[:pad*keys*j.p.dtype.Size()])
	}
}

// zeros returns sums of a size, all +0, in memory that is kept.
func zeros(a *num.Array, rows, cols int) num.Array {
	room(a, num.F32, rows, cols)
	clear(a.Data)
	return *a
}

// readRows sets what the rows of a tile have: the logarithm of the weights, and delta.
func (j *backwardJob) readRows(w *backwardWorker, head int) {
	f := j.p.f
	lse := &j.operands[f.LogSum]
	for r := range w.rows {
		w.lse.Set(r, 0, lse.At((w.first+r)*j.heads+head/j.shared, head%j.shared))
	}
	w.run(j.p.delta, w.rows, j.depth, nil, j.rowsOf(f.OutGradient, w, head), j.rowsOf(f.Out, w, head), w.delta)
}

// rowsOf returns the tile's rows of an operand.
func (j *backwardJob) rowsOf(operand int, w *backwardWorker, head int) num.Array {
	return matrix(&j.operands[operand], j.heads*j.shared, w.first, head, w.rows)
}

// keysOf returns the block's rows of an operand.
func (j *backwardJob) keysOf(operand int, w *backwardWorker, head, block int) num.Array {
	return matrix(&j.operands[operand], j.heads, w.firstKey+block, head/j.shared, w.keys)
}

// differentiate sets the weights of a tile and a block, and the gradients of their scores.
func (j *backwardJob) differentiate(w *backwardWorker, head, place, block int, sight lower.Sight) {
	f := j.p.f
	w.run(j.p.stored.scores, 0, 0, nil, j.rowsOf(f.Query, w, head), j.keysOf(f.Key, w, head, block), w.body[0])
	w.run(j.p.stored.scores, 0, 0, nil, j.rowsOf(f.OutGradient, w, head), j.keysOf(f.Value, w, head, block), w.dp)
	j.fillBody(&w.streamWorker, head, place, block)
	isPartial := 0
	if sight != lower.EveryKey {
		isPartial = 1
	}
	w.arrays = append(append(w.arrays[:0], w.body[:len(f.Reads)]...), w.dp, w.lse, w.delta, below(&w.p, w.pad), below(&w.ds, w.pad))
	w.run(j.p.gradients[isPartial], w.rows, w.keys, j.params, w.arrays...)
}

// below returns a matrix without its first rows.
func below(a *num.Array, rows int) num.Array {
	b := *a
	b.Rows, b.Data = a.Rows-rows, a.Data[rows*a.Stride*a.DType.Size():]
	return b
}

// tile computes the gradients of a tile of queries of one head.
func (j *backwardJob) tile(w *backwardWorker, s backwardSpan, head, first, rows int) {
	f := j.p.f
	w.first, w.firstKey = first, s.firstKey
	place := s.place(first)
	w.resize(j, rows, 1, 0)
	j.readRows(w, head)
	if f.HasBase() {
		j.runBody(&w.streamWorker, head, place, 0)
		gradient := zeros(&w.part[0], rows, 1)
		w.run(j.p.base, rows, 1, nil, w.body[len(f.Reads)+2], w.lse, w.delta, gradient)
		for r := range rows {
			j.operands[f.BaseGradient].Set((first+r)*j.heads+head/j.shared, head%j.shared, gradient.At(r, 0))
		}
	}
	sum := zeros(&w.sum[0], rows, j.depth)
	query, heads := lower.Range{Low: place, High: place + rows - 1}, lower.Range{Low: head, High: head}
	for block := (s.keys - 1) / def.StreamBlock * def.StreamBlock; block >= 0 && s.keys > 0; block -= def.StreamBlock {
		keys := min(def.StreamBlock, s.keys-block)
		sight := lower.SightOf(&f.Stream, j.params, query, lower.Range{Low: block, High: block + keys - 1}, heads)
		if sight == lower.NoKey {
			continue
		}
		w.resize(j, rows, keys, 0)
		j.differentiate(w, head, place, block, sight)
		part, k := zeros(&w.part[0], rows, j.depth), j.keysOf(f.Key, w, head, block)
		if sight != lower.EveryKey && !w.isFinite(j.p.stored.finite, &k) {
			seen := j.seen(&w.streamWorker, head, place, block)
			j.addQueries(w, j.p.queries, &w.ds, &k, &seen, &part)
		} else {
			w.run(j.p.queries, 0, 0, nil, w.ds, k, part)
		}
		j.addAll(w, &sum, &part)
	}
	j.store(w, &sum, f.QueryGradient, j.heads*j.shared, first, head, j.scale)
}

// addQueries computes the gradients of queries row by row, with zeros in place of keys that are not visible.
func (j *backwardJob) addQueries(w *backwardWorker, multiply Program, gradients, k, seen, to *num.Array) {
	room(&w.kept, k.DType, k.Rows, k.Cols)
	copied := w.kept
	for r := range w.rows {
		keepRows(&copied, k, 0, func(i int) bool { return isSeen(seen, r, i) })
		w.run(multiply, 0, 0, nil, rowsOf(*gradients, r, r+1), copied, rowsOf(*to, r, r+1))
	}
}

func isSeen(seen *num.Array, row, key int) bool {
	return seen.Int(min(row, seen.Rows-1), min(key, seen.Cols-1)) != 0
}

// keepRows copies rows of a matrix behind pad rows, and zeros in place of the others.
func keepRows(to, from *num.Array, pad int, isKept func(row int) bool) {
	clear(to.Data)
	size := from.DType.Size()
	for r := range from.Rows {
		if isKept(r) {
			copy(to.Data[(pad+r)*to.Stride*size:][:from.Cols*size], from.Data[r*from.Stride*size:])
		}
	}
}

// addAll adds y to x.
func (j *backwardJob) addAll(w *backwardWorker, x, y *num.Array) {
	w.run(j.p.adds, x.Rows, x.Cols, nil, *x, *y)
}

// unscaled is the scale of gradients of values.
var unscaled = []float64{1}

// store stores sums times a scale.
func (j *backwardJob) store(w *backwardWorker, sums *num.Array, operand, perToken, first, head int, scale []float64) {
	if sums.Rows > 0 {
		w.run(j.p.results, sums.Rows, sums.Cols, scale, *sums, matrix(&j.operands[operand], perToken, first, head, sums.Rows))
	}
}

// block computes the gradients of a block of keys of one head, and of its values.
func (j *backwardJob) block(w *backwardWorker, s backwardSpan, kv, block, keys int) {
	f := j.p.f
	w.firstKey = s.firstKey
	sums := [2]num.Array{zeros(&w.sum[0], keys, j.depth), zeros(&w.sum[1], keys, j.depth)}
	key := lower.Range{Low: block, High: block + keys - 1}
	for head := kv * j.shared; head < (kv+1)*j.shared; head++ {
		hasPart := false // of the segment
		for first := s.first; first < s.end; {
			place := s.place(first)
			rows := min(streamTile-lower.Mod(place, streamTile), s.end-first) // a tile ends at a multiple of its size
			query, heads := lower.Range{Low: place, High: place + rows - 1}, lower.Range{Low: head, High: head}
			if sight := lower.SightOf(&f.Stream, j.params, query, key, heads); sight != lower.NoKey {
				if !hasPart {
					hasPart = true
					zeros(&w.part[0], keys, j.depth)
					zeros(&w.part[1], keys, j.depth)
				}
				w.first = first
				j.addTile(w, head, place, rows, block, keys, sight)
			}
			first += rows
			if isEnd := first == s.end || lower.Mod(place+rows, def.StreamSegment) == 0; isEnd && hasPart {
				j.addAll(w, &sums[0], &w.part[0])
				j.addAll(w, &sums[1], &w.part[1])
				hasPart = false
			}
		}
	}
	j.store(w, &sums[0], f.KeyGradient, j.heads, s.firstKey+block, kv, j.scale)
	j.store(w, &sums[1], f.ValueGradient, j.heads, s.firstKey+block, kv, unscaled)
}

// addTile adds what a tile of queries gives to a block of keys. Steps of several products begin at
// multiples of their length, so that zeros stand before a tile that begins elsewhere.
func (j *backwardJob) addTile(w *backwardWorker, head, place, rows, block, keys int, sight lower.Sight) {
	f := j.p.f
	w.resize(j, rows, keys, lower.Mod(place, max(1, j.p.accum.L)))
	j.readRows(w, head)
	j.differentiate(w, head, place, block, sight)
	for i, of := range [...]int{f.Query, f.OutGradient} {
		factors := [...]*num.Array{&w.ds, &w.p}[i]
		right := j.rowsOf(of, w, head)
		isClean := sight == lower.EveryKey || w.isFinite(j.p.stored.finite, &right)
		if isClean && w.pad == 0 {
			w.run(j.p.keys, 0, 0, nil, *factors, right, w.part[i])
			continue
		}
		room(&w.kept, right.DType, w.pad+rows, right.Cols)
		padded := w.kept
		if isClean {
			keepRows(&padded, &right, w.pad, func(int) bool { return true })
			w.run(j.p.keys, 0, 0, nil, *factors, padded, w.part[i])
			continue
		}
		seen := j.seen(&w.streamWorker, head, place, block)
		for c := range keys {
			keepRows(&padded, &right, w.pad, func(r int) bool { return isSeen(&seen, r, c) })
			column := *factors
			column.Cols, column.Data = 1, factors.Data[c*factors.DType.Size():]
			w.run(j.p.keys, 0, 0, nil, column, padded, matrix(&w.part[i], 1, c, 0, 1))
		}
	}
}
