package verify_test

import (
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/gelu"
	"tokitai/verify"
)

// TestProfilesAreNamed checks that a rejection says which profile admits the kernel, if one does, and
// that the kernel is indeed accepted then.
func TestProfilesAreNamed(t *testing.T) {
	t.Parallel()
	const note = `profile torch admits this: `
	for _, dtype := range testlevel.Pick([]num.DType{num.F32}, []num.DType{num.F16, num.F32}) {
		x := target(gelu.ForwardDefinition, dtype, stable(tanhGELU))
		r := run(t, x, verify.Options{Seed: 1}).Report
		if r.Verdict != evidence.Rejected || !strings.HasPrefix(r.Failure.Note, note) || !strings.Contains(r.Failure.Note, `--profile torch, in Python profile="torch"`) {
			t.Fatalf("%s: %s %s: %+v, want a note about profile torch", dtype, r.Verdict, r.Reason, r.Failure)
		}
		again := run(t, x, verify.Options{Seed: 1, Case: r.Failure.Case}).Report
		if again.Failure == nil || !strings.HasPrefix(again.Failure.Note, note) {
			t.Errorf("%s: the replay has %+v, want the same note", dtype, again.Failure)
		}
		terms, err := verify.ParseTerms("", "torch", "")
		if err != nil {
			t.Fatal(err)
		}
		held, err := terms.Hold(x)
		if err != nil {
			t.Fatal(err)
		}
		if r := run(t, target(gelu.ForwardDefinition, dtype, held), verify.Options{Seed: 1}).Report; r.Verdict != evidence.Accepted {
			t.Errorf("%s, with the profile: %s %s, want accepted", dtype, r.Verdict, r.Reason)
		}
	}
	wrong := target(gelu.ForwardDefinition, num.F32, stable(func(d *def.Definition, l *engine.Launch) error {
		err := tanhGELU(d, l)
		y := l.Arrays()[1]
		y.Set(0, 0, y.At(0, 0)+1)
		return err
	}))
	if f := run(t, wrong, verify.Options{Seed: 1}).Report.Failure; f == nil || strings.Contains(f.Note, "profile") {
		t.Errorf("a wrong kernel: %+v, want a failure without a word of profiles", f)
	}
}
