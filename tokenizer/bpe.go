package tokenizer

import (
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// model merges the symbols of a word, pair by pair, into tokens.
type model struct {
	isByteLevel  bool             // symbols are bytes; otherwise characters
	words        map[string]int32 // tokens by their text
	bytes        [256]int32       // symbols of bytes, in byte-level models and for byte fallback; -1: none
	ascii        [utf8.RuneSelf]int32
	fallsBack    bool  // characters without a token become bytes
	unknown      int32 // the token of characters without one, or -1
	fusesUnknown bool
	wholeWords   bool // a word that is a token is not merged from its symbols
	pairs        pairTable

	// borders has the pairs of characters at which some merge joins two tokens. Between others
	// text can be cut without changing any merge. nil: it must not be cut.
	borders map[[2]rune]struct{}

	pool sync.Pool // of *merger
}

// merger encodes words, with memory that it uses again. It is for one goroutine.
type merger struct {
	*model
	cache   map[string]span
	cached  []int32 // ids of the words of cache
	symbols []int32
	ranks   []uint32
	next    []int32
	prev    []int32
	heap    []uint64
}

type span struct{ from, to int32 }

// The cache is emptied when it has this many words. Longer words are not kept.
const (
	maxCached      = 1 << 15
	maxCachedBytes = 64
)

func (m *model) open() *merger {
	if g, ok := m.pool.Get().(*merger); ok {
		return g
	}
	return &merger{model: m, cache: map[string]span{}}
}

func (g *merger) close() {
	const most = 1 << 16 // symbols whose memory is kept
	if cap(g.symbols) > most {
		g.symbols, g.ranks, g.next, g.prev, g.heap = nil, nil, nil, nil, nil
	}
	g.pool.Put(g)
}

// encode appends the ids of a word.
func (g *merger) encode(ids []int32, word string) ([]int32, error) {
	if g.wholeWords {
		if id, ok := g.words[word]; ok {
			return append(ids, id), nil
		}
	}
	if g.isByteLevel {
		if s, ok := g.cache[word]; ok {
			return append(ids, g.cached[s.from:s.to]...), nil
		}
		g.symbols = g.symbols[:0]
		for i := range len(word) {
			id := g.bytes[word[i]]
			if id < 0 {
				return nil, fmt.Errorf("the vocabulary has no token for the byte 0x%02X, which is in %s", word[i], quote(word))
			}
			g.symbols = append(g.symbols, id)
		}
		return g.finish(ids, word), nil
	}
	start, last := 0, rune(-1)
	g.symbols = g.symbols[:0]
	for i, r := range word {
		if i > start && g.isBorder(last, r) {
			ids = g.finish(ids, word[start:i])
			start, g.symbols = i, g.symbols[:0]
		}
		last = r
		n := utf8.RuneLen(r)
		id, ok := int32(-1), false
		if r < utf8.RuneSelf {
			id = g.ascii[r]
			ok = id >= 0
		} else {
			id, ok = g.words[word[i:i+n]]
		}
		switch {
		case ok:
			g.symbols = append(g.symbols, id)
		case g.fallsBack:
			for j := i; j < i+n; j++ {
				g.symbols = append(g.symbols, g.bytes[word[j]])
			}
		case g.unknown < 0:
			return nil, fmt.Errorf("the vocabulary has no token for %q (%U), and no unknown token", r, r)
		case g.fusesUnknown && len(g.symbols) > 0 && g.symbols[len(g.symbols)-1] == g.unknown:
		default:
			g.symbols = append(g.symbols, g.unknown)
		}
	}
	return g.finish(ids, word[start:]), nil
}

// isBorder reports whether no merge joins tokens between a and b.
func (g *merger) isBorder(a, b rune) bool {
	if g.borders == nil {
		return false
	}
	_, ok := g.borders[[2]rune{a, b}]
	return !ok
}

// finish merges the symbols of a word, appends the ids and remembers them.
func (g *merger) finish(ids []int32, word string) []int32 {
	if len(g.symbols) == 1 {
		return append(ids, g.symbols[0])
	}
	if !g.isByteLevel {
		if s, ok := g.cache[word]; ok {
			return append(ids, g.cached[s.from:s.to]...)
		}
	}
	from := len(ids)
	const few = 40 // symbols up to which searching all pairs is faster than a heap
	if len(g.symbols) <= few {
		ids = append(ids, g.mergeFew()...)
	} else {
		ids = g.mergeMany(ids)
	}
	if len(word) <= maxCachedBytes {
		if len(g.cache) == maxCached {
			clear(g.cache)
			g.cached = g.cached[:0]
		}
		at := int32(len(g.cached))
		g.cached = append(g.cached, ids[from:]...)
		g.cache[strings.Clone(word)] = span{at, int32(len(g.cached))}
	}
	return ids
}

// mergeFew merges the symbols, searching for the first pair of the lowest rank each time.
func (g *merger) mergeFew() []int32 {
	s := g.symbols
	ranks := g.ranks[:0]
	for i := range len(s) - 1 {
		ranks = append(ranks, g.pairs.rank(s[i], s[i+1]))
	}
	for {
		best, at := noRank, 0
		for i, r := range ranks {
			if r < best {
				best, at = r, i
			}
		}
		if best == noRank {
			g.ranks = ranks
			return s
		}
		s[at] = g.pairs.result[best]
		s = append(s[:at+1], s[at+2:]...)
		ranks = append(ranks[:at], ranks[at+1:]...)
		if at > 0 {
			ranks[at-1] = g.pairs.rank(s[at-1], s[at])
		}
		if at < len(ranks) {
			ranks[at] = g.pairs.rank(s[at], s[at+1])
		}
	}
}

// mergeMany merges the symbols in n log n steps: a heap has the pairs by rank, then place.
func (g *merger) mergeMany(ids []int32) []int32 {
	n := len(g.symbols)
	g.next, g.prev, g.heap = g.next[:0], g.prev[:0], g.heap[:0]
	for i := range n {
		g.next = append(g.next, int32(i+1))
		g.prev = append(g.prev, int32(i-1))
		if i+1 < n {
			if r := g.pairs.rank(g.symbols[i], g.symbols[i+1]); r != noRank {
				g.heap = append(g.heap, uint64(r)<<32|uint64(i))
			}
		}
	}
	for i := len(g.heap)/2 - 1; i >= 0; i-- {
		g.sink(i)
	}
	for len(g.heap) > 0 {
		top := g.heap[0]
		end := len(g.heap) - 1
		g.heap[0] = g.heap[end]
		g.heap = g.heap[:end]
		g.sink(0)
		at, rank := int32(uint32(top)), uint32(top>>32)
		if g.symbols[at] < 0 {
			continue // it was merged into the symbol before it
		}
		right := g.next[at]
		if right == int32(n) || g.pairs.rank(g.symbols[at], g.symbols[right]) != rank {
			continue // one of the pair was merged
		}
		g.symbols[at] = g.pairs.result[rank]
		g.symbols[right] = -1
		after := g.next[right]
		g.next[at] = after
		if after < int32(n) {
			g.prev[after] = at
			g.push(at, after)
		}
		if before := g.prev[at]; before >= 0 {
			g.push(before, at)
		}
	}
	for i := int32(0); i < int32(n); i = g.next[i] {
		ids = append(ids, g.symbols[i])
	}
	return ids
}

// push puts the pair of the symbols at a and b on the heap, if it can be merged.
func (g *merger) push(a, b int32) {
	r := g.pairs.rank(g.symbols[a], g.symbols[b])
	if r == noRank {
		return
	}
	g.heap = append(g.heap, uint64(r)<<32|uint64(uint32(a)))
	for i := len(g.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if g.heap[parent] <= g.heap[i] {
			return
		}
		g.heap[parent], g.heap[i] = g.heap[i], g.heap[parent]
		i = parent
	}
}

// sink moves the entry at i down to its place.
func (g *merger) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(g.heap) {
			return
		}
		if child+1 < len(g.heap) && g.heap[child+1] < g.heap[child] {
			child++
		}
		if g.heap[i] <= g.heap[child] {
			return
		}
		g.heap[i], g.heap[child] = g.heap[child], g.heap[i]
		i = child
	}
}

