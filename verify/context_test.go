package verify_test

import (
	"context"
	"errors"
	"testing"

	"tokitai/num"
	"tokitai/op/all"
	"tokitai/reference"
	"tokitai/truth"
)

// TestJudgesEnd checks that reference and truth stop when their context ends, for every definition.
func TestJudgesEnd(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	seen := map[string]bool{}
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			seen[d.Form.String()] = true
			var operands []num.Array
			for i, dtype := range d.Formats()[0] {
				operands = append(operands, d.Operands[i].NewArray(dtype, map[string]int{"R": 2, "C": 2, "H": 2, "M": 2, "N": 2, "K": 2, "Q": 2, "V": 2, "D": 2}))
			}
			params := make([]float64, len(d.Params))
			if !d.Copies() { // which copies a row
				if err := reference.Run(d, operands, reference.Options{Params: params, Context: ended}); !errors.Is(err, context.Canceled) {
					t.Errorf("%s: the reference returns %v", d.Name, err)
				}
			}
			if _, err := truth.Enclose(d, operands, truth.Options{Params: params, Context: ended}); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: the truth returns %v", d.Name, err)
			}
		}
	}
	if len(seen) != 4 {
		t.Errorf("only kinds %v were tried", seen)
	}
}
