package rmsnorm_test

import (
	"errors"
	"math"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/num/ball"
	"tokitai/op/optest"
	"tokitai/op/rmsnorm"
	"tokitai/reference"
	"tokitai/tensor"
	"tokitai/truth"
)

var (
	forward = optest.Subject{
		Definition: rmsnorm.ForwardDefinition, Params: []float64{rmsnorm.DefaultEps}, Data: optest.Operation(rmsnorm.Operations, "rmsnorm.forward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return rmsnorm.Forward(q, x[2], x[3], x[0], x[1], rmsnorm.DefaultParams, opts...)
		},
	}
	residual = optest.Subject{
		Definition: rmsnorm.ResidualForwardDefinition, Params: []float64{rmsnorm.DefaultEps}, Data: optest.Operation(rmsnorm.Operations, "rmsnorm.residual.forward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return rmsnorm.ForwardResidual(q, x[3], x[4], x[5], x[0], x[1], x[2], rmsnorm.DefaultParams, opts...)
		},
	}
	backward = optest.Subject{
		Definition: rmsnorm.BackwardDefinition, Data: optest.Operation(rmsnorm.Operations, "rmsnorm.backward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return rmsnorm.Backward(q, x[4], x[5], x[0], x[1], x[2], x[3], opts...)
		},
	}
	residualBackward = optest.Subject{
		Definition: rmsnorm.ResidualBackwardDefinition, Data: optest.Operation(rmsnorm.Operations, "rmsnorm.residual.backward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return rmsnorm.BackwardResidual(q, x[5], x[6], x[0], x[1], x[2], x[3], x[4], opts...)
		},
	}
	inf  = float32(math.Inf(1))
	nan  = float32(math.NaN())
	zero = float32(math.Copysign(0, -1))
)

func size(r, c int) map[string]int { return map[string]int{"R": r, "C": c} }

func TestDoc(t *testing.T) {
	optest.Doc(t, "doc.go", rmsnorm.ForwardDefinition, rmsnorm.ResidualForwardDefinition, rmsnorm.BackwardDefinition, rmsnorm.ResidualBackwardDefinition)
}

func TestMatchReference(t *testing.T) {
	optest.MatchReference(t, forward, size(5, 77), size(2, 1), size(3, 1025))
	optest.MatchReference(t, residual, size(5, 77), size(2, 1), size(3, 1025))
	optest.MatchReference(t, backward, size(5, 77), size(1, 1), size(530, 3), size(2, 1025))
	optest.MatchReference(t, residualBackward, size(5, 77), size(1, 1), size(530, 3), size(2, 1025))
}

func TestErrors(t *testing.T) {
	optest.Errors(t, forward, size(3, 5))
	optest.Errors(t, residual, size(3, 5))
	optest.Errors(t, backward, size(3, 5))
	optest.Errors(t, residualBackward, size(3, 5))
}

// result is what Forward writes, and sum what ForwardResidual writes besides.
type result struct{ sum, y, rstd *tensor.Tensor }

// normalizeRows is the forward operation; gamma has the rows' length.
func normalizeRows(t testing.TB, d num.DType, eps float64, rows int, x, gamma []float32) result {
	t.Helper()
	in := optest.Matrix(t, d, rows, x...)
	r := result{y: optest.Garbage(t, d, in.Shape()...), rstd: optest.Garbage(t, num.F32, rows)}
	optest.OK(t, rmsnorm.Forward(cpu.Queue(), r.y, r.rstd, in, optest.Vector(t, d, gamma...), rmsnorm.Params{Eps: eps}))
	return r
}

// addAndNormalize is the operation with a residual.
func addAndNormalize(t testing.TB, d num.DType, eps float64, rows int, x, residual, gamma []float32) result {
	t.Helper()
	in := optest.Matrix(t, d, rows, x...)
	r := result{optest.Garbage(t, d, in.Shape()...), optest.Garbage(t, d, in.Shape()...), optest.Garbage(t, num.F32, rows)}
	optest.OK(t, rmsnorm.ForwardResidual(cpu.Queue(), r.sum, r.y, r.rstd, in, optest.Matrix(t, d, rows, residual...), optest.Vector(t, d, gamma...), rmsnorm.Params{Eps: eps}))
	return r
}

