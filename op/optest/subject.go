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
	"tokitai/trial"
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

// kinds returns the subject's kinds of data, and one of special values.
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

// operands lays out operands of a call, with the values of a kind of data. Indices are
// valid, but for kind special.
func (s *Subject) operands(dtypes []num.DType, sizes map[string]int, kind op.Data, l trial.Layout, g *gen.Generator) *trial.Operands {
	d := s.Definition
	x := trial.New(d, dtypes, sizes, func(int) trial.Layout { return l })
	for i := range d.Operands {
		o := &d.Operands[i]
		if !o.IsIn {
			continue
		}
		element := kind.Values[o.Name]
		if element == nil {
			element = op.Normal
		}
		switch {
		case o.IsOffsets:
			trial.FillOffsets(x.Array(i), sizes[o.Bound], func(int) int { return g.Below(sizes[o.Bound] + 1) })
		case o.IsLengths || o.Lengths != "":
			trial.FillIndex(d, i, x.Arrays(), func(letter string) int { return sizes[letter] }, func(_, _, limit int) int { return g.Below(limit) })
		case o.IsIndex && kind.Name == "special":
			trial.FillBits(x.Array(i), func(int, int) uint32 { return uint32(int32(g.Below(sizes[o.Bound]+2) - 1)) })
		case o.IsIndex:
			trial.FillBits(x.Array(i), func(int, int) uint32 { return uint32(g.Below(sizes[o.Bound])) })
		case o.IsInt() && dtypes[i] == num.I32 && kind.Values[o.Name] == nil:
			trial.FillBits(x.Array(i), func(int, int) uint32 { return uint32(g.Int32()) })
		default:
			trial.Fill(x.Array(i), func(r, c int) float32 { return element(g, r, c) })
		}
	}
	return x
}

// place copies operands to a device until the test ends.
func place(t testing.TB, x *trial.Operands, dev device.Device) (*trial.Placed, []*tensor.Tensor) {
	t.Helper()
	p, err := x.Place(dev)
	OK(t, err)
	t.Cleanup(func() { p.Close() })
	tensors, err := p.Tensors()
	OK(t, err)
	return p, tensors
}

// newQueue returns a queue on a device of its own.
func newQueue(t testing.TB, workers int, opts ...engine.Option) *engine.Queue {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Workers: workers})
	OK(t, err)
	t.Cleanup(func() { dev.Close() })
	q, err := engine.NewQueue(dev, opts...)
	OK(t, err)
	return q
}
