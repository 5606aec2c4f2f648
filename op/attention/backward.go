package attention

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/tensor"
)

// BackwardDefinition is the gradients of causal attention: the derivative of ForwardDefinition.
var BackwardDefinition = def.Must(def.StreamBackwardOf("attention.backward", def.StreamBackwardForm{
	StreamForm: def.StreamForm{
		Query: "q", Key: "k", Value: "v", QueryStarts: "qstart", KeyStarts: "kstart", Out: "o", LogSum: "lse",
		Functions: functions,
		Formula: []string{
			"p = 2^(t - lse), t = kappa * sum of q*k over d;  ds = p * (sum of do*v over d - sum of do*o over d)",
			"dq = ln(2)*kappa * sum of ds*k over keys,  dk = ln(2)*kappa * sum of ds*q over queries,  dv = sum of p*do over queries",
		},
		Clauses: []string{
			"T >= 0, S, G, J, D, B >= 1; leading dimensions may be strided; head j of group g reads the keys and values of group g, whose gradients are sums over its heads",
			"sequence b has the queries from qstart[b] up to qstart[b+1] and the keys from kstart[b] up to kstart[b+1]; its last query stands at its last key, and a query sees the keys at and before its place",
			"offsets that do not ascend from 0 to T and S are refused, and nothing is written; a sequence may be empty, and may have more keys than queries or fewer",
			"o and lse are those that attention.forward gives for the same q, k, v, offsets and kappa; they are not checked, and p is computed again from lse",
			"t has the bits of attention.forward; sums are those of weigh_backward: dq adds blocks of 128 keys from the last to the first, dk and dv add the heads of a group, and for each of them segments of 1,024 queries, ascending; p and ds are rounded to the format of v before they are multiplied",
			"a query that sees no key has dq = +0, a key that no query sees has dk = dv = +0",
			"an lse of -Inf, that of a query whose exponents t are all -Inf, counts as +0: such a query gives nothing to dv, and NaN to its dq where a key is infinite",
			"a NaN in q, do, o or lse makes dq of its query NaN, and dk of the keys that it sees; one in k or v makes dk of its key NaN, and dq of the queries that see it; one in q, k or lse does so to dv too, one in do to its column of dv; an infinity makes them infinite or NaN, or finite where weights are zero",
			"keys and values that a query does not see change nothing in its dq, and queries that do not see a key nothing in its dk and dv, NaN and infinities included",
			"subnormals are kept; p and ds too small for the format of v are subnormal or zero; a weight, a product or a sum that overflows is infinite or NaN",
			"the gradients of a sequence have the same bits alone and in every batch and order of sequences; dq of a query has them whatever number of its sequence's queries is computed in one call",
			"dq, dk and dv may not overlap an input or each other",
		},
	},
	OutGradient: "do", QueryGradient: "dq", KeyGradient: "dk", ValueGradient: "dv",
}, func(b *def.StreamBuilder) {
	kappa := b.Param("kappa")
	t, visible := b.Score().Mul(kappa).As("t"), b.Key().LessEqual(b.Query()).As("visible")
	b.WeighBackward(t, visible, def.One, def.Number("log(2)").Mul(kappa))
}))

// Saved holds the results of Forward that Backward reads.
type Saved struct{ Out, LogSum *tensor.Tensor }

// Backward computes dq [T,G,J,D], dk and dv [S,G,D] from do, the gradient of the mean, the inputs of
// Forward, and its results.
func Backward(q *engine.Queue, dq, dk, dv, do, query, key, value *tensor.Tensor, saved Saved, s Sequences, kappa float64, opts ...engine.CallOption) error {
	return engine.Call(q, BackwardDefinition,
		[]*tensor.Tensor{query, key, value, s.QueryStarts, s.KeyStarts, do, saved.Out, saved.LogSum, dq, dk, dv}, []float64{kappa}, opts...)
}
