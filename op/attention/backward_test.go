package attention_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/attention"
	"tokitai/op/optest"
	"tokitai/tensor"
)

var backward = optest.Subject{
	Definition: attention.BackwardDefinition, Data: attention.Operations[1].Data, Params: attention.Operations[0].Data[0].Params,
	Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
		return attention.Backward(q, x[8], x[9], x[10], x[5], x[0], x[1], x[2], attention.Saved{x[6], x[7]}, attention.Sequences{x[3], x[4]}, attention.Operations[0].Data[0].Params[0], opts...)
	},
}

func TestMatchReferenceBackward(t *testing.T) {
	optest.MatchReference(t, backward, shape(7, 20, 2, 3, 9, 3), shape(1, 1, 1, 1, 1, 1), shape(3, 150, 1, 2, 32, 2), shape(2, 1027, 1, 1, 3, 1))
}

// TestDerivative holds the gradients to the text of the derivative of attention: they differ in the name
// alone.
func TestDerivative(t *testing.T) {
	d, err := def.Derivative(attention.ForwardDefinition, nil, fn.All...)
	optest.OK(t, err)
	if got := strings.Replace(d.Text(), d.Name, attention.BackwardDefinition.Name, 1); got != attention.BackwardDefinition.Text() {
		t.Errorf("the derivative is\n%s\nwant\n%s", got, attention.BackwardDefinition.Text())
	}
}

// slopes are the inputs of a call of the gradients: those of attention, the gradient of the mean, and
// results that are not attention's own, unless they are nil.
type slopes struct {
	inputs
	do, o, lse []float32
}

// given returns a query of one head and column, with zeros for results and gradients.
func given(scores, values []float32) slopes {
	return slopes{row(scores, values), []float32{1}, []float32{0}, []float32{0}}
}

// randomSlopes are inputs with the results of attention.
func randomSlopes(seed string, g, j, d int, queries, keys []int) slopes {
	x := slopes{inputs: random(seed, g, j, d, queries, keys)}
	r := gen.New(seed + " gradients")
	for range x.q {
		x.do = append(x.do, r.Normal())
	}
	return x
}

type derivatives struct{ dq, dk, dv *tensor.Tensor }

func (x *slopes) run(t testing.TB, d num.DType) derivatives {
	t.Helper()
	r, err := x.try(t, d)
	optest.OK(t, err)
	return r
}

func (x *slopes) try(t testing.TB, d num.DType) (derivatives, error) {
	t.Helper()
	tokens, keys := len(x.q)/(x.g*x.j*x.d), len(x.k)/(x.g*x.d)
	from := func(values []float32, d num.DType, shape ...int) *tensor.Tensor {
		y, err := tensor.FromFloat32(cpu.Queue().Device(), d, values, shape...)
		optest.OK(t, err)
		return y
	}
	var saved results
	if x.o == nil || x.lse == nil {
		var err error
		if saved, err = x.inputs.try(t, d); err != nil {
			return derivatives{}, err
		}
	}
	if x.o != nil {
		saved.o = from(x.o, d, tokens, x.g, x.j, x.d)
	}
	if x.lse != nil {
		saved.lse = from(x.lse, num.F32, tokens, x.g, x.j)
	}
	r := derivatives{optest.Garbage(t, d, tokens, x.g, x.j, x.d), optest.Garbage(t, d, keys, x.g, x.d), optest.Garbage(t, d, keys, x.g, x.d)}
	return r, attention.Backward(cpu.Queue(), r.dq, r.dk, r.dv, from(x.do, d, tokens, x.g, x.j, x.d), from(x.q, d, tokens, x.g, x.j, x.d), from(x.k, d, keys, x.g, x.d), from(x.v, d, keys, x.g, x.d),
		attention.Saved{saved.o, saved.lse}, attention.Sequences{optest.Ints(t, x.qstart...), optest.Ints(t, x.kstart...)}, x.kappa)
}

// sameTokens compares n rows of two results, to the bit.
func sameTokens(t testing.TB, what string, got *tensor.Tensor, at int, want *tensor.Tensor, from, n int) {
	t.Helper()
	a, b := optest.Bits(t, got), optest.Bits(t, want)
	width := len(b) / want.Shape()[0]
	if !slices.Equal(a[at*width:][:n*width], b[from*width:][:n*width]) {
		t.Errorf("%s differs", what)
	}
}

