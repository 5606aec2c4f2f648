package op

import (
	"math"

	"tokitai/def"
	"tokitai/internal/gen"
)

// Pattern fills the operands of a definition with values that break kernels where random
// numbers do not: cancellation, one huge element, ties, many occurrences of one index.
// Verification tries it in many sizes.
type Pattern struct {
	Name       string // lower case and hyphens: it is part of a case's name
	Definition *def.Definition
	Params     []float64          // in the order of the definition; nil takes those of its first Data
	Values     map[string]Element // operands that it does not name are normally distributed
	Integers   map[string]Integer // instead of Values, of operands that are stored as integers
	Index      map[string]Index   // indices that it does not name are uniform

	// IsGrid says that sums over these values are exact in every order, as long as they are not
	// too long, so that even a kernel that promises no bits has only one right answer.
	// Verification finds from the operands of a case where that is so (truth.FindGrid).
	IsGrid bool

	// IsLong says that the pattern is also tried on a sum of more terms than one machine word
	// adds exactly, at levels that have room for it; in a ring, on sums that wrap an int32; of a
	// rowwise definition, on rows of more columns than 16 bits count.
	IsLong bool
}

// Integer returns the integer at a row and a column, of up to 64 bits, which a float32 does not
// hold.
type Integer func(g *gen.Generator, r, c int) int64

// AnyInt32 is what int32 inputs are by default: small integers, powers of two and their neighbours,
// the least, the largest, and any.
var AnyInt32 Integer = func(g *gen.Generator, _, _ int) int64 { return int64(g.Int32()) }

// Index returns the index at a row, for a table of bound rows. It may be out of range. Of offsets it
// returns where group r begins; they are put in order. Of lengths, which are below bound, and of pages,
// whose places count row by row, what is out of range is brought inside.
type Index func(g *gen.Generator, r, bound int) int

// Scaling is a relation that holds bit for bit: if the named inputs and parameters are
// multiplied by powers of two, so are the outputs. For an exponent k, an operand with factor
// 2 is multiplied by 4^k, one with factor -1 divided by 2^k; operands without a factor stay
// the same. The relation holds for inputs whose multiples are exact in their formats, where
// both results are normal numbers, and for a k that keeps all intermediate results normal.
type Scaling struct {
	Name       string // lower case and hyphens
	Definition *def.Definition
	Inputs     map[string]int
	Params     map[string]int
	Outputs    map[string]int
	Negated    []string // inputs and outputs that also change their sign
}

// Elements that several operations use.
var (
	// Normal is a standard normal variable, as operands are by default.
	Normal Element = func(g *gen.Generator, _, _ int) float32 { return g.Normal() }

	// Wide has exponents from 2^-12 to 2^4 and either sign.
	Wide Element = func(g *gen.Generator, _, _ int) float32 { return g.Exponents(-12, 4) }

	// Positive is between 2^-9 and 2^3.
	Positive Element = func(g *gen.Generator, _, _ int) float32 { return abs(g.Ordinary()) }

	// FarBelow has rows of large negative values, below the constants (such as -1e9 or -1e30)
	// that some kernels use in place of -Inf as the initial maximum. In f16, three rows of
	// every five are -Inf.
	FarBelow Element = func(g *gen.Generator, r, _ int) float32 {
		return [...]float32{-1000, -60000, -0x1p60, -0x1p126, -0x1.fp127}[r%5] + g.Normal()
	}
)

// Scaled returns normal variables times s.
func Scaled(s float32) Element {
	return func(g *gen.Generator, _, _ int) float32 { return s * g.Normal() }
}

// Around returns normal variables around a mean.
func Around(mean float32) Element {
	return func(g *gen.Generator, _, _ int) float32 { return mean + g.Normal() }
}

// Between returns uniform variables in [low, high).
func Between(low, high int) Element {
	return func(g *gen.Generator, _, _ int) float32 { return g.Uniform(low, high) }
}

// AbsScaled returns absolute values of normal variables, times s.
func AbsScaled(s float32) Element {
	return func(g *gen.Generator, _, _ int) float32 { return abs(s * g.Normal()) }
}

func abs(x float32) float32 {
	if x < 0 {
		return -x
	}
	return x
}

// EitherSign gives x one of the two signs.
func EitherSign(g *gen.Generator, x float32) float32 {
	if g.Below(2) == 1 {
		return -x
	}
	return x
}

// Factors are values of a factor on which kernels fail, by name.
var Factors = []struct {
	Name  string
	Value Element
}{
	{"zero", func(g *gen.Generator, _, _ int) float32 { return EitherSign(g, 0) }},
	{"subnormal", func(g *gen.Generator, _, _ int) float32 {
		return EitherSign(g, math.Float32frombits(uint32(g.Below(1<<23))))
	}},
	{"subnormal-f16", func(g *gen.Generator, _, _ int) float32 { return EitherSign(g, 0x1p-24*float32(g.Below(1<<10))) }},
	{"largest-f16", func(g *gen.Generator, _, _ int) float32 { return EitherSign(g, 65504-float32(32*g.Below(200))) }},
	{"wide", Wide},
}

// LeftPadding reports whether a column is masked in a row whose first columns are: fewer than a
// block of a kernel that takes the row in parts, or one, or several of any size.
func LeftPadding(r, c int) bool { return c < [...]int{130, 17, 0, 515, 34, 1030, 51, 68}[r%8] }

// PageOf returns what a kind of data or a pattern gives for a place of an operand of lengths or pages. A
// nil index is uniform.
func (index Index) PageOf(g *gen.Generator, place, limit int) int {
	if index == nil {
		return g.Below(limit)
	}
	return max(0, min(index(g, place, limit), limit-1))
}
