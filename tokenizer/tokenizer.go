package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// Tokenizer encodes and decodes text. It is safe for concurrent use.
type Tokenizer struct {
	added      addedTokens
	normalizer []normalizer
	splits     []splitter
	model      *model
	template   template
	decoders   []func() stage
	tokens     map[int32]token
}

// token is a token as decoding sees it.
type token struct {
	text      string
	isSpecial bool
}

// Size returns one more than the largest id that the tokenizer gives.
func (t *Tokenizer) Size() int {
	size := int32(0)
	for id := range t.tokens {
		size = max(size, id+1)
	}
	return int(size)
}

// EncodeOptions configures Encode.
type EncodeOptions struct {
	NoSpecial     bool // add no special tokens at the beginning and the end
	SpecialAsText bool // do not look for special tokens in the text
}

// MaxTextBytes is the size of the largest text that Encode takes.
const MaxTextBytes = 1 << 29

// Encode returns the ids of a text. It refuses text that is not UTF-8.
func (t *Tokenizer) Encode(text string, o EncodeOptions) ([]int32, error) {
	if len(text) > MaxTextBytes {
		return nil, fmt.Errorf("the text has %d bytes, want at most %d", len(text), MaxTextBytes)
	}
	if i := invalidAt(text); i >= 0 {
		return nil, fmt.Errorf("the text is not UTF-8 at byte %d", i)
	}
	var ids []int32
	if !o.NoSpecial {
		ids = append(ids, t.template.before...)
	}
	m := t.model.open()
	defer m.close()
	err := t.added.cut(text, o.SpecialAsText, t.normalize, func(part string, id int32, isFirst bool) error {
		if id >= 0 {
			ids = append(ids, id)
			return nil
		}
		return t.split(t.splits, part, isFirst, func(word string) (err error) {
			ids, err = m.encode(ids, word)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	if !o.NoSpecial {
		ids = append(ids, t.template.after...)
	}
	return ids, nil
}

// invalidAt returns the offset of the first byte that is not UTF-8, or -1.
func invalidAt(s string) int {
	if utf8.ValidString(s) {
		return -1
	}
	for i := 0; ; {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
}

func (t *Tokenizer) normalize(s string) string {
	for _, n := range t.normalizer {
		s = n(s)
	}
	return s
}

// split divides a part of the text by the first of the splitters, each piece by the second, and so
// on, and calls emit for the words. isFirst says that the part begins the text.
func (t *Tokenizer) split(by []splitter, part string, isFirst bool, emit func(string) error) error {
	if part == "" {
		return nil
	}
	if len(by) == 0 {
		return emit(part)
	}
	return by[0](part, isFirst, func(piece string, isFirst bool) error {
		return t.split(by[1:], piece, isFirst, emit)
	})
}

// Token returns the token of an id as the file spells it.
func (t *Tokenizer) Token(id int32) (string, bool) {
	token, ok := t.tokens[id]
	return token.text, ok
}

// template is what a post-processor adds.
type template struct{ before, after []int32 }