func differentiate(t testing.TB, d num.DType, dy, x, gamma, rstd []float32) (dx, dgamma *tensor.Tensor) {
	t.Helper()
	rows := len(rstd)
	a := optest.Matrix(t, d, rows, dy...)
	dx, dgamma = optest.Garbage(t, d, a.Shape()...), optest.Garbage(t, d, a.Cols())
	optest.OK(t, rmsnorm.Backward(cpu.Queue(), dx, dgamma, a, optest.Matrix(t, d, rows, x...), optest.Vector(t, d, gamma...), optest.Vector(t, num.F32, rstd...)))
	return
}

// differentiateResidual computes the gradients of the operation with a residual.
func differentiateResidual(t testing.TB, d num.DType, dy, dsum, sum, gamma, rstd []float32) (dx, dgamma *tensor.Tensor) {
	t.Helper()
	rows := len(rstd)
	a := optest.Matrix(t, d, rows, dy...)
	dx, dgamma = optest.Garbage(t, d, a.Shape()...), optest.Garbage(t, d, a.Cols())
	optest.OK(t, rmsnorm.BackwardResidual(cpu.Queue(), dx, dgamma, a, optest.Matrix(t, d, rows, dsum...), optest.Matrix(t, d, rows, sum...), optest.Vector(t, d, gamma...), optest.Vector(t, num.F32, rstd...)))
	return
}

func TestForwardByHand(t *testing.T) {
	for _, d := range num.FloatDTypes {
		// Mean squares 4 and 13, and eps 12 makes 16 and 25.
		r := normalizeRows(t, d, 12, 2, []float32{2, -2, 1, 5}, []float32{2, 4})
		optest.Want(t, "rstd", r.rstd, 0.25, 0.2)
		optest.Want(t, "y", r.y, 1, -2, 0.4, 4)
		s := addAndNormalize(t, d, 12, 2, []float32{1, 1, -3, 4}, []float32{1, -3, 4, 1}, []float32{2, 4})
		optest.Want(t, "sum", s.sum, 2, -2, 1, 5)
		optest.SameBits(t, "rstd of the sum", s.rstd, r.rstd)
		optest.SameBits(t, "y of the sum", s.y, r.y)
	}
}

func TestBackwardByHand(t *testing.T) {
	for _, d := range num.FloatDTypes {
		// Row 0: xhat = ∓1, t = (1,0,0,0), sum t·xhat/C = -¼. Row 1, with rstd 2: t = 2·xhat, so dx = 0.
		dx, dgamma := differentiate(t, d,
			[]float32{1, 0, 0, 0, 2, -2, 2, -2}, []float32{-1, 1, -1, 1, 0.5, -0.5, 0.5, -0.5}, []float32{1, 1, 1, 1}, []float32{1, 2})
		optest.Want(t, "dx", dx, 0.75, 0.25, -0.25, 0.25, 0, 0, 0, 0)
		optest.Want(t, "dgamma", dgamma, -1+2, 2, 2, 2)
		dx, dgamma = differentiateResidual(t, d, []float32{1, 0, 0, 0, 2, -2, 2, -2}, []float32{1, 2, 3, 4, 5, 6, 7, 8},
			[]float32{-1, 1, -1, 1, 0.5, -0.5, 0.5, -0.5}, []float32{1, 1, 1, 1}, []float32{1, 2})
		optest.Want(t, "dx with dsum", dx, 1.75, 2.25, 2.75, 4.25, 5, 6, 7, 8)
		optest.Want(t, "dgamma with dsum", dgamma, -1+2, 2, 2, 2)
	}
}

func randomRow(g *gen.Generator, n int, scale float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = scale * g.Normal()
	}
	return x
}

func scaled(x []float32, s float32) []float32 {
	y := make([]float32, len(x))
	for i := range x {
		y[i] = s * x[i]
	}
	return y
}

