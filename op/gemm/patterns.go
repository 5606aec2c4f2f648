package gemm

import (
	"math"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/op"
)

// factor is an element of the left or the right operand: k is its place in the sum,
// i its row or column in the result.
type factor func(g *gen.Generator, k, i int) float32

// filling is a pattern of a product. Under isGrid every sum of the products, and of
// the old result, is exact in binary32 whatever its order: for at most 4,096 products
// the sum of their absolute values, in units of the grid, is below 2^24. No factor
// is zero unless the other is positive there, so that a zero is +0 in every order.
type filling struct {
	name        string
	left, right factor
	old         factor // of accumulating definitions; nil is normally distributed
	isGrid      bool
}

var fillings = []filling{
	{name: "cancellation", left: nearlyOpposite, right: shared(op.Normal)},
	{name: "exact-cancellation", left: opposite, right: shared(op.Wide)},
	{name: "one-huge", left: oneHuge(128), right: everywhere(op.Normal)},
	{name: "huge-pair", left: hugePair, right: shared(op.Normal)},
	{name: "ascending", left: power(func(k int) int { return k%16 - 8 }), right: everywhere(op.Positive)},
	{name: "descending", left: power(func(k int) int { return 7 - k%16 }), right: everywhere(op.Positive)},
	{name: "alternating-signs", left: alternating, right: everywhere(op.Positive)},
	{name: "same-sign", left: everywhere(op.Positive), right: everywhere(op.Positive)},
	{name: "f32-underflow", left: everywhere(exponents(-78, -72)), right: everywhere(exponents(-78, -72))},
	{name: "f32-overflow", left: cycle(-0x1p63, 0x1p64, -0x1p64), right: cycle(0x1p63, 0x1p64, 0x1.8p63)},
	{name: "graded", left: graded, right: graded}, // results of every size, which the products of others must not touch
	{name: "delicate-row", left: delicateRow(0), right: delicate(0)},
	{name: "delicate-column", left: delicate(0), right: delicateRow(0)},
	{name: "delicate-late-row", left: delicateRow(200), right: delicate(200)},
	{name: "delicate-late-column", left: delicate(200), right: delicateRow(200)},
	{name: "fused-ties", left: nearOne(0x1p-24), right: nearOne(1), old: nearOne(1)},
	{name: "fused-subnormals", left: nearOne(0x1p-75), right: nearOne(0x1p-75), old: subnormal},
	{name: "f16-underflow", left: everywhere(exponents(-14, -10)), right: everywhere(exponents(-14, -10))},
	{name: "zeros-against-infinities", left: zeroSometimes, right: infiniteSometimes},
	{name: "identity-against-infinities", left: diagonal, right: infiniteSometimes}, // it is multiplied like any other matrix

	// at most 4,096
	{name: "plus-minus-one", left: everywhere(integers(1)), right: everywhere(integers(1)), old: everywhere(integers(3)), isGrid: true},
	// at most 9·4,096
	{name: "small-integers", left: everywhere(integers(3)), right: everywhere(integers(3)), old: everywhere(integers(3)), isGrid: true},
	// 2^23 once and at most 225·4,095 < 2^20: sums that need all 24 bits
	{name: "large-integers", left: first(4096, oddIntegers), right: first(2048, oddIntegers), old: everywhere(oddIntegers), isGrid: true},
	// at most 4,087·4,096 + 3 (bf16 makes 4,087 less): 12 bits, which fewer would round
	{name: "long-integers-left", left: everywhere(integers(4087)), right: everywhere(integers(1)), old: everywhere(integers(3)), isGrid: true},
	{name: "long-integers-right", left: everywhere(integers(1)), right: everywhere(integers(4087)), old: everywhere(integers(3)), isGrid: true},
	// 8 of 40 products are 512·16 = 2^13: at most 103·8·2^13 + 4,096 < 2^23
	{name: "offset", left: offset(4, 32), right: offsetSign(4, 32), old: everywhere(integers(3)), isGrid: true},
	// 128 of 520: at most 8·128·2^13 + 4,096 < 2^24
	{name: "offset-long", left: offset(64, 392), right: offsetSign(64, 392), old: everywhere(integers(3)), isGrid: true},
	// at most 2,048 + 5 + 2·4,094: odd sums, which lie between two f16 from 2,048 on and between two bf16 from 256 on
	{name: "ties", left: tie, right: tieSign, old: evenInteger, isGrid: true},
	// at most 2^16 + 17 + 4,094: sums near 65,504 and 65,520
	{name: "f16-limit", left: limit, right: limitSign, old: everywhere(integers(3)), isGrid: true},
	// one product of 4,096 is not zero
	{name: "identity-right", left: positiveInteger, right: diagonal, old: everywhere(integers(3)), isGrid: true},
	{name: "identity-left", left: diagonal, right: positiveInteger, old: everywhere(integers(3)), isGrid: true},
	// and nothing is added to it: all 24 bits of f32 stay
	{name: "identity-right-all-bits", left: everywhere(op.Positive), right: diagonal, old: zeros, isGrid: true},
	{name: "identity-left-all-bits", left: diagonal, right: everywhere(op.Positive), old: zeros, isGrid: true},
	// in units of 1/16: at most 15·4,096 + 200·16
	{name: "old-cancels", left: everywhere(integers(1)), right: sixteenths, old: everywhere(integers(200)), isGrid: true},
}

