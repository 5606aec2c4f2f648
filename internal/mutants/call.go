package mutants

import (
	"fmt"
	"slices"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/lower"
	lowercpu "tokitai/lower/cpu"
	"tokitai/num"
)

// matrix is an operand in binary32.
type matrix struct {
	rows, cols int
	v          []float32
}

func newMatrix(rows, cols int) matrix { return matrix{rows, cols, make([]float32, rows*cols)} }

func (m matrix) row(r int) []float32 { return m.v[r*m.cols : (r+1)*m.cols] }

func (m matrix) column(c int) []float32 {
	v := make([]float32, m.rows)
	for r := range v {
		v[r] = m.v[r*m.cols+c]
	}
	return v
}

func transposed(m matrix) matrix {
	t := newMatrix(m.cols, m.rows)
	for c := range m.cols {
		copy(t.row(c), m.column(c))
	}
	return t
}

// call is a launch as the kernels here see it.
type call struct {
	d       *def.Definition
	a       []num.Array // the operands as they are stored
	x       []matrix    // the same in binary32: inputs as loaded, outputs as computed
	index   []int32     // the operand that holds indices, if there is one
	params  []float64
	workers int
	launch  *engine.Launch
}

func newCall(d *def.Definition, l *engine.Launch) *call {
	return &call{
		d: d, a: slices.Clone(l.Arrays()), params: slices.Clone(l.Params), launch: l,
		workers: l.Device.(*cpu.Device).Pool().Workers(),
	}
}

// in is the operand of that name, in binary32.
func (c *call) in(name string) matrix { return c.x[c.position(name)] }

func (c *call) position(name string) int {
	i := c.d.Operand(name)
	if i < 0 {
		panic(fmt.Sprintf("mutants: %s has no operand %s", c.d.Name, name))
	}
	return i
}

// param is a parameter as the definition takes it.
func (c *call) param(name string) float32 { return float32(c.params[c.d.Param(name)]) }

// outputs are the positions of what the call writes.
func (c *call) outputs() []int {
	var list []int
	for i := range c.d.Operands {
		if c.d.Operands[i].IsOut {
			list = append(list, i)
		}
	}
	return list
}

// computed are the outputs' values, for a fault that changes some of them.
func (c *call) computed(change func(m matrix)) {
	for _, i := range c.outputs() {
		change(c.x[i])
	}
}

// kernel is started once for every time that it is compiled, and then called.
type kernel interface {
	start() func(c *call) error
}

// stateful is a kernel that remembers something from call to call.
type stateful func() func(c *call) error

func (s stateful) start() func(c *call) error { return s() }

// plain is a kernel in parts. Those that are nil are honest; body is needed.
type plain struct {
	before func(c *call) error                            // first of all
	load   func(a num.Array, r, c int) float32            // an element of an input
	body   func(c *call)                                  // computes the outputs
	edit   func(c *call)                                  // what has been computed
	puts   func(c *call, operand, r, col int) bool        // whether an element is written
	store  func(d num.DType, v float32) (pattern uint32)  // how
	after  func(c *call)                                  // last of all
	write  func(c *call, operand int, v matrix, k *plain) // instead of puts and store
}

func (k plain) start() func(c *call) error { return k.run }

func (k plain) run(c *call) error {
	if k.before != nil {
		if err := k.before(c); err != nil {
			return err
		}
	}
	k.read(c)
	k.body(c)
	if k.edit != nil {
		k.edit(c)
	}
	for _, i := range c.outputs() {
		if k.write != nil {
			k.write(c, i, c.x[i], &k)
		} else {
			k.put(c, i, c.x[i])
		}
	}
	if k.after != nil {
		k.after(c)
	}
	return nil
}

// read loads every input, before anything is written.
func (k *plain) read(c *call) {
	load := k.load
	if load == nil {
		load = num.Array.At
	}
	c.x = make([]matrix, len(c.a))
	for i, a := range c.a {
		if c.d.Operands[i].IsIndex {
			c.index = make([]int32, a.Rows)
			for r := range c.index {
				c.index[r] = a.Int(r, 0)
			}
			continue
		}
		c.x[i] = newMatrix(a.Rows, a.Cols)
		if !c.d.Operands[i].IsIn {
			continue
		}
		for r := range a.Rows {
			row := c.x[i].row(r)
			for col := range row {
				row[col] = load(a, r, col)
			}
		}
	}
}

// put stores an output.
func (k *plain) put(c *call, i int, v matrix) {
	store, a := k.store, c.a[i]
	if store == nil {
		store = num.Narrow
	}
	for r := range a.Rows {
		for col, y := range v.row(r) {
			if k.puts == nil || k.puts(c, i, r, col) {
				a.SetBits(r, col, store(a.DType, y))
			}
		}
	}
}

// answer is the definition as a body: everything in binary32, to be stored once. Sums
// by index are exact in f16 and are not for it.
func answer(c *call) {
	dtypes := make([]num.DType, len(c.a))
	for i := range dtypes {
		if dtypes[i] = num.F32; c.d.Operands[i].IsIndex {
			dtypes[i] = num.I32
		}
	}
	execute(c, dtypes)
}

// exactly is the definition as a body in the formats of the call, where values depend
// on them.
func exactly(c *call) {
	dtypes := make([]num.DType, len(c.a))
	for i := range dtypes {
		dtypes[i] = c.a[i].DType
	}
	execute(c, dtypes)
}

// execute takes the CPU's own lowering: it has the reference's bits, and is faster.
func execute(c *call, dtypes []num.DType) {
	operands := make([]lower.Operand, len(c.a))
	for i, a := range c.a {
		if c.d.Operands[i].IsIndex {
			operands[i].Array = num.IndexArray(c.index...)
		} else {
			operands[i].Array = num.ArrayOf(dtypes[i], a.Rows, a.Cols, c.x[i].v...)
		}
	}
	call := &lower.Call{Operands: operands, Params: c.params}
	call.Measure(c.d)
	program, err := lowercpu.Compile(c.d, dtypes, lowercpu.ClassOf(c.d, call.Cols))
	if err != nil {
		panic(err)
	}
	job := program.Bind(call, 1)
	for items, ok := job.Next(); ok; items, ok = job.Next() {
		for item := range items {
			job.Do(0, item)
		}
	}
	job.Release()
	for _, i := range c.outputs() {
		for r := range operands[i].Rows {
			row := c.x[i].row(r)
			for col := range row {
				row[col] = operands[i].At(r, col)
			}
		}
	}
}
