package verify_test

import (
	"testing"

	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/promise"
	"tokitai/verify"
)

// TestParamsBelongTogether checks that a kernel that promises no bits is called with consistent
// parameters.
func TestParamsBelongTogether(t *testing.T) {
	t.Parallel()
	d := adamw.InPlaceDefinition
	target := &verify.Target{Operation: adamw.Operations[0], Definition: d, Lowering: &engine.Lowering{Promise: engine.Promise{Name: promise.Stable}}, DType: num.F32}
	distinct := map[float64]bool{}
	for n := 1; n <= 40; n++ {
		p := verify.ParamsOf(target, n)
		beta, rest := p[d.Param("beta1")], p[d.Param("one_minus_beta1")]
		if rest != 1-beta {
			t.Errorf("variation %d: beta1 is %v and one_minus_beta1 %v", n, beta, rest)
		}
		distinct[beta] = true
	}
	if len(distinct) < 3 {
		t.Errorf("got %d values of beta1, want more", len(distinct))
	}
}

// TestUnhashed checks that a verification without hashes gives the same report otherwise.
func TestUnhashed(t *testing.T) {
	t.Parallel()
	right := cpuTargets()[0]
	wrong := target(right.Definition, right.DType, bitwise(damaged(func(_ *engine.Launch, out []num.Array) {
		o := out[len(out)-1]
		o.SetBits(0, 0, o.Bits(0, 0)^1)
	})))
	for _, x := range []*verify.Target{right, wrong} {
		testUnhashed(t, x, x == wrong)
	}
}

func testUnhashed(t *testing.T, x *verify.Target, isWrong bool) {
	t.Helper()
	var reports [2]*evidence.Report
	for i := range reports {
		r, err := verify.Run(t.Context(), x, verify.Options{Level: verify.Smoke, Unhashed: i == 1})
		if err != nil {
			t.Fatal(err)
		}
		reports[i] = r.Report
	}
	with, without := reports[0], reports[1]
	if with.Verdict != without.Verdict || with.Reason != without.Reason || with.Cases != without.Cases || with.Elements != without.Elements || with.Mismatches != without.Mismatches {
		t.Errorf("with hashes: %s (%s), %d cases, %d of %d outputs wrong; without: %s (%s), %d, %d of %d", with.Verdict, with.Reason, with.Cases, with.Mismatches, with.Elements,
			without.Verdict, without.Reason, without.Cases, without.Mismatches, without.Elements)
	}
	if (with.Verdict == evidence.Rejected) != isWrong || with.Cases == 0 {
		t.Errorf("%s, %d cases; is wrong: %v", with.Verdict, with.Cases, isWrong)
	}
	for i, c := range with.CaseList {
		bare := without.CaseList[i]
		if c.InputsSHA256 == "" || c.OutputsSHA256 == "" || bare.InputsSHA256 != "" || bare.OutputsSHA256 != "" || c.Name != bare.Name {
			t.Fatalf("case %d: %+v with hashes, %+v without", i, c, bare)
		}
	}
}
