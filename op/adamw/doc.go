// Package adamw implements the AdamW optimizer: Adam with decoupled weight decay.
//
//	m      = beta1*m + (1-beta1)*grad
//	v      = beta2*v + (1-beta2)*grad^2
//	weight = weight - lr*((m/bc1) / (sqrt(v/bc2) + eps) + weight_decay*weight)
//
// with bc1 = 1 - beta1^t and bc2 = 1 - beta2^t at step t. [Step] updates one tensor.
// An [Optimizer] updates a model: it owns m and v and counts the steps.
//
// # Three ways to store a weight
//
// A step changes a weight by about lr. The nearest neighbour of a weight of 1 is
// 2^-11 away in f16 and 2^-8 in bf16. With rounding to nearest, every update below
// half of that is lost, at every step, and training silently stagnates.
//
//	inplace     the weight is rounded to its own format. Right for f32; with 16 bits
//	            it stagnates, and is for comparison, not for training.
//	master      the weight is f32 and keeps every update; a 16-bit copy for the model
//	            is written in the same pass. Takes 4 more bytes per weight.
//	stochastic  the weight has 16 bits and is rounded up or down at random, with
//	            probabilities that make it right on average: small updates count, at
//	            the price of noise of one unit in the last place per step. The random
//	            words are Philox 4x32-10 with the seed as key and (element, tensor, t)
//	            as counter: the same on every device, and repeatable.
//
// The number of a tensor is its position in the list given to an [Optimizer];
// adamw.step_all numbers its tensors from 0 in the sorted order of their names. So
// another list, or a tensor that is added or renamed, gives other random words in
// mode stochastic. The other modes are not affected.
//
// # How it is computed
//
// In binary32, each operation rounded once:
//
//	m' = beta1*m + (1-beta1)*grad
//	v' = beta2*v + ((1-beta2)*grad)*grad
//	d  = sqrt(v') * (1/sqrt(bc2)) + eps
//	w' = w - ((lr/bc1) * (m'/d) + (lr*weight_decay)*w)
//
// Values that depend only on the step are computed in binary64 on the host and
// rounded once: 1-beta (computed from a beta already rounded to binary32, 0.001
// would have a relative error of 1.3e-5), lr/bc1, 1/sqrt(bc2) and lr*weight_decay. bc
// is computed with double-double powers, since 1 - beta^t cancels while t is small.
//
// # adamw.step
//
//	m      = beta1*m + (1-beta1)*grad
//	v      = beta2*v + (1-beta2)*grad^2
//	weight = weight - lr*((m/bc1) / (sqrt(v/bc2) + eps) + weight_decay*weight)
//	bc1    = 1 - beta1^t,  bc2 = 1 - beta2^t
//
//	operand  shape  dtypes        note
//	weight   any    f16 bf16 f32  read, then written in place
//	m        any    f32           read, then written in place
//	v        any    f32           read, then written in place
//	grad     any    f16 bf16 f32
//
//	C1  any shape; rows may be strided
//	C2  lr, eps and weight_decay are finite and at least 0, beta1 and beta2 in [0, 1), t in 1..2^31-1; eps, lr/bc1 and lr*weight_decay are finite as binary32
//	C3  a NaN in weight, m, v or grad makes the new weight NaN; one in m makes the new m NaN, one in v the new v, one in grad both
//	C4  m and v are f32 in every mode
//	C5  an update smaller than half the distance to the weight's neighbour is lost; with 16 bits this happens at every step
//	C6  an infinite weight or grad makes the new weight NaN, an infinite m makes it and the new m infinite or NaN
//	C7  if the new v is +Inf and the new m finite, the step applies the decay alone; the new v is +Inf if v is and beta2 > 0 as binary32, or if ((1-beta2)*grad)*grad overflows; a new v below 0 makes the new weight NaN
//	C8  eps = 0 as binary32 and a new v of 0 divide by zero: the new weight is infinite or NaN
//	C9  subnormals are kept; a new weight too large for its format is infinite
//	C10 if grad, m and v are +0, weight_decay is 0 and eps > 0 as binary32, a finite weight is unchanged
//	C11 weight, m, v and grad may not overlap
//
// # adamw.step.master
//
//	m      = beta1*m + (1-beta1)*grad
//	v      = beta2*v + (1-beta2)*grad^2
//	weight = weight - lr*((m/bc1) / (sqrt(v/bc2) + eps) + weight_decay*weight)
//	bc1    = 1 - beta1^t,  bc2 = 1 - beta2^t
//
//	operand  shape  dtypes        note
//	weight   any    f32           read, then written in place
//	m        any    f32           read, then written in place
//	v        any    f32           read, then written in place
//	grad     any    f16 bf16 f32
//	copy     any    f16 bf16      fully written; may be grad itself
//
//	C1  any shape; rows may be strided
//	C2  lr, eps and weight_decay are finite and at least 0, beta1 and beta2 in [0, 1), t in 1..2^31-1; eps, lr/bc1 and lr*weight_decay are finite as binary32
//	C3  a NaN in weight, m, v or grad makes the new weight NaN; one in m makes the new m NaN, one in v the new v, one in grad both
//	C4  m and v are f32 in every mode
//	C5  copy is the new weight, rounded once to 16 bits; the next step starts from weight, so no update is lost to it
//	C6  an infinite weight or grad makes the new weight NaN, an infinite m makes it and the new m infinite or NaN
//	C7  if the new v is +Inf and the new m finite, the step applies the decay alone; the new v is +Inf if v is and beta2 > 0 as binary32, or if ((1-beta2)*grad)*grad overflows; a new v below 0 makes the new weight NaN
//	C8  eps = 0 as binary32 and a new v of 0 divide by zero: the new weight is infinite or NaN
//	C9  subnormals are kept; a new weight too large for its format is infinite
//	C10 if grad, m and v are +0, weight_decay is 0 and eps > 0 as binary32, a finite weight is unchanged
//	C11 copy may be grad itself; any other overlap of weight, m, v, grad and copy is refused
//
// # adamw.step.stochastic
//
//	m      = beta1*m + (1-beta1)*grad
//	v      = beta2*v + (1-beta2)*grad^2
//	weight = weight - lr*((m/bc1) / (sqrt(v/bc2) + eps) + weight_decay*weight)
//	bc1    = 1 - beta1^t,  bc2 = 1 - beta2^t
//
//	operand  shape  dtypes        note
//	weight   any    f16 bf16      read, then written in place
//	m        any    f32           read, then written in place
//	v        any    f32           read, then written in place
//	grad     any    f16 bf16 f32
//
//	C1  any shape; rows may be strided
//	C2  lr, eps and weight_decay are finite and at least 0, beta1 and beta2 in [0, 1), t in 1..2^31-1; eps, lr/bc1 and lr*weight_decay are finite as binary32; tensor in 0..2^31-1
//	C3  a NaN in weight, m, v or grad makes the new weight NaN; one in m makes the new m NaN, one in v the new v, one in grad both
//	C4  m and v are f32 in every mode
//	C5  the new weight is rounded to one of its two neighbours, with the probabilities that make it right on average (to 2^-32 of their distance), by Philox word (seed, tensor, t, element); beyond the largest finite value it is infinite from half an ulp on, and before that the largest finite value
//	C6  an infinite weight or grad makes the new weight NaN, an infinite m makes it and the new m infinite or NaN
//	C7  if the new v is +Inf and the new m finite, the step applies the decay alone; the new v is +Inf if v is and beta2 > 0 as binary32, or if ((1-beta2)*grad)*grad overflows; a new v below 0 makes the new weight NaN
//	C8  eps = 0 as binary32 and a new v of 0 divide by zero: the new weight is infinite or NaN
//	C9  subnormals are kept; a new weight too large for its format is infinite
//	C10 if grad, m and v are +0, weight_decay is 0 and eps > 0 as binary32, a finite weight is unchanged
//	C11 weight, m, v and grad may not overlap
package adamw
