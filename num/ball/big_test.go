package ball

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"tokitai/internal/testlevel"
)

// bigEncloses reports whether all of y lies in x, in exact arithmetic.
func bigEncloses(x, y Big) bool {
	if !x.Known() {
		return true
	}
	if !y.Known() {
		return false
	}
	d := newMid(5000).Sub(x.m(), y.m())
	d.Abs(d)
	return d.Add(d, y.r()).Cmp(x.r()) <= 0
}

// TestBigEnclosesItself: at 100 bits, on a ball, every operation encloses the same
// operation at 400 bits on a point of that ball; and the radius is no wider than
// the precision and the operand's radius ask for.
func TestBigEnclosesItself(t *testing.T) {
	n := testlevel.Pick(50, 400)
	for name, f := range unary[Big]() {
		t.Run("op="+name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(20, 21))
			known := 0
			for i := range n {
				b := drawBall(r, false)
				if i%2 == 0 {
					b.Rad *= 0x1p-60
				}
				if i%4 == 0 {
					b.Rad = 0
				}
				x := NewBig(b.Mid, 100)
				if b.Rad != 0 {
					x.rad = upFloat64(b.Rad) // rounded up to 32 bits: all points of b are in x
				}
				z := f(x)
				if !z.Known() {
					continue
				}
				known++
				point := drawPoint(r, b, 400)
				if !inDomain(name, point) {
					continue
				}
				y := f(point)
				if !bigEncloses(z, y) {
					t.Fatalf("%s(%v) = %v does not enclose %v at %v", name, x, z, y, point)
				}
				if b.Rad == 0 && y.m().Sign() != 0 {
					limit := new(big.Float).SetMantExp(absUp(y.m()), -97)
					if z.r().Cmp(limit) > 0 {
						t.Fatalf("%s(%v) = %v: radius above 2^-97", name, x, z)
					}
				}
			}
			if known < n/4 {
				t.Errorf("only %d of %d results known", known, n)
			}
		})
	}
	for name, f := range pairs[Big]() {
		t.Run("op="+name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(22, 23))
			for range n {
				a, b := drawBall(r, false), drawBall(r, false)
				x, y := toBig(a), toBig(b)
				p, q := drawPoint(r, a, 400), drawPoint(r, b, 400)
				if r.IntN(3) == 0 { // a midpoint of full length
					x = NewBig(b.Rad, 100).Add(NewBig(1, 100).Div(NewBig(3, 100)))
					p = Big{mid: x.m(), prec: 400}
				}
				if z, w := f(x, y), f(p, q); !bigEncloses(z, w) {
					t.Fatalf("%s(%v, %v) = %v does not enclose %v", name, x, y, z, w)
				}
			}
		})
	}
}

// TestBigRoot: math/big's root is not trusted; the residue must cover its error.
func TestBigRoot(t *testing.T) {
	r := rand.New(rand.NewPCG(24, 25))
	for range 500 {
		x := NewBig(r.Float64(), 100).Div(NewBig(3, 100))
		x.rad = nil
		if z := x.Sqrt().Sqr(); !bigEncloses(z, x) {
			t.Fatalf("sqrt(%v)² = %v", x, z)
		}
	}
}

// digits are from the literature (OEIS A001113, A000796, A002162; tanh(1) = A073744,
// the logistic function at 1 = 1/(1+1/e)).
var digits = map[string]string{
	"e":       "2.7182818284590452353602874713526624977572470936999595749669676277240766303535475945713821785251664274",
	"pi":      "3.1415926535897932384626433832795028841971693993751058209749445923078164062862089986280348253421170679",
	"ln2":     "0.6931471805599453094172321214581765680755001343602552541206800094933936219696947156058633269964186875",
	"tanh1":   "0.7615941559557648881194582826047935904127685972579365515968105001219532445766384834589475216736767144",
	"erf1":    "0.8427007929497148693412206350826092592960669979663029084599378978347172540960108412619833253481448885",
	"sin1":    "0.8414709848078965066525023216302989996225630607983710656727517099919104043912396689486397435430526959",
	"cos1":    "0.5403023058681397174009366074429766037323104206179222276700972553811003947744717645179518560871830893",
	"sqrt2":   "1.4142135623730950488016887242096980785696718753769480731766797379907324784621070388503875343276415727",
	"log2(3)": "1.5849625007211561814537389439478165087598144076924810604557526545410982277943585625222804749180882420",
	"sqrt(e)": "1.6487212707001281468486507878141635716537761007101480115750793116406610211942156086327765200563666430",
}

