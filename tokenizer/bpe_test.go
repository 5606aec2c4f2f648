package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// randomModel returns a model of single letters and random merges, and the tokens by id.
func randomModel(r *rand.Rand) *model {
	const alphabet = "abcd"
	m := &model{unknown: -1, words: map[string]int32{}, borders: map[[2]rune]struct{}{}}
	var tokens []string
	add := func(s string) int32 {
		if id, ok := m.words[s]; ok {
			return id
		}
		id := int32(len(tokens))
		tokens = append(tokens, s)
		m.words[s] = id
		return id
	}
	for i := range m.ascii {
		m.ascii[i] = -1
	}
	for _, c := range alphabet {
		m.ascii[c] = add(string(c))
	}
	m.pairs = newPairTable(30)
	for range 30 {
		a, b := r.IntN(len(tokens)), r.IntN(len(tokens))
		left, right := tokens[a], tokens[b]
		if len(left)+len(right) > 12 {
			continue
		}
		if _, isNew := m.pairs.add(int32(a), int32(b), add(left+right)); isNew {
			m.borders[[2]rune{rune(left[len(left)-1]), rune(right[0])}] = struct{}{}
		}
	}
	return m
}

// slowMerge merges by the definition: the first pair of the lowest rank, as often as there is one.
func slowMerge(m *model, word string) []int32 {
	var ids []int32
	for i := range len(word) {
		ids = append(ids, m.ascii[word[i]])
	}
	for {
		best, at := noRank, -1
		for i := range len(ids) - 1 {
			if rank := m.pairs.rank(ids[i], ids[i+1]); rank < best {
				best, at = rank, i
			}
		}
		if at < 0 {
			return ids
		}
		ids = slices.Replace(ids, at, at+2, m.pairs.result[best])
	}
}

// TestMerge compares the ways to merge with the definition, with and without cutting at borders.
func TestMerge(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	cuts := 0
	for range 300 {
		m := randomModel(r)
		var word strings.Builder
		for range 1 + r.IntN(150) {
			word.WriteByte("abcd"[r.IntN(4)])
		}
		text := word.String()
		want := slowMerge(m, text)
		g := m.open()
		got, err := g.encode(nil, text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
		for i := 1; i < len(text); i++ {
			if g.isBorder(rune(text[i-1]), rune(text[i])) {
				cuts++
			}
		}
		symbols := func() {
			g.symbols = g.symbols[:0]
			for i := range len(text) {
				g.symbols = append(g.symbols, m.ascii[text[i]])
			}
		}
		symbols()
		if got := g.mergeFew(); !slices.Equal(got, want) {
			t.Errorf("%s: mergeFew gives %v, want %v", text, got, want)
		}
		symbols()
		if got := g.mergeMany(nil); !slices.Equal(got, want) {
			t.Errorf("%s: mergeMany gives %v, want %v", text, got, want)
		}
		if again, err := g.encode(nil, text); err != nil || !slices.Equal(again, want) {
			t.Errorf("%s: got %v, %v from the cache, want %v", text, again, err, want)
		}
	}
	if cuts == 0 {
		t.Error("no text was cut")
	}
}
