package verify_test

import (
	"slices"
	"sync"
	"testing"

	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/layernorm"
	"tokitai/op/softmax"
	"tokitai/verify"
)

// TestShare checks that reports are the same whether targets share their work or not, for right
// kernels and for a wrong one after a right one.
func TestShare(t *testing.T) {
	t.Parallel()
	wrong := flipWhere(func(_ *engine.Launch, r, c int) bool { return r == 1 && c == 2 })
	made := func() []*verify.Target {
		return []*verify.Target{
			target(softmax.ForwardDefinition, num.F16, bitwise(honest)),
			target(softmax.ForwardDefinition, num.F16, bitwise(honest)),
			target(softmax.ForwardDefinition, num.F16, wrong),
			target(softmax.ForwardDefinition, num.F16, bounded(lanes16, softmaxOf(lanes(16)))),
			target(softmax.ForwardDefinition, num.BF16, bitwise(honest)),
			target(layernorm.BackwardDefinition, num.F32, bitwise(honest)),
			target(layernorm.BackwardDefinition, num.F32, bitwise(honest)),
		}[:testlevel.Pick(4, 7)]
	}
	shared, alone := made(), made()
	verify.Share(shared)
	var want []*evidence.Report
	for _, x := range alone {
		want = append(want, run(t, x, verify.Options{Seed: 1}).Report)
	}
	for range 2 { // again when nothing is kept any more
		for i, x := range shared {
			got := run(t, x, verify.Options{Seed: 1}).Report
			same(t, x.ID(), got, want[i])
			if isWrong := x.Lowering == wrong; isWrong != (got.Verdict == evidence.Rejected) {
				t.Errorf("target %d: %s: %s", i, got.Verdict, got.Reason)
			}
		}
	}
}

// TestLaunchesAreInOrder checks that every run makes the same calls of a kernel in the same order,
// however many are judged in parallel.
func TestLaunchesAreInOrder(t *testing.T) {
	t.Parallel()
	seen := func() (calls [][2]int) {
		var mu sync.Mutex
		run(t, target(softmax.ForwardDefinition, num.F16, bitwise(damaged(func(_ *engine.Launch, out []num.Array) {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, [2]int{out[0].Rows, out[0].Cols})
		}))), verify.Options{Seed: 1})
		return calls
	}
	if one, two := seen(), seen(); !slices.Equal(one, two) {
		t.Errorf("%d launches and %d launches differ", len(one), len(two))
	}
}
