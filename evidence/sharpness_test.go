package evidence

import (
	"slices"
	"testing"
)

// TestSharpness reads the figures of a report in one sentence each.
func TestSharpness(t *testing.T) {
	s := &Summary{MeanAdmissible: new(1.0188), MedianAdmissible: new(1.0)}
	s.Terms = Terms{
		Promise: "stable", Honest: Yes, Accurate: No, MeanAllClose: new(346.2), MedianAllClose: new(16384.0),
		Decided:    []Decided{{Output: "y", Share: 0.9875}, {Output: "mean", Share: 1}},
		Clauses:    []Departure{{Clause: "crossentropy.C5", Text: "-Inf gives 0", Outputs: 3}, {Clause: "crossentropy.C4", Text: "a NaN gives NaN", Outputs: 1, IsWaived: true}},
		Allowances: []Allowance{{Text: "gelu: absolute error u*|x|", Outputs: 12}, {Text: "unused"}},
	}
	if got, want := s.Sharpness(), "the promise admits 1.019 values per output (median 1), allclose(1e-2) 346.2 (median 16,384)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := s.Answers(), "honest: yes, accurate: no, 98.8 % of y decided, 100.0 % of mean decided"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	want := []string{
		"differs from crossentropy.C5 in 3 outputs: -Inf gives 0", "differs from waived crossentropy.C4 in 1 output: a NaN gives NaN",
		"allowed in 12 outputs: gelu: absolute error u*|x|",
	}
	if got := s.Departures(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	s.Promise = "bits"
	if got := s.Sharpness() + s.Answers(); got != "" {
		t.Errorf("under promise bits: got %q, want nothing", got)
	}
}
