package data

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Vocabulary is the number of different tokens: the bytes, and Beginning, which stands before every
// document.
const (
	Vocabulary = 257
	Beginning  = 256
)

// Corpus is a text as tokens.
type Corpus struct {
	Tokens    []uint16
	Documents int
	Digest    string // SHA-256 of lengths and contents of the documents, in hexadecimal
}

// Read reads a file as one document, or a folder: a document of each regular file below it whose name
// ends in suffix, in the order of their paths. Links are not followed. The path grammar:N stands for
// N letters of Grammar with the seed 0.
func Read(path, suffix string) (*Corpus, error) {
	if number, isGrammar := strings.CutPrefix(path, "grammar:"); isGrammar {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n >= math.MaxInt32 {
			return nil, fmt.Errorf("%s: want a number of letters, such as grammar:100000", path)
		}
		return New(Grammar(0, n)), nil
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
	var c builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if len(c.tokens)+len(text) >= math.MaxInt32 {
			return nil, fmt.Errorf("%s: more than %d tokens", path, math.MaxInt32-1)
		}
		c.add(text)
	}
	return c.corpus(), nil
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

// New returns a corpus of documents.
func New(documents ...[]byte) *Corpus {
	var c builder
	for _, d := range documents {
		c.add(d)
	}
	return c.corpus()
}

type builder struct {
	tokens    []uint16
	documents int
	hash      []byte // of each document: its length, and the SHA-256 of its content
}

func (c *builder) add(text []byte) {
	c.tokens = append(slices.Grow(c.tokens, len(text)+1), Beginning)
	for _, b := range text {
		c.tokens = append(c.tokens, uint16(b))
	}
	sum := sha256.Sum256(text)
	c.hash = append(binary.LittleEndian.AppendUint64(c.hash, uint64(len(text))), sum[:]...)
	c.documents++
}

func (c *builder) corpus() *Corpus {
	sum := sha256.Sum256(c.hash)
	return &Corpus{c.tokens, c.documents, hex.EncodeToString(sum[:])}
}
