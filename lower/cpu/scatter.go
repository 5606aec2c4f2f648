package cpu

import (
	"fmt"
	"math"
	"math/big"
	"sync"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// scatter sums rows by index. The queries are sorted by index first, stably, so
// that each row of the result is summed by one worker in ascending order.
type scatter struct {
	d    *def.Definition
	jobs sync.Pool
}

func compileScatter(d *def.Definition, _ []num.DType, _ Class) (Program, error) {
	return &scatter{d: d}, nil
}

func (p *scatter) String() string {
	return fmt.Sprintf("scatter-add %s: queries sorted by index, rows summed in blocks of %d columns\n", p.d.Name, chunk)
}

const scatterRows = 32 // rows of the result per item

type scatterJob struct {
	p                   *scatter
	index, rows, result num.Array
	first               []int // by row of the result, and one more: where its queries begin
	queries             []int // sorted by index, ascending within one
	blocks              int   // of columns
	started             bool
	workers             []*scatterWorker
}

type scatterWorker struct {
	line, sum, total [chunk]float32
	units            [chunk]int64 // exact sums of f16, in units of 2^-24
	special          [chunk]bool  // columns that hold an infinity or NaN
}

// Bind implements Program.
func (p *scatter) Bind(c *lower.Call, workers int) Job {
	j, _ := p.jobs.Get().(*scatterJob)
	if j == nil {
		j = &scatterJob{p: p}
	}
	f := p.d.Form.(*def.Scatter)
	j.index, j.rows, j.result, j.started = c.Operands[f.Index].Array, c.Operands[f.Rows].Array, c.Operands[f.Result].Array, false
	j.blocks = (j.result.Cols + chunk - 1) / chunk
	for len(j.workers) < workers {
		j.workers = append(j.workers, &scatterWorker{})
	}
	j.sort()
	return j
}

// sort sorts the queries by index with a counting sort.
func (j *scatterJob) sort() {
	if n := j.result.Rows + 1; cap(j.first) < n {
		j.first = make([]int, n)
	} else {
		j.first = j.first[:n]
		clear(j.first)
	}
	if cap(j.queries) < j.index.Rows {
		j.queries = make([]int, j.index.Rows)
	}
	j.queries = j.queries[:j.index.Rows]
	valid := func(q int) (int, bool) {
		v := int(j.index.Int(q, 0))
		return v, v >= 0 && v < j.result.Rows
	}
	for q := range j.index.Rows {
		if v, ok := valid(q); ok {
			j.first[v+1]++
		}
	}
	for v := range j.result.Rows {
		j.first[v+1] += j.first[v]
	}
	for q := range j.index.Rows {
		if v, ok := valid(q); ok {
			j.queries[j.first[v]] = q
			j.first[v]++
		}
	}
	copy(j.first[1:], j.first) // each entry has moved on to the next one's beginning
	j.first[0] = 0
}

// Next implements Job.
func (j *scatterJob) Next() (int, bool) {
	if j.started {
		return 0, false
	}
	j.started = true
	return (j.result.Rows + scatterRows - 1) / scatterRows * j.blocks, true
}

// Release implements Job.
func (j *scatterJob) Release() {
	j.index, j.rows, j.result = num.Array{}, num.Array{}, num.Array{}
	j.p.jobs.Put(j)
}

// Do implements Job: some rows of the result, a block of columns.
func (j *scatterJob) Do(worker, item int) {
	w := j.workers[worker]
	v, col := item/j.blocks*scatterRows, item%j.blocks*chunk
	n := min(chunk, j.result.Cols-col)
	for end := min(v+scatterRows, j.result.Rows); v < end; v++ {
		queries := j.queries[j.first[v]:j.first[v+1]]
		switch {
		case len(queries) == 0 && j.p.d.Accumulates():
			// nothing is added: the row keeps its bits
		case len(queries) == 0:
			clear(w.total[:n])
			Store(&j.result, v, col, w.total[:n])
		case j.rows.DType == num.F16:
			j.exact(w, v, col, n, queries)
		default:
			j.chunked(w, v, col, n, queries)
		}
	}
}

// chunked adds chunks of occurrences, each summed from +0.
func (j *scatterJob) chunked(w *scatterWorker, v, col, n int, queries []int) {
	line, sum, total := w.line[:n], w.sum[:n], w.total[:n]
	clear(total)
	if j.p.d.Accumulates() {
		Load(total, &j.result, v, col)
	}
	for len(queries) > 0 {
		these := queries[:min(len(queries), def.ScatterChunk)]
		clear(sum)
		for _, q := range these {
			Load(line, &j.rows, q, col)
			add(sum, sum, line, nil)
		}
		add(total, total, sum, nil)
		queries = queries[len(these):]
	}
	Store(&j.result, v, col, total)
}

// unitsPerSum is how many f16 values can be summed in 64 bits: each is below 2^40
// units.
const unitsPerSum = 1 << 22

// exact sums f16 values as integers, in units of 2^-24, and rounds once. exactSlow sums
// columns with infinities or NaN, and sums that do not fit 64 bits or, when
// accumulating, binary64.
func (j *scatterJob) exact(w *scatterWorker, v, col, n int, queries []int) {
	line, units, special := w.line[:n], w.units[:n], w.special[:n]
	clear(units)
	clear(special)
	for _, q := range queries[:min(len(queries), unitsPerSum)] {
		Load(line, &j.rows, q, col)
		for c, x := range line {
			u := x * (1 << 24) // exact: an integer below 2^40, or not finite
			if u-u != 0 {
				special[c] = true
				continue
			}
			units[c] += int64(u)
		}
	}
	for c := range n {
		if special[c] || len(queries) > unitsPerSum || !j.roundUnits(v, col+c, units[c]) {
			j.exactSlow(v, col+c, queries)
		}
	}
}

// roundUnits stores a sum with one rounding, and reports whether it could.
func (j *scatterJob) roundUnits(v, c int, units int64) bool {
	if !j.p.d.Accumulates() {
		if j.result.DType == num.F32 {
			j.result.Set(v, c, float32(units)*0x1p-24)
		} else {
			j.result.SetBits(v, c, num.NarrowF64(j.result.DType, float64(units)*0x1p-24))
		}
		return true
	}
	old := float64(j.result.At(v, c))
	x := float64(units) * 0x1p-24
	if old-old != 0 || units > 1<<53 || units < -1<<53 {
		return false
	}
	// The exact sum old + x is s + e; s moved to odd in the direction of e rounds
	// as the exact sum does.
	s := old + x
	t := s - old
	e := float64(old-float64(s-t)) + float64(x-t)
	if e != 0 {
		if u := math.Float64bits(s); u&1 == 0 {
			if (e > 0) == (s > 0) {
				s = math.Float64frombits(u + 1)
			} else {
				s = math.Float64frombits(u - 1)
			}
		}
	}
	if s == 0 {
		s = 0 // +0, also for −0
	}
	j.result.SetBits(v, c, num.NarrowF64(j.result.DType, s))
	return true
}

// exactSlow computes the same sum with arbitrary precision.
func (j *scatterJob) exactSlow(v, c int, queries []int) {
	sum := new(big.Float).SetPrec(512) // holds any f32 beside 2^64 terms of f16
	special := float32(0)              // the sum of what is not finite
	addTerm := func(x float32) {
		if x-x != 0 {
			special += x
			return
		}
		sum.Add(sum, new(big.Float).SetFloat64(float64(x)))
	}
	if j.p.d.Accumulates() {
		addTerm(j.result.At(v, c))
	}
	for _, q := range queries {
		addTerm(j.rows.At(q, c))
	}
	if special != 0 { // an infinity or NaN
		j.result.Set(v, c, special)
		return
	}
	// Rounded to odd in binary64, the sum rounds to any narrower format as itself.
	nearZero := new(big.Float).SetPrec(53).SetMode(big.ToZero).Set(sum)
	s, _ := nearZero.Float64()
	if nearZero.Cmp(sum) != 0 {
		s = math.Float64frombits(math.Float64bits(s) | 1)
	}
	if s == 0 {
		s = 0 // +0, also for −0
	}
	j.result.SetBits(v, c, num.NarrowF64(j.result.DType, s))
}
