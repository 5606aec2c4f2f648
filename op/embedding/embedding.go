package embedding

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/tensor"
)

// ForwardDefinition copies bits; NaN payloads too.
var ForwardDefinition = def.Must(def.Gather("embedding.forward", def.GatherForm{
	Index: "index", Table: "weight", Out: "out",
	Formula: []string{"out[q,d] = weight[index[q],d]"},
	Clauses: []string{
		"Q >= 0, V, D >= 1; leading dimensions count as rows, and rows may be strided",
		"every bit pattern is copied, including those of NaN",
		"an index outside 0..V-1 is refused, and nothing is written; with bad_index=skip its row is +0",
		"an index may occur any number of times, and Q may exceed V",
		"out may not overlap index or weight",
	},
}))

// BackwardDefinition sets dweight, AccumulateDefinition adds to it.
var (
	BackwardDefinition   = scatter("embedding.backward", false)
	AccumulateDefinition = scatter("embedding.backward.accumulate", true)
)

func scatter(name string, accumulate bool) *def.Definition {
	formula, rest := "dweight[v,d] = sum of dout[q,d] over index[q] = v", "a row that no index names is +0"
	exact, chunks := "the sum is exact", "the sums of the chunks from +0"
	if accumulate {
		formula, rest = "dweight[v,d] = dweight[v,d] + sum of dout[q,d] over index[q] = v", "a row that no index names is unchanged"
		exact, chunks = "the sum, the old dweight included, is exact", "the sums of the chunks to the old dweight"
	}
	return def.Must(def.ScatterAdd(name, def.ScatterForm{
		Index: "index", Rows: "dout", Result: "dweight", Accumulate: accumulate,
		Formula: []string{formula},
		Clauses: []string{
			"Q >= 0, V, D >= 1; leading dimensions count as rows, and rows may be strided",
			"for dout in f16 " + exact + " and rounded once: the order of the queries does not matter; an exact zero is +0",
			"for bf16 and f32 the queries are added in ascending order, in chunks of 64, each from +0, and " + chunks + "; a zero is +0",
			"NaN, or infinities of both signs, in a sum give NaN; infinities of one sign give that infinity",
			"an index outside 0..V-1 is refused, and nothing is written; with bad_index=skip it contributes nothing",
			rest,
			"subnormals are kept, and a sum too large for its format is infinite; for bf16 and f32 a partial sum that overflows stays infinite",
			"an index may occur any number of times, and Q may exceed V",
			"dweight may not overlap index or dout",
		},
	}))
}

// Forward copies rows of weight to out.
func Forward(q *engine.Queue, out, index, weight *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, ForwardDefinition, []*tensor.Tensor{index, weight, out}, nil, opts...)
}

// Backward sums rows of dout into dweight, whose old value is overwritten.
func Backward(q *engine.Queue, dweight, index, dout *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, BackwardDefinition, []*tensor.Tensor{index, dout, dweight}, nil, opts...)
}

// Accumulate sums rows of dout into dweight, added to its old value.
func Accumulate(q *engine.Queue, dweight, index, dout *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, AccumulateDefinition, []*tensor.Tensor{index, dout, dweight}, nil, opts...)
}
