package data

import (
	"math/bits"

	"tokitai/num"
)

// Order returns element i of a permutation of the numbers below n, which follows from a seed and the
// number of an epoch.
//
// It is a Feistel network of eight rounds on two halves of equal width, together the fewest bits that
// hold n-1, taken again until the result is below n. A round adds word 0 of the Philox block with
// the seed as key and the counter (half, round, epoch low, epoch high) to the other half, bit by bit.
func Order(seed, epoch uint64, n, i int) int {
	width := uint(bits.Len64(uint64(n-1))+1) / 2
	mask := uint32(1)<<width - 1
	x := uint64(i)
	for {
		left, right := uint32(x>>width), uint32(x)&mask
		for round := range uint32(8) {
			word := num.Philox(seed, [4]uint32{right, round, uint32(epoch), uint32(epoch >> 32)})[0]
			left, right = right, left^word&mask
		}
		if x = uint64(left)<<width | uint64(right); x < uint64(n) {
			return int(x)
		}
	}
}

// Shift returns a number below n, which follows from a seed and the number of an epoch: word 0 of the Philox block with the
// seed as key and the counter (0, 8, epoch low, epoch high), times n, without the low 32 bits. n is at most 2^32. Order has no round 8.
func Shift(seed, epoch uint64, n int) int {
	word := num.Philox(seed, [4]uint32{0, 8, uint32(epoch), uint32(epoch >> 32)})[0]
	return int(uint64(word) * uint64(n) >> 32)
}
