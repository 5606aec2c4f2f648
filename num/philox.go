package num

import "math/bits"

// Philox returns a block of four random words of the counter-based generator Philox
// 4x32-10 (Salmon et al. 2011), ten rounds of two 32x32-bit products. The words of the
// result, of the counter and, low half first, of the key are numbered as in the
// authors' Random123 library.
func Philox(key uint64, counter [4]uint32) [4]uint32 {
	const (
		m0, m1 = 0xD2511F53, 0xCD9E8D57 // multipliers
		w0, w1 = 0x9E3779B9, 0xBB67AE85 // key steps: golden ratio and sqrt(3)-1
	)
	k0, k1 := uint32(key), uint32(key>>32)
	c0, c1, c2, c3 := counter[0], counter[1], counter[2], counter[3]
	for range 10 {
		hi0, lo0 := bits.Mul32(m0, c0)
		hi1, lo1 := bits.Mul32(m1, c2)
		c0, c1, c2, c3 = hi1^c1^k0, lo1, hi0^c3^k1, lo0
		k0 += w0
		k1 += w1
	}
	return [4]uint32{c0, c1, c2, c3}
}

// RandomWord returns the random word of element e, a flat index, of a tensor at a
// step: word e mod 4 of the block with counter (e/4 low, e/4 high, tensor, step) and
// key seed.
func RandomWord(seed uint64, tensor, step uint32, e uint64) uint32 {
	block := e >> 2
	return Philox(seed, [4]uint32{uint32(block), uint32(block >> 32), tensor, step})[e&3]
}
