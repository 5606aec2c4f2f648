package ball

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"tokitai/internal/testlevel"
)

// encloses reports whether all of z lies in b, in exact arithmetic.
func encloses(b Ball, z Big) bool {
	if !b.Known() {
		return true
	}
	if !z.Known() {
		return false
	}
	const prec = 4500 // holds any difference of float64 numbers and 400-bit midpoints near them
	d := newMid(prec).Sub(z.m(), new(big.Float).SetFloat64(b.Mid))
	d.Abs(d)
	return d.Add(d, z.r()).Cmp(new(big.Float).SetFloat64(b.Rad)) <= 0
}

// operations is every operation of Number, with one or two operands.
func unary[T Number[T]]() map[string]func(T) T {
	return map[string]func(T) T{
		"neg": T.Neg, "abs": T.Abs, "sqr": T.Sqr, "sqrt": T.Sqrt, "recip": T.Recip, "rsqrt": T.Rsqrt,
		"exp": T.Exp, "expm1": T.Expm1, "log": T.Log, "tanh": T.Tanh, "sigmoid": T.Sigmoid,
		"exp2": T.Exp2, "log2": T.Log2, "log1p": T.Log1p, "sin": T.Sin, "cos": T.Cos, "erf": T.Erf, "erfcx": T.Erfcx,
		"scale": func(x T) T { return x.Scale2(-3) },
	}
}

func pairs[T Number[T]]() map[string]func(T, T) T {
	return map[string]func(T, T) T{
		"add": T.Add, "sub": T.Sub, "mul": T.Mul, "div": T.Div, "min": T.Min, "max": T.Max,
		"sum": func(x, y T) T { return x.Sum([]T{y, x, y}) },
	}
}

// drawBall: midpoints of moderate or extreme size, radii from 0 to beyond |mid|.
func drawBall(r *rand.Rand, isExtreme bool) Ball {
	spread := 12
	if isExtreme {
		spread = 1040
	}
	b := Ball{Mid: math.Ldexp(r.Float64()*2-1, r.IntN(2*spread)-spread)}
	switch r.IntN(8) {
	case 0:
		b.Mid = float64(r.IntN(9) - 4)
	case 1:
		b.Mid = math.Abs(b.Mid)
	case 2:
		b.Mid = 1 + math.Ldexp(r.Float64()-0.5, -r.IntN(52))
	}
	switch r.IntN(6) {
	case 0:
	case 1:
		b.Rad = math.Abs(b.Mid) * math.Ldexp(r.Float64(), -r.IntN(60))
	case 2:
		b.Rad = math.Ldexp(r.Float64(), r.IntN(2*spread)-spread)
	case 3:
		b.Rad = math.Abs(b.Mid)
	default:
		b.Rad = math.Abs(b.Mid) * math.Ldexp(r.Float64(), -r.IntN(6))
	}
	return b
}

// drawPoint is an exact point of b, most often an end.
func drawPoint(r *rand.Rand, b Ball, prec uint) Big {
	t := []float64{-1, 1, -1, 1, 0, r.Float64()*2 - 1}[r.IntN(6)]
	t = math.Round(t*1024) / 1024
	wide := NewBig(b.Mid, 2200).Add(NewBig(t, 2200).Mul(NewBig(b.Rad, 2200)))
	return Big{mid: wide.m(), prec: 2200}.at(prec)
}

// at lets a work at prec bits if its midpoint fits, else at its own precision.
func (a Big) at(prec uint) Big {
	if a.m().MinPrec() <= prec {
		return Big{mid: newMid(prec).Set(a.m()), rad: a.rad, prec: prec}
	}
	return a
}

// inDomain says where the point functions of Big are defined.
func inDomain(name string, x Big) bool {
	switch name {
	case "sqrt":
		return x.m().Sign() >= 0
	case "erfcx":
		return x.m().Cmp(newMid(64).SetInt64(-1)) >= 0
	case "log", "log2", "rsqrt":
		return x.m().Sign() > 0
	case "log1p":
		return x.m().Cmp(newMid(64).SetInt64(-1)) > 0
	case "recip":
		return x.m().Sign() != 0
	}
	return true
}

