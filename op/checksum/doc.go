// Package checksum computes a digest of a tensor where the tensor is: 64 bits that tell whether two
// tensors have the same bits in the same order.
//
// Each element's pattern is mixed with the element's number, and the results are added up, so that
// neither threads nor devices need an order, and parts of a tensor can be added up to the whole. The
// digest reads the tensor once, at about the speed of a copy.
//
// # What it finds
//
// A change of one element always changes the digest: for a given number the mixing is a bijection of
// the patterns, of which word0 is the sum. Other changes, such as elements that are exchanged, rows
// that are shifted or signs that flip in pairs, go unnoticed as rarely as numbers drawn at random are
// equal, about once in 2^64. This holds for accidents. Somebody who wants to deceive can find two tensors
// of the same digest: it is no cryptographic hash. Neither the shape nor the dtype is part of it.
//
// # checksum.forward
//
//	word0 = sum of the low words of h * m, modulo 2^32; word1 = sum of the high words
//	h = b ^ b >> 15,  b = (a ^ a >> 16) * 0x85ebca6b modulo 2^32,  a = pattern ^ key
//	key = low * 0x9e3779b1 + 0x27d4eb2f,  m = (key + high * 0xc2b2ae35) | 1, modulo 2^32
//	low and high: the words of the element's number, counted row after row from first on
//
//	operand  shape  dtypes        note
//	x        any    f16 bf16 f32
//	word0    one    i32           fully written
//	word1    one    i32           fully written
//
//	C1  any shape; rows may be strided: the digest depends on the elements' order alone
//	C2  the pattern is that of the stored element: equal numbers with other bits differ, such as -0 and +0, and so do all patterns that stand for no number
//	C3  a change of one element changes word0
//	C4  the digests of parts add up to that of the whole, word by word modulo 2^32, if each part counts from its first element's number
//	C5  it is no cryptographic hash: who knows it can find other tensors with the same digest
//	C6  word0 and word1 may not overlap x
//
// # checksum.int32
//
//	word0 = sum of the low words of h * m, modulo 2^32; word1 = sum of the high words
//	h = b ^ b >> 15,  b = (a ^ a >> 16) * 0x85ebca6b modulo 2^32,  a = pattern ^ key
//	key = low * 0x9e3779b1 + 0x27d4eb2f,  m = (key + high * 0xc2b2ae35) | 1, modulo 2^32
//	low and high: the words of the element's number, counted row after row from first on
//
//	operand  shape  dtypes  note
//	x        any    i32
//	word0    one    i32     fully written
//	word1    one    i32     fully written
//
//	C1  any shape; rows may be strided: the digest depends on the elements' order alone
//	C2  the pattern is that of the stored element: equal numbers with other bits differ, such as -0 and +0, and so do all patterns that stand for no number
//	C3  a change of one element changes word0
//	C4  the digests of parts add up to that of the whole, word by word modulo 2^32, if each part counts from its first element's number
//	C5  it is no cryptographic hash: who knows it can find other tensors with the same digest
//	C6  word0 and word1 may not overlap x
package checksum
