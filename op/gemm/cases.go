package gemm

import (
	"fmt"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op"
	"tokitai/tensor"
)

// Operations are what this package offers to the program and the documents.
var Operations = []*op.Operation{
	operation("matrix product", ForwardDefinition, ForwardAccumulateDefinition),
	operation("gradient of the left operand", GradADefinition, GradAAccumulateDefinition),
	operation("gradient of the right operand", GradBDefinition, GradBAccumulateDefinition),
}

func operation(summary string, set, accumulate *def.Definition) *op.Operation {
	o := &op.Operation{
		Name: set.Name, Summary: summary, Definitions: []*def.Definition{set, accumulate},
		Params: []op.Param{
			{Name: "accumulate", Default: "false", Help: "add to the result that is given"},
			{Name: "out", Default: "same", Help: "dtype of the result: f32, or same for that of the operands"},
		},
		Run: func(q *engine.Queue, in engine.Args, v *op.Values, opts ...engine.Option) (engine.Args, error) {
			return run(q, set, accumulate, in, v, opts)
		},
	}
	for _, k := range []int{64, 1024, 4096} {
		sizes := map[string]int{"M": 48, "N": 48, "K": 48}
		sizes[set.SummedOver()] = k
		o.Data = append(o.Data, op.Data{Name: fmt.Sprintf("normal, %d summed", k), Definition: set, Sizes: sizes})
	}
	return o
}

func run(q *engine.Queue, set, accumulate *def.Definition, in engine.Args, v *op.Values, opts []engine.Option) (engine.Args, error) {
	isAdded, out := v.Bool("accumulate"), v.Text("out")
	if v.Err() != nil {
		return nil, v.Err()
	}
	if isAdded {
		if v.IsGiven("out") {
			return nil, &tensor.BadArgument{Op: accumulate.Name, Operand: "out", Got: "is given", Want: "nothing: the result that is given decides"}
		}
		return op.Eval(q, accumulate, in, nil, opts...)
	}
	left, right := in[set.Operands[0].Name], in[set.Operands[1].Name]
	if out == "same" || left == nil || right == nil || len(in) != 2 {
		return op.Eval(q, set, in, nil, opts...)
	}
	if out != "f32" {
		return nil, &tensor.BadArgument{Op: set.Name, Operand: "out", Got: fmt.Sprintf("is %q", out), Want: "f32 or same"}
	}
	m, n := left.Rows(), right.Cols()
	if set.TransposeLeft {
		m = left.Cols()
	}
	if set.TransposeRight {
		n = right.Rows()
	}
	result, err := tensor.New(q.Device(), num.F32, m, n)
	if err != nil {
		return nil, err
	}
	if err := engine.Call(q, set, []*tensor.Tensor{left, right, result}, nil, opts...); err != nil {
		return nil, err
	}
	return engine.Args{set.Operands[2].Name: result}, q.Wait()
}