// cutWave takes from an enclosure of a sine or cosine what lies beyond ±1: a ball that
// ends there may be right all the same.
func cutWave(name string, y Big) Big {
	if lo, hi := y.ends(); (name == "sin" || name == "cos") && (hi.Cmp(one) > 0 || lo.Cmp(newMid(64).Neg(one)) < 0) {
		return NewBig(float64(y.m().Sign()), y.prec)
	}
	return y
}

// TestBallEncloses: every operation on balls encloses the operation on points of
// them, evaluated at 200 bits or more.
func TestBallEncloses(t *testing.T) {
	n := testlevel.Pick(200, 4000)
	ballUnary, bigUnary := unary[Ball](), unary[Big]()
	ballBinary, bigBinary := pairs[Ball](), pairs[Big]()
	for _, isExtreme := range []bool{false, true} {
		for name, f := range ballUnary {
			t.Run(fmt.Sprintf("op=%s/extreme=%v", name, isExtreme), func(t *testing.T) {
				r := rand.New(rand.NewPCG(2, 3))
				known := 0
				for range n {
					b := drawBall(r, isExtreme)
					z := f(b)
					if !z.Known() {
						continue
					}
					known++
					x := drawPoint(r, b, 200)
					if !inDomain(name, x) {
						continue
					}
					if x.prec > 200 {
						x = x.at(x.m().MinPrec() + 60)
						if name != "neg" && name != "abs" && name != "sqr" && name != "scale" && x.prec > 600 {
							continue
						}
					}
					if y := cutWave(name, bigUnary[name](x)); !encloses(z, y) {
						t.Fatalf("%s(%v) = %v does not enclose %s(%v) = %v", name, b, z, name, x, y)
					}
				}
				if known < n/20 {
					t.Errorf("only %d of %d results known", known, n)
				}
			})
		}
		for name, f := range ballBinary {
			t.Run(fmt.Sprintf("op=%s/extreme=%v", name, isExtreme), func(t *testing.T) {
				r := rand.New(rand.NewPCG(4, 5))
				known := 0
				for range n {
					a, b := drawBall(r, isExtreme), drawBall(r, isExtreme)
					if r.IntN(4) == 0 { // cancelling
						b.Mid = nudge(r, -a.Mid)
					}
					z := f(a, b)
					if !z.Known() {
						continue
					}
					known++
					x, y := drawPoint(r, a, 200), drawPoint(r, b, 200)
					if name == "div" && y.m().Sign() == 0 {
						t.Fatalf("%v / %v known, but the divisor contains 0", a, b)
					}
					if w := bigBinary[name](x, y); !encloses(z, w) {
						t.Fatalf("%s(%v, %v) = %v does not enclose %s(%v, %v) = %v", name, a, b, z, name, x, y, w)
					}
				}
				if known < n/20 {
					t.Errorf("only %d of %d results known", known, n)
				}
			})
		}
	}
}

// TestBallTight: on narrow balls the radius exceeds the distance from the image of the
// midpoint to that of an end by little, and on exact operands it is a few units of the
// last place.
func TestBallTight(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 7))
	bigUnary := unary[Big]()
	for name, f := range unary[Ball]() {
		for range 50 {
			a := Ball{Mid: 0.25 + 3*r.Float64()}
			z := f(a)
			if limit := math.Abs(z.Mid)*0x1p-49 + 0x1p-1021; z.Rad > limit {
				t.Errorf("%s(%v) = %v: radius above %g", name, a, z, limit)
			}
			a.Rad = a.Mid * 0x1p-16
			z = f(a)
			reach := 0.0
			for _, end := range []float64{a.Mid - a.Rad, a.Mid + a.Rad} {
				d := bigUnary[name](NewBig(end, 200)).Sub(bigUnary[name](NewBig(a.Mid, 200)))
				reach = max(reach, math.Abs(d.Ball().Mid))
			}
			if z.Rad > reach*1.001 {
				t.Errorf("%s(%v) = %v: radius is %g of what the ends need", name, a, z, z.Rad/reach)
			}
		}
	}
	for name, f := range pairs[Ball]() {
		a, b := Ball{3, 0x1p-20}, Ball{5, 0x1p-20}
		z := f(a, b)
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, x := range []float64{a.Mid - a.Rad, a.Mid + a.Rad} {
			for _, y := range []float64{b.Mid - b.Rad, b.Mid + b.Rad} {
				v := f(Ball{Mid: x}, Ball{Mid: y}).Mid
				lo, hi = min(lo, v), max(hi, v)
			}
		}
		if z.Rad > (hi-lo)/2*1.0001 {
			t.Errorf("%s(%v, %v) = %v: radius is %g of the image", name, a, b, z, z.Rad/((hi-lo)/2))
		}
	}
}

