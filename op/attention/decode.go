package attention

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/tensor"
)

// DecodeDefinition is causal attention to keys that lie in pages of a cache.
var DecodeDefinition = def.Must(def.StreamOf("attention.decode", def.StreamForm{
	Query: "q", Key: "k", Value: "v", QueryStarts: "qstart", Lengths: "klen", Pages: "pages", Out: "o", LogSum: "lse",
	Functions: functions,
	Formula: []string{
		"o = sum of 2^t*v / sum of 2^t over the keys at and before the query, t = kappa * sum of q*k over d",
		"lse = log2(sum of 2^t),  kappa = scale*log2(e)",
	},
	Clauses: []string{
		"T >= 0, P, N, M, G, J, D, B >= 1, N a power of two from 16 to 256; leading dimensions may be strided; head j of group g reads the keys and values of group g",
		"sequence b has the queries from qstart[b] up to qstart[b+1], and klen[b] keys: key i is at place i mod N of page pages[b,i/N]; its last query stands at its last key, and a query sees the keys at and before its place",
		"offsets that do not ascend from 0 to T, lengths outside 0 to M*N, and pages outside 0 to P-1 are refused, and nothing is written; entries of pages behind a sequence's last key are not read; sequences may share pages",
		"sums, weights and their order are those of attention.forward",
		"a query that sees no key, or whose exponents t are all -Inf, gives o = +0 and lse = -Inf",
		"an exponent that is NaN or +Inf makes o and lse NaN; one of -Inf has the weight +0",
		"a NaN in v makes its column NaN for the queries that see it, an infinity makes it infinite or NaN: NaN where its weight is zero, or where infinities of opposite signs meet",
		"keys and values that a query does not see change nothing, those of pages and places that no sequence has included, NaN and infinities too",
		"subnormals are kept; weights too small for the format of v are subnormal or +0; a score or a weighed sum that overflows is infinite",
		"a query has the bits that attention.forward gives for the same keys one behind the other: whatever pages they lie in and how long these are, in every batch, and whatever number of queries is computed in one call",
		"o and lse may not overlap an input",
	},
}, causal))

// Pages says which keys sequences have in a cache: Lengths [B] how many, Table [B,M] in which pages.
// QueryStarts [B+1] divides the queries, as in [Sequences].
type Pages struct{ QueryStarts, Lengths, Table *tensor.Tensor }

// Decode computes o and lse from query [T,G,J,D] and the pages of a cache, key and value [P,N,G,D].
func Decode(q *engine.Queue, o, lse, query, key, value *tensor.Tensor, p Pages, kappa float64, opts ...engine.CallOption) error {
	return engine.Call(q, DecodeDefinition, []*tensor.Tensor{query, key, value, p.QueryStarts, p.Lengths, p.Table, o, lse}, []float64{kappa}, opts...)
}
