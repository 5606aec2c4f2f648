package embedding

import (
	"fmt"
	"math"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op"
	"tokitai/tensor"
)

// Operations are what this package offers to the program and the documents.
var Operations = []*op.Operation{
	{
		Name: "embedding.forward", Summary: "rows of a table by index, bit for bit",
		Definitions: []*def.Definition{ForwardDefinition}, Run: op.Plain(ForwardDefinition),
		Data: []op.Data{{Name: "normal", Definition: ForwardDefinition, Sizes: map[string]int{"Q": 64, "V": 100, "D": 64}}},
	},
	{
		Name: "embedding.backward", Summary: "sums of rows by index",
		Definitions: []*def.Definition{BackwardDefinition, AccumulateDefinition},
		Params: []op.Param{
			{Name: "vocab", Help: "the number of rows of dweight; not needed when accumulating"},
			{Name: "accumulate", Default: "false", Help: "add to the dweight that is given"},
			{Name: "out", Default: "same", Help: "dtype of dweight: f32, or same for that of dout"},
		},
		Run: run,
		Data: []op.Data{
			{Name: "normal, 64 of each", Definition: BackwardDefinition, Sizes: map[string]int{"Q": 4096, "V": 64, "D": 64}},
			{Name: "wide", Definition: BackwardDefinition, Sizes: map[string]int{"Q": 4096, "V": 64, "D": 64}, Values: map[string]op.Element{"dout": op.Wide}},
		},
	},
}

func run(q *engine.Queue, in engine.Args, v *op.Values, opts ...engine.Option) (engine.Args, error) {
	if v.Bool("accumulate") {
		if v.Err() != nil {
			return nil, v.Err()
		}
		if v.IsGiven("out") || v.IsGiven("vocab") {
			return nil, &tensor.BadArgument{Op: AccumulateDefinition.Name, Operand: "vocab or out", Got: "is given", Want: "neither: the dweight that is given decides"}
		}
		return op.Eval(q, AccumulateDefinition, in, nil, opts...)
	}
	vocab := v.Int("vocab", 1, math.MaxInt32)
	dout, err := in["dout"], v.Err()
	if err != nil {
		return nil, err
	}
	if dout == nil || in["index"] == nil {
		return op.Eval(q, BackwardDefinition, in, nil, opts...) // which says what is missing
	}
	dtype := dout.DType()
	switch s := v.Text("out"); s {
	case "same":
	case "f32":
		dtype = num.F32
	default:
		return nil, &tensor.BadArgument{Op: BackwardDefinition.Name, Operand: "out", Got: fmt.Sprintf("is %q", s), Want: "f32 or same"}
	}
	dweight, err := tensor.New(q.Device(), dtype, int(vocab), dout.Cols())
	if err != nil {
		return nil, err
	}
	if len(in) != 2 {
		return op.Eval(q, BackwardDefinition, in, nil, opts...)
	}
	if err := Backward(q, dweight, in["index"], dout, opts...); err != nil {
		return nil, err
	}
	return engine.Args{"dweight": dweight}, q.Wait()
}
