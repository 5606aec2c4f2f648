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

var decode = optest.Subject{
	Definition: attention.DecodeDefinition, Data: attention.Operations[2].Data, Params: attention.Operations[0].Data[0].Params,
	Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
		return attention.Decode(q, x[6], x[7], x[0], x[1], x[2], attention.Pages{x[3], x[4], x[5]}, attention.Operations[0].Data[0].Params[0], opts...)
	},
}

func pagedShape(t, p, n, m, g, j, d, b int) map[string]int {
	return map[string]int{"T": t, "P": p, "N": n, "M": m, "G": g, "J": j, "D": d, "B": b}
}

func TestMatchReferenceDecode(t *testing.T) {
	optest.MatchReference(t, decode, pagedShape(7, 5, 16, 3, 2, 3, 9, 3), pagedShape(1, 1, 16, 1, 1, 1, 1, 1), pagedShape(3, 2, 64, 3, 1, 2, 32, 2), pagedShape(1, 3, 256, 5, 1, 1, 5, 1))
}

// paged are the inputs of attention in pages of a size. Page p of sequence b is pages[b][p]; what no
// sequence has is NaN.
type paged struct {
	inputs
	page  int
	klen  []int32
	pages [][]int32
}

// inPages puts the keys of sequences into pages, in an order of their own.
func (x inputs) inPages(page int) paged {
	y := paged{inputs: x, page: page}
	order, most := gen.New("pages"), 1
	for b := range x.kstart[1:] {
		y.klen = append(y.klen, x.kstart[b+1]-x.kstart[b])
		most = max(most, (int(y.klen[b])+page-1)/page)
	}
	var free []int32
	for i := range most*len(y.klen) + 1 {
		free = append(free, int32(i))
	}
	for i := range free {
		k := i + order.Below(len(free)-i)
		free[i], free[k] = free[k], free[i]
	}
	width := x.g * x.d
	y.k, y.v = slices.Repeat([]float32{nan}, len(free)*page*width), slices.Repeat([]float32{nan}, len(free)*page*width)
	for b, n := range y.klen {
		list := slices.Repeat([]int32{math.MinInt32}, most)
		for i := range int(n) {
			if i%page == 0 {
				list[i/page], free = free[0], free[1:]
			}
			at, from := (int(list[i/page])*page+i%page)*width, (int(x.kstart[b])+i)*width
			copy(y.k[at:][:width], x.k[from:])
			copy(y.v[at:][:width], x.v[from:])
		}
		y.pages = append(y.pages, list)
	}
	return y
}

func (x *paged) run(t testing.TB, d num.DType) results {
	t.Helper()
	r, err := x.try(t, d)
	optest.OK(t, err)
	return r
}

func (x *paged) try(t testing.TB, d num.DType) (results, error) {
	t.Helper()
	tokens, count := len(x.q)/(x.g*x.j*x.d), len(x.k)/(x.page*x.g*x.d)
	from := func(values []float32, shape ...int) *tensor.Tensor {
		y, err := tensor.FromFloat32(cpu.Queue().Device(), d, values, shape...)
		optest.OK(t, err)
		return y
	}
	table, err := tensor.FromInt32(cpu.Queue().Device(), slices.Concat(x.pages...), len(x.pages), len(x.pages[0]))
	optest.OK(t, err)
	r := results{optest.Garbage(t, d, tokens, x.g, x.j, x.d), optest.Garbage(t, num.F32, tokens, x.g, x.j)}
	return r, attention.Decode(cpu.Queue(), r.o, r.lse, from(x.q, tokens, x.g, x.j, x.d), from(x.k, count, x.page, x.g, x.d), from(x.v, count, x.page, x.g, x.d),
		attention.Pages{optest.Ints(t, x.qstart...), optest.Ints(t, x.klen...), table}, x.kappa)
}

