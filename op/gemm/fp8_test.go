package gemm_test

import (
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/op/optest"
	"tokitai/tensor"
)

var fp8Subject = optest.Subject{
	Definition: gemm.FP8ForwardDefinition, Data: optest.Operation(gemm.Operations, gemm.FP8ForwardDefinition.Name).Data,
	Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
		return gemm.FP8Forward(q, x[2], x[0], x[1], x[3], x[4], opts...)
	},
}

func vector(t testing.TB, values ...float32) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromFloat32(cpu.Queue().Device(), num.F32, values, len(values))
	optest.OK(t, err)
	return x
}

func TestFP8MatchesReference(t *testing.T) {
	optest.MatchReference(t, fp8Subject, size(5, 9, 7), size(66, 3, 5), size(3, 131, 2), size(2, 3, 261), size(1, 1, 1))
}

func TestFP8ByHand(t *testing.T) {
	for _, d := range num.FP8DTypes {
		for _, out := range num.FloatDTypes {
			a := optest.Matrix(t, d, 2, 1, 2, 3, 4, 5, 6) // (2,3)
			b := optest.Matrix(t, d, 2, 7, 2, 1, 8, 0, 2) // (2,3): sums 14 14 and 44 44
			c := optest.Garbage(t, out, 2, 2)
			optest.OK(t, gemm.FP8Forward(cpu.Queue(), c, a, b, vector(t, 0.5, 2), vector(t, 1, -4)))
			optest.Want(t, "C", c, 7, -28, 88, -352)
		}
	}
}

// The definition in plain Go.
func TestFP8PlainGo(t *testing.T) {
	g := gen.New("fp8 plain")
	for _, d := range num.FP8DTypes {
		const m, n, k = 7, 6, 300
		a, b := matrix(t, g, d, m, k), matrix(t, g, d, n, k)
		rows, cols := make([]float32, m), make([]float32, n)
		for i := range rows {
			rows[i] = g.Ordinary()
		}
		for i := range cols {
			cols[i] = g.Ordinary()
		}
		x, y := optest.Floats(t, a), optest.Floats(t, b)
		want := make([]float32, m*n)
		for i := range want {
			r, c := i/n, i%n
			sum := float32(0)
			for j := range k {
				sum += float32(x[r*k+j] * y[c*k+j])
			}
			want[i] = float32(float32(sum*rows[r]) * cols[c])
		}
		for _, out := range num.FloatDTypes {
			result := optest.Garbage(t, out, m, n)
			optest.OK(t, gemm.FP8Forward(cpu.Queue(), result, a, b, vector(t, rows...), vector(t, cols...)))
			optest.Want(t, "C", result, want...)
		}
	}
}

