package evidence

import "testing"

// TestSharpness reads the figures of a report in one sentence each.
func TestSharpness(t *testing.T) {
	s := &Summary{MeanAdmissible: new(1.0188), MedianAdmissible: new(1.0)}
	s.Terms = Terms{
		Promise: "stable", Honest: Yes, Accurate: No, MeanAllClose: new(346.2), MedianAllClose: new(16384.0),
		Decided: []Decided{{Output: "y", Share: 0.9875}, {Output: "mean", Share: 1}},
	}
	if got, want := s.Sharpness(), "the promise admits 1.019 values per output (median 1), allclose(1e-2) 346.2 (median 16,384)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := s.Answers(), "honest: yes, accurate: no, 98.8 % of y decided, 100.0 % of mean decided"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s.Promise = "bits"
	if got := s.Sharpness() + s.Answers(); got != "" {
		t.Errorf("under promise bits: got %q, want nothing", got)
	}
}
