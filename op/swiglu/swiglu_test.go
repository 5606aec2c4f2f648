package swiglu_test

import (
	"math"
	"slices"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/optest"
	"tokitai/op/silu"
	"tokitai/op/swiglu"
	"tokitai/tensor"
)

var (
	forward = optest.Subject{
		Definition: swiglu.ForwardDefinition, Data: optest.Operation(swiglu.Operations, "swiglu.forward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return swiglu.Forward(q, x[2], x[0], x[1], opts...)
		},
	}
	backward = optest.Subject{
		Definition: swiglu.BackwardDefinition, Data: optest.Operation(swiglu.Operations, "swiglu.backward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return swiglu.Backward(q, x[3], x[4], x[0], x[1], x[2], opts...)
		},
	}
	inf  = float32(math.Inf(1))
	nan  = float32(math.NaN())
	zero = float32(math.Copysign(0, -1))
)

func size(r, c int) map[string]int { return map[string]int{"R": r, "C": c} }

func TestDoc(t *testing.T) {
	optest.Doc(t, "doc.go", swiglu.ForwardDefinition, swiglu.BackwardDefinition)
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
func of(t testing.TB, gate, up *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	y := optest.Garbage(t, gate.DType(), gate.Shape()...)
	optest.OK(t, swiglu.Forward(cpu.Queue(), y, gate, up))
	return y
}

// gradients is the backward operation.
func gradients(t testing.TB, dy, gate, up *tensor.Tensor) (dgate, dup *tensor.Tensor) {
	t.Helper()
	dgate, dup = optest.Garbage(t, gate.DType(), gate.Shape()...), optest.Garbage(t, gate.DType(), gate.Shape()...)
	optest.OK(t, swiglu.Backward(cpu.Queue(), dgate, dup, dy, gate, up))
	return
}

func TestByHand(t *testing.T) {
	for _, d := range num.FloatDTypes {
		gate, up, dy := optest.Vector(t, d, 0, 100, -200), optest.Vector(t, d, 3, 3, 3), optest.Vector(t, d, 2, 2, 2)
		optest.Want(t, "y", of(t, gate, up), 0, 300, zero)
		dgate, dup := gradients(t, dy, gate, up)
		optest.Want(t, "dgate", dgate, 3, 6, 0)
		optest.Want(t, "dup", dup, 0, 200, zero)
	}
	// sigmoid(1) = 0.73105857863000487 and sigmoid(-1) = 0.26894142136999512, to seventeen
	// digits; the derivative is 0.92767051187148673 and 0.07232948812851327: none of the
	// roundings to 16 bits is close.
	for _, d := range []num.DType{num.F16, num.BF16} {
		gate, one := optest.Vector(t, d, 1, -1), optest.Vector(t, d, 1, 1)
		optest.Want(t, "y", of(t, gate, one), 0.73105857863000487, -0.26894142136999512)
		dgate, dup := gradients(t, one, gate, one)
		optest.Want(t, "dgate", dgate, 0.92767051187148673, 0.07232948812851327)
		optest.Want(t, "dup", dup, 0.73105857863000487, -0.26894142136999512)
	}
}

// TestUnitFactors: with factors of 1 the results are those of silu, for every gate of 16 bits
// and a sample of f32.
func TestUnitFactors(t *testing.T) {
	for _, gate := range []*tensor.Tensor{optest.Every(t, num.F16), optest.Every(t, num.BF16), optest.Sample(t, 0, math.MaxFloat32)} {
		one := optest.Filled(t, gate, 1)
		y, slope := optest.Garbage(t, gate.DType(), gate.Shape()...), optest.Garbage(t, gate.DType(), gate.Shape()...)
		optest.OK(t, silu.Forward(cpu.Queue(), y, gate))
		optest.OK(t, silu.Backward(cpu.Queue(), slope, one, gate))
		dgate, dup := gradients(t, one, gate, one)
		optest.SameBits(t, "y", of(t, gate, one), y)
		optest.SameBits(t, "dgate", dgate, slope)
		optest.SameBits(t, "dup", dup, y)
	}
}

// The same operations written in Go, in the same order: the bits say where the definition
// rounds. exp and the reciprocal are taken from gates with factors of 1, which y·1 and dup do
// not round.
func TestOneRoundingPerProduct(t *testing.T) {
	g := gen.New("products")
	n := 4000
	gate, up, dy := make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range gate {
		gate[i], up[i], dy[i] = g.Uniform(-12, 12), g.Normal(), g.Normal()
	}
	x := optest.Vector(t, num.F32, gate...)
	one := optest.Filled(t, x, 1)
	slope, value := gradients(t, one, x, one)
	s, f := optest.Floats(t, value), optest.Floats(t, slope)
	var y, dgate, dup []float32
	for i := range gate {
		y = append(y, s[i]*up[i])
		dgate = append(dgate, dy[i]*float32(up[i]*f[i]))
		dup = append(dup, dy[i]*s[i])
	}
	ups, dys := optest.Vector(t, num.F32, up...), optest.Vector(t, num.F32, dy...)
	optest.Want(t, "y", of(t, x, ups), y...)
	a, b := gradients(t, dys, x, ups)
	optest.Want(t, "dgate", a, dgate...)
	optest.Want(t, "dup", b, dup...)

	// In 16 bits, silu is not rounded before the product: some results would show it.
	for _, d := range []num.DType{num.F16, num.BF16} {
		x16, up16 := optest.Vector(t, d, gate...), optest.Vector(t, d, up...)
		x32, up32 := optest.Vector(t, num.F32, optest.Floats(t, x16)...), optest.Vector(t, num.F32, optest.Floats(t, up16)...)
		once := optest.Floats(t, of(t, x32, up32))
		optest.Want(t, "y", of(t, x16, up16), once...)
		twice, factor := 0, optest.Floats(t, up16)
		for i, v := range optest.Floats(t, of(t, x16, optest.Filled(t, x16, 1))) {
			if num.Round(d, v*factor[i]) != num.Round(d, once[i]) {
				twice++
			}
		}
		if twice == 0 {
			t.Errorf("%s: a rounding of silu does not show", d)
		}
	}
}

func TestForwardClauses(t *testing.T) {
	both := func(t *testing.T, d num.DType, gate, up []float32) *tensor.Tensor {
		return of(t, optest.Vector(t, d, gate...), optest.Vector(t, d, up...))
	}
	optest.Clauses(t, swiglu.ForwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, forward, size(6, 5)) },
		"C2_nan": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				optest.Want(t, "y", both(t, d, []float32{nan, nan, 1, 0, -inf}, []float32{1, 0, nan, nan, nan}), nan, nan, nan, nan, nan)
			}
		},
		"C3_infinite_gate": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				optest.Want(t, "y", both(t, d, []float32{inf, inf, inf, -inf, -inf, -inf}, []float32{2, -2, 0, 2, -2, 0}), inf, -inf, nan, zero, 0, zero)
			}
		},
		"C4_infinite_up": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				optest.Want(t, "y", both(t, d, []float32{1, 1, -1, -1, 0, -104, -103, -inf}, []float32{inf, -inf, inf, -inf, inf, inf, inf, inf}), inf, -inf, -inf, inf, nan, nan, -inf, nan)
			}
		},
		"C5_zero_gate": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				optest.Want(t, "y", both(t, d, []float32{0, 0, zero, zero}, []float32{3, -3, 3, -3}), 0, zero, zero, 0)
			}
		},
		"C6_tails": func(t *testing.T) {
			for _, gate := range []*tensor.Tensor{optest.Every(t, num.F16), optest.Every(t, num.BF16), optest.Sample(t, 17, math.MaxFloat32)} {
				y := optest.Bits(t, of(t, gate, optest.Filled(t, gate, -1.75)))
				for i, v := range optest.Floats(t, gate) {
					switch d := gate.DType(); {
					case v >= 17 && y[i] != num.Narrow(d, v*-1.75):
						t.Errorf("%s: y is 0x%x at gate = %v, want gate*up", d, y[i], v)
					case v <= -104 && y[i] != num.Narrow(d, 0):
						t.Errorf("%s: y is 0x%x at gate = %v, want +0", d, y[i], v)
					}
				}
			}
		},
		"C7_range": func(t *testing.T) {
			optest.Want(t, "f16", both(t, num.F16, []float32{256, 256, 2}, []float32{256, -256, 65504}), inf, -inf, inf)
			optest.Want(t, "f32", both(t, num.F32, []float32{0x1p100, 0x1p100}, []float32{0x1p28, -0x1p27}), inf, -0x1p127)
			for _, d := range num.FloatDTypes {
				least := num.Widen(d, 1)
				optest.Want(t, "subnormal up", both(t, d, []float32{32, -32, 32}, []float32{least, least, -5 * least}), 32*least, zero, -160*least)
				optest.Want(t, "subnormal gate", both(t, d, []float32{2 * least, -6 * least}, []float32{1, 1}), least, -3*least)
			}
		},
		"C8_overlap": TestErrors,
	})
}

