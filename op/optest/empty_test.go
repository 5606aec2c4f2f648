package optest_test

import (
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/op/all"
	"tokitai/op/optest"
)

// TestNoRows calls every definition with a batch of no rows: outputs have no rows either, sums are what
// the reference gives for no terms, and what is continued keeps its bits. Where there are sums, every
// lowering is called.
func TestNoRows(t *testing.T) {
	q := cpu.Queue()
	sums := 0
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			for _, l := range engine.Lowerings(cpu.Backend, d) {
				wrote, err := optest.WithoutRows(q, d, engine.WithLowering(l.Name))
				if err != nil {
					t.Errorf("%s by %s: %v", d.Name, l.Name, err)
				}
				if wrote == 0 {
					break
				}
				sums++
			}
		}
	}
	if sums == 0 {
		t.Error("no definition has sums to write")
	}
}
