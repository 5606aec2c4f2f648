package gemm

import (
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op"
	"tokitai/tensor"
)

// Operations lists what this package offers to the program and the documents.
var Operations = []*op.Operation{
	operation("matrix product", ForwardDefinition, ForwardAccumulateDefinition),
	operation("gradient of the left operand", GradADefinition, GradAAccumulateDefinition),
	operation("gradient of the right operand", GradBDefinition, GradBAccumulateDefinition),
	operation("products of many matrices", BatchedForwardDefinition, BatchedForwardAccumulateDefinition),
	operation("gradients of many left operands", BatchedGradADefinition, BatchedGradAAccumulateDefinition),
	operation("gradients of many right operands", BatchedGradBDefinition, BatchedGradBAccumulateDefinition),
	groupedOperation("products of groups of rows", GroupedForwardDefinition),
	groupedOperation("gradients of the left operands of groups", GroupedGradADefinition),
	groupedOperation("gradients of the right operands of groups", GroupedGradBDefinition),
	fp8Operation(),
	int8Operation(),
	zpkOperation(ZPKDefinition),
}

func operation(summary string, set, accumulate *def.Definition) *op.Operation {
	o := &op.Operation{
		Name: set.Name, Summary: summary, Definitions: []*def.Definition{set, accumulate}, Bounds: boundsOf(set),
		Params: []op.Param{
			{Name: "accumulate", Default: "false", Help: "add to the given result"},
			{Name: "out", Default: "same", Help: "dtype of the result: f32, or same for that of the operands; when accumulating it must match the given result"},
		},
		Variant: func(v *op.Values) *def.Definition {
			if v.Bool("accumulate") {
				return accumulate
			}
			return set
		},
		Run: func(q *engine.Queue, in engine.Args, v *op.Values, opts ...engine.CallOption) (engine.Args, error) {
			return run(q, set, accumulate, in, v, opts)
		},
		Patterns: patterns(set, accumulate),
		Scalings: scalings(set, accumulate),
		Clauses:  clausesOf(set, accumulate),
	}
	sides, lengths := 48, []int{64, 1024, 4096}
	if set.HasAxes() { // the sums are those of one matrix
		sides, lengths = 24, []int{64, 1024}
	}
	for _, k := range lengths {
		sizes := map[string]int{"M": sides, "N": sides, "K": sides}
		for _, letter := range set.Operands[2].BatchDims() {
			sizes[letter] = 4
		}
		sizes[set.SummedOver()] = k
		o.Data = append(o.Data, op.Data{Name: fmt.Sprintf("normal, %d summed", k), Definition: set, Sizes: sizes})
	}
	return o
}

func run(q *engine.Queue, set, accumulate *def.Definition, in engine.Args, v *op.Values, opts []engine.CallOption) (engine.Args, error) {
	isAdded := v.Bool("accumulate")
	out := v.Text("out")
	if out != "same" && out != "f32" {
		v.Refuse("out", "f32 or same")
	}
	if v.Err() != nil {
		return nil, v.Err()
	}
	left, right, result := in[set.Operands[0].Name], in[set.Operands[1].Name], set.Operands[2].Name
	if isAdded {
		if old := in[result]; v.IsGiven("out") && old != nil && left != nil && old.DType() != resultDType(out, left) {
			return nil, &device.ArgumentError{Op: set.Name, Operand: "out", Got: fmt.Sprintf("is %q, that is %s", out, resultDType(out, left)), Want: fmt.Sprintf("%s like the %s that is given, or nothing", old.DType(), result)}
		}
		results, err := op.Eval(q, accumulate, in, nil, opts...)
		return results, op.Named(set.Name, err)
	}
	if left == nil || right == nil || len(in) != 2 {
		return op.Eval(q, set, in, nil, opts...) // which says what is missing, or too much
	}
	c, err := tensor.New(q.Device(), resultDType(out, left), resultShape(set, left, right)...)
	if err != nil {
		return nil, err
	}
	if err := engine.Call(q, set, []*tensor.Tensor{left, right, c}, nil, opts...); err != nil {
		return nil, err
	}
	return engine.Args{result: c}, q.Wait()
}

func resultDType(out string, left *tensor.Tensor) num.DType {
	if out == "f32" {
		return num.F32
	}
	return left.DType()
}

// resultShape keeps the leading dimensions of the left operand where they are rows of the
// result, or its batch.
func resultShape(set *def.Definition, left, right *tensor.Tensor) []int {
	axes := len(set.Operands[2].BatchDims())
	if left.Rank() < 2+axes || right.Rank() < 2+axes {
		return []int{1} // and the call refuses left or right
	}
	x, y := left.Shape(), right.Shape()
	n := y[len(y)-1]
	if set.Product().TransposeRight {
		if n = y[len(y)-2]; axes == 0 {
			n = right.Rows()
		}
	}
	lead := slices.Clone(x[:len(x)-1])
	switch {
	case set.Product().TransposeLeft && axes == 0:
		lead = []int{left.Cols()}
	case set.Product().TransposeLeft:
		lead[len(lead)-1] = left.Cols()
	}
	return append(lead, n)
}
