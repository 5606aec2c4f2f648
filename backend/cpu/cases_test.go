package cpu_test

import (
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/tensor"
	"tokitai/trial"
	"tokitai/trial/randdef"
)

// shipped returns all definitions of the shipped operations that become machine code.
func shipped() []*def.Definition {
	var list []*def.Definition
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			switch d.Form.(type) {
			case *def.Sort, *def.RowWrite: // move integers and whole rows, in Go
				continue
			}
			if !d.Ring().IsExact() && !slices.Contains(list, d) {
				list = append(list, d)
			}
		}
	}
	return list
}

// generated returns the names of the lowerings that make machine code here, best first.
func generated(t testing.TB) (names []string) {
	t.Helper()
	for _, set := range machine.Available() {
		if set != machine.Plain {
			names = append(names, cpu.Kind+"."+set.String())
		}
	}
	if len(names) == 0 {
		t.Skip(machine.Note())
	}
	return names
}

// plainName returns the name of the lowering without machine code.
func plainName(d *def.Definition) string {
	list := cpu.Backend.Preferred(d)
	return list[len(list)-1].Name
}

func newDevice(t testing.TB, workers int) *cpu.Device {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Workers: workers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

func newQueue(t testing.TB, dev *cpu.Device, opts ...engine.Option) *engine.Queue {
	t.Helper()
	q, err := engine.NewQueue(dev, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// sized returns a size for every letter of a definition, at most the given one.
func sized(g *gen.Generator, d *def.Definition, most int) map[string]int {
	sizes := map[string]int{}
	for i := range d.Operands {
		for _, letter := range append(slices.Clone(d.Operands[i].Dims), d.Operands[i].Bound) {
			if letter = strings.TrimSuffix(letter, "+1"); letter != "" && sizes[letter] == 0 {
				sizes[letter] = d.FitSize(letter, 1+g.Below(most))
				if d.Stream() != nil && (letter == "G" || letter == "J") {
					sizes[letter] = 1 + g.Below(3) // heads multiply
				}
			}
		}
	}
	return sizes
}

// newCase returns a case whose parameters a call accepts.
func newCase(g *gen.Generator, d *def.Definition, dtypes []num.DType, sizes map[string]int) *randdef.Case {
	c := randdef.NewCase(g, d, dtypes, sizes)
	for i, p := range d.Params {
		c.Params[i] = 0.5
		if p.IsInt {
			c.Params[i] = p.Range.Clamp(3)
		}
	}
	return c
}

// placed is a case in memory of a device.
type placed struct {
	*trial.Placed
	c       *randdef.Case
	tensors []*tensor.Tensor
}

func place(t testing.TB, dev *cpu.Device, c *randdef.Case) *placed {
	t.Helper()
	p, err := c.Memory.Place(dev)
	if err != nil {
		t.Fatal(err)
	}
	tensors, err := p.Tensors()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return &placed{p, c, tensors}
}

// compute writes the inputs, makes the call and returns what the memory holds then.
func (p *placed) compute(q *engine.Queue, opts ...engine.CallOption) (*trial.Operands, error) {
	if err := p.Write(p.c.Memory); err != nil {
		return nil, err
	}
	if err := p.call(q, opts...); err != nil {
		return nil, err
	}
	if err := q.Wait(); err != nil {
		return nil, err
	}
	return p.Read()
}

func (p *placed) call(q *engine.Queue, opts ...engine.CallOption) error {
	return engine.Call(q, p.c.Definition, p.tensors, p.c.Params, append(opts, engine.WithBadIndex(engine.Skip))...)
}
