// Package rmsnorm normalizes each row of a matrix to mean square 1 and scales it by
// column, as the norms of transformers do, with or without a residual that is added
// first, and computes the gradients.
//
//	y[r,c]  = x[r,c] * rstd[r] * gamma[c]
//	rstd[r] = 1 / sqrt(sum x[r,c]^2 / C + eps)
//
// # How it is computed
//
// In binary32, every operation rounded once:
//
//	square = sum (x*x) / C,  rstd = 1 / sqrt(square + eps)
//	y = (x * rstd) * gamma
//
// The normalized row is not rounded to the storage format before it is multiplied by
// gamma: y is rounded once more, when it is stored. rstd is stored as f32 for Backward.
//
// rmsnorm.residual.forward first adds a residual. The sum is an output in the format of
// x, and what is normalized is the sum as it is stored:
//
//	sum = round(x + residual),  y and rstd as above, of sum
//
// so the results are bit for bit those of an addition that is stored and of
// rmsnorm.forward, and the gradients take sum as their x. The rounding of the sum is part
// of the definition, not an error of it: y is compared with the real result of what is
// stored.
//
// The gradient of x is computed by rows, that of gamma is a column sum:
//
//	xhat = x * rstd,  t = dy * gamma
//	dx = (t - xhat * (sum t*xhat / C)) * rstd
//	dgamma = sum over r of dy*xhat
//
// rmsnorm.residual.backward adds dsum, the gradient of sum from where else it is used, the
// next residual: dx = fma(t - xhat*c, rstd, dsum). It is the gradient of x and that of the
// residual. The order of every sum depends on R and C alone (num.RowLanes, num.ColLanes),
// so the result depends neither on the device nor on the number of threads.
//
// # rmsnorm.forward
//
//	rstd[r] = 1 / sqrt(sum x[r,c]^2 / C + eps)
//	y[r,c]  = x[r,c] * rstd[r] * gamma[c]
//
//	operand  shape  dtypes        note
//	x        R,C    f16 bf16 f32
//	gamma    C      as x, or f32
//	y        R,C    as x          fully written; may be x itself
//	rstd     R      f32           fully written
//
//	C1  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided
//	C2  eps is finite, also as binary32, and at least 0
//	C3  a NaN in a row of x makes the row of y and its rstd NaN
//	C4  an infinity in a row of x, or a sum of squares that overflows, gives rstd +0, and a row of zeros with the signs of x*gamma, NaN where x or gamma is infinite
//	C5  eps 0 as binary32 and a mean square of 0, or one that underflows to it, give rstd +Inf, and y infinite or NaN
//	C6  a NaN or an infinity in gamma makes its column of y NaN or infinite, and reaches nothing else
//	C7  subnormals are kept, and a y too large for its format is infinite
//	C8  y may be x itself; any other overlap is refused
//
// # rmsnorm.residual.forward
//
//	sum[r,c] = x[r,c] + residual[r,c], rounded to the format of x
//	rstd[r]  = 1 / sqrt(sum over c of sum[r,c]^2 / C + eps)
//	y[r,c]   = sum[r,c] * rstd[r] * gamma[c]
//
//	operand   shape  dtypes        note
//	x         R,C    f16 bf16 f32
//	residual  R,C    as x
//	gamma     C      as x, or f32
//	sum       R,C    as x          fully written; may be x or residual itself
//	y         R,C    as x          fully written; may be x or residual itself
//	rstd      R      f32           fully written
//
//	C1  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided
//	C2  eps is finite, also as binary32, and at least 0
//	C3  x + residual is rounded to binary32 and then to the format of x; y and rstd are those of rmsnorm.forward on that sum, bit for bit
//	C4  a sum of a NaN or of opposite infinities is NaN; one too large for its format is infinite
//	C5  a NaN in a row of sum makes the row of y and its rstd NaN
//	C6  an infinity in a row of sum, or a sum of squares that overflows, gives rstd +0, and a row of zeros with the signs of sum*gamma, NaN where sum or gamma is infinite
//	C7  eps 0 as binary32 and a mean square of 0, or one that underflows to it, give rstd +Inf, and y infinite or NaN
//	C8  a NaN or an infinity in gamma makes its column of y NaN or infinite, and reaches nothing else
//	C9  subnormals are kept, and a y too large for its format is infinite
//	C10 sum and y may each be x or residual itself, but not both the same; any other overlap is refused
//
// # rmsnorm.backward
//
//	xhat[r,c] = x[r,c] * rstd[r],  t[r,c] = dy[r,c] * gamma[c]
//	dx[r,c]   = (t[r,c] - xhat[r,c] * sum t[r,c]*xhat[r,c]/C) * rstd[r]
//	dgamma[c] = sum over r of dy[r,c] * xhat[r,c]
//
//	operand  shape  dtypes         note
//	dy       R,C    f16 bf16 f32
//	x        R,C    as dy
//	gamma    C      as dy, or f32
//	rstd     R      f32
//	dx       R,C    as dy          fully written; may be dy or x itself
//	dgamma   C      as gamma       fully written
//
//	C1  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided
//	C2  a NaN in a row of dy, x or rstd makes the row of dx NaN, one in gamma all of dx
//	C3  a NaN in a column of dy or of xhat makes dgamma NaN there
//	C4  an infinity in a row of dy, x or rstd makes the row of dx infinite or NaN, one in gamma all of dx
//	C5  an infinity in a column of dy or of xhat makes dgamma infinite or NaN there
//	C6  rstd is used as given: a finite one need not belong to x, and rstd 0 makes the row of dx zeros
//	C7  subnormals are kept; results that overflow are infinite, and a sum that overflows counts as an infinity in its row or column
//	C8  dx may be dy or x itself; any other overlap is refused
//
// # rmsnorm.residual.backward
//
//	xhat[r,c] = sum[r,c] * rstd[r],  t[r,c] = dy[r,c] * gamma[c]
//	dx[r,c]   = (t[r,c] - xhat[r,c] * sum over c of t[r,c]*xhat[r,c]/C) * rstd[r] + dsum[r,c], of x and of residual
//	dgamma[c] = sum over r of dy[r,c] * xhat[r,c]
//
//	operand  shape  dtypes         note
//	dy       R,C    f16 bf16 f32
//	dsum     R,C    as dy
//	sum      R,C    as dy
//	gamma    C      as dy, or f32
//	rstd     R      f32
//	dx       R,C    as dy          fully written; may be dy or dsum or sum itself
//	dgamma   C      as gamma       fully written
//
//	C1  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided
//	C2  a NaN in a row of dy, sum or rstd makes the row of dx NaN, one in gamma all of dx, one in dsum its own element of dx
//	C3  a NaN in a column of dy or of xhat makes dgamma NaN there
//	C4  an infinity in a row of dy, sum or rstd makes the row of dx infinite or NaN, one in gamma all of dx, one in dsum its own element of dx
//	C5  an infinity in a column of dy or of xhat makes dgamma infinite or NaN there
//	C6  rstd is used as given: a finite one need not belong to sum, and rstd 0 gives dx = dsum, up to the sign of a zero
//	C7  subnormals are kept; results that overflow are infinite, and a sum that overflows counts as an infinity in its row or column
//	C8  dx may be dy, dsum or sum itself; any other overlap is refused
package rmsnorm
