// Package combine moves tokens to the rows of their experts and back.
//
//	rows[r] = x[source[r]]                         permute
//	y[t]    = sum over s of weight[t,s] * o[place[t,s]]    combine
//
// source and place come from op/dispatch.
//
// # How it is computed
//
// Every token gathers its rows and adds them in the order of its choices, so nothing depends on the order in which
// rows were computed, on other tokens or on their number. Gradients go the same way: the gradient of a permutation is
// a sum of rows by place, never a scatter with atomic additions. The gradients of the rows and of the weights are
// computed row by row from dy, permuted by source, and the weights, permuted by slot; a gather by place brings those of
// the weights back to tokens.
//
// # combine.forward
//
//	y[q,d] = sum over s of weight[q,s] * o[place[q,s],d]
//
//	operand  shape  dtypes        note
//	place    Q,S    i32           int32 in 0..V-1
//	o        V,D    f16 bf16 f32
//	weight   Q,S    as o, or f32
//	y        Q,D    as o          fully written
//
//	C1  Q >= 0, S, V, D >= 1; leading dimensions count as rows, and rows may be strided
//	C2  products are added in ascending order of s from +0, each fused with its addition in f32, and the sum is rounded once
//	C3  NaN, infinities of both signs, or an infinity times a zero in a sum give NaN; infinities of one sign give that infinity
//	C4  a place outside 0..V-1 is refused, and nothing is written; with bad_index=skip it adds nothing; a sum of nothing is +0
//	C5  subnormals are kept, and a sum too large for its format is infinite; a partial sum that overflows stays infinite
//	C6  a row depends on its own places and the rows that they name alone: it has the same bits in every batch
//	C7  a place may occur any number of times; the output may not overlap an input
//
// # combine.backward
//
//	do = dy * weight
//	dweight = sum of dy * o over a row
//
//	operand  shape  dtypes        note
//	o        R,C    f16 bf16 f32
//	dy       R,C    as o
//	weight   R      as o, or f32
//	do       R,C    as o          fully written; may be o or dy itself
//	dweight  R      f32           fully written
//
//	C1  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided
//	C2  NaN gives NaN: in do one of its own dy or of weight, in dweight one of its row; an infinity times a zero too, and infinities of both signs in a row
//	C3  subnormals are kept; results too large for their format are infinite
//	C4  do may be o or dy itself; any other overlap is refused
//
// # combine.permute.forward
//
//	rows[q,d] = x[source[q],d]
//
//	operand  shape  dtypes        note
//	source   Q      i32           int32 in 0..V-1
//	x        V,D    f16 bf16 f32
//	rows     Q,D    as x          fully written
//
//	C1  Q >= 0, V, D >= 1; leading dimensions count as rows, and rows may be strided
//	C2  every bit pattern is copied, including those of NaN
//	C3  a source outside 0..V-1 is refused, and nothing is written; with bad_index=skip its row is +0
//	C4  a source may occur any number of times; rows may not overlap an input
//
// # combine.permute.backward
//
//	dx[q,d] = sum over s of drows[place[q,s],d]
//
//	operand  shape  dtypes        note
//	place    Q,S    i32           int32 in 0..V-1
//	drows    V,D    f16 bf16 f32
//	dx       Q,D    as drows      fully written
//
//	C1  Q >= 0, S, V, D >= 1; leading dimensions count as rows, and rows may be strided
//	C2  rows are added in ascending order of s from +0 in f32, and the sum is rounded once; a zero is +0
//	C3  NaN, or infinities of both signs, in a sum give NaN; infinities of one sign give that infinity
//	C4  a place outside 0..V-1 is refused, and nothing is written; with bad_index=skip it adds nothing; a sum of nothing is +0
//	C5  subnormals are kept, and a sum too large for its format is infinite; a partial sum that overflows stays infinite
//	C6  a row depends on its own places and the rows that they name alone: it has the same bits in every batch
//	C7  a place may occur any number of times; the output may not overlap an input
package combine
