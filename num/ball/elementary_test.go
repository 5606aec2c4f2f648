package ball

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"tokitai/internal/testlevel"
)

// elementary lists the float64 functions with their proven bounds, the independent
// evaluation at any precision, and where to look.
var elementary = []struct {
	name  string
	point func(float64) float64
	bound float64
	big   func(*big.Float, uint) *big.Float
	draw  func(*rand.Rand) float64
}{
	{"exp", pointExp, expErr, bigExp, drawExponent(expMin, expMax)},
	{"expm1", pointExpm1, expm1Err, bigExpm1, drawExponent(expMin, expMax)},
	{"log", pointLog, logErr, bigLog, drawLog},
	{"exp2", pointExp2, expErr, midOf(bigExp2At), drawExp2},
	{"log2", pointLog2, log2Err, midOf(bigLog2At), drawLog},
	{"log1p", pointLog1p, log1pErr, midOf(bigLog1pAt), drawLog1p},
	{"sin", func(x float64) float64 { y, _, _ := pointSinCos(x); return y }, sinErr, midOf(bigSinAt), drawAngle},
	{"cos", func(x float64) float64 { _, y, _ := pointSinCos(x); return y }, cosErr, midOf(bigCosAt), drawAngle},
	{"erf", pointErf, erfErr, bigErf, drawErf},
	{"erfcx", pointErfcx, erfcxErr, bigErfcx, drawErfcx},
	{"tanh", pointTanh, tanhErr, bigTanh, drawExponent(-22, 22)},
	{"sigmoid", func(x float64) float64 { y, _ := pointSigmoid(x); return y }, sigmoidErr, bigSigmoid, drawExponent(-700, 700)},
}

// midOf is the midpoint of an enclosure at an exact point.
func midOf(at bigAt) func(*big.Float, uint) *big.Float {
	return func(x *big.Float, p uint) *big.Float { return at(x, p+2).Mid() }
}

func bigSinAt(x *big.Float, p uint) Big { return Big{mid: x, prec: p}.Sin() }
func bigCosAt(x *big.Float, p uint) Big { return Big{mid: x, prec: p}.Cos() }

// nudge moves x by a few units in the last place.
func nudge(r *rand.Rand, x float64) float64 {
	return math.Float64frombits(math.Float64bits(x) + uint64(r.IntN(9)) - 4)
}

// drawExponent mixes arguments of exp in [lo, hi]: uniform, small, tiny, and beside
// the points where the reduction changes its table entry, worst near 0.
func drawExponent(lo, hi float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 {
		var x float64
		switch r.IntN(5) {
		case 0:
			x = lo + r.Float64()*(hi-lo)
		case 1:
			x = r.NormFloat64()
		case 2:
			x = math.Ldexp(r.Float64()-0.5, -r.IntN(80))
		case 3:
			x = nudge(r, (float64(r.IntN(41)-20)+0.5)*math.Ln2/64)
		case 4:
			x = nudge(r, (math.Floor(lo+r.Float64()*(hi-lo))+0.5)*math.Ln2/64)
		}
		return max(lo, min(x, hi))
	}
}

// drawLog mixes arguments of log: all magnitudes, near 1, beside the borders of the
// table, subnormal.
func drawLog(r *rand.Rand) float64 {
	switch r.IntN(5) {
	case 0:
		return math.Ldexp(1+r.Float64(), r.IntN(2046)-1022)
	case 1:
		return 1 + math.Ldexp(r.Float64()-0.5, -r.IntN(50))
	case 2:
		return nudge(r, (float64(90+r.IntN(93))+0.5)/128)
	case 3:
		return nudge(r, 1+math.Ldexp(float64(r.IntN(3)-1), -8))
	}
	return math.Ldexp(r.Float64()+0x1p-20, -1022-r.IntN(40))
}

// drawExp2 mixes arguments of exp2 as drawExponent does; its reduction changes at odd
// multiples of 1/128.
func drawExp2(r *rand.Rand) float64 {
	if r.IntN(2) == 0 {
		return drawExponent(exp2Min, exp2Max)(r)
	}
	return nudge(r, float64(2*r.IntN(1<<r.IntN(17))+1)/128) * float64(2*r.IntN(2)-1) / 2
}

// drawLog1p mixes arguments of log1p: those of log less 1, all magnitudes, and beside
// the end of the series.
func drawLog1p(r *rand.Rand) float64 {
	switch r.IntN(4) {
	case 0:
		return max(drawLog(r)-1, -1+0x1p-53)
	case 1:
		return nudge(r, math.Ldexp(float64(2*r.IntN(2)-1), -8))
	case 2:
		return math.Ldexp(1+r.Float64(), r.IntN(2046)-1022)
	}
	return math.Ldexp(r.Float64()*2-1, -r.IntN(60))
}

// drawErf mixes arguments of erf: all magnitudes, and beside the borders of the table.
func drawErf(r *rand.Rand) float64 {
	if r.IntN(3) == 0 {
		return nudge(r, (float64(r.IntN(100))+0.5)/16) * float64(2*r.IntN(2)-1)
	}
	return drawExponent(-6.5, 6.5)(r)
}

