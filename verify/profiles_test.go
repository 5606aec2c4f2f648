package verify_test

import (
	"math"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/gelu"
	"tokitai/verify"
)

// libraryGELU is GELU as PyTorch computes it: 1 + tanh cancels where x is negative.
func libraryGELU(_ *def.Definition, l *engine.Launch) error {
	x, y := l.Arrays()[0], l.Arrays()[1]
	for r := range x.Rows {
		for c := range x.Cols {
			v := x.At(r, c)
			inner := float32(0.7978845608028654) * (v + 0.044715*v*v*v)
			y.Set(r, c, 0.5*v*(1+float32(math.Tanh(float64(inner)))))
		}
	}
	return nil
}

// TestProfilesAreNamed checks that a rejection says which profile admits the kernel, if one does, and
// that the kernel is indeed accepted then.
func TestProfilesAreNamed(t *testing.T) {
	t.Parallel()
	const note = `profile torch admits this: `
	for _, dtype := range []num.DType{num.F16, num.F32} {
		x := target(gelu.ForwardDefinition, dtype, stable(libraryGELU))
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
		err := libraryGELU(d, l)
		y := l.Arrays()[1]
		y.Set(0, 0, y.At(0, 0)+1)
		return err
	}))
	if f := run(t, wrong, verify.Options{Seed: 1}).Report.Failure; f == nil || strings.Contains(f.Note, "profile") {
		t.Errorf("a wrong kernel: %+v, want a failure without a word of profiles", f)
	}
}
