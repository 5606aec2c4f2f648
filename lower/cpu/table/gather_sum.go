package table

import (
	"fmt"
	"sync"
	"unsafe"

	"tokitai/def"
	"tokitai/lower"
	lowercpu "tokitai/lower/cpu"
	. "tokitai/lower/cpu/asm/amd64"
	"tokitai/num"
)

// gatherSumFrame is the argument of a gather-sum's code: count queries, and cols columns of each.
type gatherSumFrame struct {
	table     unsafe.Pointer
	out       unsafe.Pointer
	outStride int            // in bytes
	sizes     unsafe.Pointer // of each query's terms in bytes, uint32
	terms     unsafe.Pointer // of the queries, one after another; and termsAhead more
	count     int            // queries, at least 1
	cols      int
	bytes     int    // cols columns
	mask      uint64 // of the columns after the last whole vector of the sums
	byteMask  uint64 // of the bytes after the last whole vector of the output
}

// term is a row that is added to a query's sum.
type term struct {
	row    int // in bytes from the first
	weight float32
	_      uint32
}

// termsAhead is how many terms ahead rows are prefetched.
const termsAhead = 4

type gatherSum struct {
	program
	width         Width
	lanes         int
	plain, stream int // entries of the code
	jobs          sync.Pool
}

func compileGatherSum(d *def.Definition, table num.DType, g *generator) (lowercpu.Program, error) {
	if !table.IsFloat() {
		return nil, fmt.Errorf("%s: sums of %s, want floats", d.Name, table)
	}
	s := &sums{generator: g, rows: table, result: table, lanes: g.width.Bytes() / 4, unroll: 4}
	if g.evex {
		s.unroll = 8
	}
	isWeighted := d.Form.(*def.LookupSum).IsWeighted()
	p := &gatherSum{width: g.width, lanes: s.lanes}
	p.plain = s.gatherSum(isWeighted, false)
	g.a.Align(16)
	p.stream = s.gatherSum(isWeighted, true)
	var err error
	p.program, err = g.finish(d, "sums of rows, one after another")
	return p, err
}

// gatherSum emits the sums of all queries and returns the entry.
func (s *sums) gatherSum(isWeighted, stream bool) int {
	a := s.a
	entry := a.Len()
	var f gatherSumFrame
	var t term
	s.stream = stream
	field := func(offset uintptr) Mem { return At(RDI, int32(offset)) }
	a.Comment("gather-sum of %s: %s", s.rows, stores(stream))
	a.G(MOV, 64, RSI, field(unsafe.Offsetof(f.table)))
	a.G(MOV, 64, RDX, field(unsafe.Offsetof(f.out)))
	a.G(MOV, 64, R10, field(unsafe.Offsetof(f.sizes)))
	a.G(MOV, 64, R12, field(unsafe.Offsetof(f.terms)))
	if s.evex {
		a.K(KMOVQ, K1, field(unsafe.Offsetof(f.mask)))
		a.K(KMOVQ, K2, field(unsafe.Offsetof(f.byteMask)))
	}
	query, next, empty := a.Label(), a.Label(), a.Label()
	a.Bind(query)
	a.Comment("the query's terms: R12 to R13")
	a.G(MOV, 32, R13, At(R10, 0))
	a.G(ADD, 64, R10, Imm(4))
	a.G(ADD, 64, R13, R12)
	a.G(CMP, 64, R12, R13)
	a.J(Equal, empty)
	a.G(MOV, 64, R11, field(unsafe.Offsetof(f.cols)))
	bytes := s.lanes * s.rows.Size()
	s.columns(s.lanes, s.unroll, func(p part, n int) {
		weight := Vec(n + 4)
		for i := range n {
			a.V(VXORPS, X, Vec(i), Vec(i), Vec(i))
		}
		a.G(MOV, 64, RAX, R12)
		loop := a.Label()
		a.Align(32)
		a.Bind(loop)
		a.G(MOV, 64, RCX, At(RAX, int32(unsafe.Offsetof(t.row))))
		a.G(ADD, 64, RCX, RSI)
		if isWeighted {
			w := s.width
			if p == single {
				w = X
			}
			a.V(VBROADCASTSS, w, weight, At(RAX, int32(unsafe.Offsetof(t.weight))))
		}
		if p == whole {
			a.G(MOV, 64, R9, At(RAX, int32(termsAhead*unsafe.Sizeof(t)+unsafe.Offsetof(t.row))))
			a.G(ADD, 64, R9, RSI)
		}
		for i := range n {
			if p == whole && i*bytes%64 == 0 {
				a.G(PREFETCHT0, 8, At(R9, int32(i*bytes)).Plus(RBX, uint8(s.rows.Size())))
			}
			from, temp := At(RCX, int32(i*bytes)).Plus(RBX, uint8(s.rows.Size())), Vec(n+i%4)
			if !isWeighted {
				s.addOne(p, Vec(i), from, temp)
				continue
			}
			w := s.load(p, s.rows, temp, from)
			a.V(VFMADD231PS, w, Vec(i), weight, temp)
		}
		a.G(ADD, 64, RAX, Imm(int64(unsafe.Sizeof(t))))
		a.G(CMP, 64, RAX, R13)
		a.J(Below, loop)
		for i := range n {
			w := s.width
			if p == single {
				w = X
			}
			s.store(p, Vec(i), s.to(i), Vec(n), w)
		}
	})
	a.Bind(next)
	a.G(MOV, 64, R12, R13)
	a.G(ADD, 64, RDX, field(unsafe.Offsetof(f.outStride)))
	a.G(DEC, 64, field(unsafe.Offsetof(f.count)))
	a.J(NotEqual, query)
	s.leave(stream)
	a.Bind(empty)
	a.Comment("no term: zeros")
	a.G(MOV, 64, R11, field(unsafe.Offsetof(f.bytes)))
	s.zeros(RDX, stream)
	a.Jmp(next)
	return entry
}

