package embedding_test

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
	"tokitai/op/embedding"
	"tokitai/op/optest"
	"tokitai/tensor"
)

var (
	forward = optest.Subject{
		Definition: embedding.ForwardDefinition, Data: optest.Operation(embedding.Operations, "embedding.forward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return embedding.Forward(q, x[2], x[0], x[1], opts...)
		},
	}
	backward = optest.Subject{
		Definition: embedding.BackwardDefinition, Data: optest.Operation(embedding.Operations, "embedding.backward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return embedding.Backward(q, x[2], x[0], x[1], opts...)
		},
	}
	accumulate = optest.Subject{
		Definition: embedding.AccumulateDefinition,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return embedding.Accumulate(q, x[2], x[0], x[1], opts...)
		},
	}
	inf  = float32(math.Inf(1))
	nan  = float32(math.NaN())
	zero = float32(math.Copysign(0, -1))
	huge = float32(math.MaxFloat32)
)

func size(q, v, d int) map[string]int { return map[string]int{"Q": q, "V": v, "D": d} }

func TestDoc(t *testing.T) {
	optest.Doc(t, "doc.go", embedding.ForwardDefinition, embedding.BackwardDefinition, embedding.AccumulateDefinition)
}

func TestMatchReference(t *testing.T) {
	for _, s := range []optest.Subject{forward, backward, accumulate} {
		optest.MatchReference(t, s, size(40, 7, 9), size(1, 1, 1), size(300, 2, 3), size(3, 70, 515))
	}
}

func TestErrors(t *testing.T) {
	for _, s := range []optest.Subject{forward, backward, accumulate} {
		optest.Errors(t, s, size(3, 4, 5))
	}
}

// look is the forward operation.
func look(t testing.TB, weight *tensor.Tensor, index ...int32) *tensor.Tensor {
	t.Helper()
	out := optest.Garbage(t, weight.DType(), len(index), weight.Cols())
	optest.OK(t, embedding.Forward(cpu.Queue(), out, optest.Ints(t, index...), weight))
	return out
}

// column sums rows of one element into a table of that many rows.
func column(t testing.TB, d, out num.DType, rows int, index []int32, dout ...float32) *tensor.Tensor {
	t.Helper()
	dweight := optest.Garbage(t, out, rows, 1)
	optest.OK(t, embedding.Backward(cpu.Queue(), dweight, optest.Ints(t, index...), optest.Matrix(t, d, len(dout), dout...)))
	return dweight
}

// added sums rows of one element into a row that is there.
func added(t testing.TB, d, out num.DType, old float32, dout ...float32) *tensor.Tensor {
	t.Helper()
	dweight := optest.Matrix(t, out, 1, old)
	optest.OK(t, embedding.Accumulate(cpu.Queue(), dweight, optest.Ints(t, make([]int32, len(dout))...), optest.Matrix(t, d, len(dout), dout...)))
	return dweight
}

func TestByHand(t *testing.T) {
	for _, d := range num.FloatDTypes {
		weight := optest.Matrix(t, d, 3, 1, 2, 3, 4, 5, 6)
		optest.Want(t, "out", look(t, weight, 2, 0, 2, 1), 5, 6, 1, 2, 5, 6, 3, 4)

		index := optest.Ints(t, 2, 0, 2, 2)
		dout := optest.Matrix(t, d, 4, 1, 10, 2, 20, 3, 30, 4, 40)
		dweight := optest.Garbage(t, d, 3, 2)
		optest.OK(t, embedding.Backward(cpu.Queue(), dweight, index, dout))
		optest.Want(t, "dweight", dweight, 2, 20, 0, 0, 8, 80)
		optest.OK(t, embedding.Accumulate(cpu.Queue(), dweight, index, dout))
		optest.Want(t, "dweight twice", dweight, 4, 40, 0, 0, 16, 160)
	}
}

// The definition in plain Go: f16 as integers of 2^-24, others in chunks.
func TestPlainGo(t *testing.T) {
	g := gen.New("plain")
	const queries, rows = 1000, 3
	index := make([]int32, queries)
	values := make([]float32, queries)
	for i := range index {
		index[i], values[i] = int32(g.Below(rows)), g.Ordinary()
	}
	for _, d := range num.FloatDTypes {
		var want []float32
		for v := range int32(rows) {
			units, total := int64(0), float32(0)
			var chunk []float32
			flush := func() {
				sum := float32(0)
				for _, x := range chunk {
					sum += x
				}
				total, chunk = total+sum, nil
			}
			for q, x := range values {
				if index[q] != v {
					continue
				}
				x = num.Round(d, x)
				units += int64(math.Ldexp(float64(x), 24))
				if chunk = append(chunk, x); len(chunk) == 64 {
					flush()
				}
			}
			flush()
			if d == num.F16 {
				total = float32(math.Ldexp(float64(units), -24)) // below 2^53 units: one rounding
			}
			want = append(want, total)
		}
		optest.Want(t, "dweight in f32", column(t, d, num.F32, rows, index, values...), want...)
	}
}

