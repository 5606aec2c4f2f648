package engine_test

import (
	"fmt"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/tensor"
	"tokitai/trial"
)

// describe lists tensors by name, with format and shape.
func describe(args engine.Args) string {
	var all []string
	for name, x := range args {
		all = append(all, fmt.Sprintf("%s %s %v", name, x.DType(), x.Shape()))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// asReference is a copy of a tensor as a definition sees it.
func asReference(d *def.Definition, i int, x *tensor.Tensor) num.Array {
	a, _ := x.Array()
	c := a.Clone()
	if dims := d.Operands[i].Dims; len(dims) == 1 && dims[0] != "C" {
		c.Rows, c.Cols, c.Stride = x.Len(), 1, 1
	}
	return c
}

// compareCall runs a definition and holds every operand against the reference.
func compareCall(q *engine.Queue, d *def.Definition, args engine.Args, params engine.Params, opts ...engine.CallOption) error {
	var want []num.Array
	var given []float64
	for i, o := range d.Operands {
		want = append(want, asReference(d, i, args[o.Name]))
	}
	named := engine.Params{}
	for _, p := range d.Params {
		given = append(given, params[p.Name])
		named[p.Name] = params[p.Name]
	}
	if err := engine.Run(q, d, args, append(opts, engine.WithParams(named))...); err != nil {
		return err
	}
	if err := reference.Run(d, want, reference.Options{Params: given}); err != nil {
		return fmt.Errorf("reference: %w", err)
	}
	for i, o := range d.Operands {
		if !o.IsOut && slices.ContainsFunc(d.Operands, func(other def.Operand) bool {
			return other.IsOut && tensor.Overlap(args[other.Name], args[o.Name]) != tensor.Disjoint
		}) {
			continue // its place has been taken
		}
		rule := trial.Patterns // inputs keep their bits
		if o.IsOut {
			rule = trial.RuleOf(d)
		}
		if f := rule.Difference(o.Name, asReference(d, i, args[o.Name]), want[i]); f != nil {
			return fmt.Errorf("%s: %v", d.Name, f)
		}
	}
	return nil
}
