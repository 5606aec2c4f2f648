// Package dropout drops elements at random and scales the others, forward and backward.
//
//	y = x * scale where the element is kept, else +0
//
// # How it is computed
//
// Each element has a random word, which follows from a seed and the element's number alone: nothing
// is saved between forward and backward, which draws the same words again, and neither the dtype, the
// number of threads, the device nor the strides of a tensor change them. An element is kept if its
// word, as an unsigned number, is at least the threshold. Of the 2^32 words, keep*2^32 are kept,
// rounded to nearest even, and the scale is 2^32 over that number, rounded once to binary32.
//
// A tensor that is divided among machines drops what the whole would drop, if each part passes the
// number of its first element. The parts of a tensor must be whole ranges of elements, such as rows.
//
// # dropout.forward
//
//	y = x * scale where the element is kept, else +0
//	kept: word >= threshold, as unsigned numbers, and scale != 0
//
//	operand  shape  dtypes        note
//	x        any    f16 bf16 f32
//	y        any    as x          fully written; may be x itself
//
//	C1  any shape; rows may be strided
//	C2  the element with number e, counted row after row from first on, has word e mod 4 of Philox 4x32-10 with the seed as key and the counter (e/4 low, e/4 high, tensor, step); the words do not depend on the dtype, the device or the values of x
//	C3  keep = 1 keeps every element as it is; keep = 0 gives +0 everywhere
//	C4  an element that is dropped gives +0, also for NaN and infinities; one that is kept gives NaN for NaN and infinities for infinities, with their signs, as zeros keep theirs
//	C5  a result too large for its format is infinite; subnormals are kept
//	C6  y may be x itself; any other overlap is refused
//
// # dropout.backward
//
//	dx = dy * scale where forward kept the element, else +0
//
//	operand  shape  dtypes        note
//	dy       any    f16 bf16 f32
//	dx       any    as dy         fully written; may be dy itself
//
//	C1  any shape; rows may be strided
//	C2  the element with number e, counted row after row from first on, has word e mod 4 of Philox 4x32-10 with the seed as key and the counter (e/4 low, e/4 high, tensor, step); the words do not depend on the dtype, the device or the values of dy
//	C3  keep = 1 keeps every element as it is; keep = 0 gives +0 everywhere
//	C4  an element that is dropped gives +0, also for NaN and infinities; one that is kept gives NaN for NaN and infinities for infinities, with their signs, as zeros keep theirs
//	C5  a result too large for its format is infinite; subnormals are kept
//	C6  dx may be dy itself; any other overlap is refused
package dropout
