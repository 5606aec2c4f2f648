package gelu_test

import (
	"math"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/num/ball"
	"tokitai/op/gelu"
	"tokitai/op/optest"
	"tokitai/tensor"
)

var (
	erfForward = optest.Subject{
		Definition: gelu.ErfForwardDefinition, Data: optest.Operation(gelu.Operations, "gelu.erf.forward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return gelu.ErfForward(q, x[1], x[0], opts...)
		},
	}
	erfBackward = optest.Subject{
		Definition: gelu.ErfBackwardDefinition, Data: optest.Operation(gelu.Operations, "gelu.erf.backward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return gelu.ErfBackward(q, x[2], x[0], x[1], opts...)
		},
	}
)

func TestErfMatchesReference(t *testing.T) {
	optest.MatchReference(t, erfForward, size(5, 77), size(1, 1), size(2, 1025))
	optest.MatchReference(t, erfBackward, size(5, 77), size(1, 1), size(2, 1025))
}

func TestErfErrors(t *testing.T) {
	optest.Errors(t, erfForward, size(3, 5))
	optest.Errors(t, erfBackward, size(3, 5))
}

func ofErf(t testing.TB, x *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	y := optest.Garbage(t, x.DType(), x.Shape()...)
	optest.OK(t, gelu.ErfForward(cpu.Queue(), y, x))
	return y
}

// gradientOfErf is the backward operation with one dy for all.
func gradientOfErf(t testing.TB, x *tensor.Tensor, dy float32) *tensor.Tensor {
	t.Helper()
	dx := optest.Garbage(t, x.DType(), x.Shape()...)
	optest.OK(t, gelu.ErfBackward(cpu.Queue(), dx, optest.Filled(t, x, dy), x))
	return dx
}

func TestErfByHand(t *testing.T) {
	for _, d := range num.FloatDTypes {
		x := optest.Vector(t, d, 0, 100, -100)
		optest.Want(t, "y", ofErf(t, x), 0, 100, zero)
		optest.Want(t, "dx for dy = 6", gradientOfErf(t, x, 6), 3, 6, zero)
	}
	// Phi(1) = 0.84134474606854293 and phi(1) = 0.24197072451914337, to seventeen digits: none of the
	// roundings to 16 bits is close.
	for _, d := range []num.DType{num.F16, num.BF16} {
		x := optest.Vector(t, d, 1, -1)
		optest.Want(t, "y", ofErf(t, x), 0.84134474606854293, -0.15865525393145707)
		optest.Want(t, "dx", gradientOfErf(t, x, 1), 1.0833154705876863, -0.08331547058768630)
	}
}

// enclosureByErf holds y and the derivative at x, both as real numbers and as binary32 before storage, as
// enclosure does.
func enclosureByErf(x float64) (y, slope ball.Ball) {
	b := ball.Ball{}
	one := b.FromFloat64(1)
	a := b.FromFloat64(min(math.Abs(x), 15))
	e := rounded(a.Sqr()).Scale2(-1).Neg().Exp().Widen(0x1p-23, 0x1p-149)
	z := rounded(a.Mul(b.FromFloat64(2).Rsqrt().Widen(0x1p-24, 0)))
	w := z.Erfcx().Widen(4*0x1p-23, 0).Scale2(-1)
	if x == 0 { // erfcx(0) is 1
		w = b.FromFloat64(0.5)
	}
	m := rounded(a.Mul(b.FromFloat64(2).Mul(b.Pi()).Rsqrt().Widen(0x1p-24, 0)).Sub(w))
	if x < 0 {
		return rounded(rounded(a.Mul(e)).Mul(w)).Neg(), rounded(e.Mul(m)).Neg()
	}
	return rounded(b.FromFloat64(x).Mul(rounded(one.Sub(e.Mul(w))))), rounded(one.Add(e.Mul(m)))
}

