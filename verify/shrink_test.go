package verify_test

import (
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/op/softmax"
	"tokitai/verify"
)

// flipWhere flips the last bit of elements of the last output.
func flipWhere(is func(l *engine.Launch, r, c int) bool) *engine.Lowering {
	return bitwise(damaged(func(l *engine.Launch, out []num.Array) {
		a := out[len(out)-1]
		for r := range a.Rows {
			for c := range a.Cols {
				if is(l, r, c) {
					a.SetBits(r, c, a.Bits(r, c)^1)
				}
			}
		}
	}))
}

// TestShrink checks the smallest case that is found for each of several faults.
func TestShrink(t *testing.T) {
	t.Parallel()
	for i, test := range []struct {
		what string
		d    *def.Definition
		l    *engine.Lowering
		want string
	}{
		{"everything", softmax.ForwardDefinition, flipWhere(func(*engine.Launch, int, int) bool { return true }), "ones/R=1,C=1"},
		{"columns from 1000 on", softmax.ForwardDefinition, flipWhere(func(_ *engine.Launch, _, c int) bool { return c >= 1000 }), "ones/R=1,C=1001"},
		{"the last column of more than 512", softmax.ForwardDefinition, flipWhere(func(l *engine.Launch, _, c int) bool { return c >= 512 && c == l.Operands[0].Cols-1 }), "ones/R=1,C=513"},
		{"rows from 200 on", softmax.ForwardDefinition, flipWhere(func(_ *engine.Launch, r, _ int) bool { return r >= 200 }), "ones/R=201,C=1"},
		{"a second row", softmax.ForwardDefinition, flipWhere(func(_ *engine.Launch, r, _ int) bool { return r == 1 }), "ones/R=2,C=1"},
		{"rows apart", softmax.ForwardDefinition, flipWhere(func(l *engine.Launch, _, _ int) bool { return l.Operands[0].Stride > l.Operands[0].Cols }), "ones/R=2,C=1/gap="},
		{"in place", softmax.ForwardDefinition, flipWhere(func(l *engine.Launch, _, _ int) bool { return &l.Operands[0].Data[0] == &l.Operands[1].Data[0] }), "ones/R=1,C=1/y=x"},
		{"NaN becomes a number", softmax.ForwardDefinition, bitwise(damaged(func(_ *engine.Launch, out []num.Array) {
			for r := range out[1].Rows {
				if num.IsNaN(num.F16, out[1].Bits(r, 0)) {
					out[1].Set(r, 0, 0)
				}
			}
		})), "masked-rows/R=1@1,C=1"},
		{"outside y", softmax.ForwardDefinition, bitwise(func(d *def.Definition, l *engine.Launch) error {
			store(d, l, answer(d, l), nil)
			poke(l, 1, -1)
			return nil
		}), "ones/R=1,C=1"},
		{"one element not written", softmax.ForwardDefinition, bitwise(func(d *def.Definition, l *engine.Launch) error {
			store(d, l, answer(d, l), func(_, r, c int) bool { return r == 2 && c == 4 })
			return nil
		}), "ones/R=3,C=5"},
		{"a long sum", gemm.ForwardDefinition, flipWhere(func(l *engine.Launch, _, _ int) bool { return l.Operands[0].Cols > 64 }), "ones/M=1,K=65,N=1"},
		{"the second row of a split", softmax.ForwardDefinition, bitwise(damaged(func(l *engine.Launch, out []num.Array) {
			if out[0].Rows == 1 && out[0].At(0, 0) == 0.5 { // which no input is
				out[1].Set(0, 0, 0)
			}
		})), ""},
	} {
		if !isTried(i, 3) {
			continue
		}
		t.Run(test.what, func(t *testing.T) {
			x := target(test.d, num.F16, test.l)
			r := run(t, x, verify.Options{IsNamed: true, Seed: 1}).Report
			if test.want == "" {
				if r.Verdict != evidence.Accepted {
					t.Errorf("%s: %s", r.Verdict, r.Reason)
				}
				return
			}
			if r.Failure == nil || !strings.HasPrefix(r.Failure.Case, test.want) {
				t.Fatalf("%s %s: smallest case %+v, want %s", r.Verdict, r.Reason, r.Failure, test.want)
			}
			if !strings.HasSuffix(r.Failure.Replay, "--seed 1 --case '"+r.Failure.Case+"'") || r.Failure.Note != "" && r.Failure.Clause == "" {
				t.Errorf("replay %q, note %q", r.Failure.Replay, r.Failure.Note)
			}
			again := run(t, x, verify.Options{Case: r.Failure.Case, Seed: r.Failure.Seed}).Report
			if again.Failure == nil {
				t.Fatalf("%s passes when it is run again", r.Failure.Case)
			}
			a, b := r.Failure, again.Failure
			if a.Place != b.Place || a.Got != b.Got || a.Want != b.Want || a.Tier != b.Tier || a.Message != b.Message || a.Truth != b.Truth {
				t.Errorf("the replay gives\n%+v\nafter\n%+v", b, a)
			}
		})
	}
}

