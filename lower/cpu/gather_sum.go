package cpu

import (
	"fmt"
	"sync"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// gatherSum sums a few rows by index for each query.
type gatherSum struct {
	d    *def.Definition
	jobs sync.Pool
}

func compileGatherSum(d *def.Definition, _ []num.DType, _ Class) (Program, error) {
	return &gatherSum{d: d}, nil
}

func (p *gatherSum) String() string {
	return fmt.Sprintf("gather-sum %s: rows summed in blocks of %d columns\n", p.d.Name, chunk)
}

type gatherSumJob struct {
	p                         *gatherSum
	index, table, weight, out num.Array
	perItem                   int // queries
	started                   bool
	workers                   []*gatherSumWorker
}

type gatherSumWorker struct{ line, sum [chunk]float32 }

// Bind implements Program.
func (p *gatherSum) Bind(c *lower.Call, workers int) Job {
	j, _ := p.jobs.Get().(*gatherSumJob)
	if j == nil {
		j = &gatherSumJob{p: p}
	}
	f := p.d.Form.(*def.LookupSum)
	j.index, j.table, j.out, j.started = c.Operands[f.Index].Array, c.Operands[f.Table].Array, c.Operands[f.Out].Array, false
	if f.IsWeighted() {
		j.weight = c.Operands[f.Weight].Array
	}
	j.perItem = max(1, 1<<14/max(1, j.out.Cols*j.index.Cols))
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
	return (j.out.Rows + j.perItem - 1) / j.perItem, true
}

// Do implements Job.
func (j *gatherSumJob) Do(worker, item int) {
	w := j.workers[worker]
	for q := item * j.perItem; q < min((item+1)*j.perItem, j.out.Rows); q++ {
		for col := 0; col < j.out.Cols; col += chunk {
			n := min(chunk, j.out.Cols-col)
			line, sum := w.line[:n], w.sum[:n]
			clear(sum)
			for s := range j.index.Cols {
				v := int(j.index.Int(q, s))
				if v < 0 || v >= j.table.Rows {
					continue
				}
				Load(line, &j.table, v, col)
				if j.p.d.Form.(*def.LookupSum).IsWeighted() {
					num.AddProducts(sum, j.weight.At(q, s), line)
				} else {
					add(sum, sum, line, nil)
				}
			}
			Store(&j.out, q, col, sum)
		}
	}
}

// Release implements Job.
func (j *gatherSumJob) Release() {
	j.index, j.table, j.weight, j.out = num.Array{}, num.Array{}, num.Array{}, num.Array{}
	j.p.jobs.Put(j)
}