func TestForwardClauses(t *testing.T) {
	optest.Clauses(t, embedding.ForwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, forward, size(6, 4, 3)) },
		"C2_every_pattern": func(t *testing.T) {
			for _, d := range []num.DType{num.F16, num.BF16} {
				weight := optest.All(t, d, 0, 1<<16, 256)
				index := make([]int32, 256)
				var want []uint32
				for i := range index {
					index[i] = int32(255 - i)
				}
				for _, v := range index {
					for c := range 256 {
						want = append(want, uint32(v)*256+uint32(c))
					}
				}
				if !slices.Equal(optest.Bits(t, look(t, weight, index...)), want) {
					t.Errorf("%s: a pattern has changed", d)
				}
			}
			signalling := optest.Patterns(t, num.F32, 0x7f800001, 0xffc12345, 0x80000000, 1)
			weight, err := signalling.Reshape(2, 2)
			optest.OK(t, err)
			if got := optest.Bits(t, look(t, weight, 1, 0)); !slices.Equal(got, []uint32{0x80000000, 1, 0x7f800001, 0xffc12345}) {
				t.Errorf("f32: got %x", got)
			}
		},
		"C3_bad_index": func(t *testing.T) {
			badIndex(t, embedding.ForwardDefinition, forward.Call, 1)
			out := optest.Garbage(t, num.F16, 3, 2)
			weight := optest.Matrix(t, num.F16, 2, 1, 2, 3, 4)
			optest.OK(t, embedding.Forward(cpu.Queue(), out, optest.Ints(t, 2, 1, -1), weight, engine.WithBadIndex(engine.Skip)))
			optest.Want(t, "out", out, 0, 0, 3, 4, 0, 0)
		},
		"C4_many_queries": TestAncestor11_MoreQueriesThanRows,
		"C5_overlap":      TestErrors,
	})
}

// badIndex has the second of two indices beyond every end of the table.
func badIndex(t *testing.T, d *def.Definition, call func(*engine.Queue, []*tensor.Tensor, ...engine.CallOption) error, table int) {
	t.Helper()
	for _, bad := range []int32{-1, 3, math.MinInt32, math.MaxInt32} {
		x := []*tensor.Tensor{optest.Ints(t, 0, bad), optest.Garbage(t, num.F16, 2, 1), optest.Garbage(t, num.F16, 2, 1)}
		x[table] = optest.Garbage(t, num.F16, 3, 1)
		before := optest.Bits(t, x[2])
		err := call(cpu.Queue(), x)
		var index *engine.IndexError
		if !errors.As(err, &index) || index.Op != d.Name || index.Operand != "index" || index.Position != 1 || index.Value != bad || index.Bound != 3 {
			t.Errorf("%s: index %d gives %v, want an IndexError that names it", d.Name, bad, err)
		}
		optest.WantBits(t, "the result after a refusal", x[2], before...)
	}
}

