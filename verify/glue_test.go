package verify_test

import (
	"context"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/gelu"
	"tokitai/verify"
)

// TestLostTile checks that a run whose tiles do not cover its outputs decides nothing.
func TestLostTile(t *testing.T) {
	target := &verify.Target{
		Operation: gelu.Operations[0], Definition: gelu.ForwardDefinition,
		Lowering: engine.Lowerings(cpu.Backend, gelu.ForwardDefinition)[0], DType: num.F16,
	}
	options := verify.Options{Seed: 1, Case: "normal/R=128,C=128"}
	defer verify.SetTileElements(1 << 12)() // four tiles
	for _, lost := range testlevel.Pick([]int{3}, []int{-1, 0, 2, 3}) {
		undo := verify.SetDivide(func(n int) bool { return n != lost })
		r, err := verify.Run(context.Background(), target, options)
		undo()
		if err != nil {
			t.Fatal(err)
		}
		want := evidence.Inadmissible
		if lost < 0 {
			want = evidence.Accepted
		}
		if r.Report.Verdict != want || lost >= 0 && !strings.Contains(r.Report.Reason, "cover") {
			t.Errorf("tile %d lost: %s, %q; want %s", lost, r.Report.Verdict, r.Report.Reason, want)
		}
	}
}
