package cpu

import (
	"fmt"
	"sync"
	"unsafe"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// fusedBytes is what the sums of the rows take that are computed before the expression reads them: they
// stay in the cache. fusedRows is the least number of such rows, for which a product packs its right operand
// anew.
const (
	fusedBytes = 1 << 20
	fusedRows  = 384
)

// fused is products that end in an expression: a program for each product, which leaves its sums in binary32,
// and one for the expression. Where rows of the operands are those of the results, some rows at a time go
// through all of them.
type fused struct {
	d        *def.Definition
	f        *def.Fused
	products []Program
	body     Program
	byRows   bool
	least    int // rows at a time: fusedRows, and
	bytes    int // fusedBytes, but for tests
	jobs     sync.Pool
}

// CompileFused returns the program of products that end in an expression; compile makes those of the products
// and of the expression.
func CompileFused(d *def.Definition, dtypes []num.DType, compile func(part *def.Definition, dtypes []num.DType) (Program, error)) (Program, error) {
	f := d.Fused()
	if f == nil {
		return nil, fmt.Errorf("%s: is %s, want products that end in an expression", d.Name, d.Form)
	}
	formats := func(from []int) []num.DType {
		own := make([]num.DType, len(from))
		for i, at := range from {
			if own[i] = num.F32; at >= 0 {
				own[i] = dtypes[at]
			}
		}
		return own
	}
	p := &fused{d: d, f: f, byRows: d.Divisible() != "", least: fusedRows, bytes: fusedBytes}
	for i, part := range f.Products {
		program, err := compile(part, formats(f.Factors[i]))
		if err != nil {
			return nil, err
		}
		p.products = append(p.products, program)
	}
	var err error
	p.body, err = compile(f.Body, formats(f.Reads))
	return p, err
}

// compileFused lowers the parts in plain Go.
func compileFused(d *def.Definition, dtypes []num.DType, class Class) (Program, error) {
	return CompileFused(d, dtypes, func(part *def.Definition, dtypes []num.DType) (Program, error) {
		return Compile(part, dtypes, class)
	})
}

// String implements Program.
func (p *fused) String() string {
	s := ""
	for i, product := range p.products {
		s += fmt.Sprintf("product %s, sums in f32\n%s", p.f.Body.Operands[i].Name, product)
	}
	return s + "and of the sums, at least " + fmt.Sprint(p.least) + " rows at a time\n" + p.body.String()
}

// fusedJob is one execution.
type fusedJob struct {
	p       *fused
	call    lower.Call
	workers int
	sums    [][]float32 // by product, of the rows that are computed
	row     int         // the first of them
	rows    int         // how many
	stage   int         // the product that is computed, or the expression
	part    Job         // that runs, or nil
	own     lower.Call  // of the part
	size    struct{ rows, cols int }
}

// Bind implements Program.
func (p *fused) Bind(c *lower.Call, workers int) Job {
	j, _ := p.jobs.Get().(*fusedJob)
	if j == nil {
		j = &fusedJob{p: p}
	}
	j.call.Operands = append(j.call.Operands[:0], c.Operands...)
	j.call.Params = append(j.call.Params[:0], c.Params...)
	j.workers, j.row, j.stage, j.part = workers, 0, -1, nil
	out := &c.Operands[p.f.Result()]
	j.size.rows, j.size.cols = out.Rows, out.Cols
	if j.rows = out.Rows; p.byRows {
		j.rows = min(j.rows, max(p.least, p.bytes/4/max(1, out.Cols*len(p.products))))
	}
	j.sums = growAll(j.sums, len(p.products))
	for i := range j.sums {
		j.sums[i] = grow(j.sums[i], j.rows*out.Cols)
	}
	return j
}

// Next implements Job.
func (j *fusedJob) Next() (int, bool) {
	for {
		if j.part != nil {
			if items, ok := j.part.Next(); ok {
				return items, true
			}
			j.part.Release()
			j.part = nil
		}
		if j.stage++; j.stage > len(j.p.products) {
			j.stage = 0
			j.row += j.rows
		}
		if j.row >= j.size.rows {
			return 0, false
		}
		if j.stage == len(j.p.products) {
			j.part = j.p.body.Bind(j.bind(j.p.f.Body, j.p.f.Reads), j.workers)
		} else {
			j.part = j.p.products[j.stage].Bind(j.bind(j.p.f.Products[j.stage], j.p.f.Factors[j.stage]), j.workers)
		}
	}
}

// bind returns the call of a part, on the rows that are computed.
func (j *fusedJob) bind(part *def.Definition, from []int) *lower.Call {
	end := min(j.row+j.rows, j.size.rows)
	rows := j.p.d.BatchAxis()
	c := &j.own
	c.Operands = c.Operands[:0]
	for i, at := range from {
		if at < 0 {
			if at = i; part.Product() != nil { // its own sums
				at = j.stage
			}
			x := j.sums[at][:(end-j.row)*j.size.cols]
			c.Operands = append(c.Operands, lower.Operand{Array: num.Array{
				DType: num.F32, Rows: end - j.row, Cols: j.size.cols, Stride: j.size.cols,
				Data: unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x)),
			}})
			continue
		}
		o := j.call.Operands[at]
		if j.p.byRows && len(j.p.d.Operands[at].Dims) > 0 && j.p.d.Operands[at].Dims[0] == rows {
			o.Array = rowsOf(o.Array, j.row, end)
		}
		c.Operands = append(c.Operands, o)
	}
	if c.Params = nil; part.Expression() != nil {
		c.Params = j.call.Params
	}
	c.Measure(part)
	return c
}

// Do implements Job.
func (j *fusedJob) Do(worker, item int) { j.part.Do(worker, item) }

// Release implements Job.
func (j *fusedJob) Release() {
	clear(j.call.Operands)
	clear(j.own.Operands)
	j.p.jobs.Put(j)
}
