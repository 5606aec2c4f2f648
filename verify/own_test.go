package verify_test

import (
	"context"
	"testing"

	"tokitai/evidence"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/promise"
	"tokitai/verify"
)

// TestOwnFormIsStable checks that a kernel with the reference's bits is honest under promise stable.
func TestOwnFormIsStable(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, x := range cpuTargets() {
		isOne := x.Definition == adamw.InPlaceDefinition && x.DType == num.F32 // whose weights may cancel
		key := x.Definition.Name + x.DType.String()
		if seen[key] || !testlevel.Pick(isOne, x.DType == num.F32 || x.DType.IsFP8(), true) {
			continue
		}
		seen[key] = true
		l := *x.Lowering
		l.Name, l.Promise.Name = "own", promise.Stable
		target := &verify.Target{Operation: x.Operation, Definition: x.Definition, Lowering: &l, DType: x.DType}
		result, err := verify.Run(context.Background(), target, verify.Options{Level: verify.Smoke, Seed: 1, Tool: "test", Version: "1"})
		if err != nil {
			t.Fatal(err)
		}
		if r := result.Report; r.Verdict == evidence.Rejected {
			t.Errorf("%s %s: %s, %+v", x.Definition.Name, x.DType, r.Verdict, r.Failure)
		}
	}
	if len(seen) == 0 {
		t.Error("nothing was verified")
	}
}
