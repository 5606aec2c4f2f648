// Package gen generates random input values with integer arithmetic and at most one
// rounding, so that a seed gives the same bits on every machine. It knows nothing of what
// the values are used for.
package gen

import "math"

// Generator is a sequence of random numbers (SplitMix64).
type Generator struct{ state uint64 }

// New returns the generator of a name.
func New(name string) *Generator {
	g := &Generator{state: 0xcbf29ce484222325}
	for _, b := range []byte(name) { // FNV-1a
		g.state = (g.state ^ uint64(b)) * 0x100000001b3
	}
	return g
}

// Seeded returns the generator of a seed.
func Seeded(seed uint64) *Generator { return &Generator{state: seed} }

// Place sets g to the sequence of row r and column c under a key. The values that follow
// depend on nothing else.
func (g *Generator) Place(key uint64, r, c int) { g.PlaceIn(Row(key, r), c) }

// Row returns the key of row r under a key: PlaceIn takes it for all columns of the row.
func Row(key uint64, r int) uint64 {
	return mix((key ^ uint64(r)*0xd1342543de82ef95) + step)
}

// PlaceIn sets g to the sequence of column c of a row.
func (g *Generator) PlaceIn(row uint64, c int) {
	g.state = mix((row ^ uint64(c)*0xaf251af3b0f025b5) + step)
}

// Next returns 64 random bits.
func (g *Generator) Next() uint64 {
	g.state += step
	return mix(g.state)
}

// step is how far the state moves for each number.
const step = 0x9e3779b97f4a7c15

// mix returns the random bits of a state.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Below returns an integer in [0, n).
func (g *Generator) Below(n int) int { return int(g.Next() % uint64(n)) }

// Ordinary returns a number of either sign between 2^-9 and 2^3 with a uniform exponent.
func (g *Generator) Ordinary() float32 { return g.Exponents(-9, 3) }

// Exponents returns a number of either sign in [2^low, 2^high) with a uniform exponent.
func (g *Generator) Exponents(low, high int) float32 {
	r := g.Next()
	e := low + int(r>>32)%(high-low)
	return math.Float32frombits(uint32(r)&0x807fffff | uint32(e+127)<<23)
}

// Uniform returns a multiple of 2^-20 in [low, high), for integers low and high.
func (g *Generator) Uniform(low, high int) float32 {
	steps := uint64(high-low) << 20
	return float32(int64(low)<<20+int64(g.Next()%steps)) * 0x1p-20
}

// Normal returns an approximately standard normal number: the sum of twelve uniform ones
// minus six, plus a small multiple of 2^-40, rounded to binary32.
func (g *Generator) Normal() float32 {
	const mask = 1<<20 - 1
	three := func(r uint64) int64 { return int64(r&mask) + int64(r>>21&mask) + int64(r>>42&mask) }
	s := g.state // the numbers depend on it, not on each other: they are computed side by side
	sum := three(mix(s+step)) + three(mix(s+2*step%(1<<64))) + three(mix(s+3*step%(1<<64))) + three(mix(s+4*step%(1<<64))) - 6<<20
	g.state = s + 5*step%(1<<64)
	return float32(sum<<20+int64(mix(g.state)&mask)) * 0x1p-40
}

var specials = []uint32{
	0x00000000, 0x80000000, // zeros
	0x7f800000, 0xff800000, 0x7fc00000, // infinities, NaN
	0x00000001, 0x807fffff, // subnormals of f32
	0x33800000, 0xb8000000, // subnormals of f16
	0x477fe000, 0xc77ff000, 0x7f7fffff, // the largest of f16, the least that it rounds to infinity, the largest
	0x3f800000, 0xbf800000,
}

// Special returns a special value (zero, infinity, NaN, subnormal, extreme) half of the
// time, and an ordinary one otherwise.
func (g *Generator) Special() float32 {
	r := g.Next()
	if r&1 == 0 {
		return g.Ordinary()
	}
	return math.Float32frombits(specials[(r>>1)%uint64(len(specials))])
}

// Int32 returns an int32: a small one, one beside a power of two, the least or the largest, or any.
func (g *Generator) Int32() int32 {
	beside := int32(g.Below(3)) - 1
	switch g.Below(8) {
	case 0, 1, 2:
		return int32(g.Below(33)) - 16
	case 3:
		return 1<<g.Below(32) + beside
	case 4:
		return -(1<<g.Below(32) + beside)
	case 5:
		return math.MaxInt32 + max(beside, 0) // wraps to the least
	}
	return int32(g.Next())
}