func TestErfEveryInputAgainstTruth(t *testing.T) {
	for _, d := range []num.DType{num.F16, num.BF16} {
		x := optest.Every(t, d)
		for name, c := range map[string]struct {
			got  *tensor.Tensor
			want func(x float64) ball.Ball
		}{
			"y":  {ofErf(t, x), func(x float64) ball.Ball { y, _ := enclosureByErf(x); return y }},
			"dx": {gradientOfErf(t, x, 1), func(x float64) ball.Ball { _, s := enclosureByErf(x); return s }},
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

// The form through 1 + erf cancels below zero.
func TestErfTailsDoNotCancel(t *testing.T) {
	var tail, through []float32
	for _, v := range optest.Floats(t, optest.Every(t, num.BF16)) {
		if v >= -10 && v <= -5 {
			tail = append(tail, v)
			through = append(through, num.Round(num.BF16, 0.5*v*(1+float32(math.Erf(float64(v)/math.Sqrt2)))))
		}
	}
	value := func(x float64) ball.Ball { y, _ := enclosureByErf(x); return y }
	got := optest.Floats(t, ofErf(t, optest.Vector(t, num.BF16, tail...)))
	if wrong, _, worst := outside(num.BF16, tail, got, value); wrong > 0 {
		t.Errorf("%d of %d results lie outside their enclosures, one of them at x = %v", wrong, len(tail), worst)
	}
	if wrong, _, _ := outside(num.BF16, tail, through, value); wrong < len(tail)*9/10 {
		t.Errorf("the form through 1 + erf fails for %d of %d inputs: the enclosure is too wide to show it", wrong, len(tail))
	}
}

func TestErfForwardClauses(t *testing.T) {
	optest.Clauses(t, gelu.ErfForwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, erfForward, size(6, 5)) },
		"C2_nan": func(t *testing.T) {
			optest.WantBits(t, "f16", ofErf(t, optest.Patterns(t, num.F16, 0x7e00, 0x7c01, 0xffff)), 0x7e00, 0x7e00, 0x7e00)
			optest.WantBits(t, "bf16", ofErf(t, optest.Patterns(t, num.BF16, 0x7fc0, 0x7f81, 0xffff)), 0x7fc0, 0x7fc0, 0x7fc0)
			optest.WantBits(t, "f32", ofErf(t, optest.Patterns(t, num.F32, 0x7fc00000, 0x7f800001, 0xffffffff)), 0x7fc00000, 0x7fc00000, 0x7fc00000)
		},
		"C3_infinities": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				optest.Want(t, "y", ofErf(t, optest.Vector(t, d, inf, -inf)), inf, zero)
			}
		},
		"C4_zeros": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				optest.Want(t, "y", ofErf(t, optest.Vector(t, d, 0, zero)), 0, zero)
			}
		},
		"C5_tails": func(t *testing.T) {
			for _, x := range []*tensor.Tensor{optest.Every(t, num.F16), optest.Every(t, num.BF16), optest.Sample(t, 5.5, math.MaxFloat32)} {
				y := optest.Bits(t, ofErf(t, x))
				for i, v := range optest.Floats(t, x) {
					switch {
					case v >= 5.5 && y[i] != num.Narrow(x.DType(), v):
						t.Errorf("%s: y is 0x%x at x = %v, want x", x.DType(), y[i], v)
					case v <= -14.5 && y[i] != num.Narrow(x.DType(), zero):
						t.Errorf("%s: y is 0x%x at x = %v, want -0", x.DType(), y[i], v)
					}
				}
			}
		},
		"C6_sign_and_size": func(t *testing.T) {
			for _, x := range []*tensor.Tensor{optest.Every(t, num.F16), optest.Every(t, num.BF16), optest.Sample(t, 0, 0x1p127)} {
				y := optest.Floats(t, ofErf(t, x))
				for i, v := range optest.Floats(t, x) {
					if v == v && (math.Signbit(float64(v)) != math.Signbit(float64(y[i])) || math.Abs(float64(y[i])) > math.Abs(float64(v))) {
						t.Errorf("%s: y is %v at x = %v", x.DType(), y[i], v)
					}
				}
			}
			optest.WantBits(t, "f32 subnormals", ofErf(t, optest.Patterns(t, num.F32, 1, 2, 3, 0x80000006, 0x7fffff)), 0, 1, 2, 0x80000003, 0x400000)
			optest.WantBits(t, "f16 subnormals", ofErf(t, optest.Patterns(t, num.F16, 1, 2, 3, 0x8006)), 0, 1, 2, 0x8003)
			for d, count := range map[num.DType]int{num.F16: 1 << 10, num.BF16: 1 << 7} {
				for i, y := range optest.Bits(t, ofErf(t, optest.All(t, d, 0, count, 1))) {
					if n := uint32(i); y != n/2 && y != (n+1)/2 {
						t.Errorf("%s: y is 0x%x at the subnormal 0x%x", d, y, n)
					}
				}
			}
		},
		"C7_overlap": TestErfErrors,
	})
}

func TestErfBackwardClauses(t *testing.T) {
	both := func(t *testing.T, d num.DType, dy, x []float32) *tensor.Tensor {
		dx := optest.Garbage(t, d, len(x))
		optest.OK(t, gelu.ErfBackward(cpu.Queue(), dx, optest.Vector(t, d, dy...), optest.Vector(t, d, x...)))
		return dx
	}
	optest.Clauses(t, gelu.ErfBackwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, erfBackward, size(6, 5)) },
		"C2_nan": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				optest.Want(t, "dx", both(t, d, []float32{nan, nan, 1, 0}, []float32{1, -inf, nan, nan}), nan, nan, nan, nan)
			}
		},
		"C3_infinite_x": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				optest.Want(t, "dx", both(t, d, []float32{7, -7, 7, -7}, []float32{inf, inf, -inf, -inf}), 7, -7, zero, 0)
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
			for _, x := range []*tensor.Tensor{optest.Every(t, num.F16), optest.Every(t, num.BF16), optest.Sample(t, 6, math.MaxFloat32)} {
				dx := optest.Bits(t, gradientOfErf(t, x, -1.75))
				for i, v := range optest.Floats(t, x) {
					switch {
					case v >= 6 && dx[i] != num.Narrow(x.DType(), -1.75):
						t.Errorf("%s: dx is 0x%x at x = %v, want dy", x.DType(), dx[i], v)
					case v <= -14.5 && dx[i] != 0:
						t.Errorf("%s: dx is 0x%x at x = %v, want +0", x.DType(), dx[i], v)
					}
				}
			}
		},
		"C7_range": func(t *testing.T) {
			for _, x := range []*tensor.Tensor{optest.Every(t, num.F16), optest.Every(t, num.BF16), optest.Sample(t, 0x1p-10, 15)} {
				dx := optest.Floats(t, gradientOfErf(t, x, 1))
				for i, v := range optest.Floats(t, x) {
					if d := x.DType(); v == v && !(dx[i] >= num.Round(d, -0.13) && dx[i] <= num.Round(d, 1.13)) {
						t.Errorf("%s: the derivative at %v is %v", x.DType(), v, dx[i])
					}
				}
			}
			optest.Want(t, "the largest dy where the derivative is 1.13", both(t, num.F16, []float32{65504, -65504}, []float32{1.5, 1.5}), inf, -inf)
			for _, d := range num.FloatDTypes {
				least := num.Widen(d, 1)
				optest.Want(t, "subnormal dy", both(t, d, []float32{2 * least, -5 * least}, []float32{0, 100}), least, -5*least)
			}
		},
		"C8_overlap": TestErfErrors,
	})
}
