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
	{"tanh", pointTanh, tanhErr, bigTanh, drawExponent(-22, 22)},
	{"sigmoid", func(x float64) float64 { y, _ := pointSigmoid(x); return y }, sigmoidErr, bigSigmoid, drawExponent(-700, 700)},
}

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
				if x == 0 || f.name == "log" && x == 1 {
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

func checkAt(t *testing.T, name string, b Ball, truth Big) {
	t.Helper()
	if !b.Known() || !encloses(b, truth) {
		t.Errorf("%s: %v does not enclose %v", name, b, truth)
	}
}
