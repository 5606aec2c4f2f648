package foreign

import (
	"errors"
	"fmt"
	"strings"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// Given returns a kernel that computes nothing: it copies outputs that somebody has computed
// before. They are tensors on the CPU by name, one for each output of the definition except
// those that are declared to be omitted, which are left as they are.
func Given(outputs engine.Args, o Options) (*Kernel, error) {
	if o.Definition == nil {
		return nil, errors.New("foreign: the options have no definition")
	}
	var names []string
	for i := range o.Definition.Operands {
		if operand := &o.Definition.Operands[i]; operand.IsOut {
			names = append(names, operand.Name)
		}
	}
	for name, t := range outputs {
		i := o.Definition.Operand(name)
		if i < 0 || !o.Definition.Operands[i].IsOut {
			return nil, &device.ArgumentError{Op: o.Definition.Name, Operand: name, Got: "is given", Want: "an output: " + strings.Join(names, ", ")}
		}
		if _, ok := t.Array(); !ok {
			return nil, &device.ArgumentError{Op: o.Definition.Name, Operand: name, Got: "is on " + t.Device().Name(), Want: "a tensor on the CPU"}
		}
	}
	g := &given{definition: o.Definition, outputs: outputs}
	return &Kernel{
		Lowering: o.promising(engine.Lowering{Name: "check.given", Device: "cpu", Compile: g.compile}),
		Source:   "given outputs",
		Device:   "cpu",
		Close:    func() error { return nil },
	}, nil
}

// given is outputs of one definition.
type given struct {
	definition *def.Definition
	outputs    engine.Args
}

func (g *given) compile(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
	if d != g.definition {
		return nil, fmt.Errorf("the outputs of %s are given, and %s is computed first", g.definition.Name, d.Name)
	}
	return engine.KernelFunc(g.copy), nil
}

// copy is the kernel.
func (g *given) copy(l *engine.Launch) error {
	for i := range g.definition.Operands {
		o := &g.definition.Operands[i]
		from := g.outputs[o.Name]
		if !o.IsOut || from == nil {
			continue
		}
		to := &l.Operands[i].Array
		if err := g.fits(o, from, to); err != nil {
			return err
		}
	}
	for i := range g.definition.Operands {
		if from := g.outputs[g.definition.Operands[i].Name]; from != nil {
			raw, err := from.Bytes()
			if err != nil {
				return err
			}
			to := &l.Operands[i].Array
			for r := range to.Rows {
				raw = raw[copy(to.Row(r), raw):]
			}
		}
	}
	return nil
}

// fits returns an error unless a given output has the format and the shape of the call's.
func (g *given) fits(o *def.Operand, from *tensor.Tensor, to *num.Array) error {
	shape := o.Shape(to)
	if from.DType() != to.DType || from.Len() != to.Rows*to.Cols || lastOf(from.Shape()) != lastOf(shape) {
		return &device.ArgumentError{
			Op: g.definition.Name, Operand: "given " + o.Name,
			Got: "is " + describe(from.DType(), from.Shape()), Want: fmt.Sprintf("%s for these inputs", describe(to.DType, shape)),
		}
	}
	return nil
}

// lastOf returns the last size that is not 1.
func lastOf(shape []int) int {
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] != 1 {
			return shape[i]
		}
	}
	return 1
}

// describe formats a tensor as f16[2,8].
func describe(d num.DType, shape []int) string {
	return d.String() + strings.ReplaceAll(fmt.Sprint(shape), " ", ",")
}
