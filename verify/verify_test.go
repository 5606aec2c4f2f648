package verify

import (
	"context"
	"os"
	"testing"

	"tokitai/op/all"
)

func TestAllSmoke(t *testing.T) {
	for _, target := range Targets(all.Operations, "cpu") {
		if target.Lowering.Name == "cpu.reference" {
			continue
		}
		r, err := Run(context.Background(), target, Options{Level: testLevel(), Seed: 1, Tool: "test", Version: "0"})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s %s cases=%d elements=%d %s %s %.2fs tiers=%v", target.ID(), target.DType, r.Report.Cases, r.Report.Elements, r.Report.Verdict, r.Report.Reason, r.Report.Seconds, r.Report.Tiers)
		if r.Report.Verdict != "accepted" {
			t.Errorf("%+v", r.Report.Failure)
		}
		if err := r.Report.Check(); err != nil {
			t.Error(err)
		}
	}
}

func testLevel() Level {
	l, err := ParseLevel(os.Getenv("TOKITAI_LEVEL"))
	if err != nil {
		return Smoke
	}
	return l
}
