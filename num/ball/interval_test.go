package ball

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"tokitai/internal/testlevel"
	"tokitai/num"
)

// drawFloat32 is any finite binary32, or a nearby, short, small or common one.
func drawFloat32(r *rand.Rand) float32 {
	switch r.IntN(6) {
	case 0:
		return float32(r.IntN(17) - 8)
	case 1:
		return float32(r.NormFloat64())
	case 2:
		return math.Float32frombits(r.Uint32()&(1<<24-1) | r.Uint32()&(1<<31)) // subnormal, or not far above
	case 3:
		return float32(math.Ldexp(float64(r.IntN(1<<12)), r.IntN(60)-30))
	}
	for {
		if x := math.Float32frombits(r.Uint32()); x-x == 0 {
			return x
		}
	}
}

func drawInterval(r *rand.Rand) Interval {
	x := drawFloat32(r)
	y := drawFloat32(r)
	switch r.IntN(4) {
	case 0:
		y = x
	case 1:
		y = math.Float32frombits(math.Float32bits(x) + r.Uint32()%16)
	}
	if y-y != 0 {
		y = x
	}
	return Interval{float64(min(x, y)), float64(max(x, y))}
}

// inside draws a binary32 from an interval, most often an end.
func inside(r *rand.Rand, a Interval) float32 {
	switch r.IntN(3) {
	case 0:
		return float32(a.Lo)
	case 1:
		return float32(a.Hi)
	}
	lo, hi := num.Index(num.F32, math.Float32bits(float32(a.Lo))), num.Index(num.F32, math.Float32bits(float32(a.Hi)))
	return math.Float32frombits(num.FromIndex(num.F32, lo+r.Int64N(hi-lo+1)))
}

func isIn(x float32, a Interval) bool {
	return !a.Known() || a.Lo <= float64(x) && float64(x) <= a.Hi
}

// steps are the operations that binary32 has, of three operands at most.
var steps = map[string]struct {
	of    func(a, b, c Interval) Interval
	point func(a, b, c float32) float32
}{
	"add":  {func(a, b, _ Interval) Interval { return a.Add(b) }, func(a, b, _ float32) float32 { return a + b }},
	"sub":  {func(a, b, _ Interval) Interval { return a.Sub(b) }, func(a, b, _ float32) float32 { return a - b }},
	"mul":  {func(a, b, _ Interval) Interval { return a.Mul(b) }, func(a, b, _ float32) float32 { return a * b }},
	"div":  {func(a, b, _ Interval) Interval { return a.Div(b) }, func(a, b, _ float32) float32 { return a / b }},
	"sqr":  {func(a, _, _ Interval) Interval { return a.Sqr() }, func(a, _, _ float32) float32 { return a * a }},
	"sqrt": {func(a, _, _ Interval) Interval { return a.Abs().Sqrt() }, func(a, _, _ float32) float32 { return num.Sqrt(max(a, -a)) }},
	"fma":  {func(a, b, c Interval) Interval { return a.Mul(b).Add(c) }, num.FMA},
}

// A step on points has the bits of binary32; on intervals it holds what binary32 makes
// of any points in them, and its ends are results themselves.
func TestIntervalSteps(t *testing.T) {
	n := testlevel.Pick(5000, 50_000)
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(4, 5))
			known := 0
			for range n {
				p, q, s := drawFloat32(r), drawFloat32(r), drawFloat32(r)
				if r.IntN(4) == 0 { // near a tie of the fused multiply-add
					s = -float32(p*q) * (1 + float32(r.IntN(5)-2)*0x1p-23)
				}
				if s-s != 0 {
					continue
				}
				point := func(x float32) Interval { return Interval{float64(x), float64(x)} }
				got, want := step.of(point(p), point(q), point(s)).Nearest(), step.point(p, q, s)
				if isFinite := want-want == 0; got.Known() != isFinite || isFinite && got != point(want) {
					t.Fatalf("%s of %x, %x, %x: got %v, want %x", name, p, q, s, got, want)
				}

				a, b, c := drawInterval(r), drawInterval(r), drawInterval(r)
				z := step.of(a, b, c).Nearest()
				x, y, w := inside(r, a), inside(r, b), inside(r, c)
				if v := step.point(x, y, w); !isIn(v, z) {
					t.Fatalf("%s of %v, %v, %v: %v is not in %v", name, x, y, w, v, z)
				}
				if !z.Known() {
					continue
				}
				known++
				isLow, isHigh := false, false
				ends := func(a Interval) []float32 {
					if name == "sqr" || name == "sqrt" {
						a = a.Abs()
					}
					return []float32{float32(a.Lo), float32(a.Hi)}
				}
				for _, x := range ends(a) {
					for _, y := range ends(b) {
						for _, w := range ends(c) {
							v := float64(step.point(x, y, w))
							isLow, isHigh = isLow || v == z.Lo, isHigh || v == z.Hi
						}
					}
				}
				if !isLow || !isHigh {
					t.Fatalf("%s of %v, %v, %v: an end of %v is no result", name, a, b, c, z)
				}
			}
			if known < n/10 {
				t.Errorf("only %d of %d results known", known, n)
			}
		})
	}
}