// drawErfcx mixes arguments of erfcx: all magnitudes, and below the end of the exponential form.
func drawErfcx(r *rand.Rand) float64 {
	switch r.IntN(3) {
	case 0:
		return 1.5 - r.Float64()/16
	case 1:
		return max(-1, drawErf(r))
	}
	return math.Ldexp(1+r.Float64(), r.IntN(40)-20)
}

// drawAngle mixes arguments of sine and cosine: small, anywhere in the range, beside odd
// multiples of π/4, where the reduction changes, and binary32 near multiples of π/2. Within 2^-40 of a
// zero, which none of these is, the absolute error of the reduction would show.
func drawAngle(r *rand.Rand) float64 {
	turns := float64(r.IntN(1<<r.IntN(20))) * float64(2*r.IntN(2)-1)
	switch r.IntN(5) {
	case 0:
		return math.Ldexp(r.Float64()*2-1, -r.IntN(80))
	case 1:
		return waveLimit * (r.Float64()*2 - 1)
	case 2:
		return nudge(r, (turns+0.5)*math.Pi/2)
	case 3:
		return float64(float32(turns * math.Pi / 2))
	}
	return r.NormFloat64()
}

// relErr is |y-z|/|z|.
func relErr(y float64, z *big.Float) float64 {
	d := new(big.Float).SetPrec(53).Sub(new(big.Float).SetFloat64(y), z)
	q, _ := d.Quo(d, z).Float64()
	return math.Abs(q)
}

// TestElementary measures the worst error of each function and holds it to the
// proven bound.
func TestElementary(t *testing.T) {
	for _, f := range elementary {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			n := testlevel.Pick(5_000, 100_000)
			r := rand.New(rand.NewPCG(1, uint64(len(f.name))))
			worst, where := 0.0, 0.0
			for range n {
				x := f.draw(r)
				if x == 0 || (f.name == "log" || f.name == "log2") && x == 1 {
					continue
				}
				z := f.big(new(big.Float).SetFloat64(x), 70)
				e := relErr(f.point(x), z)
				if math.Abs(f.point(x)) < 0x1p-1022 {
					continue // the bounds are for normal results
				}
				if e > worst || e != e {
					worst, where = e, x
				}
			}
			t.Logf("points=%d worst=2^%.2f bound=2^%.2f at x=%x", n, math.Log2(worst), math.Log2(f.bound), where)
			if !(worst <= f.bound) {
				t.Errorf("relative error %g at x=%x (%g), bound %g", worst, where, where, f.bound)
			}
			if worst < f.bound/16 {
				t.Errorf("worst error %g is far below the bound %g: points or bound are wrong", worst, f.bound)
			}
		})
	}
}

// TestExpRange: the ends of the proven range, and beyond.
func TestExpRange(t *testing.T) {
	for _, x := range []float64{-1e308, -701, -700.0000000000001, -700, -699.9, 708.9, 709} {
		checkAt(t, "exp", FromFloat64(x).Exp(), NewBig(max(x, -1e6), 200).Exp())
		checkAt(t, "expm1", FromFloat64(x).Expm1(), NewBig(max(x, -1e6), 200).Expm1())
		checkAt(t, "sigmoid", FromFloat64(x).Sigmoid(), NewBig(max(x, -1e6), 200).Sigmoid())
		checkAt(t, "sigmoid", FromFloat64(-x).Sigmoid(), NewBig(-max(x, -1e6), 200).Sigmoid())
		checkAt(t, "tanh", FromFloat64(x).Tanh(), NewBig(max(x, -1e5), 200).Tanh())
	}
	for _, x := range []float64{-1e308, -1010, -1009.0000000000001, -1009, -1008.9, -1e-300, 1022.9, 1023} {
		checkAt(t, "exp2", FromFloat64(x).Exp2(), NewBig(max(x, -1e6), 200).Exp2())
	}
	for _, x := range []float64{-1e308, -26, -6.000001, -6, 5.999999, 6, 7, 100, 1e300, 0x1p-1074, -0x1p-1020} {
		checkAt(t, "erf", FromFloat64(x).Erf(), NewBig(x, 200).Erf())
	}
	for _, x := range []float64{-1 + 0x1p-53, 0x1p-1074, -0x1p-1074, 0x1p-300, 1e308, math.MaxFloat64} {
		checkAt(t, "log1p", FromFloat64(x).Log1p(), NewBig(x, 200).Log1p())
	}
	if b := FromFloat64(709.5).Exp(); b.Known() {
		t.Errorf("exp(709.5) = %v, want unknown", b)
	}
	// Wide balls go by their endpoints.
	wide := Ball{-1000, 1003}
	lo, hi := wide.Exp().Bounds()
	if lo > 0 || lo < -1e-10 || hi < math.Exp(3) || hi > math.Exp(3)*1.0001 {
		t.Errorf("exp([-2003, 3]) in [%g, %g]", lo, hi)
	}
}

