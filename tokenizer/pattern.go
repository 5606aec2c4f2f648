package tokenizer

import "strings"

// pattern is a family of regular expressions that divide text into words. Each alternative is a
// method, and the first one that matches is taken.
type pattern struct {
	contractions  bool   // begins with contractions such as 's
	foldCase      bool   // … in both cases
	spacedLetters bool   // letters after one space: " ?\p{L}+"; otherwise after one character that is no letter, number, CR or LF
	marks         bool   // marks count as letters
	cased         bool   // upper case before lower case: "[\p{Lu}…]*[\p{Ll}…]+" and so on
	suffixes      bool   // contractions end words
	digits        int    // most numbers in a row; 0: any, after one space
	tail          string // characters that punctuation takes along
	lines         bool   // white space that ends in CR or LF is a word: "\s*[\r\n]+"
}

const contractionsText = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`

const casedText = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` + `|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`

const suffixedText = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` + contractionsText + `?` +
	`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*` + contractionsText + `?`

const gpt2Text = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

var gpt2 = pattern{contractions: true, spacedLetters: true}

// patterns has the supported regular expressions by their exact text.
var patterns = map[string]pattern{
	gpt2Text: gpt2,
	contractionsText + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:// Llama 3, OLMo 2
	{contractions: true, foldCase: true, digits: 3, tail: "\r\n", lines: true},
	contractionsText + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:// Qwen 2, Qwen 3
	{contractions: true, foldCase: true, digits: 1, tail: "\r\n", lines: true},
	contractionsText + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:// Qwen 3.5
	{contractions: true, foldCase: true, marks: true, digits: 1, tail: "\r\n", lines: true},
	casedText + `|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`:// Mistral's tekken
	{cased: true, digits: 1, tail: "\r\n/", lines: true},
	suffixedText + `|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`:// Llama 4
	{cased: true, suffixes: true, foldCase: true, digits: 3, tail: "\r\n/", lines: true},
}

// scanner matches a pattern.
type scanner struct {
	pattern
	classes *classPages
	letters class // what counts as letters
	other   class // what is no punctuation
}

func (p pattern) scanner() func(s string, i int) int {
	x := &scanner{pattern: p, classes: loadClasses(), letters: letters, other: letters | number | space}
	if p.marks {
		x.letters |= mark
		x.other |= mark
	}
	return x.end
}

// end returns where the word that begins at s[i] ends.
func (x *scanner) end(s string, i int) int {
	if x.contractions {
		if n := contraction(s[i:], x.foldCase); n > 0 {
			return i + n
		}
	}
	if end := x.lettersEnd(s, i); end > i {
		return end
	}
	if end := x.numbersEnd(s, i); end > i {
		return end
	}
	if end := x.punctuationEnd(s, i); end > i {
		return end
	}
	return x.spaceEnd(s, i)
}

// run returns where the run of characters of a class that begins at s[i] ends.
func (x *scanner) run(s string, i int, of class) int {
	for {
		c, n := x.classes.at(s, i)
		if c&of == 0 {
			return i
		}
		i += n
	}
}

// lettersEnd matches letters, or returns i.
func (x *scanner) lettersEnd(s string, i int) int {
	from := i
	c, n := x.classes.at(s, i)
	switch {
	case x.spacedLetters && s[i] == ' ', !x.spacedLetters && c&(letters|number) == 0 && s[i] != '\r' && s[i] != '\n':
		from += n
	}
	if !x.cased {
		if end := x.run(s, from, x.letters); end > from {
			return end
		}
		if end := x.run(s, i, x.letters); end > i { // the character before letters is a mark
			return end
		}
		return i
	}
	for _, match := range []func(string, int) int{x.lowerEnd, x.upperEnd} {
		for _, from := range [2]int{from, i} {
			if end := match(s, from); end > from {
				if x.suffixes {
					end += contraction(s[end:], x.foldCase)
				}
				return end
			}
		}
	}
	return i
}

const (
	upperLike = upper | letter | mark // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
	lowerLike = lower | letter | mark // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
)

// lowerEnd matches upper case, if any, and then lower case, or returns i. Caseless letters are both:
// as a regular expression does, it gives back letters from the right until lower case follows.
func (x *scanner) lowerEnd(s string, i int) int {
	last := i // the end of the last letter that may stand for lower case
	at := i
	for {
		c, n := x.classes.at(s, at)
		if c&upperLike == 0 {
			break
		}
		at += n
		if c&lowerLike != 0 {
			last = at
		}
	}
	if end := x.run(s, at, lowerLike); end > at {
		return end
	}
	return last
}

// upperEnd matches upper case and then lower case, if any, or returns i.
func (x *scanner) upperEnd(s string, i int) int {
	if at := x.run(s, i, upperLike); at > i {
		return x.run(s, at, lowerLike)
	}
	return i
}

// numbersEnd matches numbers, or returns i.
func (x *scanner) numbersEnd(s string, i int) int {
	if x.digits == 0 {
		from := i
		if s[i] == ' ' {
			from++
		}
		if end := x.run(s, from, number); end > from {
			return end
		}
		return i
	}
	end := i
	for range x.digits {
		c, n := x.classes.at(s, end)
		if c&number == 0 {
			break
		}
		end += n
	}
	return end
}

// punctuationEnd matches characters that are neither letters nor numbers nor white space, after a
// space, or returns i.
func (x *scanner) punctuationEnd(s string, i int) int {
	from := i
	if s[i] == ' ' {
		from++
	}
	end := from
	for end < len(s) {
		c, n := x.classes.at(s, end)
		if c&x.other != 0 {
			break
		}
		end += n
	}
	if end == from {
		return i
	}
	for end < len(s) && strings.IndexByte(x.tail, s[end]) >= 0 {
		end++
	}
	return end
}

// spaceEnd matches white space: up to the last end of a line, or all of it but its last character,
// which belongs to the next word.
func (x *scanner) spaceEnd(s string, i int) int {
	end, last, line := i, i, i
	for {
		c, n := x.classes.at(s, end)
		if c&space == 0 {
			break
		}
		last = end
		if end += n; s[last] == '\n' || s[last] == '\r' {
			line = end
		}
	}
	switch {
	case x.lines && line > i:
		return line
	case end == len(s) || last == i:
		return end
	}
	return last
}

// contraction returns the length of the contraction at the beginning of s, such as 's, or 0. In the
// fold of both cases ſ is an s.
func contraction(s string, fold bool) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	at := func(i int) byte {
		if i >= len(s) {
			return 0
		}
		if c := s[i]; fold && c >= 'A' && c <= 'Z' {
			return c | 32
		}
		return s[i]
	}
	switch c := at(1); {
	case c == 's', c == 't', c == 'm', c == 'd':
		return 2
	case (c == 'r' || c == 'v') && at(2) == 'e', c == 'l' && at(2) == 'l':
		return 3
	}
	if fold && strings.HasPrefix(s[1:], "ſ") {
		return 1 + len("ſ")
	}
	return 0
}
