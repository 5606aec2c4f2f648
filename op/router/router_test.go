package router_test

import (
	"math"
	"slices"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/optest"
	"tokitai/op/router"
	"tokitai/tensor"
)

var (
	inf = float32(math.Inf(1))
	nan = float32(math.NaN())
)

type forwardCall func(q *engine.Queue, weight, expert, logits, bias *tensor.Tensor, p router.Params, opts ...engine.CallOption) error

type backwardCall func(q *engine.Queue, dlogits, dweight, logits, bias *tensor.Tensor, p router.Params, opts ...engine.CallOption) error

var (
	forwards = map[*def.Definition]forwardCall{router.SoftmaxForwardDefinition: router.SoftmaxForward, router.SigmoidForwardDefinition: router.SigmoidForward}
	backs    = map[*def.Definition]backwardCall{router.SoftmaxBackwardDefinition: router.SoftmaxBackward, router.SigmoidBackwardDefinition: router.SigmoidBackward}
)

// list returns the parameters of a call in the order of the definitions.
func list(p router.Params) []float64 {
	normalise := 0.0
	if p.IsNormalised {
		normalise = 1
	}
	return []float64{float64(p.K), normalise, p.Scale}
}

func sizes(r, c, k int) map[string]int { return map[string]int{"R": r, "C": c, "K": k} }

func subject(d *def.Definition, p router.Params) optest.Subject {
	s := optest.Subject{Definition: d, Params: list(p), Data: optest.Operation(router.Operations, d.Name).Data}
	if call, ok := forwards[d]; ok {
		s.Call = func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return call(q, x[2], x[3], x[0], x[1], p, opts...)
		}
	} else {
		call := backs[d]
		s.Call = func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return call(q, x[3], x[2], x[0], x[1], p, opts...)
		}
	}
	return s
}

var definitions = []*def.Definition{router.SoftmaxForwardDefinition, router.SoftmaxBackwardDefinition, router.SigmoidForwardDefinition, router.SigmoidBackwardDefinition}

func TestDoc(t *testing.T) {
	optest.Doc(t, "doc.go", append(definitions, router.BalanceForwardDefinition, router.BalanceBackwardDefinition, router.BiasDefinition)...)
}

func TestMatchReference(t *testing.T) {
	for _, d := range definitions {
		optest.MatchReference(t, subject(d, router.DefaultParams(3)), sizes(5, 77, 3), sizes(2, 1, 1), sizes(3, 1025, 2))
		optest.MatchReference(t, subject(d, router.Params{K: 2, Scale: 2.5}), sizes(9, 8, 4))
	}
}

func TestErrors(t *testing.T) {
	for _, d := range definitions {
		optest.Errors(t, subject(d, router.DefaultParams(2)), sizes(3, 5, 2))
	}
}

// route computes weights and experts, of rows of as many logits as there are biases.
func route(t *testing.T, call forwardCall, p router.Params, slots int, bias []float32, logits ...float32) (weight []float32, expert []int32) {
	t.Helper()
	rows := len(logits) / len(bias)
	x := optest.Matrix(t, num.F32, rows, logits...)
	w, e := optest.Garbage(t, num.F32, rows, slots), optest.Garbage(t, num.I32, rows, slots)
	optest.OK(t, call(cpu.Queue(), w, e, x, optest.Vector(t, num.F32, bias...), p))
	weight, err := w.Float32s()
	optest.OK(t, err)
	expert, err = e.Int32s()
	optest.OK(t, err)
	return weight, expert
}

func gradient(t *testing.T, call backwardCall, p router.Params, dweight, bias []float32, logits ...float32) []float32 {
	t.Helper()
	rows := len(logits) / len(bias)
	x := optest.Matrix(t, num.F32, rows, logits...)
	optest.OK(t, call(cpu.Queue(), x, optest.Matrix(t, num.F32, rows, dweight...), x, optest.Vector(t, num.F32, bias...), p)) // in place
	dx, err := x.Float32s()
	optest.OK(t, err)
	return dx
}

