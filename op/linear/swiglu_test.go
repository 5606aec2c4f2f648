package linear_test

import (
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/op/linear"
	"tokitai/op/optest"
	"tokitai/op/swiglu"
	"tokitai/tensor"
)

var gated = optest.Subject{
	Definition: linear.SwiGLUDefinition, Data: linear.Operations[1].Data,
	Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
		return linear.SwiGLU(q, x[5], x[3], x[4], x[0], x[1], x[2], opts...)
	},
}

func TestSwiGLUMatchesReference(t *testing.T) {
	optest.MatchReference(t, gated, size(5, 9, 7), size(66, 3, 5), size(2, 130, 33), size(1, 1, 1))
}

func TestSwiGLUErrors(t *testing.T) { optest.Errors(t, gated, size(3, 4, 5)) }

// oneGated is one element: of the product of a with g, and with u.
func oneGated(t testing.TB, d num.DType, a, g, u []float32) (gate, up, y *tensor.Tensor) {
	t.Helper()
	gate, up, y = optest.Garbage(t, d, 1, 1), optest.Garbage(t, d, 1, 1), optest.Garbage(t, d, 1, 1)
	optest.OK(t, linear.SwiGLU(cpu.Queue(), y, gate, up, optest.Matrix(t, d, 1, a...), optest.Matrix(t, d, 1, g...), optest.Matrix(t, d, 1, u...)))
	return gate, up, y
}

// TestThreeCalls: the bits are those of two products that are stored, and of swiglu.forward.
func TestThreeCalls(t *testing.T) {
	r := gen.New(t.Name())
	for _, d := range num.FloatDTypes {
		const m, n, k = 37, 70, 200
		matrix := func(rows, cols int) *tensor.Tensor {
			values := make([]float32, rows*cols)
			for i := range values {
				values[i] = r.Normal() / 4
			}
			return optest.Matrix(t, d, rows, values...)
		}
		a, g, u := matrix(m, k), matrix(n, k), matrix(n, k)
		var got, want [3]*tensor.Tensor
		for i := range got {
			got[i], want[i] = optest.Garbage(t, d, m, n), optest.Garbage(t, d, m, n)
		}
		optest.OK(t, linear.SwiGLU(cpu.Queue(), got[0], got[1], got[2], a, g, u))
		optest.OK(t, gemm.GradA(cpu.Queue(), want[1], a, g))
		optest.OK(t, gemm.GradA(cpu.Queue(), want[2], a, u))
		optest.OK(t, swiglu.Forward(cpu.Queue(), want[0], want[1], want[2]))
		for i, name := range []string{"Y", "gate", "up"} {
			optest.SameBits(t, name+" in "+d.String(), got[i], want[i])
		}
	}
}

func TestSwiGLUClauses(t *testing.T) {
	// check compares gate, up and Y of one element.
	check := func(t *testing.T, what string, d num.DType, a, g, u []float32, gate, up, y float32) {
		t.Helper()
		x, v, w := oneGated(t, d, a, g, u)
		optest.Want(t, what+": gate", x, gate)
		optest.Want(t, what+": up", v, up)
		optest.Want(t, what+": Y", w, y)
	}
	optest.Clauses(t, linear.SwiGLUDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, gated, size(6, 4, 8)) },
		"C2_model": func(t *testing.T) {
			check(t, "the order of the sums", num.F32, list(1, 1, 1), list(0x1p-7, 0x1p30, -0x1p30), list(0x1p30, -0x1p30, 64), 0, 64, 0)
			check(t, "a far gate", num.F32, list(1, 1), list(32, 8), list(3, 4), 40, 7, 280)
			// 2049 is rounded to 2048 in f16, and that is what Y is made of.
			check(t, "the gate is rounded", num.F16, list(1, 1), list(2048, 1), list(2, 0), 2048, 2, 4096)
		},
		"C3_nan_and_infinities": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				check(t, "a NaN in the gate", d, list(1), list(nan), list(2), nan, 2, nan)
				check(t, "a NaN in up", d, list(1), list(2), list(nan), 2, nan, nan)
				check(t, "0·Inf", d, list(0), list(inf), list(2), nan, 0, nan)
				check(t, "an infinite gate", d, list(1), list(inf), list(-2), inf, -2, -inf)
				check(t, "an infinite up", d, list(1), list(2), list(inf), 2, inf, inf)
			}
		},
		"C4_overlap": func(t *testing.T) {
			square := optest.Matrix(t, num.F32, 2, 10, 0, 0, 20)
			gate, up, y := optest.Garbage(t, num.F32, 2, 2), optest.Garbage(t, num.F32, 2, 2), optest.Garbage(t, num.F32, 2, 2)
			optest.OK(t, linear.SwiGLU(cpu.Queue(), y, gate, up, square, square, square))
			optest.Want(t, "a matrix and itself", y, 10000, 0, 0, 160000)
			optest.Refused(t, linear.SwiGLU(cpu.Queue(), y, gate, gate, square, square, square), "linear.swiglu.forward", "gate", "")
		},
		"C5_range": func(t *testing.T) {
			check(t, "a product too large for f16", num.F16, list(256), list(256), list(1), inf, 256, inf)
			check(t, "a result too large for f16", num.F16, list(256), list(1), list(255), 256, 65280, inf)
			check(t, "a subnormal product", num.F16, list(0x1p-12), list(0x1p15), list(0x1p-12), 8, 0x1p-24, 0x1p-21)
			check(t, "beyond binary32", num.BF16, list(0x1p100), list(0x1p100), list(-0x1p100), inf, -inf, -inf)
		},
	})
}