func TestBackwardClauses(t *testing.T) {
	for _, s := range []optest.Subject{backward, accumulate} {
		d := s.Definition
		// sum adds occurrences of one index to an old +0, or sets it.
		sum := func(t *testing.T, in, out num.DType, dout ...float32) *tensor.Tensor {
			t.Helper()
			if d.Accumulates() {
				return added(t, in, out, 0, dout...)
			}
			return column(t, in, out, 1, make([]int32, len(dout)), dout...)
		}
		t.Run(d.Name, func(t *testing.T) {
			optest.Clauses(t, d, map[string]func(t *testing.T){
				"C1_shapes": func(t *testing.T) { optest.Shapes(t, s, size(6, 4, 3)) },
				"C2_exact_f16": func(t *testing.T) {
					optest.Want(t, "what is left of large terms", sum(t, num.F16, num.F16, 65504, 0x1p-24, -65504), 0x1p-24)
					optest.Want(t, "an exact zero", sum(t, num.F16, num.F16, 65504, -65504), 0)
					optest.Want(t, "−0 alone", sum(t, num.F16, num.F16, zero, zero), 0)
					// 1 + 2^-11 is a tie, a further 2^-24 decides it.
					optest.Want(t, "a tie", sum(t, num.F16, num.F16, 1, 0x1p-11), 1)
					optest.Want(t, "just above a tie", sum(t, num.F16, num.F16, 1, 0x1p-11, 0x1p-24), 1+0x1p-10)
					optest.Want(t, "one rounding to f32", sum(t, num.F16, num.F32, 1, 0x1p-24, 0x1p-24, 0x1p-24), 1+0x1p-22)
					if d.Accumulates() {
						optest.Want(t, "an old value that f16 has not", added(t, num.F16, num.F32, 1+0x1p-23, 0x1p-24), 1+0x1p-22)
						optest.Want(t, "a large old value", added(t, num.F16, num.F32, 0x1p60, -1), 0x1p60)
						optest.Want(t, "an old −0", added(t, num.F16, num.F16, zero, zero), 0)
					}
				},
				"C3_chunks": func(t *testing.T) {
					for _, in := range []num.DType{num.BF16, num.F32} {
						// 64 terms make a chunk: 2^24 and 63 ones stay 2^24, the next 64 are
						// a sum of their own.
						terms := append([]float32{0x1p24}, slices.Repeat([]float32{1}, 127)...)
						optest.Want(t, "2^24 and 127 ones", sum(t, in, num.F32, terms...), 0x1p24+64)
						optest.Want(t, "a zero", sum(t, in, in, 1, -1), 0)
						optest.Want(t, "−0 alone", sum(t, in, in, zero), 0)
						if d.Accumulates() {
							optest.Want(t, "after an old 2^24", added(t, in, num.F32, 0x1p24, 1, 1, 1), 0x1p24+4) // 3 in one step, to even
							optest.Want(t, "an old −0", added(t, in, in, zero, zero), 0)
						}
					}
				},
				"C4_nan_and_infinities": func(t *testing.T) {
					for _, in := range num.FloatDTypes {
						optest.Want(t, "NaN", sum(t, in, in, 1, nan, inf), nan)
						optest.Want(t, "both infinities", sum(t, in, in, inf, 1, -inf), nan)
						optest.Want(t, "+Inf", sum(t, in, in, -65504, inf, inf), inf)
						optest.Want(t, "-Inf", sum(t, in, in, -inf, 1), -inf)
						if d.Accumulates() {
							optest.Want(t, "an old NaN", added(t, in, in, nan, 1), nan)
							optest.Want(t, "an old infinity", added(t, in, in, inf, 1), inf)
							optest.Want(t, "an old infinity and the other", added(t, in, num.F32, inf, -inf), nan)
						}
					}
				},
				"C5_bad_index": func(t *testing.T) {
					badIndex(t, d, s.Call, 2)
					dweight := optest.Matrix(t, num.F16, 2, 0, 0)
					x := []*tensor.Tensor{optest.Ints(t, 2, 1, -1), optest.Matrix(t, num.F16, 3, 1, 2, nan), dweight}
					optest.OK(t, s.Call(cpu.Queue(), x, engine.WithBadIndex(engine.Skip)))
					optest.Want(t, "dweight", dweight, 0, 2)
				},
				"C6_rows_without_index": func(t *testing.T) {
					for _, in := range num.FloatDTypes {
						dweight := optest.Garbage(t, in, 3, 2)
						old := optest.Bits(t, dweight)
						x := []*tensor.Tensor{optest.Ints(t, 1), optest.Matrix(t, in, 1, 0, 0), dweight}
						optest.OK(t, s.Call(cpu.Queue(), x))
						got := optest.Bits(t, dweight)
						want := []uint32{0, 0, 0, 0, 0, 0}
						if d.Accumulates() {
							want = old // garbage + 0 is garbage
						}
						if !slices.Equal(got, want) {
							t.Errorf("%s: got %x, want %x", in, got, want)
						}
					}
				},
				"C7_range": func(t *testing.T) {
					for _, in := range num.FloatDTypes {
						least := num.Widen(in, 1)
						optest.Want(t, "subnormals", sum(t, in, in, least, least, least), 3*least)
					}
					optest.Want(t, "too large for f16", sum(t, num.F16, num.F16, 65504, 16), inf)
					optest.Want(t, "just not too large", sum(t, num.F16, num.F16, 65504, 15), 65504)
					optest.Want(t, "not too large for f32", sum(t, num.F16, num.F32, 65504, 65504), 131008)
					optest.Want(t, "exact on the way", sum(t, num.F16, num.F16, 65504, 65504, -65504), 65504)
					optest.Want(t, "overflow on the way", sum(t, num.F32, num.F32, huge, huge, -huge), inf)
				},
				"C8_many_queries": TestAncestor11_MoreQueriesThanRows,
				"C9_overlap":      TestErrors,
			})
		})
	}
}

