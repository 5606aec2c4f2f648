package tokenizer

import (
	"cmp"
	"container/heap"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"unicode/utf8"
)

// Beginning is the token that tokenizers of Train put in front of every text.
const Beginning = "<|begin|>"

// Train returns a tokenizer.json of a byte-level byte-pair encoding with at most size tokens: the 256
// bytes, tokens for the pairs that are most frequent in the texts, and Beginning, the last one.
//
// Texts are divided into words by the pattern of GPT-2. Then the most frequent pair of neighbours in all
// words becomes a token, again and again, until there are enough or no pair occurs twice. Of pairs that
// are equally frequent the one with the lower first token is taken, and of these the one with the lower
// second token; the bytes are in the order of the characters that stand for them. So the result depends
// on how often each word occurs, and on nothing else. It is that of Hugging Face's trainer.
func Train(texts iter.Seq[string], size int) ([]byte, error) {
	const fewest = 257
	if size < fewest || size > 1<<24 {
		return nil, fmt.Errorf("tokenizer: %d tokens, want at least %d and at most 2^24", size, fewest)
	}
	words := map[string]int64{}
	split := byPattern(gpt2.scanner())
	for text := range texts {
		if !utf8.ValidString(text) {
			return nil, fmt.Errorf("tokenizer: a text is not UTF-8")
		}
		split(text, true, func(word string, _ bool) error {
			words[word]++
			return nil
		})
	}
	t := newPairTrainer(words)
	for len(t.tokens) < size-1 && t.merge() {
	}
	return t.file()
}

// pairTrainer merges pairs in the words of a corpus.
type pairTrainer struct {
	words  []trainedWord
	tokens []string // as a file writes them
	merges [][2]int32
	counts map[[2]int32]int64
	places map[[2]int32][]int32 // words that have had the pair
	queue  pairQueue
}

type trainedWord struct {
	symbols []int32
	times   int64
}

func newPairTrainer(words map[string]int64) *pairTrainer {
	t := &pairTrainer{counts: map[[2]int32]int64{}, places: map[[2]int32][]int32{}}
	chars := slices.Clone(byteChars[:])
	slices.Sort(chars)
	var ids [256]int32
	for i, r := range chars {
		t.tokens = append(t.tokens, string(r))
		ids[charBytes[r]] = int32(i)
	}
	for word, times := range words {
		symbols := make([]int32, len(word))
		for i := range len(word) {
			symbols[i] = ids[word[i]]
		}
		t.words = append(t.words, trainedWord{symbols, times})
	}
	for i := range t.words {
		t.count(i, 1, nil)
	}
	for pair, n := range t.counts {
		t.queue = append(t.queue, countedPair{pair, n})
	}
	heap.Init(&t.queue)
	return t
}

// count adds the pairs of a word to the counts, or takes them away with sign -1. changed, if it is not nil,
// collects the pairs.
func (t *pairTrainer) count(word int, sign int64, changed map[[2]int32]bool) {
	w := &t.words[word]
	for i := 1; i < len(w.symbols); i++ {
		pair := [2]int32{w.symbols[i-1], w.symbols[i]}
		t.counts[pair] += sign * w.times
		if changed != nil {
			changed[pair] = true
		}
		if list := t.places[pair]; sign > 0 && (len(list) == 0 || list[len(list)-1] != int32(word)) {
			t.places[pair] = append(list, int32(word))
		}
	}
}

// merge makes a token of the most frequent pair. It returns false if no pair occurs twice.
func (t *pairTrainer) merge() bool {
	for len(t.queue) > 0 {
		best := heap.Pop(&t.queue).(countedPair)
		now := t.counts[best.pair]
		if now != best.count {
			continue // it stands there with its new count too
		}
		if now < 2 {
			return false
		}
		id := int32(len(t.tokens))
		t.tokens = append(t.tokens, t.tokens[best.pair[0]]+t.tokens[best.pair[1]])
		t.merges = append(t.merges, best.pair)
		places := t.places[best.pair]
		delete(t.places, best.pair)
		changed := map[[2]int32]bool{}
		for _, word := range places {
			w := &t.words[word]
			if !hasPair(w.symbols, best.pair) {
				continue
			}
			t.count(int(word), -1, changed)
			w.symbols = joined(w.symbols, best.pair, id)
			t.count(int(word), 1, changed)
		}
		for pair := range changed {
			if n := t.counts[pair]; n > 0 {
				heap.Push(&t.queue, countedPair{pair, n})
			} else {
				delete(t.counts, pair)
			}
		}
		return true
	}
	return false
}

