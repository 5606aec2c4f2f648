package tensorcore

import (
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"tokitai/num"
)

// Instruction is a matrix instruction: D = C + A·B with A of M rows, B of N columns and K
// products to an element. A and B are stored in DType, C and D in binary32.
type Instruction struct {
	Family  string // such as mma.sync
	M, N, K int
	DType   num.DType
}

// String returns the name without the format, such as mma.sync.m16n8k16.
func (i Instruction) String() string { return fmt.Sprintf("%s.m%dn%dk%d", i.Family, i.M, i.N, i.K) }

// Batch holds the operands of an instruction that runs on many tiles: tile after tile, A row
// by row, B column by column, so that k is along memory in both, C and D row by row. Patterns
// are little-endian.
type Batch struct {
	Instruction
	Tiles      int
	A, B, C, D []byte
}

// NewBatch returns tiles of a kind of data, with zeros for D. Element e of the batch, all A of
// a tile before its B and these before its C, is made of two hashes of a number that the seed,
// the format and the kind choose, plus e.
func NewBatch(i Instruction, kind int, seed uint32, tiles int) *Batch {
	k := &KindsOf(i.DType)[kind]
	b := &Batch{Instruction: i, Tiles: tiles}
	at := murmur(seed<<16 | streamOf(i.DType)<<8 | uint32(kind))
	factors := func(to []byte, n int) []byte {
		for range n {
			if p := k.Factor(i.DType, at); i.DType.Size() == 1 {
				to = append(to, byte(p))
			} else {
				to = binary.LittleEndian.AppendUint16(to, uint16(p))
			}
			at++
		}
		return to
	}
	b.A, b.B, b.C = make([]byte, 0, tiles*i.M*i.K*i.DType.Size()), make([]byte, 0, tiles*i.N*i.K*i.DType.Size()), make([]byte, 0, 4*tiles*i.M*i.N)
	for range tiles {
		b.A = factors(b.A, i.M*i.K)
		b.B = factors(b.B, i.N*i.K)
		for range i.M * i.N {
			b.C = binary.LittleEndian.AppendUint32(b.C, k.Accumulator(at))
			at++
		}
	}
	b.D = make([]byte, len(b.C))
	return b
}

// Outputs returns the number of elements of D.
func (b *Batch) Outputs() int { return b.Tiles * b.M * b.N }

// Row fills x and y, of length K, with the factors of an output, counted through the tiles, and
// returns its accumulator.
func (b *Batch) Row(output int, x, y []uint32) (c uint32) {
	tile, row, col := output/(b.M*b.N), output/b.N%b.M, output%b.N
	load(x, b.DType, b.A, (tile*b.M+row)*b.K)
	load(y, b.DType, b.B, (tile*b.N+col)*b.K)
	return binary.LittleEndian.Uint32(b.C[4*output:])
}

func load(to []uint32, d num.DType, from []byte, at int) {
	for i := range to {
		switch d.Size() {
		case 1:
			to[i] = uint32(from[at+i])
		default:
			to[i] = uint32(binary.LittleEndian.Uint16(from[2*(at+i):]))
		}
	}
}

// AnswerOutputs is how many outputs have an answer, and AnswerSeed the seed of their inputs.
const (
	AnswerOutputs = 1 << 16
	AnswerSeed    = 1
)

//go:embed answers.txt
var answers string

// Answer returns the hash of what an H200 made of the first AnswerOutputs outputs of a kind:
// the first 8 bytes of the SHA-256 of D, in hexadecimal. It is "" if there is none.
func Answer(i Instruction, kind string) string {
	_, after, _ := strings.Cut("\n"+answers, fmt.Sprintf("\n%s %s %s ", i, i.DType, kind))
	hash, _, _ := strings.Cut(after, "\n")
	return hash
}

// AnswerModel returns the model that the answers to an instruction follow.
func AnswerAccum(i Instruction) num.MMA {
	if i.DType.IsFP8() {
		return num.MMA{L: 32, F: 13, R: 13}
	}
	return num.MMA{L: 16, F: 25}
}

// Answer returns the hash of a batch's D, as the function Answer does.
func (b *Batch) Answer() string {
	hash := sha256.Sum256(b.D)
	return hex.EncodeToString(hash[:8])
}

// streamOf numbers the formats of factors.
func streamOf(d num.DType) uint32 {
	return map[num.DType]uint32{num.F16: 0, num.BF16: 1, num.E4M3: 2, num.E5M2: 3}[d]
}

// KindsOf lists the kinds of data for factors of a format, special values among them. The first
// ones are also in [Kinds].
func KindsOf(d num.DType) []Kind { return kindsOf[d] }

