package verify_test

import (
	"context"
	"strings"
	"testing"

	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/softmax"
	"tokitai/verify"
)

// TestRestrictions checks that a kernel that is declared for some shapes alone meets these and no others, that
// its report says so, and that a failing case is made smaller among them.
func TestRestrictions(t *testing.T) {
	t.Parallel()
	only, err := verify.ParseRestrictions("C % 16 == 0 and R <= 4, C != 32")
	if err != nil {
		t.Fatal(err)
	}
	run := func(fails func(cols int) bool) *evidence.Report {
		t.Helper()
		lowering := bitwise(damaged(func(l *engine.Launch, out []num.Array) {
			if l.Cols%16 != 0 || l.Cols == 32 || l.Rows > 4 {
				t.Errorf("got %d rows of %d, want shapes of %v", l.Rows, l.Cols, only)
			}
			if fails(l.Cols) {
				out[1].SetBits(0, 0, out[1].Bits(0, 0)^1)
			}
		}))
		target := &verify.Target{Operation: softmax.Operations[0], Definition: softmax.ForwardDefinition, Lowering: lowering, DType: num.F16}
		r, err := verify.Run(context.Background(), target, verify.Options{Seed: 3, Restrict: only, Tool: "test", Version: "1"})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Report.Check(); err != nil {
			t.Error(err)
		}
		return r.Report
	}
	right := run(func(int) bool { return false })
	if right.Verdict != evidence.Accepted || right.Cases < 50 || !strings.Contains(right.LeftOut, "shapes other than C % 16 == 0 and R <= 4 and C != 32 were left out") {
		t.Errorf("got %s after %d cases, %q, want accepted after many, with a word about shapes", right.Verdict, right.Cases, right.LeftOut)
	}
	wrong := run(func(cols int) bool { return cols > 64 })
	if wrong.Verdict != evidence.Rejected || !strings.HasSuffix(wrong.Failure.Case, "R=1,C=80") {
		t.Errorf("got %s, %s, want rejected, and the smallest case with 80 columns", wrong.Verdict, wrong.Failure.Case)
	}
	for text, want := range map[string]string{
		"C % 0 == 1": "the divisor is 0", "C=5": "is no condition on a size", "": "is no condition on a size", "Q > 1": "there is no size Q", "C < 5 and C > 7": "no size C",
	} {
		list, err := verify.ParseRestrictions(text)
		if err == nil {
			err = (&verify.Target{Definition: softmax.ForwardDefinition}).CheckRestrictions(list)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
