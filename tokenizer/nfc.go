package tokenizer

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

//go:embed compositions.txt
var compositionsText string

// compositions holds what Normalization Form C needs. Characters that the table does not know are
// left alone, as in tokenizers, whose table is older than its classes.
type compositions struct {
	rank  map[rune]uint8   // canonical combining classes that are not 0
	parts map[rune][2]rune // canonical decompositions; the second part may be 0
	whole map[[2]rune]rune // which pairs compose
	least rune             // no smaller character is in rank or parts
}

var loadCompositions = sync.OnceValue(func() *compositions {
	c := &compositions{rank: map[rune]uint8{}, parts: map[rune][2]rune{}, whole: map[[2]rune]rune{}, least: utf8.MaxRune}
	for fields := range tableLines(compositionsText) {
		if fields[0] == "rank" {
			rank, err := strconv.ParseUint(fields[1], 10, 8)
			if err != nil {
				panic(err)
			}
			for _, f := range fields[2:] {
				for r := range runOf(f) {
					c.rank[r] = uint8(rank)
					c.least = min(c.least, r)
				}
			}
			continue
		}
		first := point(fields[1])
		for i, f := range fields[2:] {
			r := first + rune(i)
			f, isExcluded := strings.CutSuffix(f, "!")
			a, b, isPair := strings.Cut(f, "+")
			p := [2]rune{point(a)}
			if isPair {
				p[1] = point(b)
				if !isExcluded {
					c.whole[p] = r
				}
			}
			c.parts[r] = p
			c.least = min(c.least, r)
		}
	}
	return c
})

// Hangul syllables are composed by a rule.
const (
	hangulS, hangulL, hangulV, hangulT = 0xAC00, 0x1100, 0x1161, 0x11A7

	leads, vowels, tails = 19, 21, 28
)

// compose returns the character that a and b compose to.
func (c *compositions) compose(a, b rune) (rune, bool) {
	switch {
	case a >= hangulL && a < hangulL+leads && b >= hangulV && b < hangulV+vowels:
		return hangulS + ((a-hangulL)*vowels+b-hangulV)*tails, true
	case a >= hangulS && a < hangulS+leads*vowels*tails && (a-hangulS)%tails == 0 && b > hangulT && b < hangulT+tails:
		return a + b - hangulT, true
	}
	r, ok := c.whole[[2]rune{a, b}]
	return r, ok
}

// decompose appends the canonical decomposition of r. Syllables of Hangul stay whole: composing
// would restore them.
func (c *compositions) decompose(dst []rune, r rune) []rune {
	p, ok := c.parts[r]
	if !ok {
		return append(dst, r)
	}
	dst = c.decompose(dst, p[0])
	if p[1] != 0 {
		dst = append(dst, p[1])
	}
	return dst
}

// nfc returns s in Normalization Form C.
func nfc(s string) string {
	c := loadCompositions()
	i := 0 // where the part begins that may change
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r >= c.least && !c.isInert(r) {
			break
		}
		i += n
	}
	if i == len(s) {
		return s
	}
	_, n := utf8.DecodeLastRuneInString(s[:i]) // may compose with what follows
	i -= n
	out := make([]byte, i, len(s)+len(s)/8)
	copy(out, s)
	var run []rune // a segment: a starter and what may combine with it
	flush := func() {
		for _, r := range c.compact(run) {
			out = utf8.AppendRune(out, r)
		}
		run = run[:0]
	}
	for _, r := range s[i:] {
		if len(run) > 0 && c.isInert(r) {
			flush()
		}
		run = c.decompose(run, r)
	}
	flush()
	return string(out)
}

// isInert reports whether r neither changes nor combines with a character before it.
func (c *compositions) isInert(r rune) bool {
	if r < c.least || r >= hangulS && r < hangulS+leads*vowels*tails {
		return true
	}
	if r >= hangulV && r < hangulV+vowels || r > hangulT && r < hangulT+tails {
		return false
	}
	if _, ok := c.parts[r]; ok {
		return false
	}
	_, ok := c.rank[r]
	return !ok && !c.isSecond(r)
}

// isSecond reports whether r, a character of combining class 0, is the second part of a
// composition.
func (c *compositions) isSecond(r rune) bool {
	_, ok := loadSeconds()[r]
	return ok
}

var loadSeconds = sync.OnceValue(func() map[rune]struct{} {
	seconds := map[rune]struct{}{}
	for p := range loadCompositions().whole {
		seconds[p[1]] = struct{}{}
	}
	return seconds
})

// compact sorts the marks of a decomposed text and composes it, in place.
func (c *compositions) compact(run []rune) []rune {
	for i := 0; i < len(run); {
		if c.rank[run[i]] == 0 {
			i++
			continue
		}
		j := i + 1
		for j < len(run) && c.rank[run[j]] != 0 {
			j++
		}
		slices.SortStableFunc(run[i:j], func(a, b rune) int { return int(c.rank[a]) - int(c.rank[b]) })
		i = j
	}
	starter, last, n := -1, uint8(0), 0 // the last starter of the result, the class of the last mark that stayed behind it
	for _, r := range run {
		rank := c.rank[r]
		if starter >= 0 && (n == starter+1 || last < rank && last != 0) {
			if whole, ok := c.compose(run[starter], r); ok {
				run[starter] = whole
				continue
			}
		}
		if rank == 0 {
			starter = n
		}
		last = rank
		run[n] = r
		n++
	}
	return run[:n]
}
