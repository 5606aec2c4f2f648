package attention_test

import (
	"math"
	"slices"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/attention"
	"tokitai/op/optest"
	"tokitai/tensor"
)

var forward = optest.Subject{
	Definition: attention.ForwardDefinition, Data: attention.Operations[0].Data, Params: attention.Operations[0].Data[0].Params,
	Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
		return attention.Forward(q, x[5], x[6], x[0], x[1], x[2], attention.Sequences{x[3], x[4]}, attention.Operations[0].Data[0].Params[0], opts...)
	},
}

var inf, nan = float32(math.Inf(1)), float32(math.NaN())

func TestDoc(t *testing.T) {
	optest.Doc(t, "doc.go", attention.ForwardDefinition, attention.BackwardDefinition, attention.DecodeDefinition)
}

func TestMatchReference(t *testing.T) {
	optest.MatchReference(t, forward, shape(7, 20, 2, 3, 9, 3), shape(1, 1, 1, 1, 1, 1), shape(3, 150, 1, 2, 32, 2), shape(1, 1027, 1, 1, 5, 1))
}

func TestErrors(t *testing.T) { optest.Errors(t, forward, shape(3, 5, 2, 2, 4, 1)) }

func shape(t, s, g, j, d, b int) map[string]int {
	return map[string]int{"T": t, "S": s, "G": g, "J": j, "D": d, "B": b}
}

// inputs are those of a call: tokens × G × J × D and tokens × G × D values.
type inputs struct {
	g, j, d        int
	q, k, v        []float32
	qstart, kstart []int32
	kappa          float64
}

// random returns the inputs of sequences that have the given numbers of queries and keys.
func random(seed string, g, j, d int, queries, keys []int) inputs {
	x := inputs{g: g, j: j, d: d, qstart: []int32{0}, kstart: []int32{0}, kappa: attention.Kappa(1 / math.Sqrt(float64(d)))}
	r := gen.New(seed)
	draw := func(n int) []float32 {
		list := make([]float32, n)
		for i := range list {
			list[i] = r.Normal()
		}
		return list
	}
	for i := range queries {
		x.qstart = append(x.qstart, x.qstart[i]+int32(queries[i]))
		x.kstart = append(x.kstart, x.kstart[i]+int32(keys[i]))
	}
	x.q = draw(int(x.qstart[len(queries)]) * g * j * d)
	x.k, x.v = draw(int(x.kstart[len(keys)])*g*d), draw(int(x.kstart[len(keys)])*g*d)
	return x
}

// row returns one query and its keys, of one head of one column.
func row(scores, values []float32) inputs {
	n := int32(len(scores))
	return inputs{g: 1, j: 1, d: 1, q: []float32{1}, k: scores, v: values, qstart: []int32{0, 1}, kstart: []int32{0, n}, kappa: 1}
}

// results are o and lse.
type results struct{ o, lse *tensor.Tensor }

func (x *inputs) run(t testing.TB, d num.DType) results {
	t.Helper()
	r, err := x.try(t, d)
	optest.OK(t, err)
	return r
}

func (x *inputs) try(t testing.TB, d num.DType) (results, error) {
	t.Helper()
	tokens, keys := int(x.qstart[len(x.qstart)-1]), len(x.k)/(x.g*x.d)
	if n := x.g * x.j * x.d; len(x.q) != tokens*n {
		tokens = len(x.q) / n
	}
	from := func(values []float32, shape ...int) *tensor.Tensor {
		y, err := tensor.FromFloat32(cpu.Queue().Device(), d, values, shape...)
		optest.OK(t, err)
		return y
	}
	r := results{optest.Garbage(t, d, tokens, x.g, x.j, x.d), optest.Garbage(t, num.F32, tokens, x.g, x.j)}
	return r, attention.Forward(cpu.Queue(), r.o, r.lse, from(x.q, tokens, x.g, x.j, x.d), from(x.k, keys, x.g, x.d), from(x.v, keys, x.g, x.d),
		attention.Sequences{optest.Ints(t, x.qstart...), optest.Ints(t, x.kstart...)}, x.kappa)
}

// sameRows compares the rows of two results from given tokens on.
func sameRows(t testing.TB, what string, got results, at int, want results, from, n int) {
	t.Helper()
	for _, pair := range [][2]*tensor.Tensor{{got.o, want.o}, {got.lse, want.lse}} {
		a, b := optest.Bits(t, pair[0]), optest.Bits(t, pair[1])
		width := len(b) / want.o.Shape()[0]
		if !slices.Equal(a[at*width:][:n*width], b[from*width:][:n*width]) {
			t.Errorf("%s: %s differs", what, pair[0].DType())
		}
	}
}

