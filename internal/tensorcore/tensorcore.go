// Package tensorcore describes matrix instructions of tensor cores. It holds inputs for them and
// hashes of an H200's answers, for tests of whatever computes their models, and for the probe
// that finds the model of a device.
package tensorcore

import "tokitai/num"

// Kind is a kind of data for mma.sync.m16n8k16, one instruction a tile. Exponents are
// biased fields: the lowest one and the number of further ones. Zeros come n times in 8.
type Kind struct {
	Name                 string
	DType                num.DType
	exponent, more       uint32
	zeros                uint32
	fraction             uint32 // mask
	accExponent, accMore uint32
	accZeros             uint32

	// Answer is the hash of what an H200 made of the first Tiles tiles: SHA-256 over the
	// binary32 results, row by row, little-endian, the first 8 bytes in hexadecimal.
	Answer string
}

// Tiles is the number of tiles of a kind that have an answer.
const Tiles = 512

// Kinds lists all kinds with answers to mma.sync.m16n8k16.
var Kinds = []Kind{
	{"unit-range", num.F16, 10, 6, 0, 0x3ff, 120, 10, 0, "3250d66e118999b2"},
	{"wide", num.F16, 1, 29, 0, 0x3ff, 90, 60, 0, "494a10604ba50730"},
	{"finite", num.F16, 0, 30, 0, 0x3ff, 0, 254, 0, "563eff11d1262d05"},
	{"sparse", num.F16, 5, 15, 6, 0x3ff, 110, 30, 4, "f264c9bc5937b49d"},
	{"subnormal", num.F16, 0, 1, 0, 0x3ff, 60, 50, 4, "481e289833e3ccdc"},
	{"subnormal-accumulator", num.F16, 0, 0, 7, 0x3ff, 0, 1, 2, "899d765279fdc5d9"},
	{"all-patterns", num.F16, 0, 31, 0, 0x3ff, 0, 255, 0, "72a7866f06452646"},
	{"cancelling", num.F16, 15, 0, 1, 0x200, 127, 0, 4, "cc21d89957374650"},
	{"unit-range", num.BF16, 124, 6, 0, 0x7f, 120, 14, 0, "d4e5ee4a2132bc5a"},
	{"wide", num.BF16, 100, 50, 0, 0x7f, 90, 70, 0, "1fa9d962611f37bd"},
	{"finite", num.BF16, 0, 254, 0, 0x7f, 0, 254, 0, "730a9e26975ed034"},
	{"sparse", num.BF16, 110, 30, 6, 0x7f, 110, 30, 4, "bcca72386997f610"},
	{"underflow", num.BF16, 45, 15, 0, 0x7f, 0, 1, 4, "52848a4359dabe08"},
	{"deep-underflow", num.BF16, 40, 16, 6, 0x7f, 0, 0, 7, "0d8ca093a7c10007"},
	{"all-patterns", num.BF16, 0, 255, 0, 0x7f, 0, 255, 0, "0cc6d4eeb9efdbc9"},
	{"overflow", num.BF16, 187, 5, 0, 0x7f, 247, 7, 1, "0a85dd7dc6a6887e"},
}

// Tile is the input of one instruction: patterns of the factors and of the binary32
// accumulators.
type Tile struct {
	A [16][16]uint32
	B [16][8]uint32
	C [16][8]uint32
}

// Input returns a tile of a kind. Element i of tile t, the tiles numbered through all
// kinds, 2048 each, is made of two hashes of 768t + i, where A begins at 0, B at 256 and C
// at 512.
func Input(kind, tile int) *Tile {
	k, at := &Kinds[kind], (uint32(kind)*2048+uint32(tile))*768
	t := &Tile{}
	for r := range uint32(16) {
		for i := range uint32(16) {
			t.A[r][i] = k.Factor(k.DType, at+r*16+i)
		}
		for c := range uint32(8) {
			t.B[r][c] = k.Factor(k.DType, at+256+r*8+c)
			t.C[r][c] = k.Accumulator(at + 512 + r*8 + c)
		}
	}
	return t
}

// Factor returns the pattern of factor i, stored in d, the format of the kind.
func (k *Kind) Factor(d num.DType, i uint32) uint32 {
	return pattern(d, i, k.exponent, k.more, k.zeros, k.fraction)
}

// Accumulator returns the binary32 pattern of accumulator i.
func (k *Kind) Accumulator(i uint32) uint32 {
	return pattern(num.F32, i, k.accExponent, k.accMore, k.accZeros, 1<<23-1)
}

func pattern(d num.DType, i, exponent, more, zeros, fraction uint32) uint32 {
	fractionBits := [...]uint32{num.F16: 10, num.BF16: 7, num.F32: 23, num.E4M3: 3, num.E5M2: 2}[d]
	h, g := murmur(i), murmur(i+1<<31)
	sign := h >> 31 << (8*d.Size() - 1)
	if h&7 < zeros {
		return sign
	}
	return sign | (exponent+(h>>8)%(more+1))<<fractionBits | g&fraction
}

// murmur is MurmurHash3's finalizer after a multiplication.
func murmur(x uint32) uint32 {
	x *= 0x9e3779b9
	x = (x ^ x>>16) * 0x85ebca6b
	x = (x ^ x>>13) * 0xc2b2ae35
	return x ^ x>>16
}
