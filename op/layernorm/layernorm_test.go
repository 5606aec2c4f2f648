package layernorm_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/layernorm"
	"tokitai/op/optest"
	"tokitai/tensor"
)

var (
	forward = optest.Subject{
		Definition: layernorm.ForwardDefinition, Params: []float64{layernorm.DefaultEps}, Data: optest.Operation(layernorm.Operations, "layernorm.forward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return layernorm.Forward(q, x[3], x[4], x[5], x[0], x[1], x[2], layernorm.DefaultParams, opts...)
		},
	}
	backward = optest.Subject{
		Definition: layernorm.BackwardDefinition, Data: optest.Operation(layernorm.Operations, "layernorm.backward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return layernorm.Backward(q, x[5], x[6], x[7], x[0], x[1], x[2], x[3], x[4], opts...)
		},
	}
	inf  = float32(math.Inf(1))
	nan  = float32(math.NaN())
	huge = float32(math.MaxFloat32)
)

func size(r, c int) map[string]int { return map[string]int{"R": r, "C": c} }

func TestDoc(t *testing.T) {
	optest.Doc(t, "doc.go", layernorm.ForwardDefinition, layernorm.BackwardDefinition)
}

func TestMatchReference(t *testing.T) {
	optest.MatchReference(t, forward, size(5, 77), size(2, 1), size(3, 1025))
	optest.MatchReference(t, backward, size(5, 77), size(1, 1), size(530, 3), size(2, 1025))
}

func TestErrors(t *testing.T) {
	optest.Errors(t, forward, size(3, 5))
	optest.Errors(t, backward, size(3, 5))
}

// result is what Forward writes.
type result struct{ y, mean, rstd *tensor.Tensor }

// normalize is the forward operation; gamma and beta have the rows' length.
func normalize(t testing.TB, d num.DType, eps float64, rows int, x, gamma, beta []float32) result {
	t.Helper()
	in := optest.Matrix(t, d, rows, x...)
	r := result{optest.Garbage(t, d, in.Shape()...), optest.Garbage(t, num.F32, rows), optest.Garbage(t, num.F32, rows)}
	optest.OK(t, layernorm.Forward(cpu.Queue(), r.y, r.mean, r.rstd, in, optest.Vector(t, d, gamma...), optest.Vector(t, d, beta...), layernorm.Params{Eps: eps}))
	return r
}

// gradients is what Backward writes.
type gradients struct{ dx, dgamma, dbeta *tensor.Tensor }

func differentiate(t testing.TB, d num.DType, dy, x, gamma, mean, rstd []float32) gradients {
	t.Helper()
	rows := len(mean)
	a := optest.Matrix(t, d, rows, dy...)
	g := gradients{optest.Garbage(t, d, a.Shape()...), optest.Garbage(t, d, a.Cols()), optest.Garbage(t, d, a.Cols())}
	optest.OK(t, layernorm.Backward(cpu.Queue(), g.dx, g.dgamma, g.dbeta, a, optest.Matrix(t, d, rows, x...),
		optest.Vector(t, d, gamma...), optest.Vector(t, num.F32, mean...), optest.Vector(t, num.F32, rstd...)))
	return g
}

func TestForwardByHand(t *testing.T) {
	for _, d := range num.FloatDTypes {
		r := normalize(t, d, 3, 2, []float32{1, 3, 6, 6}, []float32{2, 4}, []float32{8, 16})
		optest.Want(t, "mean", r.mean, 2, 6)
		optest.Want(t, "rstd", r.rstd, 0.5, float32(1/math.Sqrt(3))) // variances 1 and 0
		optest.Want(t, "y", r.y, 7, 18, 8, 16)

		// Differences to the mean ±2: variance 4, however far away the mean is.
		r = normalize(t, d, 0, 2, []float32{0, 4, 0, 4, 252, 256, 252, 256}, []float32{1, 1, 1, 1}, []float32{0, 0, 0, 0})
		optest.Want(t, "mean", r.mean, 2, 254)
		optest.Want(t, "rstd", r.rstd, 0.5, 0.5)
		optest.Want(t, "y", r.y, -1, 1, -1, 1, -1, 1, -1, 1)
	}
}

