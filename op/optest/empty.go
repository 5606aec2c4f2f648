package optest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/tensor"
	"tokitai/trial"
)

// WithoutRows calls a definition with a batch of no rows and compares the results with those of the
// reference. It returns how many outputs have elements all the same.
func WithoutRows(q *engine.Queue, d *def.Definition, opts ...engine.CallOption) (wrote int, err error) {
	sizes := map[string]int{}
	for i, letter := range d.Sizes() {
		sizes[letter] = d.FitSize(letter, 3+i)
	}
	sizes[d.BatchAxis()] = 0
	formats := make([]num.DType, len(d.Operands))
	var tensors []*tensor.Tensor
	var arrays []num.Array
	for i := range d.Operands {
		o := &d.Operands[i]
		if formats[i] = num.NoDType; len(o.DTypes.Allowed) > 0 {
			formats[i] = o.DTypes.Allowed[0]
		}
		if like := d.Operand(o.DTypes.Like); like >= 0 {
			formats[i] = formats[like]
		}
		a := o.NewArray(formats[i], sizes)
		for k := range a.Data {
			a.Data[k] = byte(37*k+11) & 0x3f // no NaN
		}
		if o.IsIndex && !o.IsOut {
			clear(a.Data) // offsets of no rows are zeros
		}
		if o.IsOffsets {
			trial.FillOffsets(a, sizes[o.Bound], func(int) int { return min(1, sizes[o.Bound]) })
		}
		shape := make([]int, len(o.Dims))
		for k, letter := range o.Dims {
			if group, isMore := strings.CutSuffix(letter, "+1"); isMore {
				shape[k] = sizes[group] + 1
			} else {
				shape[k] = sizes[letter]
			}
		}
		x, err := tensor.FromBytes(q.Device(), formats[i], a.Data, shape...)
		if err != nil {
			return 0, err
		}
		tensors, arrays = append(tensors, x), append(arrays, a)
	}
	var params []float64
	for _, p := range d.Params {
		v := 1.0
		if p.Default != nil {
			v = *p.Default
		}
		params = append(params, v)
	}
	if err := evalShapes(q, d, tensors, params, sizes, opts); err != nil {
		return 0, err
	}
	if err := engine.Call(q, d, tensors, params, opts...); err != nil {
		return 0, err
	}
	if err := reference.Run(d, arrays, reference.Options{Params: params}); err != nil {
		return 0, fmt.Errorf("reference: %w", err)
	}
	for i, x := range tensors {
		got, err := x.Bytes()
		if err != nil {
			return 0, err
		}
		if !bytes.Equal(got, arrays[i].Data) {
			return 0, fmt.Errorf("%s is %x, want %x", d.Operands[i].Name, got, arrays[i].Data)
		}
		if d.Operands[i].IsOut && len(got) > 0 {
			wrote++
		}
	}
	return wrote, nil
}

// evalShapes evaluates a definition on its inputs alone and compares the shapes of the results. Sizes are
// given, but for the batch, which follows from the inputs.
func evalShapes(q *engine.Queue, d *def.Definition, tensors []*tensor.Tensor, params []float64, sizes map[string]int, opts []engine.CallOption) error {
	in, named, given := engine.Args{}, engine.Params{}, maps.Clone(sizes)
	delete(given, d.BatchAxis())
	for i, o := range d.Operands {
		if o.IsIn {
			in[o.Name] = tensors[i]
		}
	}
	for i, p := range d.Params {
		named[p.Name] = params[i]
	}
	results, err := engine.Eval(q, d, in, append(opts, engine.WithSizes(given), engine.WithParams(named))...)
	if err != nil {
		return fmt.Errorf("without outputs: %w", err)
	}
	for i, o := range d.Operands {
		if r := results[o.Name]; r != nil && !slices.Equal(r.Shape(), tensors[i].Shape()) {
			return fmt.Errorf("without outputs: %s has the shape %v, want %v", o.Name, r.Shape(), tensors[i].Shape())
		}
	}
	return nil
}
