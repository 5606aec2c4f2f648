package verify_test

import (
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/softmax"
	"tokitai/promise"
	"tokitai/verify"
)

// listed is a backend that prefers the lowerings in it, in their order.
type listed []*engine.Lowering

func (listed) Kind() string                                   { return "listed" }
func (b listed) Preferred(*def.Definition) []*engine.Lowering { return b }
func (listed) OnDemand(*def.Definition) []*engine.Lowering    { return nil }

// TestIsFallback checks that calls run the first of several lowerings with the same rules. Policies
// choose lowerings with other rules, and one that the backend does not list must be named.
func TestIsFallback(t *testing.T) {
	t.Parallel()
	best, twin, bounded := &engine.Lowering{Name: "best"}, &engine.Lowering{Name: "twin"}, &engine.Lowering{Name: "bounded", Promise: engine.Promise{Name: promise.Stable}}
	b := listed{best, bounded, twin}
	for l, want := range map[*engine.Lowering]bool{best: false, bounded: false, twin: true, {Name: "own"}: false} {
		x := &verify.Target{Definition: softmax.ForwardDefinition, Lowering: l, Backend: b, DType: num.F16}
		if got := x.IsFallback(); got != want {
			t.Errorf("%s: IsFallback() = %t, want %t", l.Name, got, want)
		}
	}
}
