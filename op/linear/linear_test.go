package linear_test

import (
	"math"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/op/linear"
	"tokitai/op/optest"
	"tokitai/tensor"
)

var (
	residual = optest.Subject{
		Definition: linear.ResidualDefinition, Data: linear.Operations[0].Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return linear.Residual(q, x[3], x[2], x[0], x[1], opts...)
		},
	}
	inf  = float32(math.Inf(1))
	nan  = float32(math.NaN())
	list = func(x ...float32) []float32 { return x }
)

func size(m, n, k int) map[string]int { return map[string]int{"M": m, "N": n, "K": k} }

func TestDoc(t *testing.T) {
	optest.Doc(t, "doc.go", linear.ResidualDefinition, linear.SwiGLUDefinition)
}

func TestMatchReference(t *testing.T) {
	optest.MatchReference(t, residual, size(5, 9, 7), size(66, 3, 5), size(2, 130, 33), size(1, 1, 1))
}

func TestErrors(t *testing.T) { optest.Errors(t, residual, size(3, 4, 5)) }

// one is one element: x plus the product of two rows.
func one(t testing.TB, d num.DType, x float32, a, b []float32) *tensor.Tensor {
	t.Helper()
	y := optest.Garbage(t, d, 1, 1)
	optest.OK(t, linear.Residual(cpu.Queue(), y, optest.Matrix(t, d, 1, x), optest.Matrix(t, d, 1, a...), optest.Matrix(t, d, 1, b...)))
	return y
}

func TestByHand(t *testing.T) {
	for _, d := range num.FloatDTypes {
		y := optest.Garbage(t, d, 2, 2)
		optest.OK(t, linear.Residual(cpu.Queue(), y, optest.Matrix(t, d, 2, 1, 2, 3, -4), optest.Matrix(t, d, 2, 1, 2, 3, 4, 5, 6), optest.Matrix(t, d, 2, 7, 2, 1, 8, 0, 2)))
		optest.Want(t, "Y", y, 15, 16, 47, 40)
	}
}

// TestTwoCalls: the bits are those of a product that is stored, and of an addition.
func TestTwoCalls(t *testing.T) {
	g := gen.New(t.Name())
	for _, d := range num.FloatDTypes {
		const m, n, k = 37, 70, 200
		matrix := func(rows, cols int) *tensor.Tensor {
			values := make([]float32, rows*cols)
			for i := range values {
				values[i] = g.Normal()
			}
			return optest.Matrix(t, d, rows, values...)
		}
		a, b, x, y, p := matrix(m, k), matrix(n, k), matrix(m, n), optest.Garbage(t, d, m, n), optest.Garbage(t, d, m, n)
		optest.OK(t, linear.Residual(cpu.Queue(), y, x, a, b))
		optest.OK(t, gemm.GradA(cpu.Queue(), p, a, b))
		var want []float32
		once := 0
		products, added := optest.Floats(t, p), optest.Floats(t, x)
		for i := range products {
			want = append(want, products[i]+added[i])
			if num.Round(d, want[i]) != want[i] {
				once++
			}
		}
		optest.Want(t, "Y in "+d.String(), y, want...)
		if d != num.F32 && once == 0 {
			t.Errorf("%s: no result is rounded", d)
		}
	}
}

func TestClauses(t *testing.T) {
	optest.Clauses(t, linear.ResidualDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, residual, size(6, 4, 8)) },
		"C2_model": func(t *testing.T) {
			optest.Want(t, "the order of the sum", one(t, num.F32, 0, list(1, 0x1p15, -0x1p15), list(0x1p-7, 0x1p15, 0x1p15)), 0)
			optest.Want(t, "the order of the sum", one(t, num.F32, 0, list(0x1p15, -0x1p15, 1), list(0x1p15, 0x1p15, 0x1p-7)), 0x1p-7)
			// 2049 is rounded to 2048 in f16; with 1 added first it is 2050.
			optest.Want(t, "the product is rounded", one(t, num.F16, 1, list(2048, 1), list(1, 1)), 2048)
			optest.Want(t, "in f32 it is not", one(t, num.F32, 1, list(2048, 1), list(1, 1)), 2050)
		},
		"C3_nan_and_infinities": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				optest.Want(t, "NaN", one(t, d, 0, list(nan, 1), list(0, 1)), nan)
				optest.Want(t, "NaN", one(t, d, nan, list(1, 1), list(0, 1)), nan)
				optest.Want(t, "0·Inf", one(t, d, 0, list(0, 1), list(inf, 1)), nan)
				optest.Want(t, "Inf − Inf", one(t, d, 0, list(inf, -1), list(1, inf)), nan)
				optest.Want(t, "Inf − Inf", one(t, d, -inf, list(inf, 1), list(1, 1)), nan)
				optest.Want(t, "-Inf", one(t, d, 3, list(inf, 5), list(-2, 1)), -inf)
				optest.Want(t, "Inf", one(t, d, inf, list(1, 5), list(-2, 1)), inf)
			}
		},
		"C4_overlap": func(t *testing.T) {
			square, y := optest.Matrix(t, num.F32, 2, 1, 2, 3, 4), optest.Garbage(t, num.F32, 2, 2)
			optest.OK(t, linear.Residual(cpu.Queue(), y, square, square, square))
			optest.Want(t, "a matrix, itself and itself", y, 6, 13, 14, 29)
			optest.Refused(t, linear.Residual(cpu.Queue(), square, square, y, y), "linear.residual.forward", "Y", "")
		},
		"C5_range": func(t *testing.T) {
			optest.Want(t, "subnormals", one(t, num.F16, 0x1p-24, list(0x1p-12), list(0x1p-12)), 0x1p-23)
			optest.Want(t, "a product too large for f16", one(t, num.F16, -60000, list(256), list(256)), inf)
			optest.Want(t, "a result too large for f16", one(t, num.F16, 60000, list(256), list(128)), inf)
			optest.Want(t, "a partial sum", one(t, num.F32, 0, list(0x1p100, 0x1p100), list(0x1p100, -0x1p100)), inf)
			optest.Want(t, "beyond binary32", one(t, num.BF16, 1, list(0x1p100), list(-0x1p100)), -inf)
		},
	})
}