// The same operations written in Go, in the same order: the bits say where the
// definition rounds.
func TestPlainGo(t *testing.T) {
	g := gen.New("plain")
	const rows, cols = 600, 7 // more rows than a column sum has lanes
	x, add, dy, gamma := randomRow(g, rows*cols, 2), randomRow(g, rows*cols, 2), randomRow(g, rows*cols, 1), randomRow(g, cols, 1)
	n := float32(cols)
	sum := func(row []float32) float32 { return num.LaneSum(row, num.RowLanes(cols)) }
	for _, d := range num.FloatDTypes {
		var total, y, rstd, dx, passed []float32
		columns := make([][]float32, cols)
		narrow := func(x []float32) []float32 {
			var list []float32
			for _, v := range x {
				list = append(list, num.Round(d, v))
			}
			return list
		}
		x, add, dy, gamma := narrow(x), narrow(add), narrow(dy), narrow(gamma)
		for i := range x {
			total = append(total, num.Round(d, x[i]+add[i]))
		}
		for r := range rows {
			row, grad := total[r*cols:][:cols], dy[r*cols:][:cols]
			squares, products := make([]float32, cols), make([]float32, cols)
			for c, v := range row {
				squares[c] = v * v
			}
			inverse := 1 / num.Sqrt(sum(squares)/n+float32(1e-6))
			for c, v := range row {
				y = append(y, float32(v*inverse)*gamma[c])
				xhat := v * inverse
				products[c] = float32(grad[c]*gamma[c]) * xhat
				columns[c] = append(columns[c], grad[c]*xhat)
			}
			c := sum(products) / n
			for i, v := range row {
				projected := float32(grad[i]*gamma[i]) - float32(float32(v*inverse)*c)
				dx = append(dx, projected*inverse)
				passed = append(passed, num.FMA(projected, inverse, add[r*cols+i])) // add stands for dsum
			}
			rstd = append(rstd, inverse)
		}
		var dgamma []float32
		for c := range columns {
			dgamma = append(dgamma, num.LaneSum(columns[c], num.ColLanes(cols)))
		}
		a, b := addAndNormalize(t, d, 1e-6, rows, x, add, gamma), normalizeRows(t, d, 1e-6, rows, total, gamma)
		optest.Want(t, "sum", a.sum, total...)
		for _, r := range []result{a, b} {
			optest.Want(t, "y", r.y, y...)
			optest.Want(t, "rstd", r.rstd, rstd...)
		}
		p, q := differentiate(t, d, dy, total, gamma, rstd)
		optest.Want(t, "dx", p, dx...)
		optest.Want(t, "dgamma", q, dgamma...)
		p, q = differentiateResidual(t, d, dy, add, total, gamma, rstd)
		optest.Want(t, "dx with dsum", p, passed...)
		optest.Want(t, "dgamma with dsum", q, dgamma...)
	}
}

// RMSNorm(2^k·x, 4^k·eps) = RMSNorm(x, eps), and RMSNorm(−x) = −RMSNorm(x): exact as long as
// nothing is subnormal.
func TestScalingAndNegation(t *testing.T) {
	g := gen.New("scaling")
	const rows, cols = 4, 300
	x, gamma := randomRow(g, rows*cols, 1), randomRow(g, cols, 1)
	want := normalizeRows(t, num.F32, 0x1p-12, rows, x, gamma)
	for _, k := range []int{-20, -1, 1, 30} {
		s := float32(math.Ldexp(1, k))
		got := normalizeRows(t, num.F32, math.Ldexp(0x1p-12, 2*k), rows, scaled(x, s), gamma)
		optest.SameBits(t, "y", got.y, want.y)
		optest.Want(t, "rstd", got.rstd, scaled(optest.Floats(t, want.rstd), 1/s)...)
	}
	negative := normalizeRows(t, num.F32, 0x1p-12, rows, scaled(x, -1), gamma)
	optest.Want(t, "y of -x", negative.y, scaled(optest.Floats(t, want.y), -1)...)
	optest.SameBits(t, "rstd of -x", negative.rstd, want.rstd)
}

func refusesEps(t *testing.T, name string, call func(x, s, gamma *tensor.Tensor, p rmsnorm.Params) error) {
	for _, eps := range []float64{math.NaN(), -1e-300, -1, math.Inf(1), 1e39} {
		x, s := optest.Matrix(t, num.F32, 1, 1, 2), optest.Vector(t, num.F32, 7)
		optest.Refused(t, call(x, s, optest.Vector(t, num.F32, 1, 1), rmsnorm.Params{Eps: eps}), name, "eps", name+".C2")
		optest.Want(t, "x after a refusal", x, 1, 2)
		optest.Want(t, "rstd after a refusal", s, 7)
	}
}

