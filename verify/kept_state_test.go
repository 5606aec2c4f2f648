package verify_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/op/softmax"
	"tokitai/verify"
)

// remembering returns a kernel with state, which begins anew when it is compiled. step is called with
// the right outputs, and may change them.
func remembering(newState func() (step func(l *engine.Launch, out []num.Array))) *engine.Lowering {
	k := bitwise(nil)
	k.Compile = func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
		var mu sync.Mutex
		step := newState()
		return engine.KernelFunc(func(l *engine.Launch) error {
			mu.Lock()
			defer mu.Unlock()
			out := answer(d, l)
			step(l, out)
			store(d, l, out, nil)
			return nil
		}), nil
	}
	return k
}

// cachesByShape returns the outputs of the first call of a shape again.
func cachesByShape() func(l *engine.Launch, out []num.Array) {
	known := map[string][]num.Array{}
	return func(_ *engine.Launch, out []num.Array) {
		key := ""
		for _, a := range out {
			key += fmt.Sprint(a.DType, a.Rows, a.Cols, " ")
		}
		last := len(out) - 1
		if known[key] == nil {
			known[key] = []num.Array{out[last].Clone()}
		}
		out[last] = known[key][0]
	}
}

// TestState checks that a kernel that keeps state is said to: with a replay that fails, or with the
// sequence of cases that fails.
func TestState(t *testing.T) {
	t.Parallel()
	afterLong := func() func(l *engine.Launch, out []num.Array) {
		wasLong := false
		return func(l *engine.Launch, out []num.Array) {
			if wasLong && out[0].Cols < 20 {
				addOne(l, out)
			}
			wasLong = wasLong || out[0].Cols > 40
		}
	}
	for _, test := range []struct {
		what     string
		d        *def.Definition
		newState func() func(l *engine.Launch, out []num.Array)
		check    string // of the replay; "" if no single case fails
	}{
		{"by shape", softmax.ForwardDefinition, cachesByShape, "late-change"},
		{"by shape, product", gemm.ForwardDefinition, cachesByShape, "late-change"},
		{"after a call of another size", softmax.ForwardDefinition, afterLong, ""},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			x := target(test.d, num.F32, remembering(test.newState))
			r := run(t, x, verify.Options{IsNamed: true, Seed: 1}).Report
			f := r.Failure
			if f == nil || !strings.HasPrefix(f.Note, "the kernel keeps state: case ") || f.When != "" {
				t.Fatalf("%s %s: %+v, want a note about state and no other condition", r.Verdict, r.Reason, f)
			}
			if test.check == "" {
				if !strings.Contains(f.Note, "the failing sequence is case ") || strings.Contains(f.Replay, "--case") {
					t.Errorf("note %q, replay %q, want a sequence and a replay of all cases", f.Note, f.Replay)
				}
				return
			}
			if !strings.HasPrefix(f.Case, test.check+":") || !strings.Contains(f.Replay, "--case '"+f.Case+"'") {
				t.Errorf("case %s, replay %q, want check %s", f.Case, f.Replay, test.check)
			}
			again := run(t, x, verify.Options{Case: f.Case, Seed: f.Seed}).Report
			if again.Failure == nil {
				t.Fatalf("%s passes when it is run again", f.Case)
			}
			if a, b := lines(f), lines(again.Failure); a != b {
				t.Errorf("the report has\n%s\nand the replay\n%s", a, b)
			}
		})
	}
}

// TestWhenHoldsForTheSmallestCase checks that no condition is printed beside a case that does not
// meet it: the kernel fails in long rows, and in short ones of lengths that no case of the level has.
func TestWhenHoldsForTheSmallestCase(t *testing.T) {
	t.Parallel()
	const long = 30
	known := map[int]bool{}
	x := target(softmax.ForwardDefinition, num.F32, bitwise(damaged(func(l *engine.Launch, out []num.Array) {
		if n := out[0].Cols; n > long || !known[n] {
			addOne(l, out)
		}
	})))
	for _, c := range verify.CasesOf(x, verify.Smoke) {
		for _, s := range c.Sizes {
			if s.Letter == "C" {
				known[s.N] = true
			}
		}
	}
	f := run(t, x, verify.Options{Seed: 1}).Report.Failure
	c, err := verify.ParseCase(x, f.Case)
	if err != nil {
		t.Fatal(err)
	}
	n := c.Sizes[1].N
	if n > long {
		t.Fatalf("the smallest case is %s, want at most %d columns", f.Case, long)
	}
	for _, found := range regexp.MustCompile(`C (>|≥) (\d+)`).FindAllStringSubmatch(f.When, -1) {
		if least, _ := strconv.Atoi(found[2]); n < least || n == least && found[1] == ">" {
			t.Errorf("case %s, when %s", f.Case, f.When)
		}
	}
}

// TestKindsAreListed checks that all kinds of failure are listed, with counts.
func TestKindsAreListed(t *testing.T) {
	t.Parallel()
	k := bitwise(damaged(func(l *engine.Launch, out []num.Array) {
		if out[0].Cols > 300 || &l.Operands[0].Data[0] == &l.Operands[1].Data[0] {
			addOne(l, out)
		}
	}))
	f := run(t, target(softmax.ForwardDefinition, num.F32, k), verify.Options{Seed: 1}).Report.Failure
	text := strings.Join(f.Kinds, "\n")
	for _, part := range []string{"bits: ", "relations: ", " failed, in ", "first in "} {
		if !strings.Contains(text, part) {
			t.Errorf("got\n%s\nwant %q in it", text, part)
		}
	}
}
