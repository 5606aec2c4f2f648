package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Corpus is a text as tokens.
type Corpus struct {
	Tokens    []int32
	Documents int
	Digest    string // see Documents.Corpus; in hexadecimal
	Tokenizer Tokenizer
}

// Identity returns the digest.
func (c *Corpus) Identity() string { return c.Digest }

// Len returns the number of tokens.
func (c *Corpus) Len() int { return len(c.Tokens) }

// Documents is a text before it is tokens.
type Documents [][]byte

// ReadDocuments reads a file as one document, or a folder: a document of each regular file below it whose
// name ends in suffix, in the order of their paths. Links are not followed. A file whose name ends in
// .jsonl has a document in each line: the member text of a JSON object. The path grammar:N stands for N
// letters of Grammar with the seed 0.
func ReadDocuments(path, suffix string) (Documents, error) {
	if number, isGrammar := strings.CutPrefix(path, "grammar:"); isGrammar {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n >= math.MaxInt32 {
			return nil, fmt.Errorf("%s: want a number of letters, such as grammar:100000", path)
		}
		return Documents{Grammar(0, n)}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = filesBelow(path, suffix); err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s: no files whose names end in %q", path, suffix)
		}
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: neither a regular file nor a folder", path)
	}
	var list Documents
	size := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if size += len(text) + 1; size >= math.MaxInt32 {
			return nil, fmt.Errorf("%s: more than %d bytes", path, math.MaxInt32-1)
		}
		if !strings.HasSuffix(file, ".jsonl") {
			list = append(list, text)
			continue
		}
		if list, err = appendLines(list, file, text); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// appendLines appends the documents of a file of JSON objects.
func appendLines(list Documents, file string, text []byte) (Documents, error) {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var d struct {
			Text *string `json:"text"`
		}
		if err := json.Unmarshal(line, &d); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, number, err)
		}
		if d.Text == nil {
			return nil, fmt.Errorf("%s:%d: the object has no member \"text\"", file, number)
		}
		list = append(list, []byte(*d.Text))
	}
	if number == 0 {
		return nil, fmt.Errorf("%s: the file is empty", file)
	}
	return list, nil
}

// filesBelow lists regular files in the order of their paths, compared as bytes with slashes.
func filesBelow(folder, suffix string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && strings.HasSuffix(path, suffix) {
			files = append(files, path)
		}
		return err
	})
	slices.SortFunc(files, func(a, b string) int { return strings.Compare(filepath.ToSlash(a), filepath.ToSlash(b)) })
	return files, err
}

// New returns a corpus of documents, as bytes.
func New(documents ...[]byte) *Corpus {
	c, err := Documents(documents).Corpus(Bytes)
	if err != nil {
		panic(err) // bytes are always tokens
	}
	return c
}

// Texts returns the documents as text, for tokenizer.Train.
func (d Documents) Texts() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, text := range d {
			if !yield(string(text)) {
				return
			}
		}
	}
}

// Corpus returns the documents as tokens. Its digest is the SHA-256 over the size and the SHA-256 of each
// document: of the bytes where they are the tokens, else of the tokens as words of 32 bits. Numbers
// are little-endian, sizes in bytes and of 64 bits.
func (d Documents) Corpus(t Tokenizer) (*Corpus, error) {
	c := &Corpus{Documents: len(d), Tokenizer: t}
	var all []byte
	for i, text := range d {
		tokens, content, err := t.encode(text)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		if len(c.Tokens)+len(tokens) >= math.MaxInt32 {
			return nil, fmt.Errorf("more than %d tokens", math.MaxInt32-1)
		}
		c.Tokens = append(c.Tokens, tokens...)
		sum := sha256.Sum256(content)
		all = append(binary.LittleEndian.AppendUint64(all, uint64(len(content))), sum[:]...)
	}
	sum := sha256.Sum256(all)
	c.Digest = hex.EncodeToString(sum[:])
	return c, nil
}
