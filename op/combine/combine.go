package combine

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// Clauses that all sums by place share.
const (
	shapes = "Q >= 0, S, V, D >= 1; leading dimensions count as rows, and rows may be strided"
	place  = "a place outside 0..V-1 is refused, and nothing is written; with bad_index=skip it adds nothing; a sum of nothing is +0"
	rangeC = "subnormals are kept, and a sum too large for its format is infinite; a partial sum that overflows stays infinite"
	batch  = "a row depends on its own places and the rows that they name alone: it has the same bits in every batch"
	often  = "a place may occur any number of times; the output may not overlap an input"
)

// ForwardDefinition is the weighted sum of a token's experts.
var ForwardDefinition = def.Must(def.GatherSum("combine.forward", def.GatherSumForm{
	Index: "place", Table: "o", Weight: "weight", Out: "y",
	Formula: []string{"y[q,d] = sum over s of weight[q,s] * o[place[q,s],d]"},
	Clauses: []string{
		shapes,
		"products are added in ascending order of s from +0, each fused with its addition in f32, and the sum is rounded once",
		"NaN, infinities of both signs, or an infinity times a zero in a sum give NaN; infinities of one sign give that infinity",
		place,
		rangeC,
		batch,
		often,
	},
}))

// BackwardDefinition is the gradient of rows of experts and of their weights, by row: dy has been
// permuted like o.
var BackwardDefinition = def.Must(def.Rowwise("combine.backward", func(b *def.Builder) {
	o, dy := b.In("o"), b.In("dy", def.Like("o"))
	weight := b.InRow("weight", def.Like("o").Or(num.F32))
	b.Out("do", dy.Mul(weight), def.Like("o"))
	b.OutRow("dweight", def.RowSum(dy.Mul(o)), def.Only(num.F32))

	b.Formula("do = dy * weight", "dweight = sum of dy * o over a row")
	b.Clauses(
		"R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided",
		"NaN gives NaN: in do one of its own dy or of weight, in dweight one of its row; an infinity times a zero too, and infinities of both signs in a row",
		"subnormals are kept; results too large for their format are infinite",
		"do may be o or dy itself; any other overlap is refused",
	)
}))

// PermuteDefinition copies tokens to the rows of their experts.
var PermuteDefinition = def.Must(def.Gather("combine.permute.forward", def.GatherForm{
	Index: "source", Table: "x", Out: "rows",
	Formula: []string{"rows[q,d] = x[source[q],d]"},
	Clauses: []string{
		"Q >= 0, V, D >= 1; leading dimensions count as rows, and rows may be strided",
		"every bit pattern is copied, including those of NaN",
		"a source outside 0..V-1 is refused, and nothing is written; with bad_index=skip its row is +0",
		"a source may occur any number of times; rows may not overlap an input",
	},
}))

// PermuteBackwardDefinition adds up the gradients of a token's rows.
var PermuteBackwardDefinition = def.Must(def.GatherSum("combine.permute.backward", def.GatherSumForm{
	Index: "place", Table: "drows", Out: "dx",
	Formula: []string{"dx[q,d] = sum over s of drows[place[q,s],d]"},
	Clauses: []string{
		shapes,
		"rows are added in ascending order of s from +0 in f32, and the sum is rounded once; a zero is +0",
		"NaN, or infinities of both signs, in a sum give NaN; infinities of one sign give that infinity",
		place,
		rangeC,
		batch,
		often,
	},
}))

// Forward computes y from the rows o of experts, by the places of a dispatch.
func Forward(q *engine.Queue, y, place, o, weight *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, ForwardDefinition, []*tensor.Tensor{place, o, weight, y}, nil, opts...)
}

// Backward computes do and dweight of rows. dy and weight are those of each row: permuted by a
// dispatch's source and slot. do may be o or dy.
func Backward(q *engine.Queue, do, dweight, o, dy, weight *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, BackwardDefinition, []*tensor.Tensor{o, dy, weight, do, dweight}, nil, opts...)
}

// Permute copies tokens to rows, by the source of a dispatch.
func Permute(q *engine.Queue, rows, source, x *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, PermuteDefinition, []*tensor.Tensor{source, x, rows}, nil, opts...)
}

// PermuteBackward adds up the gradients of rows, by the places of a dispatch.
func PermuteBackward(q *engine.Queue, dx, place, drows *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, PermuteBackwardDefinition, []*tensor.Tensor{place, drows, dx}, nil, opts...)
}
