package table

import (
	"fmt"
	"sync"
	"unsafe"

	"tokitai/def"
	"tokitai/lower"
	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/asm/amd64"
	"tokitai/num"
)

// scatter sums rows by index. The queries are sorted by index first, stably, so that each
// row of the result is summed by one worker in ascending order.
type scatter struct {
	program
	width                 amd64.Width
	lanes                 int
	plain, stream, totals int // entries of the code
	jobs                  sync.Pool
}

func compileScatter(d *def.Definition, rows, result num.DType, g *generator) (lowercpu.Program, error) {
	if !rows.IsFloat() || !result.IsFloat() {
		return nil, fmt.Errorf("%s: sums of %s into %s, want floats", d.Name, rows, result)
	}
	s := newSums(g, rows, result, d.Accumulates())
	p := &scatter{width: g.width, lanes: s.lanes}
	p.plain = s.scatter(false)
	if !d.Accumulates() {
		g.a.Align(16)
		p.stream = s.scatter(true)
	}
	g.a.Align(16)
	p.totals = s.totals()
	how := fmt.Sprintf("in chunks of %d", def.ScatterChunk)
	if s.exact {
		how = "exact"
	}
	var err error
	p.program, err = g.finish(d, fmt.Sprintf("queries sorted by index, sums %s", how))
	return p, err
}

// The sizes of items, and of calls of the code, which take some 50 µs at most.
const (
	scatterCols = 1 << 12 // columns per item; in bytes a multiple of a vector
	callWork    = 1 << 18 // elements that one call sums
	heavyCols   = 1 << 8  // columns of a heavy row per item
)

// exactTerms is how many f16 values one sum in binary64 may have. Each is below 2^40
// units of 2^-24, so that 2^13 would be exact still.
const exactTerms = 1 << 12

type scatterJob struct {
	p                   *scatter
	index, rows, result num.Array
	first               []uint32   // by row of the result, and one more: where its queries begin
	queries             []uint32   // sorted by index, ascending within one; and prefetchMost more
	places              [][]uint32 // by part of the queries and row of the result: how many there are, then where the next is put
	phase               phase
	heavy               []int // rows of the result with more than limit queries
	limit               int
	cols, blocks        int // of light rows: columns per item, items per row
	heavyBlocks         int
	perItem             int // rows
	entry               int
	ahead               int // queries
	workers             []*scatterWorker
}

type scatterWorker struct {
	frame  scatterFrame
	totals totalsFrame
	sums   [heavyCols]float32
	exact  [heavyCols]float64
	units  [heavyCols]units
}

// Bind implements Program.
func (p *scatter) Bind(c *lower.Call, workers int) lowercpu.Job {
	j, _ := p.jobs.Get().(*scatterJob)
	if j == nil {
		j = &scatterJob{p: p}
	}
	f := p.d.Form.(*def.Scatter)
	j.index, j.rows, j.result, j.phase = c.Operands[f.Index].Array, c.Operands[f.Rows].Array, c.Operands[f.Result].Array, bound
	j.cols = min(j.result.Cols, scatterCols)
	j.blocks = (j.result.Cols + j.cols - 1) / j.cols
	j.heavyBlocks = (j.result.Cols + heavyCols - 1) / heavyCols
	j.perItem = max(1, itemBytes(&j.result, workers)/(j.cols*j.result.DType.Size()))
	j.limit = min(callWork/j.cols, exactTerms)
	j.entry = p.plain
	if !p.d.Accumulates() && canStream(&j.result, p.width) {
		j.entry = p.stream
	}
	for len(j.workers) < workers {
		j.workers = append(j.workers, &scatterWorker{})
	}
	j.ahead = min(max(prefetchBytes/(j.cols*j.rows.DType.Size()), 2), prefetchMost)
	parts := 1
	if j.index.Rows >= sortedTogether && j.index.Rows >= j.result.Rows {
		parts = min(workers, 8)
	}
	j.prepareSort(parts)
	if parts == 1 {
		j.count(0)
		j.divide()
		j.place(0)
		j.phase = placed
	}
	return j
}

// phase is how far a job has come.
type phase int

const (
	bound   phase = iota
	counted       // the queries of each row, by parts of the queries
	placed        // the queries in their order
	summed
)

// sortedTogether is the number of queries from which the workers sort them together.
const sortedTogether = 1 << 15

// prepareSort prepares the sort of the queries by index, a counting sort, in parts.
func (j *scatterJob) prepareSort(parts int) {
	j.first = grow(j.first, j.result.Rows+1)
	j.queries = grow(j.queries, j.index.Rows+prefetchMost)
	clear(j.queries[j.index.Rows:])
	for len(j.places) < parts {
		j.places = append(j.places, nil)
	}
	j.places = j.places[:parts]
}

// part returns the queries of a part.
func (j *scatterJob) part(part int) (from, to int) {
	return j.index.Rows * part / len(j.places), j.index.Rows * (part + 1) / len(j.places)
}

// count counts the queries of each row in a part.
func (j *scatterJob) count(part int) {
	counts := grow(j.places[part], j.result.Rows)
	clear(counts)
	index, stride := view(&j.index), j.index.Stride
	from, to := j.part(part)
	for q := from; q < to; q++ {
		if v := index[q*stride]; v >= 0 && int(v) < len(counts) {
			counts[v]++
		}
	}
	j.places[part] = counts
}

