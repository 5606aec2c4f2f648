package cpu

import (
	"fmt"
	"sync"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// gather copies rows by index.
type gather struct {
	d    *def.Definition
	jobs sync.Pool
}

func compileGather(d *def.Definition, _ []num.DType, _ Class) (Program, error) {
	return &gather{d: d}, nil
}

func (p *gather) String() string { return fmt.Sprintf("gather %s: a copy a row\n", p.d.Name) }

type gatherJob struct {
	p                 *gather
	index, table, out num.Array
	perItem           int
	started           bool
}

// Bind implements Program.
func (p *gather) Bind(c *lower.Call, _ int) Job {
	j, _ := p.jobs.Get().(*gatherJob)
	if j == nil {
		j = &gatherJob{p: p}
	}
	f := p.d.Form.(*def.Lookup)
	j.index, j.table, j.out, j.started = c.Operands[f.Index].Array, c.Operands[f.Table].Array, c.Operands[f.Out].Array, false
	j.perItem = max(1, 1<<15/j.out.Cols)
	return j
}

// Next implements Job.
func (j *gatherJob) Next() (int, bool) {
	if j.started {
		return 0, false
	}
	j.started = true
	return (j.out.Rows + j.perItem - 1) / j.perItem, true
}

// Do implements Job.
func (j *gatherJob) Do(_, item int) {
	size := j.out.DType.Size()
	for q := item * j.perItem; q < min((item+1)*j.perItem, j.out.Rows); q++ {
		out := j.out.Data[q*j.out.Stride*size:][:j.out.Cols*size]
		if v := int(j.index.Int(q, 0)); v >= 0 && v < j.table.Rows {
			copy(out, j.table.Data[v*j.table.Stride*size:])
		} else {
			clear(out)
		}
	}
}

// Release implements Job.
func (j *gatherJob) Release() {
	j.index, j.table, j.out = num.Array{}, num.Array{}, num.Array{}
	j.p.jobs.Put(j)
}