// forwardTests are the tests of what both forward definitions promise; run normalizes rows.
func forwardTests(run func(t *testing.T, d num.DType, eps float64, rows int, x, gamma []float32) result) map[string]func(t *testing.T) {
	one := []float32{1, 1}
	return map[string]func(t *testing.T){
		"nan": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				r := run(t, d, 0, 4, []float32{nan, 1, 1, nan, nan, inf, 1, 1}, one)
				optest.Want(t, "y", r.y, nan, nan, nan, nan, nan, nan, 1, 1)
				optest.Want(t, "rstd", r.rstd, nan, nan, nan, 1)
			}
		},
		"infinity_and_overflow": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				r := run(t, d, 1, 2, []float32{inf, 1, -1, -inf}, []float32{-1, 1})
				optest.Want(t, "y", r.y, nan, 0, 0, nan)
				optest.Want(t, "rstd", r.rstd, 0, 0)
				r = run(t, d, 1, 1, []float32{inf, -1, 1}, []float32{1, 1, inf})
				optest.Want(t, "y with an infinite gamma", r.y, nan, zero, nan)
			}
			r := run(t, num.F32, 1, 1, []float32{0x1p70, -1}, one)
			optest.Want(t, "y of an overflow", r.y, 0, zero)
			optest.Want(t, "rstd of an overflow", r.rstd, 0)
		},
		"eps_zero": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				r := run(t, d, 0, 1, []float32{0, 0}, one)
				optest.Want(t, "y", r.y, nan, nan)
				optest.Want(t, "rstd", r.rstd, inf)
				r = run(t, d, 1e-60, 1, []float32{0, 0}, one) // eps is 0 as binary32
				optest.Want(t, "rstd of a tiny eps", r.rstd, inf)
				r = run(t, d, 0x1p-148, 1, []float32{0, 0}, one)
				optest.Want(t, "y of zeros", r.y, 0, 0)
				optest.Want(t, "rstd of a subnormal eps", r.rstd, 0x1p74)
			}
			r := run(t, num.F32, 0, 1, []float32{-0x1p-100, 0x1p-100}, one)
			optest.Want(t, "y of an underflow", r.y, -inf, inf)
		},
		"gamma": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				r := run(t, d, 0, 2, []float32{2, 2, -2, 4, 4, 4}, []float32{nan, -inf, 3})
				optest.Want(t, "y", r.y, nan, -inf, -3, nan, -inf, 3)
				optest.Want(t, "rstd", r.rstd, 0.5, 0.25)
			}
		},
		"subnormals_and_overflow": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				least := num.Widen(d, 1)
				r := run(t, d, 0, 1, []float32{2, -2}, []float32{3 * least, least})
				optest.Want(t, "y", r.y, 3*least, -least)
				r = run(t, d, 0.25, 1, []float32{3 * least, -least}, one) // the squares are lost beside eps
				optest.Want(t, "y of a subnormal x", r.y, 6*least, -2*least)
			}
			r := run(t, num.F16, 0, 1, []float32{4, 0, 0, 0}, []float32{65504, 1, 1, 1})
			optest.Want(t, "y too large for f16", r.y, inf, 0, 0, 0)
		},
	}
}

func TestForwardClauses(t *testing.T) {
	tests := forwardTests(func(t *testing.T, d num.DType, eps float64, rows int, x, gamma []float32) result {
		return normalizeRows(t, d, eps, rows, x, gamma)
	})
	optest.Clauses(t, rmsnorm.ForwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, forward, size(6, 5)) },
		"C2_eps": func(t *testing.T) {
			refusesEps(t, "rmsnorm.forward", func(x, s, gamma *tensor.Tensor, p rmsnorm.Params) error {
				return rmsnorm.Forward(cpu.Queue(), x, s, x, gamma, p)
			})
		},
		"C3_nan":                     tests["nan"],
		"C4_infinity_and_overflow":   tests["infinity_and_overflow"],
		"C5_eps_zero":                tests["eps_zero"],
		"C6_gamma":                   tests["gamma"],
		"C7_subnormals_and_overflow": tests["subnormals_and_overflow"],
		"C8_overlap":                 TestErrors,
	})
}