// TestShrinkKeepsPlaces checks that a fault that depends only on values is reduced to one element, at
// the place with these values.
func TestShrinkKeepsPlaces(t *testing.T) {
	t.Parallel()
	var chosen float32 // an element of the last rows of a large case, as no other is
	l := bitwise(damaged(func(_ *engine.Launch, out []num.Array) {
		if rows := out[0].Rows; rows > 250 && chosen == 0 {
			candidate, seen := out[0].At(rows-1, 0), 0
			for r := range rows {
				for c := range out[0].Cols {
					if out[0].At(r, c) == candidate {
						seen++
					}
				}
			}
			if seen == 1 && candidate-candidate == 0 && candidate != 0 {
				chosen = candidate
			}
		}
		for r := range out[0].Rows {
			for c := range out[0].Cols {
				if chosen != 0 && out[0].At(r, c) == chosen {
					out[1].SetBits(r, c, out[1].Bits(r, c)^1)
				}
			}
		}
	}))
	r := run(t, target(softmax.ForwardDefinition, num.F32, l), verify.Options{IsNamed: true, Seed: 1}).Report
	if r.Failure == nil || !strings.Contains(r.Failure.Case, "R=1@2") || !strings.HasSuffix(r.Failure.Case, "C=1") {
		t.Fatalf("%s: %+v, want one element of a later row", r.Verdict, r.Failure)
	}
	again := run(t, target(softmax.ForwardDefinition, num.F32, l), verify.Options{IsNamed: true, Seed: 1, Case: r.Failure.Case}).Report
	if again.Failure == nil || again.Failure.Place != r.Failure.Place || again.Failure.Inputs[0] != r.Failure.Inputs[0] {
		t.Errorf("the replay gives %+v, want %+v", again.Failure, r.Failure)
	}
}

// TestStateful checks that the failure of a kernel that fails after ten calls, which one call alone
// does not show, is reproduced by a check that makes many, and by the whole run.
func TestStateful(t *testing.T) {
	l := bitwise(honest)
	l.Compile = func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
		var calls atomic.Int64
		return engine.KernelFunc(func(l *engine.Launch) error {
			out := answer(d, l)
			if calls.Add(1) == 11 {
				out[1].SetBits(0, 0, out[1].Bits(0, 0)^1)
			}
			store(d, l, out, nil)
			return nil
		}), nil
	}
	x := target(softmax.ForwardDefinition, num.F16, l)
	first := run(t, x, verify.Options{IsNamed: true, Seed: 1}).Report
	if first.Failure == nil || first.Verdict != evidence.Rejected {
		t.Fatalf("%s %s", first.Verdict, first.Reason)
	}
	if want := "--seed 1 --level smoke --case '" + first.Failure.Case + "'"; !strings.HasSuffix(first.Failure.Replay, want) || !strings.HasPrefix(first.Failure.Note, "the kernel keeps state: case ") {
		t.Errorf("replay %q, note %q; want %s, and that the kernel keeps state", first.Failure.Replay, first.Failure.Note, want)
	}
	if alone := run(t, x, verify.Options{IsNamed: true, Seed: 1, Case: first.Failure.Case}).Report; alone.Verdict != evidence.Rejected {
		t.Errorf("%s alone: %s, want rejected", first.Failure.Case, alone.Verdict)
	}
	again := run(t, x, verify.Options{IsNamed: true, Seed: 1}).Report
	if !reflect.DeepEqual(again.Failure, first.Failure) {
		t.Errorf("the whole run again gives\n%+v\nafter\n%+v", again.Failure, first.Failure)
	}
}