func hasPair(symbols []int32, pair [2]int32) bool {
	for i := 1; i < len(symbols); i++ {
		if symbols[i-1] == pair[0] && symbols[i] == pair[1] {
			return true
		}
	}
	return false
}

// joined replaces the pair from left to right, in place.
func joined(symbols []int32, pair [2]int32, id int32) []int32 {
	n := 0
	for i := 0; i < len(symbols); i++ {
		if i+1 < len(symbols) && symbols[i] == pair[0] && symbols[i+1] == pair[1] {
			symbols[n] = id
			i++
		} else {
			symbols[n] = symbols[i]
		}
		n++
	}
	return symbols[:n]
}

type countedPair struct {
	pair  [2]int32
	count int64
}

// pairQueue is a heap with the pair that is merged next at the top.
type pairQueue []countedPair

func (q pairQueue) Len() int      { return len(q) }
func (q pairQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q pairQueue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[j].count, q[i].count), slices.Compare(q[i].pair[:], q[j].pair[:])) < 0
}
func (q *pairQueue) Push(x any) { *q = append(*q, x.(countedPair)) }
func (q *pairQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

// file returns the content of tokenizer.json. It writes the vocabulary in the order of the ids, which a
// map would not keep.
func (t *pairTrainer) file() ([]byte, error) {
	type object = map[string]any
	last := int32(len(t.tokens))
	merges := make([][2]string, len(t.merges))
	for i, m := range t.merges {
		merges[i] = [2]string{t.tokens[m[0]], t.tokens[m[1]]}
	}
	byteLevel := func() object {
		return object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	}
	text := func(sequence string) object { return object{"Sequence": object{"id": sequence, "type_id": 0}} }
	begin := object{"SpecialToken": object{"id": Beginning, "type_id": 0}}
	return json.Marshal(struct {
		Version       string   `json:"version"`
		Truncation    any      `json:"truncation"`
		Padding       any      `json:"padding"`
		Added         []object `json:"added_tokens"`
		Normalizer    any      `json:"normalizer"`
		PreTokenizer  object   `json:"pre_tokenizer"`
		PostProcessor object   `json:"post_processor"`
		Decoder       object   `json:"decoder"`
		Model         any      `json:"model"`
	}{
		Version:      "1.0",
		Added:        []object{{"id": last, "content": Beginning, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}},
		PreTokenizer: byteLevel(), Decoder: byteLevel(),
		PostProcessor: object{
			"type": "TemplateProcessing", "single": []object{begin, text("A")}, "pair": []object{begin, text("A"), begin, text("B")},
			"special_tokens": object{Beginning: object{"id": Beginning, "ids": []int32{last}, "tokens": []string{Beginning}}},
		},
		Model: struct {
			Type         string        `json:"type"`
			Dropout      any           `json:"dropout"`
			Unknown      any           `json:"unk_token"`
			Prefix       any           `json:"continuing_subword_prefix"`
			Suffix       any           `json:"end_of_word_suffix"`
			FuseUnknown  bool          `json:"fuse_unk"`
			ByteFallback bool          `json:"byte_fallback"`
			IgnoreMerges bool          `json:"ignore_merges"`
			Vocabulary   orderedTokens `json:"vocab"`
			MergedPairs  [][2]string   `json:"merges"`
		}{Type: "BPE", Vocabulary: t.tokens, MergedPairs: merges},
	})
}

// orderedTokens is written as an object of ids by tokens.
type orderedTokens []string

func (o orderedTokens) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for id, text := range o {
		if id > 0 {
			out = append(out, ',')
		}
		name, err := json.Marshal(text)
		if err != nil {
			return nil, err
		}
		out = fmt.Appendf(append(out, name...), ":%d", id)
	}
	return append(out, '}'), nil
}
