// Package gemm computes matrix products and their two gradients. Results overwrite
// the output or are added to it.
//
//	C  = A·B    (+ C)     Forward,  ForwardAccumulate
//	dA = dC·Bᵀ  (+ dA)    GradA,    GradAAccumulate
//	dB = Aᵀ·dC  (+ dB)    GradB,    GradBAccumulate
//
// The batched products do so for many matrices at once, with all leading dimensions
// but the last two counted as H: BatchedForward and so on. These dimensions may have
// any strides, so that the heads of [batch, position, head, width] are multiplied in
// place (tensor.Permute), and a matrix can be shared (tensor.Expand).
//
// The grouped products divide the rows of A, C and their gradients into groups, as the
// tokens of a mixture of experts are sorted by expert (op/dispatch), and have a matrix B
// for each group: GroupedForward and so on. Rows are neither copied nor padded, and a
// group may be empty.
//
// FP8Forward multiplies two matrices in FP8. Each has a scale for each row:
//
//	C[m,n] = (sum over k of A[m,k]·B[n,k]) · scaleA[m] · scaleB[n]
//
// Both have K in their rows, as tensor cores read FP8. tensor.FromFloat32 rounds values
// to FP8; the scales bring them into its range.
//
// Int8 multiplies matrices in i8 in the same layout, with sums in int32 that wrap: what
// quantised inference does. ZPK multiplies matrices of integers modulo a power of a prime.
// Both are exact, so that the order of a sum makes no difference.
//
// # How it is computed
//
// Hardware rounds sums of products in different ways; the model of a lowering says
// which one it uses. Under the model fma, which every device has and policy same
// requires, each element of the result is one chain of fused multiply-adds in
// binary32,
//
//	acc = fma(left, right, acc)
//
// with the summed index (K; N for dA, M for dB) ascending, and one rounding to
// storage at the end. Every product is exact before it is added. Tiles, blocks and
// threads keep each chain in order, so they do not change a bit. Storing f32 does
// not round, so a long product may be split along the summed index and accumulated,
// with the same bits.
//
// Scales multiply the sum in binary32, first that of the row, then that of the column,
// before the one rounding to storage: three roundings at most.
//
// Other models describe other hardware: mma(L,F) is a tensor core that adds L exact
// products at a time, aligned at the largest exponent and truncated toward zero to
// F bits, so its sums are biased toward zero; panels(m,P) divides the sum into P panels
// of model m, which are added in a tree (def.Accum). A lowering declares its model and must
// reproduce the model's bits. The error of the chain is at most K roundings of
// 2^-24 times the sum of the products' absolute values.
//
// # gemm.forward
//
//	C[m,n] = sum over k of A[m,k] * B[k,n]
//
//	operand  shape  dtypes        note
//	A        M,K    f16 bf16 f32
//	B        K,N    as A
//	C        M,N    as A, or f32  fully written
//
//	C1  M >= 0, N, K >= 1; leading dimensions count as rows, and the rows of every operand may be strided
//	C2  by the rule fma: acc = fma(left, right, acc), the summed index ascending from +0; one rounding to the result's format
//	C3  NaN, 0 times an infinity, or infinities of both signs in a sum give NaN; other infinities give that infinity
//	C4  zeros are multiplied like everything else
//	C5  the result may not overlap the operands; the operands may be the same tensor
//	C6  by the rule fma: a step whose exact sum is zero gives +0, or -0 if acc and the product are both -0; a sum that underflows to zero, in a step or at the store, keeps its sign
//	C7  subnormals are kept; a partial sum that overflows binary32 is an infinity from then on, and a result too large for its format is infinite
//
// # gemm.forward.accumulate
//
//	C[m,n] = sum over k of A[m,k] * B[k,n] + C[m,n]
//
//	operand  shape  dtypes        note
//	A        M,K    f16 bf16 f32
//	B        K,N    as A
//	C        M,N    as A, or f32  read, then written in place
//
//	C1  M >= 0, N, K >= 1; leading dimensions count as rows, and the rows of every operand may be strided
//	C2  by the rule fma: acc = fma(left, right, acc), the summed index ascending from the old result; one rounding to the result's format
//	C3  NaN, 0 times an infinity, or infinities of both signs in a sum give NaN; other infinities give that infinity
//	C4  zeros are multiplied like everything else
//	C5  the result may not overlap the operands; the operands may be the same tensor
//	C6  by the rule fma: a step whose exact sum is zero gives +0, or -0 if acc and the product are both -0; a sum that underflows to zero, in a step or at the store, keeps its sign
//	C7  subnormals are kept; a partial sum that overflows binary32 is an infinity from then on, and a result too large for its format is infinite
//
// # gemm.grad_a
//
//	dA[m,k] = sum over n of dC[m,n] * B[k,n]
//
//	operand  shape  dtypes         note
//	dC       M,N    f16 bf16 f32
//	B        K,N    as dC
//	dA       M,K    as dC, or f32  fully written
//
//	C1  M >= 0, N, K >= 1; leading dimensions count as rows, and the rows of every operand may be strided
//	C2  by the rule fma: acc = fma(left, right, acc), the summed index ascending from +0; one rounding to the result's format
//	C3  NaN, 0 times an infinity, or infinities of both signs in a sum give NaN; other infinities give that infinity
//	C4  zeros are multiplied like everything else
//	C5  the result may not overlap the operands; the operands may be the same tensor
//	C6  by the rule fma: a step whose exact sum is zero gives +0, or -0 if acc and the product are both -0; a sum that underflows to zero, in a step or at the store, keeps its sign
//	C7  subnormals are kept; a partial sum that overflows binary32 is an infinity from then on, and a result too large for its format is infinite
//
// # gemm.grad_a.accumulate
//
//	dA[m,k] = sum over n of dC[m,n] * B[k,n] + dA[m,k]
//
//	operand  shape  dtypes         note
//	dC       M,N    f16 bf16 f32
//	B        K,N    as dC
//	dA       M,K    as dC, or f32  read, then written in place
//
//	C1  M >= 0, N, K >= 1; leading dimensions count as rows, and the rows of every operand may be strided
//	C2  by the rule fma: acc = fma(left, right, acc), the summed index ascending from the old result; one rounding to the result's format
//	C3  NaN, 0 times an infinity, or infinities of both signs in a sum give NaN; other infinities give that infinity
//	C4  zeros are multiplied like everything else
//	C5  the result may not overlap the operands; the operands may be the same tensor
//	C6  by the rule fma: a step whose exact sum is zero gives +0, or -0 if acc and the product are both -0; a sum that underflows to zero, in a step or at the store, keeps its sign
//	C7  subnormals are kept; a partial sum that overflows binary32 is an infinity from then on, and a result too large for its format is infinite
//
// # gemm.grad_b
//
//	dB[k,n] = sum over m of A[m,k] * dC[m,n]
//
//	operand  shape  dtypes        note
//	A        M,K    f16 bf16 f32
//	dC       M,N    as A
//	dB       K,N    as A, or f32  fully written
//
//	C1  M >= 0, N, K >= 1; leading dimensions count as rows, and the rows of every operand may be strided
//	C2  by the rule fma: acc = fma(left, right, acc), the summed index ascending from +0; one rounding to the result's format
//	C3  NaN, 0 times an infinity, or infinities of both signs in a sum give NaN; other infinities give that infinity
//	C4  zeros are multiplied like everything else
//	C5  the result may not overlap the operands; the operands may be the same tensor
//	C6  by the rule fma: a step whose exact sum is zero gives +0, or -0 if acc and the product are both -0; a sum that underflows to zero, in a step or at the store, keeps its sign
//	C7  subnormals are kept; a partial sum that overflows binary32 is an infinity from then on, and a result too large for its format is infinite
//
// # gemm.grad_b.accumulate
//
//	dB[k,n] = sum over m of A[m,k] * dC[m,n] + dB[k,n]
//
//	operand  shape  dtypes        note
//	A        M,K    f16 bf16 f32
//	dC       M,N    as A
//	dB       K,N    as A, or f32  read, then written in place
//
//	C1  M >= 0, N, K >= 1; leading dimensions count as rows, and the rows of every operand may be strided
//	C2  by the rule fma: acc = fma(left, right, acc), the summed index ascending from the old result; one rounding to the result's format
//	C3  NaN, 0 times an infinity, or infinities of both signs in a sum give NaN; other infinities give that infinity
//	C4  zeros are multiplied like everything else
//	C5  the result may not overlap the operands; the operands may be the same tensor
//	C6  by the rule fma: a step whose exact sum is zero gives +0, or -0 if acc and the product are both -0; a sum that underflows to zero, in a step or at the store, keeps its sign
//	C7  subnormals are kept; a partial sum that overflows binary32 is an infinity from then on, and a result too large for its format is infinite
//
// # gemm.batched.forward
//
//	C[h,m,n] = sum over k of A[h,m,k] * B[h,k,n]
//
//	operand  shape  dtypes        note
//	A        H,M,K  f16 bf16 f32
//	B        H,K,N  as A
//	C        H,M,N  as A, or f32  fully written
//
//	C1  M >= 0, H, N, K >= 1; further leading dimensions count as H, and the rows of a matrix may be strided
//	C2  by the rule fma: acc = fma(left, right, acc), the summed index ascending from +0; one rounding to the result's format
//	C3  NaN, 0 times an infinity, or infinities of both signs in a sum give NaN; other infinities give that infinity
//	C4  zeros are multiplied like everything else
//	C5  the result may not overlap the operands; the operands may be the same tensor
//	C6  by the rule fma: a step whose exact sum is zero gives +0, or -0 if acc and the product are both -0; a sum that underflows to zero, in a step or at the store, keeps its sign
//	C7  subnormals are kept; a partial sum that overflows binary32 is an infinity from then on, and a result too large for its format is infinite
//	C8  leading dimensions may have any strides, at most 4 that do not fold; an operand may repeat matrices (stride 0), the result may not
//	C9  each matrix of the result has the bits of the product of the two matrices alone
//
// # gemm.batched.forward.accumulate
//
//	C[h,m,n] = sum over k of A[h,m,k] * B[h,k,n] + C[h,m,n]
//
//	operand  shape  dtypes        note
//	A        H,M,K  f16 bf16 f32
//	B        H,K,N  as A
//	C        H,M,N  as A, or f32  read, then written in place
//
//	C1  M >= 0, H, N, K >= 1; further leading dimensions count as H, and the rows of a matrix may be strided
//	C2  by the rule fma: acc = fma(left, right, acc), the summed index ascending from the old result; one rounding to the result's format
//	C3  NaN, 0 times an infinity, or infinities of both signs in a sum give NaN; other infinities give that infinity
//	C4  zeros are multiplied like everything else
//	C5  the result may not overlap the operands; the operands may be the same tensor
//	C6  by the rule fma: a step whose exact sum is zero gives +0, or -0 if acc and the product are both -0; a sum that underflows to zero, in a step or at the store, keeps its sign
//	C7  subnormals are kept; a partial sum that overflows binary32 is an infinity from then on, and a result too large for its format is infinite
//	C8  leading dimensions may have any strides, at most 4 that do not fold; an operand may repeat matrices (stride 0), the result may not
//	C9  each matrix of the result has the bits of the product of the two matrices alone
//
// # gemm.batched.grad_a
//
//	dA[h,m,k] = sum over n of dC[h,m,n] * B[h,k,n]
//
//	operand  shape  dtypes         note
//	dC       H,M,N  f16 bf16 f32
//	B        H,K,N  as dC
//	dA       H,M,K  as dC, or f32  fully written
//
//	C1  M >= 0, H, N, K >= 1; further leading dimensions count as H, and the rows of a matrix may be strided
//	C2  by the rule fma: acc = fma(left, right, acc), the summed index ascending from +0; one rounding to the result's format
//	C3  NaN, 0 times an infinity, or infinities of both signs in a sum give NaN; other infinities give that infinity
//	C4  zeros are multiplied like everything else
//	C5  the result may not overlap the operands; the operands may be the same tensor
//	C6  by the rule fma: a step whose exact sum is zero gives +0, or -0 if acc and the product are both -0; a sum that underflows to zero, in a step or at the store, keeps its sign
//	C7  subnormals are kept; a partial sum that overflows binary32 is an infinity from then on, and a result too large for its format is infinite
//	C8  leading dimensions may have any strides, at most 4 that do not fold; an operand may repeat matrices (stride 0), the result may not
//	C9  each matrix of the result has the bits of the product of the two matrices alone
//
// # gemm.batched.grad_a.accumulate
//
//	dA[h,m,k] = sum over n of dC[h,m,n] * B[h,k,n] + dA[h,m,k]
//
//	operand  shape  dtypes         note
//	dC       H,M,N  f16 bf16 f32
//	B        H,K,N  as dC
//	dA       H,M,K  as dC, or f32  read, then written in place
//
//	C1  M >= 0, H, N, K >= 1; further leading dimensions count as H, and the rows of a matrix may be strided
//	C2  by the rule fma: acc = fma(left, right, acc), the summed index ascending from the old result; one rounding to the result's format
//	C3  NaN, 0 times an infinity, or infinities of both signs in a sum give NaN; other infinities give that infinity
//	C4  zeros are multiplied like everything else
//	C5  the result may not overlap the operands; the operands may be the same tensor
//	C6  by the rule fma: a step whose exact sum is zero gives +0, or -0 if acc and the product are both -0; a sum that underflows to zero, in a step or at the store, keeps its sign
//	C7  subnormals are kept; a partial sum that overflows binary32 is an infinity from then on, and a result too large for its format is infinite
//	C8  leading dimensions may have any strides, at most 4 that do not fold; an operand may repeat matrices (stride 0), the result may not
//	C9  each matrix of the result has the bits of the product of the two matrices alone
//
// # gemm.batched.grad_b
//
//	dB[h,k,n] = sum over m of A[h,m,k] * dC[h,m,n]
//
//	operand  shape  dtypes        note
//	A        H,M,K  f16 bf16 f32
//	dC       H,M,N  as A
//	dB       H,K,N  as A, or f32  fully written
//
//	C1  M >= 0, H, N, K >= 1; further leading dimensions count as H, and the rows of a matrix may be strided
//	C2  by the rule fma: acc = fma(left, right, acc), the summed index ascending from +0; one rounding to the result's format
//	C3  NaN, 0 times an infinity, or infinities of both signs in a sum give NaN; other infinities give that infinity
//	C4  zeros are multiplied like everything else
//	C5  the result may not overlap the operands; the operands may be the same tensor
//	C6  by the rule fma: a step whose exact sum is zero gives +0, or -0 if acc and the product are both -0; a sum that underflows to zero, in a step or at the store, keeps its sign
//	C7  subnormals are kept; a partial sum that overflows binary32 is an infinity from then on, and a result too large for its format is infinite
//	C8  leading dimensions may have any strides, at most 4 that do not fold; an operand may repeat matrices (stride 0), the result may not
//	C9  each matrix of the result has the bits of the product of the two matrices alone
//
// # gemm.batched.grad_b.accumulate
//
//	dB[h,k,n] = sum over m of A[h,m,k] * dC[h,m,n] + dB[h,k,n]
//
//	operand  shape  dtypes        note
//	A        H,M,K  f16 bf16 f32
//	dC       H,M,N  as A
//	dB       H,K,N  as A, or f32  read, then written in place
//
//	C1  M >= 0, H, N, K >= 1; further leading dimensions count as H, and the rows of a matrix may be strided
//	C2  by the rule fma: acc = fma(left, right, acc), the summed index ascending from the old result; one rounding to the result's format
//	C3  NaN, 0 times an infinity, or infinities of both signs in a sum give NaN; other infinities give that infinity
//	C4  zeros are multiplied like everything else
//	C5  the result may not overlap the operands; the operands may be the same tensor
//	C6  by the rule fma: a step whose exact sum is zero gives +0, or -0 if acc and the product are both -0; a sum that underflows to zero, in a step or at the store, keeps its sign
//	C7  subnormals are kept; a partial sum that overflows binary32 is an infinity from then on, and a result too large for its format is infinite
//	C8  leading dimensions may have any strides, at most 4 that do not fold; an operand may repeat matrices (stride 0), the result may not
//	C9  each matrix of the result has the bits of the product of the two matrices alone
//
// # gemm.grouped.forward
//
//	C[m,n] = sum over k of A[m,k] * B[g,k,n],  offsets[g] <= m < offsets[g+1]
//
//	operand  shape  dtypes        note
//	A        M,K    f16 bf16 f32
//	B        G,K,N  as A
//	C        M,N    as A, or f32  fully written
//	offsets  G+1    i32           int32, ascending from 0 to M
//
//	C1  M >= 0, G, N, K >= 1; leading dimensions count as rows, and the rows of every matrix may be strided
//	C2  by the rule fma: acc = fma(left, right, acc), the summed index ascending from +0; one rounding to the result's format
//	C3  NaN, 0 times an infinity, or infinities of both signs in a sum give NaN; other infinities give that infinity
//	C4  zeros are multiplied like everything else
//	C5  the result may not overlap the operands; the operands may be the same tensor
//	C6  by the rule fma: a step whose exact sum is zero gives +0, or -0 if acc and the product are both -0; a sum that underflows to zero, in a step or at the store, keeps its sign
//	C7  subnormals are kept; a partial sum that overflows binary32 is an infinity from then on, and a result too large for its format is infinite
//	C8  group g has the rows from offsets[g] to offsets[g+1]-1, none where these are equal; offsets that do not ascend from 0 to M are refused, and nothing is written
//	C9  each row of the result has the bits of the product of that row alone with its group's matrix
//
// # gemm.grouped.grad_a
//
//	dA[m,k] = sum over n of dC[m,n] * B[g,k,n],  offsets[g] <= m < offsets[g+1]
//
//	operand  shape  dtypes         note
//	dC       M,N    f16 bf16 f32
//	B        G,K,N  as dC
//	dA       M,K    as dC, or f32  fully written
//	offsets  G+1    i32            int32, ascending from 0 to M
//
//	C1  M >= 0, G, N, K >= 1; leading dimensions count as rows, and the rows of every matrix may be strided
//	C2  by the rule fma: acc = fma(left, right, acc), the summed index ascending from +0; one rounding to the result's format
//	C3  NaN, 0 times an infinity, or infinities of both signs in a sum give NaN; other infinities give that infinity
//	C4  zeros are multiplied like everything else
//	C5  the result may not overlap the operands; the operands may be the same tensor
//	C6  by the rule fma: a step whose exact sum is zero gives +0, or -0 if acc and the product are both -0; a sum that underflows to zero, in a step or at the store, keeps its sign
//	C7  subnormals are kept; a partial sum that overflows binary32 is an infinity from then on, and a result too large for its format is infinite
//	C8  group g has the rows from offsets[g] to offsets[g+1]-1, none where these are equal; offsets that do not ascend from 0 to M are refused, and nothing is written
//	C9  each row of the result has the bits of the product of that row alone with its group's matrix
//
// # gemm.grouped.grad_b
//
//	dB[g,k,n] = sum over m of A[m,k] * dC[m,n],  offsets[g] <= m < offsets[g+1]
//
//	operand  shape  dtypes        note
//	A        M,K    f16 bf16 f32
//	dC       M,N    as A
//	dB       G,K,N  as A, or f32  fully written
//	offsets  G+1    i32           int32, ascending from 0 to M
//
//	C1  M >= 0, G, N, K >= 1; leading dimensions count as rows, and the rows of every matrix may be strided
//	C2  by the rule fma: acc = fma(left, right, acc), the summed index ascending from +0; one rounding to the result's format
//	C3  NaN, 0 times an infinity, or infinities of both signs in a sum give NaN; other infinities give that infinity
//	C4  zeros are multiplied like everything else
//	C5  the result may not overlap the operands; the operands may be the same tensor
//	C6  by the rule fma: a step whose exact sum is zero gives +0, or -0 if acc and the product are both -0; a sum that underflows to zero, in a step or at the store, keeps its sign
//	C7  subnormals are kept; a partial sum that overflows binary32 is an infinity from then on, and a result too large for its format is infinite
//	C8  group g has the rows from offsets[g] to offsets[g+1]-1, none where these are equal; offsets that do not ascend from 0 to M are refused, and nothing is written
//	C9  each matrix of the result has the bits of the product of its group's rows alone; that of a group without rows is +0
//
// # gemm.fp8.forward
//
//	C[m,n] = (sum over k of A[m,k] * B[n,k]) * scale_a[m] * scale_b[n]
//
//	operand  shape  dtypes        note
//	A        M,K    e4m3 e5m2
//	B        N,K    as A
//	C        M,N    f32 f16 bf16  fully written
//	scale_a  M      f32
//	scale_b  N      f32
//
//	C1  M >= 0, N, K >= 1; leading dimensions count as rows, and the rows of every operand may be strided
//	C2  by the rule fma: acc = fma(A, B, acc), the summed index ascending from +0; every product is exact
//	C3  acc is multiplied by scale_a[m], and that by scale_b[n], each product rounded to binary32; one rounding to the result's format
//	C4  NaN, 0 times an infinity, or infinities of both signs in a sum give NaN, and so does an infinite sum or scale times 0; other infinities give an infinity; e4m3 has no infinities
//	C5  zeros are multiplied like everything else; by the rule fma, a sum of zero is +0
//	C6  the result may not overlap the operands; the operands may be the same tensor
//	C7  subnormals are kept; a product with a scale that overflows binary32 is infinite, and so is a result too large for its format
//
// # gemm.int8
//
//	C[m,n] = (sum over k of A[m,k] * B[n,k] in Z/2^32) * scale_a[m] * scale_b[n]
//
//	operand  shape  dtypes        note
//	A        M,K    i8
//	B        N,K    as A
//	C        M,N    f32 f16 bf16  fully written
//	scale_a  M      f32
//	scale_b  N      f32
//
//	C1  M >= 0, N, K >= 1; leading dimensions count as rows, and the rows of every operand may be strided
//	C2  acc is the sum over k of A[m,k] * B[n,k] in Z/2^32, as an int32 that wraps; its order makes no difference
//	C3  acc is rounded once to binary32 and multiplied by scale_a[m], and that by scale_b[n], each product rounded to binary32; one rounding to the result's format
//	C4  a scale that is NaN gives NaN, and so does an infinite product times 0; otherwise an infinite scale gives an infinity
//	C5  acc = 0 becomes +0, and a negative scale makes it -0
//	C6  the result may not overlap the operands; the operands may be the same tensor
//	C7  subnormals are kept; a product with a scale that overflows binary32 is infinite, and so is a result too large for its format
//
// # gemm.zpk
//
//	C[m,n] = sum over k of A[m,k] * B[k,n] in Z/3^39
//
//	operand  shape  dtypes  note
//	A        M,K    i64
//	B        K,N    as A
//	C        M,N    i64     fully written
//
//	C1  M >= 0, N, K >= 1; leading dimensions count as rows, and the rows of every operand may be strided
//	C2  every int64 stands for its residue: -1 for p^k - 1; the sum is exact, and its order makes no difference
//	C3  the result is the residue from 0 to p^k - 1
//	C4  the result may not overlap the operands; the operands may be the same tensor
package gemm
