package answer

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"tokitai/data"
	"tokitai/tokenizer"
)

// A Vocabulary converts between text and tokens.
type Vocabulary interface {
	// Encode returns the tokens of a text; with special, also those that begin and end a document. Names of
	// special tokens in the text count as these.
	Encode(text string, special bool) ([]int32, error)

	// Text begins a text of tokens.
	Text() Text

	// Piece returns a token as it is spelled, for people.
	Piece(id int32) (string, bool)

	// Bytes returns the bytes that a token stands for in a text.
	Bytes(id int32) ([]byte, bool)
}

// Text decodes tokens one by one into text that is UTF-8: a character comes with its last token.
type Text interface {
	Next(id int32) (string, error)
	End() string
}

// TextOf returns the text of tokens.
func TextOf(v Vocabulary, tokens []int32) (string, error) {
	var all strings.Builder
	text := v.Text()
	for _, t := range tokens {
		part, err := text.Next(t)
		if err != nil {
			return "", err
		}
		all.WriteString(part)
	}
	all.WriteString(text.End())
	return all.String(), nil
}

// Bytes is the vocabulary of bytes, with data.Beginning in front of every document.
type Bytes struct{}

// Encode returns the bytes of a text.
func (Bytes) Encode(text string, special bool) ([]int32, error) {
	ids := make([]int32, 0, len(text)+1)
	if special {
		ids = append(ids, data.Beginning)
	}
	for i := range len(text) {
		ids = append(ids, int32(text[i]))
	}
	return ids, nil
}

// Piece returns a byte as text, or by its number where it is none.
func (Bytes) Piece(id int32) (string, bool) {
	switch {
	case id == data.Beginning:
		return "<beginning>", true
	case id < 0 || id > 255:
		return "", false
	case id < utf8.RuneSelf:
		return string(rune(id)), true
	}
	return fmt.Sprintf("<0x%02X>", id), true
}

// Bytes returns a byte. The token in front of documents stands for none.
func (Bytes) Bytes(id int32) ([]byte, bool) {
	if id < 0 || id > 255 {
		return nil, id == data.Beginning
	}
	return []byte{byte(id)}, true
}

// Text begins a text of bytes.
func (Bytes) Text() Text { return new(byteText) }

// byteText holds back the bytes of a character that is not complete.
type byteText struct{ rest []byte }

func (b *byteText) Next(id int32) (string, error) {
	if id < 0 || id >= data.Vocabulary {
		return "", fmt.Errorf("no token has the id %d", id)
	}
	if id == data.Beginning {
		return b.End(), nil
	}
	b.rest = append(b.rest, byte(id))
	return b.take(false), nil
}

func (b *byteText) End() string { return b.take(true) }

// take returns the text that is certain; at the end, all of it.
func (b *byteText) take(atEnd bool) string {
	var text []rune
	for len(b.rest) > 0 {
		if !atEnd && !utf8.FullRune(b.rest) {
			break
		}
		r, n := utf8.DecodeRune(b.rest)
		text = append(text, r)
		b.rest = b.rest[n:]
	}
	return string(text)
}

// words is the vocabulary of a tokenizer.json.
type words struct{ *tokenizer.Tokenizer }

// Words returns the vocabulary of a tokenizer.
func Words(t *tokenizer.Tokenizer) Vocabulary { return words{t} }

func (w words) Encode(text string, special bool) ([]int32, error) {
	return w.Tokenizer.Encode(text, tokenizer.EncodeOptions{NoSpecial: !special})
}

func (w words) Text() Text { return w.NewStream(tokenizer.DecodeOptions{SkipSpecial: true}) }

func (w words) Piece(id int32) (string, bool) { return w.Token(id) }
