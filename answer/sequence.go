package answer

import (
	"slices"
	"sort"
)

// sequence is an answer as the engine computes it.
type sequence struct {
	*Answer
	number int64 // in the order of arrival
	isTold bool  // that it waits no more

	tokens []int32 // prompt and answer so far
	prompt int     // tokens of it
	seen   int     // tokens whose rows of logits have been seen, from the first on

	cached  int // tokens whose keys are in pages
	pages   []int32
	keys    []pageKey // of the pages that are complete
	root    pageKey
	reused  int
	wanted  int     // how many tokens to guess in this step
	guessed []int32 // behind tokens, in this step
	drafted drafted

	text Text
	stop stopper

	isStopped bool // by a text
}

// first returns the first token whose row is wanted: the last of the prompt, or for an echo the first of all.
func (s *sequence) firstRow() int {
	if s.request.Echo {
		return 0
	}
	return s.prompt - 1
}

// known returns how many tokens there are to be fed: those behind which a row is wanted.
func (s *sequence) known() int {
	if s.request.Given != nil || s.request.Most == 0 {
		return len(s.tokens) - 1
	}
	return len(s.tokens)
}

// isAnswering reports whether the rest of the sequence is one token, which the next is drawn behind.
func (s *sequence) isAnswering() bool { return s.known()-s.cached == 1 }

// draws reports whether the token behind token at is drawn: it is part of an answer, and either new or to be
// compared with the one that is given.
func (s *sequence) draws(at int) bool {
	isKnown := at+1 < len(s.tokens) && s.request.Given == nil
	return !isKnown && at+1 >= s.prompt
}

// drawing returns how the token behind token at is drawn from a step.
func (s *sequence) drawing(at int) draw {
	if s.request.Sampling.Temperature == 0 {
		return draw{}
	}
	return draw{&s.request.Sampling, s.request.Choice, int32(at + 1)}
}

// guess guesses tokens by what followed the last ones where they stood before, the latest place first.
func (s *sequence) guess(most int) []int32 {
	const longest, shortest = 4, 2
	if most == 0 {
		return nil
	}
	for n := min(longest, len(s.tokens)-1); n >= shortest; n-- {
		last := s.tokens[len(s.tokens)-n:]
		for at := len(s.tokens) - n - 1; at >= 0; at-- {
			if slices.Equal(s.tokens[at:at+n], last) {
				from := at + n
				return s.tokens[from:min(from+most, len(s.tokens))]
			}
		}
	}
	return nil
}

// likeliest returns the n tokens with the largest logits, equal ones by their number.
func likeliest(logits []float32, row *summary, n int) []Likely {
	top := make([]int32, 0, n+1)
	isBefore := func(a, b int32) bool { return logits[a] > logits[b] || logits[a] == logits[b] && a < b }
	for t := range int32(len(logits)) {
		if len(top) == n && !isBefore(t, top[n-1]) {
			continue
		}
		at := sort.Search(len(top), func(i int) bool { return isBefore(t, top[i]) })
		if top = slices.Insert(top, at, t); len(top) > n {
			top = top[:n]
		}
	}
	list := make([]Likely, len(top))
	for i, t := range top {
		list[i] = Likely{t, row.logprob(logits[t])}
	}
	return list
}
