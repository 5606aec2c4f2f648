package verify_test

import (
	"context"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/softmax"
	"tokitai/verify"
)

// TestFirstFailure checks that a verification for one failure ends with it, and reports it as a
// verification of all cases does.
func TestFirstFailure(t *testing.T) {
	t.Parallel()
	lowering := bitwise(func(_ *def.Definition, l *engine.Launch) error { return nil }) // it writes nothing
	run := func(isFirstEnough bool) *evidence.Report {
		target := &verify.Target{Definition: softmax.ForwardDefinition, Lowering: lowering, DType: num.F16}
		r, err := verify.Run(context.Background(), target, verify.Options{FirstFailure: isFirstEnough})
		if err != nil {
			t.Fatal(err)
		}
		return r.Report
	}
	all, first := run(false), run(true)
	if first.Verdict != all.Verdict || all.Verdict != evidence.Rejected {
		t.Errorf("verdict: got %s, of all cases %s, want rejected", first.Verdict, all.Verdict)
	}
	if first.Cases != 1 || all.Cases < 10 {
		t.Errorf("cases: got %d, and %d without FirstFailure, want 1 and more than 10", first.Cases, all.Cases)
	}
	if first.Failure == nil || first.Failure.Case != first.CaseList[0].Name {
		t.Errorf("failure: got %+v, want that of the first case, not shrunk", first.Failure)
	}
}