func TestResidualClauses(t *testing.T) {
	tests := forwardTests(func(t *testing.T, d num.DType, eps float64, rows int, x, gamma []float32) result {
		none := make([]float32, len(x))
		return addAndNormalize(t, d, eps, rows, none, x, gamma)
	})
	optest.Clauses(t, rmsnorm.ResidualForwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, residual, size(6, 5)) },
		"C2_eps": func(t *testing.T) {
			refusesEps(t, "rmsnorm.residual.forward", func(x, s, gamma *tensor.Tensor, p rmsnorm.Params) error {
				return rmsnorm.ForwardResidual(cpu.Queue(), x, optest.Garbage(t, num.F32, 1, 2), s, x, optest.Matrix(t, num.F32, 1, 3, 4), gamma, p)
			})
		},
		"C3_stored_sum": func(t *testing.T) {
			g := gen.New("stored sum")
			const rows, cols = 7, 100
			x, add, gamma := randomRow(g, rows*cols, 1), randomRow(g, rows*cols, 1), randomRow(g, cols, 1)
			for _, d := range num.FloatDTypes {
				r := addAndNormalize(t, d, 1e-6, rows, x, add, gamma)
				again := normalizeRows(t, d, 1e-6, rows, optest.Floats(t, r.sum), gamma)
				optest.SameBits(t, "y", r.y, again.y)
				optest.SameBits(t, "rstd", r.rstd, again.rstd)
			}
			// 1 + 2^-11 is midway in f16.
			r := addAndNormalize(t, num.F16, 0, 1, []float32{1, 1}, []float32{0x1p-11, 0x1.8p-11}, []float32{1, 1})
			optest.Want(t, "sum", r.sum, 1, 1+0x1p-10)
		},
		"C4_special_sums": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				r := addAndNormalize(t, d, 1, 4, []float32{nan, 1, inf, 1}, []float32{1, nan, -inf, -inf}, []float32{1})
				optest.Want(t, "sum", r.sum, nan, nan, nan, -inf)
			}
			r := addAndNormalize(t, num.F16, 1, 1, []float32{65504, 65504}, []float32{16, 8}, []float32{1, 1})
			optest.Want(t, "a sum too large for f16", r.sum, inf, 65504)
		},
		"C5_nan":                     tests["nan"],
		"C6_infinity_and_overflow":   tests["infinity_and_overflow"],
		"C7_eps_zero":                tests["eps_zero"],
		"C8_gamma":                   tests["gamma"],
		"C9_subnormals_and_overflow": tests["subnormals_and_overflow"],
		"C10_overlap":                TestErrors,
	})
}

func TestBackwardClauses(t *testing.T) {
	run := func(t testing.TB, d num.DType, o gradients) (dx, dgamma *tensor.Tensor) {
		return differentiate(t, d, o.dy, o.x, o.gamma, o.rstd)
	}
	backwardClauses := backwardTests(run, nil)
	optest.Clauses(t, rmsnorm.BackwardDefinition, map[string]func(t *testing.T){
		"C1_shapes":           func(t *testing.T) { optest.Shapes(t, backward, size(6, 5)) },
		"C2_nan_rows":         backwardClauses["nan_rows"],
		"C3_nan_columns":      backwardClauses["nan_columns"],
		"C4_infinite_rows":    backwardClauses["infinite_rows"],
		"C5_infinite_columns": backwardClauses["infinite_columns"],
		"C6_given_rstd": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				dx, _ := differentiate(t, d, []float32{1, 2, 3}, []float32{-1, 0.5, 2}, []float32{1, -2, 0.5}, []float32{0})
				for i, v := range optest.Floats(t, dx) {
					if v != 0 {
						t.Errorf("rstd 0 gives dx[0,%d] = %v", i, v)
					}
				}
				_, dgamma := differentiate(t, d, []float32{1, 2}, []float32{3, 4}, []float32{1, 1}, []float32{-1})
				optest.Want(t, "dgamma", dgamma, -3, -8)
			}
		},
		"C7_subnormals_and_overflow": backwardClauses["subnormals_and_overflow"],
		"C8_overlap":                 TestErrors,
	})
}

