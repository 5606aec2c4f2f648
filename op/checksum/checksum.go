package checksum

import (
	"fmt"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// The constants of the mixing function: odd numbers whose bits look random. golden is 2^32 divided by
// the golden ratio; the others are factors of the finalizers of MurmurHash3 and xxHash.
const (
	golden = 0x9e3779b1
	offset = 0x27d4eb2f
	ofHigh = 0xc2b2ae35
	factor = 0x85ebca6b
)

// ForwardDefinition is the digest of a tensor of floats, Int32Definition that of a tensor of int32.
var (
	ForwardDefinition = define("checksum.forward", def.AnyFloat)
	Int32Definition   = define("checksum.int32", def.Only(num.I32))
)

func define(name string, formats def.Rule) *def.Definition {
	return def.Must(def.Rowwise(name, func(b *def.Builder) {
		pattern := b.In("x", formats).Stored()
		firstLow, firstHigh := b.IntParam("first_low"), b.IntParam("first_high")
		constant := func(v uint32) def.Value { return def.IntConst(int32(v)) }
		low, high := b.Element(firstLow, firstHigh).As("low"), b.ElementHigh(firstLow, firstHigh).As("high")

		key := low.IMul(constant(golden)).IAdd(constant(offset)).As("key")
		m := key.IAdd(high.IMul(constant(ofHigh))).IOr(constant(1)).As("m")
		a := fold(pattern.IXor(key), 16).IMul(constant(factor))
		h := fold(a, 15).As("h")
		b.OutScalar("word0", def.TotalSum(h.IMul(m)))
		b.OutScalar("word1", def.TotalSum(h.UMulHigh(m)))

		b.Formula(
			"word0 = sum of the low words of h * m, modulo 2^32; word1 = sum of the high words",
			"h = b ^ b >> 15,  b = (a ^ a >> 16) * 0x85ebca6b modulo 2^32,  a = pattern ^ key",
			"key = low * 0x9e3779b1 + 0x27d4eb2f,  m = (key + high * 0xc2b2ae35) | 1, modulo 2^32",
			"low and high: the words of the element's number, counted row after row from first on",
		)
		b.Clauses(
			"any shape; rows may be strided: the digest depends on the elements' order alone",
			"the pattern is that of the stored element: equal numbers with other bits differ, such as -0 and +0, and so do all patterns that stand for no number",
			"a change of one element changes word0",
			"the digests of parts add up to that of the whole, word by word modulo 2^32, if each part counts from its first element's number",
			"it is no cryptographic hash: who knows it can find other tensors with the same digest",
			"word0 and word1 may not overlap x",
		)
	}))
}

// fold lets the high bits of x reach the low ones, so that the product that follows carries every bit on.
func fold(x def.Value, by int32) def.Value { return x.IXor(x.ShrU(by)) }

// Digest is the digest of a tensor.
type Digest struct{ Word0, Word1 uint32 }

// Plus returns the digest of two parts of a tensor together.
func (d Digest) Plus(e Digest) Digest { return Digest{d.Word0 + e.Word0, d.Word1 + e.Word1} }

func (d Digest) String() string { return fmt.Sprintf("%08x%08x", d.Word1, d.Word0) }

// Forward computes the two words of the digest of x into tensors of one int32 each. The elements of x are
// numbered from first on.
func Forward(q *engine.Queue, word0, word1, x *tensor.Tensor, first uint64, opts ...engine.CallOption) error {
	return engine.Call(q, definitionOf(x), []*tensor.Tensor{x, word0, word1}, numbers(first), opts...)
}

// Of returns the digest of x, whose elements are numbered from first on. It waits for the queue.
func Of(q *engine.Queue, x *tensor.Tensor, first uint64, opts ...engine.CallOption) (Digest, error) {
	var words [2]*tensor.Tensor
	for i := range words {
		w, err := tensor.New(q.Device(), num.I32, 1)
		if err != nil {
			return Digest{}, err
		}
		defer w.Close()
		words[i] = w
	}
	if err := Forward(q, words[0], words[1], x, first, opts...); err != nil {
		return Digest{}, err
	}
	if err := q.Wait(); err != nil {
		return Digest{}, err
	}
	var d Digest
	for i, word := range []*uint32{&d.Word0, &d.Word1} {
		v, err := words[i].Int32s()
		if err != nil {
			return Digest{}, err
		}
		*word = uint32(v[0])
	}
	return d, nil
}

// definitionOf returns the definition for the format of a tensor. Other formats are refused by the
// check of the call.
func definitionOf(x *tensor.Tensor) *def.Definition {
	if x != nil && x.DType() == num.I32 {
		return Int32Definition
	}
	return ForwardDefinition
}

// numbers returns the parameters of the definitions.
func numbers(first uint64) []float64 {
	return []float64{float64(int32(uint32(first))), float64(int32(uint32(first >> 32)))}
}
