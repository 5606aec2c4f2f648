package num

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"
)

// TestFP8LikePyTorch compares with what PyTorch 2.15 computes: the values of all patterns,
// and conversions of binary32 with every upper 20 bits, each followed by zeros, by a last
// bit, and by the bit after. The boundaries of both formats lie within 20 bits, so that
// these are all cases of rounding. Every NaN is the canonical one; what rounds beyond 448 in
// E4M3, where PyTorch gives 448, is NaN.
func TestFP8LikePyTorch(t *testing.T) {
	for _, c := range []struct {
		d              DType
		narrow, values string
	}{
		{E4M3, "97691e90dba653cf74dbaf841e52a2635d0dd5060f4a319cdacef75e38c37ad0", "422eccfaa21e72a6b26855bb10cdcfead6c1ce3262ecd813c99d8cbf9677f2e2"},
		{E5M2, "1c083721c2c45474cccc4a73a09de7d35e0dfd5dc1215ec915ee1da8e05e1908", "229a94c5f728edf2259da970a0e1dfb45cc1d69cce2b30e37659f3212ec4b8b9"},
	} {
		var values []byte
		for p := range uint32(256) {
			values = binary.LittleEndian.AppendUint32(values, Canonical(F32, math.Float32bits(Widen(c.d, p))))
		}
		if got := sha256.Sum256(values); hex.EncodeToString(got[:]) != c.values {
			t.Errorf("%v: the values have SHA-256 %x, want %s", c.d, got, c.values)
		}
		narrow := make([]byte, 0, 3<<20)
		for _, rest := range []uint32{0, 1, 0x800} {
			for i := range uint32(1 << 20) {
				narrow = append(narrow, uint8(Canonical(c.d, Narrow(c.d, math.Float32frombits(i<<12|rest)))))
			}
		}
		if got := sha256.Sum256(narrow); hex.EncodeToString(got[:]) != c.narrow {
			t.Errorf("%v: conversions have SHA-256 %x, want %s", c.d, got, c.narrow)
		}
	}
}

// FP8 is exact in binary16: products of FP8 are products of binary16.
func TestFP8IsExactInF16(t *testing.T) {
	for _, d := range FP8DTypes {
		for p := range uint32(256) {
			if v := Widen(d, p); v == v && F16ToF32(F32ToF16(v)) != v {
				t.Errorf("%v %#x, which is %v, is not exact in binary16", d, p, v)
			}
		}
	}
}