// divide turns the counts into places, and finds the heavy rows.
func (j *scatterJob) divide() {
	j.heavy = j.heavy[:0]
	sum, first, last := uint32(0), j.first, j.places[len(j.places)-1]
	for v := range last {
		first[v] = sum
		for _, places := range j.places[:len(j.places)-1] {
			n := places[v]
			places[v] = sum
			sum += n
		}
		n := last[v]
		last[v] = sum
		sum += n
		if int(sum-first[v]) > j.limit {
			j.heavy = append(j.heavy, v)
		}
	}
	first[len(last)] = sum
}

// place puts the queries of a part into their places.
func (j *scatterJob) place(part int) {
	places := j.places[part]
	index, stride := view(&j.index), j.index.Stride
	from, to := j.part(part)
	for q := from; q < to; q++ {
		if v := index[q*stride]; v >= 0 && int(v) < len(places) {
			j.queries[places[v]] = uint32(q)
			places[v]++
		}
	}
}

// view returns the elements of an array of indices, gaps included.
func view(a *num.Array) []int32 {
	if a.Rows == 0 {
		return nil
	}
	return unsafe.Slice((*int32)(unsafe.Pointer(&a.Data[0])), (a.Rows-1)*a.Stride+1)
}

func grow(s []uint32, n int) []uint32 {
	if cap(s) < n {
		return make([]uint32, n)
	}
	return s[:n]
}

// Next implements Job.
func (j *scatterJob) Next() (int, bool) {
	j.phase++
	switch j.phase {
	case counted:
		return len(j.places), true
	case placed:
		j.divide()
		return len(j.places), true
	case summed:
	default:
		return 0, false
	}
	return len(j.heavy)*j.heavyBlocks + (j.result.Rows+j.perItem-1)/j.perItem*j.blocks, true
}

// Release implements Job.
func (j *scatterJob) Release() {
	j.index, j.rows, j.result = num.Array{}, num.Array{}, num.Array{}
	for _, w := range j.workers {
		w.frame, w.totals = scatterFrame{}, totalsFrame{}
	}
	j.p.jobs.Put(j)
}

// Do implements Job.
func (j *scatterJob) Do(worker, item int) {
	switch j.phase {
	case counted:
		j.count(item)
	case placed:
		j.place(item)
	default:
		j.sum(j.workers[worker], item)
	}
}

// sum sums a block of columns of one heavy row or of some rows. Heavy rows come first:
// they take longest.
func (j *scatterJob) sum(w *scatterWorker, item int) {
	if n := len(j.heavy) * j.heavyBlocks; item < n {
		j.sumHeavy(w, j.heavy[item/j.heavyBlocks], item%j.heavyBlocks*heavyCols)
		return
	} else {
		item -= n
	}
	v, col := item/j.blocks*j.perItem, item%j.blocks*j.cols
	n := min(j.cols, j.result.Cols-col)
	end := min(v+j.perItem, j.result.Rows)
	for v < end {
		// Rows until their queries make up one call.
		last := v + 1
		for last < end && int(j.first[last+1]-j.first[v])*n <= callWork {
			last++
		}
		size := j.result.DType.Size()
		w.frame = scatterFrame{
			rowStride: j.rows.Stride * j.rows.DType.Size(),
			result:    at(&j.result, v, col), resultStride: j.result.Stride * size,
			first: unsafe.Pointer(&j.first[v]), queries: unsafe.Pointer(&j.queries[0]),
			count: last - v, cols: n, bytes: n * size, limit: j.limit, ahead: 4 * j.ahead,
			mask: 1<<(n%j.p.lanes) - 1, byteMask: 1<<(n*size%64) - 1,
		}
		if j.rows.Rows > 0 {
			w.frame.rows = at(&j.rows, 0, col)
		}
		j.p.code.Call(j.entry, unsafe.Pointer(&w.frame))
		v = last
	}
}

// sumHeavy sums columns of a row with many queries, a call at a time.
func (j *scatterJob) sumHeavy(w *scatterWorker, v, col int) {
	n := min(heavyCols, j.result.Cols-col)
	queries := j.queries[j.first[v]:j.first[v+1]]
	f := &w.totals
	*f = totalsFrame{
		rows: at(&j.rows, 0, col), rowStride: j.rows.Stride * j.rows.DType.Size(),
		cols: n, mask: 1<<(n%j.p.lanes) - 1, ahead: 4 * j.ahead,
	}
	const perCall = callWork / heavyCols / def.ScatterChunk * def.ScatterChunk
	exact := j.rows.DType == num.F16
	if exact {
		clear(w.units[:n])
		f.totals = unsafe.Pointer(&w.exact)
	} else {
		clear(w.sums[:n])
		if j.p.d.Accumulates() {
			load(w.sums[:n], &j.result, v, col)
		}
		f.totals = unsafe.Pointer(&w.sums)
	}
	for len(queries) > 0 {
		f.queries, f.count = unsafe.Pointer(&queries[0]), min(len(queries), perCall)
		queries = queries[f.count:]
		clear(w.exact[:n])
		j.p.code.Call(j.p.totals, unsafe.Pointer(f))
		if exact {
			for c, x := range w.exact[:n] {
				w.units[c].add(x)
			}
		}
	}
	if !exact {
		store(&j.result, v, col, w.sums[:n])
		return
	}
	for c := range n {
		x := &w.units[c]
		old := float64(0)
		if j.p.d.Accumulates() {
			old = float64(j.result.At(v, col+c))
		}
		j.result.SetBits(v, col+c, num.NarrowF64(j.result.DType, x.odd(old)))
	}
}

// load reads stored elements, widened to binary32.
func load(d []float32, a *num.Array, row, col int) {
	for i := range d {
		d[i] = a.At(row, col+i)
	}
}

// store writes values, each rounded once.
func store(a *num.Array, row, col int, x []float32) {
	for i, v := range x {
		a.Set(row, col+i, v)
	}
}