func TestFP8Clauses(t *testing.T) {
	// dot is one element: the sum of products of two rows, times two scales.
	dot := func(t *testing.T, in, out num.DType, x, y []float32, row, col float32) *tensor.Tensor {
		t.Helper()
		c := optest.Garbage(t, out, 1, 1)
		optest.OK(t, gemm.FP8Forward(cpu.Queue(), c, optest.Matrix(t, in, 1, x...), optest.Matrix(t, in, 1, y...), vector(t, row), vector(t, col)))
		return c
	}
	list := func(x ...float32) []float32 { return x }
	optest.Clauses(t, gemm.FP8ForwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, fp8Subject, size(6, 4, 8)) },
		"C2_model": func(t *testing.T) {
			// 2^15·2^15 + 2^-7·1 …: from 2^30 on, 2^-7 is lost unless it comes first.
			for _, first := range []bool{true, false} {
				x, y, want := list(0x1p15, -0x1p15, 1), list(0x1p15, 0x1p15, 0x1p-7), float32(0x1p-7)
				if first {
					x, y, want = list(1, 0x1p15, -0x1p15), list(0x1p-7, 0x1p15, 0x1p15), 0
				}
				optest.Want(t, "the order of the sum", dot(t, num.E5M2, num.F32, x, y, 1, 1), want)
			}
			// Truncated to 13 bits, as a tensor core does, 4096 + 1 would be 4096 after 4096.
			optest.Want(t, "no bit is lost", dot(t, num.E4M3, num.F32, list(256, 1, 256, 1), list(256, 1, 256, 1), 1, 1), 2*65536+2)
		},
		"C3_scales": func(t *testing.T) {
			const u = 0x1p-23
			row, col := float32(1+u), float32(1+3*u)
			want := float32(float32(3*row) * col)
			if other := float32(3 * float32(row*col)); other == want {
				t.Fatal("the scales do not tell the order of the products")
			}
			optest.Want(t, "the row first", dot(t, num.E4M3, num.F32, list(3), list(1), row, col), want)
			// 2^127·8 overflows before the scale of the column is there.
			optest.Want(t, "overflow in between", dot(t, num.E4M3, num.F32, list(2), list(4), 0x1p127, 0x1p-100), inf)
			// 2049 is rounded to 2048 in f16; times 2 first it is 4098, and that 4096.
			optest.Want(t, "one rounding to f16", dot(t, num.E4M3, num.F16, list(128, 1), list(16, 1), 1, 2), 4098)
		},
		"C4_nan_and_infinities": func(t *testing.T) {
			for _, in := range num.FP8DTypes {
				optest.Want(t, "NaN", dot(t, in, num.F32, list(nan, 1), list(0, 1), 1, 1), nan)
				optest.Want(t, "a scale of 0 and NaN", dot(t, in, num.F16, list(nan), list(1), 0, 1), nan)
				optest.Want(t, "an infinite scale of 0", dot(t, in, num.F32, list(0), list(1), inf, 1), nan)
				optest.Want(t, "an infinite scale", dot(t, in, num.BF16, list(2), list(-1), 1, inf), -inf)
				optest.Want(t, "a NaN scale", dot(t, in, num.F32, list(2), list(1), 1, nan), nan)
			}
			optest.Want(t, "0·Inf", dot(t, num.E5M2, num.F32, list(0, 1), list(inf, 1), 1, 1), nan)
			optest.Want(t, "Inf − Inf", dot(t, num.E5M2, num.F32, list(inf, -1), list(1, inf), 1, 1), nan)
			optest.Want(t, "-Inf", dot(t, num.E5M2, num.F16, list(inf, 5), list(-2, 1), 1, 1), -inf)
			optest.Want(t, "Inf times 0", dot(t, num.E5M2, num.F32, list(inf), list(1), 0, 1), nan)
			optest.Want(t, "e4m3 has no infinities", dot(t, num.E4M3, num.F32, list(inf), list(1), 1, 1), nan)
		},
		"C5_zeros": func(t *testing.T) {
			optest.Want(t, "0·NaN", dot(t, num.E4M3, num.F32, list(0, 0), list(0, nan), 1, 1), nan)
			optest.Want(t, "−0 alone", dot(t, num.E4M3, num.F32, list(zero), list(1), 1, 1), 0)
			optest.Want(t, "1 − 1, negated", dot(t, num.E4M3, num.F32, list(1, -1), list(1, 1), -1, 1), zero)
			optest.Want(t, "a scale of −0", dot(t, num.E4M3, num.F32, list(1), list(1), zero, 1), zero)
		},
		"C6_overlap": func(t *testing.T) {
			optest.Errors(t, fp8Subject, size(3, 4, 5))
			square := optest.Matrix(t, num.E4M3, 2, 1, 2, 3, 4)
			scales, c := vector(t, 1, 2), optest.Garbage(t, num.F32, 2, 2)
			optest.OK(t, gemm.FP8Forward(cpu.Queue(), c, square, square, scales, scales))
			optest.Want(t, "a matrix and itself", c, 5, 22, 22, 100)
		},
		"C7_range": func(t *testing.T) {
			for _, in := range num.FP8DTypes {
				least := num.Widen(in, 1)
				optest.Want(t, "subnormals", dot(t, in, num.F32, list(least, 2*least), list(1, 1), 1, 1), 3*least)
				optest.Want(t, "the largest", dot(t, in, num.F32, list(float32(num.MaxFinite(in))), list(1), 1, 1), float32(num.MaxFinite(in)))
			}
			optest.Want(t, "a subnormal result", dot(t, num.E4M3, num.F32, list(1), list(1), 0x1p-100, 0x1p-45), 0x1p-145)
			optest.Want(t, "beyond binary32", dot(t, num.E4M3, num.F32, list(2), list(2), 0x1p100, -0x1p100), -inf)
			optest.Want(t, "too large for f16", dot(t, num.E4M3, num.F16, list(256), list(256), 1, 1), inf)
			optest.Want(t, "not in bf16", dot(t, num.E4M3, num.BF16, list(256), list(256), 1, 1), 65536)
		},
	})
}

// The operation by name takes the format of the result.
func TestFP8Operation(t *testing.T) {
	o := optest.Operation(gemm.Operations, "gemm.fp8.forward")
	in := engine.Args{
		"A": optest.Matrix(t, num.E4M3, 1, 300, 2), "B": optest.Matrix(t, num.E4M3, 1, 256, 1),
		"scale_a": vector(t, 1), "scale_b": vector(t, 1),
	}
	for out, want := range map[string]float32{"": 73730, "f32": 73730, "bf16": 73728, "f16": inf} {
		given := map[string]string{}
		if out != "" {
			given["out"] = out
		}
		v, err := o.NewValues(given)
		optest.OK(t, err)
		results, err := o.Run(cpu.Queue(), in, v)
		optest.OK(t, err)
		optest.Want(t, "C in "+out, results["C"], want)
	}
	v, err := o.NewValues(map[string]string{"out": "e4m3"})
	optest.OK(t, err)
	_, err = o.Run(cpu.Queue(), in, v)
	optest.Message(t, err, `gemm.fp8.forward: out is "e4m3", want f32, f16 or bf16`)
	v, err = o.NewValues(nil)
	optest.OK(t, err)
	delete(in, "scale_b")
	_, err = o.Run(cpu.Queue(), in, v)
	optest.Message(t, err, "gemm.fp8.forward: scale_b is missing, want inputs A, B, scale_a, scale_b")
}

// Every lowering of the host that follows the model fma gives the same bits.
func TestFP8Lowerings(t *testing.T) {
	g := gen.New("fp8 lowerings")
	a, b := matrix(t, g, num.E4M3, 33, 200), matrix(t, g, num.E4M3, 17, 200)
	scales := make([]float32, 33)
	for i := range scales {
		scales[i] = g.Ordinary()
	}
	var first *tensor.Tensor
	for _, l := range engine.Lowerings(cpu.Backend, gemm.FP8ForwardDefinition) {
		if l.Promise.Accum != def.FMAChain {
			continue
		}
		c := optest.Garbage(t, num.F32, 33, 17)
		optest.OK(t, gemm.FP8Forward(cpu.Queue(), c, a, b, vector(t, scales...), vector(t, scales[:17]...), engine.WithLowering(l.Name)))
		if first == nil {
			first = c
		}
		optest.SameBits(t, l.Name, c, first)
	}
}
