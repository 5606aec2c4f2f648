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

// Matrix is an operand in binary32.
type Matrix struct {
	Rows, Cols int
	V          []float32
}

func NewMatrix(rows, cols int) Matrix { return Matrix{rows, cols, make([]float32, rows*cols)} }

func (m Matrix) Row(r int) []float32 { return m.V[r*m.Cols : (r+1)*m.Cols] }

func (m Matrix) Column(c int) []float32 {
	v := make([]float32, m.Rows)
	for r := range v {
		v[r] = m.V[r*m.Cols+c]
	}
	return v
}

func Transposed(m Matrix) Matrix {
	t := NewMatrix(m.Cols, m.Rows)
	for c := range m.Cols {
		copy(t.Row(c), m.Column(c))
	}
	return t
}

// Call is a launch as these kernels see it.
type Call struct {
	Definition *def.Definition
	Stored     []num.Array // the operands as they are stored
	Operands   []Matrix    // the same in binary32: inputs as loaded, outputs as computed
	Index      []int32     // the operand that holds indices, if there is one
	Params     []float64
	workers    int
	launch     *engine.Launch
}

func newCall(d *def.Definition, l *engine.Launch) *Call {
	return &Call{
		Definition: d, Stored: slices.Clone(l.Arrays()), Params: slices.Clone(l.Params), launch: l,
		workers: l.Device.(*cpu.Device).Pool().Workers(),
	}
}

// In returns the operand of that name in binary32.
func (c *Call) In(name string) Matrix { return c.Operands[c.Position(name)] }

func (c *Call) Position(name string) int {
	i := c.Definition.Operand(name)
	if i < 0 {
		panic(fmt.Sprintf("mutants: %s has no operand %s", c.Definition.Name, name))
	}
	return i
}

// Param returns a parameter rounded as the definition takes it.
func (c *Call) Param(name string) float32 { return float32(c.Params[c.Definition.Param(name)]) }

// outputs returns the positions of the outputs.
func (c *Call) outputs() []int {
	var list []int
	for i := range c.Definition.Operands {
		if c.Definition.Operands[i].IsOut {
			list = append(list, i)
		}
	}
	return list
}

// Computed calls change with each output's values, for a fault that changes some of them.
func (c *Call) Computed(change func(m Matrix)) {
	for _, i := range c.outputs() {
		change(c.Operands[i])
	}
}

// Kernel is a kernel to compile: start returns a newly compiled one.
type Kernel interface {
	start() func(c *Call) error
}

// Stateful is a kernel that keeps state from call to call.
type Stateful func() func(c *Call) error

func (s Stateful) start() func(c *Call) error { return s() }

// Plain is a kernel in parts. Parts that are nil are correct; Body must be set.
type Plain struct {
	Before func(c *Call) error                            // first of all
	Load   func(a num.Array, r, c int) float32            // an element of an input
	Body   func(c *Call)                                  // computes the outputs
	Edit   func(c *Call)                                  // what has been computed
	Puts   func(c *Call, operand, r, col int) bool        // whether an element is written
	Store  func(d num.DType, v float32) (pattern uint32)  // how
	After  func(c *Call)                                  // last of all
	Write  func(c *Call, operand int, v Matrix, k *Plain) // instead of Puts and Store
}

func (k Plain) start() func(c *Call) error { return k.Run }

// Run makes a call.
func (k Plain) Run(c *Call) error {
	if k.Before != nil {
		if err := k.Before(c); err != nil {
			return err
		}
	}
	k.read(c)
	k.Body(c)
	if k.Edit != nil {
		k.Edit(c)
	}
	for _, i := range c.outputs() {
		if k.Write != nil {
			k.Write(c, i, c.Operands[i], &k)
		} else {
			k.Put(c, i, c.Operands[i])
		}
	}
	if k.After != nil {
		k.After(c)
	}
	return nil
}

// read loads every input, before anything is written.
func (k *Plain) read(c *Call) {
	load := k.Load
	if load == nil {
		load = func(a num.Array, r, c int) float32 { return a.At(r, c) }
	}
	c.Operands = make([]Matrix, len(c.Stored))
	for i, a := range c.Stored {
		if c.Definition.Operands[i].IsIndex {
			c.Index = make([]int32, a.Rows*a.Cols)
			for at := range c.Index {
				c.Index[at] = a.Int(at/a.Cols, at%a.Cols)
			}
			continue
		}
		c.Operands[i] = NewMatrix(a.Rows, a.Cols)
		if !c.Definition.Operands[i].IsIn {
			continue
		}
		for r := range a.Rows {
			row := c.Operands[i].Row(r)
			for col := range row {
				row[col] = load(a, r, col)
			}
		}
	}
}

// Put stores output i.
func (k *Plain) Put(c *Call, i int, v Matrix) {
	store, a := k.Store, c.Stored[i]
	switch {
	case store != nil:
	case c.Definition.Operands[i].IsInt():
		store = func(_ num.DType, v float32) uint32 { return uint32(int32(v)) }
	default:
		store = num.Narrow
	}
	for r := range a.Rows {
		for col, y := range v.Row(r) {
			if k.Puts == nil || k.Puts(c, i, r, col) {
				a.SetBits(r, col, store(a.DType, y))
			}
		}
	}
}

// Answer computes the definition in binary32; the result is rounded once when it is stored.
// It does not suit sums by index, which are exact in f16.
func Answer(c *Call) {
	dtypes := make([]num.DType, len(c.Stored))
	for i := range dtypes {
		if dtypes[i] = num.F32; c.Definition.Operands[i].IsIndex || c.Definition.Operands[i].IsInt() {
			dtypes[i] = num.I32
		}
	}
	execute(c, dtypes)
}

// Exactly computes the definition in the formats of the call, for definitions whose values
// depend on them.
func Exactly(c *Call) {
	dtypes := make([]num.DType, len(c.Stored))
	for i := range dtypes {
		dtypes[i] = c.Stored[i].DType
	}
	execute(c, dtypes)
}

// execute runs the CPU's own lowering: it has the reference's bits and is faster.
func execute(c *Call, dtypes []num.DType) {
	operands := make([]lower.Operand, len(c.Stored))
	for i, a := range c.Stored {
		if c.Definition.Operands[i].IsIndex {
			operands[i].Array = num.IndexArray(c.Index...)
			operands[i].Rows, operands[i].Cols, operands[i].Stride = a.Rows, a.Cols, a.Cols
		} else {
			operands[i].Array = a.Like(dtypes[i])
			for r := range a.Rows {
				for col, v := range c.Operands[i].Row(r) {
					if dtypes[i] == num.I32 && v == a.At(r, col) { // of which binary32 has not all bits
						operands[i].SetBits(r, col, a.Bits(r, col))
					} else {
						operands[i].Set(r, col, v)
					}
				}
			}
		}
	}
	call := &lower.Call{Operands: operands, Params: c.Params}
	call.Measure(c.Definition)
	program, err := lowercpu.Compile(c.Definition, dtypes, lowercpu.ClassOf(c.Definition, call.Cols))
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
			row := c.Operands[i].Row(r)
			for col := range row {
				row[col] = operands[i].At(r, col)
			}
		}
	}
}
