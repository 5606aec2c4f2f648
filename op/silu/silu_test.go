package silu_test

import (
	"math"
	"slices"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/num/ball"
	"tokitai/op/optest"
	"tokitai/op/silu"
	"tokitai/tensor"
)

var (
	forward = optest.Subject{
		Definition: silu.ForwardDefinition, Data: optest.Operation(silu.Operations, "silu.forward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return silu.Forward(q, x[1], x[0], opts...)
		},
	}
	backward = optest.Subject{
		Definition: silu.BackwardDefinition, Data: optest.Operation(silu.Operations, "silu.backward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return silu.Backward(q, x[2], x[0], x[1], opts...)
		},
	}
	inf  = float32(math.Inf(1))
	nan  = float32(math.NaN())
	zero = float32(math.Copysign(0, -1))
)

func size(r, c int) map[string]int { return map[string]int{"R": r, "C": c} }

func TestDoc(t *testing.T) { optest.Doc(t, "doc.go", silu.ForwardDefinition, silu.BackwardDefinition) }

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
	optest.OK(t, silu.Forward(cpu.Queue(), y, x))
	return y
}

// gradient is the backward operation.
func gradient(t testing.TB, dy, x *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	dx := optest.Garbage(t, x.DType(), x.Shape()...)
	optest.OK(t, silu.Backward(cpu.Queue(), dx, dy, x))
	return dx
}

// slopes is the derivative.
func slopes(t testing.TB, x *tensor.Tensor) *tensor.Tensor {
	return gradient(t, optest.Filled(t, x, 1), x)
}

func TestByHand(t *testing.T) {
	for _, d := range num.FloatDTypes {
		x := optest.Vector(t, d, 0, 100, -200)
		optest.Want(t, "y", of(t, x), 0, 100, zero)
		optest.Want(t, "dx for dy = 6", gradient(t, optest.Filled(t, x, 6), x), 3, 6, 0)
	}
	// sigmoid(1) = 0.73105857863000487 and sigmoid(-1) = 0.26894142136999512, to seventeen
	// digits; the derivative is 0.92767051187148673 and 0.07232948812851327: none of the
	// roundings to 16 bits is close.
	for _, d := range []num.DType{num.F16, num.BF16} {
		x := optest.Vector(t, d, 1, -1)
		optest.Want(t, "y", of(t, x), 0.73105857863000487, -0.26894142136999512)
		optest.Want(t, "dx", slopes(t, x), 0.92767051187148673, 0.07232948812851327)
	}
}

// rounded encloses whatever one binary32 operation makes of its exact result.
func rounded(x ball.Ball) ball.Ball { return x.Widen(0x1p-24, 0x1p-150) }

// enclosure holds silu and its derivative at x, both as real numbers and as binary32 before
// storage. It follows the definition: every operation widens by half an ulp, exp and the
// reciprocal by one.
func enclosure(x float64) (y, slope ball.Ball) {
	b := ball.Ball{}
	one := b.FromFloat64(1)
	a := b.FromFloat64(min(math.Abs(x), 150))
	e := a.Neg().Exp().Widen(0x1p-23, 0x1p-149)
	r := rounded(one.Add(e)).Recip().Widen(0x1p-23, 0)
	h := rounded(r.Mul(a))
	if x < 0 {
		return rounded(rounded(a.Mul(e)).Mul(r)).Neg(), rounded(r.Mul(rounded(e.Mul(one.Sub(h)))))
	}
	return rounded(b.FromFloat64(x).Mul(r)), rounded(r.Mul(rounded(one.Add(e.Mul(h)))))
}

// TestEveryInputAgainstTruth: results of every x of 16 bits lie in their enclosures.
func TestEveryInputAgainstTruth(t *testing.T) {
	for _, d := range []num.DType{num.F16, num.BF16} {
		x := optest.Every(t, d)
		for name, got := range map[string]*tensor.Tensor{"y": of(t, x), "dx": slopes(t, x)} {
			wrong, choices := 0, 0
			results := optest.Floats(t, got)
			for i, v := range optest.Floats(t, x) {
				if v-v != 0 {
					continue
				}
				truth, slope := enclosure(float64(v))
				if name == "dx" {
					truth = slope
				}
				lo, hi := truth.Endpoints()
				low, high := num.Widen(d, num.NarrowF64(d, lo)), num.Widen(d, num.NarrowF64(d, hi))
				if !(results[i] >= low && results[i] <= high) {
					if wrong++; wrong == 1 {
						t.Errorf("%s %s: %v at x = %v, want %v to %v", d, name, results[i], v, low, high)
					}
				}
				if low != high {
					choices++
				}
			}
			if wrong > 0 {
				t.Errorf("%s %s: %d results lie outside their enclosures", d, name, wrong)
			}
			// The enclosure is sharp: it decides all but a few of 65,536 roundings.
			if choices > 1<<16/100 {
				t.Errorf("%s %s: the enclosure leaves a choice for %d results", d, name, choices)
			}
		}
	}
}

