package answer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"tokitai/chat"
	"tokitai/data"
	"tokitai/engine"
	"tokitai/model/huggingface"
	"tokitai/tokenizer"
)

// loadFolder reads a folder as the library transformers keeps models.
func loadFolder(q *engine.Queue, path string) (*Model, error) {
	f, err := huggingface.Open(path)
	if err != nil {
		return nil, err
	}
	m := &Model{Name: nameOf(path), Config: f.Config, Identity: Identity{Policy: "same", Rule: "fma"}}
	if err := m.readTexts(path); err != nil {
		f.Close()
		return nil, err
	}
	if m.Ends == nil {
		if m.Ends, err = endsOf(path, f); err != nil {
			f.Close()
			return nil, err
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
	switch t, err := tokenizer.Open(words); {
	case err == nil:
		m.Vocabulary = Words(t)
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

func digestOfFile(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// endsOf returns the tokens that end an answer: those of generation_config.json, else of config.json.
func endsOf(path string, f *huggingface.Folder) ([]int32, error) {
	var ends []int
	if f.Generation != nil {
		ends = f.Generation.End
	}
	if len(ends) == 0 {
		text, err := os.ReadFile(filepath.Join(path, "config.json"))
		if err != nil {
			return nil, err
		}
		var config struct {
			End json.RawMessage `json:"eos_token_id"`
		}
		if err := json.Unmarshal(text, &config); err != nil {
			return nil, badInput("%s: config.json: %w", path, err)
		}
		var one *int
		if json.Unmarshal(config.End, &one) == nil && one != nil {
			ends = []int{*one}
		} else {
			json.Unmarshal(config.End, &ends) // null, or a list
		}
	}
	list := []int32{}
	for _, t := range ends {
		list = append(list, int32(t))
	}
	return list, nil
}