func TestBackwardByHand(t *testing.T) {
	for _, d := range num.FloatDTypes {
		// xhat = ∓1. Row 0: t = (1,0,0,0), sum t/C = ¼, sum t·xhat/C = -¼.
		// Row 1, with rstd 2: x − mean = ∓½, t is constant, so dx = 0.
		g := differentiate(t, d,
			[]float32{1, 0, 0, 0, 2, 2, 2, 2}, []float32{-1, 1, -1, 1, 9.5, 10.5, 9.5, 10.5},
			[]float32{1, 1, 1, 1}, []float32{0, 10}, []float32{1, 2})
		optest.Want(t, "dx", g.dx, 0.5, 0, -0.5, 0, 0, 0, 0, 0)
		optest.Want(t, "dgamma", g.dgamma, -1-2, 2, -2, 2)
		optest.Want(t, "dbeta", g.dbeta, 3, 2, 2, 2)
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
	x, dy := randomRow(g, rows*cols, 2), randomRow(g, rows*cols, 1)
	gamma, beta := randomRow(g, cols, 1), randomRow(g, cols, 1)
	n := float32(cols)
	sum := func(row []float32) float32 { return num.LaneSum(row, num.RowLanes(cols)) }
	var y, mean, rstd, dx []float32
	dgamma, dbeta := make([][]float32, cols), make([][]float32, cols)
	for r := range rows {
		row, grad := x[r*cols:][:cols], dy[r*cols:][:cols]
		centred, squares := make([]float32, cols), make([]float32, cols)
		for c := range row {
			centred[c] = row[c] - row[0]
		}
		shift := sum(centred) / n
		for c := range row {
			centred[c] -= shift
			squares[c] = centred[c] * centred[c]
		}
		inverse := 1 / num.Sqrt(sum(squares)/n+float32(1e-5))
		for c := range row {
			y = append(y, num.FMA(centred[c]*inverse, gamma[c], beta[c]))
		}
		mean, rstd = append(mean, row[0]+shift), append(rstd, inverse)

		xhat, scaledGrad, products := make([]float32, cols), make([]float32, cols), make([]float32, cols)
		for c := range row {
			xhat[c] = (row[c] - mean[r]) * inverse
			scaledGrad[c] = grad[c] * gamma[c]
			products[c] = scaledGrad[c] * xhat[c]
			dgamma[c], dbeta[c] = append(dgamma[c], grad[c]*xhat[c]), append(dbeta[c], grad[c])
		}
		a, b := sum(scaledGrad)/n, sum(products)/n
		for c := range row {
			dx = append(dx, (scaledGrad[c]-a-float32(xhat[c]*b))*inverse)
		}
	}
	columns := func(x [][]float32) []float32 {
		var sums []float32
		for c := range x {
			sums = append(sums, num.LaneSum(x[c], num.ColLanes(cols)))
		}
		return sums
	}
	r := normalize(t, num.F32, 1e-5, rows, x, gamma, beta)
	optest.Want(t, "y", r.y, y...)
	optest.Want(t, "mean", r.mean, mean...)
	optest.Want(t, "rstd", r.rstd, rstd...)
	d := differentiate(t, num.F32, dy, x, gamma, mean, rstd)
	optest.Want(t, "dx", d.dx, dx...)
	optest.Want(t, "dgamma", d.dgamma, columns(dgamma)...)
	optest.Want(t, "dbeta", d.dbeta, columns(dbeta)...)
}

// LN(2^k·x, 4^k·eps) = LN(x, eps), and LN(−x) = −LN(x) for beta 0: exact as long as
// nothing is subnormal.
func TestScalingAndNegation(t *testing.T) {
	g := gen.New("scaling")
	const rows, cols = 4, 300
	x := randomRow(g, rows*cols, 1)
	gamma, beta, none := randomRow(g, cols, 1), randomRow(g, cols, 1), make([]float32, cols)
	want := normalize(t, num.F32, 0x1p-12, rows, x, gamma, beta)
	for _, k := range []int{-20, -1, 1, 30} {
		s := float32(math.Ldexp(1, k))
		got := normalize(t, num.F32, math.Ldexp(0x1p-12, 2*k), rows, scaled(x, s), gamma, beta)
		optest.SameBits(t, "y", got.y, want.y)
		optest.Want(t, "mean", got.mean, scaled(optest.Floats(t, want.mean), s)...)
		optest.Want(t, "rstd", got.rstd, scaled(optest.Floats(t, want.rstd), 1/s)...)
	}
	positive := normalize(t, num.F32, 1e-5, rows, x, gamma, none)
	negative := normalize(t, num.F32, 1e-5, rows, scaled(x, -1), gamma, none)
	optest.Want(t, "y of -x", negative.y, scaled(optest.Floats(t, positive.y), -1)...)
	optest.SameBits(t, "rstd of -x", negative.rstd, positive.rstd)
}

// A mean far from zero costs nothing as long as the row lies on a grid: the
// differences to the first element are then the same.
func TestShiftInvariance(t *testing.T) {
	g := gen.New("shift")
	x, far := make([]float32, 200), make([]float32, 200)
	for i := range x {
		x[i] = float32(g.Below(64)) / 64
		far[i] = x[i] + 1<<17
	}
	one, none := slices.Repeat([]float32{1}, 200), make([]float32, 200)
	near, shifted := normalize(t, num.F32, 1e-5, 1, x, one, none), normalize(t, num.F32, 1e-5, 1, far, one, none)
	optest.SameBits(t, "y of x + 2^17", shifted.y, near.y)
	optest.SameBits(t, "rstd of x + 2^17", shifted.rstd, near.rstd)
}

func TestBackwardIsLinear(t *testing.T) {
	g := gen.New("linear")
	const rows, cols = 5, 40
	dy, x, gamma := randomRow(g, rows*cols, 1), randomRow(g, rows*cols, 1), randomRow(g, cols, 1)
	mean, rstd := make([]float32, rows), []float32{1, 1.25, 1.5, 1.75, 2}
	want := differentiate(t, num.F32, dy, x, gamma, mean, rstd)
	got := differentiate(t, num.F32, scaled(dy, -0x1p40), x, gamma, mean, rstd)
	optest.Want(t, "dx", got.dx, scaled(optest.Floats(t, want.dx), -0x1p40)...)
	optest.Want(t, "dgamma", got.dgamma, scaled(optest.Floats(t, want.dgamma), -0x1p40)...)
	optest.Want(t, "dbeta", got.dbeta, scaled(optest.Floats(t, want.dbeta), -0x1p40)...)
}

// lost fails unless the marked elements, and only they, are infinite or NaN.
func lost(t *testing.T, what string, x *tensor.Tensor, want ...bool) {
	t.Helper()
	for i, v := range optest.Floats(t, x) {
		if (v-v != 0) != want[i] {
			t.Errorf("%s (%s): [%d] is %v", what, x.DType(), i, v)
		}
	}
}

func TestForwardClauses(t *testing.T) {
	one, none := []float32{1, 1}, []float32{0, 0}
	optest.Clauses(t, layernorm.ForwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, forward, size(6, 5)) },
		"C2_eps": func(t *testing.T) {
			for _, eps := range []float64{math.NaN(), -1e-300, -1, math.Inf(1), 1e39} {
				x, m, s := optest.Matrix(t, num.F32, 1, 1, 2), optest.Vector(t, num.F32, 7), optest.Vector(t, num.F32, 7)
				err := layernorm.Forward(cpu.Queue(), x, m, s, x, optest.Vector(t, num.F32, 1, 1), optest.Vector(t, num.F32, 0, 0), layernorm.Params{Eps: eps})
				optest.Refused(t, err, "layernorm.forward", "eps", "layernorm.forward.C2")
				optest.Want(t, "x after a refusal", x, 1, 2)
				optest.Want(t, "mean after a refusal", m, 7)
				optest.Want(t, "rstd after a refusal", s, 7)
			}
		},
		"C3_nan_and_infinity": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				r := normalize(t, d, 1, 6, []float32{nan, 1, 1, nan, inf, 1, 1, inf, 1, -inf, 1, 1}, one, none)
				optest.Want(t, "y", r.y, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, 0, 0)
				optest.Want(t, "rstd", r.rstd, nan, nan, nan, nan, nan, 1)
				optest.Want(t, "mean", r.mean, nan, nan, nan, inf, -inf, 1)
			}
		},
		"C4_constant_row": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				r := normalize(t, d, 0x1p-10, 1, []float32{-7, -7, -7}, []float32{3, -60000, 0}, []float32{5, -0.25, 0})
				optest.Want(t, "y", r.y, 5, -0.25, 0)
				optest.Want(t, "mean", r.mean, -7)
				optest.Want(t, "rstd", r.rstd, 32)
				// The least eps that binary32 has, and one that it has not (C6).
				r = normalize(t, d, 0x1p-149, 1, []float32{-7, -7, -7}, []float32{3, -60000, 0}, []float32{5, -0.25, 0})
				optest.Want(t, "y with the least eps", r.y, 5, -0.25, 0)
				r = normalize(t, d, 0x1p-151, 1, []float32{-7, -7, -7}, []float32{3, -60000, 0}, []float32{5, -0.25, 0})
				optest.Want(t, "y with eps 0", r.y, nan, nan, nan)
			}
		},
		"C5_overflow": func(t *testing.T) {
			r := normalize(t, num.F32, 1e-5, 3, []float32{0, 0x1p100, huge, -huge, -0x1p127, 0x1p127}, one, []float32{3, 4})
			optest.Want(t, "rstd", r.rstd, 0, nan, nan)
			optest.Want(t, "y", r.y, 3, 4, nan, nan, nan, nan)
			many := append(slices.Repeat([]float32{0x1p126}, 15), 0)
			slices.Reverse(many) // 15 differences of 2^126
			r = normalize(t, num.F32, 1e-5, 1, many, make([]float32, 16), make([]float32, 16))
			for i, v := range optest.Floats(t, r.y) {
				if v == v {
					t.Errorf("a sum that overflows gives y[%d] = %v, want NaN", i, v)
				}
			}
		},
		"C6_eps_zero": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				r := normalize(t, d, 0, 1, []float32{2, 2}, one, none)
				optest.Want(t, "y", r.y, nan, nan)
				optest.Want(t, "rstd", r.rstd, inf)
			}
			r := normalize(t, num.F32, 0, 1, []float32{0, 0x1p-100}, one, none)
			optest.Want(t, "rstd of an underflow", r.rstd, inf)
			optest.Want(t, "y of an underflow", r.y, -inf, inf)
			r = normalize(t, num.F32, 1e-60, 1, []float32{2, 2}, one, none) // eps is 0 as binary32
			optest.Want(t, "rstd of a tiny eps", r.rstd, inf)
		},
		"C7_gamma_and_beta": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				x := []float32{1, 3, 1, 3, 5, 5, 5, 5}
				r := normalize(t, d, 3, 2, x, []float32{2, nan, -inf, 2}, []float32{8, 0, 0, inf})
				optest.Want(t, "y", r.y, 7, nan, inf, inf, 8, nan, nan, inf)
				optest.Want(t, "rstd", r.rstd, 0.5, float32(1/math.Sqrt(3)))
			}
		},
		"C8_subnormals_and_overflow": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				least := num.Widen(d, 1)
				r := normalize(t, d, 3, 1, []float32{1, 3}, []float32{2 * least, 4 * least}, none)
				optest.Want(t, "y", r.y, -least, 2*least)
				// Deviations of one ulp of zero: the variance underflows, the differences do not.
				r = normalize(t, d, 0.25, 1, []float32{0, 4 * least}, one, none)
				optest.Want(t, "y of subnormals", r.y, -4*least, 4*least)
				optest.Want(t, "mean of subnormals", r.mean, 2*least)
			}
			r := normalize(t, num.F16, 3, 1, []float32{1, 3}, one, []float32{0, 65504})
			optest.Want(t, "the largest f16", r.y, -0.5, 65504)
			r = normalize(t, num.F16, 0, 1, []float32{1, 3}, []float32{1, 65504}, []float32{0, 65504})
			optest.Want(t, "too large for f16", r.y, -1, inf)
		},
		"C9_overlap": TestErrors,
	})
}