func TestDigits(t *testing.T) {
	unit := NewBig(1, 360)
	for name, got := range map[string]Big{
		"e":       unit.Exp(),
		"pi":      unit.Pi(),
		"ln2":     NewBig(2, 360).Log(),
		"tanh1":   unit.Tanh(),
		"erf1":    unit.Erf(),
		"sin1":    unit.Sin(),
		"cos1":    unit.Cos(),
		"sqrt2":   NewBig(0.5, 360).Exp2(),
		"log2(3)": NewBig(3, 360).Log2(),
		"sqrt(e)": NewBig(0.5, 360).Exp(),
	} {
		want, _, err := big.ParseFloat(digits[name], 10, 400, big.ToNearestEven)
		if err != nil {
			t.Fatal(err)
		}
		lo := newMid(400).Sub(want, big.NewFloat(1e-99))
		hi := newMid(400).Add(want, big.NewFloat(1e-99))
		glo, ghi := got.ends()
		if glo.Cmp(lo) < 0 || ghi.Cmp(hi) > 0 {
			t.Errorf("%s = %v, want %s", name, got, digits[name])
		}
	}
}

// TestPi: every precision agrees with a longer one to one ulp.
func TestPi(t *testing.T) {
	long := Pi(3000)
	for prec := uint(1); prec < 500; prec++ {
		x := Pi(prec)
		ulp := new(big.Float).SetMantExp(one, x.MantExp(nil)-int(prec))
		if d := distUp(x, long); d.Cmp(ulp) > 0 || x.Prec() != prec {
			t.Errorf("Pi(%d) is off by %v", prec, d)
		}
	}
}

// TestBigIdentities checks the functions against each other: the two sides go
// through different arguments, so their balls must meet and be narrow.
func TestBigIdentities(t *testing.T) {
	const prec = 256
	r := rand.New(rand.NewPCG(26, 27))
	unit := NewBig(1, prec)
	meet := func(name string, x, y Big) {
		t.Helper()
		d := x.Sub(y)
		if !d.Known() || d.Less(Big{}) == Yes || (Big{}).Less(d) == Yes {
			t.Fatalf("%s: %v and %v are apart", name, x, y)
		}
		if d.r().Cmp(new(big.Float).SetMantExp(addUp(absUp(x.m()), upFloat64(1)), -prec+24)) > 0 {
			t.Fatalf("%s: too wide: %v", name, d)
		}
	}
	for range 300 {
		x, y := NewBig(8*r.NormFloat64(), prec), NewBig(r.NormFloat64(), prec)
		ex := x.Exp()
		meet("exp(x+y) = exp x exp y", x.Add(y).Exp().Div(ex), y.Exp())
		meet("log exp x = x", ex.Log(), x)
		meet("expm1 x = exp x - 1", x.Expm1(), ex.Sub(unit))
		meet("expm1 y = exp y - 1", y.Expm1(), y.Exp().Sub(unit))
		meet("tanh x = (exp 2x - 1)/(exp 2x + 1)", y.Tanh(), y.Scale2(1).Exp().Sub(unit).Div(y.Scale2(1).Exp().Add(unit)))
		meet("tanh(x+y)", x.Tanh().Add(y.Tanh()).Div(unit.Add(x.Tanh().Mul(y.Tanh()))), x.Add(y).Tanh())
		meet("sigmoid x = 1/(1+exp(-x))", x.Sigmoid(), unit.Add(x.Neg().Exp()).Recip())
		meet("sigmoid x = (1+tanh(x/2))/2", x.Sigmoid(), unit.Add(x.Scale2(-1).Tanh()).Scale2(-1))
		meet("sin² + cos² = 1", x.Sin().Sqr().Add(x.Cos().Sqr()), unit)
		meet("sin(x+y)", x.Add(y).Sin(), x.Sin().Mul(y.Cos()).Add(x.Cos().Mul(y.Sin())))
		meet("cos(x+y)", x.Add(y).Cos(), x.Cos().Mul(y.Cos()).Sub(x.Sin().Mul(y.Sin())))
		huge := x.Scale2(100 + r.IntN(900))
		meet("sin 2x = 2 sin x cos x", huge.Scale2(1).Sin(), huge.Sin().Mul(huge.Cos()).Scale2(1))
		meet("sin(π-y) = sin y", unit.Pi().Sub(y).Sin(), y.Sin())
		meet("2^x 2^y = 2^(x+y)", x.Exp2().Mul(y.Exp2()), x.Add(y).Exp2())
		meet("log2 2^y = y", y.Exp2().Log2(), y)
		meet("log1p expm1 y = y", y.Expm1().Log1p(), y)
		meet("log1p 2^-200 y", y.Scale2(-200).Log1p().Scale2(200), y.Scale2(-200).Add(unit.at(600)).Log().Scale2(200))
		a, b := NewBig(10*r.Float64()+0x1p-40, prec), NewBig(r.Float64()+0x1p-40, prec)
		meet("log ab = log a + log b", a.Mul(b).Log(), a.Log().Add(b.Log()))
		meet("log2 ab = log2 a + log2 b", a.Mul(b).Log2(), a.Log2().Add(b.Log2()))
		meet("log1p(a-1) = log a", a.Sub(unit).Log1p(), a.Log())
	}
	for _, x := range []float64{1 + 0x1p-52, 1 - 0x1p-53, 1 + 0x1p-30, 0.5, 1.5, 2, 0x1p-1074, 0x1p1023} {
		z := NewBig(x, prec)
		meet(fmt.Sprintf("exp log %g", x), z.Log().Exp().Div(z), unit)
	}
	huge := NewBig(1, prec).Scale2(1 << 19)
	meet("log 2^524288", huge.Log().Div(NewBig(2, prec).Log()), NewBig(1<<19, prec))
	near := unit.Add(unit.Scale2(-200)) // 1 + 2^-200: relatively accurate
	if z := near.Log().Scale2(200); z.r().Cmp(big.NewFloat(0x1p-250)) > 0 || z.Less(unit) != Yes || NewBig(1-0x1p-52, prec).Less(z) != Yes {
		t.Errorf("log(1+2^-200) = %v * 2^-200", z)
	}
}

