package table

import (
	"sync"
	"unsafe"

	"tokitai/def"
	"tokitai/lower"
	lowercpu "tokitai/lower/cpu"
	. "tokitai/lower/cpu/asm/amd64"
	"tokitai/num"
)

// gatherFrame is the argument of a gather's code: count queries, and bytes of each row.
type gatherFrame struct {
	index       unsafe.Pointer
	indexStride int // strides are in bytes
	table       unsafe.Pointer
	tableStride int
	out         unsafe.Pointer
	outStride   int
	count       int // at least 1
	rows        int
	bytes       int
	mask        uint64 // of the bytes after the last whole vector
}

type gather struct {
	program
	width         Width
	plain, stream int // entries of the code
	jobs          sync.Pool
}

func compileGather(d *def.Definition, g *generator) (lowercpu.Program, error) {
	p := &gather{width: g.width}
	p.plain = g.gather(false)
	g.a.Align(16)
	p.stream = g.gather(true)
	var err error
	p.program, err = g.finish(d, "copies of rows")
	return p, err
}

// gather emits the copy of rows and returns its entry.
func (g *generator) gather(stream bool) int {
	a := g.a
	entry := a.Len()
	var f gatherFrame
	field := func(offset uintptr) Mem { return At(RDI, int32(offset)) }
	a.Comment("gather: %s", stores(stream))
	a.G(MOV, 64, R8, field(unsafe.Offsetof(f.index)))
	a.G(MOV, 64, R9, field(unsafe.Offsetof(f.table)))
	a.G(MOV, 64, RDX, field(unsafe.Offsetof(f.out)))
	a.G(MOV, 64, R11, field(unsafe.Offsetof(f.bytes)))
	a.G(MOV, 64, R10, field(unsafe.Offsetof(f.tableStride)))
	if g.evex {
		a.K(KMOVQ, K2, field(unsafe.Offsetof(f.mask)))
	}
	query, next, zero, last := a.Label(), a.Label(), a.Label(), a.Label()
	a.Bind(query)
	a.Comment("the query's row, and in R12 the next one's, which is prefetched")
	a.G(MOVSX32, 64, RSI, At(R8, 0))
	a.G(ADD, 64, R8, field(unsafe.Offsetof(f.indexStride)))
	a.G(MOV, 64, R12, RSI)
	a.G(CMP, 64, field(unsafe.Offsetof(f.count)), Imm(1))
	a.J(Equal, last)
	a.G(MOVSX32, 64, R12, At(R8, 0))
	a.Bind(last)
	a.G(IMUL, 64, R12, R10)
	a.G(ADD, 64, R12, R9)
	a.G(CMP, 64, RSI, field(unsafe.Offsetof(f.rows)))
	a.J(AboveEqual, zero)
	a.G(IMUL, 64, RSI, R10)
	a.G(ADD, 64, RSI, R9)
	const ahead = 8
	vec := g.width.Bytes()
	g.span(ahead, func(p part, n, size int) {
		for i := range n {
			from, to := At(RSI, int32(i*vec)).Plus(RBX, 1), At(RDX, int32(i*vec)).Plus(RBX, 1)
			switch {
			case p == masked:
				a.V(VMOVDQU8, Z, Vec(0), from, Zero(K2))
				a.V(VMOVDQU8, Z, to, Vec(0), Merge(K2))
				continue
			case p == single:
				a.G(MOV, 8*size, RAX, from)
				a.G(MOV, 8*size, to, RAX)
				continue
			}
			if i*vec%64 == 0 {
				a.G(PREFETCHT0, 8, At(R12, int32(i*vec)).Plus(RBX, 1))
			}
			a.V(VMOVDQU, g.width, Vec(i), from)
		}
		for i := range n {
			to := At(RDX, int32(i*vec)).Plus(RBX, 1)
			switch {
			case p != whole:
			case stream:
				a.V(VMOVNTDQ, g.width, to, Vec(i))
			default:
				a.V(VMOVDQU, g.width, to, Vec(i))
			}
		}
	})
	a.Bind(next)
	a.G(ADD, 64, RDX, field(unsafe.Offsetof(f.outStride)))
	a.G(DEC, 64, field(unsafe.Offsetof(f.count)))
	a.J(NotEqual, query)
	g.leave(stream)
	a.Bind(zero)
	a.Comment("no such row: zeros")
	g.zeros(RDX, stream)
	a.Jmp(next)
	return entry
}

type gatherJob struct {
	p                 *gather
	index, table, out num.Array
	perItem           int // queries
	cols              int // columns per item
	blocks            int // of columns
	entry             int
	started           bool
	workers           []*gatherFrame
}

// Bind implements Program.
func (p *gather) Bind(c *lower.Call, workers int) lowercpu.Job {
	j, _ := p.jobs.Get().(*gatherJob)
	if j == nil {
		j = &gatherJob{p: p}
	}
	f := p.d.Form.(*def.Lookup)
	j.index, j.table, j.out, j.started = c.Operands[f.Index].Array, c.Operands[f.Table].Array, c.Operands[f.Out].Array, false
	size := j.out.DType.Size()
	block := itemBytes(&j.out, workers)
	j.cols = min(j.out.Cols, block/size)
	j.blocks = (j.out.Cols + j.cols - 1) / j.cols
	j.perItem = max(1, block/(j.cols*size))
	j.entry = p.plain
	if canStream(&j.out, p.width) {
		j.entry = p.stream
	}
	for len(j.workers) < workers {
		j.workers = append(j.workers, &gatherFrame{})
	}
	return j
}

// Next implements Job.
func (j *gatherJob) Next() (int, bool) {
	if j.started {
		return 0, false
	}
	j.started = true
	return (j.out.Rows + j.perItem - 1) / j.perItem * j.blocks, true
}

// Do implements Job.
func (j *gatherJob) Do(worker, item int) {
	f := j.workers[worker]
	size := j.out.DType.Size()
	q, col := item/j.blocks*j.perItem, item%j.blocks*j.cols
	n := min(j.cols, j.out.Cols-col)
	*f = gatherFrame{
		index: at(&j.index, q, 0), indexStride: j.index.Stride * 4,
		tableStride: j.table.Stride * size,
		out:         at(&j.out, q, col), outStride: j.out.Stride * size,
		count: min(j.perItem, j.out.Rows-q), rows: j.table.Rows, bytes: n * size,
		mask: 1<<(n*size%64) - 1,
	}
	if j.table.Rows > 0 {
		f.table = at(&j.table, 0, col)
	}
	j.p.code.Call(j.entry, unsafe.Pointer(f))
}

// Release implements Job.
func (j *gatherJob) Release() {
	j.index, j.table, j.out = num.Array{}, num.Array{}, num.Array{}
	for _, f := range j.workers {
		*f = gatherFrame{}
	}
	j.p.jobs.Put(j)
}
