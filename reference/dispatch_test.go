package reference_test

import (
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/reference"
)

// TestDispatch sorts choices by hand.
func TestDispatch(t *testing.T) {
	d := def.Must(def.Dispatch("d", def.DispatchForm{Index: "i", Counts: "c", Offsets: "o", Source: "t", Slot: "s", Place: "p"}))
	for _, test := range []struct {
		name                                 string
		tokens, experts                      int
		index                                []int32
		counts, offsets, source, slot, place []int32
	}{
		{"two of three", 3, 3, []int32{2, 0, 0, 2, 2, 1},
			[]int32{2, 1, 3}, []int32{0, 2, 3, 6}, []int32{0, 1, 2, 0, 1, 2}, []int32{1, 2, 5, 0, 3, 4}, []int32{3, 0, 1, 4, 5, 2}},
		{"an expert twice for a token", 2, 2, []int32{1, 1, 0, 1},
			[]int32{1, 3}, []int32{0, 1, 4}, []int32{1, 0, 0, 1}, []int32{2, 0, 1, 3}, []int32{1, 2, 0, 3}},
		{"bad indices", 3, 2, []int32{-1, 1, 2, 0, 1, 1 << 30},
			[]int32{1, 2}, []int32{0, 1, 3}, []int32{1, 0, 2, -1, -1, -1}, []int32{3, 1, 4, -1, -1, -1}, []int32{-1, 1, -1, 0, 2, -1}},
		{"all to one, none to the others", 3, 3, []int32{1, 1, 1},
			[]int32{0, 3, 0}, []int32{0, 0, 3, 3}, []int32{0, 1, 2}, []int32{0, 1, 2}, []int32{0, 1, 2}},
		{"every expert of one token", 1, 3, []int32{2, 0, 1},
			[]int32{1, 1, 1}, []int32{0, 1, 2, 3}, []int32{0, 0, 0}, []int32{1, 2, 0}, []int32{2, 0, 1}},
		{"one expert", 2, 1, []int32{0, 0},
			[]int32{2}, []int32{0, 2}, []int32{0, 1}, []int32{0, 1}, []int32{0, 1}},
		{"nobody", 1, 1, []int32{5}, []int32{0}, []int32{0, 0}, []int32{-1}, []int32{-1}, []int32{-1}},
	} {
		choices := len(test.index) / test.tokens
		index := num.IndexArray(test.index...)
		index.Rows, index.Cols, index.Stride = test.tokens, choices, choices
		operands := []num.Array{index, num.NewArray(num.I32, test.experts, 1), num.NewArray(num.I32, test.experts+1, 1)}
		for range 3 {
			operands = append(operands, num.NewArray(num.I32, test.tokens, choices))
		}
		if err := reference.Run(d, operands, reference.Options{}); err != nil {
			t.Fatal(err)
		}
		for i, want := range [][]int32{test.counts, test.offsets, test.source, test.slot, test.place} {
			var got []int32
			for r := range operands[i+1].Rows {
				for c := range operands[i+1].Cols {
					got = append(got, operands[i+1].Int(r, c))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %s is %v, want %v", test.name, d.Operands[i+1].Name, got, want)
			}
		}
	}
}
