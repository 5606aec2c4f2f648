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
			n := []int{64, 32, 20, 13, 1}[trial%5]
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

// TestSumsInGo compares the loop of fused sums in Go, which the processor's may stand for, with
// exact sums: halfway cases among normal and among subnormal numbers.
func TestSumsInGo(t *testing.T) {
	m := machine{mode: plainMode}
	check := func(a, b, c uint32) {
		t.Helper()
		d := []uint32{0}
		fmaWordsGo(d, []uint32{a}, []uint32{b}, []uint32{c})
		if want := m.fmaOracle(layout32, uint64(a), uint64(b), uint64(c), 0); uint64(d[0]) != want {
			t.Errorf("%#x·%#x + %#x: got %#x, want %#x", a, b, c, d[0], want)
		}
	}
	check(0x1a000100, 0x19fffe00, 0x00400001) // just below halfway between subnormal numbers
	check(0x1a000100, 0x1a000100, 0x00400000) // just above
	check(0x3f800100, 0x3efffe00, 0x4b000001) // just below halfway between normal ones
	r := rand.New(rand.NewPCG(13, 14))
	special := specials(F32)
	for range 3000 {
		check(uint32(special[r.IntN(len(special))]), uint32(randomOf(r, F32)), uint32(special[r.IntN(len(special))]))
	}
}
