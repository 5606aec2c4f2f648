package gelu_test

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/num/ball"
	"tokitai/op/gelu"
	"tokitai/op/optest"
	"tokitai/tensor"
)

var (
	forward = optest.Subject{
		Definition: gelu.ForwardDefinition, Data: optest.Operation(gelu.Operations, "gelu.forward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return gelu.Forward(q, x[1], x[0], opts...)
		},
	}
	backward = optest.Subject{
		Definition: gelu.BackwardDefinition, Data: optest.Operation(gelu.Operations, "gelu.backward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return gelu.Backward(q, x[2], x[0], x[1], opts...)
		},
	}
	inf  = float32(math.Inf(1))
	nan  = float32(math.NaN())
	zero = float32(math.Copysign(0, -1))
)

func size(r, c int) map[string]int { return map[string]int{"R": r, "C": c} }

func TestDoc(t *testing.T) {
	optest.Doc(t, "doc.go", gelu.ForwardDefinition, gelu.BackwardDefinition, gelu.ErfForwardDefinition, gelu.ErfBackwardDefinition)
}

func TestMatchReference(t *testing.T) {
	optest.MatchReference(t, forward, size(5, 77), size(1, 1), size(2, 1025))
	optest.MatchReference(t, backward, size(5, 77), size(1, 1), size(2, 1025))
}

func TestErrors(t *testing.T) {
	optest.Errors(t, forward, size(3, 5))
	optest.Errors(t, backward, size(3, 5))
}

// of is the forward operation.
func of(t testing.TB, x *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	y := optest.Garbage(t, x.DType(), x.Shape()...)
	optest.OK(t, gelu.Forward(cpu.Queue(), y, x))
	return y
}

// gradient is the backward operation with one dy for all.
func gradient(t testing.TB, x *tensor.Tensor, dy float32) *tensor.Tensor {
	t.Helper()
	dx := optest.Garbage(t, x.DType(), x.Shape()...)
	optest.OK(t, gelu.Backward(cpu.Queue(), dx, optest.Filled(t, x, dy), x))
	return dx
}

func TestByHand(t *testing.T) {
	for _, d := range num.FloatDTypes {
		x := optest.Vector(t, d, 0, 100, -100)
		optest.Want(t, "y", of(t, x), 0, 100, zero)
		optest.Want(t, "dx for dy = 6", gradient(t, x, 6), 3, 6, 0)
	}
	// sigmoid(2·√(2/π)·1.044715) = 0.84119199060827670 to seventeen digits, and
	// what is left of x = -1 is 1 less: none of the roundings to 16 bits is close.
	for _, d := range []num.DType{num.F16, num.BF16} {
		optest.Want(t, "y", of(t, optest.Vector(t, d, 1, -1)), 0.84119199060827670, -0.15880800939172324)
	}
}

// slopeBall, cubicBall and tripleBall enclose the real constants of t and t'.
func constantBalls() (slopeBall, cubicBall, tripleBall ball.Ball) {
	b := ball.Ball{}
	a := b.FromRat(big.NewRat(44715, 1000000))
	slopeBall = b.FromFloat64(2).Div(b.Pi()).Sqrt().Scale2(1)
	cubicBall = slopeBall.Mul(a)
	tripleBall = cubicBall.Mul(b.FromFloat64(3))
	return
}

// rounded encloses whatever one binary32 operation makes of its exact result.
func rounded(x ball.Ball) ball.Ball { return x.Widen(0x1p-24, 0x1p-150) }

// enclosure holds y and the derivative at x, both as real numbers and as binary32
// before storage. It follows the definition: every operation widens by half an
// ulp, exp and the reciprocal by one, and each constant by its rounding.
func enclosure(x float64) (y, slope ball.Ball) {
	b := ball.Ball{}
	one := b.FromFloat64(1)
	slopeConst, cubicConst, tripleConst := constantBalls()
	a := b.FromFloat64(min(math.Abs(x), 16))
	square := rounded(a.Sqr())
	t := rounded(a.Mul(rounded(cubicConst.Widen(0x1p-24, 0).Mul(square).Add(slopeConst.Widen(0x1p-24, 0)))))
	e := t.Neg().Exp().Widen(0x1p-23, 0x1p-149)
	r := rounded(one.Add(e)).Recip().Widen(0x1p-23, 0)
	h := rounded(r.Mul(rounded(a.Mul(rounded(tripleConst.Widen(0x1p-24, 0).Mul(square).Add(slopeConst.Widen(0x1p-24, 0)))))))
	if x < 0 {
		y = rounded(rounded(a.Mul(e)).Mul(r)).Neg()
		return y, rounded(r.Mul(rounded(e.Mul(one.Sub(h)))))
	}
	return rounded(b.FromFloat64(x).Mul(r)), rounded(r.Mul(rounded(one.Add(e.Mul(h)))))
}