// Operations that are not rounded enclose the real operation.
func TestIntervalEncloses(t *testing.T) {
	n := testlevel.Pick(100, 2000)
	ofInterval, ofBig := unary[Interval](), unary[Big]()
	for _, name := range []string{"neg", "abs", "rsqrt", "exp", "exp2", "expm1", "log", "log2", "log1p", "erf", "erfcx", "sin", "cos", "tanh", "sigmoid", "scale"} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(6, 7))
			known := 0
			for range n {
				a := drawInterval(r)
				if r.IntN(2) == 0 {
					a = Interval{r.NormFloat64(), 0}
					a.Hi = a.Lo + math.Abs(r.NormFloat64())*math.Ldexp(1, -r.IntN(40))
				}
				z := ofInterval[name](a)
				if !z.Known() {
					continue
				}
				known++
				for _, x := range []float64{a.Lo, a.Hi, a.Lo + (a.Hi-a.Lo)*r.Float64()} {
					if x < a.Lo || x > a.Hi || !inDomain(name, NewBig(x, 200)) {
						continue
					}
					y := cutWave(name, ofBig[name](NewBig(x, 200)))
					if !encloses(z.Ball(), y) {
						t.Fatalf("%s(%v) = %v does not enclose %s(%v) = %v", name, a, z, name, x, y)
					}
				}
			}
			if known < n/10 {
				t.Errorf("only %d of %d results known", known, n)
			}
		})
	}
}

func TestIntervalSum(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for trial := range 300 {
		terms := make([]Interval, r.IntN(200))
		lo, hi := new(big.Float).SetPrec(2000), new(big.Float).SetPrec(2000)
		abs := 0.0
		for i := range terms {
			terms[i] = drawInterval(r)
			lo.Add(lo, big.NewFloat(terms[i].Lo))
			hi.Add(hi, big.NewFloat(terms[i].Hi))
			abs += max(-terms[i].Lo, terms[i].Hi)
		}
		z := Interval{}.Sum(terms)
		if lo.Cmp(big.NewFloat(z.Lo)) < 0 || hi.Cmp(big.NewFloat(z.Hi)) > 0 {
			t.Fatalf("trial %d: %v does not contain [%g, %g]", trial, z, lo, hi)
		}
		exactLo, _ := lo.Float64()
		exactHi, _ := hi.Float64()
		if slack := 0x1p-50*max(math.Abs(exactLo), math.Abs(exactHi)) + 0x1p-80*abs; exactLo-z.Lo > slack || z.Hi-exactHi > slack {
			t.Fatalf("trial %d: %v is wider than float64 allows around [%g, %g]", trial, z, lo, hi)
		}
	}
}

