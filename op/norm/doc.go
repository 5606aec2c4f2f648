// Package norm measures all gradients of a model at once: the sum of their
// squares, their norm, and the factor that holds it at a limit.
//
//	total  = sum x^2 over every element of every tensor
//	norm   = sqrt(total)
//	factor = norm > max_norm ? max_norm/norm : 1
//
// # How it is computed
//
// In binary32. Each tensor is cut into flat rows of 65,536 elements, the last one
// shorter; each flat row is summed like the rows of a matrix, in lanes and an
// adjacent tree (num.RowLanes); the sums form a row that is summed likewise, and so
// do the sums of several tensors, in the order given. The shape of a tensor, its
// row stride, the device and the number of threads do not matter; its size does,
// and so does the order of the tensors. Sums of squares lose nothing to
// cancellation, and an error grows with the number of terms in one lane and the
// height of the trees, some 60 roundings of 2^-24 at most up to 2^32 elements.
//
// Squares are not scaled: in bf16 and f32 an element of 2^64 or more makes the
// norm infinite, and the factor 0. Clipping with that factor is left to the
// caller, who may fold it into a learning rate or a loss scale.
//
// # norm.square_sum
//
// # norm.total
//
// # norm.clip
package norm