func TestBackwardClauses(t *testing.T) {
	run := func(t *testing.T, d num.DType, dy, gate, up []float32) (dgate, dup *tensor.Tensor) {
		return gradients(t, optest.Vector(t, d, dy...), optest.Vector(t, d, gate...), optest.Vector(t, d, up...))
	}
	optest.Clauses(t, swiglu.BackwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, backward, size(6, 5)) },
		"C2_nan": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				dgate, dup := run(t, d, []float32{nan, nan, 1, 0, 1}, []float32{1, -inf, nan, nan, 32}, []float32{1, 1, 1, 1, nan})
				optest.Want(t, "dgate", dgate, nan, nan, nan, nan, nan)
				optest.Want(t, "dup", dup, nan, nan, nan, nan, 32)
			}
		},
		"C3_infinite_gate": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				dgate, dup := run(t, d, []float32{7, -7, 0, 7, -7}, []float32{inf, inf, inf, -inf, -inf}, []float32{2, 2, 2, 2, 2})
				optest.Want(t, "dgate", dgate, 14, -14, 0, 0, zero)
				optest.Want(t, "dup", dup, inf, -inf, nan, zero, 0)
			}
		},
		"C4_infinite_factors": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				// The derivative is positive at 1, negative at -2 (-0.09) and zero far below.
				dgate, dup := run(t, d, []float32{inf, -inf, inf, inf, inf, 1, 1, 1}, []float32{1, 1, -2, -200, 1, 1, -2, -200}, []float32{1, 1, 1, 1, 0, -inf, inf, inf})
				optest.Want(t, "dgate", dgate, inf, -inf, -inf, nan, nan, -inf, -inf, nan)
				optest.Want(t, "dup of an infinite dy", dup, append([]float32{inf, -inf, -inf, nan, inf}, optest.Floats(t, dup)[5:]...)...)
				for i, v := range optest.Floats(t, dup)[5:] {
					if v-v != 0 {
						t.Errorf("%s: an infinite up reaches dup[%d]: %v", d, 5+i, v)
					}
				}
			}
		},
		"C5_zero_gate": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				dgate, dup := run(t, d, []float32{3, 3, -3}, []float32{0, zero, 0}, []float32{5, 5, 5})
				optest.Want(t, "dgate", dgate, 7.5, 7.5, -7.5)
				optest.Want(t, "dup", dup, 0, zero, zero)
			}
		},
		"C6_tails": func(t *testing.T) {
			for _, gate := range []*tensor.Tensor{optest.Every(t, num.F16), optest.Every(t, num.BF16), optest.Sample(t, 20, math.MaxFloat32)} {
				d := gate.DType()
				dgate, dup := gradients(t, optest.Filled(t, gate, -1.75), gate, optest.Filled(t, gate, 1.5))
				p, q := optest.Bits(t, dgate), optest.Bits(t, dup)
				for i, v := range optest.Floats(t, gate) {
					switch {
					case v >= 20 && (p[i] != num.Narrow(d, -2.625) || q[i] != num.Narrow(d, v*-1.75)):
						t.Errorf("%s: dgate is 0x%x, dup 0x%x at gate = %v, want the products", d, p[i], q[i], v)
					case v <= -104 && (p[i] != num.Narrow(d, zero) || q[i] != num.Narrow(d, 0)):
						t.Errorf("%s: dgate is 0x%x, dup 0x%x at gate = %v, want -0 and +0", d, p[i], q[i], v)
					}
				}
			}
		},
		"C7_range": func(t *testing.T) {
			for _, gate := range []*tensor.Tensor{optest.Every(t, num.F16), optest.Every(t, num.BF16), optest.Sample(t, 0x1p-10, 40)} {
				one := optest.Filled(t, gate, 1)
				dgate, _ := gradients(t, one, gate, one)
				slopes := optest.Floats(t, dgate)
				for i, v := range optest.Floats(t, gate) {
					if d := gate.DType(); v == v && !(slopes[i] >= num.Round(d, -0.1) && slopes[i] <= num.Round(d, 1.1)) {
						t.Errorf("%s: the derivative at %v is %v", d, v, slopes[i])
					}
				}
			}
			dgate, dup := run(t, num.F16, []float32{256, 65504}, []float32{32, 32}, []float32{256, 1})
			optest.Want(t, "too large for f16", dgate, inf, 65504)
			optest.Want(t, "too large for f16", dup, 8192, inf)
			dgate, _ = run(t, num.F32, []float32{0x1p-100, 0}, []float32{2.4, 2.4}, []float32{math.MaxFloat32, math.MaxFloat32})
			optest.Want(t, "up times a derivative of 1.1", dgate, inf, nan)
			for _, d := range num.FloatDTypes {
				least := num.Widen(d, 1)
				dgate, dup := run(t, d, []float32{2 * least, -5 * least}, []float32{0, 32}, []float32{1, 1})
				optest.Want(t, "subnormal dy", dgate, least, -5*least)
				optest.Want(t, "subnormal dy", dup, 0, -160*least)
			}
		},
		"C8_overlap": TestErrors,
	})
}

func BenchmarkSwiGLU(b *testing.B) {
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