// cycle repeats factors along the sum. In f32-overflow a product of 2^128 is added to
// -2^126: fused they are finite, rounded on its own the product is not.
func cycle(values ...float32) factor {
	return func(_ *gen.Generator, k, _ int) float32 { return values[k%len(values)] }
}

// delicate are factors whose products are not exact in binary32, at two places of the
// sum alone; 1 elsewhere. In delicateRow it is one row in three, with zeros elsewhere: a
// kernel that looks at factors before it decides how to multiply must notice these.
func delicate(at int) factor {
	return func(_ *gen.Generator, k, _ int) float32 {
		switch k {
		case at:
			return 0x1.04p-68
		case at + 1:
			return 0x1.02p-68
		}
		return 1
	}
}

func delicateRow(at int) factor {
	return func(_ *gen.Generator, k, i int) float32 {
		switch {
		case i%3 != 2:
			return 1
		case k == at || k == at+1:
			return 0x1.02p-68
		}
		return 0
	}
}

// graded has rows, or columns, of 13 sizes: those of two halves differ.
func graded(g *gen.Generator, _, i int) float32 { return g.Normal() * float32(math.Ldexp(1, -(i%12))) }

// nearOne is a few units in the last place from 1, times a scale: products end close to
// the middle between two binary32 numbers, on which rounding twice goes wrong.
func nearOne(scale float32) factor {
	return func(g *gen.Generator, _, _ int) float32 { return (1 + float32(g.Below(9)-4)*0x1p-23) * scale }
}

func subnormal(g *gen.Generator, _, _ int) float32 {
	return math.Float32frombits(uint32(g.Below(1 << 23)))
}

func patterns(definitions ...*def.Definition) []op.Pattern {
	var list []op.Pattern
	for _, d := range definitions {
		for _, f := range fillings {
			p := op.Pattern{Name: f.name, Definition: d, IsGrid: f.isGrid, Values: map[string]op.Element{
				d.Operands[0].Name: f.left.element(!d.Product().TransposeLeft),
				d.Operands[1].Name: f.right.element(d.Product().TransposeRight),
			}}
			if d.Accumulates() && f.old != nil {
				p.Values[d.Operands[2].Name] = f.old.element(true)
			}
			list = append(list, p)
		}
	}
	return list
}

// groupPatterns are patterns of the offsets: groups of all rows, of one, and of none.
func groupPatterns(d *def.Definition) []op.Pattern {
	var list []op.Pattern
	for _, p := range []struct {
		name string
		at   op.Index // where a group begins
	}{
		{"all-in-first-group", func(_ *gen.Generator, _, bound int) int { return bound }},
		{"all-in-last-group", func(*gen.Generator, int, int) int { return 0 }},
		{"all-in-second-group", func(_ *gen.Generator, g, bound int) int { return min(g-1, 1) * bound }},
		{"single-rows", func(_ *gen.Generator, g, bound int) int { return min(g, bound) }},
		{"all-but-one-row", func(_ *gen.Generator, _, bound int) int { return bound - 1 }},
	} {
		list = append(list, op.Pattern{Name: p.name, Definition: d, Index: map[string]op.Index{d.Groups().Offsets: p.at}})
	}
	return list
}

// element places a factor in an operand whose summed index is the column, or the row.
func (f factor) element(isColumnSummed bool) op.Element {
	if isColumnSummed {
		return func(g *gen.Generator, r, c int) float32 { return f(g, c, r) }
	}
	return func(g *gen.Generator, r, c int) float32 { return f(g, r, c) }
}

func scalings(definitions ...*def.Definition) []op.Scaling {
	var list []op.Scaling
	for _, d := range definitions {
		left, right, result := d.Operands[0].Name, d.Operands[1].Name, d.Operands[2].Name
		for i, side := range []string{"left", "right"} {
			operand := d.Operands[i].Name
			scaled := op.Scaling{
				Name: "scaled-" + side, Definition: d,
				Inputs: map[string]int{operand: 1}, Outputs: map[string]int{result: 1},
			}
			if d.Accumulates() {
				scaled.Inputs[result] = 1
			}
			list = append(list, scaled, op.Scaling{Name: "negated-" + side, Definition: d, Negated: []string{operand, result}})
		}
		list = append(list, op.Scaling{Name: "scaled-against-each-other", Definition: d, Inputs: map[string]int{left: 1, right: -1}})
	}
	return list
}

// everywhere does not depend on the place.
func everywhere(e op.Element) factor { return factor(e) }

// shared is the same for an even k and the next one.
func shared(e op.Element) factor {
	return func(_ *gen.Generator, k, i int) float32 { return e(gen.Seeded(uint64(k/2)<<32|uint64(i)), k, i) }
}

