package num

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// bigFMA computes a·b + c exactly, in numbers wide enough for the whole range of
// binary32 products, and rounds once.
type bigFMA struct{ a, b, c big.Float }

func newBigFMA() *bigFMA {
	m := new(bigFMA)
	for _, f := range []*big.Float{&m.a, &m.b, &m.c} {
		f.SetPrec(1024)
	}
	return m
}

func (m *bigFMA) of(a, b, c float32) float32 {
	for _, x := range []float32{a, b, c} {
		if x-x != 0 { // NaN or infinity, where no rounding takes place
			return float32(float64(float64(a)*float64(b)) + float64(c))
		}
	}
	m.a.SetFloat64(float64(a))
	m.b.SetFloat64(float64(b))
	m.c.SetFloat64(float64(c))
	m.a.Mul(&m.a, &m.b)
	m.a.Add(&m.a, &m.c)
	r, _ := m.a.Float32()
	return r
}

func checkFMA(t *testing.T, m *bigFMA, a, b, c float32) {
	t.Helper()
	got := Canonical(F32, math.Float32bits(FMA(a, b, c)))
	want := Canonical(F32, math.Float32bits(m.of(a, b, c)))
	if got != want {
		t.Errorf("FMA(%v, %v, %v) (%#08x, %#08x, %#08x): got %#08x, want %#08x", a, b, c,
			math.Float32bits(a), math.Float32bits(b), math.Float32bits(c), got, want)
	}
}

// fmaTriples are ways to choose operands that are hard in one respect each.
var fmaTriples = []struct {
	name     string
	minNaive float64 // the least share on which a double rounding must be wrong
	triple   func(r *rand.Rand) (a, b, c float32)
}{
	{"patterns", 0, func(r *rand.Rand) (a, b, c float32) {
		return math.Float32frombits(r.Uint32()), math.Float32frombits(r.Uint32()), math.Float32frombits(r.Uint32())
	}},
	{"unit-range", 0, func(r *rand.Rand) (a, b, c float32) {
		return randomFloat(r, -2, 2), randomFloat(r, -2, 2), randomFloat(r, -4, 4)
	}},
	{"midpoint", 0.2, func(r *rand.Rand) (a, b, c float32) {
		a, b = almostOne(r)
		e := r.IntN(150) - 60
		return a, ldexp32(b, e-24), randomFloat(r, e, e)
	}},
	{"subnormal-midpoint", 0.2, func(r *rand.Rand) (a, b, c float32) {
		a, b = almostOne(r)
		return ldexp32(a, -100), ldexp32(b, -50), randomFloat(r, -130, -127)
	}},
	{"subnormal-result", 0, func(r *rand.Rand) (a, b, c float32) {
		return randomFloat(r, -80, -60), randomFloat(r, -80, -60), randomFloat(r, -149, -120)
	}},
	{"cancellation", 0, func(r *rand.Rand) (a, b, c float32) {
		a, b = randomFloat(r, -60, 60), randomFloat(r, -60, 60)
		near := Index(F32, math.Float32bits(-float32(a*b))) + int64(r.IntN(3)) - 1
		return a, b, math.Float32frombits(FromIndex(F32, near))
	}},
	{"overflow", 0, func(r *rand.Rand) (a, b, c float32) {
		return randomFloat(r, 60, 66), randomFloat(r, 60, 66), randomFloat(r, 120, 127)
	}},
	{"overflow-midpoint", 0.2, func(r *rand.Rand) (a, b, c float32) {
		a, b = almostOne(r)
		return ldexp32(a, 50), ldexp32(b, 53), math.MaxFloat32
	}},
}

// randomFloat has a random sign and fraction and an exponent in [lo, hi].
func randomFloat(r *rand.Rand, lo, hi int) float32 {
	x := math.Ldexp(1+float64(r.IntN(1<<23))*0x1p-23, lo+r.IntN(hi-lo+1))
	if r.IntN(2) == 0 {
		x = -x
	}
	return float32(x)
}

// almostOne gives factors of ±(1 + i³·2^-36), for a small i: half a unit of
// something, but for an error that a binary64 sum with that something drops.
func almostOne(r *rand.Rand) (a, b float32) {
	i := float64([]int{-4, -2, 0, 1, 2, 3, 4}[r.IntN(7)]) * 0x1p-12
	a, b = float32(1+i), float32(1-i+float64(i*i))
	if r.IntN(2) == 0 {
		a = -a
	}
	return a, b
}

func ldexp32(x float32, n int) float32 { return float32(math.Ldexp(float64(x), n)) }

func TestFMA(t *testing.T) {
	const n = 140_000 // times 8 kinds
	for _, kind := range fmaTriples {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			m, r := newBigFMA(), rand.New(rand.NewPCG(5, 6))
			naiveWrong := 0
			for range n {
				a, b, c := kind.triple(r)
				checkFMA(t, m, a, b, c)
				if t.Failed() {
					return
				}
				naive := float32(float64(float64(a)*float64(b)) + float64(c))
				if naive != FMA(a, b, c) && naive == naive {
					naiveWrong++
				}
			}
			if share := float64(naiveWrong) / n; share < kind.minNaive {
				t.Errorf("a double rounding is wrong on %.3f of the triples: too few to test anything, want %.2f", share, kind.minNaive)
			}
		})
	}
}

func TestFMASpecialValues(t *testing.T) {
	values := []float32{
		0, float32(math.Copysign(0, -1)), 1, -1, 0x1p-149, -0x1p-149, 0x1p-126, 0x1.fffffcp-127,
		math.MaxFloat32, -math.MaxFloat32, 0x1p127, 0x1p-75, -0x1p-74, 0x1p64, -0x1p64,
		float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
	}
	m := newBigFMA()
	for _, a := range values {
		for _, b := range values {
			for _, c := range values {
				checkFMA(t, m, a, b, c)
			}
		}
	}
}

func TestFMAByHand(t *testing.T) {
	negativeZero := float32(math.Copysign(0, -1))
	for _, c := range []struct{ a, b, c, want float32 }{
		{1 + 0x1p-23, 1 + 0x1p-23, -(1 + 0x1p-22), 0x1p-46},
		{0x1p64, 0x1p64, -0x1p127, 0x1p127},    // the product alone overflows
		{0x1p-75, 0x1p-75, 0x1p-149, 0x1p-148}, // halfway between 1 and 2 units: to even
		{0x1p-75, 0x1.8p-75, 0, 0x1p-149},
		{1 + 0x1p-23, 0x1p-24, 1, 1 + 0x1p-23}, // halfway and a little more
		{1 - 0x1p-24, 0x1p-24, 1, 1},           // halfway less a little
		{1, 0x1p-24, 1, 1},                     // halfway: to even
		{1, 1, -1, 0},
		{-1, 0, 0, 0},
		{-1, 0, negativeZero, negativeZero},
	} {
		if got := FMA(c.a, c.b, c.c); math.Float32bits(got) != math.Float32bits(c.want) {
			t.Errorf("FMA(%v, %v, %v) = %v, want %v", c.a, c.b, c.c, got, c.want)
		}
	}
}
