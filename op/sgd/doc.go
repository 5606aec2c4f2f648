// Package sgd implements stochastic gradient descent with momentum, as torch.optim.SGD has it.
//
//	g      = grad + weight_decay*weight
//	buffer = momentum*buffer + (1-dampening)*g
//	weight = weight - lr*buffer, or with Nesterov's momentum weight - lr*(g + momentum*buffer)
//
// [Step] updates one tensor in place. The buffer is zero before the first step. PyTorch stores g
// itself there in the first step: pass a dampening of 0 then. With a momentum of 0 the buffer is
// (1-dampening)*g. PyTorch allows Nesterov's momentum only without dampening.
//
// # How it is computed
//
// In binary32, each operation rounded once, in the order of the formulas; the parameters are
// rounded once to binary32. The weight is rounded to its own format, or is f32 with a copy in 16
// bits for the model: in 16 bits alone, updates below half a unit in the last place are lost.
//
// # sgd.step
//
//	g      = grad + weight_decay*weight
//	buffer = momentum*buffer + (1-dampening)*g
//	weight = weight - lr*buffer
//
//	operand  shape  dtypes        note
//	weight   any    f16 bf16 f32  read, then written in place
//	buffer   any    f32           read, then written in place
//	grad     any    f16 bf16 f32
//
//	C1  any shape; rows may be strided
//	C2  lr, momentum and weight_decay are finite and at least 0, dampening is finite
//	C3  a NaN in weight, buffer or grad makes the new weight and the new buffer NaN
//	C4  buffer is f32 whatever the weight is
//	C5  an update smaller than half the distance to the weight's neighbour is lost; with 16 bits this happens at every step
//	C6  an infinite weight, buffer or grad makes the new weight and the new buffer infinite or NaN; so does 0 times an infinity, where a parameter is 0
//	C7  subnormals are kept; results too large for their formats are infinite
//	C8  if grad and buffer are +0 and weight_decay is 0, a finite weight is unchanged
//	C9  weight, buffer and grad may not overlap
//
// # sgd.step.master
//
//	g      = grad + weight_decay*weight
//	buffer = momentum*buffer + (1-dampening)*g
//	weight = weight - lr*buffer
//
//	operand  shape  dtypes        note
//	weight   any    f32           read, then written in place
//	buffer   any    f32           read, then written in place
//	grad     any    f16 bf16 f32
//	copy     any    f16 bf16      fully written; may be grad itself
//
//	C1  any shape; rows may be strided
//	C2  lr, momentum and weight_decay are finite and at least 0, dampening is finite
//	C3  a NaN in weight, buffer or grad makes the new weight and the new buffer NaN
//	C4  buffer is f32 whatever the weight is
//	C5  copy is the new weight, rounded once to 16 bits; the next step starts from weight, so no update is lost to it
//	C6  an infinite weight, buffer or grad makes the new weight and the new buffer infinite or NaN; so does 0 times an infinity, where a parameter is 0
//	C7  subnormals are kept; results too large for their formats are infinite
//	C8  if grad and buffer are +0 and weight_decay is 0, a finite weight is unchanged
//	C9  copy may be grad itself; any other overlap of weight, buffer, grad and copy is refused
//
// # sgd.nesterov
//
//	g      = grad + weight_decay*weight
//	buffer = momentum*buffer + (1-dampening)*g
//	weight = weight - lr*(g + momentum*buffer)
//
//	operand  shape  dtypes        note
//	weight   any    f16 bf16 f32  read, then written in place
//	buffer   any    f32           read, then written in place
//	grad     any    f16 bf16 f32
//
//	C1  any shape; rows may be strided
//	C2  lr, momentum and weight_decay are finite and at least 0, dampening is finite
//	C3  a NaN in weight, buffer or grad makes the new weight and the new buffer NaN
//	C4  buffer is f32 whatever the weight is
//	C5  an update smaller than half the distance to the weight's neighbour is lost; with 16 bits this happens at every step
//	C6  an infinite weight, buffer or grad makes the new weight and the new buffer infinite or NaN; so does 0 times an infinity, where a parameter is 0
//	C7  subnormals are kept; results too large for their formats are infinite
//	C8  if grad and buffer are +0 and weight_decay is 0, a finite weight is unchanged
//	C9  weight, buffer and grad may not overlap
//
// # sgd.nesterov.master
//
//	g      = grad + weight_decay*weight
//	buffer = momentum*buffer + (1-dampening)*g
//	weight = weight - lr*(g + momentum*buffer)
//
//	operand  shape  dtypes        note
//	weight   any    f32           read, then written in place
//	buffer   any    f32           read, then written in place
//	grad     any    f16 bf16 f32
//	copy     any    f16 bf16      fully written; may be grad itself
//
//	C1  any shape; rows may be strided
//	C2  lr, momentum and weight_decay are finite and at least 0, dampening is finite
//	C3  a NaN in weight, buffer or grad makes the new weight and the new buffer NaN
//	C4  buffer is f32 whatever the weight is
//	C5  copy is the new weight, rounded once to 16 bits; the next step starts from weight, so no update is lost to it
//	C6  an infinite weight, buffer or grad makes the new weight and the new buffer infinite or NaN; so does 0 times an infinity, where a parameter is 0
//	C7  subnormals are kept; results too large for their formats are infinite
//	C8  if grad and buffer are +0 and weight_decay is 0, a finite weight is unchanged
//	C9  copy may be grad itself; any other overlap of weight, buffer, grad and copy is refused
package sgd
