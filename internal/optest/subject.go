package optest

import (
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
	"tokitai/tensor"
)

// Subject is a definition and the typed call that runs it.
type Subject struct {
	Definition *def.Definition
	Params     []float64 // the definition's, as Call gives them
	Data       []op.Data // kinds of values; only those of Definition count

	// Call makes the typed call with operands in the order of the definition.
	Call func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error
}

// Operation returns the operation of that name among those of a package.
func Operation(operations []*op.Operation, name string) *op.Operation {
	for _, o := range operations {
		if o.Name == name {
			return o
		}
	}
	panic("optest: no operation " + name)
}

// kinds are the subject's kinds of values, and special ones.
func (s *Subject) kinds() []op.Data {
	var kinds []op.Data
	for _, k := range s.Data {
		if k.Definition == s.Definition {
			kinds = append(kinds, k)
		}
	}
	if len(kinds) == 0 {
		kinds = append(kinds, op.Data{Name: "normal"})
	}
	special := op.Data{Name: "special", Values: map[string]op.Element{}}
	for _, o := range s.Definition.Operands {
		special.Values[o.Name] = func(g *gen.Generator, _, _ int) float32 { return g.Special() }
	}
	return append(kinds, special)
}

const canary = 0xa5 // every byte that no call may change, and outputs before it

// place is an operand inside a larger block of memory.
type place struct {
	tensor *tensor.Tensor
	whole  *tensor.Tensor
}

// shapeOf is the shape of operand i for the given sizes.
func shapeOf(d *def.Definition, i int, sizes map[string]int) []int {
	shape := []int{}
	for _, letter := range d.Operands[i].Dims {
		shape = append(shape, sizes[letter])
	}
	if len(shape) == 0 {
		return []int{1}
	}
	return shape
}

// newPlace puts an operand amid canaries: in front and behind, at an address that
// no vector register likes, and with gap elements between its rows.
func newPlace(t testing.TB, dev device.Device, d num.DType, shape []int, gap int) place {
	t.Helper()
	const margin = 3
	size := 1
	for _, n := range shape {
		size *= n
	}
	var p place
	var err error
	if gap == 0 || len(shape) < 2 {
		p.whole, err = tensor.New(dev, d, 1, size+2*margin)
		OK(t, err)
		p.tensor, err = p.whole.Slice(0, 1, margin, margin+size)
		OK(t, err)
	} else {
		cols := shape[len(shape)-1]
		p.whole, err = tensor.New(dev, d, size/cols+2, cols+gap)
		OK(t, err)
		p.tensor, err = p.whole.Slice(1, size/cols+1, gap-1, gap-1+cols)
		OK(t, err)
	}
	p.tensor, err = p.tensor.Reshape(shape...)
	OK(t, err)
	memory := memoryOf(t, p.whole)
	for i := range memory {
		memory[i] = canary
	}
	return p
}

func memoryOf(t testing.TB, x *tensor.Tensor) []byte {
	t.Helper()
	a, ok := x.Array()
	if !ok {
		t.Fatal("the host cannot address " + x.String())
	}
	return a.Data
}

// array is the place as the reference sees operand i, in a copy of the memory.
func (p place) array(d *def.Definition, i int, memory []byte) num.Array {
	x := p.tensor
	a := num.Array{DType: x.DType(), Rows: x.Rows(), Cols: x.Cols(), Stride: x.RowStride(), Data: memory[x.Offset():]}
	if dims := d.Operands[i].Dims; len(dims) == 1 && dims[0] != "C" {
		a.Rows, a.Cols, a.Stride = x.Len(), 1, 1
	}
	return a
}

// fill writes an operand's values. Indices are valid, but for kind special.
func fill(t testing.TB, d *def.Definition, i int, p place, kind op.Data, sizes map[string]int, g *gen.Generator) {
	t.Helper()
	o := &d.Operands[i]
	if !o.IsIn {
		return
	}
	element := kind.Values[o.Name]
	if element == nil {
		element = op.Normal
	}
	a := p.array(d, i, memoryOf(t, p.whole))
	for r := range a.Rows {
		for c := range a.Cols {
			switch {
			case o.IsIndex && kind.Name == "special":
				a.SetBits(r, c, uint32(int32(g.Below(sizes[o.Bound]+2)-1)))
			case o.IsIndex:
				a.SetBits(r, c, uint32(g.Below(sizes[o.Bound])))
			default:
				a.Set(r, c, element(g, r, c))
			}
		}
	}
}

// newQueue is a queue on a device of its own.
func newQueue(t testing.TB, workers int, opts ...engine.Option) *engine.Queue {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Workers: workers})
	OK(t, err)
	t.Cleanup(func() { dev.Close() })
	q, err := engine.NewQueue(dev, opts...)
	OK(t, err)
	return q
}

func tensors(places []place) []*tensor.Tensor {
	x := make([]*tensor.Tensor, len(places))
	for i, p := range places {
		x[i] = p.tensor
	}
	return x
}
