// Package rope computes rotary position embeddings: it turns pairs of a head's elements by
// angles that grow with the position. It also computes them after an RMSNorm of the head, and the
// gradients of both.
//
//	y1 = x1*c - x2*s
//	y2 = x1*s + x2*c
//
// # How it is computed
//
// A row is one head of one token, of d elements and C = d/2 pairs. Its two halves are two operands,
// views of one tensor ([Halves]): pair i is columns i and i + C. c and s are read from tables of
// binary32 with a row for each position, by an int32 for each row; the heads of a token repeat it.
// [Table] makes them: cos and sin of position * base^(-i/C), correctly rounded, so that they have
// the same bits on every machine.
//
//	y1 = fma(x1, c, -(x2*s)),  y2 = fma(x1, s, x2*c)
//
// The second product of each sum is rounded, the first is not. Gradients are turned by the opposite
// angle, which is the transpose.
//
// Heads whose pairs are columns 2i and 2i+1 have definitions of their own, with the same bits. There x is
// one operand with C = d, and cosines and sines are neighbours in one table ([Waves]).
//
// With a norm, the mean square is that of all d elements: one row sum of the C terms
// fma(x1, x1, x2*x2), divided by 2*C. x*rstd and its product with gamma are rounded to binary32, and
// not to the storage format, before they are turned. gamma1 and gamma2 are the halves of one vector.
// Of pairs of neighbours, the row sum has the C squares one by one, as in package rmsnorm.
//
// Arithmetic is binary32: every operation above is rounded once, and results once more when they
// are stored.
//
// # rope.forward
//
//	y1[r,i] = x1[r,i]*c - x2[r,i]*s,  c = cos[position[r],i],  s = sin[position[r],i]
//	y2[r,i] = x1[r,i]*s + x2[r,i]*c
//
//	operand   shape  dtypes        note
//	x1        R,C    f16 bf16 f32
//	x2        R,C    as x1
//	position  R      i32           int32 in 0..P-1
//	cos       P,C    f32           read in the rows that position name; no output may overlap it
//	sin       P,C    f32           read in the rows that position name; no output may overlap it
//	y1        R,C    as x1         fully written; may be x1 or x2 itself
//	y2        R,C    as x1         fully written; may be x1 or x2 itself
//
//	C1  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided, so that x1 and x2 may be the halves of one tensor; position has one value for each row
//	C2  a position below 0 or from P on is refused before anything is written; where bad indices are skipped, c and s of its row are +0
//	C3  cos and sin are used as given: they need not belong to an angle; a NaN or an infinity in them counts as one in the products that it is part of
//	C4  a NaN in x1 or x2 gives NaN in both results of the pair
//	C5  an infinity in x1 or x2 makes each result of the pair infinite, or NaN: where c or s is zero, or where infinities of opposite signs meet
//	C6  where c is 1 and s is a zero, as at position 0, finite pairs stay as they are, except that a zero may change its sign
//	C7  subnormals are kept, and a result too large for its format is infinite
//	C8  y1 and y2 may each be x1 or x2 itself, but not both the same; any other overlap is refused
//
// # rope.backward
//
//	dx1[r,i] = dy1[r,i]*c + dy2[r,i]*s,  c = cos[position[r],i],  s = sin[position[r],i]
//	dx2[r,i] = dy2[r,i]*c - dy1[r,i]*s
//
//	operand   shape  dtypes        note
//	dy1       R,C    f16 bf16 f32
//	dy2       R,C    as dy1
//	position  R      i32           int32 in 0..P-1
//	cos       P,C    f32           read in the rows that position name; no output may overlap it
//	sin       P,C    f32           read in the rows that position name; no output may overlap it
//	dx1       R,C    as dy1        fully written; may be dy1 or dy2 itself
//	dx2       R,C    as dy1        fully written; may be dy1 or dy2 itself
//
//	C1  the results are those of rope.forward with -sin in the place of sin, bit for bit
//	C2  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided; position has one value for each row
//	C3  a position below 0 or from P on is refused before anything is written; where bad indices are skipped, c and s of its row are +0
//	C4  dx1 and dx2 may each be dy1 or dy2 itself, but not both the same; any other overlap is refused
//
// # rope.norm.forward
//
//	rstd[r] = 1 / sqrt(sum over i of (x1[r,i]^2 + x2[r,i]^2) / (2*C) + eps)
//	h1[r,i] = x1[r,i]*rstd[r]*gamma1[i],  h2[r,i] = x2[r,i]*rstd[r]*gamma2[i]
//	y1[r,i] = h1*c - h2*s,  y2[r,i] = h1*s + h2*c,  c = cos[position[r],i],  s = sin[position[r],i]
//
//	operand   shape  dtypes         note
//	x1        R,C    f16 bf16 f32
//	x2        R,C    as x1
//	gamma1    C      as x1, or f32
//	gamma2    C      as gamma1
//	position  R      i32            int32 in 0..P-1
//	cos       P,C    f32            read in the rows that position name; no output may overlap it
//	sin       P,C    f32            read in the rows that position name; no output may overlap it
//	y1        R,C    as x1          fully written; may be x1 or x2 itself
//	y2        R,C    as x1          fully written; may be x1 or x2 itself
//	rstd      R      f32            fully written
//
//	C1  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided, so that x1 and x2 may be the halves of one tensor; position has one value for each row
//	C2  eps is finite, also as binary32, and at least 0
//	C3  a position below 0 or from P on is refused before anything is written; where bad indices are skipped, c and s of its row are +0
//	C4  h1 and h2 are not rounded to a storage format before they are turned
//	C5  a NaN in a row of x1 or x2 makes the rows of y1 and y2 and its rstd NaN
//	C6  an infinity in a row of x1 or x2, or a sum of squares that overflows, gives rstd +0, and NaN in the pairs that have the infinity
//	C7  eps 0 as binary32 and a mean square of 0, or one that underflows to it, give rstd +Inf, and results that are infinite or NaN
//	C8  a NaN or an infinity in gamma1 or gamma2 makes its column of y1 and y2 NaN or infinite, and reaches nothing else
//	C9  subnormals are kept, and a result too large for its format is infinite
//	C10 y1 and y2 may each be x1 or x2 itself, but not both the same; any other overlap is refused
//
// # rope.norm.backward
//
//	g1[r,i] = dy1[r,i]*c + dy2[r,i]*s,  g2[r,i] = dy2[r,i]*c - dy1[r,i]*s,  c = cos[position[r],i],  s = sin[position[r],i]
//	xhat = x*rstd[r],  u = g*gamma, both of each half,  k[r] = sum over i of (u1[r,i]*xhat1[r,i] + u2[r,i]*xhat2[r,i]) / (2*C)
//	dx1[r,i] = (u1[r,i] - xhat1[r,i]*k[r])*rstd[r],  dx2[r,i] = (u2[r,i] - xhat2[r,i]*k[r])*rstd[r]
//	dgamma1[i] = sum over r of g1[r,i]*xhat1[r,i],  dgamma2[i] = sum over r of g2[r,i]*xhat2[r,i]
//
//	operand   shape  dtypes          note
//	dy1       R,C    f16 bf16 f32
//	dy2       R,C    as dy1
//	x1        R,C    as dy1
//	x2        R,C    as dy1
//	gamma1    C      as dy1, or f32
//	gamma2    C      as gamma1
//	rstd      R      f32
//	position  R      i32             int32 in 0..P-1
//	cos       P,C    f32             read in the rows that position name; no output may overlap it
//	sin       P,C    f32             read in the rows that position name; no output may overlap it
//	dx1       R,C    as dy1          fully written; may be dy1 or dy2 or x1 or x2 itself
//	dx2       R,C    as dy1          fully written; may be dy1 or dy2 or x1 or x2 itself
//	dgamma1   C      as gamma1       fully written
//	dgamma2   C      as gamma1       fully written
//
//	C1  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided, so that x1 and x2 may be the halves of one tensor; position has one value for each row
//	C2  a position below 0 or from P on is refused before anything is written; where bad indices are skipped, c and s of its row are +0
//	C3  a NaN in a row of dy1, dy2, x1, x2 or rstd makes the rows of dx1 and dx2 NaN, one in gamma1 or gamma2 all of them
//	C4  a NaN in a column of dy1 or dy2, or of x1 or x2 times rstd, makes dgamma1 or dgamma2 NaN there: of both, or of that half
//	C5  an infinity in a row of dy1, dy2, x1, x2 or rstd makes the rows of dx1 and dx2 infinite or NaN
//	C6  rstd is used as given: a finite one need not belong to x1 and x2, and rstd 0 makes the rows of dx1 and dx2 zeros
//	C7  subnormals are kept; results that overflow are infinite, and a sum that overflows counts as an infinity in its row or column
//	C8  dx1 and dx2 may each be dy1, dy2, x1 or x2 itself, but not both the same; any other overlap is refused
//
// # rope.interleaved.forward
//
//	y[r,2i] = x[r,2i]*c - x[r,2i+1]*s,  c = wave[position[r],2i],  s = wave[position[r],2i+1]
//	y[r,2i+1] = x[r,2i]*s + x[r,2i+1]*c
//
//	operand   shape  dtypes        note
//	x         R,C    f16 bf16 f32
//	wave      P,C    f32           read in the rows that position name; no output may overlap it
//	position  R      i32           int32 in 0..P-1
//	y         R,C    as x          fully written
//
//	C1  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided; position has one value for each row, and the last of an odd number of columns is turned with +0
//	C2  a position below 0 or from P on is refused before anything is written; where bad indices are skipped, c and s of its row are +0
//	C3  wave is used as given: c and s need not belong to an angle; a NaN or an infinity in them counts as one in the products that it is part of
//	C4  a NaN in x gives NaN in both results of its pair
//	C5  an infinity in x makes each result of its pair infinite, or NaN: where c or s is zero, or where infinities of opposite signs meet
//	C6  the results are those of rope.forward with the even columns as x1 and the odd ones as x2, bit for bit
//	C7  subnormals are kept, and a result too large for its format is infinite
//	C8  y has memory of its own: every element reads its partner too, and any overlap is refused
//
// # rope.interleaved.backward
//
//	dx[r,2i] = dy[r,2i]*c + dy[r,2i+1]*s,  c = wave[position[r],2i],  s = wave[position[r],2i+1]
//	dx[r,2i+1] = dy[r,2i+1]*c - dy[r,2i]*s
//
//	operand   shape  dtypes        note
//	dy        R,C    f16 bf16 f32
//	wave      P,C    f32           read in the rows that position name; no output may overlap it
//	position  R      i32           int32 in 0..P-1
//	dx        R,C    as dy         fully written
//
//	C1  the results are those of rope.interleaved.forward with -s in the place of s, bit for bit
//	C2  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided; position has one value for each row, and the last of an odd number of columns is turned with +0
//	C3  a position below 0 or from P on is refused before anything is written; where bad indices are skipped, c and s of its row are +0
//	C4  dx has memory of its own: every element reads its partner too, and any overlap is refused
//
// # rope.interleaved.norm.forward
//
//	rstd[r] = 1 / sqrt(sum over i of x[r,i]^2 / C + eps),  h[r,i] = x[r,i]*rstd[r]*gamma[i]
//	y[r,2i] = h[r,2i]*c - h[r,2i+1]*s,  c = wave[position[r],2i],  s = wave[position[r],2i+1]
//	y[r,2i+1] = h[r,2i]*s + h[r,2i+1]*c
//
//	operand   shape  dtypes        note
//	x         R,C    f16 bf16 f32
//	gamma     C      as x, or f32
//	wave      P,C    f32           read in the rows that position name; no output may overlap it
//	position  R      i32           int32 in 0..P-1
//	y         R,C    as x          fully written
//	rstd      R      f32           fully written
//
//	C1  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided; position has one value for each row, and the last of an odd number of columns is turned with +0
//	C2  eps is finite, also as binary32, and at least 0
//	C3  a position below 0 or from P on is refused before anything is written; where bad indices are skipped, c and s of its row are +0
//	C4  h is not rounded to a storage format before it is turned; rstd is that of rmsnorm.forward, and if x is f32, y is that of rope.interleaved.forward on the y of rmsnorm.forward, bit for bit
//	C5  a NaN in a row of x makes the row of y and its rstd NaN
//	C6  an infinity in a row of x, or a sum of squares that overflows, gives rstd +0, and NaN in the pairs that have the infinity
//	C7  eps 0 as binary32 and a mean square of 0, or one that underflows to it, give rstd +Inf, and results that are infinite or NaN
//	C8  a NaN or an infinity in gamma makes both columns of its pair NaN or infinite, and reaches nothing else
//	C9  subnormals are kept, and a result too large for its format is infinite
//	C10 y has memory of its own: every element reads its partner too, and any overlap is refused
//
// # rope.interleaved.norm.backward
//
//	g[r,2i] = dy[r,2i]*c + dy[r,2i+1]*s,  g[r,2i+1] = dy[r,2i+1]*c - dy[r,2i]*s,  c = wave[position[r],2i],  s = wave[position[r],2i+1]
//	xhat[r,i] = x[r,i]*rstd[r],  u[r,i] = g[r,i]*gamma[i],  k[r] = sum over i of u[r,i]*xhat[r,i] / C
//	dx[r,i] = (u[r,i] - xhat[r,i]*k[r])*rstd[r],  dgamma[i] = sum over r of g[r,i]*xhat[r,i]
//
//	operand   shape  dtypes         note
//	dy        R,C    f16 bf16 f32
//	x         R,C    as dy
//	gamma     C      as dy, or f32
//	rstd      R      f32
//	wave      P,C    f32            read in the rows that position name; no output may overlap it
//	position  R      i32            int32 in 0..P-1
//	dx        R,C    as dy          fully written; may be x itself
//	dgamma    C      as gamma       fully written
//
//	C1  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided; position has one value for each row, and the last of an odd number of columns is turned with +0
//	C2  a position below 0 or from P on is refused before anything is written; where bad indices are skipped, c and s of its row are +0
//	C3  if dy is f32, dx and dgamma are those of rmsnorm.backward on the dx of rope.interleaved.backward, bit for bit
//	C4  a NaN in a row of dy, x or rstd makes the row of dx NaN, one in gamma all of them
//	C5  a NaN in a column of dy makes dgamma NaN in both columns of its pair, one in a column of x in that column, one in rstd in all
//	C6  an infinity in a row of dy, x or rstd makes the row of dx infinite or NaN
//	C7  rstd is used as given: a finite one need not belong to x, and rstd 0 makes the row of dx zeros
//	C8  subnormals are kept; results that overflow are infinite, and a sum that overflows counts as an infinity in its row or column
//	C9  dx may be x itself; any other overlap is refused
package rope
