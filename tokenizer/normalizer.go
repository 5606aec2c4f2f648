package tokenizer

import "strings"

// normalizer changes a part of the text, before it is divided.
type normalizer func(string) string

func prepend(prefix string) normalizer {
	return func(s string) string {
		if s == "" {
			return s
		}
		return prefix + s
	}
}

func replace(old, new string) normalizer {
	return func(s string) string { return strings.ReplaceAll(s, old, new) }
}