func TestSum(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for _, n := range []int{0, 1, 2, 3, 10, 1000, 4096} {
		for _, kind := range []string{"positive", "cancelling", "wide"} {
			terms := make([]Ball, n)
			points := make([]Big, n)
			rad := 0.0
			for i := range terms {
				x := r.Float64()
				switch kind {
				case "cancelling":
					x = r.NormFloat64()
					if i%2 == 1 {
						x = -terms[i-1].Mid * (1 + 0x1p-50)
					}
				case "wide":
					x = math.Ldexp(r.NormFloat64(), r.IntN(100)-50)
				}
				terms[i] = Ball{x, 0}
				if r.IntN(2) == 0 {
					terms[i].Rad = 0x1p-60 * math.Abs(x)
				}
				rad += terms[i].Rad
				points[i] = NewBig(x, 400).Add(NewBig(terms[i].Rad, 400))
			}
			start := Ball{Mid: 1}
			z, truth := start.Sum(terms), NewBig(1, 400).Sum(points)
			if !encloses(z, truth) {
				t.Errorf("n=%d %s: %v does not enclose %v", n, kind, z, truth)
			}
			if limit := 1.001*rad + 0x1p-51*math.Abs(z.Mid) + 0x1p-70; kind != "wide" && z.Rad > limit {
				t.Errorf("n=%d %s: %v, radius above %g", n, kind, z, limit)
			}
		}
	}
	// Terms that cancel to exactly 0: nothing but the error of the errors is left.
	var terms []Ball
	for range 500 {
		x := math.Ldexp(r.NormFloat64(), r.IntN(60))
		terms = append(terms, Ball{Mid: x}, Ball{Mid: -x})
	}
	for range 100 {
		r.Shuffle(len(terms), func(i, j int) { terms[i], terms[j] = terms[j], terms[i] })
		if z := (Ball{}).Sum(terms); !encloses(z, Big{}) || z.Rad > 1e-6 {
			t.Errorf("cancelling terms: %v does not enclose 0 tightly", z)
		}
	}
	if z := (Ball{}).Sum(make([]Ball, 7)); z != (Ball{}) {
		t.Errorf("sum of zeros is %v", z)
	}
}

// TestUnderflow: operations whose radius underflows on the way.
func TestUnderflow(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 17))
	for range 2000 {
		a := Ball{Mid: float64(1+r.IntN(9)) * least}
		b := Ball{math.Ldexp(1+r.Float64(), -540-r.IntN(4)), math.Ldexp(r.Float64(), -540)}
		z := a.Div(b)
		for _, y := range []Big{NewBig(b.Mid, 200).Add(NewBig(b.Rad, 200)), NewBig(b.Mid, 200).Sub(NewBig(b.Rad, 200))} {
			if w := NewBig(a.Mid, 200).Div(y); z.Known() && !encloses(z, w) {
				t.Fatalf("%v / %v = %v does not enclose %v", a, b, z, w)
			}
		}
	}
	b := Ball{3 * least, 1}
	for _, end := range []float64{1, -1} {
		if z := b.Scale2(-1); !encloses(z, NewBig(b.Mid, 2000).Add(NewBig(end, 2000)).Scale2(-1)) {
			t.Errorf("%v / 2 = %v", b, z)
		}
	}
}