func TestResidualBackwardClauses(t *testing.T) {
	run := func(t testing.TB, d num.DType, o gradients) (dx, dgamma *tensor.Tensor) {
		if o.dsum == nil {
			o.dsum = make([]float32, len(o.dy))
		}
		return differentiateResidual(t, d, o.dy, o.dsum, o.x, o.gamma, o.rstd)
	}
	tests := backwardTests(run, []bool{false, true, false, false, false, false})
	optest.Clauses(t, rmsnorm.ResidualBackwardDefinition, map[string]func(t *testing.T){
		"C1_shapes":           func(t *testing.T) { optest.Shapes(t, residualBackward, size(6, 5)) },
		"C2_nan_rows":         tests["nan_rows"],
		"C3_nan_columns":      tests["nan_columns"],
		"C4_infinite_rows":    tests["infinite_rows"],
		"C5_infinite_columns": tests["infinite_columns"],
		"C6_given_rstd": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				dx, _ := differentiateResidual(t, d, []float32{1, 2, 3}, []float32{4, -5, 6}, []float32{-1, 0.5, 2}, []float32{1, -2, 0.5}, []float32{0})
				optest.Want(t, "dx", dx, 4, -5, 6)
				_, dgamma := differentiateResidual(t, d, []float32{1, 2}, []float32{1, 1}, []float32{3, 4}, []float32{1, 1}, []float32{-1})
				optest.Want(t, "dgamma", dgamma, -3, -8)
			}
		},
		"C7_subnormals_and_overflow": func(t *testing.T) {
			tests["subnormals_and_overflow"](t)
			for _, d := range num.FloatDTypes {
				least := num.Widen(d, 1)
				dx, _ := differentiateResidual(t, d, []float32{0, 0}, []float32{least, -3 * least}, []float32{1, 1}, []float32{1, 1}, []float32{1})
				optest.Want(t, "dx", dx, least, -3*least)
			}
			dx, _ := differentiateResidual(t, num.F16, []float32{0}, []float32{65504}, []float32{1}, []float32{1}, []float32{1})
			optest.Want(t, "dx", dx, 65504)
			dx, _ = differentiateResidual(t, num.F16, []float32{60000, -60000}, []float32{60000, -60000}, []float32{1, 1}, []float32{1, 1}, []float32{1})
			optest.Want(t, "dx too large for f16", dx, inf, -inf)
		},
		"C8_overlap": TestErrors,
	})
}

// gradients are the operands of a call; dsum is nil if there is none.
type gradients struct{ dy, dsum, x, gamma, rstd []float32 }