func sign(k int) float32 { return float32(1 - 2*(k&1)) }

func opposite(g *gen.Generator, k, i int) float32 { return sign(k) * shared(op.Wide)(g, k, i) }

// nearlyOpposite differs from opposite by up to 2^-8.
func nearlyOpposite(g *gen.Generator, k, i int) float32 {
	return sign(k) * shared(op.Normal)(g, k, i) * (1 + float32(g.Below(8))*0x1p-11)
}

func oneHuge(size float32) factor {
	return func(g *gen.Generator, k, i int) float32 {
		if k == i%8 {
			return size + g.Normal()
		}
		return 0x1p-5 * g.Normal()
	}
}

// hugePair has two huge elements that cancel: everything else stands between them.
func hugePair(g *gen.Generator, k, _ int) float32 {
	switch k % 64 {
	case 10:
		return 2048
	case 11:
		return -2048
	}
	return 0x1p-4 * g.Normal()
}

func power(exponent func(k int) int) factor {
	return func(g *gen.Generator, k, _ int) float32 {
		return float32(math.Ldexp(float64(g.Uniform(1, 2)), exponent(k)))
	}
}

func alternating(g *gen.Generator, k, _ int) float32 { return sign(k) * (1 + 0x1p-6*g.Normal()) }

func exponents(low, high int) op.Element {
	return func(g *gen.Generator, _, _ int) float32 { return g.Exponents(low, high) }
}

// zeroSometimes and infiniteSometimes meet at every seventh product: zeros of the
// even rows must give NaN there. In every fourth row whole blocks of 16 are zeros, which
// must not be skipped, and others have none, so that the sum is infinite without the blocks.
func zeroSometimes(g *gen.Generator, k, i int) float32 {
	if i%4 == 2 && k/16%2 == 0 || i%4 == 0 && k%7 == 3 {
		return sign(i/2) * 0
	}
	return g.Normal()
}

func infiniteSometimes(g *gen.Generator, k, i int) float32 {
	if k%7 == 3 {
		switch i % 4 {
		case 1:
			return float32(math.Inf(1))
		case 2:
			return float32(math.NaN())
		case 3:
			return float32(math.Inf(-1))
		}
	}
	return g.Normal()
}

// integers are 1 to n, of either sign.
func integers(n int) op.Element {
	return func(g *gen.Generator, _, _ int) float32 { return sign(g.Below(2)) * float32(1+g.Below(n)) }
}

// oddIntegers are 1 to 15, of either sign.
func oddIntegers(g *gen.Generator, _, _ int) float32 {
	return sign(g.Below(2)) * float32(1+2*g.Below(8))
}

func positiveInteger(g *gen.Generator, _, _ int) float32 { return float32(1 + g.Below(255)) }

func evenInteger(g *gen.Generator, _, _ int) float32 {
	return sign(g.Below(2)) * float32(2+2*g.Below(4))
}

// sixteenths are odd multiples of 1/16 below 1, so that sums are no integers.
func sixteenths(g *gen.Generator, k, i int) float32 { return oddIntegers(g, k, i) / 16 }

// first has one value in front of the others.
func first(x float32, rest op.Element) factor {
	return func(g *gen.Generator, k, i int) float32 {
		if k == 0 {
			return x
		}
		return rest(g, k, i)
	}
}

// offset and offsetSign repeat: width products of +2^13, a stretch of ±1, and width
// of -2^13. The period is no power of two, so that parts of a divided sum end inside.
func offset(width, stretch int) factor {
	return func(_ *gen.Generator, k, _ int) float32 {
		if at := k % (2*width + stretch); at < width || at >= width+stretch {
			return 512
		}
		return 1
	}
}

func offsetSign(width, stretch int) factor {
	return func(g *gen.Generator, k, i int) float32 {
		switch at := k % (2*width + stretch); {
		case at < width:
			return 16
		case at >= width+stretch:
			return -16
		}
		return sign(g.Below(2))
	}
}

func tie(g *gen.Generator, k, i int) float32 {
	switch {
	case k == 0 && i%2 == 0:
		return 2048
	case k == 0:
		return 256
	case k == 1:
		return float32(1 + 2*g.Below(3))
	}
	return 2
}

func tieSign(g *gen.Generator, k, _ int) float32 {
	if k == 0 {
		return 1
	}
	return sign(g.Below(2))
}

// limit is 65,504/256 in front; bf16 makes that 256.
func limit(g *gen.Generator, k, _ int) float32 {
	switch k {
	case 0:
		return 255.875
	case 1:
		return []float32{8, 15, 16, 17}[g.Below(4)]
	}
	return 1
}

func limitSign(g *gen.Generator, k, _ int) float32 {
	switch k {
	case 0:
		return 256
	case 1:
		return 1
	}
	return sign(g.Below(2))
}

func zeros(*gen.Generator, int, int) float32 { return 0 }

func diagonal(_ *gen.Generator, k, i int) float32 {
	if k == i {
		return 1
	}
	return 0
}
