package tokenizer

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// class is a set of properties of a character.
type class uint8

const (
	upper  class = 1 << iota // \p{Lu} and \p{Lt}
	lower                    // \p{Ll}
	letter                   // \p{Lm} and \p{Lo}
	mark                     // \p{M}
	number                   // \p{N}
	space                    // \s
	word                     // \w in the rules of added tokens, without letters and marks

	letters = upper | lower | letter // \p{L}
)

//go:embed classes.txt
var classesText string

// classPages holds the classes of all characters in pages of 256, equal pages once. The tables are
// the project's own, since those of package unicode change with the release of Go.
type classPages struct {
	index [(utf8.MaxRune + 1) >> 8]uint16
	pages [][256]class
}

var loadClasses = sync.OnceValue(func() *classPages {
	all := make([]class, utf8.MaxRune+1)
	names := map[string]class{"upper": upper, "lower": lower, "letter": letter, "mark": mark, "number": number, "space": space, "word": word}
	for fields := range tableLines(classesText) {
		set, ok := names[fields[0]]
		if !ok {
			panic("classes.txt: unknown class " + fields[0])
		}
		for _, f := range fields[1:] {
			for r := range runOf(f) {
				all[r] |= set
			}
		}
	}
	p := &classPages{}
	seen := map[[256]class]uint16{}
	for i := range p.index {
		page := [256]class(all[i<<8:])
		at, ok := seen[page]
		if !ok {
			at = uint16(len(p.pages))
			seen[page] = at
			p.pages = append(p.pages, page)
		}
		p.index[i] = at
	}
	return p
})

// of returns the class of a character.
func (p *classPages) of(r rune) class { return p.pages[p.index[r>>8]][r&255] }

// at returns the class of the character that begins at s[i], and its length in bytes. At the end of
// s both are 0. The text is valid UTF-8.
func (p *classPages) at(s string, i int) (class, int) {
	if i >= len(s) {
		return 0, 0
	}
	if c := s[i]; c < utf8.RuneSelf {
		return p.pages[p.index[0]][c], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return p.of(r), n
}

// tableLines yields the fields of the lines of an embedded table. Lines with # are comments.
func tableLines(text string) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		for line := range strings.Lines(text) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] != "#" && !yield(fields) {
				return
			}
		}
	}
}

// runOf yields the characters of a field such as 41, 41-5A or 100-136/2.
func runOf(field string) func(yield func(rune) bool) {
	field, step, _ := strings.Cut(field, "/")
	lo, hi, isRun := strings.Cut(field, "-")
	if !isRun {
		hi = lo
	}
	stride := rune(1)
	if step != "" {
		stride = point(step)
	}
	return func(yield func(rune) bool) {
		for r := point(lo); r <= point(hi); r += stride {
			if !yield(r) {
				return
			}
		}
	}
}

// point reads a code point of an embedded table.
func point(s string) rune {
	n, err := strconv.ParseUint(s, 16, 32)
	if err != nil || n > utf8.MaxRune {
		panic(fmt.Sprintf("table of characters: %q is not a code point", s))
	}
	return rune(n)
}
