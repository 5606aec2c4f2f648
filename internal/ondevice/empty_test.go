package ondevice

import (
	"slices"
	"testing"

	"tokitai/backend/gputest"
	"tokitai/op/all"
	"tokitai/op/optest"
)

// TestNoRows calls definitions with a batch of no rows: nothing is launched for rows, and sums are what
// the reference gives for no terms. The simulator takes one definition of
// every kind.
func TestNoRows(t *testing.T) {
	q := newQueue(t, gputest.Needs(t))
	few := []string{"gelu.forward", "cache.append", "rmsnorm.backward", "norm.square_sum", "embedding.backward", "dispatch.forward"}
	sums := 0
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if isSimulated() && !slices.Contains(few, d.Name) {
				continue
			}
			wrote, err := optest.WithoutRows(q, d)
			if err != nil {
				t.Errorf("%s: %v", d.Name, err)
			}
			sums += wrote
		}
	}
	if sums == 0 {
		t.Error("no definition has sums to write")
	}
}
