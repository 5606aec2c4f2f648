// Package crossentropy computes the cross-entropy loss and the gradient of the
// logits in one operation.
//
//	loss[r]      = log sum exp(logits[r,c] - max) - (logits[r,label] - max)
//	dlogits[r,c] = scale * (softmax(logits)[r,c] - (c == label))
//
// # How it is computed
//
// Arithmetic is binary32. The row's maximum is subtracted first, so exponentials do
// not overflow and the largest is exactly 1; the sum is at least 1 and its
// logarithm at least 0. The label's distance to the maximum is added to that
// logarithm: both are non-negative, whereas (max + log sum) - logits[label] would
// cancel. The probabilities are those of softmax.forward before they are stored, e
// times one reciprocal of the sum per row, so the gradient is rounded only once.
//
// A loss near 0 has an absolute accuracy of 2^-24, not a relative one: the sum is
// then close to 1, and rounded there.
//
// The gradient may replace the logits. The loss is f32 for every format of logits.
// For a mean over R rows set scale = 1/R. Rows with the label ignore are ignored.
//
// # crossentropy
//
//	loss[r]      = log sum exp(logits[r,c] - max) - (logits[r,label] - max)
//	dlogits[r,c] = scale * (softmax(logits)[r,c] - (c == label))
//
//	operand  shape  dtypes        note
//	logits   R,C    f16 bf16 f32
//	label    R      i32           int32 in 0..C-1 or ignore
//	loss     R      f32           fully written
//	dlogits  R,C    as logits     fully written; may be logits itself
//
//	C1  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided
//	C2  a row whose label is ignore has loss +0 and dlogits +0, whatever its logits are
//	C3  any other label outside 0..C-1 is refused, and nothing is written; with bad_index=skip its row is ignored
//	C4  a NaN or +Inf in a row that is not ignored makes its loss and dlogits NaN
//	C5  -Inf gives dlogits 0; as the label's logit it gives loss +Inf and dlogits -scale; a row of -Inf alone gives NaN
//	C6  scale is finite, also as binary32
//	C7  loss is at least +0, and +Inf for finite logits only where logits[r,label] - max overflows
//	C8  dlogits is between -|scale| and |scale|; a value too large for its format is infinite, and subnormals are kept
//	C9  +0 and -0 are the same logit
//	C10 dlogits may be logits itself; any other overlap is refused
package crossentropy