// TestExact: what must stay exact.
func TestExact(t *testing.T) {
	half := Ball{Mid: 0.5}
	for name, got := range map[string]Ball{
		"0+0": Ball{}.Add(Ball{}), "x-x": half.Sub(half), "0*x": Ball{}.Mul(Ball{3, 1}), "x*0": Ball{3, 1}.Mul(Ball{}),
		"0/x": Ball{}.Div(Ball{3, 1}), "sqrt 0": Ball{}.Sqrt(), "0²": Ball{}.Sqr(), "tanh 0": Ball{}.Tanh(),
		"expm1 0": Ball{}.Expm1(), "log 1": Ball{Mid: 1}.Log(), "exp 0 - 1": Ball{}.Exp().Sub(Ball{Mid: 1}),
		"widen 0": Ball{}.Widen(0x1p-24, 0), "log1p 0": Ball{}.Log1p(), "log2 1": Ball{Mid: 1}.Log2(),
		"erf 0": Ball{}.Erf(), "sin 0": Ball{}.Sin(), "cos 0 - 1": Ball{}.Cos().Sub(Ball{Mid: 1}),
		"2^-60 - 2^-60": Ball{Mid: -60}.Exp2().Sub(Ball{Mid: 0x1p-60}), "log2 2^-1074 + 1074": Ball{Mid: least}.Log2().Add(Ball{Mid: 1074}),
	} {
		if got != (Ball{}) {
			t.Errorf("%s = %v, want exactly 0", name, got)
		}
	}
	if got := (Ball{3, 0.5}).Scale2(-7); got != (Ball{3.0 / 128, 0.5 / 128}) {
		t.Errorf("scale: %v", got)
	}
	if got := (Ball{3, 0.5}).Scale2(1100).Scale2(-1100); got.Known() {
		t.Errorf("overflow: %v", got)
	}
	if got := (Ball{0x1p-1000, 0}).Scale2(2000); got != (Ball{0x1p1000, 0}) {
		t.Errorf("scale by 2^2000: %v", got)
	}
	if got := (Ball{3, 0.5}).Scale2(-5000); !got.Known() || got.Rad == 0 || got.Rad > 1e-300 {
		t.Errorf("underflow: %v", got)
	}
	for _, x := range []Big{NewBig(0.5, 100), NewBig(3, 100)} {
		for name, got := range map[string]Big{
			"x-x": x.Sub(x), "x*x/x-x": x.Mul(x).Div(x).Sub(x), "sqrt(x²)-x": x.Sqr().Sqrt().Sub(x),
			"log 1": x.Div(x).Log(), "tanh 0": x.Sub(x).Tanh(), "0*x": Big{}.Mul(x),
			"log1p 0": x.Sub(x).Log1p(), "log2 1": x.Div(x).Log2(), "log2 2^-7 + 7": x.Div(x).Scale2(-7).Log2().Add(NewBig(7, 100)),
			"erf 0": x.Sub(x).Erf(), "sin 0": x.Sub(x).Sin(), "cos 0 - 1": x.Sub(x).Cos().Sub(x.Div(x)),
			"2^-7 - 2^-7": NewBig(-7, 100).Exp2().Sub(NewBig(0x1p-7, 100)),
		} {
			if !got.isZero() {
				t.Errorf("%s = %v, want exactly 0", name, got)
			}
		}
	}
}

