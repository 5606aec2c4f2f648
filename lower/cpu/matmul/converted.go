package matmul

import (
	"fmt"
	"sync"

	"tokitai/def"
	"tokitai/lower"
	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
)

// converted is a contraction around one that has machine code: factors in FP8, which the code
// for arm64 does not read, are widened to f16, which has their values and products that are
// exact in binary32 as well, and sums that are scaled, or stored in a format that the code does
// not write, are left in binary32 first.
type converted struct {
	d         *def.Definition
	inner     *program
	dtypes    []num.DType
	isWidened bool // the factors
	isHeld    bool // the result, in binary32
	perItem   int  // elements that are worth waking a worker for
	jobs      sync.Pool
}

// needsConversion reports whether the code for matrix products takes the factors and the
// result of a definition in another form.
func needsConversion(d *def.Definition, dtypes []num.DType, set machine.Set) bool {
	return len(dtypes) >= 3 && (dtypes[0].IsFP8() && (set == machine.NEON || dtypes[2] != num.F32) || d.HasScales())
}

func compileConverted(d *def.Definition, dtypes []num.DType, set machine.Set) (lowercpu.Program, error) {
	p := &converted{d: d, dtypes: dtypes, perItem: 1 << 14}
	factors, result := dtypes[0], dtypes[2]
	if factors.IsFP8() && set == machine.NEON {
		p.isWidened, factors = true, num.F16
	}
	if d.HasScales() || result != factors && result != num.F32 {
		p.isHeld, result = true, num.F32
	}
	f := d.Product()
	left, right, out := &d.Operands[f.Left], &d.Operands[f.Right], &d.Operands[f.Result]
	var inner def.Rule
	if factors.IsFP8() {
		inner = def.Only(factors)
	}
	plain, err := def.Contraction(d.Name, def.ContractionForm{
		Left: left.Name, LeftDims: left.Dims, TransposeLeft: f.TransposeLeft,
		Right: right.Name, RightDims: right.Dims, TransposeRight: f.TransposeRight,
		Result: out.Name, ResultDims: out.Dims, Accumulate: f.Accumulate, Groups: f.Groups, Factors: inner,
	})
	if err != nil {
		return nil, err
	}
	if p.inner, err = compilePlain(plain, []num.DType{factors, factors, result}, set); err != nil {
		return nil, err
	}
	return p, nil
}

// String says what is converted, and lists the code.
func (p *converted) String() string {
	s := fmt.Sprintf("contraction %s of %v to %v:", p.d.Name, p.dtypes[0], p.dtypes[2])
	if p.isWidened {
		s += " factors are widened to f16,"
	}
	if p.d.HasScales() {
		s += " sums are scaled in f32,"
	}
	return s + " around\n" + p.inner.String()
}

// convertedJob converts what goes in, runs the inner job, and converts what comes out.
type convertedJob struct {
	p      *converted
	call   lower.Call // the operands as the caller has them
	own    lower.Call // as the inner program has them
	scales lower.Scales
	inner  lowercpu.Job
	phase  phase

	memory [3][]byte   // of converted operands
	lines  [][]float32 // a row for each worker
	rows   int         // of an item that converts
}

type phase uint8

const (
	starting phase = iota
	convertingIn
	multiplying
	convertingOut
)

// Bind implements Program.
func (p *converted) Bind(c *lower.Call, workers int) lowercpu.Job {
	j, _ := p.jobs.Get().(*convertedJob)
	if j == nil {
		j = &convertedJob{p: p}
	}
	j.phase = starting
	j.call.Operands = append(j.call.Operands[:0], c.Operands...)
	j.scales.Set(p.d, c)
	j.own.Operands = append(j.own.Operands[:0], c.Operands[:len(p.inner.d.Operands)]...)
	width := 1
	for i := range 3 {
		width = max(width, c.Operands[i].Cols)
		if dtype := p.innerFormat(i); p.isOwn(i) {
			j.own.Operands[i] = lower.Operand{Array: j.hold(i, dtype)}
		}
	}
	for len(j.lines) < workers {
		j.lines = append(j.lines, nil)
	}
	for w := range j.lines {
		if len(j.lines[w]) < width {
			j.lines[w] = make([]float32, width)
		}
	}
	j.rows = max(1, p.perItem/width)
	j.inner = p.inner.Bind(&j.own, workers)
	return j
}

// isOwn reports whether the inner program has one of the first three operands in memory of
// its own.
func (p *converted) isOwn(i int) bool { return i < 2 && p.isWidened || i == 2 && p.isHeld }

// innerFormat returns the format of one of the first three operands in the inner program.
func (p *converted) innerFormat(i int) num.DType {
	switch {
	case !p.isOwn(i):
		return p.dtypes[i]
	case i < 2:
		return num.F16
	}
	return num.F32
}

// hold returns memory for an operand in a format, without gaps.
func (j *convertedJob) hold(i int, dtype num.DType) num.Array {
	a := &j.call.Operands[i].Array
	n := a.Rows * a.Cols
	if cap(j.memory[i]) < n*dtype.Size() {
		j.memory[i] = make([]byte, n*dtype.Size())
	}
	own := num.Array{DType: dtype, Rows: a.Rows, Cols: a.Cols, Stride: a.Cols, Data: j.memory[i][:n*dtype.Size()]}
	for _, axis := range a.Batch.Axes[:a.Batch.Count] {
		n /= axis.Size
		own.Batch.Append(axis.Size, n)
	}
	return own
}

// itemsIn returns the number of items that convert an operand for the inner program.
func (j *convertedJob) itemsIn(i int) int {
	if !j.p.isOwn(i) || i == 2 && !j.p.d.Accumulates() {
		return 0
	}
	return parts(j.call.Operands[i].Rows, j.rows)
}

// Next implements Job. A phase may have no items.
func (j *convertedJob) Next() (int, bool) {
	switch j.phase {
	case starting:
		j.phase = convertingIn
		return j.itemsIn(0) + j.itemsIn(1) + j.itemsIn(2), true
	case convertingIn, multiplying:
		j.phase = multiplying
		if items, ok := j.inner.Next(); ok {
			return items, true
		}
		j.phase = convertingOut
		if j.p.isHeld {
			return parts(j.call.Operands[2].Rows, j.rows), true
		}
	}
	return 0, false
}

// Do implements Job.
func (j *convertedJob) Do(worker, item int) {
	switch j.phase {
	case multiplying:
		j.inner.Do(worker, item)
	case convertingIn:
		i := 0
		for ; item >= j.itemsIn(i); i++ {
			item -= j.itemsIn(i)
		}
		j.convert(worker, item, &j.call.Operands[i].Array, &j.own.Operands[i].Array, nil)
	case convertingOut:
		j.convert(worker, item, &j.own.Operands[2].Array, &j.call.Operands[2].Array, &j.scales)
	}
}

// convert converts the rows of an item, and multiplies them by scales if there are any.
func (j *convertedJob) convert(worker, item int, from, to *num.Array, scales *lower.Scales) {
	line := j.lines[worker][:from.Cols]
	for r := item * j.rows; r < min((item+1)*j.rows, from.Rows); r++ {
		from.Floats(r, line)
		if scales != nil {
			scales.Multiply(line, r, 0)
		}
		to.SetFloats(r, line)
	}
}

// Release implements Job. The pool must not keep operands alive.
func (j *convertedJob) Release() {
	j.inner.Release()
	j.inner, j.scales = nil, lower.Scales{}
	clear(j.call.Operands)
	clear(j.own.Operands)
	j.p.jobs.Put(j)
}
