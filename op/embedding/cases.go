package embedding

import (
	"fmt"
	"math"
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
	{
		Name: "embedding.forward", Summary: "rows of a table by index, bit for bit",
		Definitions: []*def.Definition{ForwardDefinition}, Bounds: forwardBounds, Run: runForward,
		Data:     []op.Data{{Name: "normal", Definition: ForwardDefinition, Sizes: map[string]int{"Q": 64, "V": 100, "D": 64}}},
		Patterns: forwardPatterns,
		Scalings: forwardScalings,
		Clauses:  forwardClauses,
	},
	{
		Name: "embedding.backward", Summary: "gradient of embedding.forward: sums of rows by index",
		Definitions: []*def.Definition{BackwardDefinition, AccumulateDefinition}, Bounds: backwardBounds,
		Params: []op.Param{
			{Name: "vocab", Help: "number of rows of dweight; when accumulating it may be left out, and must otherwise match the given dweight"},
			{Name: "accumulate", Default: "false", Help: "add to the given dweight"},
			{Name: "out", Default: "same", Help: "dtype of dweight: f32, or same for that of dout; when accumulating it must match the given dweight"},
		},
		Variant: func(v *op.Values) *def.Definition {
			if v.Bool("accumulate") {
				return AccumulateDefinition
			}
			return BackwardDefinition
		},
		Run: runBackward,
		Data: []op.Data{
			{Name: "normal, 64 of each", Definition: BackwardDefinition, Sizes: map[string]int{"Q": 4096, "V": 64, "D": 64}},
			{Name: "wide", Definition: BackwardDefinition, Sizes: map[string]int{"Q": 4096, "V": 64, "D": 64}, Values: map[string]op.Element{"dout": op.Wide}},
		},
		Patterns: slices.Concat(backwardPatterns(BackwardDefinition), backwardPatterns(AccumulateDefinition)),
		Scalings: backwardScalings,
		Clauses:  slices.Concat(backwardClauses(BackwardDefinition), backwardClauses(AccumulateDefinition)),
	},
}

// runForward keeps the dimensions of index: out has those and D.
func runForward(q *engine.Queue, in engine.Args, _ *op.Values, opts ...engine.CallOption) (engine.Args, error) {
	index, weight := in["index"], in["weight"]
	if index == nil || weight == nil || len(in) != 2 {
		return op.Eval(q, ForwardDefinition, in, nil, opts...) // which says what is missing, or too much
	}
	rows := []int{1}
	if index.Rank() > 0 {
		rows = slices.Clone(index.Shape())
	}
	out, err := tensor.New(q.Device(), weight.DType(), append(rows, weight.Cols())...)
	if err != nil {
		return nil, err
	}
	if err := Forward(q, out, index, weight, opts...); err != nil {
		return nil, err
	}
	return engine.Args{"out": out}, q.Wait()
}

func runBackward(q *engine.Queue, in engine.Args, v *op.Values, opts ...engine.CallOption) (engine.Args, error) {
	isAdded, out, vocab := v.Bool("accumulate"), v.Text("out"), int64(0)
	if !isAdded || v.IsGiven("vocab") {
		vocab = v.Int("vocab", 1, math.MaxInt32)
	}
	if out != "same" && out != "f32" {
		v.Refuse("out", "f32 or same")
	}
	if v.Err() != nil {
		return nil, v.Err()
	}
	dout := in["dout"]
	if isAdded {
		if err := agree(v, in["dweight"], dout, vocab, out); err != nil {
			return nil, err
		}
		results, err := op.Eval(q, AccumulateDefinition, in, nil, opts...)
		return results, op.Named(BackwardDefinition.Name, err)
	}
	if dout == nil || in["index"] == nil || len(in) != 2 {
		return op.Eval(q, BackwardDefinition, in, nil, opts...) // which says what is missing, or too much
	}
	dweight, err := tensor.New(q.Device(), resultDType(out, dout), int(vocab), dout.Cols())
	if err != nil {
		return nil, err
	}
	if err := Backward(q, dweight, in["index"], dout, opts...); err != nil {
		return nil, err
	}
	return engine.Args{"dweight": dweight}, q.Wait()
}

// agree holds what was said of dweight against the one that is given.
func agree(v *op.Values, dweight, dout *tensor.Tensor, vocab int64, out string) error {
	switch {
	case dweight == nil || dout == nil:
	case v.IsGiven("vocab") && vocab != int64(dweight.Rows()):
		return &device.ArgumentError{Op: BackwardDefinition.Name, Operand: "vocab", Got: fmt.Sprintf("is %d", vocab), Want: fmt.Sprintf("%d like the rows of the dweight that is given, or nothing", dweight.Rows())}
	case v.IsGiven("out") && resultDType(out, dout) != dweight.DType():
		return &device.ArgumentError{Op: BackwardDefinition.Name, Operand: "out", Got: fmt.Sprintf("is %q, that is %s", out, resultDType(out, dout)), Want: fmt.Sprintf("%s like the dweight that is given, or nothing", dweight.DType())}
	}
	return nil
}

func resultDType(out string, dout *tensor.Tensor) num.DType {
	if out == "f32" {
		return num.F32
	}
	return dout.DType()
}