// noRank is the rank of a pair that is not merged.
const noRank = ^uint32(0)

// pairTable has the ranks of pairs, in open addressing. The rank of a merge is its place in the
// file.
type pairTable struct {
	slots  []pairSlot
	shift  uint
	result []int32 // of the merge of each rank
}

type pairSlot struct {
	pair uint64
	rank uint32 // noRank: the slot is free
}

func newPairTable(merges int) pairTable {
	bits := uint(1)
	for 1<<bits < 2*merges {
		bits++
	}
	t := pairTable{slots: make([]pairSlot, 1<<bits), shift: 64 - bits}
	for i := range t.slots {
		t.slots[i].rank = noRank
	}
	return t
}

// slot returns the slot of a pair, or the free one that it would have.
func (t *pairTable) slot(a, b int32) *pairSlot {
	pair := uint64(uint32(a))<<32 | uint64(uint32(b))
	mask := uint64(len(t.slots) - 1)
	for i := pair * 0x9E3779B97F4A7C15 >> t.shift; ; i = (i + 1) & mask {
		if s := &t.slots[i]; s.rank == noRank || s.pair == pair {
			return s
		}
	}
}

func (t *pairTable) rank(a, b int32) uint32 { return t.slot(a, b).rank }

// add adds the next merge. It returns the rank of the pair if there is one already.
func (t *pairTable) add(a, b, result int32) (earlier uint32, isNew bool) {
	s := t.slot(a, b)
	if s.rank != noRank {
		return s.rank, false
	}
	*s = pairSlot{uint64(uint32(a))<<32 | uint64(uint32(b)), uint32(len(t.result))}
	t.result = append(t.result, result)
	return 0, true
}
