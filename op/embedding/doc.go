// Package embedding copies rows of a table by index, and sums gradients back into
// the table's rows.
//
//	out[q,d]     = weight[index[q],d]
//	dweight[v,d] = sum of dout[q,d] over all q with index[q] = v   (+ dweight[v,d])
//
// # How it is computed
//
// Forward copies bits: no value is interpreted.
//
// Backward adds one term for each occurrence of an index. Atomic additions would
// round every time, in the order in which threads arrive, and a large sum would
// stop growing: 2048 + 1 is 2048 in f16. Here the order is fixed or does not
// matter. Every f16 is an integer multiple of 2^-24, so sums of f16 are kept
// exactly, as integers, and rounded once when they are stored. bf16 and f32 span too
// many exponents for that: their terms are added in binary32 in ascending order of
// q, in chunks of 64 that each begin at +0, and the sums of the chunks are added in
// ascending order. The error grows with the number of chunks plus 64, not with the
// number of terms.
//
// dweight may be f32 where dout has 16 bits. Accumulate adds to dweight,
// Backward overwrites all of it.
//
// Indices are checked before anything is written. The error names the first bad
// index. With bad_index=skip a bad index gives zeros, or contributes nothing.
//
// # embedding.forward
//
//	out[q,d] = weight[index[q],d]
//
//	operand  shape  dtypes        note
//	index    Q      i32           int32 in 0..V-1
//	weight   V,D    f16 bf16 f32
//	out      Q,D    as weight     fully written
//
//	C1  Q >= 0, V, D >= 1; leading dimensions count as rows, and rows may be strided
//	C2  every bit pattern is copied, including those of NaN
//	C3  an index outside 0..V-1 is refused, and nothing is written; with bad_index=skip its row is +0
//	C4  an index may occur any number of times, and Q may exceed V
//	C5  out may not overlap index or weight
//
// # embedding.backward
//
//	dweight[v,d] = sum of dout[q,d] over index[q] = v
//
//	operand  shape  dtypes           note
//	index    Q      i32              int32 in 0..V-1
//	dout     Q,D    f16 bf16 f32
//	dweight  V,D    as dout, or f32  fully written
//
//	C1  Q >= 0, V, D >= 1; leading dimensions count as rows, and rows may be strided
//	C2  for dout in f16 the sum is exact and rounded once: the order of the queries does not matter; an exact zero is +0
//	C3  for bf16 and f32 the queries are added in ascending order, in chunks of 64, each from +0, and the sums of the chunks from +0; a zero is +0
//	C4  NaN, or infinities of both signs, in a sum give NaN; infinities of one sign give that infinity
//	C5  an index outside 0..V-1 is refused, and nothing is written; with bad_index=skip it contributes nothing
//	C6  a row that no index names is +0
//	C7  subnormals are kept, and a sum too large for its format is infinite; for bf16 and f32 a partial sum that overflows stays infinite
//	C8  an index may occur any number of times, and Q may exceed V
//	C9  dweight may not overlap index or dout
//
// # embedding.backward.accumulate
//
//	dweight[v,d] = dweight[v,d] + sum of dout[q,d] over index[q] = v
//
//	operand  shape  dtypes           note
//	index    Q      i32              int32 in 0..V-1
//	dout     Q,D    f16 bf16 f32
//	dweight  V,D    as dout, or f32  read, then written in place
//
//	C1  Q >= 0, V, D >= 1; leading dimensions count as rows, and rows may be strided
//	C2  for dout in f16 the sum, the old dweight included, is exact and rounded once: the order of the queries does not matter; an exact zero is +0
//	C3  for bf16 and f32 the queries are added in ascending order, in chunks of 64, each from +0, and the sums of the chunks to the old dweight; a zero is +0
//	C4  NaN, or infinities of both signs, in a sum give NaN; infinities of one sign give that infinity
//	C5  an index outside 0..V-1 is refused, and nothing is written; with bad_index=skip it contributes nothing
//	C6  a row that no index names is unchanged
//	C7  subnormals are kept, and a sum too large for its format is infinite; for bf16 and f32 a partial sum that overflows stays infinite
//	C8  an index may occur any number of times, and Q may exceed V
//	C9  dweight may not overlap index or dout
package embedding
