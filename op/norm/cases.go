package norm

import (
	"errors"
	"maps"
	"slices"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op"
	"tokitai/tensor"
)

// Operations lists what this package offers to the program and the documents. Both
// take any number of tensors of any names, in the order of their names; norm.clip none
// named total, which is what norm.square_sum gives.
var Operations = []*op.Operation{
	{
		Name: "norm.square_sum", Summary: "sum of the squares of all elements of all tensors of the file",
		Definitions: []*def.Definition{SquareSumDefinition, TotalDefinition}, Bounds: squareSumBounds,
		Takes: func(string) bool { return true }, Results: []string{"total"},
		Run: func(q *engine.Queue, in engine.Args, _ *op.Values, opts ...engine.CallOption) (engine.Args, error) {
			total, err := tensor.New(q.Device(), num.F32, 1)
			if err != nil {
				return nil, err
			}
			names, xs := byName(in)
			if err := SquareSum(q, total, xs, opts...); err != nil {
				return nil, named("norm.square_sum", names, err)
			}
			return engine.Args{"total": total}, q.Wait()
		},
		Data: []op.Data{
			{Name: "normal", Definition: SquareSumDefinition, Sizes: map[string]int{"R": 4, "C": 32768}},
			{Name: "wide", Definition: SquareSumDefinition, Sizes: map[string]int{"R": 4, "C": 32768}, Values: map[string]op.Element{"x": op.Wide}},
		},
		Several: &op.Several{
			Data: op.Data{Name: "normal", Definition: SquareSumDefinition},
			Run: func(q *engine.Queue, _ []float64, tensors [][]*tensor.Tensor) error {
				xs := make([]*tensor.Tensor, len(tensors))
				for i := range tensors {
					xs[i] = tensors[i][0]
				}
				return SquareSum(q, tensors[0][1], xs)
			},
		},
		Patterns: slices.Concat(squareSumPatterns, totalPatterns),
		Scalings: squareSumScalings,
		Clauses:  slices.Concat(squareSumClauses, totalClauses), Ranges: squareSumRanges,
	},
	{
		Name: "norm.clip", Summary: "norm of all tensors of the file together, and the factor that clips it",
		Definitions: []*def.Definition{ClipDefinition, SquareSumDefinition, TotalDefinition}, Bounds: clipBounds,
		Takes: func(string) bool { return true }, Results: []string{"norm", "factor"},
		Params: []op.Param{{Name: "max_norm", Help: "the largest norm that is not clipped"}},
		Run: func(q *engine.Queue, in engine.Args, v *op.Values, opts ...engine.CallOption) (engine.Args, error) {
			limit := v.Float("max_norm")
			if v.Err() != nil {
				return nil, v.Err()
			}
			if in["total"] != nil { // which people may take for the square sum, and would see squared
				return nil, &device.ArgumentError{Op: "norm.clip", Operand: "tensor total", Got: "is no input", Want: "the tensors themselves: norm.clip squares and sums them"}
			}
			norm, err := tensor.New(q.Device(), num.F32, 1)
			if err != nil {
				return nil, err
			}
			factor, err := tensor.New(q.Device(), num.F32, 1)
			if err != nil {
				return nil, err
			}
			names, xs := byName(in)
			if err := Clip(q, norm, factor, limit, xs, opts...); err != nil {
				return nil, named("norm.clip", names, err)
			}
			return engine.Args{"norm": norm, "factor": factor}, q.Wait()
		},
		Data: []op.Data{{
			Name: "positive", Definition: ClipDefinition, Sizes: map[string]int{"R": 1, "C": 4096},
			Params: []float64{1}, Values: map[string]op.Element{"total": op.Positive},
		}},
		Patterns: clipPatterns,
		Scalings: clipScalings,
		Clauses:  slices.Concat(clipClauses, squareSumClauses, totalClauses), Ranges: slices.Concat(clipRanges, squareSumRanges),
	},
}

// byName lists tensors in the order of their names.
func byName(in engine.Args) (names []string, xs []*tensor.Tensor) {
	names = slices.Sorted(maps.Keys(in))
	for _, name := range names {
		xs = append(xs, in[name])
	}
	return names, xs
}

// named gives an error about a tensor that tensor's name instead of its position.
func named(operation string, names []string, err error) error {
	var at *positionError
	var bad *device.ArgumentError
	if errors.As(err, &at) && errors.As(err, &bad) {
		renamed := *bad
		renamed.Operand = "tensor " + names[at.position]
		err = &renamed
	}
	return op.Named(operation, err)
}
