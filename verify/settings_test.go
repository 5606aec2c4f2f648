package verify_test

import (
	"testing"

	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/verify"
)

// A kernel that promises no bits is called with parameters that belong together.
func TestParamsBelongTogether(t *testing.T) {
	d := adamw.InPlaceDefinition
	target := &verify.Target{Operation: adamw.Operations[0], Definition: d, Lowering: &engine.Lowering{IsBounded: true}, DType: num.F32}
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
