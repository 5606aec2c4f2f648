package main

import "testing"

func TestDidYouMean(t *testing.T) {
	for word, want := range map[string]string{
		"beta": ", did you mean beta1, beta2 or beta3?",
		"runn": ", did you mean run?",
		"zzzz": "",
	} {
		if got := didYouMean(word, []string{"beta1", "beta2", "beta3", "run"}); got != want {
			t.Errorf("didYouMean(%q) = %q, want %q", word, got, want)
		}
	}
}
