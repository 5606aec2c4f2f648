// Package layernorm normalizes each row of a matrix to mean 0 and variance 1, scales
// and shifts it by column, and computes the gradients of that.
//
//	y[r,c]  = (x[r,c] - mean[r]) * rstd[r] * gamma[c] + beta[c]
//	rstd[r] = 1 / sqrt(variance[r] + eps)
//
// # How it is computed
//
// In binary32, in two passes. The first computes the mean of the differences to the
// row's first element, the second the variance around that mean:
//
//	shifted = x - x[r,0],  shift = sum shifted / C
//	centred = shifted - shift,  variance = sum centred^2 / C
//	y = fma(centred * rstd, gamma, beta),  mean = x[r,0] + shift
//
// The one-pass form, the mean of squares minus the square of the mean, loses digits
// when the mean is much larger than the deviation. Here a mean far from zero costs
// nothing, since x - x[r,0] is then exact or nearly so. The variance is that of the
// population (divided by C). mean and rstd are stored as f32 for Backward.
//
// The gradient of x is computed by rows; those of gamma and beta are column sums:
//
//	xhat = (x - mean) * rstd,  t = dy * gamma
//	dx = (t - sum t/C - xhat * (sum t*xhat / C)) * rstd
//	dgamma = sum over r of dy*xhat,  dbeta = sum over r of dy
//
// The order of every sum depends on R and C alone (num.RowLanes, num.ColLanes), so
// the result depends neither on the device nor on the number of threads.
//
// # layernorm.forward
//
//	mean[r] = sum x[r,c] / C
//	rstd[r] = 1 / sqrt(sum (x[r,c] - mean[r])^2 / C + eps)
//	y[r,c]  = (x[r,c] - mean[r]) * rstd[r] * gamma[c] + beta[c]
//
//	operand  shape  dtypes        note
//	x        R,C    f16 bf16 f32
//	gamma    C      as x, or f32
//	beta     C      as gamma
//	y        R,C    as x          fully written; may be x itself
//	mean     R      f32           fully written
//	rstd     R      f32           fully written
//
//	C1  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided
//	C2  eps is finite, also as binary32, and at least 0
//	C3  a NaN or an infinity in a row of x makes the row of y and its rstd NaN, and its mean NaN or infinite
//	C4  a constant row of finite x gives beta where gamma is finite and eps > 0 as binary32, up to the sign of a zero
//	C5  a variance that overflows gives rstd +0 and y = beta; differences to the row's first element, or their sum, that overflow give y = NaN
//	C6  eps 0 as binary32 and a variance of 0, or one that underflows to it, give rstd +Inf, and y infinite or NaN
//	C7  a NaN or an infinity in gamma or beta makes its column of y NaN or infinite, and reaches nothing else
//	C8  subnormals are kept, and a y too large for its format is infinite
//	C9  y may be x itself; any other overlap is refused
//
// # layernorm.backward
//
//	xhat[r,c] = (x[r,c] - mean[r]) * rstd[r],  t[r,c] = dy[r,c] * gamma[c]
//	dx[r,c]   = (t[r,c] - sum t[r,c]/C - xhat[r,c] * sum t[r,c]*xhat[r,c]/C) * rstd[r]
//	dgamma[c] = sum over r of dy[r,c] * xhat[r,c],  dbeta[c] = sum over r of dy[r,c]
//
//	operand  shape  dtypes         note
//	dy       R,C    f16 bf16 f32
//	x        R,C    as dy
//	gamma    C      as dy, or f32
//	mean     R      f32
//	rstd     R      f32
//	dx       R,C    as dy          fully written; may be dy or x itself
//	dgamma   C      as gamma       fully written
//	dbeta    C      as gamma       fully written
//
//	C1  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided
//	C2  a NaN in a row of dy, x, mean or rstd makes the row of dx NaN, one in gamma all of dx
//	C3  a NaN in a column of dy or of xhat makes dgamma NaN there, one in dy dbeta too
//	C4  an infinity in a row of dy, x, mean or rstd makes the row of dx infinite or NaN, one in gamma all of dx
//	C5  an infinity in a column of dy or of xhat makes dgamma infinite or NaN there, one in dy dbeta too
//	C6  mean and rstd are used as given: a finite rstd need not belong to x, and rstd 0 makes the row of dx zeros
//	C7  subnormals are kept; results that overflow are infinite, and a sum that overflows counts as an infinity in its row or column
//	C8  dx may be dy or x itself; any other overlap is refused
package layernorm
