package cpu

import (
	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// wholeHead is what a worker keeps while it computes all gradients of a head of keys of one sequence:
// block after block of keys, from the last, and tile after tile of queries. A block's weights then serve
// all three gradients, and those of queries are added up in the order that their rule says.
type wholeHead struct {
	heads               []wholeQueries // that share the head of keys
	key, keyT, valueT   num.Array      // of the block, packed
	isPacked            bool
	isChecked, isFinite bool // the keys of the block
}

// wholeQueries are the queries of one head.
type wholeQueries struct {
	query, outGradient, lse, delta num.Array
	sum                            num.Array // of gradients
}

// wholeMemory is how many bytes a worker may take for one head.
const wholeMemory = 64 << 20

// takesWhole reports whether workers take whole heads: if there are enough of them, and none is too long.
func (j *backwardJob) takesWhole(workers int) bool {
	if j.p.packer == nil || workers > 1 && j.sequences*j.heads < 4*workers {
		return false
	}
	longest := 0
	for b := range j.sequences {
		s := j.spanOf(b)
		longest = max(longest, s.end-s.first)
	}
	return longest*j.shared*j.depth*3*num.F32.Size() <= wholeMemory
}

// wholeHead computes the gradients of a head of keys.
func (j *backwardJob) wholeHead(w *backwardWorker, b, kv int) {
	f, s := j.p.f, j.spanOf(b)
	w.firstKey = s.firstKey
	for len(w.whole.heads) < j.shared {
		w.whole.heads = append(w.whole.heads, wholeQueries{})
	}
	for i := range j.shared {
		j.beginHead(w, &w.whole.heads[i], s, kv*j.shared+i)
	}
	for block := (s.keys - 1) / def.StreamBlock * def.StreamBlock; block >= 0 && s.keys > 0; block -= def.StreamBlock {
		keys := min(def.StreamBlock, s.keys-block)
		w.whole.isPacked, w.whole.isChecked = false, false
		sums := [2]num.Array{zeros(&w.sum[0], keys, j.depth), zeros(&w.sum[1], keys, j.depth)}
		for i := range j.shared {
			j.addHead(w, &w.whole.heads[i], s, kv*j.shared+i, block, keys, &sums)
		}
		j.store(w, &sums[0], f.KeyGradient, j.heads, s.firstKey+block, kv, j.scale)
		j.store(w, &sums[1], f.ValueGradient, j.heads, s.firstKey+block, kv, unscaled)
	}
	for i := range j.shared {
		j.store(w, &w.whole.heads[i].sum, f.QueryGradient, j.heads*j.shared, s.first, kv*j.shared+i, j.scale)
	}
}

// beginHead packs the queries of a head, and computes what each has.
func (j *backwardJob) beginHead(w *backwardWorker, q *wholeQueries, s backwardSpan, head int) {
	f, rows := j.p.f, s.end-s.first
	zeros(&q.sum, rows, j.depth)
	if rows == 0 {
		return
	}
	w.first = s.first
	w.size(&j.streamJob, rows, 1)
	for _, x := range [...]struct {
		to   *num.Array
		from int
	}{{&q.query, f.Query}, {&q.outGradient, f.OutGradient}} {
		packedRoom(x.to, rows, j.depth)
		w.packInto(j.p.packer, *x.to, j.rowsOf(x.from, w, head), false)
	}
	room(&q.lse, num.F32, rows, 1)
	room(&q.delta, num.F32, rows, 1)
	lse := matrix(&j.operands[f.LogSum], j.heads, s.first, head/j.shared, rows)
	for r, to := 0, view[float32](&q.lse, 0, 0, rows); r < rows; r++ {
		to[r] = view[float32](&lse, r, head%j.shared, 1)[0]
	}
	w.run(j.p.delta, rows, j.depth, nil, j.rowsOf(f.OutGradient, w, head), j.rowsOf(f.Out, w, head), q.delta)
	if f.HasBase() {
		j.runBody(&w.streamWorker, head, s.place(s.first), 0)
		gradient := zeros(&w.part[0], rows, 1)
		w.run(j.p.base, rows, 1, nil, w.body[len(f.Reads)+2], q.lse, q.delta, gradient)
		for r := range rows {
			j.operands[f.BaseGradient].Set((s.first+r)*j.heads+head/j.shared, head%j.shared, gradient.At(r, 0))
		}
	}
}

// addHead adds what the queries of a head give to a block of keys, and the block to theirs.
func (j *backwardJob) addHead(w *backwardWorker, q *wholeQueries, s backwardSpan, head, block, keys int, sums *[2]num.Array) {
	hasPart := false // of the segment
	for first := s.first; first < s.end; {
		place := s.place(first)
		rows := min(streamTile-lower.Mod(place, streamTile), s.end-first) // a tile ends at a multiple of its size
		j.cutBlock(&w.streamWorker, head, streamPart{first - s.first, rows, block, keys}, s.place(s.first), func(part streamPart, sight lower.Sight) {
			if !hasPart {
				hasPart = true
				zeros(&w.part[0], keys, j.depth)
				zeros(&w.part[1], keys, j.depth)
			}
			j.packBlock(w, head, block, keys)
			j.addPart(w, q, s, head, block, part, sight)
		})
		first += rows
		if isEnd := first == s.end || lower.Mod(place+rows, def.StreamSegment) == 0; isEnd && hasPart {
			j.addAll(w, &sums[0], &w.part[0])
			j.addAll(w, &sums[1], &w.part[1])
			hasPart = false
		}
	}
}

// packBlock packs a block of keys and their values.
func (j *backwardJob) packBlock(w *backwardWorker, head, block, keys int) {
	b, f := &w.whole, j.p.f
	if b.isPacked {
		return
	}
	b.isPacked = true
	w.keys = keys
	k, v := j.keysOf(f.Key, w, head, block), j.keysOf(f.Value, w, head, block)
	packedRoom(&b.key, keys, j.depth)
	packedRoom(&b.keyT, j.depth, def.StreamBlock)
	packedRoom(&b.valueT, j.depth, def.StreamBlock)
	w.packInto(j.p.packer, b.key, k, false)
	w.packInto(j.p.packer, b.keyT, k, true)
	w.packInto(j.p.packer, b.valueT, v, true)
}

// addPart adds a part of the queries and the block to all gradients.
func (j *backwardJob) addPart(w *backwardWorker, q *wholeQueries, s backwardSpan, head, block int, part streamPart, sight lower.Sight) {
	f, b, programs := j.p.f, &w.whole, &j.p.whole
	w.first = s.first + part.row
	place, key := s.place(w.first), part.key-block
	w.size(&j.streamJob, part.rows, part.keys)
	room(&w.dp, num.F32, part.rows, part.keys)
	ofRows := func(a *num.Array) num.Array { return rowsOf(*a, part.row, part.row+part.rows) }
	query, outGradient := ofRows(&q.query), ofRows(&q.outGradient)
	w.run(j.p.packed.scores, 0, 0, nil, query, columns(&b.keyT, key, part.keys), w.body[0])
	w.run(j.p.packed.scores, 0, 0, nil, outGradient, columns(&b.valueT, key, part.keys), w.dp)
	j.fillBody(&w.streamWorker, head, place, part.key)
	w.arrays = append(append(w.arrays[:0], w.body[:len(f.Reads)]...), w.dp, ofRows(&q.lse), ofRows(&q.delta))
	isPartial := 0
	if sight != lower.EveryKey {
		isPartial = 1
	}
	w.run(programs.gradients[isPartial], part.rows, part.keys, j.params, w.arrays...)

	weights, gradients := w.body[0], w.dp // which take their places
	keys, sum := rowsOf(b.key, key, key+part.keys), ofRows(&q.sum)
	room(&w.queryPart, num.F32, part.rows, j.depth)
	if sight != lower.EveryKey && !w.hasFiniteKeys(j.p.packed.finite) {
		seen := j.seen(&w.streamWorker, head, place, part.key)
		j.addQueries(w, programs.queries, &gradients, &keys, &seen, &w.queryPart)
	} else {
		w.run(programs.queries, 0, 0, nil, gradients, keys, w.queryPart)
	}
	j.addAll(w, &sum, &w.queryPart)
	for i, right := range [...]num.Array{query, outGradient} {
		factors, to := [...]num.Array{gradients, weights}[i], rowsOf(w.part[i], key, key+part.keys)
		if sight == lower.EveryKey || w.isFinite(j.p.packed.finite, &right) {
			w.run(programs.keys, 0, 0, nil, factors, right, to)
			continue
		}
		seen := j.seen(&w.streamWorker, head, place, part.key)
		room(&w.kept, num.F32, right.Rows, right.Cols)
		for c := range part.keys {
			keepRows(&w.kept, &right, 0, func(r int) bool { return isSeen(&seen, r, c) })
			w.run(programs.keys, 0, 0, nil, columns(&factors, c, 1), w.kept, rowsOf(to, c, c+1))
		}
	}
}

// hasFiniteKeys reports whether all keys of the packed block are finite.
func (w *backwardWorker) hasFiniteKeys(finite Program) bool {
	if b := &w.whole; !b.isChecked {
		b.isChecked, b.isFinite = true, w.isFinite(finite, &b.key)
	}
	return w.whole.isFinite
}