// The ancestor rounded to fp16 at every atomic addition: the result depended on
// the order of threads, and large sums stalled.
func TestAncestor08_ExactSumsInAnyOrder(t *testing.T) {
	g := gen.New("ancestor 8")
	const queries, rows = 600, 5
	index, dout := make([]int32, queries), make([]float32, queries)
	for i := range index {
		index[i], dout[i] = int32(g.Below(rows)), g.Exponents(-20, 15)
	}
	want := column(t, num.F16, num.F16, rows, index, dout...)
	for range 5 {
		for i := queries - 1; i > 0; i-- {
			k := g.Below(i + 1)
			index[i], index[k] = index[k], index[i]
			dout[i], dout[k] = dout[k], dout[i]
		}
		optest.SameBits(t, "dweight in another order", column(t, num.F16, num.F16, rows, index, dout...), want)
	}

	ones := slices.Repeat([]float32{1}, 3000)
	optest.Want(t, "3,000 ones", column(t, num.F16, num.F16, 1, make([]int32, 3000), ones...), 3000)
	stalled := float32(0)
	for _, v := range ones {
		stalled = num.Round(num.F16, stalled+v)
	}
	if stalled != 2048 {
		t.Errorf("with a rounding each, 3,000 ones are %v, want them to stall at 2048", stalled)
	}
}

// A bad index left the row uninitialised.
func TestAncestor09_BadIndexLeavesNoUninitialisedRow(t *testing.T) {
	weight := optest.Matrix(t, num.F16, 2, 1, 2, 3, 4)
	out := optest.Garbage(t, num.F16, 2, 2)
	before := optest.Bits(t, out)
	if err := embedding.Forward(cpu.Queue(), out, optest.Ints(t, 0, 2), weight); err == nil {
		t.Error("a bad index was accepted")
	}
	optest.WantBits(t, "out after a refusal, of which no part is written", out, before...)
	optest.OK(t, embedding.Forward(cpu.Queue(), out, optest.Ints(t, 0, 2), weight, engine.WithBadIndex(engine.Skip)))
	optest.Want(t, "out with the bad row skipped", out, 1, 2, 0, 0)
}

// An assertion failed where there were more queries than rows.
func TestAncestor11_MoreQueriesThanRows(t *testing.T) {
	for _, d := range num.FloatDTypes {
		weight := optest.Matrix(t, d, 1, 5)
		index := make([]int32, 100)
		optest.Want(t, "out", look(t, weight, index...), slices.Repeat([]float32{5}, 100)...)
		optest.Want(t, "dweight", column(t, d, d, 1, index, slices.Repeat([]float32{1}, 100)...), 100)
		optest.Want(t, "dweight added to", added(t, d, d, 28, slices.Repeat([]float32{1}, 100)...), 128)
	}
}

// Offsets of 32 bits overflow beyond 2³¹ elements.
func TestAncestor12_RowsBeyond2To31Elements(t *testing.T) {
	table := optest.Distant(t, num.F16, 3)
	g := gen.New("ancestor 12")
	values := make([]float32, table.Len())
	for i := range values {
		values[i] = g.Normal()
	}
	near := optest.Matrix(t, num.F16, table.Rows(), values...)
	optest.OK(t, table.CopyFrom(near))
	index := []int32{32, 0, 31, 32}
	optest.SameBits(t, "out", look(t, table, index...), look(t, near, index...))
	dout := optest.Matrix(t, num.F16, 4, values[:12]...)
	optest.OK(t, embedding.Accumulate(cpu.Queue(), table, optest.Ints(t, index...), dout))
	optest.OK(t, embedding.Accumulate(cpu.Queue(), near, optest.Ints(t, index...), dout))
	optest.SameBits(t, "dweight", table, near)
}

