package norm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op"
	"tokitai/tensor"
)

// Operations are what this package offers to the program and the documents. Both
// take any number of tensors of any names, in the order of their names.
var Operations = []*op.Operation{
	{
		Name: "norm.square_sum", Summary: "sum of the squares of all elements of all tensors",
		Definitions: []*def.Definition{SquareSumDefinition, TotalDefinition},
		Run: func(q *engine.Queue, in engine.Args, _ *op.Values, opts ...engine.Option) (engine.Args, error) {
			total, err := tensor.New(q.Device(), num.F32, 1)
			if err != nil {
				return nil, err
			}
			xs, explain := byName(in)
			if err := SquareSum(q, total, xs, opts...); err != nil {
				return nil, explain(err)
			}
			return engine.Args{"total": total}, q.Wait()
		},
		Data: []op.Data{
			{Name: "normal", Definition: SquareSumDefinition, Sizes: map[string]int{"R": 4, "C": 32768}},
			{Name: "wide", Definition: SquareSumDefinition, Sizes: map[string]int{"R": 4, "C": 32768}, Values: map[string]op.Element{"x": op.Wide}},
		},
	},
	{
		Name: "norm.clip", Summary: "global norm, and the factor that holds it at a limit",
		Definitions: []*def.Definition{ClipDefinition, SquareSumDefinition, TotalDefinition},
		Params:      []op.Param{{Name: "max_norm", Help: "the largest norm that is left as it is"}},
		Run: func(q *engine.Queue, in engine.Args, v *op.Values, opts ...engine.Option) (engine.Args, error) {
			limit := v.Float("max_norm")
			if v.Err() != nil {
				return nil, v.Err()
			}
			norm, err := tensor.New(q.Device(), num.F32, 1)
			if err != nil {
				return nil, err
			}
			factor, err := tensor.New(q.Device(), num.F32, 1)
			if err != nil {
				return nil, err
			}
			xs, explain := byName(in)
			if err := Clip(q, norm, factor, limit, xs, opts...); err != nil {
				return nil, explain(err)
			}
			return engine.Args{"norm": norm, "factor": factor}, q.Wait()
		},
		Data: []op.Data{{
			Name: "positive", Definition: ClipDefinition, Sizes: map[string]int{"R": 1, "C": 4096},
			Params: []float64{1}, Values: map[string]op.Element{"total": op.Positive},
		}},
	},
}

// byName lists tensors in the order of their names; explain names them in an error,
// which knows only their positions.
func byName(in engine.Args) (xs []*tensor.Tensor, explain func(error) error) {
	names := slices.Sorted(maps.Keys(in))
	for _, name := range names {
		xs = append(xs, in[name])
	}
	return xs, func(err error) error {
		if len(names) == 0 {
			return err
		}
		return fmt.Errorf("%w (tensors 0 to %d are %s)", err, len(names)-1, strings.Join(names, ", "))
	}
}