// TestUnknown: no information in any operand gives none in the result.
func TestUnknown(t *testing.T) {
	for _, bad := range []Ball{
		FromFloat64(math.NaN()), FromFloat64(math.Inf(1)), FromFloat64(math.Inf(-1)),
		{math.NaN(), 0}, {math.Inf(1), 0}, {math.Inf(-1), 0}, {1, math.Inf(1)}, {1, math.NaN()},
	} {
		for name, f := range unary[Ball]() {
			if z := f(bad); z.Known() {
				t.Errorf("%s(%g, %g) = %v", name, bad.Mid, bad.Rad, z)
			}
		}
		for name, f := range pairs[Ball]() {
			for _, x := range []Ball{{}, {1, 1}, {Mid: -2}} {
				if z := f(bad, x); z.Known() {
					t.Errorf("%s((%g, %g), %v) = %v", name, bad.Mid, bad.Rad, x, z)
				}
				if z := f(x, bad); z.Known() {
					t.Errorf("%s(%v, (%g, %g)) = %v", name, x, bad.Mid, bad.Rad, z)
				}
			}
		}
		if z := bad.Hull(Ball{}); z.Known() {
			t.Errorf("hull: %v", z)
		}
		if z := bad.Widen(1, 1); z.Known() {
			t.Errorf("widen: %v", z)
		}
		if c := bad.Less(Ball{}); c != Maybe {
			t.Errorf("less: %v", c)
		}
		if lo, hi := bad.Bounds(); !math.IsInf(lo, -1) || !math.IsInf(hi, 1) {
			t.Errorf("bounds: %v %v", lo, hi)
		}
	}
	unknownBig := NewBig(math.NaN(), 100)
	for name, f := range unary[Big]() {
		if z := f(unknownBig); z.Known() {
			t.Errorf("big %s: %v", name, z)
		}
	}
	for name, f := range pairs[Big]() {
		if z := f(unknownBig, Big{}); z.Known() {
			t.Errorf("big %s: %v", name, z)
		}
		if z := f(Big{}, unknownBig); z.Known() {
			t.Errorf("big %s: %v", name, z)
		}
	}
	for name, z := range map[string]Ball{
		"1/[-1,1]": Ball{0, 1}.Recip(), "1/[0,2]": Ball{1, 1}.Recip(), "log [0,2]": Ball{1, 1}.Log(),
		"log2 [0,2]": Ball{1, 1}.Log2(), "log1p [-1,1]": Ball{0, 1}.Log1p(), "log1p -2": Ball{Mid: -2}.Log1p(), "2^1024": Ball{Mid: 1024}.Exp2(),
		"sqrt [-3,-1]": Ball{-2, 1}.Sqrt(), "rsqrt [0,2]": Ball{1, 1}.Rsqrt(), "1e308+1e308": Ball{Mid: 1e308}.Add(Ball{Mid: 1e308}),
	} {
		if z.Known() {
			t.Errorf("%s = %v, want unknown", name, z)
		}
	}
	for name, z := range map[string]Big{
		"1/[-1,1]": toBig(Ball{0, 1}).Recip(), "1/[0,2]": toBig(Ball{1, 1}).Recip(), "log [0,2]": toBig(Ball{1, 1}).Log(),
		"log2 [0,2]": toBig(Ball{1, 1}).Log2(), "log1p [-1,1]": toBig(Ball{0, 1}).Log1p(), "log1p -2": toBig(Ball{Mid: -2}).Log1p(),
		"sqrt [-3,-1]": toBig(Ball{-2, 1}).Sqrt(), "rsqrt [0,2]": toBig(Ball{1, 1}).Rsqrt(),
	} {
		if z.Known() {
			t.Errorf("big %s = %v, want unknown", name, z)
		}
	}
}

func toBig(b Ball) Big { return NewBig(b.Mid, 100).plus(upFloat64(b.Rad)) }

func TestSqrtSign(t *testing.T) {
	// The square of a ball never reaches below 0 by more than rounding, whatever the
	// radius: a variance stays a variance.
	for _, rad := range []float64{0, 0.1, 0.5, 1, 1.5, 100} {
		b := Ball{1, rad}
		lo, _ := b.Sqr().Bounds()
		if lo < -1e-14*(1+rad)*(1+rad) {
			t.Errorf("%v² reaches %g", b, lo)
		}
		if z := b.Sqr().Sqrt(); !z.Known() {
			t.Errorf("sqrt(%v²) unknown", b)
		}
		lo, _ = toBig(b).Sqr().Bounds()
		if lo < -1e-9*(1+rad)*(1+rad) {
			t.Errorf("big %v² reaches %g", b, lo)
		}
		lo, hi := b.Abs().Bounds()
		if lo < 0 || hi < 1+rad || hi > (1+rad)*(1+0x1p-50) {
			t.Errorf("|%v| in [%g, %g]", b, lo, hi)
		}
	}
	if lo, hi := (Ball{1, 3}).Sqrt().Bounds(); lo > 0 || lo < -1e-10 || hi < 2 || hi > 2.0001 {
		t.Errorf("sqrt[-2,4] in [%g, %g]", lo, hi)
	}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		a, b                Ball
		less, lessEq, equal Truth
	}{
		{Ball{1, 0}, Ball{2, 0}, Yes, Yes, No},
		{Ball{2, 0}, Ball{1, 0}, No, No, No},
		{Ball{1, 0}, Ball{1, 0}, No, Yes, Yes},
		{Ball{1, 0.5}, Ball{2, 0.25}, Yes, Yes, No},
		{Ball{1, 0.5}, Ball{2, 0.5}, Maybe, Yes, Maybe},
		{Ball{2, 0.5}, Ball{1, 0.5}, No, Maybe, Maybe},
		{Ball{1, 1}, Ball{1.5, 0}, Maybe, Maybe, Maybe},
		{Ball{1, 0x1p-60}, Ball{1, 0}, Maybe, Maybe, Maybe},
		{Ball{1, 0x1p-60}, Ball{1 + 0x1p-51, 0}, Yes, Yes, No},
	} {
		for kind, got := range map[string][3]Truth{
			"ball": {c.a.Less(c.b), c.a.LessEq(c.b), c.a.Equal(c.b)},
			"big":  {toBig(c.a).Less(toBig(c.b)), toBig(c.a).LessEq(toBig(c.b)), toBig(c.a).Equal(toBig(c.b))},
		} {
			if want := [3]Truth{c.less, c.lessEq, c.equal}; got != want {
				t.Errorf("%s: %v, %v: < ≤ = give %v, want %v", kind, c.a, c.b, got, want)
			}
		}
	}
}