func TestOperation(t *testing.T) {
	o := optest.Operation(embedding.Operations, "embedding.backward")
	run := func(in engine.Args, given map[string]string) (engine.Args, error) {
		v, err := o.NewValues(given)
		optest.OK(t, err)
		return o.Run(cpu.Queue(), in, v)
	}
	in := engine.Args{"index": optest.Ints(t, 1, 1), "dout": optest.Matrix(t, num.F16, 2, 60000, 60000)}
	out, err := run(in, map[string]string{"vocab": "3"})
	optest.OK(t, err)
	optest.Want(t, "dweight", out["dweight"], 0, inf, 0)
	out, err = run(in, map[string]string{"vocab": "2", "out": "f32"})
	optest.OK(t, err)
	optest.Want(t, "dweight in f32", out["dweight"], 0, 120000)
	old := optest.Matrix(t, num.F32, 2, 7, 7)
	with := engine.Args{"index": in["index"], "dout": in["dout"], "dweight": old}
	out, err = run(with, map[string]string{"accumulate": "true"})
	optest.OK(t, err)
	optest.Want(t, "dweight accumulated", out["dweight"], 7, 120007)
	optest.Want(t, "the dweight that was given", old, 7, 7)
	out, err = run(with, map[string]string{"accumulate": "true", "vocab": "2", "out": "f32"})
	optest.OK(t, err)
	optest.Want(t, "dweight accumulated, as said", out["dweight"], 7, 120007)
	_, err = run(with, map[string]string{"accumulate": "true", "vocab": "3"})
	optest.Message(t, err, "embedding.backward: vocab is 3, want 2 like the rows of the dweight that is given, or nothing")
	_, err = run(with, map[string]string{"accumulate": "true", "out": "same"})
	optest.Message(t, err, `embedding.backward: out is "same", that is f16, want f32 like the dweight that is given, or nothing`)
	_, err = run(in, map[string]string{"accumulate": "true"})
	optest.Message(t, err, "embedding.backward: dweight is missing, want inputs index, dout, dweight")
	for name, c := range map[string]struct {
		in    engine.Args
		given map[string]string
	}{
		"no vocab":                 {in, nil},
		"vocab 0":                  {in, map[string]string{"vocab": "0"}},
		"out bf16":                 {in, map[string]string{"vocab": "2", "out": "bf16"}},
		"another vocab":            {with, map[string]string{"accumulate": "true", "vocab": "3"}},
		"another out":              {with, map[string]string{"accumulate": "true", "out": "same"}},
		"accumulate and out bf16":  {with, map[string]string{"accumulate": "true", "out": "bf16"}},
		"accumulate, no dweight":   {in, map[string]string{"accumulate": "true"}},
		"dweight, no accumulate":   {with, map[string]string{"vocab": "2"}},
		"no index":                 {engine.Args{"dout": in["dout"]}, map[string]string{"vocab": "2"}},
		"an input that it has not": {engine.Args{"index": in["index"], "dout": in["dout"], "x": old}, map[string]string{"vocab": "2"}},
	} {
		if _, err := run(c.in, c.given); !errors.Is(err, tensor.ErrBadArgument) {
			t.Errorf("%s: got error %v, want an ArgumentError", name, err)
		}
	}
}

// out has the dimensions of index, and D.
func TestOperationForward(t *testing.T) {
	o := optest.Operation(embedding.Operations, "embedding.forward")
	weight := optest.Matrix(t, num.F16, 3, 1, 2, 3, 4, 5, 6)
	run := func(in engine.Args) (engine.Args, error) {
		v, err := o.NewValues(nil)
		optest.OK(t, err)
		return o.Run(cpu.Queue(), in, v)
	}
	index := optest.Ints(t, 2, 0, 1, 2)
	for _, shape := range [][]int{{4}, {2, 2}, {1, 2, 2}} {
		shaped, err := index.Reshape(shape...)
		optest.OK(t, err)
		out, err := run(engine.Args{"index": shaped, "weight": weight})
		optest.OK(t, err)
		if got, want := out["out"].Shape(), append(shape, 2); !slices.Equal(got, want) {
			t.Errorf("out has shape %v, want %v", got, want)
		}
		optest.Want(t, "out", out["out"], 5, 6, 1, 2, 3, 4, 5, 6)
	}
	scalar, err := optest.Ints(t, 1).Reshape()
	optest.OK(t, err)
	out, err := run(engine.Args{"index": scalar, "weight": weight})
	optest.OK(t, err)
	optest.Want(t, "out of one index", out["out"], 3, 4)
	_, err = run(engine.Args{"index": index})
	optest.Refused(t, err, "embedding.forward", "weight", "")
	_, err = run(engine.Args{"index": index, "weight": weight, "x": weight})
	optest.Refused(t, err, "embedding.forward", "x", "")
}

func BenchmarkEmbedding(b *testing.B) {
	for _, d := range num.FloatDTypes {
		for _, dir := range []struct {
			name    string
			subject optest.Subject
		}{{"forward", forward}, {"backward", backward}, {"accumulate", accumulate}} {
			optest.Bench(b, optest.Timing{
				Name:    "dir=" + dir.name + "/dtype=" + d.String() + "/shape=" + optest.Shape(2048, 500, 256),
				Subject: dir.subject, DTypes: []num.DType{num.I32, d, d}, Sizes: size(2048, 500, 256), Check: size(100, 5, 16),
			})
		}
	}
}