// outside counts the results beyond the enclosure, and those where it leaves a
// choice.
func outside(d num.DType, x, got []float32, want func(x float64) ball.Ball) (wrong, choices int, worst float32) {
	for i, v := range x {
		if v-v != 0 {
			continue
		}
		lo, hi := want(float64(v)).Endpoints()
		low, high := num.Widen(d, num.NarrowF64(d, lo)), num.Widen(d, num.NarrowF64(d, hi))
		if !(got[i] >= low && got[i] <= high) {
			wrong++
			worst = v
		}
		if low != high {
			choices++
		}
	}
	return
}

func TestEveryInputAgainstTruth(t *testing.T) {
	for _, d := range []num.DType{num.F16, num.BF16} {
		x := optest.Every(t, d)
		for name, c := range map[string]struct {
			got  *tensor.Tensor
			want func(x float64) ball.Ball
		}{
			"y":  {of(t, x), func(x float64) ball.Ball { y, _ := enclosure(x); return y }},
			"dx": {gradient(t, x, 1), func(x float64) ball.Ball { _, s := enclosure(x); return s }},
		} {
			wrong, choices, worst := outside(d, optest.Floats(t, x), optest.Floats(t, c.got), c.want)
			if wrong > 0 {
				t.Errorf("%s %s: %d results lie outside their enclosures, one of them at x = %v", d, name, wrong, worst)
			}
			// The enclosure is sharp: it decides all but a few of 65,536 roundings.
			if choices > 1<<16/100 {
				t.Errorf("%s %s: the enclosure leaves a choice for %d results", d, name, choices)
			}
		}
	}
}

// The form through tanh computes 1 + tanh and 1 - tanh², which cancel.
func TestAncestor24_DerivativeTailsDoNotCancel(t *testing.T) {
	var tail []float32
	for _, v := range optest.Floats(t, optest.Every(t, num.BF16)) {
		if v >= -10 && v <= -4 {
			tail = append(tail, v)
		}
	}
	slope := func(x float64) ball.Ball { _, s := enclosure(x); return s }
	got := optest.Floats(t, gradient(t, optest.Vector(t, num.BF16, tail...), 1))
	if wrong, _, worst := outside(num.BF16, tail, got, slope); wrong > 0 {
		t.Errorf("%d of %d derivatives lie outside their enclosures, one of them at x = %v", wrong, len(tail), worst)
	}

	through := make([]float32, len(tail))
	for i, x := range tail {
		c, k := float32(0.7978845608), float32(0.044715)
		th := float32(math.Tanh(float64(c * (x + k*x*x*x))))
		through[i] = num.Round(num.BF16, 0.5*(1+th)+0.5*x*(1-th*th)*c*(1+3*k*x*x))
	}
	if wrong, _, _ := outside(num.BF16, tail, through, slope); wrong < len(tail)*9/10 {
		t.Errorf("the form through tanh fails for %d of %d inputs: the enclosure is too wide to show it", wrong, len(tail))
	}
}

// y(x) − y(−x) = x and y'(x) + y'(−x) = 1, as σ(t) + σ(−t) = 1.
func TestSymmetry(t *testing.T) {
	x := optest.Floats(t, optest.Sample(t, 0x1p-20, 12))
	minus := make([]float32, len(x))
	for i := range x {
		minus[i] = -x[i]
	}
	a, b := optest.Vector(t, num.F32, x...), optest.Vector(t, num.F32, minus...)
	ya, yb := optest.Floats(t, of(t, a)), optest.Floats(t, of(t, b))
	da, db := optest.Floats(t, gradient(t, a, 1)), optest.Floats(t, gradient(t, b, 1))
	// Both sides are r·(1+e) times x or 1, up to roundings of 2^-24. 1+e is rounded
	// and r is off by an ulp: 3. y rounds at most twice on either side, each time no
	// more than x: 4. The derivatives, 1.13 and 0.13 at most, round twice: 2.52.
	const u = 0x1p-24
	for i, v := range x {
		if gap := math.Abs(float64(ya[i]) - float64(yb[i]) - float64(v)); gap > 7*u*math.Abs(float64(v)) {
			t.Errorf("y(%v) - y(%v) = %v - %v", v, -v, ya[i], yb[i])
		}
		if gap := math.Abs(float64(da[i]) + float64(db[i]) - 1); gap > 5.52*u {
			t.Errorf("y'(%v) + y'(%v) = %v + %v", v, -v, da[i], db[i])
		}
	}
}

