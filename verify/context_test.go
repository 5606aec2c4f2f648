package verify_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
	"tokitai/reference"
	"tokitai/trial/randdef"
	"tokitai/truth"
)

// TestJudgesEnd checks that reference and truth stop when their context ends, for every definition.
func TestJudgesEnd(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	seen := map[string]bool{}
	operations := append(slices.Clone(all.Operations), &op.Operation{Definitions: []*def.Definition{randdef.Stream(gen.New("ended")), randdef.StreamBackward(gen.New("ended"))}})
	for _, o := range operations {
		for _, d := range o.Definitions {
			seen[d.Form.String()] = true
			var operands []num.Array
			for i, dtype := range d.Formats()[0] {
				// A page of a cache has at least 16 positions.
				operands = append(operands, d.Operands[i].NewArray(dtype, map[string]int{"R": 2, "C": 2, "H": 2, "M": 2, "N": 16, "K": 2, "Q": 2, "V": 2, "D": 2, "P": 2, "T": 2, "S": 2, "E": 2, "G": 2, "J": 2, "B": 1}))
				if d.Operands[i].IsOffsets {
					operands[i].SetBits(operands[i].Rows-1, 0, 2)
				}
			}
			if _, isSort := d.Form.(*def.Sort); isSort {
				continue // which takes a moment
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
	if len(seen) != len(def.Forms()) {
		t.Errorf("only kinds %v were tried", seen)
	}
}
