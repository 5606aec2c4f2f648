// Package nearest finds the names that a misspelt word may stand for.
package nearest

import (
	"slices"
	"strings"
)

// Names returns the candidates that begin with word, or else those with the smallest
// edit distance, if that is small for the length of word.
func Names(word string, candidates []string) []string {
	const most = 4
	var near []string
	if strings.Trim(word, "-") == "" {
		return nil
	}
	for _, c := range candidates {
		if strings.HasPrefix(strings.ToLower(c), strings.ToLower(word)) {
			near = append(near, c)
		}
	}
	if len(near) == 0 {
		limit := (len(word) + 1) / 3
		for _, c := range candidates {
			switch d := distance(strings.ToLower(word), strings.ToLower(c)); {
			case d < limit || len(near) == 0 && d == limit:
				near, limit = []string{c}, d
			case d == limit:
				near = append(near, c)
			}
		}
	}
	slices.Sort(near)
	return near[:min(len(near), most)]
}

// distance returns the number of edits between two words, in bytes: the restricted
// Damerau-Levenshtein distance.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			replace := 1
			if a[i] == b[j] {
				replace = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+replace)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
