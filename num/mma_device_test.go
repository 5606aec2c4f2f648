package num

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"
)

// deviceKinds are inputs for one mma.sync.m16n8k16 each, and what an H200 made of
// them: SHA-256 over the binary32 results of the first 512 tiles (65,536
// results), row by row, little-endian, first 8 bytes. Fields are biased exponent
// fields: lowest and number of further ones; zeros come n times in 8.
var deviceKinds = []struct {
	name                 string
	dtype                DType
	exponent, more       uint32
	zeros                uint32
	fraction             uint32 // mask
	accExponent, accMore uint32
	accZeros             uint32
	want                 string
}{
	{"unit-range", F16, 10, 6, 0, 0x3ff, 120, 10, 0, "3250d66e118999b2"},
	{"wide", F16, 1, 29, 0, 0x3ff, 90, 60, 0, "494a10604ba50730"},
	{"finite", F16, 0, 30, 0, 0x3ff, 0, 254, 0, "563eff11d1262d05"},
	{"sparse", F16, 5, 15, 6, 0x3ff, 110, 30, 4, "f264c9bc5937b49d"},
	{"subnormal", F16, 0, 1, 0, 0x3ff, 60, 50, 4, "481e289833e3ccdc"},
	{"subnormal-accumulator", F16, 0, 0, 7, 0x3ff, 0, 1, 2, "899d765279fdc5d9"},
	{"all-patterns", F16, 0, 31, 0, 0x3ff, 0, 255, 0, "72a7866f06452646"},
	{"cancelling", F16, 15, 0, 1, 0x200, 127, 0, 4, "cc21d89957374650"},
	{"unit-range", BF16, 124, 6, 0, 0x7f, 120, 14, 0, "d4e5ee4a2132bc5a"},
	{"wide", BF16, 100, 50, 0, 0x7f, 90, 70, 0, "1fa9d962611f37bd"},
	{"finite", BF16, 0, 254, 0, 0x7f, 0, 254, 0, "730a9e26975ed034"},
	{"sparse", BF16, 110, 30, 6, 0x7f, 110, 30, 4, "bcca72386997f610"},
	{"underflow", BF16, 45, 15, 0, 0x7f, 0, 1, 4, "52848a4359dabe08"},
	{"deep-underflow", BF16, 40, 16, 6, 0x7f, 0, 0, 7, "0d8ca093a7c10007"},
	{"all-patterns", BF16, 0, 255, 0, 0x7f, 0, 255, 0, "0cc6d4eeb9efdbc9"},
	{"overflow", BF16, 187, 5, 0, 0x7f, 247, 7, 1, "0a85dd7dc6a6887e"},
}

// TestMMADeviceAnswers repeats the recorded inputs: element i of tile t, the
// tiles numbered through all kinds, 2048 each, is made of two hashes of 768t + i,
// where A (16x16) begins at 0, B (16x8) at 256 and the accumulators (16x8) at 512.
func TestMMADeviceAnswers(t *testing.T) {
	hopper := MMA{16, 25}
	for n, kind := range deviceKinds {
		f := kind.dtype.format()
		results := sha256.New()
		for tile := range uint32(512) {
			at := (uint32(n)*2048 + tile) * 768
			var a, b [16][16]uint32 // b transposed
			for r := range uint32(16) {
				for k := range uint32(16) {
					a[r][k] = devicePattern(f, at+r*16+k, kind.exponent, kind.more, kind.zeros, kind.fraction)
				}
				for c := range uint32(8) {
					b[c][r] = devicePattern(f, at+256+r*8+c, kind.exponent, kind.more, kind.zeros, kind.fraction)
				}
			}
			for r := range uint32(16) {
				for c := range uint32(8) {
					acc := devicePattern(&f32Format, at+512+r*8+c, kind.accExponent, kind.accMore, kind.accZeros, 1<<23-1)
					y := hopper.Step(kind.dtype, a[r][:], b[c][:], math.Float32frombits(acc))
					binary.Write(results, binary.LittleEndian, y)
				}
			}
		}
		if got := hex.EncodeToString(results.Sum(nil)[:8]); got != kind.want {
			t.Errorf("%v %s: the results hash to %s, the H200's to %s", kind.dtype, kind.name, got, kind.want)
		}
	}
}

func devicePattern(f *format, i, exponent, more, zeros, fraction uint32) uint32 {
	h, g := murmur(i), murmur(i+1<<31)
	sign := (h >> 31) * f.sign
	if h&7 < zeros {
		return sign
	}
	return sign | (exponent+(h>>8)%(more+1))<<f.fraction | g&fraction
}

// murmur is MurmurHash3's finalizer after a multiplication.
func murmur(x uint32) uint32 {
	x *= 0x9e3779b9
	x = (x ^ x>>16) * 0x85ebca6b
	x = (x ^ x>>13) * 0xc2b2ae35
	return x ^ x>>16
}
