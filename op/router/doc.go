// Package router chooses the experts of tokens in a mixture of experts, and computes their weights.
//
// # How it is computed
//
// A row has the logits of one token, a column belongs to an expert. Scores are the softmax or the sigmoid of
// the logits, in binary32. The k experts with the largest score + bias are chosen; the bias balances
// their load and is no part of the weights. Equal ones are chosen by the lower expert, and a NaN comes first, so that
// every row has a choice. Slots are in ascending order of experts:
//
//	keep   = rank(score + bias) < k
//	total  = the rowsum of the chosen scores, the others +0
//	weight = packed(keep, score * (scale / total))
//
// The gradient chooses again, from the same inputs and with the same bits. A token reads its own row alone.
//
// Two losses and one rule balance the experts. The balance loss of a token is C times the mean load of its probabilities, where the
// load of an expert is its count over the sum of counts, so that its mean over the tokens is C * sum of f*P (arXiv:2101.03961). The z-loss is the square
// of the logarithm that normalises the softmax (arXiv:2202.08906). Without a loss, biases move by a constant (arXiv:2408.15664). Counts are those of a
// dispatch; they are integers, and no order of tokens changes them.
//
// Weights that are scores as they are, such as the two largest probabilities, are those of Params{K: 2, Scale: 1}.
//
// # router.softmax.forward
//
//	score[t,e] = softmax(logits[t,:])[e]
//	chosen: the k experts of a token with the largest score[t,e] + bias[e], of equal ones the lower
//	weight = scale * score / (normalise ? sum of the chosen scores : 1), of the chosen experts in ascending order
//
//	operand  shape  dtypes        note
//	logits   R,C    f16 bf16 f32
//	bias     C      f32
//	weight   R,K    f32           fully written
//	expert   R,K    i32           fully written
//
//	C1  R >= 0, C, K >= 1; leading dimensions count as rows, and rows may be strided
//	C2  the slots of a row are its chosen experts in ascending order; where k < K the rest have expert -1 and weight +0, where k > K only the first K are stored, and where k >= C all experts are chosen
//	C3  bias chooses, and does not change a weight; a NaN score or bias comes before every number
//	C4  a NaN or +Inf among the logits of a token, or nothing but -Inf, makes all its scores NaN: it gets the experts 0 to k-1 and NaN weights, unless bias has a NaN; no other token is affected
//	C5  a logit of -Inf has score 0; normalised weights are NaN where all chosen scores are 0
//	C6  normalised weights of a finite row are in [0, scale], up to rounding; a weight or a quotient of scale too large for binary32 is infinite, and subnormals are kept
//
// # router.softmax.backward
//
//	dlogits = the derivative of sum(dweight * weight) by the logits of router.softmax.forward
//	the chosen experts, their slots and weights are those of the forward operation; bias has no gradient
//
//	operand  shape  dtypes        note
//	logits   R,C    f16 bf16 f32
//	bias     C      f32
//	dweight  R,K    f32
//	dlogits  R,C    as logits     fully written; may be logits itself
//
//	C1  R >= 0, C, K >= 1; leading dimensions count as rows, and rows may be strided
//	C2  a chosen expert without a slot has the gradient of weight 0
//	C3  a NaN or +Inf among the logits of a token makes its gradients NaN, or 0 where weights are normalised and an expert is not chosen; no other token is affected
//	C4  where weights are normalised, an expert that is not chosen has gradient 0
//	C5  a result too large for its format is infinite; subnormals are kept
//	C6  dlogits may be logits itself; any other overlap is refused
//
// # router.sigmoid.forward
//
//	score[t,e] = sigmoid(logits[t,e])
//	chosen: the k experts of a token with the largest score[t,e] + bias[e], of equal ones the lower
//	weight = scale * score / (normalise ? sum of the chosen scores : 1), of the chosen experts in ascending order
//
//	operand  shape  dtypes        note
//	logits   R,C    f16 bf16 f32
//	bias     C      f32
//	weight   R,K    f32           fully written
//	expert   R,K    i32           fully written
//
//	C1  R >= 0, C, K >= 1; leading dimensions count as rows, and rows may be strided
//	C2  the slots of a row are its chosen experts in ascending order; where k < K the rest have expert -1 and weight +0, where k > K only the first K are stored, and where k >= C all experts are chosen
//	C3  bias chooses, and does not change a weight; a NaN score or bias comes before every number
//	C4  a NaN logit has a NaN score, so that its expert is chosen first, with a NaN weight, and makes all weights of its token NaN if they are normalised; no other token is affected
//	C5  a logit of +Inf has score 1, one of -Inf or below -104 score 0; normalised weights are NaN where all chosen scores are 0
//	C6  normalised weights are in [0, scale], up to rounding; a weight or a quotient of scale too large for binary32 is infinite, and subnormals are kept
//
// # router.sigmoid.backward
//
//	dlogits = the derivative of sum(dweight * weight) by the logits of router.sigmoid.forward
//	the chosen experts, their slots and weights are those of the forward operation; bias has no gradient
//
//	operand  shape  dtypes        note
//	logits   R,C    f16 bf16 f32
//	bias     C      f32
//	dweight  R,K    f32
//	dlogits  R,C    as logits     fully written; may be logits itself
//
//	C1  R >= 0, C, K >= 1; leading dimensions count as rows, and rows may be strided
//	C2  a chosen expert without a slot has the gradient of weight 0
//	C3  a NaN logit makes its gradient NaN, and where weights are normalised those of all chosen experts of its token; no other token is affected
//	C4  an expert that is not chosen has gradient 0
//	C5  a result too large for its format is infinite; subnormals are kept
//	C6  dlogits may be logits itself; any other overlap is refused
//
// # router.balance.forward
//
//	balance[t] = C * sum over e of f[e] * softmax(logits[t,:])[e], f = count / choices
//	z[t] = ln(sum over e of exp(logits[t,e]))^2
//
//	operand  shape  dtypes        note
//	logits   R,C    f16 bf16 f32
//	count    C      i32
//	balance  R      f32           fully written
//	z        R      f32           fully written
//
//	C1  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided
//	C2  the mean of balance over the tokens is C * sum over e of f[e] * P[e], P the mean probability of an expert; it is 1 where all counts are equal and add up to choices
//	C3  a NaN or +Inf among the logits of a token, or nothing but -Inf, makes its balance and its z NaN; no other token is affected
//	C4  a logit of -Inf has probability 0
//	C5  a result too large for binary32 is infinite; subnormals are kept
//
// # router.balance.backward
//
//	dlogits = the derivative of sum(dbalance * balance) + sum(dz * z) by the logits of router.balance.forward
//	counts have no gradient
//
//	operand   shape  dtypes        note
//	logits    R,C    f16 bf16 f32
//	count     C      i32
//	dbalance  R      f32
//	dz        R      f32
//	dlogits   R,C    as logits     fully written; may be logits itself
//
//	C1  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided
//	C2  a NaN or +Inf among the logits of a token, or nothing but -Inf, makes its gradients NaN; no other token is affected
//	C3  a logit of -Inf has gradient 0, if dbalance and dz are finite
//	C4  a result too large for its format is infinite; subnormals are kept
//	C5  dlogits may be logits itself; any other overlap is refused
//
// # router.bias.step
//
//	bias += rate * sign(mean - count), mean = the sum of a row's counts / C
//
//	operand  shape  dtypes  note
//	bias     R,C    f32     read, then written in place
//	count    R,C    i32
//
//	C1  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided; a row has the experts of one layer
//	C2  counts are compared as integers: the bias of an expert with exactly the mean count keeps its bits; counts are at least 0 and add up to less than 2^31
//	C3  a NaN bias gives NaN, and infinities stay
//	C4  a bias too large for binary32 is infinite; subnormals are kept
package router