var kindsOf = map[num.DType][]Kind{
	num.F16: {
		{Name: "unit-range", exponent: 10, more: 6, fraction: 0x3ff, accExponent: 120, accMore: 10},
		{Name: "wide", exponent: 1, more: 29, fraction: 0x3ff, accExponent: 90, accMore: 60},
		{Name: "finite", more: 30, fraction: 0x3ff, accMore: 254},
		{Name: "sparse", exponent: 5, more: 15, zeros: 6, fraction: 0x3ff, accExponent: 110, accMore: 30, accZeros: 4},
		{Name: "subnormal", more: 1, fraction: 0x3ff, accExponent: 60, accMore: 50, accZeros: 4},
		{Name: "subnormal-accumulator", zeros: 7, fraction: 0x3ff, accMore: 1, accZeros: 2},
		{Name: "all-patterns", more: 31, fraction: 0x3ff, accMore: 255},
		{Name: "cancelling", exponent: 15, zeros: 1, fraction: 0x200, accExponent: 127, accZeros: 4},
		{Name: "zero-accumulator", exponent: 8, more: 10, zeros: 1, fraction: 0x3ff, accZeros: 8},
		{Name: "zero-products", zeros: 8, accMore: 255},
		{Name: "infinities", exponent: 28, more: 3, zeros: 6, accExponent: 240, accMore: 15, accZeros: 4},
		{Name: "large-accumulator", exponent: 1, more: 20, fraction: 0x3ff, accExponent: 130, accMore: 30},
	},
	num.BF16: {
		{Name: "unit-range", exponent: 124, more: 6, fraction: 0x7f, accExponent: 120, accMore: 14},
		{Name: "wide", exponent: 100, more: 50, fraction: 0x7f, accExponent: 90, accMore: 70},
		{Name: "finite", more: 254, fraction: 0x7f, accMore: 254},
		{Name: "sparse", exponent: 110, more: 30, zeros: 6, fraction: 0x7f, accExponent: 110, accMore: 30, accZeros: 4},
		{Name: "underflow", exponent: 45, more: 15, fraction: 0x7f, accMore: 1, accZeros: 4},
		{Name: "deep-underflow", exponent: 40, more: 16, zeros: 6, fraction: 0x7f, accZeros: 7},
		{Name: "all-patterns", more: 255, fraction: 0x7f, accMore: 255},
		{Name: "overflow", exponent: 187, more: 5, fraction: 0x7f, accExponent: 247, accMore: 7, accZeros: 1},
		{Name: "zero-accumulator", exponent: 50, more: 20, zeros: 1, fraction: 0x7f, accZeros: 8},
		{Name: "zero-products", zeros: 8, accMore: 255},
		{Name: "infinities", exponent: 252, more: 3, zeros: 6, accExponent: 240, accMore: 15, accZeros: 4},
		{Name: "large-accumulator", exponent: 100, more: 20, fraction: 0x7f, accExponent: 130, accMore: 30},
	}, num.E4M3: {
		{Name: "unit-range", exponent: 4, more: 6, fraction: 7, accExponent: 120, accMore: 10},
		{Name: "finite", more: 14, fraction: 7, accMore: 254},
		{Name: "sparse", exponent: 3, more: 9, zeros: 6, fraction: 7, accExponent: 110, accMore: 30, accZeros: 4},
		{Name: "subnormal", more: 1, fraction: 7, accExponent: 95, accMore: 30, accZeros: 4},
		{Name: "subnormal-accumulator", zeros: 7, fraction: 7, accMore: 1, accZeros: 2},
		{Name: "all-patterns", more: 15, fraction: 7, accMore: 255},
		{Name: "cancelling", exponent: 7, zeros: 1, fraction: 4, accExponent: 127, accZeros: 4},
		{Name: "zero-accumulator", more: 14, zeros: 1, fraction: 7, accZeros: 8},
		{Name: "zero-products", zeros: 8, accMore: 255},
		{Name: "large-accumulator", more: 14, fraction: 7, accExponent: 130, accMore: 30},
		{Name: "huge-accumulator", exponent: 12, more: 2, fraction: 7, accExponent: 248, accMore: 7},
		{Name: "tiny-accumulator", more: 1, zeros: 6, fraction: 7, accMore: 60, accZeros: 2},
		{Name: "narrow", exponent: 6, more: 2, fraction: 7, accExponent: 126, accMore: 4},
	},
	num.E5M2: {
		{Name: "unit-range", exponent: 12, more: 6, fraction: 3, accExponent: 120, accMore: 10},
		{Name: "finite", more: 30, fraction: 3, accMore: 254},
		{Name: "sparse", exponent: 8, more: 15, zeros: 6, fraction: 3, accExponent: 110, accMore: 30, accZeros: 4},
		{Name: "subnormal", more: 1, fraction: 3, accExponent: 60, accMore: 60, accZeros: 4},
		{Name: "subnormal-accumulator", zeros: 7, fraction: 3, accMore: 1, accZeros: 2},
		{Name: "all-patterns", more: 31, fraction: 3, accMore: 255},
		{Name: "cancelling", exponent: 15, zeros: 1, fraction: 2, accExponent: 127, accZeros: 4},
		{Name: "zero-accumulator", more: 30, zeros: 1, fraction: 3, accZeros: 8},
		{Name: "zero-products", zeros: 8, accMore: 255},
		{Name: "large-accumulator", more: 30, fraction: 3, accExponent: 130, accMore: 30},
		{Name: "huge-accumulator", exponent: 28, more: 2, fraction: 3, accExponent: 248, accMore: 7},
		{Name: "tiny-accumulator", more: 1, zeros: 6, fraction: 3, accMore: 60, accZeros: 2},
		{Name: "narrow", exponent: 14, more: 2, fraction: 3, accExponent: 126, accMore: 4},
		{Name: "infinities", exponent: 29, more: 2, zeros: 6, accExponent: 240, accMore: 15, accZeros: 4},
	},
}