// TestEndpoints: outward endpoints enclose, and odd endpoints round like the real ones.
func TestEndpoints(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 11))
	for i := range 5000 {
		b := Ball{math.Ldexp(r.NormFloat64(), r.IntN(40)), math.Ldexp(r.Float64(), -r.IntN(80))}
		if i%2 == 0 { // midpoints between binary32 numbers, just missed
			b.Mid = float64(float32(b.Mid))
			b.Mid += math.Ldexp(1, math.Ilogb(b.Mid)-24)
		}
		exact := NewBig(b.Mid, 2000)
		lo, hi := exact.Sub(NewBig(b.Rad, 2000)), exact.Add(NewBig(b.Rad, 2000))
		for kind, bounds := range map[string]func() (float64, float64){
			"ball": b.Bounds, "big": Big{mid: exact.mid, rad: upFloat64(b.Rad), prec: 2000}.Bounds,
		} {
			l, h := bounds()
			if new(big.Float).SetFloat64(l).Cmp(lo.m()) > 0 || new(big.Float).SetFloat64(h).Cmp(hi.m()) < 0 {
				t.Fatalf("%s: bounds of %v: %x %x", kind, b, l, h)
			}
		}
		wantLo, _ := lo.m().Float32()
		wantHi, _ := hi.m().Float32()
		for kind, ends := range map[string]func() (float64, float64){
			"ball": b.Endpoints, "big": Big{mid: lo.m(), prec: 2000}.Hull(Big{mid: hi.m(), prec: 2000}).Endpoints,
		} {
			l, h := ends()
			if float32(l) != wantLo || float32(h) != wantHi {
				t.Fatalf("%s: endpoints of %v round to %x %x, want %x %x", kind, b, float32(l), float32(h), wantLo, wantHi)
			}
		}
	}
	negZero := math.Copysign(0, -1)
	for _, b := range []Ball{{}, {Mid: negZero}, {1, 1}, {-1, 1}, {0, 3}} {
		for _, f := range []func() (float64, float64){b.Bounds, b.Endpoints, toBig(b).Bounds, toBig(b).Endpoints} {
			if lo, hi := f(); lo == 0 && math.Signbit(lo) || hi == 0 && math.Signbit(hi) || lo != b.Mid-b.Rad || hi != b.Mid+b.Rad {
				t.Errorf("ends of %v: %g %g, want exact ones and no -0", b, lo, hi)
			}
		}
	}
	if got := odd(new(big.Float).SetMantExp(one, -5000)); !(got > 0 && got < 1e-300) {
		t.Errorf("odd(2^-5000) = %g", got)
	}
	if got := odd(new(big.Float).SetMantExp(big.NewFloat(-1), 5000)); got != -math.MaxFloat64 {
		t.Errorf("odd(-2^5000) = %g", got)
	}
}

