package cpu

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// staged is a definition divided at its orderings: programs for its parts, and between them the
// orderings of rows in memory.
type staged struct {
	d      *def.Definition
	stages *def.Stages
	parts  []Program     // by stage; nil for an ordering
	dtypes [][]num.DType // by stage: of the part's operands
	limits []*def.Node   // by stage: the number below which ranks matter, or nil
	counts []bool        // by stage: whether the part counts its elements from the first row on
	code   OrderCode     // nil for none
	jobs   sync.Pool
}

// CompileStages returns the program of a definition's stages; compile makes those of its parts, and code, if it is
// not nil, orders rows.
func CompileStages(d *def.Definition, stages *def.Stages, code OrderCode, compile func(part *def.Definition, dtypes []num.DType) (Program, error)) (Program, error) {
	p := &staged{d: d, stages: stages, parts: make([]Program, len(stages.List)), dtypes: make([][]num.DType, len(stages.List)), limits: make([]*def.Node, len(stages.List)), counts: make([]bool, len(stages.List)), code: code}
	for i := range stages.List {
		s := &stages.List[i]
		if s.Part == nil {
			if s.Ordering.Op == def.OpRank {
				p.limits[i] = lower.RankLimit(d.Exec(), s.Ordering)
			}
			continue
		}
		p.dtypes[i] = s.DTypes()
		p.counts[i] = slices.ContainsFunc(s.Part.Exec().Nodes, func(n *def.Node) bool {
			return n.Op == def.OpRandom || n.Op == def.OpElement || n.Op == def.OpElementHigh
		})
		var err error
		if p.parts[i], err = compile(s.Part, p.dtypes[i]); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// String implements Program.
func (p *staged) String() string {
	var b strings.Builder
	for i := range p.stages.List {
		if s := &p.stages.List[i]; s.Part != nil {
			fmt.Fprintf(&b, "stage %d: %s\n%s", i+1, s.Part.Name, p.parts[i])
		} else {
			fmt.Fprintf(&b, "stage %d: %s of each row\n", i+1, s.Ordering.Op)
		}
	}
	if p.code != nil {
		fmt.Fprintf(&b, "orderings of rows:\n%s", p.code)
	}
	return b.String()
}

// stagedJob is one execution of the stages.
type stagedJob struct {
	p       *staged
	call    lower.Call
	workers int
	stage   int // that runs; -1 before the first
	row     int // from which on the stage has not yet run, if it is a part
	part    Job // that runs, or nil
	partial lower.Call
	values  [][]float32   // between stages
	sorters []orderMemory // by worker
	perItem int           // rows of an ordering
}

// Bind implements Program.
func (p *staged) Bind(c *lower.Call, workers int) Job {
	j, _ := p.jobs.Get().(*stagedJob)
	if j == nil {
		j = &stagedJob{p: p}
	}
	j.call.Operands = append(j.call.Operands[:0], c.Operands...)
	j.call.Params = append(j.call.Params[:0], c.Params...)
	j.call.Rows, j.call.Cols = c.Rows, c.Cols
	j.workers, j.stage, j.row, j.part = workers, -1, c.Rows, nil
	j.perItem = max(1, 1<<12/c.Cols)
	for len(j.sorters) < workers {
		m := orderMemory{}
		if p.code != nil {
			m.code = p.code.NewOrderer()
		}
		j.sorters = append(j.sorters, m)
	}
	j.values = growAll(j.values, len(p.stages.Values))
	for i, v := range p.stages.Values {
		rows, cols := j.sizeOf(v.Extent)
		j.values[i] = grow(j.values[i], rows*cols)
	}
	return j
}

func (j *stagedJob) sizeOf(e def.Extent) (rows, cols int) {
	rows, cols = 1, 1
	if e&def.PerRow != 0 {
		rows = j.call.Rows
	}
	if e&def.PerColumn != 0 {
		cols = j.call.Cols
	}
	return rows, cols
}

// operand returns an operand of a stage: one of the definition's, or a value in the given format.
func (j *stagedJob) operand(at int, format num.DType) lower.Operand {
	if at < len(j.call.Operands) {
		return j.call.Operands[at]
	}
	at -= len(j.call.Operands)
	rows, cols := j.sizeOf(j.p.stages.Values[at].Extent)
	x := j.values[at]
	return lower.Operand{Array: num.Array{
		DType: format, Rows: rows, Cols: cols, Stride: cols,
		Data: unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x)),
	}}
}

// Next implements Job.
func (j *stagedJob) Next() (int, bool) {
	for {
		if j.part != nil {
			if items, ok := j.part.Next(); ok {
				return items, true
			}
			j.part.Release()
			j.part = nil
		}
		isNew := j.row == j.call.Rows
		if isNew {
			if j.stage++; j.stage == len(j.p.stages.List) {
				return 0, false
			}
			if j.p.stages.List[j.stage].Part == nil {
				return (j.call.Rows + j.perItem - 1) / j.perItem, true
			}
			j.row = 0
		}
		from, to := j.needed(j.row)
		if j.row = to; from == to && !(isNew && j.call.Rows == 0) {
			continue
		}
		s, c := &j.p.stages.List[j.stage], &j.partial
		c.Operands = c.Operands[:0]
		for i, at := range s.Operands {
			o := j.operand(at, j.p.dtypes[j.stage][i])
			if s.Part.Operands[i].Extent&def.PerRow != 0 {
				o.Array = rowsOf(o.Array, from, to)
			}
			c.Operands = append(c.Operands, o)
		}
		c.Params, c.Rows, c.Cols = j.call.Params, to-from, j.call.Cols
		j.part = j.p.parts[j.stage].Bind(c, j.workers)
	}
}

