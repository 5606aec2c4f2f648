package verify_test

import (
	"context"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/promise"
	"tokitai/verify"
)

// TestEverythingIsUndecided checks that a kernel whose declaration admits all or nearly all values is
// neither rejected nor accepted.
func TestEverythingIsUndecided(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ definition, declared string }{
		{"softmax.forward", "exp=1e9ulp"}, {"softmax.forward", "exp=2ulp+1e300|x|"}, {"softmax.forward", "div=0.9"}, {"softmax.forward", "round(e)=e5m2"},
		{"gelu.forward", "tanh=0.9"}, {"gelu.forward", "exp=0.5ulp+1e30abs"}, {"layernorm.forward", "rsqrt=1e30ulp"},
	} {
		declares, _, err := promise.ParseDeclaration(c.declared)
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range verify.Targets(all.Operations, cpu.Backend) {
			if target.Definition.Name != c.definition || target.DType != num.F16 || target.Lowering.Name != "cpu.rowwise" {
				continue
			}
			l := *target.Lowering
			l.Promise.Name, l.Promise.Declares = promise.Stable, declares
			target.Lowering = &l
			r, err := verify.Run(context.Background(), target, verify.Options{Case: "normal/R=3,C=65", Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			if r.Report.Verdict != evidence.Undecided {
				t.Errorf("%s with %s: %s (%s), want undecided", c.definition, c.declared, r.Report.Verdict, r.Report.Reason)
			}
		}
	}
}