// TestBigErf compares with another series, whose terms alternate in sign:
// 2/√π*(x - x³/3 + x⁵/10 - ...), the rest below the first term left out.
func TestBigErf(t *testing.T) {
	const prec = 700
	r := rand.New(rand.NewPCG(28, 29))
	for range 60 {
		x := NewBig(math.Ldexp(r.Float64()*16-8, -r.IntN(2)*r.IntN(60)), prec)
		sum, power := Big{prec: prec}, x
		for n := 0; ; n++ {
			term := power.Div(NewBig(float64(2*n+1), prec))
			if n > 200 && term.magUp().MantExp(nil) < -prec {
				sum = sum.plus(term.magUp())
				break
			}
			sum = sum.Add(term)
			power = power.Mul(x.Sqr()).Div(NewBig(float64(n+1), prec)).Neg()
		}
		want := sum.Scale2(1).Div(x.Pi().Sqrt())
		for _, p := range []uint{64, 100, 200, 400} {
			if got := (Big{mid: x.m(), prec: p}).Erf(); !bigEncloses(got, want) {
				t.Fatalf("erf(%v) = %v at %d bits does not enclose %v", x, got, p, want)
			}
		}
	}
}

func TestBigWiden(t *testing.T) {
	z := NewBig(-3, 100).Widen(0x1p-24, 0x1p-150)
	b := Ball{Mid: -3}.Widen(0x1p-24, 0x1p-150)
	want := newMid(500).Add(big.NewFloat(3*0x1p-24), big.NewFloat(0x1p-150))
	for kind, rad := range map[string]*big.Float{"big": z.r(), "ball": big.NewFloat(b.Rad)} {
		if rad.Cmp(want) < 0 || rad.Cmp(newMid(500).Mul(want, big.NewFloat(1+0x1p-20))) > 0 {
			t.Errorf("%s: radius %v, want %v", kind, rad, want)
		}
	}
	if got := z.Ball(); got.Mid != -3 || got.Rad < b.Rad*(1-0x1p-40) || got.Rad > b.Rad*(1+0x1p-20) {
		t.Errorf("Ball() = %v", got)
	}
	third := NewBig(-1, 200).Div(NewBig(3, 200))
	if got := third.Ball(); !encloses(got, third) || got.Rad > 0x1p-53 {
		t.Errorf("Ball() = %v", got)
	}
}