// needed returns the next rows of a part that something needs, from a row on: none if both ends are the number of
// rows. Rows that nothing needs are among them where they are few, or where the part counts its elements.
func (j *stagedJob) needed(row int) (from, to int) {
	s := &j.p.stages.List[j.stage]
	if s.Need == 0 {
		return row, j.call.Rows
	}
	need := ints(j.values[s.Need-len(j.call.Operands)])
	for from = row; from < len(need) && need[from] == 0; {
		from++
	}
	switch {
	case from == len(need):
		return from, from
	case j.p.counts[j.stage]:
		return 0, len(need)
	}
	to = from + 1
	for i := to; i < min(len(need), to+j.perItem); i++ {
		if need[i] != 0 {
			to = i + 1
		}
	}
	return from, to
}

// rowsOf returns some rows of an array.
func rowsOf(a num.Array, from, to int) num.Array {
	a.Data, a.Rows = a.Data[min(len(a.Data), from*a.Stride*a.DType.Size()):], to-from
	return a
}

// Do implements Job.
func (j *stagedJob) Do(worker, item int) {
	if j.part != nil {
		j.part.Do(worker, item)
		return
	}
	m := &j.sorters[worker]
	from, to := item*j.perItem, min((item+1)*j.perItem, j.call.Rows)
	if m.code != nil && j.orderAll(m, from, to) {
		return
	}
	for row := from; row < to; row++ {
		j.order(m, row)
	}
}

// orderAll computes an ordering of rows by machine code; it reports whether there is some for them.
func (j *stagedJob) orderAll(m *orderMemory, from, to int) bool {
	s, cols := &j.p.stages.List[j.stage], j.call.Cols
	if s.Need > 0 || from == to {
		return false
	}
	// rows returns the rows of a value between stages, or the one row that it has.
	rows := func(k int) []float32 {
		at := s.Operands[k] - len(j.call.Operands)
		if at < 0 {
			return nil
		}
		if n, _ := j.sizeOf(j.p.stages.Values[at].Extent); n == 1 {
			return j.values[at][:cols]
		}
		return j.values[at][from*cols : to*cols]
	}
	switch s.Ordering.Op {
	case def.OpRank:
		x, rank := rows(0), ints(rows(1))
		if cols > j.p.code.MostRanked(isFew(j.rankLimit(), cols)) || x == nil || len(x) != len(rank) {
			return false
		}
		m.code.Rank(rank, x, cols)
		return true
	case def.OpPacked:
		out := j.operand(s.Operands[len(s.Operands)-1], num.I32)
		keep, x := ints(rows(0)), rows(1)
		if out.DType.Size() != 4 || out.Cols == 0 || x == nil || len(keep) != (to-from)*cols {
			return false
		}
		p := Packing{Keep: keep, X: x, Cols: cols, Out: unsafe.Pointer(&out.Data[4*from*out.Stride]), OutStride: 4 * out.Stride, Slots: out.Cols}
		if s.Ordering.Type == def.Int {
			p.Fill = 1<<32 - 1
		}
		m.code.Pack(p)
		return true
	}
	return false
}

// rankLimit returns the number below which the ranks of the stage matter.
func (j *stagedJob) rankLimit() int {
	switch n := j.p.limits[j.stage]; {
	case n == nil:
		return math.MaxInt32
	case n.Op == def.OpParam:
		return max(0, int(j.call.Params[n.Param]))
	default:
		return max(0, int(n.Int))
	}
}

// order computes an ordering of one row, unless nothing needs its result.
func (j *stagedJob) order(m *orderMemory, row int) {
	s := &j.p.stages.List[j.stage]
	if s.Need > 0 {
		if need := ints(j.values[s.Need-len(j.call.Operands)]); need[min(row, len(need)-1)] == 0 {
			return
		}
	}
	of := func(k int) []float32 {
		if s.Operands[k] < len(j.call.Operands) { // an input that is ordered
			m.row = grow(m.row, j.call.Cols)
			Load(m.row, &j.call.Operands[s.Operands[k]].Array, row, 0)
			return m.row
		}
		at := s.Operands[k] - len(j.call.Operands)
		rows, cols := j.sizeOf(j.p.stages.Values[at].Extent)
		return j.values[at][min(row, rows-1)*cols:][:cols]
	}
	var result [1]float32
	last := s.Operands[len(s.Operands)-1]
	switch s.Ordering.Op {
	case def.OpPacked:
		out := j.operand(last, num.I32)
		m.slots = grow(m.slots, out.Cols)
		intoSlots(m.slots, ints(of(0)), of(1), s.Ordering.Type == def.Int)
		Store(&out.Array, row, 0, m.slots)
		return
	case def.OpUnpacked:
		in := j.operand(s.Operands[1], num.I32)
		m.slots = grow(m.slots, in.Cols)
		Load(m.slots, &in.Array, row, 0)
		fromSlots(of(2), ints(of(0)), m.slots)
		return
	case def.OpRank:
		m.rankBelow(j.rankLimit(), ints(of(1)), of(0))
		return
	case def.OpRowKth:
		ints(result[:])[0] = m.kth(of(0), int(ints(of(1))[0]))
	case def.OpRowNucleus:
		ints(result[:])[0] = m.nucleus(of(0), of(1), of(2)[0])
	default:
		panic("cpu: no routine for " + s.Ordering.Op.String())
	}
	out := j.operand(last, num.I32)
	Store(&out.Array, row, 0, result[:])
}

// Release implements Job.
func (j *stagedJob) Release() {
	clear(j.call.Operands)
	clear(j.partial.Operands)
	j.p.jobs.Put(j)
}
