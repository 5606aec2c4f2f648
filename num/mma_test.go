package num

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// slowMMAStep is the model over big numbers: exact values, exponents by
// logarithm, truncation by integer parts.
func slowMMAStep(m MMA, d DType, a, b []uint32, acc float32) float32 {
	emin := map[DType]int{F16: -14, BF16: -126, E4M3: -6, E5M2: -14}[d]
	exponent := func(x float64, emin int) int { return max(math.Ilogb(x), emin) }

	type part struct {
		value    float64 // exact
		exponent int
	}
	var parts []part
	special := 0.0
	if c := float64(acc); math.IsNaN(c) || math.IsInf(c, 0) {
		special = c
	} else if c != 0 {
		parts = append(parts, part{c, exponent(c, -126)})
	}
	for i := range a {
		x, y := float64(Widen(d, a[i])), float64(Widen(d, b[i]))
		switch p := float64(x * y); {
		case math.IsNaN(p) || math.IsInf(p, 0):
			special += p
		case p != 0:
			parts = append(parts, part{p, exponent(x, emin) + exponent(y, emin)})
		}
	}
	if special != 0 { // NaN included
		return float32(special)
	}
	if len(parts) == 0 {
		return 0
	}
	largest := -133
	for _, p := range parts {
		largest = max(largest, p.exponent)
	}
	sum := new(big.Int)
	for _, p := range parts {
		v := new(big.Float).SetFloat64(p.value)
		v.SetMantExp(v, m.F-largest)
		whole, _ := v.Int(nil)
		sum.Add(sum, whole)
	}
	exact := new(big.Float).SetInt(sum)
	exact.SetMantExp(exact, largest-m.F)
	if sum.Sign() == 0 {
		return 0
	}
	if abs := new(big.Float).Abs(exact); abs.Cmp(big.NewFloat(0x1p128)) >= 0 {
		return float32(math.Inf(sum.Sign()))
	}
	if m.R != 0 {
		unit := max(exact.MantExp(nil)-1, -126) - m.R
		whole, _ := new(big.Float).SetMantExp(exact, -unit).Int(nil)
		exact.SetMantExp(new(big.Float).SetInt(whole), unit)
	}
	nearest, _ := exact.Float32()
	r := float64(nearest)
	if exact.Sign() > 0 && (math.IsInf(r, 1) || big.NewFloat(r).Cmp(exact) > 0) ||
		exact.Sign() < 0 && (math.IsInf(r, -1) || big.NewFloat(r).Cmp(exact) < 0) {
		nearest = math.Nextafter32(nearest, 0)
	}
	if nearest == 0 {
		return 0 // not -0
	}
	return nearest
}

var mmaInputs = []struct {
	name    string
	pattern func(d DType, r *rand.Rand) uint32
	acc     func(d DType, r *rand.Rand) float32
}{
	{"unit-range",
		func(d DType, r *rand.Rand) uint32 { return Narrow(d, float32(r.NormFloat64())) },
		func(d DType, r *rand.Rand) float32 { return float32(r.NormFloat64()) }},
	{"wide",
		func(d DType, r *rand.Rand) uint32 { return Narrow(d, randomFloat(r, -12, 12)) },
		func(d DType, r *rand.Rand) float32 { return randomFloat(r, -30, 24) }},
	{"sparse",
		func(d DType, r *rand.Rand) uint32 {
			return Narrow(d, randomFloat(r, -8, 8)) * uint32(min(r.IntN(4), 1)^1)
		},
		func(d DType, r *rand.Rand) float32 { return randomFloat(r, -20, 10) * float32(r.IntN(2)) }},
	{"subnormal",
		func(d DType, r *rand.Rand) uint32 {
			return Narrow(d, randomFloat(r, d.format().emin-9, d.format().emin+2))
		},
		func(d DType, r *rand.Rand) float32 { return randomFloat(r, -149, max(2*d.format().emin, -140)) }},
	{"underflow",
		func(d DType, r *rand.Rand) uint32 { return Narrow(d, randomFloat(r, -78, -68)) },
		func(d DType, r *rand.Rand) float32 { return randomFloat(r, -149, -130) * float32(r.IntN(2)) }},
	{"overflow",
		func(d DType, r *rand.Rand) uint32 { return Narrow(d, randomFloat(r, 61, 65)) },
		func(d DType, r *rand.Rand) float32 { return randomFloat(r, 120, 127) }},
	{"finite-patterns",
		func(d DType, r *rand.Rand) uint32 {
			return FromIndex(d, r.Int64N(2*int64(d.format().largest)+1)-int64(d.format().largest))
		},
		func(d DType, r *rand.Rand) float32 { return math.Float32frombits(FromIndex(F32, r.Int64N(0x7f800000))) }},
	{"rare-specials",
		func(d DType, r *rand.Rand) uint32 {
			switch f := d.format(); r.IntN(60) {
			case 0:
				return f.last
			case 1:
				return f.last | f.sign
			case 2:
				return f.nan * r.Uint32N(2)
			}
			return Narrow(d, float32(r.IntN(5)-2))
		},
		func(d DType, r *rand.Rand) float32 {
			return []float32{1, 0, negativeZero32, inf32, -inf32}[max(r.IntN(20)-15, 0)]
		}},
}

func TestMMAStep(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	for _, m := range []MMA{{L: 16, F: 25}, {L: 8, F: 24}, {L: 4, F: 23}, {L: 16, F: 13}, {L: 3, F: 32}, {L: 32, F: 13, R: 13}, {L: 32, F: 25}} {
		for _, d := range []DType{F16, BF16, E4M3, E5M2} {
			for _, kind := range mmaInputs {
				for range 1000 {
					n := r.IntN(m.L + 1)
					a, b := make([]uint32, n), make([]uint32, n)
					for i := range a {
						a[i], b[i] = kind.pattern(d, r), kind.pattern(d, r)
					}
					if n > 1 && r.IntN(4) == 0 { // two products that cancel
						a[n-1], b[n-1] = a[0]^d.format().sign, b[0]
					}
					acc := kind.acc(d, r)
					if got, want := m.Step(d, a, b, acc), slowMMAStep(m, d, a, b, acc); !same(got, want) {
						t.Fatalf("%v %v %s: a %#x b %#x acc %v (%#08x): got %v (%#08x), want %v (%#08x)", m, d, kind.name, a, b,
							acc, math.Float32bits(acc), got, math.Float32bits(got), want, math.Float32bits(want))
					}
				}
			}
		}
	}
}

func TestMMAByHand(t *testing.T) {
	hopper := MMA{L: 16, F: 25}
	type pair struct{ a, b float32 }
	for _, c := range []struct {
		name  string
		d     DType
		pairs []pair
		acc   float32
		want  uint32
	}{
		{"zero products", F16, []pair{{0, -1}, {0, 1}}, negativeZero32, 0},
		{"cancellation", F16, []pair{{1, 1}, {1, -1}}, 0, 0},
		{"nan", F16, []pair{{nan32, 0}}, 1, 0x7fffffff},
		{"0·inf", BF16, []pair{{0, inf32}}, 1, 0x7fffffff},
		{"inf - inf", BF16, []pair{{1, inf32}}, -inf32, 0x7fffffff},
		{"inf", BF16, []pair{{-1, inf32}, {3, 3}}, 1, 0xff800000},
		{"nan accumulator", F16, nil, nan32, 0x7fffffff},
		{"partial sum beyond range", BF16, []pair{{0x1p64, 0x1p64}}, -0x1p127, 0x7f000000},
		{"sum beyond range", BF16, []pair{{0x1p64, 0x1p64}}, 0, 0x7f800000},
		{"largest plus one", BF16, []pair{{1, 1}}, math.MaxFloat32, 0x7f7fffff},
		{"truncated, not rounded", F16, []pair{{1, 0x1p-24}, {1, 0x1p-24}}, 1 + 0x1p-23, 0x3f800002},
		{"25 bits kept", F16, []pair{{0x1p-12, 0x1p-13}, {0x1p-12, 0x1p-13}, {0x1p-12, 0x1p-13}, {0x1p-12, 0x1p-13}}, 1, 0x3f800001},
		{"26th bit lost", F16, []pair{{0x1p-13, 0x1p-13}, {0x1p-13, 0x1p-13}, {0x1p-13, 0x1p-13}, {0x1p-13, 0x1p-13}, {0x1p-13, 0x1p-13}, {0x1p-13, 0x1p-13}, {0x1p-13, 0x1p-13}, {0x1p-13, 0x1p-13}}, 1, 0x3f800000},
		{"subnormal result", BF16, []pair{{0x1p-75, 0x1.8p-74}}, 0, 1},
		{"subnormal accumulator", F16, nil, 0x1p-149, 1},
	} {
		a, b := make([]uint32, len(c.pairs)), make([]uint32, len(c.pairs))
		for i, p := range c.pairs {
			a[i], b[i] = Narrow(c.d, p.a), Narrow(c.d, p.b)
		}
		if got := math.Float32bits(hopper.Step(c.d, a, b, c.acc)); got != c.want {
			t.Errorf("%s: got %#08x, want %#08x", c.name, got, c.want)
		}
	}
}

func TestMMADot(t *testing.T) {
	r, m := rand.New(rand.NewPCG(17, 18)), MMA{L: 16, F: 25}
	for K := range 70 {
		a, b := make([]uint32, K), make([]uint32, K)
		for i := range a {
			a[i], b[i] = Narrow(BF16, float32(r.NormFloat64())), Narrow(BF16, float32(r.NormFloat64()))
		}
		want := float32(r.NormFloat64())
		got := m.Dot(BF16, a, b, want)
		for k := 0; k < K; k += 16 {
			pa, pb := make([]uint32, 16), make([]uint32, 16)
			copy(pa, a[k:])
			copy(pb, b[k:])
			want = slowMMAStep(m, BF16, pa, pb, want)
		}
		if !same(got, want) {
			t.Errorf("K=%d: got %v, want %v", K, got, want)
		}
	}
	if got := m.Dot(F16, nil, nil, negativeZero32); !same(got, 0) {
		t.Errorf("K=0 from -0: got %v", got)
	}
}

func TestMMAString(t *testing.T) {
	for m, want := range map[MMA]string{{L: 16, F: 25}: "mma(16,25)", {L: 32, F: 13, R: 13}: "mma(32,13,13)"} {
		if got := fmt.Sprint(m); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