func TestBackwardClauses(t *testing.T) {
	// Two rows of three columns in which one operand has one bad element.
	type operands struct{ dy, x, gamma, mean, rstd []float32 }
	with := func(change func(o *operands)) operands {
		o := operands{[]float32{1, 2, 3, 4, 5, 6}, []float32{-1, 0.5, 2, 1, -3, 0.25}, []float32{1, -2, 0.5}, []float32{0, 0.125}, []float32{1, 2}}
		change(&o)
		return o
	}
	run := func(t *testing.T, d num.DType, o operands) gradients {
		return differentiate(t, d, o.dy, o.x, o.gamma, o.mean, o.rstd)
	}
	all := []bool{true, true, true, true, true, true}
	first := []bool{true, true, true, false, false, false}
	middle := []bool{false, true, false}
	// What one bad element reaches: dx, dgamma, dbeta.
	reach := map[string]struct {
		change            func(o *operands, v float32)
		dx, dgamma, dbeta []bool
	}{
		"dy":    {func(o *operands, v float32) { o.dy[1] = v }, first, middle, middle},
		"x":     {func(o *operands, v float32) { o.x[1] = v }, first, middle, make([]bool, 3)},
		"gamma": {func(o *operands, v float32) { o.gamma[1] = v }, all, make([]bool, 3), make([]bool, 3)},
		"mean":  {func(o *operands, v float32) { o.mean[0] = v }, first, all[:3], make([]bool, 3)},
		"rstd":  {func(o *operands, v float32) { o.rstd[0] = v }, first, all[:3], make([]bool, 3)},
	}
	nans := func(t *testing.T, what string, x *tensor.Tensor, want []bool) {
		for i, v := range optest.Floats(t, x) {
			if (v != v) != want[i] {
				t.Errorf("NaN in %s (%s): [%d] is %v", what, x.DType(), i, v)
			}
		}
	}
	optest.Clauses(t, layernorm.BackwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, backward, size(6, 5)) },
		"C2_nan_rows": func(t *testing.T) {
			for name, r := range reach {
				for _, d := range num.FloatDTypes {
					nans(t, name+", dx", run(t, d, with(func(o *operands) { r.change(o, nan) })).dx, r.dx)
				}
			}
		},
		"C3_nan_columns": func(t *testing.T) {
			for name, r := range reach {
				for _, d := range num.FloatDTypes {
					g := run(t, d, with(func(o *operands) { r.change(o, nan) }))
					nans(t, name+", dgamma", g.dgamma, r.dgamma)
					nans(t, name+", dbeta", g.dbeta, r.dbeta)
				}
			}
		},
		"C4_infinite_rows": func(t *testing.T) {
			for name, r := range reach {
				for _, d := range num.FloatDTypes {
					for _, v := range []float32{inf, -inf} {
						lost(t, "infinite "+name+", dx", run(t, d, with(func(o *operands) { r.change(o, v) })).dx, r.dx...)
					}
				}
			}
		},
		"C5_infinite_columns": func(t *testing.T) {
			for name, r := range reach {
				for _, d := range num.FloatDTypes {
					g := run(t, d, with(func(o *operands) { r.change(o, -inf) }))
					lost(t, "infinite "+name+", dgamma", g.dgamma, r.dgamma...)
					lost(t, "infinite "+name+", dbeta", g.dbeta, r.dbeta...)
				}
			}
		},
		"C6_given_statistics": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				g := run(t, d, with(func(o *operands) { o.rstd[0] = 0 }))
				for i, v := range optest.Floats(t, g.dx)[:3] {
					if v != 0 {
						t.Errorf("rstd 0 gives dx[0,%d] = %v", i, v)
					}
				}
				// mean 1 and rstd -1 turn x = (0, 2) into xhat = (1, -1).
				g = differentiate(t, d, []float32{1, 2}, []float32{0, 2}, []float32{1, 1}, []float32{1}, []float32{-1})
				optest.Want(t, "dgamma", g.dgamma, 1, -2)
			}
		},
		"C7_subnormals_and_overflow": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				least := num.Widen(d, 1)
				g := differentiate(t, d, []float32{4 * least, 0, 0, 0}, []float32{-1, 1, -1, 1}, []float32{1, 1, 1, 1}, []float32{0}, []float32{1})
				optest.Want(t, "dx", g.dx, 2*least, 0, -2*least, 0)
				optest.Want(t, "dbeta", g.dbeta, 4*least, 0, 0, 0)
			}
			g := differentiate(t, num.F16, []float32{60000, 0, 60000, 0}, []float32{0, 0, 0, 0}, []float32{1, 1}, []float32{0, 0}, []float32{1, 1})
			optest.Want(t, "dbeta too large for f16", g.dbeta, inf, 0)
			g = differentiate(t, num.F32, []float32{huge, huge, huge, 1}, []float32{1, 1, 1, 1}, []float32{1, 1}, []float32{0, 0}, []float32{1, 1})
			optest.Want(t, "dbeta that overflows", g.dbeta, inf, huge)
			lost(t, "a row sum that overflows", g.dx, true, true, false, false)
		},
		"C8_overlap": TestErrors,
	})
}

