package verify_test

import (
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/all"
	softmaxop "tokitai/op/softmax"
	"tokitai/promise"
	"tokitai/verify"
)

// What a report says was declared can be declared: the text is read, written back the same, and
// means the same errors of functions.
func TestDeclaredIsReadable(t *testing.T) {
	orders := []def.Order{{}, def.Sequential, {Kind: def.Lanes, Width: 16}, {Kind: def.Chunks, Width: 32}, {Kind: def.Pairwise}, {Kind: def.Height, Width: 40}}
	for n, o := range all.Operations {
		for _, d := range o.Definitions {
			for k, declares := range []promise.Declaration{
				{},
				{Profile: "torch"},
				{Functions: map[string]promise.Error{"exp": {ULPs: 2, ULPsPerX: 1.16}}, FlushesSubnormals: true, RawParams: true},
				{Profile: "cuda-fast-math", Omits: []string{d.Operands[len(d.Operands)-1].Name}},
			} {
				for _, p := range []promise.Name{promise.Ordered, promise.Stable} {
					l := &engine.Lowering{IsBounded: true, Promise: p, Declares: declares, Order: orders[(n+k)%len(orders)], FunctionULP: float64(k + 1)}
					text := verify.DeclaredBy(&verify.Target{Operation: o, Definition: d, Lowering: l, DType: num.F32})
					read, order, err := promise.ParseDeclaration(text)
					if err != nil {
						t.Errorf("%s %s: %q: %v", d, p, text, err)
						continue
					}
					if again := promise.Format(read, order); again != text {
						t.Errorf("%s %s: %q is written back as %q", d, p, text, again)
					}
					for f, e := range read.Functions {
						if _, isDeclared := declares.Functions[f]; !isDeclared && e.ULPs < l.FunctionULP {
							t.Errorf("%s %s: %q, but functions have %g ulps", d, p, text, l.FunctionULP)
						}
					}
				}
			}
		}
	}
	one := &verify.Target{Definition: softmaxop.ForwardDefinition, Lowering: &engine.Lowering{IsBounded: true, Promise: promise.Ordered, FunctionULP: 2}, DType: num.F32}
	if got, want := verify.DeclaredBy(one), "exp=2ulp"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
