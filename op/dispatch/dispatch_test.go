package dispatch

import (
	"slices"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/optest"
	"tokitai/tensor"
)

var forward = optest.Subject{
	Definition: ForwardDefinition, Data: Operations[0].Data,
	Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
		return Forward(q, x[1], x[2], x[3], x[4], x[5], x[0], opts...)
	},
}

func size(t, s, e int) map[string]int { return map[string]int{"T": t, "S": s, "E": e} }

func TestDoc(t *testing.T) { optest.Doc(t, "doc.go", ForwardDefinition) }

func TestMatchReference(t *testing.T) {
	optest.MatchReference(t, forward, size(40, 4, 7), size(1, 1, 1), size(300, 2, 256), size(3, 16, 16))
}

func TestErrors(t *testing.T) { optest.Errors(t, forward, size(3, 2, 4)) }

// rows holds the results of a call.
type rows struct{ counts, offsets, source, slot, place []int32 }

// run dispatches tokens.
func run(t testing.TB, tokens, experts int, expert []int32, opts ...engine.CallOption) rows {
	t.Helper()
	choices := len(expert) / tokens
	x, err := tensor.FromInt32(cpu.Queue().Device(), expert, tokens, choices)
	optest.OK(t, err)
	out := []*tensor.Tensor{x, optest.Garbage(t, num.I32, experts), optest.Garbage(t, num.I32, experts+1)}
	for range 3 {
		out = append(out, optest.Garbage(t, num.I32, tokens, choices))
	}
	optest.OK(t, forward.Call(cpu.Queue(), out, opts...))
	var lists [][]int32
	for _, o := range out[1:] {
		values, err := o.Int32s()
		optest.OK(t, err)
		lists = append(lists, values)
	}
	return rows{lists[0], lists[1], lists[2], lists[3], lists[4]}
}

func want(t testing.TB, what string, got []int32, want ...int32) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func random(g *gen.Generator, n, experts int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(g.Below(experts))
	}
	return list
}

func TestForward(t *testing.T) {
	optest.Clauses(t, ForwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, forward, size(6, 3, 4)) },
		"C2_order": func(t *testing.T) {
			r := run(t, 3, 3, []int32{2, 0, 0, 2, 2, 1})
			want(t, "counts", r.counts, 2, 1, 3)
			want(t, "offsets", r.offsets, 0, 2, 3, 6)
			want(t, "source", r.source, 0, 1, 2, 0, 1, 2)
			want(t, "slot", r.slot, 1, 2, 5, 0, 3, 4)
			want(t, "place", r.place, 3, 0, 1, 4, 5, 2)
		},
		"C3_every_row_once": func(t *testing.T) {
			g := gen.New("rows")
			const tokens, choices, experts = 200, 4, 32
			expert := random(g, tokens*choices, experts)
			r := run(t, tokens, experts, expert)
			for i, p := range r.place {
				if int(r.slot[p]) != i || int(r.source[p]) != i/choices {
					t.Fatalf("choice %d is in row %d, which is choice %d of token %d", i, p, r.slot[p], r.source[p])
				}
				if e := expert[i]; p < r.offsets[e] || p >= r.offsets[e+1] {
					t.Fatalf("row %d of expert %d is not in [%d,%d)", p, e, r.offsets[e], r.offsets[e+1])
				}
			}
		},
		"C4_often_and_never": func(t *testing.T) {
			r := run(t, 2, 3, []int32{1, 1, 1, 1})
			want(t, "counts", r.counts, 0, 4, 0)
			want(t, "offsets", r.offsets, 0, 0, 4, 4)
			want(t, "slot", r.slot, 0, 1, 2, 3)
			r = run(t, 2, 1, []int32{0, 0})
			want(t, "counts of one expert", r.counts, 2)
			r = run(t, 1, 3, []int32{2, 0, 1})
			want(t, "places of all experts", r.place, 2, 0, 1)
		},
		"C5_bad_expert": func(t *testing.T) {
			x := optest.Ints(t, 0, 2)
			view, err := x.Reshape(2, 1)
			optest.OK(t, err)
			out := []*tensor.Tensor{view, optest.Garbage(t, num.I32, 2), optest.Garbage(t, num.I32, 3), optest.Garbage(t, num.I32, 2, 1), optest.Garbage(t, num.I32, 2, 1), optest.Garbage(t, num.I32, 2, 1)}
			before := optest.Bits(t, out[5])
			if err := forward.Call(cpu.Queue(), out); err == nil || err.Error() != "dispatch.forward: expert[1,0] is 2, want 0 to 1" {
				t.Errorf("a bad expert: got %v", err)
			}
			optest.WantBits(t, "after a refusal", out[5], before...)
			r := run(t, 3, 2, []int32{-1, 1, 2, 0, 1, 1 << 30}, engine.WithBadIndex(engine.Skip))
			want(t, "counts", r.counts, 1, 2)
			want(t, "offsets", r.offsets, 0, 1, 3)
			want(t, "source", r.source, 1, 0, 2, -1, -1, -1)
			want(t, "slot", r.slot, 3, 1, 4, -1, -1, -1)
			want(t, "place", r.place, -1, 1, -1, 0, 2, -1)
		},
		"C6_overlap": TestErrors,
	})
}

// TestPermutedTokens reverses the tokens: experts keep their counts, and their rows are those of the
// same tokens, in the other order.
func TestPermutedTokens(t *testing.T) {
	g := gen.New("permuted")
	const tokens, experts = 300, 17
	expert := random(g, tokens, experts)
	r := run(t, tokens, experts, expert)
	slices.Reverse(expert)
	z := run(t, tokens, experts, expert)
	want(t, "counts", z.counts, r.counts...)
	want(t, "offsets", z.offsets, r.offsets...)
	for e := range experts {
		list := slices.Clone(z.source[z.offsets[e]:z.offsets[e+1]])
		slices.Reverse(list)
		for i := range list {
			list[i] = tokens - 1 - list[i]
		}
		want(t, "the tokens of an expert", list, r.source[r.offsets[e]:r.offsets[e+1]]...)
	}
}

// TestFewTokens dispatches one token, and none.
func TestFewTokens(t *testing.T) {
	r := run(t, 1, 4, []int32{3, 3})
	want(t, "counts of one token", r.counts, 0, 0, 0, 2)
	want(t, "its places", r.place, 0, 1)
	out := []*tensor.Tensor{optest.Garbage(t, num.I32, 0, 2), optest.Garbage(t, num.I32, 3), optest.Garbage(t, num.I32, 4)}
	for range 3 {
		out = append(out, optest.Garbage(t, num.I32, 0, 2))
	}
	optest.OK(t, forward.Call(cpu.Queue(), out))
	optest.WantBits(t, "counts of no token", out[1], 0, 0, 0)
	optest.WantBits(t, "their offsets", out[2], 0, 0, 0, 0)
}

// TestMoreTokens appends tokens: an expert's rows begin with the same tokens.
func TestMoreTokens(t *testing.T) {
	g := gen.New("more")
	const experts = 9
	expert := random(g, 200, experts)
	few, all := run(t, 120, experts, expert[:120]), run(t, 200, experts, expert)
	for e := range experts {
		begin := few.source[few.offsets[e]:few.offsets[e+1]]
		want(t, "the first tokens of an expert", all.source[all.offsets[e]:][:len(begin)], begin...)
	}
}
