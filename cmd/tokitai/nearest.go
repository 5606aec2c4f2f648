package main

import (
	"strings"

	"tokitai/internal/nearest"
)

// didYouMean returns the end of a message about an unknown word: ", did you mean a or
// b?", or "" if no candidate is similar.
func didYouMean(word string, candidates []string) string {
	near := nearest.Names(word, candidates)
	if len(near) == 0 {
		return ""
	}
	return ", did you mean " + oneOf(near) + "?"
}

// oneOf returns text such as "a", "a or b", "a, b or c".
func oneOf(words []string) string { return listed(words, "or") }

// allOf returns text such as "a", "a and b", "a, b and c".
func allOf(words []string) string { return listed(words, "and") }

func listed(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}
