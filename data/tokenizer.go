package data

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"

	"tokitai/tokenizer"
)

// Vocabulary is the number of different tokens of Bytes: the bytes, and Beginning, which stands before
// every document.
const (
	Vocabulary = 257
	Beginning  = 256
)

// Tokenizer turns documents into tokens.
type Tokenizer struct {
	Identity string // bytes, or the SHA-256 of File in hexadecimal
	Size     int    // one more than the largest token
	File     []byte // tokenizer.json; nil for bytes

	words *tokenizer.Tokenizer
}

// Bytes has a token for each byte, and Beginning in front of every document.
var Bytes = Tokenizer{Identity: "bytes", Size: Vocabulary}

// ParseTokenizer returns the tokenizer of a tokenizer.json. Documents have the tokens in front of them
// and behind them that the file's template says, and special tokens in their text count as text.
func ParseTokenizer(file []byte) (Tokenizer, error) {
	words, err := tokenizer.Parse(file)
	if err != nil {
		return Tokenizer{}, err
	}
	sum := sha256.Sum256(file)
	return Tokenizer{hex.EncodeToString(sum[:]), words.Size(), file, words}, nil
}

// ReadTokenizer reads a tokenizer.json.
func ReadTokenizer(path string) (Tokenizer, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return Tokenizer{}, err
	}
	t, err := ParseTokenizer(file)
	if err != nil {
		return t, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// TrainTokenizer returns a tokenizer of at most size tokens that is trained on the documents.
func (d Documents) TrainTokenizer(size int) (Tokenizer, error) {
	file, err := tokenizer.Train(d.Texts(), size)
	if err != nil {
		return Tokenizer{}, err
	}
	return ParseTokenizer(file)
}

// encode returns the tokens of a document, and what the digest is over.
func (t *Tokenizer) encode(text []byte) (tokens []int32, content []byte, err error) {
	if t.words == nil {
		tokens = make([]int32, 1, len(text)+1)
		tokens[0] = Beginning
		for _, b := range text {
			tokens = append(tokens, int32(b))
		}
		return tokens, text, nil
	}
	if tokens, err = t.words.Encode(string(text), tokenizer.EncodeOptions{SpecialAsText: true}); err != nil {
		return nil, nil, err
	}
	for _, id := range tokens {
		content = binary.LittleEndian.AppendUint32(content, uint32(id))
	}
	return tokens, content, nil
}

// Decode returns the text of tokens. Of bytes that are no UTF-8 each is U+FFFD.
func (t *Tokenizer) Decode(tokens []int32) (string, error) {
	if t.words != nil {
		return t.words.Decode(tokens, tokenizer.DecodeOptions{SkipSpecial: true})
	}
	var text []byte
	for _, id := range tokens {
		switch {
		case id < 0 || id >= Vocabulary:
			return "", fmt.Errorf("no token has the id %d", id)
		case id != Beginning:
			text = append(text, byte(id))
		}
	}
	return string([]rune(string(text))), nil
}
