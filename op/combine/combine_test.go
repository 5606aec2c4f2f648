package combine_test

import (
	"math"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/combine"
	"tokitai/op/optest"
	"tokitai/tensor"
)

var (
	forward = optest.Subject{
		Definition: combine.ForwardDefinition, Data: optest.Operation(combine.Operations, "combine.forward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return combine.Forward(q, x[3], x[0], x[1], x[2], opts...)
		},
	}
	backward = optest.Subject{
		Definition: combine.BackwardDefinition, Data: optest.Operation(combine.Operations, "combine.backward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return combine.Backward(q, x[3], x[4], x[0], x[1], x[2], opts...)
		},
	}
	permute = optest.Subject{
		Definition: combine.PermuteDefinition, Data: optest.Operation(combine.Operations, "combine.permute.forward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return combine.Permute(q, x[2], x[0], x[1], opts...)
		},
	}
	permuteBackward = optest.Subject{
		Definition: combine.PermuteBackwardDefinition, Data: optest.Operation(combine.Operations, "combine.permute.backward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return combine.PermuteBackward(q, x[2], x[0], x[1], opts...)
		},
	}
	inf  = float32(math.Inf(1))
	nan  = float32(math.NaN())
	zero = float32(math.Copysign(0, -1))
	huge = float32(math.MaxFloat32)
)

func size(q, s, v, d int) map[string]int { return map[string]int{"Q": q, "S": s, "V": v, "D": d} }

func TestDoc(t *testing.T) {
	optest.Doc(t, "doc.go", combine.ForwardDefinition, combine.BackwardDefinition, combine.PermuteDefinition, combine.PermuteBackwardDefinition)
}

func TestMatchReference(t *testing.T) {
	for _, s := range []optest.Subject{forward, permuteBackward} {
		optest.MatchReference(t, s, size(40, 4, 7, 9), size(1, 1, 1, 1), size(3, 9, 70, 515))
	}
	optest.MatchReference(t, permute, size(40, 1, 7, 9))
	optest.MatchReference(t, backward, map[string]int{"R": 5, "C": 77}, map[string]int{"R": 2, "C": 1025})
}

func TestErrors(t *testing.T) {
	for _, s := range []optest.Subject{forward, permuteBackward, permute} {
		optest.Errors(t, s, size(3, 2, 4, 5))
	}
	optest.Errors(t, backward, map[string]int{"R": 3, "C": 5})
}

// ints are rows of indices.
func ints(t testing.TB, rows int, values ...int32) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromInt32(cpu.Queue().Device(), values, rows, len(values)/rows)
	optest.OK(t, err)
	return x
}

// sums runs a sum by place for one token and one column, with weights of 1 where there are none.
func sums(t testing.TB, d *def.Definition, f num.DType, places []int32, rows, weights []float32, opts ...engine.CallOption) *tensor.Tensor {
	t.Helper()
	y, table := optest.Garbage(t, f, 1, 1), optest.Matrix(t, f, len(rows), rows...)
	if d == combine.PermuteBackwardDefinition {
		optest.OK(t, combine.PermuteBackward(cpu.Queue(), y, ints(t, 1, places...), table, opts...))
		return y
	}
	for len(weights) < len(places) {
		weights = append(weights, 1)
	}
	optest.OK(t, combine.Forward(cpu.Queue(), y, ints(t, 1, places...), table, optest.Matrix(t, num.F32, 1, weights...), opts...))
	return y
}