// TestWaves checks sine and cosine near their zeros, over intervals with and without
// extrema, and for arguments so large that float64 can only return [-1, 1].
func TestWaves(t *testing.T) {
	r := rand.New(rand.NewPCG(40, 41))
	for k := range 3000 {
		x := nudge(r, float64(k*k)*math.Pi/2) // up to 2^20 and beyond
		checkAt(t, "sin", FromFloat64(x).Sin(), cutWave("sin", NewBig(x, 200).Sin()))
		checkAt(t, "cos", FromFloat64(x).Cos(), cutWave("cos", NewBig(x, 200).Cos()))
		if z := FromFloat64(x).Sin(); math.Abs(x) < waveLimit && z.Rad > math.Abs(z.Mid)*0x1p-45+0x1p-95 {
			t.Fatalf("sin(%x) = %v: too wide", x, z)
		}
	}
	// Next to zeros far out, where the error of the reduction is what counts.
	half, near := Pi(200), 0
	half.SetMantExp(half, -1)
	for k := 400_001; k < 660_000; k += 2 {
		x, _ := newMid(200).Mul(half, newMid(64).SetInt64(int64(k))).Float64()
		if z := FromFloat64(x).Cos(); math.Abs(z.Mid) < float64(k)*0x1p-67 {
			checkAt(t, "cos", z, NewBig(x, 200).Cos())
			near++
		}
	}
	if near < 5 {
		t.Errorf("only %d arguments are that close to a zero", near)
	}
	for _, x := range []float64{waveLimit, -waveLimit, math.Nextafter(waveLimit, math.Inf(1)), 1e22, -0x1p1000, math.MaxFloat64, 0x1p-1074, -0x1p-600} {
		checkAt(t, "sin", FromFloat64(x).Sin(), cutWave("sin", NewBig(x, 200).Sin()))
		checkAt(t, "cos", FromFloat64(x).Cos(), cutWave("cos", NewBig(x, 200).Cos()))
	}
	if z := FromFloat64(1e22).Cos(); z != everyWave {
		t.Errorf("cos(1e22) in float64 is %v, want [-1, 1]", z)
	}
	// sin(10^22), a well-known touchstone of the reduction.
	want, _, err := big.ParseFloat("-0.852200849767188801773", 10, 120, big.ToNearestEven)
	if z := NewBig(1e22, 100).Sin(); err != nil || z.Sub(BigFromFloat(want, 120)).Abs().Less(NewBig(1e-20, 100)) != Yes {
		t.Errorf("sin(1e22) = %v, want %v", z, want)
	}
	if z := NewBig(1, 100).Scale2(bigWaveLimit).Sin(); !z.Known() || z.r().Cmp(one) != 0 {
		t.Errorf("sin(2^4096) = %v, want [-1, 1]", z)
	}
	for _, test := range []struct{ lo, hi, sinLo, sinHi, cosLo, cosHi float64 }{
		{1, 2, math.Sin(1), 1, math.Cos(2), math.Cos(1)},
		{1, 1.5, math.Sin(1), math.Sin(1.5), math.Cos(1.5), math.Cos(1)},
		{2, 4, math.Sin(4), math.Sin(2), -1, math.Cos(2)},
		{-1, 2, math.Sin(-1), 1, math.Cos(2), 1},
		{4, 7, -1, math.Sin(7), math.Cos(4), 1},
		{1, 5, -1, 1, -1, math.Cos(1)},
		{-7, -1, -1, 1, -1, 1},
		{0, 7, -1, 1, -1, 1},
		{1000, 1000.5, math.Sin(1000), math.Sin(1000.5), math.Cos(1000.5), math.Cos(1000)},
		{-1e9, 1e9, -1, 1, -1, 1},
		{1e9, 1e9 + 1, -1, 1, -1, 1},
	} {
		for kind, got := range map[string][2]Interval{
			"interval": {Interval{test.lo, test.hi}.Sin(), Interval{test.lo, test.hi}.Cos()},
			"ball":     {ends(between(test.lo, test.hi).Sin()), ends(between(test.lo, test.hi).Cos())},
			"big":      {ends(toBig(between(test.lo, test.hi)).Sin()), ends(toBig(between(test.lo, test.hi)).Cos())},
		} {
			for i, want := range []Interval{{test.sinLo, test.sinHi}, {test.cosLo, test.cosHi}} {
				const slack = 0x1p-29 // radii of a Big have 32 bits
				if z := got[i]; z.Lo > want.Lo+0x1p-51 || z.Hi < want.Hi-0x1p-51 || z.Lo < want.Lo-slack || z.Hi > want.Hi+slack {
					t.Errorf("%s of [%g, %g], %d: got %v, want %v", kind, test.lo, test.hi, i, z, want)
				}
			}
		}
	}
}

func ends[T Number[T]](z T) Interval { return interval(z.Bounds()) }

func checkAt(t *testing.T, name string, b Ball, truth Big) {
	t.Helper()
	if !b.Known() || !encloses(b, truth) {
		t.Errorf("%s: %v does not enclose %v", name, b, truth)
	}
}
