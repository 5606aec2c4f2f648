package tokenizer

import "strings"

// splitter divides a part of the text and calls emit for each piece in order. isFirst says that
// the part, or a piece, begins the text.
type splitter func(part string, isFirst bool, emit func(piece string, isFirst bool) error) error

// byPattern divides by a scanner, which returns where the piece that begins at an offset ends.
func byPattern(scan func(s string, i int) int) splitter {
	return func(part string, isFirst bool, emit func(string, bool) error) error {
		for i := 0; i < len(part); {
			end := scan(part, i)
			if err := emit(part[i:end], isFirst && i == 0); err != nil {
				return err
			}
			i = end
		}
		return nil
	}
}

// afterEach divides after each occurrence of a delimiter.
func afterEach(delimiter string) splitter {
	return byPattern(func(s string, i int) int {
		if at := strings.Index(s[i:], delimiter); at >= 0 {
			return i + at + len(delimiter)
		}
		return len(s)
	})
}

// beforeEach divides before each occurrence of a delimiter.
func beforeEach(delimiter string) splitter {
	return byPattern(func(s string, i int) int {
		from := i
		if strings.HasPrefix(s[i:], delimiter) {
			from += len(delimiter)
		}
		if at := strings.Index(s[from:], delimiter); at >= 0 {
			return from + at
		}
		return len(s)
	})
}

// spaced puts a space in front of a part that has none.
func spaced(part string, isFirst bool, emit func(string, bool) error) error {
	if !strings.HasPrefix(part, " ") {
		part = " " + part
	}
	return emit(part, isFirst)
}

// metaspace writes replacement for spaces, and puts it in front of a part where the scheme says so.
type metaspace struct {
	replacement string
	scheme      string // always, first or never
	isSplit     bool
}

func (m metaspace) splitter() splitter {
	divide := beforeEach(m.replacement)
	return func(part string, isFirst bool, emit func(string, bool) error) error {
		part = strings.ReplaceAll(part, " ", m.replacement)
		if (m.scheme == "always" || m.scheme == "first" && isFirst) && !strings.HasPrefix(part, m.replacement) {
			part = m.replacement + part
		}
		if !m.isSplit {
			return emit(part, isFirst)
		}
		return divide(part, isFirst, emit)
	}
}
