package checksum_test

import (
	"math"
	"math/bits"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/checksum"
	"tokitai/verify/mutants"
)

// digest is the kernel with some of its parts changed.
type digest struct {
	pattern func(a num.Array, r, c int) uint32
	number  func(first uint64, r, c, cols int) uint64
	mix     func(pattern uint32, number uint64) (word0, word1 uint32)
	sum     func(sum, word uint32) uint32
	skips   func(i, n int) bool // elements that are left out
}

func mix(pattern uint32, number uint64) (word0, word1 uint32) {
	key := uint32(number)*0x9e3779b1 + 0x27d4eb2f
	m := key + uint32(number>>32)*0xc2b2ae35 | 1
	a := pattern ^ key
	b := (a ^ a>>16) * 0x85ebca6b
	word1, word0 = bits.Mul32(b^b>>15, m)
	return word0, word1
}

func (k digest) plain() mutants.Plain {
	return mutants.Plain{Body: k.body, Store: func(_ num.DType, y float32) uint32 { return math.Float32bits(y) }}
}

// body leaves the words as patterns of floats.
func (k digest) body(c *mutants.Call) {
	x := c.Stored[c.Position("x")]
	first := uint64(uint32(int32(c.Params[0]))) | uint64(uint32(int32(c.Params[1])))<<32
	var words [2]uint32
	for r := range x.Rows {
		for col := range x.Cols {
			i := r*x.Cols + col
			if k.skips != nil && k.skips(i, x.Rows*x.Cols) {
				continue
			}
			pattern, number := x.Bits(r, col), first+uint64(i)
			if k.pattern != nil {
				pattern = k.pattern(x, r, col)
			}
			if k.number != nil {
				number = k.number(first, r, col, x.Cols)
			}
			mixes := mix
			if k.mix != nil {
				mixes = k.mix
			}
			word0, word1 := mixes(pattern, number)
			for i, w := range []uint32{word0, word1} {
				if k.sum != nil {
					words[i] = k.sum(words[i], w)
				} else {
					words[i] += w
				}
			}
		}
	}
	c.In("word0").V[0], c.In("word1").V[0] = math.Float32frombits(words[0]), math.Float32frombits(words[1])
}

func TestMutants(t *testing.T) {
	wrong, right := mutants.NewList(checksum.Operations), mutants.NewList(checksum.Operations)
	for _, x := range []struct {
		d      *def.Definition
		format num.DType
	}{{checksum.ForwardDefinition, num.F16}, {checksum.Int32Definition, num.I32}} {
		wrong.Of(x.d, x.format)
		wrong.From(mutants.KernelPractice)
		add := func(name, what string, k digest) { wrong.Add(name, what, mutants.PromisesBits, k.plain()) }
		add("unnumbered", "numbers of elements begin with 0 whatever the first is", digest{number: func(_ uint64, r, c, cols int) uint64 { return uint64(r*cols + c) }})
		add("numbers-of-32-bits", "numbers of elements wrap at 2^32", digest{number: func(first uint64, r, c, cols int) uint64 { return uint64(uint32(first) + uint32(r*cols+c)) }})
		add("numbered-by-column", "rows do not count", digest{number: func(first uint64, _, c, _ int) uint64 { return first + uint64(c) }})
		add("words-exchanged", "word0 and word1 are exchanged", digest{mix: func(p uint32, n uint64) (uint32, uint32) { a, b := mix(p, n); return b, a }})
		add("signed-product", "the high word is that of a product of signed numbers", digest{mix: func(p uint32, n uint64) (uint32, uint32) {
			a, b := mix(p, n)
			key := uint32(n)*0x9e3779b1 + 0x27d4eb2f
			if m := key + uint32(n>>32)*0xc2b2ae35 | 1; int32(m) < 0 {
				b--
			}
			return a, b
		}})
		add("combined-by-xor", "results are combined by exclusive or", digest{sum: func(s, w uint32) uint32 { return s ^ w }})
		add("saturates", "the sum saturates", digest{sum: func(s, w uint32) uint32 {
			if s+w < s {
				return math.MaxUint32
			}
			return s + w
		}})
		add("tail-of-four", "elements after the last multiple of four are left out", digest{skips: func(i, n int) bool { return i >= n/4*4 }})
		if x.format == num.F16 {
			add("canonical-zeros", "-0 counts as +0", digest{pattern: func(a num.Array, r, c int) uint32 {
				if a.At(r, c) == 0 {
					return 0
				}
				return a.Bits(r, c)
			}})
			add("quiet-nans", "NaNs are read through binary32, which makes them quiet", digest{pattern: func(a num.Array, r, c int) uint32 {
				if num.IsNaN(a.DType, a.Bits64(r, c)) {
					return a.Bits(r, c) | 0x200
				}
				return a.Bits(r, c)
			}})
			add("sign-extended", "patterns of 16 bits are extended by their signs", digest{pattern: func(a num.Array, r, c int) uint32 {
				return uint32(int32(int16(a.Bits(r, c))))
			}})
		}
		right.Of(x.d, x.format)
		right.Add("plain", "element after element", mutants.PromisesBits, digest{}.plain())
		right.Add("in-64-bits", "sums of 64 bits, cut off at the end", mutants.PromisesBits, digest{sum: func(s, w uint32) uint32 { return uint32(uint64(s) + uint64(w)) }}.plain())
	}
	mutants.Test(t, checksum.Operations, wrong.All, right.All, nil)
}