// TestDecode holds attention to keys in pages to attention.forward with the same keys one behind the other.
func TestDecode(t *testing.T) {
	each := func(t *testing.T, test func(t *testing.T, d num.DType)) {
		for _, d := range num.FloatDTypes {
			test(t, d)
		}
	}
	// same compares with attention.forward, to the bit.
	same := func(t *testing.T, what string, d num.DType, x inputs) {
		t.Helper()
		want := x.run(t, d)
		for _, page := range []int{16, 64, 256} {
			y := x.inPages(page)
			sameRows(t, what, y.run(t, d), 0, want, 0, len(x.q)/(x.g*x.j*x.d))
		}
	}
	optest.Clauses(t, attention.DecodeDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) {
			each(t, func(t *testing.T, d num.DType) { same(t, "groups", d, random("groups", 2, 3, 8, []int{4}, []int{9})) })
			optest.Shapes(t, decode, pagedShape(6, 3, 16, 2, 1, 2, 3, 2))
			for _, page := range []int{8, 24, 512} {
				x := random("short pages", 1, 1, 2, []int{1}, []int{5}).inPages(page)
				if _, err := x.try(t, num.F16); err == nil {
					t.Errorf("pages of %d are accepted", page)
				}
			}
		},
		"C2_places": func(t *testing.T) {
			each(t, func(t *testing.T, d num.DType) {
				same(t, "sequences", d, random("places", 1, 2, 8, []int{9, 1, 16, 0}, []int{9, 133, 257, 3}))
				x := row(make([]float32, 18), make([]float32, 18)) // equal scores: the mean
				x.v[1], x.v[17] = 9, 27
				y := x.inPages(16)
				optest.Want(t, "o", y.run(t, d).o, 2)
			})
		},
		"C3_tables": func(t *testing.T) {
			x := random("tables", 1, 1, 2, []int{2, 1}, []int{17, 3}).inPages(16)
			x.run(t, num.F16) // with an entry that is not read, and is no page
			for what, change := range map[string]func(y *paged){
				"a length below zero":     func(y *paged) { y.klen[1] = -1 },
				"a length of three pages": func(y *paged) { y.klen[0] = 33 },
				"a page below zero":       func(y *paged) { y.pages[0][1] = -1 },
				"a page too large":        func(y *paged) { y.pages[1][0] = int32(len(y.k) / 32) },
				"offsets that descend":    func(y *paged) { y.qstart = []int32{0, 3, 2} },
			} {
				y := x
				y.klen, y.pages = slices.Clone(x.klen), [][]int32{slices.Clone(x.pages[0]), slices.Clone(x.pages[1])}
				change(&y)
				r, err := y.try(t, num.F16)
				if err == nil {
					t.Errorf("%s is accepted", what)
				}
				optest.SameBits(t, what, r.o, optest.Garbage(t, num.F16, 3, 1, 1, 2))
			}
			shared := random("tables", 1, 1, 2, []int{1}, []int{17}).inPages(16)
			alone := shared.run(t, num.F16)
			shared.q, shared.qstart = slices.Repeat(shared.q, 2), []int32{0, 1, 2}
			shared.klen, shared.pages = []int32{17, 17}, [][]int32{shared.pages[0], shared.pages[0]}
			both := shared.run(t, num.F16)
			sameRows(t, "a shared page", both, 0, alone, 0, 1)
			sameRows(t, "a shared page", both, 1, alone, 0, 1)
		},
		"C4_order": func(t *testing.T) {
			each(t, func(t *testing.T, d num.DType) {
				same(t, "two segments", d, random("segments", 1, 1, 4, []int{2}, []int{1100}))
			})
		},
		"C5_nothing": func(t *testing.T) {
			each(t, func(t *testing.T, d num.DType) {
				x := random("nothing", 1, 1, 2, []int{2, 1}, []int{1, 0}).inPages(16)
				r := x.run(t, d)
				wantPart(t, "a query before the first key", r.o, 0, 0, 0)
				wantPart(t, "a sequence without keys", r.o, 4, 0, 0)
				wantPart(t, "lse", r.lse, 2, -inf)
				y := row([]float32{-inf, -inf}, []float32{nan, inf}).inPages(16)
				optest.Want(t, "all -Inf", y.run(t, d).o, 0)
			})
		},
		"C6_exponents": func(t *testing.T) {
			each(t, func(t *testing.T, d num.DType) {
				for _, bad := range []float32{nan, inf} {
					x := row([]float32{1, bad, 2}, []float32{1, 2, 3}).inPages(16)
					r := x.run(t, d)
					optest.Want(t, "o", r.o, nan)
					optest.Want(t, "lse", r.lse, nan)
				}
				x := row([]float32{-inf, 1}, []float32{4, 2}).inPages(16)
				optest.Want(t, "-Inf", x.run(t, d).o, 2)
			})
		},
		"C7_values": func(t *testing.T) {
			each(t, func(t *testing.T, d num.DType) {
				for _, test := range []struct{ scores, values []float32 }{
					{[]float32{1, 1}, []float32{nan, 1}}, {[]float32{1, 1}, []float32{inf, -inf}}, {[]float32{-inf, 1}, []float32{inf, 1}},
				} {
					x := row(test.scores, test.values).inPages(16)
					optest.Want(t, "o", x.run(t, d).o, nan)
				}
				x := row([]float32{1, 1}, []float32{inf, 1}).inPages(16)
				optest.Want(t, "infinite", x.run(t, d).o, inf)
			})
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
					z := y.inPages(16) // what no sequence has is NaN
					r := z.run(t, d)
					sameRows(t, "first sequence", r, 0, clean, 0, 5)
					sameRows(t, "second sequence", r, 6, clean, 6, 4)
				}
			})
		},
		"C9_range": func(t *testing.T) {
			each(t, func(t *testing.T, d num.DType) {
				least := num.Widen(d, 1)
				x := row([]float32{0, 0}, []float32{4 * least, 2 * least}).inPages(16)
				optest.Want(t, "subnormal values", x.run(t, d).o, 3*least)
			})
			for _, test := range []struct {
				score float32
				d     num.DType
				want  float32
			}{{-24, num.F16, 0x1p-10}, {-26, num.F16, 0}, {-26, num.BF16, 0x1p-12}} {
				x := row([]float32{test.score, 0}, []float32{0x1p14, 0}).inPages(16)
				optest.Want(t, "a small weight", x.run(t, test.d).o, test.want)
			}
			x := row([]float32{0, 0}, []float32{math.MaxFloat32, math.MaxFloat32}).inPages(16)
			optest.Want(t, "a sum that overflows", x.run(t, num.F32).o, inf)
		},
		"C10_batch": func(t *testing.T) {
			each(t, func(t *testing.T, d num.DType) {
				all := random("batch", 1, 2, 8, []int{9, 1, 16}, []int{9, 133, 130})
				whole := all.run(t, d)
				for _, n := range []int{16, 7, 1} { // the last queries of the last sequence
					alone := inputs{g: 1, j: 2, d: 8, q: all.q[(26-n)*16:], k: all.k[142*8:], v: all.v[142*8:], qstart: []int32{0, int32(n)}, kstart: []int32{0, 130}, kappa: all.kappa}
					x := alone.inPages(32)
					sameRows(t, "the last sequence alone", x.run(t, d), 0, whole, 26-n, n)
				}
			})
		},
		"C11_overlap": func(t *testing.T) { optest.Errors(t, decode, pagedShape(3, 4, 16, 2, 2, 2, 4, 2)) },
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, d := range num.FloatDTypes {
		optest.Bench(b, optest.Timing{
			Name: "dtype=" + d.String() + "/shape=8x512x2x2x64", Subject: decode, DTypes: attention.DecodeDefinition.DTypes(d),
			Sizes: pagedShape(8, 64, 64, 8, 2, 2, 64, 8), Check: pagedShape(3, 2, 16, 2, 2, 2, 64, 1),
		})
	}
}
