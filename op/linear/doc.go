// Package linear computes what layers of networks do with a matrix product, in one kernel.
//
//	Y = X + A·Bᵀ
//	Y = silu(gate) ∘ up,  gate = A·Gᵀ,  up = A·Uᵀ
//
// A definition says what is rounded between the product and the result: here the products, to the
// format of the results, as if they were stored and read again. So the results have the bits of a
// product that is followed by an addition, or of two products that swiglu.forward follows, without
// a read of memory in between. On tensor cores the sums are those of the products alone on these.
//
// # linear.residual.forward
//
//	Y[m,n] = X[m,n] + (sum over k of A[m,k] * B[n,k])
//
//	operand  shape  dtypes        note
//	A        M,K    f16 bf16 f32
//	B        N,K    as A
//	X        M,N    as A
//	Y        M,N    as A          fully written
//
//	C1  M >= 0, N, K >= 1; leading dimensions count as rows, and the rows of every operand may be strided
//	C2  by the rule fma: acc = fma(A, B, acc), the summed index ascending from +0; acc is rounded to the format of Y, X is added, and the sum is rounded to it again
//	C3  NaN, 0 times an infinity, or infinities of both signs in a sum or in the addition give NaN; other infinities give that infinity
//	C4  the result may not overlap the operands; the operands may be the same tensor
//	C5  subnormals are kept; a partial sum that overflows binary32 is an infinity from then on, and so are a product and a result that are too large for their format
//
// # linear.swiglu.forward
//
//	gate[m,n] = sum over k of A[m,k] * G[n,k],  up[m,n] = sum over k of A[m,k] * U[n,k]
//	Y = silu(gate) * up,  silu(g) = g * sigmoid(g)
//
//	operand  shape  dtypes        note
//	A        M,K    f16 bf16 f32
//	G        N,K    as A
//	U        N,K    as A
//	gate     M,N    as A          fully written
//	up       M,N    as A          fully written
//	Y        M,N    as A          fully written
//
//	C1  M >= 0, N, K >= 1; leading dimensions count as rows, and the rows of every operand may be strided
//	C2  by the rule fma: acc = fma(A, G, acc), the summed index ascending from +0, and likewise for U; acc is rounded to the format of gate and of up, and Y has the bits of swiglu.forward on these
//	C3  NaN, 0 times an infinity, or infinities of both signs in a sum give NaN, other infinities that infinity; Y is what swiglu.forward gives for such values of gate and up
//	C4  no result may overlap an operand or another result; the operands may be the same tensor
//	C5  subnormals are kept; a partial sum that overflows binary32 is an infinity from then on, and so is a result that is too large for its format
package linear
