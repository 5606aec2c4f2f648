package cpu

import (
	"fmt"
	"sync"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// rowWrite writes rows by index. It first finds the last query of each index, so that no two
// workers write the same row.
type rowWrite struct {
	d    *def.Definition
	jobs sync.Pool
}

func compileRowWrite(d *def.Definition, _ []num.DType, _ Class) (Program, error) {
	return &rowWrite{d: d}, nil
}

func (p *rowWrite) String() string { return fmt.Sprintf("row-write %s: a copy a row\n", p.d.Name) }

type rowWriteJob struct {
	p                  *rowWrite
	index, rows, table num.Array
	last               []int32 // by row of the table that has queries: the last of them
	perItem            int
	started            bool
}

// Bind implements Program.
func (p *rowWrite) Bind(c *lower.Call, _ int) Job {
	j, _ := p.jobs.Get().(*rowWriteJob)
	if j == nil {
		j = &rowWriteJob{p: p}
	}
	f := p.d.Form.(*def.RowWrite)
	j.index, j.rows, j.table, j.started = c.Operands[f.Index].Array, c.Operands[f.Rows].Array, c.Operands[f.Table].Array, false
	j.perItem = max(1, 1<<15/j.rows.Cols)
	if cap(j.last) < j.table.Rows {
		j.last = make([]int32, j.table.Rows)
	}
	j.last = j.last[:j.table.Rows]
	for q := range j.index.Rows {
		if v := int(j.index.Int(q, 0)); v >= 0 && v < j.table.Rows {
			j.last[v] = int32(q)
		}
	}
	return j
}

// Next implements Job.
func (j *rowWriteJob) Next() (int, bool) {
	if j.started {
		return 0, false
	}
	j.started = true
	return (j.rows.Rows + j.perItem - 1) / j.perItem, true
}

// Do implements Job.
func (j *rowWriteJob) Do(_, item int) {
	size := j.rows.DType.Size()
	for q := item * j.perItem; q < min((item+1)*j.perItem, j.rows.Rows); q++ {
		if v := int(j.index.Int(q, 0)); v >= 0 && v < j.table.Rows && j.last[v] == int32(q) {
			copy(j.table.Data[v*j.table.Stride*size:], j.rows.Data[q*j.rows.Stride*size:][:j.rows.Cols*size])
		}
	}
}

// Release implements Job.
func (j *rowWriteJob) Release() {
	j.index, j.rows, j.table = num.Array{}, num.Array{}, num.Array{}
	j.p.jobs.Put(j)
}