// TestDirections: each helper rounds the way its name says, to the last bit.
func TestDirections(t *testing.T) {
	if got := absUp(newMid(100).Neg(newMid(100).Add(one, big.NewFloat(0x1p-60)))); got.Cmp(one) <= 0 {
		t.Errorf("absUp(-1-2^-60) = %v", got)
	}
	r := rand.New(rand.NewPCG(18, 19))
	for range 1000 {
		x := NewBig(r.NormFloat64(), 100).Div(NewBig(3, 100))
		x.rad = upFloat64(math.Ldexp(r.Float64(), -r.IntN(200)))
		lo, hi := x.ends()
		if lo.Cmp(newMid(1000).Sub(x.m(), x.r())) > 0 || hi.Cmp(newMid(1000).Add(x.m(), x.r())) < 0 {
			t.Fatalf("ends of %v: %v %v", x, lo, hi)
		}
		a, b := r.NormFloat64(), math.Ldexp(r.NormFloat64(), -r.IntN(60))
		exact := newMid(2000).Add(big.NewFloat(a), big.NewFloat(b))
		up := sumUp(a, b)
		if exact.Cmp(big.NewFloat(up)) > 0 || exact.Cmp(big.NewFloat(math.Nextafter(up, math.Inf(-1)))) <= 0 {
			t.Fatalf("sumUp(%x, %x) = %x", a, b, up)
		}
	}
	if !encloses(Ball{}.Pi(), Big{}.FromFloat64(0).at(500).Pi()) {
		t.Error("Ball.Pi does not enclose π")
	}
	if !encloses(Ball{}.FromRat(big.NewRat(1, 3)), NewBig(1, 500).Div(NewBig(3, 500))) || (Ball{}).FromRat(big.NewRat(1, 4)) != (Ball{Mid: 0.25}) {
		t.Error("Ball.FromRat")
	}
	if z := (Big{}).FromRat(big.NewRat(1, 3)); !bigEncloses(z, NewBig(1, 500).Div(NewBig(3, 500))) {
		t.Error("Big.FromRat")
	}
}

func TestHullMinMax(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 13))
	for range 2000 {
		a, b := drawBall(r, false), drawBall(r, false)
		h := a.Hull(b)
		for _, x := range []Ball{a, b} {
			if !encloses(h, drawPoint(r, x, 200)) {
				t.Fatalf("hull(%v, %v) = %v", a, b, h)
			}
		}
		hb := toBig(a).Hull(toBig(b))
		for _, x := range []Ball{a, b} {
			lo, hi := x.Bounds()
			hlo, hhi := hb.Bounds()
			if lo < hlo || hi > hhi {
				t.Fatalf("big hull(%v, %v) = %v", a, b, hb)
			}
		}
	}
	if z := (Ball{10, 1}).Max(Ball{0, 5}); z != (Ball{10, 1}) {
		t.Errorf("max = %v", z)
	}
	if lo, hi := (Ball{0, 5}).Max(Ball{4, 1}).Bounds(); lo != 3 || hi != 5 {
		t.Errorf("max([-5,5], [3,5]) in [%g, %g]", lo, hi)
	}
}

// gelu is an expression of several nodes, written once for both types.
func gelu[T Number[T]](x T) T {
	c := x.FromRat(big.NewRat(2, 1)).Div(x.Pi()).Sqrt()
	z := c.Mul(x.Add(x.FromRat(big.NewRat(44715, 1000000)).Mul(x.Sqr().Mul(x))))
	return x.Mul(z.Scale2(1).Sigmoid())
}

func TestGeneric(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 15))
	worst := 0.0
	for range 2000 {
		x := 6 * (r.Float64()*2 - 1)
		b, z, w := gelu(Ball{Mid: x}), gelu(NewBig(x, 100)), gelu(NewBig(x, 300))
		if !encloses(b, w) || !encloses(b, z) {
			t.Fatalf("gelu(%g): %v does not enclose %v", x, b, w)
		}
		if !bigEncloses(z, w) {
			t.Fatalf("gelu(%g): %v does not enclose %v", x, z, w)
		}
		worst = max(worst, b.Rad/math.Abs(b.Mid))
	}
	t.Logf("worst relative radius 2^%.1f", math.Log2(worst))
	if worst > 0x1p-44 {
		t.Errorf("relative radius %g", worst)
	}
}

// TestFromProduct: a product that is rounded is a number, also to a compiler that fuses.
func TestFromProduct(t *testing.T) {
	for x := 1.1; x < 2; x += 0.1 {
		if y := FromFloat64(x * x); !y.Known() {
			t.Errorf("FromFloat64(%v * %[1]v) is unknown", x)
		}
		if y := (Interval{x * x, x * x * x}); !y.Known() {
			t.Errorf("the interval from %v is unknown", y.Lo)
		}
	}
}
