package model

import (
	"slices"
	"strings"
	"testing"
)

// TestDivide: a program is cut in front of the experts of each layer, forward and backward, where rows of one value go out and of one come
// back; the calls of both parts together are those of the program, and no value of experts is left in the other part.
func TestDivide(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"swiglu", "geglu", "gelu"} {
		for _, precision := range []string{"f32", "bf16"} {
			c := Config{
				Layers: 3, Width: 8, Heads: 2, KVHeads: 1, Hidden: 8, Vocabulary: 11, Block: 4, Norm: "rms", Positions: "rope", FeedForward: form, RopeBase: 1e4, Eps: 1e-5, Storage: precision,
				Mixture: Mixture{Experts: 3, PerToken: 2, Hidden: 8, Dense: NumbersOf(1)},
			}
			for _, training := range []bool{true, false} {
				full, err := NewDecoder(c, 2, training)
				if err != nil {
					t.Fatal(err)
				}
				d, err := full.Program.Divide()
				if err != nil {
					t.Fatal(form, precision, err)
				}
				want, weights := 2, 3
				if training {
					want = 4
				}
				if form == "gelu" {
					weights = 2
				}
				if len(d.Exchanges) != want || len(d.Weights) != 2*weights || len(d.Program.Calls)+len(d.Experts.Calls) != len(full.Program.Calls) {
					t.Errorf("%s, %s: %d exchanges of %d weights, %d and %d calls of %d", form, precision, len(d.Exchanges), len(d.Weights), len(d.Program.Calls), len(d.Experts.Calls), len(full.Program.Calls))
				}
				for i, x := range d.Exchanges {
					if len(x.Rows) != 1 || len(x.Results) != 1 || x.IsFirst != (i < 2) || x.Offsets == nil {
						t.Errorf("%s, %s: exchange %d has rows %v, results %v, offsets %v, first %v", form, precision, i, x.Rows, x.Results, x.Offsets, x.IsFirst)
					}
				}
				for _, w := range d.Weights {
					if (w.Gradient != "") != training || d.Program.Value(w.Weight) != nil || w.Gradient != "" && d.Program.Value(w.Gradient) != nil {
						t.Errorf("%s, %s: weight %v", form, precision, w)
					}
				}
				if slices.ContainsFunc(d.Program.Values, func(v *Value) bool { return strings.Contains(v.Name, "experts.act") }) {
					t.Errorf("%s, %s: a value that experts alone use is in the program of a leaf", form, precision)
				}
			}
		}
	}
	dense, err := NewDecoder(Config{Layers: 1, Width: 8, Heads: 2, KVHeads: 1, Hidden: 8, Vocabulary: 11, Block: 4, Norm: "rms", Positions: "rope", FeedForward: "swiglu", RopeBase: 1e4, Eps: 1e-5, Storage: "f32"}, 2, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dense.Program.Divide(); err == nil || !strings.Contains(err.Error(), "the program has no experts") {
		t.Errorf("error %v for a program without experts", err)
	}
}