func TestBackwardIsLinear(t *testing.T) {
	g := gen.New("linear")
	x := make([]float32, 1000)
	for i := range x {
		x[i] = g.Uniform(-8, 8)
	}
	want := optest.Floats(t, gradient(t, optest.Vector(t, num.F32, x...), 1.375))
	for i := range want {
		want[i] *= -0x1p30
	}
	optest.Want(t, "dx of -2^30 dy", gradient(t, optest.Vector(t, num.F32, x...), -1.375*0x1p30), want...)
}

func TestForwardClauses(t *testing.T) {
	optest.Clauses(t, gelu.ForwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, forward, size(6, 5)) },
		"C2_nan": func(t *testing.T) {
			optest.WantBits(t, "f16", of(t, optest.Patterns(t, num.F16, 0x7e00, 0x7c01, 0xffff)), 0x7e00, 0x7e00, 0x7e00)
			optest.WantBits(t, "bf16", of(t, optest.Patterns(t, num.BF16, 0x7fc0, 0x7f81, 0xffff)), 0x7fc0, 0x7fc0, 0x7fc0)
			optest.WantBits(t, "f32", of(t, optest.Patterns(t, num.F32, 0x7fc00000, 0x7f800001, 0xffffffff)), 0x7fc00000, 0x7fc00000, 0x7fc00000)
		},
		"C3_infinities": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				optest.Want(t, "y", of(t, optest.Vector(t, d, inf, -inf)), inf, zero)
			}
		},
		"C4_zeros": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				optest.Want(t, "y", of(t, optest.Vector(t, d, 0, zero)), 0, zero)
			}
		},
		"C5_tails": func(t *testing.T) {
			for _, x := range []*tensor.Tensor{optest.Every(t, num.F16), optest.Every(t, num.BF16), optest.Sample(t, 5, math.MaxFloat32)} {
				y := optest.Bits(t, of(t, x))
				for i, v := range optest.Floats(t, x) {
					switch {
					case v >= 5 && y[i] != num.Narrow(x.DType(), v):
						t.Errorf("%s: y is 0x%x at x = %v, want x", x.DType(), y[i], v)
					case v <= -11 && y[i] != num.Narrow(x.DType(), zero):
						t.Errorf("%s: y is 0x%x at x = %v, want -0", x.DType(), y[i], v)
					}
				}
			}
		},
		"C6_sign_and_size": func(t *testing.T) {
			for _, x := range []*tensor.Tensor{optest.Every(t, num.F16), optest.Every(t, num.BF16), optest.Sample(t, 0, 0x1p127)} {
				y := optest.Floats(t, of(t, x))
				for i, v := range optest.Floats(t, x) {
					if v == v && (math.Signbit(float64(v)) != math.Signbit(float64(y[i])) || math.Abs(float64(y[i])) > math.Abs(float64(v))) {
						t.Errorf("%s: y is %v at x = %v", x.DType(), y[i], v)
					}
				}
			}
			optest.WantBits(t, "f32 subnormals", of(t, optest.Patterns(t, num.F32, 1, 2, 3, 0x80000006, 0x7fffff)), 0, 1, 2, 0x80000003, 0x400000)
			optest.WantBits(t, "f16 subnormals", of(t, optest.Patterns(t, num.F16, 1, 2, 3, 0x8006)), 0, 1, 2, 0x8003)
			// 5·2^-25 lies midway, and y a little above it.
			optest.WantBits(t, "5·2^-24 in f16", of(t, optest.Patterns(t, num.F16, 5)), 3)
			subnormals := map[num.DType]*tensor.Tensor{num.F16: optest.All(t, num.F16, 0, 1<<10, 1), num.BF16: optest.All(t, num.BF16, 0, 1<<7, 1), num.F32: optest.All(t, num.F32, 0x7ff000, 1<<12, 1)}
			for d, x := range subnormals {
				for _, sign := range []uint32{0, 1 << (8*d.Size() - 1)} {
					patterns := optest.Bits(t, x)
					for i := range patterns {
						patterns[i] |= sign
					}
					for i, y := range optest.Bits(t, of(t, optest.Patterns(t, d, patterns...))) {
						n := patterns[i] &^ sign
						if low, high := sign|n/2, sign|(n+1)/2; y != low && y != high {
							t.Errorf("%s: y is 0x%x at the subnormal 0x%x, want 0x%x or 0x%x", d, y, patterns[i], low, high)
						}
					}
				}
			}
		},
		"C7_overlap": TestErrors,
	})
}

