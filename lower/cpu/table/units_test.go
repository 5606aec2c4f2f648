package table

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"tokitai/num"
)

// TestUnits compares sums of any size, with an old value of any size, with math/big.
func TestUnits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200_000 {
		u := units{high: int64(r.Uint64()) >> (47 + r.IntN(17)), low: r.Uint64() >> r.IntN(64)}
		if r.IntN(2) == 0 {
			u.high = int64(u.low) >> 63
		}
		if r.IntN(4) == 0 { // near a tie, or an exact tie
			u.low &= ^uint64(0) << r.IntN(50)
			u.low += uint64(r.IntN(3)) - 1
		}
		old := float32(0)
		switch r.IntN(4) {
		case 0:
			old = math.Float32frombits(r.Uint32()&^(0xff<<23) | uint32(r.IntN(255))<<23)
		case 1:
			old = float32(r.NormFloat64())
		case 2: // it cancels, nearly
			x, _ := new(big.Float).SetInt(u.big()).Float32()
			old = -x * 0x1p-24
		}
		sum := new(big.Float).SetPrec(400).SetInt(u.big())
		sum.SetMantExp(sum, -24)
		sum.Add(sum, new(big.Float).SetFloat64(float64(old)))
		for _, d := range num.FloatDTypes {
			got := num.NarrowF64(d, u.odd(float64(old)))
			if want := roundBig(d, sum); got != want {
				t.Fatalf("%s: %d + %d·2^64 units and %g: got %#x, want %#x", d, u.low, u.high, old, got, want)
			}
		}
	}
}

func (u units) big() *big.Int {
	x := new(big.Int).Lsh(big.NewInt(u.high), 64)
	return x.Add(x, new(big.Int).SetUint64(u.low))
}

// roundBig rounds once, by comparing with the values on both sides.
func roundBig(d num.DType, x *big.Float) uint32 {
	if x.Sign() == 0 {
		return 0
	}
	nearZero := new(big.Float).SetPrec(53).SetMode(big.ToZero).Set(x)
	s, _ := nearZero.Float64()
	if nearZero.Cmp(x) != 0 {
		s = math.Float64frombits(math.Float64bits(s) | 1)
	}
	return num.NarrowF64(d, s)
}

// TestUnitsAdd compares sums of values with integers.
func TestUnitsAdd(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 200 {
		var u units
		want := new(big.Int)
		for range 1 + r.IntN(50) {
			k := int64(r.Uint64()) >> (11 + r.IntN(50))
			u.add(float64(k) * 0x1p-24)
			want.Add(want, big.NewInt(k))
		}
		if u.big().Cmp(want) != 0 {
			t.Fatalf("got %v, want %v", u.big(), want)
		}
	}
	inf := math.Inf(1)
	for _, c := range []struct {
		terms     []float64
		old, want float64
	}{
		{[]float64{inf, 1}, 2, inf}, {[]float64{-inf}, 0, -inf}, {[]float64{1}, inf, inf}, {[]float64{0}, math.Copysign(0, -1), 0},
		{[]float64{inf, -inf}, 0, math.NaN()}, {[]float64{inf}, -inf, math.NaN()}, {[]float64{math.NaN()}, 1, math.NaN()}, {[]float64{1}, math.NaN(), math.NaN()},
	} {
		var u units
		for _, x := range c.terms {
			u.add(x)
		}
		if got := u.odd(c.old); got != c.want && !(got != got && c.want != c.want) || math.Signbit(got) != math.Signbit(c.want) && c.want == c.want {
			t.Errorf("%v and %v: got %v, want %v", c.terms, c.old, got, c.want)
		}
	}
}
