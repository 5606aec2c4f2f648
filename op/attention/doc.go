// Package attention computes causal attention: for every query the mean of the values of the keys at and
// before its place, weighed by the softmax of their scores.
//
//	o = softmax(scale * q·k) * v
//
// # How it is computed
//
// The definition is a stream (docs/definitions.md): keys are read in blocks of 128, and for each
// query and head the largest exponent, the sum of the weights and the weighed sum of the values go
// from block to block. Segments of 1,024 keys are computed by themselves and joined in order.
// Everything counts from the first key of a sequence, so that a whole prompt, a piece of one and a
// single token have the same bits, whatever else is in the batch.
//
// Exponents are in base 2: kappa is the scale times log2(e) ([Kappa]), and lse, which a gradient
// needs, is a binary logarithm; the natural one is lse * ln(2).
//
// T tokens have G heads of keys, and J heads of queries for each: 16 heads of queries and 4 of keys
// are G = 4 and J = 4. Windows, soft caps, slopes, sinks and masks of documents are other texts of
// the same form; docs/definitions.md has some.
//
// Gradients are a second definition ([Backward]). They are given the mean o and the logarithms lse that
// [Forward] has given, from which they compute the weights again, so that nothing else is kept between the
// two. The gradients of a key are sums over the queries that see it, and over the heads of its group.
//
// Keys may lie in pages of a cache instead ([Decode]), with the same bits, for one token of each sequence or
// for several.
//
// # attention.forward
//
//	o = sum of 2^t*v / sum of 2^t over the keys at and before the query, t = kappa * sum of q*k over d
//	lse = log2(sum of 2^t),  kappa = scale*log2(e)
//
//	operand  shape    dtypes        note
//	q        T,G,J,D  f16 bf16 f32
//	k        S,G,D    as q
//	v        S,G,D    as q
//	qstart   B+1      i32           int32, ascending from 0 to T
//	kstart   B+1      i32           int32, ascending from 0 to S
//	o        T,G,J,D  as q          fully written
//	lse      T,G,J    f32           fully written
//
//	C1  T >= 0, S, G, J, D, B >= 1; leading dimensions may be strided; head j of group g reads the keys and values of group g
//	C2  sequence b has the queries from qstart[b] up to qstart[b+1] and the keys from kstart[b] up to kstart[b+1]; its last query stands at its last key, and a query sees the keys at and before its place
//	C3  offsets that do not ascend from 0 to T and S are refused, and nothing is written; a sequence may be empty, and may have more keys than queries or fewer
//	C4  scores are sums over d ascending from +0, each product fused with its addition; keys are taken in blocks of 128 and segments of 1,024, ascending, by the rule of weigh; weights are powers of two by exp2_short3 in f16 and bf16, by exp2 in f32
//	C5  a query that sees no key, or whose exponents t are all -Inf, gives o = +0 and lse = -Inf
//	C6  an exponent that is NaN or +Inf makes o and lse NaN; one of -Inf has the weight +0
//	C7  a NaN in v makes its column NaN for the queries that see it, an infinity makes it infinite or NaN: NaN where its weight is zero, or where infinities of opposite signs meet
//	C8  keys and values that a query does not see change nothing, NaN and infinities included
//	C9  subnormals are kept; weights too small for the format of v are subnormal or +0; a score or a weighed sum that overflows is infinite
//	C10 a query has the same bits alone, in every batch and order of sequences, and whatever number of its sequence's queries is computed in one call
//	C11 o and lse may not overlap an input
//
// # attention.backward
//
//	p = 2^(t - lse), t = kappa * sum of q*k over d;  ds = p * (sum of do*v over d - sum of do*o over d)
//	dq = ln(2)*kappa * sum of ds*k over keys,  dk = ln(2)*kappa * sum of ds*q over queries,  dv = sum of p*do over queries
//
//	operand  shape    dtypes        note
//	q        T,G,J,D  f16 bf16 f32
//	k        S,G,D    as q
//	v        S,G,D    as q
//	qstart   B+1      i32           int32, ascending from 0 to T
//	kstart   B+1      i32           int32, ascending from 0 to S
//	do       T,G,J,D  as q
//	o        T,G,J,D  as q
//	lse      T,G,J    f32
//	dq       T,G,J,D  as q          fully written
//	dk       S,G,D    as q          fully written
//	dv       S,G,D    as q          fully written
//
//	C1  T >= 0, S, G, J, D, B >= 1; leading dimensions may be strided; head j of group g reads the keys and values of group g, whose gradients are sums over its heads
//	C2  sequence b has the queries from qstart[b] up to qstart[b+1] and the keys from kstart[b] up to kstart[b+1]; its last query stands at its last key, and a query sees the keys at and before its place
//	C3  offsets that do not ascend from 0 to T and S are refused, and nothing is written; a sequence may be empty, and may have more keys than queries or fewer
//	C4  o and lse are those that attention.forward gives for the same q, k, v, offsets and kappa; they are not checked, and p is computed again from lse
//	C5  t has the bits of attention.forward; sums are those of weigh_backward: dq adds blocks of 128 keys from the last to the first, dk and dv add the heads of a group, and for each of them segments of 1,024 queries, ascending; p and ds are rounded to the format of v before they are multiplied
//	C6  a query that sees no key has dq = +0, a key that no query sees has dk = dv = +0
//	C7  an lse of -Inf, that of a query whose exponents t are all -Inf, counts as +0: such a query gives nothing to dv, and NaN to its dq where a key is infinite
//	C8  a NaN in q, do, o or lse makes dq of its query NaN, and dk of the keys that it sees; one in k or v makes dk of its key NaN, and dq of the queries that see it; one in q, k or lse does so to dv too, one in do to its column of dv; an infinity makes them infinite or NaN, or finite where weights are zero
//	C9  keys and values that a query does not see change nothing in its dq, and queries that do not see a key nothing in its dk and dv, NaN and infinities included
//	C10 subnormals are kept; p and ds too small for the format of v are subnormal or zero; a weight, a product or a sum that overflows is infinite or NaN
//	C11 the gradients of a sequence have the same bits alone and in every batch and order of sequences; dq of a query has them whatever number of its sequence's queries is computed in one call
//	C12 dq, dk and dv may not overlap an input or each other
//
// # attention.decode
//
//	o = sum of 2^t*v / sum of 2^t over the keys at and before the query, t = kappa * sum of q*k over d
//	lse = log2(sum of 2^t),  kappa = scale*log2(e)
//
//	operand  shape    dtypes        note
//	q        T,G,J,D  f16 bf16 f32
//	k        P,N,G,D  as q
//	v        P,N,G,D  as q
//	qstart   B+1      i32           int32, ascending from 0 to T
//	klen     B        i32           int32 in 0..M*N
//	pages    B,M      i32           int32 in 0..P-1, as far as klen keys reach; anything behind
//	o        T,G,J,D  as q          fully written
//	lse      T,G,J    f32           fully written
//
//	C1  T >= 0, P, N, M, G, J, D, B >= 1, N a power of two from 16 to 256; leading dimensions may be strided; head j of group g reads the keys and values of group g
//	C2  sequence b has the queries from qstart[b] up to qstart[b+1], and klen[b] keys: key i is at place i mod N of page pages[b,i/N]; its last query stands at its last key, and a query sees the keys at and before its place
//	C3  offsets that do not ascend from 0 to T, lengths outside 0 to M*N, and pages outside 0 to P-1 are refused, and nothing is written; entries of pages behind a sequence's last key are not read; sequences may share pages
//	C4  sums, weights and their order are those of attention.forward
//	C5  a query that sees no key, or whose exponents t are all -Inf, gives o = +0 and lse = -Inf
//	C6  an exponent that is NaN or +Inf makes o and lse NaN; one of -Inf has the weight +0
//	C7  a NaN in v makes its column NaN for the queries that see it, an infinity makes it infinite or NaN: NaN where its weight is zero, or where infinities of opposite signs meet
//	C8  keys and values that a query does not see change nothing, those of pages and places that no sequence has included, NaN and infinities too
//	C9  subnormals are kept; weights too small for the format of v are subnormal or +0; a score or a weighed sum that overflows is infinite
//	C10 a query has the bits that attention.forward gives for the same keys one behind the other: whatever pages they lie in and how long these are, in every batch, and whatever number of queries is computed in one call
//	C11 o and lse may not overlap an input
package attention
