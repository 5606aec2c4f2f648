// Package reference interprets definitions. Its results are the answer: every
// lowering is compared with them.
//
// It is written to be read, not to be fast: one node after another, one row
// after another, every value kept. It shares no code with anything that lowers
// definitions, and knows neither tensors nor devices. Start at [Run]; rowwise.go
// interprets expressions, contraction.go products, fused.go products that end in an expression, gather.go,
// gather_sum.go and scatter.go copies and sums of rows by index, and stream.go attention.
package reference

import (
	"context"
	"fmt"

	"tokitai/def"
	"tokitai/num"
)

// Options holds what a call gives besides its operands.
type Options struct {
	Params []float64 // in the order of Definition.Params
	Accum  def.Accum // contractions only

	// Rounded has the formats to which values that a rowwise definition names are rounded besides:
	// what a kernel gives that keeps them there.
	Rounded map[string]num.DType

	// Context ends a run early, with its error and outputs partly written. It is checked
	// before every row; nil never ends.
	Context context.Context
}

// err returns the context's error.
func (o *Options) err() error {
	if o.Context == nil {
		return nil
	}
	return o.Context.Err()
}

// Run computes d on its operands, in the order of Definition.Operands, and writes
// the results to its outputs. An output may be the same memory as an input if it
// is the same array. An out-of-range index gives zeros and contributes nothing; offsets
// of groups that do not ascend are an error.
func Run(d *def.Definition, operands []num.Array, o Options) error {
	if len(operands) != len(d.Operands) {
		return fmt.Errorf("%s: got %d operands, want %d", d.Name, len(operands), len(d.Operands))
	}
	if len(o.Params) != len(d.Params) {
		return fmt.Errorf("%s: got %d parameters, want %d", d.Name, len(o.Params), len(d.Params))
	}
	switch f := d.Form.(type) {
	case *def.Expression:
		return runRowwise(d, f, operands, &o)
	case *def.Product:
		return runContraction(d, f, operands, &o)
	case *def.Fused:
		return runFused(d, f, operands, &o)
	case *def.Lookup:
		return runGather(d, f, operands)
	case *def.Scatter:
		return runScatterAdd(d, f, operands, &o)
	case *def.LookupSum:
		return runGatherSum(d, f, operands, &o)
	case *def.Sort:
		return runDispatch(d, f, operands)
	case *def.RowWrite:
		return runRowWrite(d, f, operands)
	case *def.Stream:
		return runStream(d, f, operands, &o)
	case *def.StreamBackward:
		return runStreamBackward(d, f, operands, &o)
	}
	return fmt.Errorf("%s: no interpreter for a %s", d.Name, d.Form)
}
