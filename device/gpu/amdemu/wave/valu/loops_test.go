package valu

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestWordLoops compares the loops that the processor has with those in Go, in waves of both
// sizes and lengths that no vector register divides, with the result apart and in the place of
// each operand.
func TestWordLoops(t *testing.T) {
	loops := []struct {
		name        string
		fast, plain func(d, a, b, c []uint32)
	}{
		{"fma", fmaWords, fmaWordsGo},
		{"add", func(d, a, b, _ []uint32) { addWords(d, a, b, 0) }, func(d, a, b, _ []uint32) { addWordsGo(d, a, b, 0) }},
		{"sub", func(d, a, b, _ []uint32) { addWords(d, a, b, 1<<31) }, func(d, a, b, _ []uint32) { addWordsGo(d, a, b, 1<<31) }},
		{"mul", func(d, a, b, _ []uint32) { mulWords(d, a, b) }, func(d, a, b, _ []uint32) { mulWordsGo(d, a, b) }},
	}
	special := specials(F32)
	r := rand.New(rand.NewPCG(11, 12))
	for _, loop := range loops {
		for trial := range 4000 {
			n := []int{64, 32, 24, 13, 1}[trial%5]
			var operands [3][]uint32
			for k := range operands {
				operands[k] = make([]uint32, n)
				for i := range operands[k] {
					operands[k][i] = uint32(special[r.IntN(len(special))])
					if r.IntN(2) == 0 {
						operands[k][i] = uint32(randomOf(r, F32))
					}
				}
			}
			want := make([]uint32, n)
			loop.plain(want, operands[0], operands[1], operands[2])
			got := make([]uint32, n)
			place := trial % 4
			s := [3][]uint32{slices.Clone(operands[0]), slices.Clone(operands[1]), slices.Clone(operands[2])}
			if place > 0 {
				got = s[place-1]
			}
			loop.fast(got, s[0], s[1], s[2])
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("%s %#x %#x %#x: got %#x, want %#x", loop.name, operands[0][i], operands[1][i], operands[2][i], got[i], want[i])
				}
			}
		}
	}
}