func want[T int32 | float32](t *testing.T, what string, got []T, want ...T) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(a, b T) bool { return a == b || a != a && b != b }) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestForward(t *testing.T) {
	none := []float32{0, 0, 0, 0}
	plain := router.Params{K: 2, Scale: 1}
	common := func(d *def.Definition) map[string]func(t *testing.T) {
		call := forwards[d]
		return map[string]func(t *testing.T){
			"C1_shapes": func(t *testing.T) { optest.Shapes(t, subject(d, router.DefaultParams(2)), sizes(6, 5, 2)) },
			"C2_slots": func(t *testing.T) {
				w, e := route(t, call, router.DefaultParams(2), 3, none, 1, 5, 1, 5)
				want(t, "weight", w, 0.5, 0.5, 0)
				want(t, "expert", e, 1, 3, -1)
				if math.Signbit(float64(w[2])) {
					t.Error("an empty slot has weight -0")
				}
				w, e = route(t, call, router.DefaultParams(4), 2, none, 0, 0, 0, 0)
				want(t, "weight", w, 0.25, 0.25)
				want(t, "expert", e, 0, 1)
				w, e = route(t, call, router.DefaultParams(1<<20), 4, none, 0, 0, 0, 0)
				want(t, "weight of all", w, 0.25, 0.25, 0.25, 0.25)
				want(t, "all experts", e, 0, 1, 2, 3)
			},
			"C3_bias": func(t *testing.T) {
				w, e := route(t, call, router.DefaultParams(2), 2, []float32{0, 0, 2, nan}, 3, 3, 3, 3)
				want(t, "expert", e, 2, 3)
				want(t, "weight", w, 0.5, 0.5)
			},
		}
	}
	softmax := common(router.SoftmaxForwardDefinition)
	softmax["C4_nan"] = func(t *testing.T) {
		for _, row := range [][]float32{{1, 2, nan, 0}, {1, inf, 2, 0}, {-inf, -inf, -inf, -inf}} {
			w, e := route(t, router.SoftmaxForward, router.DefaultParams(2), 2, none, append(row, 0, 1, 0, 1)...)
			want(t, "expert", e, 0, 1, 1, 3)
			want(t, "weight", w, nan, nan, 0.5, 0.5)
		}
	}
	softmax["C5_no_score"] = func(t *testing.T) {
		w, e := route(t, router.SoftmaxForward, plain, 2, none, -inf, 0, -inf, -inf)
		want(t, "expert", e, 0, 1)
		want(t, "weight", w, 0, 1)
		w, e = route(t, router.SoftmaxForward, router.DefaultParams(2), 2, []float32{5, 0, 5, 0}, -inf, 0, -inf, 0)
		want(t, "expert", e, 0, 2)
		want(t, "weight", w, nan, nan)
	}
	softmax["C6_range"] = func(t *testing.T) {
		w, _ := route(t, router.SoftmaxForward, router.Params{K: 1, Scale: 0x1p126, IsNormalised: true}, 1, []float32{0, 9}, 0, 0, 0, -5)
		want(t, "weight", w, 0x1p126, inf)
		w, _ = route(t, router.SoftmaxForward, router.Params{K: 1, Scale: 0x1p-130}, 1, none, 0, 0, 0, 0)
		want(t, "weight", w, 0x1p-132)
	}
	sigmoid := common(router.SigmoidForwardDefinition)
	sigmoid["C4_nan"] = func(t *testing.T) {
		w, e := route(t, router.SigmoidForward, router.DefaultParams(2), 2, none, 1, 2, nan, 0, 0, 1, 0, 1)
		want(t, "expert", e, 1, 2, 1, 3)
		want(t, "weight", w, nan, nan, 0.5, 0.5)
		w, e = route(t, router.SigmoidForward, plain, 2, none, 1, inf, nan, 0)
		want(t, "expert", e, 1, 2)
		want(t, "weight that is not normalised", w, 1, nan)
	}
	sigmoid["C5_ends"] = func(t *testing.T) {
		w, e := route(t, router.SigmoidForward, router.Params{K: 4, Scale: 1}, 4, none, inf, -inf, -104, 0)
		want(t, "expert", e, 0, 1, 2, 3)
		want(t, "weight", w, 1, 0, 0, 0.5)
		w, _ = route(t, router.SigmoidForward, router.DefaultParams(1), 1, none, -inf, -inf, -200, -inf)
		want(t, "weight", w, nan)
	}
	sigmoid["C6_range"] = func(t *testing.T) {
		w, _ := route(t, router.SigmoidForward, router.Params{K: 1, Scale: 0x1p126, IsNormalised: true}, 1, none, 0, -104, -104, -104, -5, -104, -104, -104)
		want(t, "weight", w, 0x1p126, inf)
		w, _ = route(t, router.SigmoidForward, router.Params{K: 1, Scale: 0x1p-130}, 1, none, 0, 0, 0, 0)
		want(t, "weight", w, 0x1p-131)
	}
	optest.Clauses(t, router.SoftmaxForwardDefinition, softmax)
	optest.Clauses(t, router.SigmoidForwardDefinition, sigmoid)
}