func TestBackwardClauses(t *testing.T) {
	both := func(t *testing.T, d num.DType, dy, x []float32) *tensor.Tensor {
		dx := optest.Garbage(t, d, len(x))
		optest.OK(t, gelu.Backward(cpu.Queue(), dx, optest.Vector(t, d, dy...), optest.Vector(t, d, x...)))
		return dx
	}
	optest.Clauses(t, gelu.BackwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, backward, size(6, 5)) },
		"C2_nan": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				optest.Want(t, "dx", both(t, d, []float32{nan, nan, 1, 0}, []float32{1, -inf, nan, nan}), nan, nan, nan, nan)
			}
		},
		"C3_infinite_x": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				optest.Want(t, "dx", both(t, d, []float32{7, -7, 7, -7}, []float32{inf, inf, -inf, -inf}), 7, -7, 0, zero)
			}
		},
		"C4_infinite_dy": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				// The derivative is positive at 1, negative at -1 (-0.083) and zero far below.
				optest.Want(t, "dx", both(t, d, []float32{inf, -inf, inf, -inf, inf, inf}, []float32{1, 1, -1, -1, -20, -inf}),
					inf, -inf, -inf, inf, nan, nan)
			}
		},
		"C5_zero_x": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				optest.Want(t, "dx", both(t, d, []float32{3, 3}, []float32{0, zero}), 1.5, 1.5)
			}
		},
		"C6_tails": func(t *testing.T) {
			for _, x := range []*tensor.Tensor{optest.Every(t, num.F16), optest.Every(t, num.BF16), optest.Sample(t, 5.5, math.MaxFloat32)} {
				dx := optest.Bits(t, gradient(t, x, -1.75))
				for i, v := range optest.Floats(t, x) {
					switch {
					case v >= 5.5 && dx[i] != num.Narrow(x.DType(), -1.75):
						t.Errorf("%s: dx is 0x%x at x = %v, want dy", x.DType(), dx[i], v)
					case v <= -11 && dx[i] != num.Narrow(x.DType(), zero):
						t.Errorf("%s: dx is 0x%x at x = %v, want -0", x.DType(), dx[i], v)
					}
				}
			}
		},
		"C7_range": func(t *testing.T) {
			for _, x := range []*tensor.Tensor{optest.Every(t, num.F16), optest.Every(t, num.BF16), optest.Sample(t, 0x1p-10, 12)} {
				dx := optest.Floats(t, gradient(t, x, 1))
				for i, v := range optest.Floats(t, x) {
					if d := x.DType(); v == v && !(dx[i] >= num.Round(d, -0.13) && dx[i] <= num.Round(d, 1.13)) {
						t.Errorf("%s: the derivative at %v is %v", x.DType(), v, dx[i])
					}
				}
			}
			optest.Want(t, "the largest dy where the derivative is 1.12", both(t, num.F16, []float32{65504, -65504}, []float32{1.5, 1.5}), inf, -inf)
			for _, d := range num.FloatDTypes {
				least := num.Widen(d, 1)
				optest.Want(t, "subnormal dy", both(t, d, []float32{2 * least, -5 * least}, []float32{0, 100}), least, -5*least)
			}
		},
		"C8_overlap": TestErrors,
	})
}

func BenchmarkGELU(b *testing.B) {
	for _, d := range num.FloatDTypes {
		for _, dir := range []struct {
			name    string
			subject optest.Subject
		}{{"forward", forward}, {"backward", backward}} {
			optest.Bench(b, optest.Timing{
				Name:    "dir=" + dir.name + "/dtype=" + d.String() + "/shape=256x1024",
				Subject: dir.subject, DTypes: slices.Repeat([]num.DType{d}, len(dir.subject.Definition.Operands)),
				Sizes: size(256, 1024), Check: size(2, 1024),
			})
		}
	}
}
