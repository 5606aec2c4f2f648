package relu2_test

import (
	"math"
	"slices"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/optest"
	"tokitai/op/relu2"
	"tokitai/tensor"
)

var (
	forward = optest.Subject{
		Definition: relu2.ForwardDefinition, Data: optest.Operation(relu2.Operations, "relu2.forward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return relu2.Forward(q, x[1], x[0], opts...)
		},
	}
	backward = optest.Subject{
		Definition: relu2.BackwardDefinition, Data: optest.Operation(relu2.Operations, "relu2.backward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return relu2.Backward(q, x[2], x[0], x[1], opts...)
		},
	}
	inf  = float32(math.Inf(1))
	nan  = float32(math.NaN())
	zero = float32(math.Copysign(0, -1))
)

func size(r, c int) map[string]int { return map[string]int{"R": r, "C": c} }

func TestDoc(t *testing.T) {
	optest.Doc(t, "doc.go", relu2.ForwardDefinition, relu2.BackwardDefinition)
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
	optest.OK(t, relu2.Forward(cpu.Queue(), y, x))
	return y
}

// gradient is the backward operation.
func gradient(t testing.TB, dy, x *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	dx := optest.Garbage(t, x.DType(), x.Shape()...)
	optest.OK(t, relu2.Backward(cpu.Queue(), dx, dy, x))
	return dx
}

// TestEveryInput: the square and the gradient are rounded once, to nearest, for every x of 16
// bits and a sample of f32. binary64 holds the products of 24 bits, and so does binary32 those
// of 11 and 8.
func TestEveryInput(t *testing.T) {
	const dy = -1.375
	for _, x := range []*tensor.Tensor{optest.Every(t, num.F16), optest.Every(t, num.BF16), optest.Sample(t, 0, math.MaxFloat32)} {
		var y, dx []uint32
		for _, v := range optest.Floats(t, x) {
			p := float64(v)
			if p <= 0 {
				p = 0
			}
			twice := float64(float32(2 * p)) // infinite from 2^127 on
			y = append(y, num.NarrowF64(x.DType(), float64(float32(p*p))))
			dx = append(dx, num.NarrowF64(x.DType(), float64(float32(dy*twice))))
		}
		optest.WantBits(t, "y", of(t, x), y...)
		optest.WantBits(t, "dx", gradient(t, optest.Filled(t, x, dy), x), dx...)
	}
}

func TestForwardClauses(t *testing.T) {
	each := func(t *testing.T, x, want []float32) {
		t.Helper()
		for _, d := range num.FloatDTypes {
			optest.Want(t, "y", of(t, optest.Vector(t, d, x...)), want...)
		}
	}
	optest.Clauses(t, relu2.ForwardDefinition, map[string]func(t *testing.T){
		"C1_shapes":  func(t *testing.T) { optest.Shapes(t, forward, size(6, 5)) },
		"C2_special": func(t *testing.T) { each(t, []float32{nan, inf, -inf}, []float32{nan, inf, 0}) },
		"C3_negative": func(t *testing.T) {
			each(t, []float32{-3, zero, 0, -0x1p-24}, []float32{0, 0, 0, 0})
		},
		"C4_range": func(t *testing.T) {
			optest.Want(t, "f16", of(t, optest.Vector(t, num.F16, 256, 0x1p-12, 255)), inf, 0x1p-24, 65024)
			optest.Want(t, "bf16", of(t, optest.Vector(t, num.BF16, 0x1p64, 0x1p-66)), inf, 0x1p-132)
			optest.Want(t, "f32", of(t, optest.Vector(t, num.F32, 0x1p64, 0x1p-74, 0x1.8p-75)), inf, 0x1p-148, 0x1p-149)
		},
		"C5_overlap": TestErrors,
	})
}

func TestBackwardClauses(t *testing.T) {
	each := func(t *testing.T, dy, x, want []float32) {
		t.Helper()
		for _, d := range num.FloatDTypes {
			optest.Want(t, "dx", gradient(t, optest.Vector(t, d, dy...), optest.Vector(t, d, x...)), want...)
		}
	}
	optest.Clauses(t, relu2.BackwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, backward, size(6, 5)) },
		"C2_nan": func(t *testing.T) {
			each(t, []float32{nan, nan, 1, 0}, []float32{1, -1, nan, nan}, []float32{nan, nan, nan, nan})
		},
		"C3_infinite_x": func(t *testing.T) {
			each(t, []float32{7, -7, 0, zero}, []float32{inf, inf, inf, inf}, []float32{inf, -inf, nan, nan})
		},
		"C4_infinite_dy": func(t *testing.T) {
			each(t, []float32{inf, -inf, inf, inf, -inf, inf}, []float32{1, 1, -1, 0, zero, -inf}, []float32{inf, -inf, nan, nan, nan, nan})
		},
		"C5_negative": func(t *testing.T) {
			each(t, []float32{3, -3, 3, -3, 3, -3, 0, zero}, []float32{-1, -1, 0, zero, -inf, -inf, 5, 5}, []float32{0, zero, 0, zero, 0, zero, 0, zero})
		},
		"C6_range": func(t *testing.T) {
			optest.Want(t, "f16", gradient(t, optest.Vector(t, num.F16, 256, -256, 0x1p-24), optest.Vector(t, num.F16, 128, 128, 1.5)), inf, -inf, 3*0x1p-24)
			big := float32(0x1p127)
			optest.Want(t, "f32", gradient(t, optest.Vector(t, num.F32, 0x1p-100, -0x1p-100, 0, 0x1p-149), optest.Vector(t, num.F32, big, big/2, big, 0.75)), inf, -0x1p27, nan, 0x1p-148)
		},
		"C7_overlap": TestErrors,
	})
}

func BenchmarkReLU2(b *testing.B) {
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