func TestBackward(t *testing.T) {
	none := []float32{0, 0, 0, 0}
	plain := router.Params{K: 2, Scale: 1}
	optest.Clauses(t, router.SoftmaxBackwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) {
			optest.Shapes(t, subject(router.SoftmaxBackwardDefinition, router.DefaultParams(2)), sizes(6, 5, 2))
		},
		"C2_no_slot": func(t *testing.T) {
			dx := gradient(t, router.SoftmaxBackward, router.DefaultParams(2), []float32{8}, none, 1, 1, 0, 0) // weights 1/2, a gradient of 8 for the first
			want(t, "dlogits", dx, 2, -2, 0, 0)
		},
		"C3_nan": func(t *testing.T) {
			dx := gradient(t, router.SoftmaxBackward, plain, []float32{1, 1, 8, 8}, none, 1, nan, 0, 0, 0, 0, 0, 0)
			want(t, "dlogits", dx, nan, nan, nan, nan, 1, 1, -1, -1)
			dx = gradient(t, router.SoftmaxBackward, router.DefaultParams(2), []float32{1, 1}, none, 1, nan, 0, 0)
			want(t, "dlogits", dx, nan, nan, 0, 0)
		},
		"C4_not_chosen": func(t *testing.T) {
			dx := gradient(t, router.SoftmaxBackward, router.DefaultParams(2), []float32{8, 4}, []float32{0, 0, 1, 1}, 5, 5, 5, 5)
			want(t, "dlogits", dx, 0, 0, 1, -1)
		},
		"C5_range": func(t *testing.T) {
			dx := gradient(t, router.SoftmaxBackward, router.Params{K: 1, Scale: 1}, []float32{0x1p-147}, none, 0, 0, 0, 0)
			want(t, "dlogits", dx, 0x1p-149, -0, -0, -0)
		},
		"C6_in_place": func(t *testing.T) {
			want(t, "dlogits", gradient(t, router.SoftmaxBackward, plain, []float32{8, 8}, none, 0, 0, 0, 0), 1, 1, -1, -1)
		},
	})
	optest.Clauses(t, router.SigmoidBackwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) {
			optest.Shapes(t, subject(router.SigmoidBackwardDefinition, router.DefaultParams(2)), sizes(6, 5, 2))
		},
		"C2_no_slot": func(t *testing.T) {
			dx := gradient(t, router.SigmoidBackward, router.DefaultParams(2), []float32{8}, none, 0, 0, -1, -1) // scores 1/2, weights 1/2
			want(t, "dlogits", dx, 1, -1, 0, 0)
		},
		"C3_nan": func(t *testing.T) {
			dx := gradient(t, router.SigmoidBackward, router.DefaultParams(2), []float32{1, 1, 8, 4}, none, 0, nan, -1, -1, 0, 0, -1, -1)
			want(t, "dlogits", dx, nan, nan, 0, 0, 0.5, -0.5, 0, 0)
			dx = gradient(t, router.SigmoidBackward, plain, []float32{1, 1}, none, 0, nan, -1, -1)
			want(t, "dlogits", dx, 0.25, nan, 0, 0)
		},
		"C4_not_chosen": func(t *testing.T) {
			dx := gradient(t, router.SigmoidBackward, plain, []float32{8, 4}, []float32{0, 0, 1, 1}, 0, 0, 0, 0)
			want(t, "dlogits", dx, 0, 0, 2, 1)
		},
		"C5_range": func(t *testing.T) {
			dx := gradient(t, router.SigmoidBackward, router.Params{K: 1, Scale: 1}, []float32{0x1p-147}, none, 0, 0, 0, 0)
			want(t, "dlogits", dx, 0x1p-149, 0, 0, 0)
			dx = gradient(t, router.SigmoidBackward, router.Params{K: 1, Scale: 0x1p127}, []float32{0x1p20}, none, 0, 0, 0, 0)
			want(t, "dlogits", dx, inf, 0, 0, 0)
		},
		"C6_in_place": func(t *testing.T) {
			want(t, "dlogits", gradient(t, router.SigmoidBackward, plain, []float32{8, 8}, none, 0, 0, -1, -1), 2, 2, 0, 0)
		},
	})
}
