package num

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestRound(t *testing.T) {
	for _, c := range []struct {
		d       DType
		x, want float32
	}{
		{F16, 1 + 0x1p-11, 1}, {F16, 70000, inf32}, {F16, -0x1p-30, negativeZero32}, {F16, nan32, nan32},
		{BF16, 1 + 0x1p-8, 1}, {BF16, 70000, 70144}, {F32, 1 + 0x1p-23, 1 + 0x1p-23},
	} {
		if got := Round(c.d, c.x); !same(got, c.want) {
			t.Errorf("Round(%v, %v) = %v, want %v", c.d, c.x, got, c.want)
		}
	}
}

func TestStochasticRoundByHand(t *testing.T) {
	const last = math.MaxUint32
	for _, c := range []struct {
		d    DType
		x    float32
		word uint32
		want float32
	}{
		{F16, 1, 0, 1},
		{F16, 1 + 0x1p-11, 1<<31 - 1, 1 + 0x1p-10}, // halfway: q = 2^31
		{F16, 1 + 0x1p-11, 1 << 31, 1},
		{F16, -(1 + 0x1p-12), 1<<30 - 1, -(1 + 0x1p-10)},
		{F16, -(1 + 0x1p-12), 1 << 30, -1},
		{F16, 1 + 0x1p-23, 1<<19 - 1, 1 + 0x1p-10}, // one part in 2^13
		{F16, 1 + 0x1p-23, 1 << 19, 1},
		{F16, 0x1.8p-25, 3<<30 - 1, 0x1p-24}, // below the smallest subnormal
		{F16, 0x1.8p-25, 3 << 30, 0},
		{F16, -0x1p-149, 0, negativeZero32}, // q = 0
		{F16, 0x1p-56, 0, 0x1p-24},          // q = 1
		{F16, 0x1p-57, 0, 0},
		{F16, 65504, 0, 65504},
		{F16, 65510, 0, 65504},
		{F16, 0x1.ffdffep15, 0, 65504}, // the last value below 65520
		{F16, 65520, last, inf32},
		{F16, -1e38, last, -inf32},
		{F16, 65503, 1<<32 - 1<<27 - 1, 65504}, // q = 31/32
		{F16, 65503, 1<<32 - 1<<27, 65472},
		{F16, inf32, 0, inf32}, {F16, -inf32, last, -inf32}, {F16, nan32, 7, nan32},
		{F16, 0, 0, 0}, {F16, negativeZero32, 0, negativeZero32},
		{BF16, 1 + 0x1p-8, 1<<31 - 1, 1 + 0x1p-7},
		{BF16, 1 + 0x1p-8, 1 << 31, 1},
		{BF16, 0x1p-149, 1<<16 - 1, 0x1p-133},
		{BF16, 0x1p-149, 1 << 16, 0},
		{BF16, 0x1.fep127, 0, 0x1.fep127},
		{BF16, 0x1.fefffep127, 0, 0x1.fep127}, // below half a spacing beyond the largest finite value
		{BF16, 0x1.ffp127, last, inf32},
		{F32, 1 + 0x1p-23, 0, 1 + 0x1p-23}, {F32, math.MaxFloat32, 0, math.MaxFloat32}, {F32, -inf32, 0, -inf32},
	} {
		if got := StochasticRound(c.d, c.x, c.word); !same(got, c.want) {
			t.Errorf("StochasticRound(%v, %v, %#x) = %v, want %v", c.d, c.x, c.word, got, c.want)
		}
	}
}

// TestStochasticRoundThreshold computes q in rational numbers from neighbours
// found by looking, and checks both sides of it.
func TestStochasticRoundThreshold(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, s := range slowFormats {
		largest := s.values[len(s.values)-2]
		for range 20_000 {
			e := r.IntN(44) - 28
			if s.dtype == BF16 {
				e = r.IntN(276) - 149
			}
			x := randomFloat(r, e, e)
			abs := math.Abs(float64(x))
			if abs >= largest {
				continue
			}
			p := 0
			for step := 1 << 14; step > 0; step /= 2 { // the last value not above
				if p+step < len(s.values) && s.values[p+step] <= abs {
					p += step
				}
			}
			lo, hi := s.values[p], s.values[p+1]
			ratio := new(big.Rat).Sub(rat(abs), rat(lo))
			ratio.Quo(ratio, new(big.Rat).Sub(rat(hi), rat(lo)))
			ratio.Mul(ratio, rat(1<<32))
			q := uint32(new(big.Int).Div(ratio.Num(), ratio.Denom()).Uint64())

			wantAt := func(word uint32, want float64) {
				if got := math.Abs(float64(StochasticRound(s.dtype, x, word))); got != want {
					t.Fatalf("StochasticRound(%v, %v, %#x): magnitude %v, want %v (q = %#x)", s.dtype, x, word, got, want, q)
				}
			}
			wantAt(q, lo)
			wantAt(math.MaxUint32, lo)
			if q > 0 {
				wantAt(q-1, hi)
				wantAt(0, hi)
			}
		}
	}
}

func rat(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }
