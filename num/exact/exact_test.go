package exact

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"tokitai/internal/testlevel"
	"tokitai/num"
)

// slowSum is init + Σ a[k]*b[k] as a fraction: nothing shared with the package.
func slowSum(a, b []float32, init float32) *big.Rat {
	sum := new(big.Rat).SetFloat64(float64(init))
	for i := range a {
		x, y := new(big.Rat).SetFloat64(float64(a[i])), new(big.Rat).SetFloat64(float64(b[i]))
		sum.Add(sum, x.Mul(x, y))
	}
	return sum
}

// slowRound rounds to nearest even by comparing with both neighbours.
func slowRound(d num.DType, x *big.Rat) uint32 {
	if x.Sign() == 0 {
		return 0
	}
	value := func(i int64) *big.Rat { // of the pattern with this index
		f := float64(num.Widen(d, num.FromIndex(d, i)))
		if math.IsInf(f, 0) { // the next value of the format, were it wider
			prev := float64(num.Widen(d, num.FromIndex(d, i-1)))
			f = prev + num.ULP(d, prev)
		}
		return new(big.Rat).SetFloat64(f)
	}
	abs := new(big.Rat).Abs(x)
	lo, hi := int64(0), num.Index(d, num.NarrowF64(d, math.Inf(1)))
	for hi-lo > 1 { // value(lo) <= |x|, and |x| < value(hi) unless hi is infinite
		if mid := (lo + hi) / 2; value(mid).Cmp(abs) <= 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	if value(hi).Cmp(abs) <= 0 {
		lo = hi
	} else {
		below := new(big.Rat).Sub(abs, value(lo))
		above := new(big.Rat).Sub(value(hi), abs)
		if c := below.Cmp(above); c > 0 || c == 0 && lo%2 == 1 {
			lo = hi
		}
	}
	pattern := num.FromIndex(d, lo)
	if x.Sign() < 0 {
		pattern |= 1 << (8*d.Size() - 1)
	}
	return pattern
}

// draw makes operands of the format d, held as binary32.
type draw func(r *rand.Rand, d num.DType, K int) (a, b []float32, init float32)

func finite(r *rand.Rand, d num.DType) float32 {
	for {
		v := num.Widen(d, r.Uint32()>>(32-8*d.Size()))
		if v-v == 0 {
			return v
		}
	}
}

func fill(K int, f func() float32) []float32 {
	x := make([]float32, K)
	for i := range x {
		x[i] = f()
	}
	return x
}

var draws = map[string]draw{
	"normal": func(r *rand.Rand, d num.DType, K int) (a, b []float32, init float32) {
		f := func() float32 { return num.Round(d, float32(r.NormFloat64())) }
		return fill(K, f), fill(K, f), float32(r.NormFloat64())
	},
	"integers": func(r *rand.Rand, d num.DType, K int) (a, b []float32, init float32) {
		f := func() float32 { return float32(r.IntN(17) - 8) }
		return fill(K, f), fill(K, f), f()
	},
	"all patterns": func(r *rand.Rand, d num.DType, K int) (a, b []float32, init float32) {
		f := func() float32 { return finite(r, d) }
		return fill(K, f), fill(K, f), finite(r, num.F32)
	},
	"largest": func(r *rand.Rand, d num.DType, K int) (a, b []float32, init float32) {
		m := float32(num.MaxFinite(d))
		f := func() float32 { return m * float32(1-2*r.IntN(2)) }
		return fill(K, f), fill(K, f), f()
	},
	// The terms cancel in pairs, but for one small product.
	"cancelling": func(r *rand.Rand, d num.DType, K int) (a, b []float32, init float32) {
		f := func() float32 { return num.Round(d, float32(r.NormFloat64()*100)) }
		a, b = fill(K, f), fill(K, f)
		for i := 1; i < K; i += 2 {
			a[i], b[i] = -a[i-1], b[i-1]
		}
		if K > 0 && r.IntN(2) == 0 {
			i := r.IntN(K)
			a[i] = num.Round(d, a[i]*(1+0x1p-7))
		}
		r.Shuffle(K, func(i, j int) { a[i], a[j], b[i], b[j] = a[j], a[i], b[j], b[i] })
		return a, b, 0
	},
	// Exponents so far apart that neither integers nor two float64 hold the sum.
	"wide": func(r *rand.Rand, d num.DType, K int) (a, b []float32, init float32) {
		low, high := -100, 100
		if d == num.F16 {
			low, high = -20, 14
		}
		f := func() float32 {
			return num.Round(d, float32(math.Ldexp(1+r.Float64(), low+r.IntN(high-low))))
		}
		a, b = fill(K, f), fill(K, f)
		for i := 1; i < K; i += 2 {
			a[i], b[i] = -a[i-1], b[i-1]
		}
		if K > 2 {
			a[K-1], b[K-1] = f(), f()
		}
		return a, b, f() * float32(r.IntN(2))
	},
}

// tie makes operands whose exact sum is halfway between two values of out, or misses
// that by 2^miss (0: not at all), the first term being ±2^lead and later cancelled.
func tie(r *rand.Rand, out num.DType, lead, miss int) (a, b []float32, init float32) {
	i := num.Index(out, num.Narrow(out, float32(1+r.Float64()*100)))
	v := num.Widen(out, num.FromIndex(out, i))
	half := float32(num.ULP(out, float64(v)) / 2)
	sign := float32(1 - 2*r.IntN(2))
	a, b = []float32{v, half}, []float32{sign, sign}
	if miss != 0 {
		a, b = append(a, float32(math.Ldexp(sign2(r), miss/2))), append(b, float32(math.Ldexp(1, miss-miss/2)))
	}
	if lead != 0 {
		x := float32(math.Ldexp(1, lead/2))
		a, b = append(a, x, -x), append(b, x, x)
	}
	r.Shuffle(len(a), func(i, j int) { a[i], a[j], b[i], b[j] = a[j], a[i], b[j], b[i] })
	return a, b, 0
}

func sign2(r *rand.Rand) float64 { return float64(1 - 2*r.IntN(2)) }

// checkAll holds every step of the ladder, not only the deciding one, to the slow sum.
func checkAll(t *testing.T, a, b []float32, init float32, counts map[Step]int) {
	t.Helper()
	exact := slowSum(a, b, init)
	rat := func(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }

	p := Float64(a, b, init)
	abs := new(big.Rat).Abs(rat(float64(init)))
	for i := range a {
		abs.Add(abs, new(big.Rat).Abs(rat(float64(a[i])*float64(b[i]))))
	}
	K := float64(len(a))
	if d := new(big.Rat).Sub(rat(p.Sum), exact); d.Abs(d).Cmp(rat(p.Err)) > 0 {
		t.Fatalf("Float64: off by more than Err %g: %v %v %v", p.Err, a, b, init)
	}
	if rat(p.Abs).Cmp(abs) < 0 || p.Err > K*0x1.00001p-53*p.Abs {
		t.Fatalf("Float64: Abs %g Err %g, want Abs >= %s", p.Abs, p.Err, abs.FloatString(40))
	}
	if limit := new(big.Rat).Mul(abs, rat(1+(K+4)*0x1p-51)); rat(p.Abs).Cmp(limit) > 0 {
		t.Fatalf("Float64: Abs %g is too large", p.Abs)
	}

	g := newGrid(a, b, init)
	if g.holds(p) && rat(p.Sum).Cmp(exact) != 0 {
		t.Fatalf("the grid holds, but the sum is not exact: %v %v %v", a, b, init)
	}
	wide := make([]float64, len(a))
	wideB := make([]float64, len(a))
	for i := range a {
		wide[i], wideB[i] = float64(a[i]), float64(b[i])
	}
	if z := Big(a, b, init); !sameValue(z, exact) {
		t.Fatalf("Big: %v, want %v", z, exact)
	}
	sum, isTwoAdic := twoAdic(a, b, init, p, g)
	high, low, rad := doubleDouble(a, b, init, p.Abs)
	if d := new(big.Rat).Sub(exact, rat(high)); d.Sub(d, rat(low)).Abs(d).Cmp(rat(rad)) > 0 || rad > (K+4)*(K+4)*0x1p-103*p.Abs {
		t.Fatalf("double-double: %x %x ± %g, want %s: a=%v b=%v init=%v", high, low, rad, exact.FloatString(60), a, b, init)
	}
	lo, hi := oddSum(high, low-rad), oddSum(high, low+rad)
	for _, d := range num.FloatDTypes {
		want := slowRound(d, exact)
		got, step := Round(d, a, b, init)
		if got != want {
			t.Fatalf("Round(%v) = %#x by %v, want %#x: a=%v b=%v init=%v", d, got, step, want, a, b, init)
		}
		counts[step]++
		if got, step2 := Round(d, wide, wideB, float64(init)); got != want || step2 != step {
			t.Fatalf("Round(%v) of float64 = %#x by %v, want %#x by %v", d, got, step2, want, step)
		}
		if got, ok := p.Round(d); ok && got != want {
			t.Fatalf("Product.Round(%v) = %#x, want %#x", d, got, want)
		}
		if isTwoAdic && num.NarrowF64(d, sum) != want {
			t.Fatalf("two-adic to %v: %#x, want %#x: a=%v b=%v init=%v", d, num.NarrowF64(d, sum), want, a, b, init)
		}
		if l, h := num.NarrowF64(d, lo), num.NarrowF64(d, hi); num.Index(d, l) > num.Index(d, want) || num.Index(d, h) < num.Index(d, want) {
			t.Fatalf("double-double to %v: [%#x, %#x], want %#x: a=%v b=%v init=%v", d, l, h, want, a, b, init)
		}
	}
}

func sameValue(x *big.Float, y *big.Rat) bool {
	z, _ := x.Rat(nil)
	return z.Cmp(y) == 0
}

func TestRound(t *testing.T) {
	lengths := []int{0, 1, 2, 3, 4, 5, 7, 8, 16, 33, 150}
	rounds := testlevel.Pick(2, 6)
	counts := map[Step]int{}
	for name, f := range draws {
		t.Run("data="+name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for _, d := range num.FloatDTypes {
				for _, K := range lengths {
					for range rounds {
						a, b, init := f(r, d, K)
						checkAll(t, a, b, init, counts)
					}
				}
			}
		})
	}
	t.Run("data=ties", func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, out := range num.FloatDTypes {
			for _, lead := range []int{0, 20, 60, 100, 180, 240} {
				for _, miss := range []int{0, -40, -60, -90, -120, -200, -298} {
					for range rounds {
						a, b, init := tie(r, out, lead, miss)
						checkAll(t, a, b, init, counts)
					}
				}
			}
		}
	})
	t.Logf("decided: %v", counts)
	for _, step := range []Step{ByFloat64, ByTwoAdic, ByDoubleDouble, ByBig} {
		if counts[step] < 50 {
			t.Errorf("only %d results decided by %v: %v", counts[step], step, counts)
		}
	}
}

// TestDecided: plain float64 decides f16 and bf16 results of ordinary data always,
// f32 results nearly always.
func TestDecided(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	counts := map[num.DType]map[Step]int{}
	const n, K = 400, 1024
	for range n {
		a, b, _ := draws["normal"](r, num.F16, K)
		for _, d := range num.FloatDTypes {
			if counts[d] == nil {
				counts[d] = map[Step]int{}
			}
			_, step := Round(d, a, b, 0)
			counts[d][step]++
		}
	}
	t.Logf("K=%d: %v", K, counts)
	if counts[num.F16][ByFloat64] != n || counts[num.BF16][ByFloat64] != n || counts[num.F32][ByFloat64] < n*98/100 {
		t.Errorf("undecided by float64: %v", counts)
	}
}

func TestSpecial(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		a, b []float32
		init float32
		want float64
	}{
		{[]float32{1, nan}, []float32{1, 1}, 0, math.NaN()},
		{[]float32{1, 0}, []float32{1, inf}, 0, math.NaN()},
		{[]float32{1, inf}, []float32{1, 2}, 0, math.Inf(1)},
		{[]float32{1, -inf}, []float32{1, 2}, 5, math.Inf(-1)},
		{[]float32{inf, -inf}, []float32{1, 2}, 0, math.NaN()},
		{[]float32{inf, 3}, []float32{1, 2}, -inf, math.NaN()},
		{[]float32{1}, []float32{1}, nan, math.NaN()},
		{[]float32{1}, []float32{1}, -inf, math.Inf(-1)},
		{nil, nil, inf, math.Inf(1)},
	} {
		if z := Big(c.a, c.b, c.init); z != nil {
			t.Errorf("Big(%v, %v, %v) = %v, want nil", c.a, c.b, c.init, z)
		}
		p := Float64(c.a, c.b, c.init)
		if !math.IsInf(p.Err, 1) || !math.IsInf(p.Abs, 1) || p.Ball().Known() {
			t.Errorf("Float64(%v, %v, %v) = %v", c.a, c.b, c.init, p)
		}
		for _, d := range num.FloatDTypes {
			want := num.Canonical(d, num.NarrowF64(d, c.want))
			if got, step := Round(d, c.a, c.b, c.init); got != want || step != BySpecial {
				t.Errorf("Round(%v, %v, %v, %v) = %#x by %v, want %#x", d, c.a, c.b, c.init, got, step, want)
			}
		}
	}
}

// TestZero: an exact zero is +0 however it comes about; underflow keeps its sign.
func TestZero(t *testing.T) {
	negZero := float32(math.Copysign(0, -1))
	for _, c := range []struct {
		a, b []float32
		init float32
		want uint32 // as f32
	}{
		{nil, nil, 0, 0},
		{nil, nil, negZero, 0},
		{[]float32{negZero}, []float32{1}, negZero, 0},
		{[]float32{1, -1}, []float32{3, 3}, 0, 0},
		{[]float32{0x1p100, -0x1p100, 0x1p-100, -0x1p-100}, []float32{1, 1, 1, 1}, 0, 0},
		{[]float32{-0x1p-100}, []float32{0x1p-100}, 0, 0x80000000},
		{[]float32{0x1p-100}, []float32{0x1p-100}, 0, 0},
		{[]float32{-0x1p-75}, []float32{0x1p-75}, 0, 0x80000000}, // a tie with 0
		{[]float32{-0x1p-75, -0x1p-140}, []float32{0x1p-75, 0x1p-140}, 0, 0x80000001},
	} {
		if got, step := Round(num.F32, c.a, c.b, c.init); got != c.want {
			t.Errorf("Round(%v, %v, %v) = %#x by %v, want %#x", c.a, c.b, c.init, got, step, c.want)
		}
	}
}

func TestLengths(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("operands of different length: no panic")
		}
	}()
	Float64([]float32{1, 2}, []float32{1}, 0)
}

func TestRoundBig(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 3000 {
		x := new(big.Float).SetPrec(uint(20 + r.IntN(100))).SetFloat64(r.NormFloat64())
		x.SetMantExp(x, r.IntN(300)-170)
		third := new(big.Float).SetPrec(x.Prec()).Quo(x, big.NewFloat(3))
		for _, y := range []*big.Float{x, third} {
			exact, _ := y.Rat(nil)
			for _, d := range num.FloatDTypes {
				if got, want := RoundBig(d, y), slowRound(d, exact); got != want {
					t.Fatalf("RoundBig(%v, %v) = %#x, want %#x", d, y, got, want)
				}
			}
		}
	}
	one := big.NewFloat(-1)
	for _, d := range num.FloatDTypes {
		sign := uint32(1) << (8*d.Size() - 1)
		if got := RoundBig(d, new(big.Float).SetMantExp(one, -5000)); got != sign {
			t.Errorf("RoundBig(%v, -2^-5000) = %#x", d, got)
		}
		if got, want := RoundBig(d, new(big.Float).SetMantExp(one, 5000)), num.NarrowF64(d, math.Inf(-1)); got != want {
			t.Errorf("RoundBig(%v, -2^5000) = %#x, want %#x", d, got, want)
		}
	}
}
