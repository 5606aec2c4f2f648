package gemm

import (
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op"
	"tokitai/tensor"
)

// groups divides the rows of a product, so that each group has a matrix of its own.
var groups = def.Groups{Number: "G", Of: "M", Offsets: "offsets"}

// The three products of groups of rows.
var (
	GroupedForwardDefinition = grouped("gemm.grouped.forward", "C[m,n] = sum over k of A[m,k] * B[g,k,n],  offsets[g] <= m < offsets[g+1]", def.ContractionForm{
		Left: "A", LeftDims: []string{"M", "K"},
		Right: "B", RightDims: []string{"G", "K", "N"},
		Result: "C", ResultDims: []string{"M", "N"},
	})
	GroupedGradADefinition = grouped("gemm.grouped.grad_a", "dA[m,k] = sum over n of dC[m,n] * B[g,k,n],  offsets[g] <= m < offsets[g+1]", def.ContractionForm{
		Left: "dC", LeftDims: []string{"M", "N"},
		Right: "B", RightDims: []string{"G", "K", "N"}, TransposeRight: true,
		Result: "dA", ResultDims: []string{"M", "K"},
	})
	GroupedGradBDefinition = grouped("gemm.grouped.grad_b", "dB[g,k,n] = sum over m of A[m,k] * dC[m,n],  offsets[g] <= m < offsets[g+1]", def.ContractionForm{
		Left: "A", LeftDims: []string{"M", "K"}, TransposeLeft: true,
		Right: "dC", RightDims: []string{"M", "N"},
		Result: "dB", ResultDims: []string{"G", "K", "N"},
	})
)

func grouped(name, formula string, f def.ContractionForm) *def.Definition {
	f.Groups, f.Formula, f.Clauses = groups, []string{formula}, clauses(nil, false)
	f.Clauses[0] = "M >= 0, G, N, K >= 1; leading dimensions count as rows, and the rows of every matrix may be strided"
	f.Clauses = append(f.Clauses, "group g has the rows from offsets[g] to offsets[g+1]-1, none where these are equal; offsets that do not ascend from 0 to M are refused, and nothing is written")
	if f.TransposeLeft {
		f.Clauses = append(f.Clauses, "each matrix of the result has the bits of the product of its group's rows alone; that of a group without rows is +0")
	} else {
		f.Clauses = append(f.Clauses, "each row of the result has the bits of the product of that row alone with its group's matrix")
	}
	return def.Must(def.Contraction(name, f))
}

// GroupedForward computes C = A·B[g] for the rows of each group g.
func GroupedForward(q *engine.Queue, c, a, b, offsets *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, GroupedForwardDefinition, []*tensor.Tensor{a, b, c, offsets}, nil, opts...)
}

// GroupedGradA computes dA = dC·B[g]ᵀ for the rows of each group g.
func GroupedGradA(q *engine.Queue, da, dc, b, offsets *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, GroupedGradADefinition, []*tensor.Tensor{dc, b, da, offsets}, nil, opts...)
}

// GroupedGradB computes dB[g] = Aᵀ·dC over the rows of each group g.
func GroupedGradB(q *engine.Queue, db, a, dc, offsets *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, GroupedGradBDefinition, []*tensor.Tensor{a, dc, db, offsets}, nil, opts...)
}

func groupedOperation(summary string, d *def.Definition) *op.Operation {
	o := &op.Operation{
		Name: d.Name, Summary: summary, Definitions: []*def.Definition{d}, Bounds: boundsOf(d),
		Params: []op.Param{{Name: "out", Default: "same", Help: "dtype of the result: f32, or same for that of the operands"}},
		Run: func(q *engine.Queue, in engine.Args, v *op.Values, opts ...engine.CallOption) (engine.Args, error) {
			return runGrouped(d, q, in, v, opts)
		},
		Patterns: slices.Concat(patterns(d), groupPatterns(d)),
		Scalings: scalings(d),
		Clauses:  clausesOf(d),
	}
	for _, k := range []int{64, 1024} {
		sizes := map[string]int{"G": 4, "M": 96, "N": 24, "K": 24}
		if sizes[d.SummedOver()] = k; d.Groups().Of == d.SummedOver() {
			sizes["M"] *= sizes["G"]
		}
		o.Data = append(o.Data, op.Data{Name: fmt.Sprintf("normal, %d summed", k), Definition: d, Sizes: sizes})
	}
	return o
}

func runGrouped(d *def.Definition, q *engine.Queue, in engine.Args, v *op.Values, opts []engine.CallOption) (engine.Args, error) {
	switch v.Text("out") {
	case "same":
	case "f32":
		opts = append(opts[:len(opts):len(opts)], engine.WithStorage(map[string]num.DType{d.Operands[2].Name: num.F32}))
	default:
		v.Refuse("out", "f32 or same")
	}
	if v.Err() != nil {
		return nil, v.Err()
	}
	return op.Eval(q, d, in, nil, opts...)
}