func TestForward(t *testing.T) {
	each := func(t *testing.T, test func(t *testing.T, d num.DType)) {
		for _, d := range num.FloatDTypes {
			test(t, d)
		}
	}
	want := func(t *testing.T, what string, d num.DType, x inputs, o, lse float32) {
		t.Helper()
		r := x.run(t, d)
		optest.Want(t, what+": o of "+d.String(), r.o, o)
		optest.Want(t, what+": lse", r.lse, lse)
	}
	optest.Clauses(t, attention.ForwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) {
			x := random("groups", 2, 3, 8, []int{4}, []int{9})
			each(t, func(t *testing.T, d num.DType) {
				all := optest.Floats(t, x.run(t, d).o)
				for g := range 2 {
					for j := range 3 { // head j of group g alone
						one := inputs{g: 1, j: 1, d: 8, qstart: x.qstart, kstart: x.kstart, kappa: x.kappa}
						for i := range 4 {
							one.q = append(one.q, x.q[((i*2+g)*3+j)*8:][:8]...)
						}
						for i := range 9 {
							one.k, one.v = append(one.k, x.k[(i*2+g)*8:][:8]...), append(one.v, x.v[(i*2+g)*8:][:8]...)
						}
						got := optest.Floats(t, one.run(t, d).o)
						for i := range 4 {
							if !slices.Equal(got[i*8:][:8], all[((i*2+g)*3+j)*8:][:8]) {
								t.Errorf("%s: head %d of group %d, query %d differs from the head alone", d, j, g, i)
							}
						}
					}
				}
			})
			optest.Shapes(t, forward, shape(6, 8, 1, 2, 3, 2))
		},
		"C2_causal": func(t *testing.T) {
			// Equal scores: each query gives the mean of what it sees.
			x := inputs{g: 1, j: 1, d: 1, q: []float32{0, 0, 0, 0, 0}, k: make([]float32, 7), v: []float32{1, 3, 8, 4, 16, 8, 4}, kappa: 1}
			x.qstart, x.kstart = []int32{0, 2, 5}, []int32{0, 4, 7} // the last two of four, and three of three
			each(t, func(t *testing.T, d num.DType) {
				r := x.run(t, d)
				optest.Want(t, "o", r.o, 4, 4, 16, 12, 28*0x1.555556p-2) // 1/3 is rounded
				optest.Want(t, "lse", r.lse, 1.5849625, 2, 0, 1, 1.5849625)
			})
		},
		"C3_offsets": func(t *testing.T) {
			x := random("offsets", 1, 1, 2, []int{2, 0, 3}, []int{4, 2, 0})
			r := x.run(t, num.F16)
			wantPart(t, "queries without keys", r.lse, 2, -inf, -inf, -inf)
			for _, bad := range [][2][]int32{{{0, 3, 2, 5}, {0, 4, 6, 6}}, {{0, 2, 2, 5}, {0, 7, 6, 6}}, {{1, 2, 2, 5}, {0, 4, 6, 6}}, {{0, 2, 2, 4}, {0, 4, 6, 6}}} {
				y := x
				y.qstart, y.kstart = bad[0], bad[1]
				r, err := y.try(t, num.F16)
				if err == nil {
					t.Errorf("offsets %v are accepted", bad)
				}
				optest.SameBits(t, "after a refusal", r.o, optest.Garbage(t, num.F16, 5, 1, 1, 2))
			}
		},
		"C4_order": func(t *testing.T) {
			// l of the first block is 1 + 2^-24, which rounds to 1; in another order, or in one sum with the second
			// block, it would be 1 + 2^-23.
			scores := slices.Repeat([]float32{-200}, 130)
			scores[0], scores[8], scores[129] = 0, -24, -24
			want(t, "a sum of two blocks", num.F32, row(scores, slices.Repeat([]float32{1}, 130)), 1, 0)
			// Segments: the first has l = 2, the second 1 at twice the weight.
			scores = slices.Repeat([]float32{-200}, 1025)
			scores[3], scores[1000], scores[1024] = 1, 1, 2
			values := make([]float32, 1025)
			values[3], values[1000], values[1024] = 4, 8, 2
			want(t, "two segments", num.F32, row(scores, values), 4, 3)
		},
		"C5_nothing": func(t *testing.T) {
			each(t, func(t *testing.T, d num.DType) {
				want(t, "all -Inf", d, row([]float32{-inf, -inf}, []float32{nan, inf}), 0, -inf)
				x := random("nothing", 1, 1, 2, []int{2}, []int{1})
				r := x.run(t, d)
				wantPart(t, "a query before the first key", r.o, 0, 0, 0)
				wantPart(t, "lse", r.lse, 0, -inf)
			})
		},
		"C6_exponents": func(t *testing.T) {
			each(t, func(t *testing.T, d num.DType) {
				want(t, "NaN", d, row([]float32{1, nan, 2}, []float32{1, 2, 3}), nan, nan)
				want(t, "+Inf", d, row([]float32{1, inf}, []float32{1, 2}), nan, nan)
				want(t, "-Inf", d, row([]float32{-inf, 1}, []float32{4, 2}), 2, 1)
				x := row([]float32{inf}, []float32{1})
				x.kappa = 0
				want(t, "infinity times zero", d, x, nan, nan)
			})
		},
		"C7_values": func(t *testing.T) {
			each(t, func(t *testing.T, d num.DType) {
				want(t, "NaN", d, row([]float32{1, 1}, []float32{nan, 1}), nan, 2)
				want(t, "infinite", d, row([]float32{1, 1}, []float32{inf, 1}), inf, 2)
				want(t, "both infinities", d, row([]float32{1, 1}, []float32{inf, -inf}), nan, 2)
				want(t, "infinite, of weight zero", d, row([]float32{-inf, 1}, []float32{inf, 1}), nan, 1)
			})
			x := random("columns", 1, 1, 2, []int{1}, []int{3})
			x.v[2] = nan
			o := optest.Floats(t, x.run(t, num.F32).o)
			if o[0] == o[0] || o[1] != o[1] {
				t.Errorf("NaN in column 0 gives %v", o)
			}
		},
		"C8_hidden": func(t *testing.T) {
			each(t, func(t *testing.T, d num.DType) {
				x := random("hidden", 1, 2, 8, []int{6, 5}, []int{6, 140})
				clean := x.run(t, d)
				for _, bad := range []float32{nan, inf, -inf} {
					y := x
					y.k, y.v = slices.Clone(x.k), slices.Clone(x.v)
					for i := range 8 { // the last key of each sequence
						y.k[5*8+i], y.v[5*8+i], y.k[145*8+i], y.v[145*8+i] = bad, bad, bad, bad
					}
					r := y.run(t, d)
					sameRows(t, "first sequence", r, 0, clean, 0, 5)
					sameRows(t, "second sequence", r, 6, clean, 6, 4)
				}
			})
		},
		"C9_range": func(t *testing.T) {
			each(t, func(t *testing.T, d num.DType) {
				least := num.Widen(d, 1)
				want(t, "subnormal values", d, row([]float32{0, 0}, []float32{4 * least, 2 * least}), 3*least, 1)
			})
			want(t, "a subnormal weight in f16", num.F16, row([]float32{-24, 0}, []float32{0x1p14, 0}), 0x1p-10, 0)
			want(t, "a weight below f16", num.F16, row([]float32{-26, 0}, []float32{0x1p14, 0}), 0, 0)
			want(t, "the same in bf16", num.BF16, row([]float32{-26, 0}, []float32{0x1p14, 0}), 0x1p-12, 0)
			x := row([]float32{math.MaxFloat32, 1}, []float32{1, 2})
			x.q[0] = 2
			want(t, "a score that overflows", num.F32, x, nan, nan)
			want(t, "a sum that overflows", num.F32, row([]float32{0, 0}, []float32{math.MaxFloat32, math.MaxFloat32}), inf, 1)
		},
		"C10_batch": func(t *testing.T) {
			each(t, func(t *testing.T, d num.DType) {
				all := random("batch", 1, 2, 8, []int{9, 1, 20}, []int{9, 133, 130})
				whole := all.run(t, d)
				// The last sequence alone, and its last queries alone.
				for _, n := range []int{20, 7, 1} {
					alone := inputs{g: 1, j: 2, d: 8, q: all.q[(30-n)*16:], k: all.k[142*8:], v: all.v[142*8:], qstart: []int32{0, int32(n)}, kstart: []int32{0, 130}, kappa: all.kappa}
					sameRows(t, "the last sequence alone", alone.run(t, d), 0, whole, 30-n, n)
				}
				// In another order.
				turned := inputs{g: 1, j: 2, d: 8, qstart: []int32{0, 20, 21, 30}, kstart: []int32{0, 130, 263, 272}, kappa: all.kappa}
				turned.q = slices.Concat(all.q[10*16:], all.q[9*16:10*16], all.q[:9*16])
				turned.k, turned.v = slices.Concat(all.k[142*8:], all.k[9*8:142*8], all.k[:9*8]), slices.Concat(all.v[142*8:], all.v[9*8:142*8], all.v[:9*8])
				r := turned.run(t, d)
				sameRows(t, "turned", r, 0, whole, 10, 20)
				sameRows(t, "turned", r, 20, whole, 9, 1)
				sameRows(t, "turned", r, 21, whole, 0, 9)
			})
		},
		"C11_overlap": TestErrors,
	})
}

// wantPart compares the elements of a tensor from a place on, to the bit.
func wantPart(t testing.TB, what string, x *tensor.Tensor, from int, values ...float32) {
	t.Helper()
	for i, v := range values {
		if got := optest.Bits(t, x)[from+i]; got != num.Narrow(x.DType(), v) {
			t.Errorf("%s: element %d is %v, want %v", what, from+i, num.Widen(x.DType(), got), v)
		}
	}
}

func BenchmarkForward(b *testing.B) {
	for _, d := range num.FloatDTypes {
		optest.Bench(b, optest.Timing{
			Name: "dtype=" + d.String() + "/shape=256x256x2x2x64", Subject: forward, DTypes: attention.ForwardDefinition.DTypes(d),
			Sizes: shape(256, 256, 2, 2, 64, 1), Check: shape(3, 9, 2, 2, 64, 1),
		})
	}
}
