package data

import (
	"math"
	"math/bits"

	"tokitai/num"
)

// letters is the number of letters of the grammar: a to p.
const letters = 16

// Grammar returns n letters of a language of known entropy. The letter at place t follows from the one
// two places before it: its number is 5 times that one's, plus 1, plus a random 0, 1, 2 or 3, modulo 16.
// These have the probabilities 1/2, 1/4, 1/8 and 1/8. So all letters are equally frequent, one letter
// says nothing about the next, and one that knows the last but one lacks 1.75 bits.
func Grammar(seed uint64, n int) []byte {
	text := make([]byte, n)
	for t := range text {
		word := num.Philox(seed, [4]uint32{uint32(t), uint32(t >> 32), 0, 0})[0]
		x := word >> 28 // the first two are any
		if t > 1 {
			step := min(3, uint32(bits.TrailingZeros32(word|8)))
			x = (5*uint32(text[t-2]-'a') + 1 + step) % letters
		}
		text[t] = byte('a' + x)
	}
	return text
}

// GrammarLoss returns the least mean loss, in nats, that a model can have on blocks of the grammar: the
// first label of a block follows from a letter in front of it.
func GrammarLoss(block int) float64 {
	return (math.Log2(letters) + 1.75*float64(block-1)) / float64(block) * math.Ln2
}