func TestSums(t *testing.T) {
	for _, s := range []optest.Subject{forward, permuteBackward} {
		d := s.Definition
		t.Run(d.Name, func(t *testing.T) {
			optest.Clauses(t, d, map[string]func(t *testing.T){
				"C1_shapes": func(t *testing.T) { optest.Shapes(t, s, size(6, 3, 4, 5)) },
				"C2_order": func(t *testing.T) {
					optest.Want(t, "ascending", sums(t, d, num.F32, []int32{0, 1, 2}, []float32{0x1p24, 1, -0x1p24}, nil), 0)
					optest.Want(t, "another order", sums(t, d, num.F32, []int32{0, 2, 1}, []float32{0x1p24, 1, -0x1p24}, nil), 1)
					optest.Want(t, "one rounding", sums(t, d, num.BF16, []int32{0, 1, 1}, []float32{256, 1}, nil), 258)
					optest.Want(t, "from +0", sums(t, d, num.F16, []int32{0, 0}, []float32{zero}, nil), 0)
					if d == combine.ForwardDefinition {
						optest.Want(t, "fused", sums(t, d, num.F32, []int32{0, 1}, []float32{-1, 1 + 0x1p-12}, []float32{1 + 0x1p-11, 1 + 0x1p-12}), 0x1p-24)
					}
				},
				"C3_special": func(t *testing.T) {
					for _, f := range num.FloatDTypes {
						optest.Want(t, "NaN", sums(t, d, f, []int32{0, 1}, []float32{nan, 1}, nil), nan)
						optest.Want(t, "both infinities", sums(t, d, f, []int32{0, 1}, []float32{inf, -inf}, nil), nan)
						optest.Want(t, "an infinity", sums(t, d, f, []int32{0, 1}, []float32{1, -inf}, nil), -inf)
						if d == combine.ForwardDefinition {
							optest.Want(t, "an infinity times zero", sums(t, d, f, []int32{0, 1}, []float32{1, inf}, []float32{1, 0}), nan)
						}
					}
				},
				"C4_bad_place": func(t *testing.T) {
					y := optest.Garbage(t, num.F16, 1, 1)
					before := optest.Bits(t, y)
					x := []*tensor.Tensor{ints(t, 1, 0, 2), optest.Matrix(t, num.F16, 2, 1, 2), optest.Matrix(t, num.F16, 1, 1, 1), y}
					if d == combine.PermuteBackwardDefinition {
						x = []*tensor.Tensor{x[0], x[1], y}
					}
					if err := s.Call(cpu.Queue(), x); err == nil {
						t.Error("a bad place was accepted")
					}
					optest.WantBits(t, "after a refusal", y, before...)
					skip := engine.WithBadIndex(engine.Skip)
					optest.Want(t, "skipped", sums(t, d, num.F16, []int32{-1, 1, 2}, []float32{1, 2}, []float32{inf, 1, nan}, skip), 2)
					optest.Want(t, "nothing", sums(t, d, num.F16, []int32{-1, 2}, []float32{1, 2}, nil, skip), 0)
				},
				"C5_range": func(t *testing.T) {
					for _, f := range num.FloatDTypes {
						least := num.Widen(f, 1)
						optest.Want(t, "subnormals", sums(t, d, f, []int32{0, 0, 0}, []float32{least}, nil), 3*least)
					}
					optest.Want(t, "too large", sums(t, d, num.F16, []int32{0, 1}, []float32{65504, 16}, nil), inf)
					optest.Want(t, "within range at the end", sums(t, d, num.F16, []int32{0, 0, 1}, []float32{65504, -65504}, nil), 65504)
					optest.Want(t, "an overflow on the way", sums(t, d, num.F32, []int32{0, 0, 1}, []float32{huge, -huge}, nil), inf)
				},
				"C6_batch": func(t *testing.T) { sameInEveryBatch(t, s) },
				"C7_often": func(t *testing.T) {
					optest.Want(t, "a row three times", sums(t, d, num.F16, []int32{0, 0, 0}, []float32{3}, nil), 9)
					TestErrors(t)
				},
			})
		})
	}
}

// sameInEveryBatch computes the rows of a batch again, one at a time.
func sameInEveryBatch(t *testing.T, s optest.Subject) {
	g := gen.New("batch")
	const queries, choices, rows, cols = 9, 3, 20, 33
	places, weights := make([]int32, queries*choices), make([]float32, queries*choices)
	for i := range places {
		places[i], weights[i] = int32(g.Below(rows)), g.Ordinary()
	}
	values := make([]float32, rows*cols)
	for i := range values {
		values[i] = g.Ordinary()
	}
	table := optest.Matrix(t, num.BF16, rows, values...)
	run := func(from, to int) []uint32 {
		y := optest.Garbage(t, num.BF16, to-from, cols)
		x := []*tensor.Tensor{ints(t, to-from, places[from*choices:to*choices]...), table, optest.Matrix(t, num.F32, to-from, weights[from*choices:to*choices]...), y}
		if len(s.Definition.Operands) == 3 {
			x = []*tensor.Tensor{x[0], table, y}
		}
		optest.OK(t, s.Call(cpu.Queue(), x))
		return optest.Bits(t, y)
	}
	all := run(0, queries)
	for q := range queries {
		for c, bits := range run(q, q+1) {
			if bits != all[q*cols+c] {
				t.Fatalf("row %d, column %d is %#x alone and %#x in a batch", q, c, bits, all[q*cols+c])
			}
		}
	}
}