// TestReplay checks that a failure has a replay command only if the command line can name the
// target.
func TestReplay(t *testing.T) {
	t.Parallel()
	wrong := flipWhere(func(*engine.Launch, int, int) bool { return true })
	own := target(softmax.ForwardDefinition, num.F16, wrong)
	if r := run(t, own, verify.Options{Seed: 1}); r.Report.Verdict != evidence.Rejected || r.Report.Failure.Replay != "" || r.Replay != "" {
		t.Errorf("a lowering of one's own is replayed by %q and %q, want nothing", r.Report.Failure.Replay, r.Replay)
	}
	shipped := target(softmax.ForwardDefinition, num.F16, engine.Lowerings(cpu.Backend, softmax.ForwardDefinition)[0])
	want := "tokitai verify softmax.forward --device cpu --lowering " + shipped.Lowering.Name + " --dtype f16 --seed 1 --level smoke"
	if r := run(t, shipped, verify.Options{Seed: 1}); r.Replay != want {
		t.Errorf("a shipped lowering is replayed by %q, want %q", r.Replay, want)
	}
}

// TestFailureShowsItsRow checks that a failure shows the inputs, the result and the answer around
// the wrong element.
func TestFailureShowsItsRow(t *testing.T) {
	t.Parallel()
	last := target(softmax.ForwardDefinition, num.F32, flipWhere(func(_ *engine.Launch, r, c int) bool { return r == 1 && c == 20 }))
	f := run(t, last, verify.Options{Seed: 1, Case: "ones/R=2,C=30"}).Report.Failure
	if f == nil || len(f.Row) != 3 {
		t.Fatalf("%+v", f)
	}
	for i, want := range []string{"x[1,16:24] = 1 1 1 1 [1] 1 1 1", "y[1,16:24] = 0.0333333 0.0333333 0.0333333 0.0333333 [", "y[1,16:24] = 0.0333333 0.0333333 0.0333333 0.0333333 [0.0333333] 0.0333333 0.0333333 0.0333333, want"} {
		if !strings.HasPrefix(f.Row[i], want) {
			t.Errorf("row %d is %q, want %q", i, f.Row[i], want)
		}
	}
	shown := run(t, target(gemm.ForwardDefinition, num.F16, bitwise(honest)), verify.Options{Seed: 1, Case: "ones/M=1,K=10,N=2"}).Shown
	want := []string{"A, input, f16, 1×10", "  0: 1 1 1 1 1 1 1 1 …", "B, input, f16, 10×2", "  0: 1 1", "  1: 1 1", "  2: 1 1", "  3: 1 1", "  …", "C, output, f16, 1×2", "  0: 10 10"}
	if !slices.Equal(shown, want) {
		t.Errorf("shown %q, want %q", shown, want)
	}
}

// TestNotes checks that a failure says whether all mismatches are departures from clauses, and
// whether two runs of the kernel were compared.
func TestNotes(t *testing.T) {
	t.Parallel()
	zero := func(is func(x float32) bool) *engine.Lowering { // where the answer is so
		return bitwise(damaged(func(_ *engine.Launch, out []num.Array) {
			for r := range out[1].Rows {
				for c := range out[1].Cols {
					if is(out[1].At(r, c)) {
						out[1].Set(r, c, 0)
					}
				}
			}
		}))
	}
	calls := 0
	other := bitwise(damaged(func(_ *engine.Launch, out []num.Array) {
		if calls++; calls == 3 {
			out[1].SetBits(0, 0, out[1].Bits(0, 0)^1)
		}
	}))
	for _, test := range []struct {
		what, name string
		l          *engine.Lowering
		want       string
	}{
		{"NaN", "special/R=5,C=33", zero(func(x float32) bool { return x != x }), "every mismatch is a difference from a clause of the contract, none is one of arithmetic; to leave them out: --waive softmax.forward.C"},
		{"NaN and numbers", "rarely-special/R=40,C=9", zero(func(x float32) bool { return x != x || x > 0.5 }), ""},
		{"another result", "repeat:normal/R=2,C=3", other, "got and want are both results of the kernel: check repeat runs it again"},
	} {
		f := run(t, target(softmax.ForwardDefinition, num.F16, test.l), verify.Options{Seed: 1, Case: test.name}).Report.Failure
		if f == nil || !strings.HasPrefix(f.Note, test.want) || test.want == "" && f.Note+f.Clause != "" {
			t.Errorf("%s: got %+v, want the note %q", test.what, f, test.want)
		}
	}
}
