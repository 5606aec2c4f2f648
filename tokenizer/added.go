package tokenizer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// addedToken is a token that is found in the text before anything else happens to it.
type addedToken struct {
	text                       string // as it is looked for
	id                         int32
	singleWord, lstrip, rstrip bool
	isNormalized, isSpecial    bool
}

// addedTokens finds added tokens.
type addedTokens struct {
	plain, normalized finder
}

// finder finds the longest token that begins at the leftmost place where any begins.
type finder struct {
	tokens []addedToken // sorted by text, all different
	first  [257]int     // tokens[first[c]:first[c+1]] begin with the byte c
}

// maxAddedBytes is the length of the longest added token, which bounds the time at each place of a text.
const maxAddedBytes = 1024

func newFinder(tokens []addedToken) (finder, error) {
	f := finder{tokens: tokens}
	slices.SortFunc(f.tokens, func(a, b addedToken) int { return cmp.Compare(a.text, b.text) })
	for i, t := range f.tokens {
		switch {
		case t.text == "":
			return f, fmt.Errorf("added token %d is empty", t.id)
		case len(t.text) > maxAddedBytes:
			return f, fmt.Errorf("added token %d has %d bytes, want at most %d", t.id, len(t.text), maxAddedBytes)
		case i > 0 && f.tokens[i-1].text == t.text:
			return f, fmt.Errorf("added tokens %d and %d are both %s", f.tokens[i-1].id, t.id, quote(t.text))
		}
		f.first[int(t.text[0])+1]++
	}
	for c := range 256 {
		f.first[c+1] += f.first[c]
	}
	return f, nil
}

// longest returns the longest token that s begins with, or nil.
func (f *finder) longest(s string) *addedToken {
	lo, hi := f.first[s[0]], f.first[int(s[0])+1]
	var found *addedToken
	for depth := 1; lo < hi; depth++ {
		if t := &f.tokens[lo]; len(t.text) == depth {
			found = t
			lo++
		}
		if depth == len(s) || lo == hi {
			break
		}
		c := s[depth] // of all in [lo, hi) the first depth bytes are those of s
		part := f.tokens[lo:hi]
		from, _ := slices.BinarySearchFunc(part, c, func(t addedToken, c byte) int { return cmp.Compare(t.text[depth], c) })
		to, _ := slices.BinarySearchFunc(part, c, func(t addedToken, c byte) int {
			if t.text[depth] <= c {
				return -1
			}
			return 1
		})
		lo, hi = lo+from, lo+to
	}
	return found
}

// cut calls emit for each added token with its id, and for the text between with -1, in order.
func (f *finder) cut(s string, specialAsText bool, emit func(part string, id int32, start int) error) error {
	if len(f.tokens) == 0 {
		return emit(s, -1, 0)
	}
	done, spaces := 0, -1 // spaces: the end of the white space after the last token with rstrip
	for i := 0; i < len(s); {
		t := f.longest(s[i:])
		if t == nil {
			i++
			continue
		}
		start, end := i, i+len(t.text)
		i = end
		if specialAsText && t.isSpecial || t.singleWord && (endsWithWord(s[:start]) || beginsWithWord(s[end:])) {
			continue
		}
		if t.lstrip {
			start = done + len(trimRightSpace(s[done:max(start, done)]))
		}
		if t.rstrip {
			if end > spaces {
				spaces = len(s) - len(trimLeftSpace(s[end:]))
			}
			end = spaces
		}
		if done < start {
			if err := emit(s[done:start], -1, done); err != nil {
				return err
			}
		}
		if err := emit("", t.id, start); err != nil {
			return err
		}
		done = end // a token of spaces may lie in those that the token before it took: then they are text again
	}
	if done < len(s) {
		return emit(s[done:], -1, done)
	}
	return nil
}

// cut finds the added tokens of a text. It calls emit with each one's id, and with -1 for the
// normalized parts between, in order. isFirst says that a part begins the text.
func (a *addedTokens) cut(text string, specialAsText bool, normalize func(string) string, emit func(part string, id int32, isFirst bool) error) error {
	return a.plain.cut(text, specialAsText, func(part string, id int32, at int) error {
		if id >= 0 {
			return emit("", id, false)
		}
		return a.normalized.cut(normalize(part), specialAsText, func(part string, id int32, from int) error {
			return emit(part, id, at == 0 && from == 0)
		})
	})
}

func endsWithWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

func beginsWithWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}

func isWord(r rune) bool { return loadClasses().of(r)&(letters|mark|word) != 0 }

func isSpace(r rune) bool { return loadClasses().of(r)&space != 0 }

func trimLeftSpace(s string) string { return strings.TrimLeftFunc(s, isSpace) }

func trimRightSpace(s string) string { return strings.TrimRightFunc(s, isSpace) }