func TestIntervalByHand(t *testing.T) {
	const most = math.MaxFloat32
	unknown := unknownInterval
	for _, test := range []struct {
		name      string
		got, want Interval
	}{
		{"nearest", Interval{1 + 0x1p-24, 1 + 0x1.8p-23}.Nearest(), Interval{1, 1 + 0x1p-22}},
		{"nearest overflows", Interval{1, 0x1p128}.Nearest(), unknown},
		{"inside", Interval{1 + 0x1p-30, 2 - 0x1p-30}.Inside(), Interval{1 + 0x1p-23, 2 - 0x1p-23}},
		{"inside, binary32 already", Interval{-1, 3}.Inside(), Interval{-1, 3}},
		{"inside, negative", Interval{-2 + 0x1p-30, -1 - 0x1p-30}.Inside(), Interval{-2 + 0x1p-23, -1 - 0x1p-23}},
		{"inside, around zero", Interval{-0x1p-160, 0x1p-160}.Inside(), Interval{0, 0}},
		{"inside, none", Interval{1 + 0x1p-30, 1 + 0x1p-29}.Inside(), Interval{1, 1}},
		{"inside, largest", Interval{-most, most}.Inside(), Interval{-most, most}},
		{"inside, beyond", Interval{0, most * (1 + 0x1p-40)}.Inside(), unknown},
		{"inside, unknown", unknown.Inside(), unknown},
		{"widen by nothing", Interval{1, 2}.Widen(0, 0), Interval{1, 2}},
		{"divide by zero", Interval{1, 1}.Div(Interval{0, 1}), unknown},
		{"divide by negative", Interval{1, 2}.Div(Interval{-2, -1}), Interval{-2, -0.5}},
		{"zero times unknown", Interval{}.Mul(unknown), unknown},
		{"root of part below zero", Interval{-1, 4}.Sqrt(), Interval{0, 2}},
		{"root below zero", Interval{-2, -1}.Sqrt(), unknown},
		{"square across zero", Interval{-3, 2}.Sqr(), Interval{0, 9}},
		{"absolute value across zero", Interval{-3, 2}.Abs(), Interval{0, 3}},
		{"maximum", Interval{-3, 2}.Max(Interval{0, 1}), Interval{0, 2}},
		{"minimum", Interval{-3, 2}.Min(Interval{0, 1}), Interval{-3, 1}},
		{"maximum with unknown", Interval{-3, 2}.Max(unknown), unknown},
		{"hull", Interval{1, 2}.Hull(Interval{5, 6}), Interval{1, 6}},
		{"infinity", Interval{}.FromFloat64(math.Inf(1)), unknown},
	} {
		if got := fmt.Sprint(test.got); got != fmt.Sprint(test.want) {
			t.Errorf("%s: got %v, want %v", test.name, test.got, test.want)
		}
	}
	w := Interval{-1, 0x1p-3}.Widen(0x1p-4, 0x1p-10)
	for _, end := range [][2]float64{{w.Lo, -1 - 0x1p-4 - 0x1p-10}, {w.Hi, 0x1p-3 + 0x1p-7 + 0x1p-10}} {
		if d := math.Abs(end[0]) - math.Abs(end[1]); !(0 <= d && d <= 0x1p-45) {
			t.Errorf("widened to %v, want just beyond %v", end[0], end[1])
		}
	}
	for _, test := range []struct {
		a, b                Interval
		less, lessEq, equal Truth
	}{
		{Interval{1, 2}, Interval{3, 4}, Yes, Yes, No},
		{Interval{1, 2}, Interval{2, 4}, Maybe, Yes, Maybe},
		{Interval{2, 2}, Interval{2, 2}, No, Yes, Yes},
		{Interval{1, 2}, Interval{1, 2}, Maybe, Maybe, Maybe},
		{Interval{2, 3}, Interval{1, 2}, No, Maybe, Maybe},
		{Interval{3, 4}, Interval{1, 2}, No, No, No},
		{unknown, Interval{1, 2}, Maybe, Maybe, Maybe},
	} {
		if test.a.Less(test.b) != test.less || test.a.LessEq(test.b) != test.lessEq || test.a.Equal(test.b) != test.equal {
			t.Errorf("%v and %v: got %v %v %v", test.a, test.b, test.a.Less(test.b), test.a.LessEq(test.b), test.a.Equal(test.b))
		}
	}
	lo, hi := unknown.Bounds()
	if !math.IsInf(lo, -1) || !math.IsInf(hi, 1) || unknown.Ball().Known() {
		t.Errorf("unknown lies between %v and %v, in the ball %v", lo, hi, unknown.Ball())
	}
	if lo, _ := (Interval{math.Copysign(0, -1), 1}).Bounds(); math.Signbit(lo) {
		t.Error("an end that is zero is -0")
	}
}

// Ends that are not exact are odd in their last bit, and the exact number lies between
// them and their neighbour toward zero or away from it.
func TestIntervalRoundsToOdd(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 11))
	exact := func() *big.Float { return new(big.Float).SetPrec(600) }
	for range 20_000 {
		x, y := float64(drawFloat32(r)), float64(drawFloat32(r))
		if x == 0 || y == 0 {
			continue
		}
		a, b := Interval{x, x}, Interval{y, y}
		bigX, bigY := big.NewFloat(x), big.NewFloat(y)
		for _, test := range []struct {
			name string
			got  Interval
			want *big.Float
		}{
			{"sum", a.Add(b), exact().Add(bigX, bigY)},
			{"difference", a.Sub(b), exact().Sub(bigX, bigY)},
			{"product", a.Mul(b), exact().Mul(bigX, bigY)},
			{"quotient", a.Div(b), exact().Quo(bigX, bigY)},
			{"root", a.Abs().Sqrt(), exact().Sqrt(new(big.Float).Abs(bigX))},
		} {
			cut := new(big.Float).SetPrec(53).SetMode(big.ToZero).Set(test.want)
			want, _ := cut.Float64()
			if cut.Cmp(test.want) != 0 {
				want = math.Float64frombits(math.Float64bits(want) | 1)
			}
			if test.got != (Interval{want, want}) {
				t.Fatalf("%s of %x and %x: got %v, want %x", test.name, x, y, test.got, want)
			}
		}
	}
}
