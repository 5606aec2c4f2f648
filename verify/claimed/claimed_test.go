package claimed_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/evidence"
	"tokitai/fn"
	"tokitai/op"
	"tokitai/verify"
)

// TestClaims verifies definitions with functions of their own. The error that they claim for a
// function is tested and reported.
func TestClaims(t *testing.T) {
	t.Parallel()
	const text = `tokitai-def 1
rowwise claims
in x[R,C] f32
out y[R,C] as x
y <- quadratic(x)
function quadratic(x): exp within 3 ulp for LIMITS
return fma(fma(0.5, x, 1), x, 1)
`
	for _, test := range []struct {
		name, limits string
		verdict      evidence.Verdict
		want         string
	}{
		{"one that holds", "-1e-3 <= x <= 1e-3", evidence.Accepted, "that is a test and not a proof"},
		{"one that does not", "-0.1 <= x <= 0.1", evidence.Inadmissible, "ulp off at x = "},
		{"one of nothing", "no x", evidence.Accepted, "nothing was tried there"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, err := def.Parse(strings.ReplaceAll(text, "LIMITS", test.limits), fn.All...)
			if err != nil {
				t.Fatal(err)
			}
			target := verify.Targets([]*op.Operation{op.Of(d, "claims.def")}, cpu.Backend)[0]
			r, err := verify.Run(context.Background(), target, verify.Options{Level: verify.Smoke})
			if err != nil {
				t.Fatal(err)
			}
			if r.Report.Verdict != test.verdict {
				t.Errorf("got %s (%s), want %s", r.Report.Verdict, r.Report.Reason, test.verdict)
			}
			if !slices.ContainsFunc(r.Report.NonClaims, func(s string) bool { return strings.Contains(s, test.want) }) {
				t.Errorf("no statement has %q: %q", test.want, r.Report.NonClaims)
			}
			if !strings.HasPrefix(r.Replay, "tokitai verify /") || !strings.Contains(r.Replay, "/claims.def --device") {
				t.Errorf("the replay is %q", r.Replay)
			}
		})
	}
	for _, f := range fn.All {
		own := *f
		if own.ULPs *= 2; fn.IsProven(&own) || !fn.IsProven(f) {
			t.Errorf("%s: a bound of somebody else's counts as proven", f.Name)
		}
	}
}