func TestPermute(t *testing.T) {
	optest.Clauses(t, combine.PermuteDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, permute, size(6, 1, 4, 5)) },
		"C2_bits": func(t *testing.T) {
			x := optest.Patterns(t, num.F16, 0x7d01, 0x8000, 0xfe55)
			rows := optest.Garbage(t, num.F16, 1, 3)
			view, err := x.Reshape(1, 3)
			optest.OK(t, err)
			optest.OK(t, combine.Permute(cpu.Queue(), rows, optest.Ints(t, 0), view))
			optest.WantBits(t, "rows", rows, 0x7d01, 0x8000, 0xfe55)
		},
		"C3_bad_source": func(t *testing.T) {
			x, rows := optest.Matrix(t, num.F16, 2, 1, 2), optest.Garbage(t, num.F16, 2, 1)
			before := optest.Bits(t, rows)
			if err := combine.Permute(cpu.Queue(), rows, optest.Ints(t, 1, 2), x); err == nil {
				t.Error("a bad source was accepted")
			}
			optest.WantBits(t, "after a refusal", rows, before...)
			optest.OK(t, combine.Permute(cpu.Queue(), rows, optest.Ints(t, 1, -1), x, engine.WithBadIndex(engine.Skip)))
			optest.Want(t, "skipped", rows, 2, 0)
		},
		"C4_often": func(t *testing.T) {
			rows := optest.Garbage(t, num.F16, 3, 1)
			optest.OK(t, combine.Permute(cpu.Queue(), rows, optest.Ints(t, 1, 1, 1), optest.Matrix(t, num.F16, 2, 1, 2)))
			optest.Want(t, "rows", rows, 2, 2, 2)
		},
	})
}

func TestBackward(t *testing.T) {
	run := func(t *testing.T, d num.DType, o, dy []float32, weight float32) (do, dweight *tensor.Tensor) {
		t.Helper()
		do, dweight = optest.Garbage(t, d, 1, len(o)), optest.Garbage(t, num.F32, 1)
		optest.OK(t, combine.Backward(cpu.Queue(), do, dweight, optest.Matrix(t, d, 1, o...), optest.Matrix(t, d, 1, dy...), optest.Vector(t, num.F32, weight)))
		return do, dweight
	}
	optest.Clauses(t, combine.BackwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) {
			optest.Shapes(t, backward, map[string]int{"R": 6, "C": 5})
			do, dweight := run(t, num.F16, []float32{1, 2, 3}, []float32{4, 5, 6}, 0.5)
			optest.Want(t, "do", do, 2, 2.5, 3)
			optest.Want(t, "dweight", dweight, 32)
		},
		"C2_special": func(t *testing.T) {
			do, dweight := run(t, num.F16, []float32{1, 2}, []float32{nan, 5}, 2)
			optest.Want(t, "do", do, nan, 10)
			optest.Want(t, "dweight", dweight, nan)
			do, dweight = run(t, num.F16, []float32{1, 0}, []float32{1, inf}, 0)
			optest.Want(t, "do", do, 0, nan)
			optest.Want(t, "dweight", dweight, nan)
		},
		"C3_range": func(t *testing.T) {
			do, dweight := run(t, num.F16, []float32{256, 0}, []float32{256, 0x1p-24}, 256)
			optest.Want(t, "do", do, inf, 0x1p-16)
			optest.Want(t, "dweight", dweight, 65536)
			do, _ = run(t, num.F16, []float32{1}, []float32{1}, 0x1p-24)
			optest.Want(t, "a subnormal", do, 0x1p-24)
		},
		"C4_in_place": func(t *testing.T) {
			dy := optest.Matrix(t, num.F16, 1, 4, 5)
			optest.OK(t, combine.Backward(cpu.Queue(), dy, optest.Garbage(t, num.F32, 1), optest.Matrix(t, num.F16, 1, 1, 2), dy, optest.Vector(t, num.F32, 2)))
			optest.Want(t, "do in place of dy", dy, 8, 10)
		},
	})
}