// backwardTests are the tests of what both definitions of gradients promise. direct is what one bad
// element of dsum reaches in dx, nil if there is no dsum.
func backwardTests(run func(t testing.TB, d num.DType, o gradients) (dx, dgamma *tensor.Tensor), direct []bool) map[string]func(t *testing.T) {
	// Two rows of three columns in which one operand has one bad element.
	with := func(change func(o *gradients)) gradients {
		o := gradients{[]float32{1, 2, 3, 4, 5, 6}, []float32{1, 1, 2, 2, 3, 3}, []float32{-1, 0.5, 2, 1, -3, 0.25}, []float32{1, -2, 0.5}, []float32{1, 2}}
		change(&o)
		return o
	}
	all := []bool{true, true, true, true, true, true}
	first := []bool{true, true, true, false, false, false}
	middle := []bool{false, true, false}
	// What one bad element reaches: dx, dgamma.
	type reached struct {
		change     func(o *gradients, v float32)
		dx, dgamma []bool
	}
	reach := map[string]reached{
		"dy":    {func(o *gradients, v float32) { o.dy[1] = v }, first, middle},
		"x":     {func(o *gradients, v float32) { o.x[1] = v }, first, middle},
		"gamma": {func(o *gradients, v float32) { o.gamma[1] = v }, all, make([]bool, 3)},
		"rstd":  {func(o *gradients, v float32) { o.rstd[0] = v }, first, all[:3]},
	}
	if direct != nil {
		reach["dsum"] = reached{func(o *gradients, v float32) { o.dsum[1] = v }, direct, make([]bool, 3)}
	}
	// reaches compares what is lost with what should be.
	reaches := func(t *testing.T, isLost func(v float32) bool, of func(dx, dgamma *tensor.Tensor) *tensor.Tensor, isDX bool, values ...float32) {
		for name, r := range reach {
			for _, d := range num.FloatDTypes {
				for _, bad := range values {
					o := with(func(o *gradients) { r.change(o, bad) })
					want := r.dgamma
					if isDX {
						want = r.dx
					}
					for i, v := range optest.Floats(t, of(run(t, d, o))) {
						if isLost(v) != want[i] {
							t.Errorf("%v in %s (%s): [%d] is %v", bad, name, d, i, v)
						}
					}
				}
			}
		}
	}
	ofDX := func(dx, _ *tensor.Tensor) *tensor.Tensor { return dx }
	ofDGamma := func(_, dgamma *tensor.Tensor) *tensor.Tensor { return dgamma }
	isNaN := func(v float32) bool { return v != v }
	isLost := func(v float32) bool { return v-v != 0 }
	return map[string]func(t *testing.T){
		"nan_rows":         func(t *testing.T) { reaches(t, isNaN, ofDX, true, nan) },
		"nan_columns":      func(t *testing.T) { reaches(t, isNaN, ofDGamma, false, nan) },
		"infinite_rows":    func(t *testing.T) { reaches(t, isLost, ofDX, true, inf, -inf) },
		"infinite_columns": func(t *testing.T) { reaches(t, isLost, ofDGamma, false, inf, -inf) },
		"subnormals_and_overflow": func(t *testing.T) {
			one, ones := []float32{1}, []float32{1, 1, 1, 1}
			for _, d := range num.FloatDTypes {
				least := num.Widen(d, 1)
				dx, dgamma := run(t, d, gradients{dy: []float32{4 * least, 0, 0, 0}, x: []float32{-1, 1, -1, 1}, gamma: ones, rstd: one})
				optest.Want(t, "dx", dx, 3*least, least, -least, least)
				optest.Want(t, "dgamma", dgamma, -4*least, 0, 0, 0)
			}
			_, dgamma := run(t, num.F16, gradients{dy: []float32{60000, 0, 60000, 0}, x: ones, gamma: ones[:2], rstd: ones[:2]})
			optest.Want(t, "dgamma too large for f16", dgamma, inf, 0)
			const huge = math.MaxFloat32
			dx, dgamma := run(t, num.F32, gradients{dy: []float32{huge, huge, huge, 1}, x: ones, gamma: ones[:2], rstd: ones[:2]})
			optest.Want(t, "dgamma that overflows", dgamma, inf, huge)
			optest.Want(t, "a row sum that overflows", dx, -inf, -inf, huge/2, -huge/2)
		},
	}
}