// The operation by name reads eps as text.
func TestOperation(t *testing.T) {
	o := optest.Operation(layernorm.Operations, "layernorm.forward")
	in := engine.Args{"x": optest.Matrix(t, num.F32, 1, 1, 3), "gamma": optest.Vector(t, num.F32, 1, 1), "beta": optest.Vector(t, num.F32, 0, 0)}
	v, err := o.NewValues(map[string]string{"eps": "3"})
	optest.OK(t, err)
	out, err := o.Run(cpu.Queue(), in, v)
	optest.OK(t, err)
	optest.Want(t, "y", out["y"], -0.5, 0.5)
	optest.Want(t, "rstd", out["rstd"], 0.5)
	v, err = o.NewValues(map[string]string{"eps": "-1"})
	optest.OK(t, err)
	if _, err := o.Run(cpu.Queue(), in, v); !errors.Is(err, tensor.ErrBadArgument) {
		t.Errorf("eps -1 gives %v", err)
	}
}

func BenchmarkLayerNorm(b *testing.B) {
	for _, d := range num.FloatDTypes {
		for _, dir := range []struct {
			name    string
			subject optest.Subject
		}{{"forward", forward}, {"backward", backward}} {
			optest.Bench(b, optest.Timing{
				Name:    "dir=" + dir.name + "/dtype=" + d.String() + "/shape=256x1024",
				Subject: dir.subject, DTypes: dtypes(dir.subject.Definition, d), Sizes: size(256, 1024), Check: size(2, 1024),
			})
		}
	}
}

// dtypes stores everything as d that may be, and the rest as f32.
func dtypes(definition *def.Definition, d num.DType) []num.DType {
	for _, choice := range definition.Formats() {
		if choice[0] == d && choice[2] == d {
			return choice
		}
	}
	panic("no such choice")
}
