package attention

import (
	"math"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/tensor"
)

// functions are those that streams weigh by.
var functions = def.StreamFunctions{Short: fn.Exp2Short3Function, Exp2: fn.Exp2Function, Log2: fn.Log2Function}

// ForwardDefinition is causal attention.
var ForwardDefinition = def.Must(def.StreamOf("attention.forward", def.StreamForm{
	Query: "q", Key: "k", Value: "v", QueryStarts: "qstart", KeyStarts: "kstart", Out: "o", LogSum: "lse",
	Functions: functions,
	Formula: []string{
		"o = sum of 2^t*v / sum of 2^t over the keys at and before the query, t = kappa * sum of q*k over d",
		"lse = log2(sum of 2^t),  kappa = scale*log2(e)",
	},
	Clauses: []string{
		"T >= 0, S, G, J, D, B >= 1; leading dimensions may be strided; head j of group g reads the keys and values of group g",
		"sequence b has the queries from qstart[b] up to qstart[b+1] and the keys from kstart[b] up to kstart[b+1]; its last query stands at its last key, and a query sees the keys at and before its place",
		"offsets that do not ascend from 0 to T and S are refused, and nothing is written; a sequence may be empty, and may have more keys than queries or fewer",
		"scores are sums over d ascending from +0, each product fused with its addition; keys are taken in blocks of 128 and segments of 1,024, ascending, by the rule of weigh; weights are powers of two by exp2_short3 in f16 and bf16, by exp2 in f32",
		"a query that sees no key, or whose exponents t are all -Inf, gives o = +0 and lse = -Inf",
		"an exponent that is NaN or +Inf makes o and lse NaN; one of -Inf has the weight +0",
		"a NaN in v makes its column NaN for the queries that see it, an infinity makes it infinite or NaN: NaN where its weight is zero, or where infinities of opposite signs meet",
		"keys and values that a query does not see change nothing, NaN and infinities included",
		"subnormals are kept; weights too small for the format of v are subnormal or +0; a score or a weighed sum that overflows is infinite",
		"a query has the same bits alone, in every batch and order of sequences, and whatever number of its sequence's queries is computed in one call",
		"o and lse may not overlap an input",
	},
}, causal))

// causal weighs the keys at and before a query by their scores.
func causal(b *def.StreamBuilder) {
	b.Weigh(b.Score().Mul(b.Param("kappa")).As("t"), b.Key().LessEqual(b.Query()).As("visible"))
}

// Kappa returns the parameter for a scale of the scores, such as 1/√D.
func Kappa(scale float64) float64 { return scale * math.Log2E }

// Sequences divides tokens into sequences: QueryStarts and KeyStarts have one more element than
// there are sequences, and ascend from 0.
type Sequences struct{ QueryStarts, KeyStarts *tensor.Tensor }

// Forward computes o and lse from query [T,G,J,D], key and value [S,G,D].
func Forward(q *engine.Queue, o, lse, query, key, value *tensor.Tensor, s Sequences, kappa float64, opts ...engine.CallOption) error {
	return engine.Call(q, ForwardDefinition, []*tensor.Tensor{query, key, value, s.QueryStarts, s.KeyStarts, o, lse}, []float64{kappa}, opts...)
}