type gatherSumJob struct {
	p                         *gatherSum
	index, table, weight, out num.Array
	isWeighted                bool
	perItem                   int // queries
	cols                      int // columns per item
	blocks                    int // of columns
	entry                     int
	started                   bool
	workers                   []*gatherSumWorker
}

type gatherSumWorker struct {
	frame gatherSumFrame
	sizes []uint32
	terms []term
}

// Bind implements Program.
func (p *gatherSum) Bind(c *lower.Call, workers int) lowercpu.Job {
	j, _ := p.jobs.Get().(*gatherSumJob)
	if j == nil {
		j = &gatherSumJob{p: p}
	}
	f := p.d.Form.(*def.LookupSum)
	j.index, j.table, j.out, j.started = c.Operands[f.Index].Array, c.Operands[f.Table].Array, c.Operands[f.Out].Array, false
	if j.isWeighted = f.IsWeighted(); j.isWeighted {
		j.weight = c.Operands[f.Weight].Array
	}
	size := j.out.DType.Size()
	block := itemBytes(&j.out, workers)
	j.cols = min(j.out.Cols, scatterCols)
	j.blocks = (j.out.Cols + j.cols - 1) / j.cols
	j.perItem = max(1, block/(j.cols*size*max(1, j.index.Cols)))
	j.entry = p.plain
	if canStream(&j.out, p.width) {
		j.entry = p.stream
	}
	for len(j.workers) < workers {
		j.workers = append(j.workers, &gatherSumWorker{})
	}
	return j
}

// Next implements Job.
func (j *gatherSumJob) Next() (int, bool) {
	if j.started {
		return 0, false
	}
	j.started = true
	return (j.out.Rows + j.perItem - 1) / j.perItem * j.blocks, true
}

// Do implements Job.
func (j *gatherSumJob) Do(worker, item int) {
	w := j.workers[worker]
	size := j.out.DType.Size()
	q, col := item/j.blocks*j.perItem, item%j.blocks*j.cols
	n, count := min(j.cols, j.out.Cols-col), min(j.perItem, j.out.Rows-q)
	w.list(j, q, count)
	w.frame = gatherSumFrame{
		out: at(&j.out, q, col), outStride: j.out.Stride * size,
		sizes: unsafe.Pointer(&w.sizes[0]), terms: unsafe.Pointer(&w.terms[0]),
		count: count, cols: n, bytes: n * size,
		mask: 1<<(n%j.p.lanes) - 1, byteMask: 1<<(n*size%64) - 1,
	}
	if j.table.Rows > 0 {
		w.frame.table = at(&j.table, 0, col)
	}
	j.p.code.Call(j.entry, unsafe.Pointer(&w.frame))
}

// list lists the terms of count queries.
func (w *gatherSumWorker) list(j *gatherSumJob, q, count int) {
	stride := j.table.Stride * j.table.DType.Size()
	w.sizes, w.terms = w.sizes[:0], w.terms[:0]
	for q := q; len(w.sizes) < count; q++ {
		before := len(w.terms)
		for s := range j.index.Cols {
			v := int(j.index.Int(q, s))
			if v < 0 || v >= j.table.Rows {
				continue
			}
			t := term{row: v * stride}
			if j.isWeighted {
				t.weight = j.weight.At(q, s)
			}
			w.terms = append(w.terms, t)
		}
		w.sizes = append(w.sizes, uint32((len(w.terms)-before)*int(unsafe.Sizeof(term{}))))
	}
	for range termsAhead {
		w.terms = append(w.terms, term{})
	}
}

// Release implements Job.
func (j *gatherSumJob) Release() {
	j.index, j.table, j.weight, j.out = num.Array{}, num.Array{}, num.Array{}, num.Array{}
	for _, w := range j.workers {
		w.frame = gatherSumFrame{}
	}
	j.p.jobs.Put(j)
}
