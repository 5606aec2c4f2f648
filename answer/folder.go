package answer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"tokitai/chat"
	"tokitai/data"
	"tokitai/engine"
	"tokitai/internal/readfile"
	"tokitai/model/huggingface"
	"tokitai/tokenizer"
)

// loadFolder reads a folder as the library transformers keeps models.
func loadFolder(q *engine.Queue, path string) (*Model, error) {
	f, err := huggingface.Open(path)
	if err != nil {
		return nil, err
	}
	m := &Model{Name: nameOf(path), Config: f.Config, Generation: f.Generation, Notes: f.Notes, Identity: Identity{Policy: "same", Rule: "fma"}}
	if err := m.readTexts(path); err != nil {
		f.Close()
		return nil, err
	}
	if m.Ends == nil {
		m.Ends = []int32{}
		for _, t := range f.Generation.End {
			m.Ends = append(m.Ends, int32(t))
		}
	}
	weights, err := f.Load(q.Device())
	if err != nil {
		f.Close()
		return nil, err
	}
	m.Weights, m.unchanged = weights.Tensors, weights.Unchanged
	m.close = func() error { return errors.Join(weights.Close(), f.Close()) }
	if err := m.identify(); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// readTexts reads the tokenizer and the chat template of a folder.
func (m *Model) readTexts(path string) error {
	words := filepath.Join(path, "tokenizer.json")
	switch t, notes, err := OpenTokenizer(path, m.Config.Vocabulary); {
	case err == nil:
		m.Vocabulary, m.Notes = Words(t), append(m.Notes, notes...)
		if m.Identity.Tokenizer, err = digestOfFile(words); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case m.Config.Vocabulary == data.Vocabulary: // written from a run
		m.Vocabulary, m.Ends, m.Identity.Tokenizer = Bytes{}, []int32{data.Beginning}, data.Bytes.Identity
	default:
		return badInput("%s: it has no tokenizer.json", path)
	}
	t, err := chat.Open(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, chat.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	m.Template = t
	m.Identity.Template, err = digestOfFile(filepath.Join(path, "chat_template.jinja"))
	if errors.Is(err, fs.ErrNotExist) {
		m.Identity.Template, err = digestOfFile(filepath.Join(path, "tokenizer_config.json"))
	}
	return err
}

// OpenTokenizer reads the tokenizer of a folder whose network has a number of tokens. What the folder says against it, and does
// not have, is returned as sentences.
func OpenTokenizer(folder string, vocabulary int) (t *tokenizer.Tokenizer, notes []string, err error) {
	if t, err = tokenizer.Open(filepath.Join(folder, "tokenizer.json")); err != nil {
		return nil, nil, err
	}
	if n := t.Size(); n > vocabulary {
		notes = append(notes, fmt.Sprintf("tokenizer.json has ids up to %d, and the network ids below %d: a text with others is refused", n-1, vocabulary))
	}
	path := filepath.Join(folder, "tokenizer_config.json")
	config, err := readfile.Linked(path, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return t, notes, nil
	}
	if err != nil {
		return nil, nil, err
	}
	more, err := t.CompareConfig(config)
	if err != nil {
		return nil, nil, badInput("%s: %w", path, err)
	}
	for _, n := range more {
		notes = append(notes, "tokenizer_config.json: "+n)
	}
	return t, notes, nil
}

// maxConfig is the size of the largest tokenizer_config.json that is read.
const maxConfig = 1 << 26

func digestOfFile(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
