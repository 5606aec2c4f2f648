package num

import "testing"

// TestPhiloxKnownAnswers has the vectors of Random123's kat_vectors file.
func TestPhiloxKnownAnswers(t *testing.T) {
	const ones = 0xffffffff
	for _, c := range []struct {
		key           uint64
		counter, want [4]uint32
	}{
		{0, [4]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{ones<<32 | ones, [4]uint32{ones, ones, ones, ones}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{0x299f31d0_a4093822, [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := Philox(c.key, c.counter); got != c.want {
			t.Errorf("Philox(%#x, %#x) = %#x, want %#x", c.key, c.counter, got, c.want)
		}
	}
}

func TestRandomWord(t *testing.T) {
	const seed, tensor, step = 0x0123456789abcdef, 7, 9
	for _, e := range []uint64{0, 1, 2, 3, 4, 1<<34 - 1, 1 << 34, 1<<34 + 6, 1<<64 - 1} {
		block := Philox(seed, [4]uint32{uint32(e / 4 % (1 << 32)), uint32(e / 4 / (1 << 32)), tensor, step})
		if got := RandomWord(seed, tensor, step, e); got != block[e%4] {
			t.Errorf("element %d: got %#08x, want %#08x", e, got, block[e%4])
		}
	}
	if got := RandomWord(0, 0, 0, 2); got != 0xbc57ac4c {
		t.Errorf("element 2 of seed 0: got %#08x", got)
	}
}
