// Package sample draws tokens from rows of logits.
//
// # How it is computed
//
// The token with the largest z + noise has the probability of softmax(z) if the noise has the Gumbel
// distribution (E. J. Gumbel 1954; the Gumbel-max trick). So a draw is an arg-max, and neither a sum nor a
// division by one decides it. The noise of a token follows from the seed, the row's sequence and position, and the
// token itself: a row gives the same token alone and in any batch, at any place in it, on any
// device.
//
// The filters apply one after another: temperature, top_k, top_p, min_p. top_k and top_p keep the first tokens in
// the order of logits, larger ones first, and equal ones by their number. top_p adds up integers, the
// masses rint(2^30*exp(z)), so that the order of additions cannot matter. The noise has 32 random bits where it is
// large, so that a token of probability 2^-30 is still drawn about as often as it should be.
//
// # sample
//
//	z = (logits - max) / temperature; noise = -ln(-ln(1 - v)), v = (word + 1/2) / 2^32, at most 1 - 2^-24
//	kept: the top_k largest logits; of these the fewest largest with at least the share top_p of the mass rint(2^30*exp(z)); of these exp(z) >= min_p
//	token = the kept one with the largest z + noise, or the one with the largest logit at temperature 0
//	logprob = logits[token] - ln(sum of exp(logits)), of the logits as they are
//
//	operand      shape  dtypes        note
//	logits       R,C    f16 bf16 f32
//	sequence     R      i32
//	position     R      i32
//	temperature  R      f32
//	top_k        R      i32
//	top_p        R      f32
//	min_p        R      f32
//	token        R      i32           fully written
//	logprob      R      f32           fully written
//
//	C1  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided
//	C2  column c has word c mod 4 of Philox 4x32-10 with the seed as key and the counter (c/4, sequence, position, use); a row depends on its own inputs alone, and of equal values the lower token counts everywhere
//	C3  top_k below 1 keeps all tokens, as one of at least C does; top_p of at least 1 keeps what top_k keeps, also tokens without mass, and one of 0 or below the largest logit alone; min_p of 0 or below keeps all, and one above 1 counts as 1
//	C4  temperature 0 or below takes the largest logit; one so small that quotients overflow takes one of the largest, by noise
//	C5  logprob depends on neither temperature nor filters
//	C6  a NaN temperature, top_p or min_p counts as 0
//	C7  a temperature of +Inf counts as the largest finite number: all tokens are equally likely whose logits are within 2^96
//	C8  a logit of -Inf is taken only where all logits of the row are, and has no mass
//	C9  where the largest logit is NaN or infinite, the token is the first NaN, or the first of the largest; logprob is NaN; no other row is affected
package sample
