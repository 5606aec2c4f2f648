package cpu

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// streamTile is how many queries of one head a worker takes at a time, and streamTiles how many tiles of
// a sequence it takes together, so that it packs keys and values once for all of them.
const (
	streamTile  = 128
	streamTiles = 8
)

// streamStrip is how many queries of a tile are computed together where they see only a part of a block. That part is
// a multiple of as many keys.
const streamStrip = 64

// streamPacked is the number of queries from which on keys and values are packed.
const streamPacked = 32

// stream computes a stream by the programs of its parts: for each tile of queries, block after block
// of keys.
type stream struct {
	d     *def.Definition
	f     *def.Stream
	dtype num.DType
	accum def.Accum
	jobs  sync.Pool

	body, scales, joins, folds, means, logs Program

	packer         Packer     // nil if operands are multiplied as they are stored
	packed, stored streamStep // of operands that are packed, and of others
}

// streamStep has the programs for a block of keys.
type streamStep struct {
	scores, values, finite Program

	weigh [2]Program // for blocks in which every query sees every key, and for others
}

func compileStream(d *def.Definition, dtypes []num.DType, _ Class) (Program, error) {
	return CompileStream(d, dtypes, def.FMAChain, plainPacker{}, CompilePiece)
}

// CompileStream lowers a stream to a program that runs those which compile makes of its parts. Their
// products have the given model. What packs operands is nil if products read them as they are stored.
func CompileStream(d *def.Definition, dtypes []num.DType, accum def.Accum, packer Packer, compile func(part lower.Piece, dtypes []num.DType) (Program, error)) (Program, error) {
	f := d.Form.(*def.Stream)
	p := &stream{d: d, f: f, dtype: dtypes[f.Query], accum: accum, packer: packer}
	parts, err := lower.PartsOf(f, p.dtype)
	if err != nil {
		return nil, err
	}
	const f32 = num.F32
	weigh := append(bodyDTypes(f, dtypes)[:len(f.Reads)], f32, f32)
	stored := append(slices.Clone(weigh), p.dtype, f32, f32, f32)
	weigh = append(weigh, f32, f32, f32)
	type step struct {
		to     *Program
		piece  lower.Piece
		dtypes []num.DType
	}
	whole := func(d *def.Definition) lower.Piece { return lower.Piece{Definition: d} }
	steps := []step{
		{&p.body, whole(parts.Body), bodyDTypes(f, dtypes)},
		{&p.scales, whole(parts.Scales), []num.DType{f32, f32, f32}},
		{&p.joins, whole(parts.Joins), []num.DType{f32, f32, f32, f32, f32}},
		{&p.folds, whole(parts.Folds), []num.DType{f32, f32, f32, f32}},
		{&p.means, whole(parts.Means), []num.DType{f32, f32, p.dtype}},
		{&p.logs, whole(parts.Logs), []num.DType{f32, f32, f32}},
		{&p.stored.scores, whole(parts.Scores), []num.DType{p.dtype, p.dtype, f32}},
		{&p.stored.values, whole(parts.Values), []num.DType{p.dtype, p.dtype, f32}},
		{&p.stored.finite, whole(parts.Finite), []num.DType{p.dtype, f32}},
		{&p.stored.weigh[0], parts.Stored[0], stored},
		{&p.stored.weigh[1], parts.Stored[1], stored},
	}
	if packer != nil {
		steps = append(steps,
			step{&p.packed.scores, whole(parts.Packed), []num.DType{f32, f32, f32}},
			step{&p.packed.values, whole(parts.Values), []num.DType{f32, f32, f32}},
			step{&p.packed.finite, whole(parts.PackedFinite), []num.DType{f32, f32}},
			step{&p.packed.weigh[0], parts.Weigh[0], weigh},
			step{&p.packed.weigh[1], parts.Weigh[1], weigh})
	}
	for _, x := range steps {
		if *x.to, err = compile(x.piece, x.dtypes); err != nil {
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
	slotSize                int  // queries of a slot
	joinsHeads              bool // a few queries are computed for all heads that share keys
	started                 bool
	workers                 []*streamWorker
}

// streamWorker is the memory of one worker: tiles and a block.
type streamWorker struct {
	call            lower.Call
	body            []num.Array // what it reads and gives, the scores first
	weights         num.Array   // as stored
	tiles           []*streamTileState
	a, n, sum, b    num.Array // per row
	keys            keyBlock
	kept            num.Array // copies of the rows that are seen
	anyScores       num.Array
	checked         num.Array // per row: what is not finite
	arrays          []num.Array
	packing         [2]num.Array
	rows, cols      int // of the strip that is computed
	first, firstKey int // of the strip and, where keys do not lie in pages, of its sequence
	sequence        int
	shared          int       // heads that share keys, if rows are those of a few queries, else 0: rows are queries of one head
	joined          num.Array // rows of several queries
}

// row returns how far the query and the head of a row are from those of the first.
func (w *streamWorker) row(r int) (query, head int) {
	if w.shared > 0 {
		return r / w.shared, r % w.shared
	}
	return r, 0
}

// streamTileState is a tile of queries of one head, or of heads of a few queries: the first one, and where it
// stands among the keys.
type streamTileState struct {
	first, rows, place   int
	query, packed        num.Array // what is multiplied, and memory to pack it
	part, all            carried
	hasPart, hasSegments bool
	isZero               [streamTile / streamStrip]bool // the strips of part.o to which nothing has been added
}

// keyBlock is a block of keys and their values, packed when somebody sees some of them.
type keyBlock struct {
	first, count        int
	isPacked            bool
	isChecked, isFinite bool // values, of all keys
	key, value          num.Array
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
	for tiles := streamTiles; tiles > 0; tiles /= 2 {
		j.slotSize = tiles * streamTile
		if j.slots = lower.GroupSlots(j.tokens, j.slotSize, j.sequences); j.slots*j.heads*j.shared >= 4*workers {
			break
		}
	}
	j.joinsHeads = j.shared <= streamTile && j.slots*j.heads >= workers
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

// Do implements Job: some tiles of queries of one head, or a few queries of all heads that share keys.
func (j *streamJob) Do(worker, item int) {
	f := j.p.f
	slot, head := item/(j.heads*j.shared), item%(j.heads*j.shared)
	queries := &j.operands[f.QueryStarts]
	at := func(b int) int { return int(queries.Int(b, 0)) }
	b := lower.GroupOf(at, j.sequences, j.slotSize, slot)
	first := at(b) + (slot-lower.GroupSlot(at(b), j.slotSize, b))*j.slotSize
	rows := min(j.slotSize, at(b+1)-first)
	if rows <= 0 {
		return
	}
	w, n := j.workers[worker], 0
	if w.shared = 0; j.joinsHeads && (rows == 1 || j.shared > 1 && rows*j.shared <= streamStrip) {
		if head%j.shared != 0 { // the first of them computes all
			return
		}
		w.shared = j.shared
		rows *= j.shared
	}
	if w.sequence = b; f.IsPaged() {
		n = int(j.operands[f.Lengths].Int(b, 0))
	} else {
		keys := &j.operands[f.KeyStarts]
		w.firstKey = int(keys.Int(b, 0))
		n = int(keys.Int(b+1, 0)) - w.firstKey
	}
	j.compute(w, head, first, rows, n-at(b+1), n)
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

// compute computes rows from a query and a head on, among n keys. The place of a query is its number plus
// shift.
func (j *streamJob) compute(w *streamWorker, head, first, rows, shift, n int) {
	tiles := w.cut(j, head, first, rows, shift)
	isPacked := j.p.packer != nil && rows >= streamPacked
	for _, t := range tiles {
		t.query = j.queries(w, t, head)
		if isPacked && (j.p.dtype != num.F32 || n > def.StreamBlock) { // else they are read too rarely
			packedRoom(&t.packed, t.rows, j.depth)
			w.packInto(j.p.packer, t.packed, t.query, false)
			t.query = t.packed
		}
	}
	for segment := 0; segment == 0 || segment < n; segment += def.StreamSegment {
		for _, t := range tiles {
			j.begin(w, t, head, segment)
		}
		end := min(segment+def.StreamSegment, n)
		for block := segment; block < end; block += def.StreamBlock {
			w.keys.first, w.keys.count, w.keys.isPacked, w.keys.isChecked = block, min(def.StreamBlock, end-block), false, false
			for _, t := range tiles {
				j.tile(w, t, head, isPacked)
			}
		}
		for _, t := range tiles {
			j.join(w, t)
		}
	}
	for _, t := range tiles {
		j.store(w, t, head)
		t.query = num.Array{} // the pool must not keep operands alive
	}
}

// cut divides rows into tiles.
func (w *streamWorker) cut(j *streamJob, head, first, rows, shift int) []*streamTileState {
	count := 0
	for end := first + rows; first < end; first += streamTile {
		if count == len(w.tiles) {
			w.tiles = append(w.tiles, &streamTileState{})
		}
		t := w.tiles[count]
		t.first, t.rows, t.place, t.hasSegments = first, min(streamTile, end-first), first+shift, false
		t.part.room(t.rows, j.depth)
		t.all.room(t.rows, j.depth)
		count++
	}
	return w.tiles[:count]
}

// size makes room for a strip of rows and some keys.
func (w *streamWorker) size(j *streamJob, rows, cols int) {
	w.rows, w.cols = rows, cols
	for _, a := range [...]*num.Array{&w.a, &w.b, &w.n, &w.sum} {
		room(a, num.F32, rows, 1)
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
		down, across := 1, 1
		if o.Extent&def.PerRow != 0 {
			down = rows
		}
		if o.Extent&def.PerColumn != 0 {
			across = cols
		}
		room(&w.body[i], dtype, down, across)
	}
}

// begin begins a segment of a tile.
func (j *streamJob) begin(w *streamWorker, t *streamTileState, head, segment int) {
	clear(t.part.o.Data)
	for i := range t.isZero {
		t.isZero[i] = true
	}
	t.hasPart = segment == 0 // which may see nothing
	hasBase := segment == 0 && j.p.f.HasBase()
	if hasBase {
		w.first = t.first
		w.size(j, t.rows, 1)
		j.runBody(w, head, t.place, 0)
	}
	m, l := view[float32](&t.part.m, 0, 0, t.rows), view[float32](&t.part.l, 0, 0, t.rows) // their rows are neighbours
	for r := range m {
		m[r], l[r] = float32(math.Inf(-1)), 0
		if hasBase {
			m[r], l[r] = w.body[len(w.body)-1].At(r, 0), 1
		}
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

// matrixOf returns the rows of a tile of an operand of queries and heads. It reports false where they are no
// matrix: those of several queries for the heads that share keys.
func (j *streamJob) matrixOf(w *streamWorker, operand int, t *streamTileState, head int) (num.Array, bool) {
	if w.shared == 0 {
		return matrix(&j.operands[operand], j.heads*j.shared, t.first, head, t.rows), true
	}
	return j.headsOf(operand, t.first, head, t.rows), t.rows <= w.shared
}

// headsOf returns the rows of an operand that a query has for some heads.
func (j *streamJob) headsOf(operand, query, head, heads int) num.Array {
	return matrix(&j.operands[operand], 1, query*j.heads*j.shared+head, 0, heads)
}

// queries returns the queries of a tile as a matrix, a copy where they are none.
func (j *streamJob) queries(w *streamWorker, t *streamTileState, head int) num.Array {
	f := j.p.f
	if q, ok := j.matrixOf(w, f.Query, t, head); ok {
		return q
	}
	room(&w.joined, j.p.dtype, t.rows, j.depth)
	for r := 0; r < t.rows; r += w.shared {
		from, to := j.headsOf(f.Query, t.first+r/w.shared, head, w.shared), rowsOf(w.joined, r, r+w.shared)
		copyRows(&to, &from)
	}
	return w.joined
}

// storeMeans stores what the queries of a tile have seen.
func (j *streamJob) storeMeans(w *streamWorker, t *streamTileState, head int) {
	f := j.p.f
	if out, ok := j.matrixOf(w, f.Out, t, head); ok {
		w.run(j.p.means, t.rows, j.depth, nil, t.all.o, t.all.l, out)
		return
	}
	room(&w.joined, j.p.dtype, t.rows, j.depth)
	w.run(j.p.means, t.rows, j.depth, nil, t.all.o, t.all.l, w.joined)
	for r := 0; r < t.rows; r += w.shared {
		from, to := rowsOf(w.joined, r, r+w.shared), j.headsOf(f.Out, t.first+r/w.shared, head, w.shared)
		copyRows(&to, &from)
	}
}

// copyRows copies a matrix.
func copyRows(to, from *num.Array) {
	size := from.DType.Size()
	for r := range from.Rows {
		copy(to.Data[r*to.Stride*size:][:from.Cols*size], from.Data[r*from.Stride*size:])
	}
}

// tile takes a block of keys into the state of a tile, but leaves out those that none of its queries sees.
func (j *streamJob) tile(w *streamWorker, t *streamTileState, head int, isPacked bool) {
	j.cutBlock(w, head, streamPart{0, t.rows, w.keys.first, w.keys.count}, t.place, func(s streamPart, sight lower.Sight) {
		j.strip(w, t, head, s, sight, isPacked)
	})
}

// cutBlock visits what the queries of a tile see of a block: all of it if all queries see all keys, else
// strip by strip what may be seen. The tile's first query stands at a place.
func (j *streamJob) cutBlock(w *streamWorker, head int, all streamPart, place int, visit func(streamPart, lower.Sight)) {
	sightOf := func(row, rows, key, keys int) lower.Sight {
		query, itsHead := w.row(row)
		last, lastHead := w.row(row + rows - 1) // of several queries that are computed for several heads, rows are all
		queries, heads := lower.Range{Low: place + query, High: place + last}, lower.Range{Low: head + itsHead, High: head + lastHead}
		return lower.SightOf(j.p.f, j.params, queries, lower.Range{Low: key, High: key + keys - 1}, heads)
	}
	sight, isSmall := sightOf(all.row, all.rows, all.key, all.keys), all.rows <= streamStrip && all.keys <= streamStrip
	switch {
	case sight == lower.NoKey:
		return
	case sight == lower.EveryKey || isSmall:
		visit(all, sight)
		return
	}
	for row := 0; row < all.rows; row += streamStrip {
		s := streamPart{all.row + row, min(streamStrip, all.rows-row), all.key, all.keys}
		for s.keys > 0 && sightOf(s.row, s.rows, s.key+s.lastKeys(), s.keys-s.lastKeys()) == lower.NoKey {
			s.keys = s.lastKeys()
		}
		for s.keys > streamStrip && sightOf(s.row, s.rows, s.key, streamStrip) == lower.NoKey {
			s.key, s.keys = s.key+streamStrip, s.keys-streamStrip
		}
		if s.keys > 0 {
			visit(s, sightOf(s.row, s.rows, s.key, s.keys))
		}
	}
}

// streamPart is a part of a tile and a block: rows, counted from the first of the tile, and keys.
type streamPart struct{ row, rows, key, keys int }

// lastKeys returns where the last keys begin that are left out together.
func (s *streamPart) lastKeys() int { return (s.keys - 1) / streamStrip * streamStrip }

// strip takes keys into the state of rows.
func (j *streamJob) strip(w *streamWorker, t *streamTileState, head int, s streamPart, sight lower.Sight, isPacked bool) {
	f, step := j.p.f, &j.p.stored
	t.hasPart = true
	w.size(j, s.rows, s.keys)
	query, itsHead := w.row(s.row)
	w.first, head = t.first+query, head+itsHead
	place, q := t.place+query, rowsOf(t.query, s.row, s.row+s.rows)
	if isPacked {
		step = &j.p.packed
		j.pack(w, head)
		k := columns(&w.keys.key, s.key-w.keys.first, s.keys)
		w.run(step.scores, 0, 0, nil, q, k, w.body[0])
	} else {
		for first := 0; first < s.keys; {
			row, n := j.token(w, s.key+first, s.keys-first)
			k := matrix(&j.operands[f.Key], j.heads, row, head/j.shared, n)
			w.run(step.scores, 0, 0, nil, q, k, columns(&w.body[0], first, n))
			first += n
		}
	}
	j.fillBody(w, head, place, s.key)
	m, l, o := rowsOf(t.part.m, s.row, s.row+s.rows), rowsOf(t.part.l, s.row, s.row+s.rows), rowsOf(t.part.o, s.row, s.row+s.rows)
	weights := w.body[0]
	w.arrays = append(append(w.arrays[:0], w.body[:len(f.Reads)]...), m, l)
	if !isPacked {
		room(&w.weights, j.p.dtype, s.rows, s.keys)
		weights = w.weights
		w.arrays = append(w.arrays, weights)
	}
	isPartial := 0
	if sight != lower.EveryKey {
		isPartial = 1
	}
	w.arrays = append(w.arrays, w.a, w.n, w.sum)
	w.run(step.weigh[isPartial], s.rows, s.keys, j.params, w.arrays...)
	copy(m.Data, w.n.Data)
	copy(l.Data, w.sum.Data)
	if !t.takeZeros(s) && slices.ContainsFunc(view[float32](&w.a, 0, 0, s.rows), func(a float32) bool { return a != 1 }) { // its rows are neighbours
		w.run(j.p.scales, s.rows, j.depth, nil, o, w.a, o)
	}
	if isPacked {
		v := rowsOf(w.keys.value, s.key-w.keys.first, s.key-w.keys.first+s.keys)
		if sight != lower.EveryKey && !w.hasFiniteValues(step.finite) {
			j.addVisible(w, step.values, &weights, &v, &o, head, place, s.key, 0)
		} else {
			w.run(step.values, 0, 0, nil, weights, v, o)
		}
		return
	}
	for first := 0; first < s.keys; {
		row, n := j.token(w, s.key+first, s.keys-first)
		v := matrix(&j.operands[f.Value], j.heads, row, head/j.shared, n)
		if p := columns(&weights, first, n); sight != lower.EveryKey && !w.isFinite(step.finite, &v) {
			j.addVisible(w, step.values, &p, &v, &o, head, place, s.key, first)
		} else {
			w.run(step.values, 0, 0, nil, p, v, o)
		}
		first += n
	}
}

// takeZeros reports whether nothing has been added to rows of a tile so far. Now it will be.
func (t *streamTileState) takeZeros(s streamPart) bool {
	strips := t.isZero[s.row/streamStrip : (s.row+s.rows-1)/streamStrip+1]
	areZero := !slices.Contains(strips, false)
	clear(strips)
	return areZero
}

// pack packs the block of keys and their values.
func (j *streamJob) pack(w *streamWorker, head int) {
	b, f := &w.keys, j.p.f
	if b.isPacked {
		return
	}
	b.isPacked = true
	packedRoom(&b.key, j.depth, def.StreamBlock)
	packedRoom(&b.value, b.count, j.depth)
	for first := 0; first < b.count; {
		row, n := j.token(w, b.first+first, b.count-first)
		k, v := matrix(&j.operands[f.Key], j.heads, row, head/j.shared, n), matrix(&j.operands[f.Value], j.heads, row, head/j.shared, n)
		key, value := columns(&b.key, first, n), rowsOf(b.value, first, first+n)
		w.packInto(j.p.packer, key, k, true)
		w.packInto(j.p.packer, value, v, false)
		first += n
	}
}

// packInto packs a matrix. The arrays are the worker's, since what a Packer takes is allocated elsewhere.
func (w *streamWorker) packInto(p Packer, to, from num.Array, isTransposed bool) {
	w.packing = [...]num.Array{to, from}
	p.Pack(&w.packing[0], &w.packing[1], isTransposed)
}

// hasFiniteValues reports whether all values of the packed block are finite.
func (w *streamWorker) hasFiniteValues(finite Program) bool {
	if b := &w.keys; !b.isChecked {
		b.isChecked, b.isFinite = true, w.isFinite(finite, &b.value)
	}
	return w.keys.isFinite
}

// columns returns n columns of a matrix.
func columns(a *num.Array, first, n int) num.Array {
	return num.Array{DType: a.DType, Rows: a.Rows, Cols: n, Stride: a.Stride, Data: a.Data[first*a.DType.Size():]}
}

// runBody computes the body.
func (j *streamJob) runBody(w *streamWorker, head, place, block int) {
	j.fillBody(w, head, place, block)
	w.run(j.p.body, w.rows, w.cols, j.params, w.body...)
}

// fillBody fills what the body reads, but for the scores.
func (j *streamJob) fillBody(w *streamWorker, head, place, block int) {
	for i, read := range j.p.f.Reads {
		a := &w.body[i]
		switch {
		case i == 0:
		case i == 1:
			for r, x := 0, view[int32](a, 0, 0, w.rows); r < len(x); r++ { // its rows are neighbours
				query, _ := w.row(r)
				x[r] = int32(place + query)
			}
		case i == 2:
			for c, x := 0, view[int32](a, 0, 0, w.cols); c < len(x); c++ {
				x[c] = int32(block + c)
			}
		case i == 3:
			for r, x := 0, view[int32](a, 0, 0, w.rows); r < len(x); r++ {
				_, itsHead := w.row(r)
				x[r] = int32(head + itsHead)
			}
		default:
			j.read(w, a, read, head, block)
		}
	}
}

// read copies what the tile and the block need of an operand of the body.
func (j *streamJob) read(w *streamWorker, to *num.Array, operand, head, block int) {
	dims, from := j.p.d.Operands[operand].Dims, &j.operands[operand]
	for r := range to.Rows {
		query, itsHead := w.row(r)
		query, itsHead = w.first+query, head+itsHead
		g, shared := itsHead/j.shared, itsHead%j.shared
		for c := range to.Cols {
			row, col := 0, 0
			switch {
			case dims[0] == "G":
				row, col = g, shared
			case dims[0] == "T" && len(dims) == 3:
				row, col = query*j.heads+g, shared
			case dims[0] == "T":
				row = query
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
	b := *a
	if a.Stride == a.Cols { // one long row takes less time
		b.Rows, b.Cols, b.Stride = 1, a.Rows*a.Cols, a.Rows*a.Cols
	}
	room(&w.checked, num.F32, b.Rows, 1)
	w.run(finite, b.Rows, b.Cols, nil, b, w.checked)
	for _, x := range view[float32](&w.checked, 0, 0, b.Rows) {
		if x != 0 {
			return false
		}
	}
	return true
}

// addVisible adds the values of visible keys, row by row, with zeros in place of the others. first is the first of v's
// keys in the block.
func (j *streamJob) addVisible(w *streamWorker, add Program, weights, v, to *num.Array, head, place, block, first int) {
	seen := j.seen(w, head, place, block)
	room(&w.kept, v.DType, v.Rows, v.Cols)
	for r := range w.rows {
		keepRows(&w.kept, v, 0, func(k int) bool { return isSeen(&seen, r, first+k) })
		w.run(add, 0, 0, nil, rowsOf(*weights, r, r+1), w.kept, rowsOf(*to, r, r+1))
	}
}

// seen returns which keys of a block are seen. The body computes that from any scores.
func (j *streamJob) seen(w *streamWorker, head, place, block int) num.Array {
	room(&w.anyScores, num.F32, w.rows, w.cols)
	scores := w.body[0]
	w.body[0] = w.anyScores
	j.runBody(w, head, place, block)
	w.body[0] = scores
	return w.body[len(j.p.f.Reads)+1]
}

// join adds the segment's state to that of the ones before it. A segment whose keys nobody sees changes nothing.
func (j *streamJob) join(w *streamWorker, t *streamTileState) {
	switch {
	case !t.hasPart:
		return
	case !t.hasSegments:
		t.part, t.all, t.hasSegments = t.all, t.part, true
		return
	}
	w.size(j, t.rows, 1)
	w.run(j.p.joins, t.rows, 1, nil, t.all.m, t.part.m, w.n, w.a, w.b)
	t.all.m, w.n = w.n, t.all.m
	all, part := view[float32](&t.all.l, 0, 0, t.rows), view[float32](&t.part.l, 0, 0, t.rows)
	for r := range all {
		all[r] = num.FMA(all[r], w.a.At(r, 0), float32(part[r]*w.b.At(r, 0)))
	}
	w.run(j.p.folds, t.rows, j.depth, nil, t.all.o, w.a, t.part.o, w.b)
}

// store stores the results of a tile.
func (j *streamJob) store(w *streamWorker, t *streamTileState, head int) {
	f := j.p.f
	w.size(j, t.rows, 1)
	w.run(j.p.logs, t.rows, 1, nil, t.all.m, t.all.l, w.n)
	j.storeMeans(w, t, head)
	last, _ := w.row(t.rows - 1)
	logSum, column := matrix(&j.operands[f.LogSum], j.heads, t.first, head/j.shared, last+1), head%j.shared
	ms, ls := view[float32](&t.all.m, 0, 0, t.rows), view[float32](&t.all.l, 0, 0, t.rows) // their rows are neighbours
	for r, sum := range view[float32](&w.n, 0, 0, t.rows) {
		query, itsHead := w.row(r)
		if isNaN := ms[r] != ms[r] || ms[r] > math.MaxFloat32; isNaN || ls[r] == 0 {
			x := float32(0)
			sum = float32(math.Inf(-1))
			if ls[r] != 0 {
				x, sum = float32(math.NaN()), float32(math.NaN())
			}
			row := j.headsOf(f.Out, t.first+query, head+itsHead, 1)
			for c := range j.depth {
				row.Set(0, c, x)
			}
		}
		view[float32](&logSum, query, column+itsHead, 1)[0] = sum
	}
}