func TestBackward(t *testing.T) {
	each := func(t *testing.T, test func(t *testing.T, d num.DType)) {
		for _, d := range num.FloatDTypes {
			test(t, d)
		}
	}
	const ln2 = float32(math.Ln2)
	optest.Clauses(t, attention.BackwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) {
			x := randomSlopes("groups", 2, 3, 8, []int{4}, []int{9})
			each(t, func(t *testing.T, d num.DType) {
				all := x.run(t, d)
				for g := range 2 { // group g alone, and head j of it
					one := slopes{inputs: inputs{g: 1, j: 3, d: 8, qstart: x.qstart, kstart: x.kstart, kappa: x.kappa}}
					for i := range 4 {
						one.q, one.do = append(one.q, x.q[(i*2+g)*24:][:24]...), append(one.do, x.do[(i*2+g)*24:][:24]...)
					}
					for i := range 9 {
						one.k, one.v = append(one.k, x.k[(i*2+g)*8:][:8]...), append(one.v, x.v[(i*2+g)*8:][:8]...)
					}
					got := one.run(t, d)
					for _, pair := range []struct {
						name      string
						got, want *tensor.Tensor
						n, width  int
					}{{"dq", got.dq, all.dq, 4, 24}, {"dk", got.dk, all.dk, 9, 8}, {"dv", got.dv, all.dv, 9, 8}} {
						a, b := optest.Bits(t, pair.got), optest.Bits(t, pair.want)
						for i := range pair.n {
							if !slices.Equal(a[i*pair.width:][:pair.width], b[(i*2+g)*pair.width:][:pair.width]) {
								t.Errorf("%s: %s of group %d, token %d differs from the group alone", d, pair.name, g, i)
							}
						}
					}
				}
				// One key of three heads: the mean is the value, whatever the weights.
				heads := slopes{inputs: inputs{g: 1, j: 3, d: 1, q: []float32{1, 2, 3}, k: []float32{1}, v: []float32{5}, qstart: []int32{0, 1}, kstart: []int32{0, 1}, kappa: 1}, do: []float32{1, 2, 4}}
				r := heads.run(t, d)
				optest.Want(t, "dv of three heads", r.dv, 7)
				optest.Want(t, "dk of three heads", r.dk, 0)
				optest.Want(t, "dq of three heads", r.dq, 0, 0, 0)
			})
			optest.Shapes(t, backward, shape(6, 8, 1, 2, 3, 2))
		},
		"C2_causal": func(t *testing.T) {
			// Equal scores: the last of four, and two of two.
			x := slopes{inputs: inputs{g: 1, j: 1, d: 1, q: []float32{0, 0, 0}, k: make([]float32, 6), v: []float32{1, 3, 8, 4, 16, 8}, kappa: 1}, do: []float32{1, 1, 1}}
			x.qstart, x.kstart = []int32{0, 1, 3}, []int32{0, 4, 6}
			each(t, func(t *testing.T, d num.DType) {
				optest.Want(t, "dv", x.run(t, d).dv, 0.25, 0.25, 0.25, 0.25, 1.5, 0.5)
			})
		},
		"C3_offsets": func(t *testing.T) {
			x := randomSlopes("offsets", 1, 1, 2, []int{2, 0, 3}, []int{4, 2, 0})
			r := x.run(t, num.F16)
			wantPart(t, "queries without keys", r.dq, 4, 0, 0, 0, 0, 0, 0)
			wantPart(t, "keys without queries", r.dk, 8, 0, 0, 0, 0)
			x.o, x.lse = make([]float32, 10), make([]float32, 5)
			for _, bad := range [][2][]int32{{{0, 3, 2, 5}, {0, 4, 6, 6}}, {{0, 2, 2, 5}, {0, 7, 6, 6}}, {{1, 2, 2, 5}, {0, 4, 6, 6}}, {{0, 2, 2, 4}, {0, 4, 6, 6}}} {
				y := x
				y.qstart, y.kstart = bad[0], bad[1]
				r, err := y.try(t, num.F16)
				if err == nil {
					t.Errorf("offsets %v are accepted", bad)
				}
				optest.SameBits(t, "dq after a refusal", r.dq, optest.Garbage(t, num.F16, 5, 1, 1, 2))
				optest.SameBits(t, "dk after a refusal", r.dk, optest.Garbage(t, num.F16, 6, 1, 2))
			}
		},
		"C4_results": func(t *testing.T) {
			each(t, func(t *testing.T, d num.DType) {
				x := row([]float32{0, 0}, []float32{4, 8})
				own := slopes{x, []float32{1}, nil, nil}
				r := own.run(t, d) // p = 1/2, the mean is 6
				optest.Want(t, "dv", r.dv, 0.5, 0.5)
				optest.Want(t, "dk", r.dk, num.Round(d, -ln2), num.Round(d, ln2))
				other := slopes{x, []float32{1}, []float32{2}, []float32{2}}
				r = other.run(t, d) // p = 1/4
				optest.Want(t, "dv of another logarithm", r.dv, 0.25, 0.25)
				optest.Want(t, "dk of another mean", r.dk, num.Round(d, 0.5*ln2), num.Round(d, 1.5*ln2))
			})
		},
		"C5_order": func(t *testing.T) {
			const small = 0x1p-24
			// Weights are 1, as q and lse are 0, and ds is do*v. What is added to 1 first is lost.
			lone := func(values []float32) slopes { // one query, whose keys are 1
				x := given(slices.Repeat([]float32{1}, len(values)), values)
				x.q[0] = 0
				return x
			}
			values := make([]float32, 257)
			values[0], values[128], values[256] = 1, small, small
			x := lone(values)
			optest.Want(t, "blocks are added from the last", x.run(t, num.F32).dq, (1+2*small)*ln2)
			x = lone([]float32{1, small, small})
			optest.Want(t, "keys of a block ascend", x.run(t, num.F32).dq, ln2)
			x = lone([]float32{small, small, 1})
			optest.Want(t, "keys of a block ascend", x.run(t, num.F32).dq, (1+2*small)*ln2)

			key0 := func(what string, queries, keys, heads int, do []float32, want float32) {
				x := slopes{inputs: inputs{g: 1, j: heads, d: 1, q: make([]float32, queries*heads), k: make([]float32, keys), v: make([]float32, keys),
					qstart: []int32{0, int32(queries)}, kstart: []int32{0, int32(keys)}, kappa: 1}, do: do, o: make([]float32, len(do)), lse: make([]float32, len(do))}
				x.v[0] = 1
				wantPart(t, what+": dv", x.run(t, num.F32).dv, 0, want)
				for i := range x.q { // p = 2^(-q), times 1
					x.q[i], x.k[0], x.lse[i] = 1, 1, 1
				}
				wantPart(t, what+": dk", x.run(t, num.F32).dk, 0, want*ln2)
			}
			key0("queries ascend", 3, 3, 1, []float32{1, small, small}, 1)
			key0("queries ascend", 3, 3, 1, []float32{small, small, 1}, 1+2*small)
			key0("heads are added one after another", 2, 2, 2, []float32{1, small, 0, small}, 1+2*small)
			key0("heads ascend", 1, 1, 3, []float32{1, small, small}, 1)
			key0("segments of queries", 3, 1026, 1, []float32{1, small, small}, 1+2*small)
			key0("one segment", 3, 1024, 1, []float32{1, small, small}, 1)

			// ds of 1 + 2^-12 is 1 in f16 and bf16; the other key takes 1 away.
			y := slopes{inputs: inputs{g: 1, j: 1, d: 2, q: []float32{0, 0}, k: []float32{1, 0, -1, 0}, v: []float32{1, 1, 1, 0}, qstart: []int32{0, 1}, kstart: []int32{0, 2}, kappa: 1},
				do: []float32{1, 0x1p-12}, o: []float32{0, 0}, lse: []float32{0}}
			optest.Want(t, "ds in f16", y.run(t, num.F16).dq, 0, 0)
			optest.Want(t, "ds in f32", y.run(t, num.F32).dq, 0x1p-12*ln2, 0)
			// p of 2^-0.5 in f16, and in f32.
			z := given([]float32{-0.5}, []float32{0})
			z.do[0] = 0x1p11
			z.o, z.lse = []float32{0}, []float32{0}
			p := float32(math.Exp2(-0.5))
			if got := optest.Floats(t, z.run(t, num.F32).dv)[0]; got == num.Round(num.F16, p)*0x1p11 {
				t.Errorf("p is rounded in f32: %v", got)
			}
		},
		"C6_nothing": func(t *testing.T) {
			each(t, func(t *testing.T, d num.DType) {
				x := randomSlopes("nothing", 1, 1, 2, []int{2, 1}, []int{1, 3})
				x.kappa = -x.kappa
				wantPart(t, "a query before the first key", x.run(t, d).dq, 0, 0, 0)
				y := randomSlopes("nothing", 1, 1, 2, []int{0}, []int{2})
				y.q, y.do = []float32{1, 1}, []float32{1, 1} // a token of no sequence is refused: one of another
				y.qstart, y.kstart = []int32{0, 0, 1}, []int32{0, 2, 2}
				r := y.run(t, d)
				optest.Want(t, "dk of keys without queries", r.dk, 0, 0, 0, 0)
				optest.Want(t, "dv of keys without queries", r.dv, 0, 0, 0, 0)
			})
		},
		"C7_weightless": func(t *testing.T) {
			each(t, func(t *testing.T, d num.DType) {
				x := slopes{row([]float32{-inf, -inf}, []float32{1, 2}), []float32{1}, nil, nil}
				r := x.run(t, d)
				optest.Want(t, "dq", r.dq, nan)
				optest.Want(t, "dk", r.dk, 0, 0)
				optest.Want(t, "dv", r.dv, 0, 0)
			})
		},
		"C8_no_numbers": func(t *testing.T) {
			each(t, func(t *testing.T, d num.DType) {
				for name, want := range map[string]struct{ dq, dk, dv bool }{ // what is NaN
					"q": {true, true, true}, "do": {true, true, true}, "o": {true, true, false}, "lse": {true, true, true},
					"k": {true, true, true}, "v": {true, true, false},
				} {
					x := given([]float32{1, 2}, []float32{3, 4})
					list := map[string][]float32{"q": x.q, "k": x.k, "v": x.v, "do": x.do, "o": x.o, "lse": x.lse}[name]
					list[0] = nan
					r := x.run(t, d)
					for _, of := range []struct {
						name  string
						x     *tensor.Tensor
						isNaN bool
					}{{"dq", r.dq, want.dq}, {"dk", r.dk, want.dk}, {"dv", r.dv, want.dv}} {
						if got := optest.Floats(t, of.x)[0]; (got != got) != of.isNaN {
							t.Errorf("%s: NaN in %s makes %s %v", d, name, of.name, got)
						}
					}
					if name == "k" || name == "v" { // the other key
						for _, of := range []*tensor.Tensor{r.dk, r.dv} {
							if got := optest.Floats(t, of)[1]; got-got != 0 {
								t.Errorf("%s: NaN in %s of a key makes another %v", d, name, got)
							}
						}
					}
				}
				x := given([]float32{0}, []float32{1})
				x.lse[0] = inf
				optest.Want(t, "an infinite logarithm", x.run(t, d).dv, 0)
				y := randomSlopes("columns", 1, 1, 2, []int{1}, []int{1})
				y.do[1] = nan
				if dv := optest.Floats(t, y.run(t, d).dv); dv[0] != dv[0] || dv[1] == dv[1] {
					t.Errorf("%s: NaN in column 1 of do makes dv %v", d, dv)
				}
				x = given([]float32{0}, []float32{1})
				x.do[0] = inf
				r := x.run(t, d)
				optest.Want(t, "an infinite gradient: dv", r.dv, inf)
				optest.Want(t, "an infinite gradient: dk", r.dk, nan) // of inf - inf*0
			})
		},
		"C9_hidden": func(t *testing.T) {
			each(t, func(t *testing.T, d num.DType) {
				x := randomSlopes("hidden", 1, 2, 8, []int{6, 5}, []int{6, 140})
				clean := x.run(t, d)
				for _, bad := range []float32{nan, inf, -inf} {
					y := x // the last key of each sequence, which the last query alone sees
					y.k, y.v = slices.Clone(x.k), slices.Clone(x.v)
					for i := range 8 {
						y.k[5*8+i], y.v[5*8+i], y.k[145*8+i], y.v[145*8+i] = bad, bad, bad, bad
					}
					r := y.run(t, d)
					sameTokens(t, "dq of the first sequence", r.dq, 0, clean.dq, 0, 5)
					sameTokens(t, "dq of the second sequence", r.dq, 6, clean.dq, 6, 4)
					y = x // the first query, which does not see the last five keys
					y.q, y.do = slices.Clone(x.q), slices.Clone(x.do)
					for i := range 16 {
						y.q[i], y.do[i], y.q[6*16+i], y.do[6*16+i] = bad, bad, bad, bad
					}
					r = y.run(t, d)
					sameTokens(t, "dk of the first sequence", r.dk, 1, clean.dk, 1, 5)
					sameTokens(t, "dv of the first sequence", r.dv, 1, clean.dv, 1, 5)
					sameTokens(t, "dk of the second sequence", r.dk, 142, clean.dk, 142, 4)
					sameTokens(t, "dv of the second sequence", r.dv, 142, clean.dv, 142, 4)
				}
			})
		},
		"C10_range": func(t *testing.T) {
			each(t, func(t *testing.T, d num.DType) {
				x := given([]float32{0}, []float32{1})
				least := num.Widen(d, 1)
				x.do[0] = 3 * least
				optest.Want(t, "a subnormal gradient", x.run(t, d).dv, 3*least)
			})
			weight := func(lse float32, d num.DType) *tensor.Tensor {
				x := given([]float32{0}, []float32{0})
				x.lse[0], x.do[0] = lse, 0x1p12
				return x.run(t, d).dv
			}
			optest.Want(t, "a subnormal weight in f16", weight(24, num.F16), 0x1p-12)
			optest.Want(t, "a weight below f16", weight(26, num.F16), 0)
			optest.Want(t, "the same in bf16", weight(26, num.BF16), 0x1p-14)
			optest.Want(t, "a weight that overflows f16", weight(-17, num.F16), inf)
			optest.Want(t, "a weight that overflows", weight(-200, num.F32), inf)
			x := given([]float32{0}, []float32{math.MaxFloat32})
			x.do[0] = 2
			r := x.run(t, num.F32)
			optest.Want(t, "a product that overflows", r.dk, inf)
		},
		"C11_batch": func(t *testing.T) {
			each(t, func(t *testing.T, d num.DType) {
				all := randomSlopes("batch", 1, 2, 8, []int{9, 1, 20}, []int{9, 133, 130})
				whole := all.run(t, d)
				alone := func(n int) derivatives { // the last queries of the last sequence
					x := slopes{inputs: inputs{g: 1, j: 2, d: 8, q: all.q[(30-n)*16:], k: all.k[142*8:], v: all.v[142*8:], qstart: []int32{0, int32(n)}, kstart: []int32{0, 130}, kappa: all.kappa}, do: all.do[(30-n)*16:]}
					return x.run(t, d)
				}
				for _, n := range []int{20, 7, 1} {
					sameTokens(t, "dq of the last queries", alone(n).dq, 0, whole.dq, 30-n, n)
				}
				last := alone(20)
				sameTokens(t, "dk of the last sequence", last.dk, 0, whole.dk, 142, 130)
				sameTokens(t, "dv of the last sequence", last.dv, 0, whole.dv, 142, 130)
				turned := slopes{inputs: inputs{g: 1, j: 2, d: 8, qstart: []int32{0, 20, 21, 30}, kstart: []int32{0, 130, 263, 272}, kappa: all.kappa}}
				turned.q = slices.Concat(all.q[10*16:], all.q[9*16:10*16], all.q[:9*16])
				turned.do = slices.Concat(all.do[10*16:], all.do[9*16:10*16], all.do[:9*16])
				turned.k, turned.v = slices.Concat(all.k[142*8:], all.k[9*8:142*8], all.k[:9*8]), slices.Concat(all.v[142*8:], all.v[9*8:142*8], all.v[:9*8])
				r := turned.run(t, d)
				sameTokens(t, "dq, turned", r.dq, 0, whole.dq, 10, 20)
				for _, pair := range [][2]*tensor.Tensor{{r.dk, whole.dk}, {r.dv, whole.dv}} {
					sameTokens(t, "the last sequence, turned", pair[0], 0, pair[1], 142, 130)
					sameTokens(t, "the first sequence, turned", pair[0], 263, pair[1], 0, 9)
				}
			})
		},
		"C12_overlap": func(t *testing.T) { optest.Errors(t, backward, shape(3, 5, 2, 2, 4, 1)) },
	})
}

func BenchmarkBackward(b *testing.B) {
	for _, d := range num.FloatDTypes {
		optest.Bench(b, optest.Timing{
			Name: "dtype=" + d.String() + "/shape=256x256x2x2x64", Subject: backward, DTypes: attention.BackwardDefinition.DTypes(d),
			Sizes: shape(256, 256, 2, 2, 64, 1), Check: shape(3, 9, 2, 2, 64, 1),
		})
	}
}