// silu(x) − silu(−x) = x and silu'(x) + silu'(−x) = 1.
func TestSymmetry(t *testing.T) {
	a := optest.Sample(t, 0x1p-20, 40)
	x := optest.Floats(t, a)
	minus := make([]float32, len(x))
	for i := range x {
		minus[i] = -x[i]
	}
	b := optest.Vector(t, num.F32, minus...)
	p, q, r, s := optest.Floats(t, of(t, a)), optest.Floats(t, of(t, b)), optest.Floats(t, slopes(t, a)), optest.Floats(t, slopes(t, b))
	// As for gelu: 1+e is rounded and r is off by an ulp, 3; y rounds at most twice on either
	// side, 4; the derivatives, 1.1 and 0.1 at most, round twice, 2.4, and h once more, with
	// factors e·r·h of at most 0.28.
	const u = 0x1p-24
	for i, v := range x {
		if gap := math.Abs(float64(p[i]) - float64(q[i]) - float64(v)); gap > 7*u*math.Abs(float64(v)) {
			t.Errorf("silu(%v) - silu(%v) = %v - %v", v, -v, p[i], q[i])
		}
		if gap := math.Abs(float64(r[i]) + float64(s[i]) - 1); gap > 6*u {
			t.Errorf("silu'(%v) + silu'(%v) = %v + %v", v, -v, r[i], s[i])
		}
	}
}

func TestForwardClauses(t *testing.T) {
	optest.Clauses(t, silu.ForwardDefinition, map[string]func(t *testing.T){
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
			for _, x := range []*tensor.Tensor{optest.Every(t, num.F16), optest.Every(t, num.BF16), optest.Sample(t, 17, math.MaxFloat32)} {
				y := optest.Bits(t, of(t, x))
				for i, v := range optest.Floats(t, x) {
					switch {
					case v >= 17 && y[i] != num.Narrow(x.DType(), v):
						t.Errorf("%s: y is 0x%x at x = %v, want x", x.DType(), y[i], v)
					case v <= -104 && y[i] != num.Narrow(x.DType(), zero):
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
			for d, x := range map[num.DType]*tensor.Tensor{num.F16: optest.All(t, num.F16, 0, 1<<10, 1), num.BF16: optest.All(t, num.BF16, 0, 1<<7, 1), num.F32: optest.All(t, num.F32, 0x7ff000, 1<<12, 1)} {
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
		return gradient(t, optest.Vector(t, d, dy...), optest.Vector(t, d, x...))
	}
	optest.Clauses(t, silu.BackwardDefinition, map[string]func(t *testing.T){
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
				// The derivative is positive at 1, negative at -2 (-0.09) and zero far below.
				optest.Want(t, "dx", both(t, d, []float32{inf, -inf, inf, -inf, inf, inf}, []float32{1, 1, -2, -2, -200, -inf}),
					inf, -inf, -inf, inf, nan, nan)
			}
		},
		"C5_zero_x": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				optest.Want(t, "dx", both(t, d, []float32{3, 3}, []float32{0, zero}), 1.5, 1.5)
			}
		},
		"C6_tails": func(t *testing.T) {
			for _, x := range []*tensor.Tensor{optest.Every(t, num.F16), optest.Every(t, num.BF16), optest.Sample(t, 20, math.MaxFloat32)} {
				dx := optest.Bits(t, gradient(t, optest.Filled(t, x, -1.75), x))
				for i, v := range optest.Floats(t, x) {
					switch {
					case v >= 20 && dx[i] != num.Narrow(x.DType(), -1.75):
						t.Errorf("%s: dx is 0x%x at x = %v, want dy", x.DType(), dx[i], v)
					case v <= -104 && dx[i] != num.Narrow(x.DType(), zero):
						t.Errorf("%s: dx is 0x%x at x = %v, want -0", x.DType(), dx[i], v)
					}
				}
			}
		},
		"C7_range": func(t *testing.T) {
			for _, x := range []*tensor.Tensor{optest.Every(t, num.F16), optest.Every(t, num.BF16), optest.Sample(t, 0x1p-10, 40)} {
				dx := optest.Floats(t, slopes(t, x))
				for i, v := range optest.Floats(t, x) {
					if d := x.DType(); v == v && !(dx[i] >= num.Round(d, -0.1) && dx[i] <= num.Round(d, 1.1)) {
						t.Errorf("%s: the derivative at %v is %v", d, v, dx[i])
					}
				}
			}
			optest.Want(t, "the largest dy where the derivative is 1.1", both(t, num.F16, []float32{65504, -65504}, []float32{2.4, 2.4}), inf, -inf)
			for _, d := range num.FloatDTypes {
				least := num.Widen(d, 1)
				optest.Want(t, "subnormal dy", both(t, d, []float32{2 * least, -5 * least}, []float32{0, 32}), least, -5*least)
			}
		},
		"C8_overlap": TestErrors,
	})
}

func BenchmarkSiLU(b *testing.B) {
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
