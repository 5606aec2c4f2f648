package router_test

import (
	"math"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/optest"
	"tokitai/op/router"
	"tokitai/tensor"
)

var balanceSubjects = []optest.Subject{
	{Definition: router.BalanceForwardDefinition, Params: []float64{40}, Data: optest.Operation(router.Operations, router.BalanceForwardDefinition.Name).Data, Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
		return router.BalanceForward(q, x[2], x[3], x[0], x[1], 40, opts...)
	}},
	{Definition: router.BalanceBackwardDefinition, Params: []float64{40}, Data: optest.Operation(router.Operations, router.BalanceBackwardDefinition.Name).Data, Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
		return router.BalanceBackward(q, x[4], x[2], x[3], x[0], x[1], 40, opts...)
	}},
	{Definition: router.BiasDefinition, Params: []float64{0.125}, Data: optest.Operation(router.Operations, router.BiasDefinition.Name).Data, Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
		return router.BiasStep(q, x[0], x[1], 0.125, opts...)
	}},
}

func matrix(r, c int) map[string]int { return map[string]int{"R": r, "C": c} }

func TestBalanceMatchesReference(t *testing.T) {
	for _, s := range balanceSubjects {
		optest.MatchReference(t, s, matrix(5, 77), matrix(2, 1), matrix(3, 1025))
	}
}

func TestBalanceErrors(t *testing.T) {
	for _, s := range balanceSubjects {
		optest.Errors(t, s, matrix(3, 5))
	}
}

func integers(t *testing.T, v []int32, shape ...int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromInt32(cpu.Queue().Device(), v, shape...)
	optest.OK(t, err)
	return x
}

func balanceLosses(t *testing.T, count []int32, choices int, logits ...float32) (balance, z []float32) {
	t.Helper()
	rows := len(logits) / len(count)
	b, l := optest.Garbage(t, num.F32, rows), optest.Garbage(t, num.F32, rows)
	optest.OK(t, router.BalanceForward(cpu.Queue(), b, l, optest.Matrix(t, num.F32, rows, logits...), integers(t, count, len(count)), choices))
	balance, err := b.Float32s()
	optest.OK(t, err)
	z, err = l.Float32s()
	optest.OK(t, err)
	return balance, z
}

func balanceGradient(t *testing.T, count []int32, choices int, dbalance, dz []float32, logits ...float32) []float32 {
	t.Helper()
	x := optest.Matrix(t, num.F32, len(dz), logits...)
	optest.OK(t, router.BalanceBackward(cpu.Queue(), x, optest.Vector(t, num.F32, dbalance...), optest.Vector(t, num.F32, dz...), x, integers(t, count, len(count)), choices)) // in place
	dx, err := x.Float32s()
	optest.OK(t, err)
	return dx
}

func stepped(t *testing.T, rate float64, bias []float32, count ...int32) []float32 {
	t.Helper()
	b := optest.Matrix(t, num.F32, 1, bias...)
	optest.OK(t, router.BiasStep(cpu.Queue(), b, integers(t, count, 1, len(count)), rate))
	y, err := b.Float32s()
	optest.OK(t, err)
	return y
}

func TestBalance(t *testing.T) {
	optest.Clauses(t, router.BalanceForwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, balanceSubjects[0], matrix(6, 5)) },
		"C2_mean": func(t *testing.T) {
			balance, z := balanceLosses(t, []int32{3, 3, 3, 3}, 12, 0, 0, 0, 0, 60, 60, -300, -300)
			want(t, "balance", balance, 1, 1)
			if l := math.Log(4); math.Abs(float64(z[0])-l*l) > 1e-6*l*l {
				t.Errorf("z is %v, want ln(4)^2", z[0])
			}
			balance, _ = balanceLosses(t, []int32{8, 0, 4, 4}, 16, 0, 0, 0, 0, 90, -300, -300, -300, -300, 0, -300, -300)
			want(t, "balance", balance, 1, 2, 0)
		},
		"C3_nan": func(t *testing.T) {
			balance, z := balanceLosses(t, []int32{1, 1}, 2, nan, 1, inf, 1, -inf, -inf, 0, 0)
			want(t, "balance", balance, nan, nan, nan, 1)
			if z[0] == z[0] || z[1] == z[1] || z[2] == z[2] || z[3] != z[3] {
				t.Errorf("z is %v, want NaN but for the last", z)
			}
		},
		"C4_no_probability": func(t *testing.T) {
			balance, z := balanceLosses(t, []int32{3, 1}, 4, -inf, 0)
			want(t, "balance", balance, 0.5)
			want(t, "z", z, 0)
		},
		"C5_range": func(t *testing.T) {
			_, z := balanceLosses(t, []int32{1}, 1, 0x1p70, 0x1p-70)
			want(t, "z", z, inf, 0x1p-140)
		},
	})
	optest.Clauses(t, router.BalanceBackwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, balanceSubjects[1], matrix(6, 5)) },
		"C2_nan": func(t *testing.T) {
			dx := balanceGradient(t, []int32{3, 1}, 4, []float32{1, 1, 1, 1}, []float32{0, 0, 0, 0}, nan, 1, inf, 1, -inf, -inf, 0, 0)
			want(t, "dlogits", dx, nan, nan, nan, nan, nan, nan, 0.25, -0.25)
		},
		"C3_no_probability": func(t *testing.T) {
			want(t, "dlogits", balanceGradient(t, []int32{3, 1}, 4, []float32{1}, []float32{1}, -inf, 4), 0, 8) // z = 4^2
		},
		"C4_range": func(t *testing.T) {
			want(t, "dlogits", balanceGradient(t, []int32{3, 1}, 4, []float32{0x1p-145}, []float32{0}, 0, 0), 0x1p-147, -0x1p-147)
			want(t, "dlogits", balanceGradient(t, []int32{1}, 1, []float32{0}, []float32{0x1p100}, 0x1p100), inf)
		},
		"C5_in_place": func(t *testing.T) {
			want(t, "dlogits", balanceGradient(t, []int32{3, 1}, 4, []float32{4}, []float32{0}, 0, 0), 1, -1)
		},
	})
	optest.Clauses(t, router.BiasDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, balanceSubjects[2], matrix(6, 5)) },
		"C2_counts": func(t *testing.T) {
			want(t, "bias", stepped(t, 0.25, []float32{1, 1, 1, 1}, 0, 2, 4, 2), 1.25, 1, 0.75, 1)
			want(t, "bias", stepped(t, 0.25, []float32{1, 1, 1}, 1<<30, 1<<30-1, 0), 0.75, 0.75, 1.25)     // products of 33 bits
			want(t, "bias", stepped(t, 0.25, []float32{1, 1, 1}, 1<<24+1, 1<<24, 1<<24), 0.75, 1.25, 1.25) // beyond binary32
			want(t, "bias", stepped(t, 0.25, []float32{1, 1}, 0, 0), 1, 1)
		},
		"C3_special": func(t *testing.T) {
			want(t, "bias", stepped(t, 0.25, []float32{nan, inf, -inf, nan}, 0, 9, 0, 9), nan, inf, -inf, nan)
		},
		"C4_range": func(t *testing.T) {
			want(t, "bias", stepped(t, 0x1.fffffep127, []float32{0x1.fffffep127, -0x1p-149}, 0, 2), inf, -0x1.fffffep127)
			want(t, "bias", stepped(t, 0x1p-149, []float32{0x1p-149, 0}, 0, 2), 0x1p-148, -0x1p-149)
		},
	})
}