// The sum as it is stored is the truth's, too: whatever the promise, y and rstd of the operation with
// a residual admit what rmsnorm.forward admits on the sum, and sum in 16 bits admits one value.
func TestResidualSets(t *testing.T) {
	for _, d := range num.FloatDTypes {
		for _, p := range optest.Operation(rmsnorm.Operations, rmsnorm.ResidualForwardDefinition.Name).Patterns {
			g := gen.New(p.Name)
			const rows, cols = 2, 40
			formats, plain := dtypes(rmsnorm.ResidualForwardDefinition, d), dtypes(rmsnorm.ForwardDefinition, d)
			array := func(f num.DType, name string, rows, cols int) num.Array {
				a := num.NewArray(f, rows, cols)
				for r := range rows {
					for c := range cols {
						if values := p.Values[name]; values != nil {
							a.Set(r, c, values(g, r, c))
						}
					}
				}
				return a
			}
			x, residual, gamma := array(formats[0], "x", rows, cols), array(formats[1], "residual", rows, cols), array(formats[2], "gamma", 1, cols)
			y, rstd := num.NewArray(d, rows, cols), num.NewArray(num.F32, rows, 1)
			operands := []num.Array{x, residual, gamma, num.NewArray(d, rows, cols), y, rstd}
			optest.OK(t, reference.Run(rmsnorm.ResidualForwardDefinition, operands, reference.Options{Params: p.Params}))
			sum := operands[3]
			given := []num.Array{sum, gamma, num.NewArray(plain[2], rows, cols), rstd}

			type sets interface {
				Between(operand, row, col int) (lo, hi uint32)
				At(operand, row, col int) ball.Ball
			}
			compare := func(promise string, got, want sets) {
				for _, pair := range [][2]int{{4, 2}, {5, 3}} {
					for r := range rows {
						for c := range operands[pair[0]].Cols {
							lo, hi := got.Between(pair[0], r, c)
							wantLo, wantHi := want.Between(pair[1], r, c)
							if a, b := got.At(pair[0], r, c), want.At(pair[1], r, c); lo != wantLo || hi != wantHi || a != b && (a.Known() || b.Known()) {
								t.Fatalf("%s, %s, %s: output %d [%d,%d] is %v in [%#x, %#x], want %v in [%#x, %#x]", p.Name, d, promise, pair[0], r, c, a, lo, hi, b, wantLo, wantHi)
							}
						}
					}
				}
				for i := range rows * cols {
					r, c := i/cols, i%cols
					if lo, hi := got.Between(3, r, c); got.At(3, r, c).Known() && d != num.F32 && (lo != hi || num.Widen(d, lo) != sum.At(r, c)) {
						t.Fatalf("%s, %s, %s: sum[%d,%d] is in [%#x, %#x], want %v", p.Name, d, promise, r, c, lo, hi, sum.At(r, c))
					}
				}
			}
			for _, o := range []truth.Options{{Mode: truth.Exact}, {Mode: truth.Rounded}, {Mode: truth.Rounded, Order: &def.Order{}}, {Mode: truth.Rounded, IsIEEE: true}} {
				o.Params = p.Params
				got, err := truth.Enclose(rmsnorm.ResidualForwardDefinition, operands, o)
				optest.OK(t, err)
				want, err := truth.Enclose(rmsnorm.ForwardDefinition, given, o)
				optest.OK(t, err)
				compare(o.Mode.String(), got, want)
			}
			got, err := truth.EncloseStable(rmsnorm.ResidualForwardDefinition, operands, truth.StableOptions{Params: p.Params})
			optest.OK(t, err)
			want, err := truth.EncloseStable(rmsnorm.ForwardDefinition, given, truth.StableOptions{Params: p.Params})
			optest.OK(t, err)
			compare("stable", stableSets{got}, stableSets{want})
		}
	}
}

// stableSets are the sets of the promise stable with sums in any order.
type stableSets struct{ *truth.Stable }

func (s stableSets) Between(operand, row, col int) (lo, hi uint32) {
	return s.Stable.Between(operand, row, col, s.MostHeight())
}

// The operations by name read eps as text.
func TestOperation(t *testing.T) {
	for _, name := range []string{"rmsnorm.forward", "rmsnorm.residual.forward"} {
		o := optest.Operation(rmsnorm.Operations, name)
		in := engine.Args{"x": optest.Matrix(t, num.F32, 1, 2, -2), "gamma": optest.Vector(t, num.F32, 1, 1)}
		if name == "rmsnorm.residual.forward" {
			in["residual"] = optest.Matrix(t, num.F32, 1, 0, 0)
		}
		v, err := o.NewValues(map[string]string{"eps": "12"})
		optest.OK(t, err)
		out, err := o.Run(cpu.Queue(), in, v)
		optest.OK(t, err)
		optest.Want(t, "y", out["y"], 0.5, -0.5)
		optest.Want(t, "rstd", out["rstd"], 0.25)
		v, err = o.NewValues(map[string]string{"eps": "-1"})
		optest.OK(t, err)
		if _, err := o.Run(cpu.Queue(), in, v); !errors.Is(err, tensor.ErrBadArgument) {
			t.Errorf("eps -1 gives %v", err)
		}
	}
}

func BenchmarkRMSNorm(b *testing.B) {
	for _, d := range num.FloatDTypes {
		for _, dir := range []struct {
			name    string
			subject optest.Subject
		}{{"forward", forward}, {"residual-forward", residual}, {"backward", backward}, {"residual-backward", residualBackward}} {
			optest.Bench(b, optest.Timing{
				Name:    "dir=" + dir.name + "/dtype=" + d.String() + "/shape=256x1024",
				Subject: dir.subject, DTypes: dtypes(dir.subject.Definition, d), Sizes: size(256, 1024), Check: size(2, 1024),
			})
		}
	}
}

// dtypes stores everything as d that may be, and the rest as f32.
func dtypes(definition *def.Definition, d num.DType) []num.DType {
	gamma := definition.Operand("gamma")
	for _, choice := range definition.Formats() {
		if choice[0] == d && choice[gamma] == d {
			return choice
		}
	}
	panic("no such choice")
}
