package tokenizer

import (
	"fmt"
	"slices"

	"tokitai/internal/jsontree"
)

// CompareConfig compares the tokenizer with the text of a tokenizer_config.json, which repeats parts of it. It refuses one that
// gives an id to another token. What the file asks for in vain is returned as sentences: tokenizer.json is followed, as
// transformers does since its version 5.
func (t *Tokenizer) CompareConfig(text []byte) (notes []string, err error) {
	config, err := jsontree.Parse(text)
	if err != nil {
		return nil, err
	}
	if config.Kind != jsontree.Object {
		return nil, fmt.Errorf("got %v, want an object", config.Kind)
	}
	ids := map[string]int32{}
	for id, token := range t.tokens {
		ids[token.text] = id
	}
	if v := config.Get("added_tokens_decoder"); v != nil && v.Kind == jsontree.Object {
		for i := range v.Members {
			m := &v.Members[i]
			id, isID := parseID(m.Name)
			content := textIn(&m.Value)
			switch token, ok := t.tokens[id]; {
			case !isID || content == "":
				return nil, fmt.Errorf("added_tokens_decoder: %s is no token with an id", quote(m.Name))
			case !ok:
				return nil, fmt.Errorf("added_tokens_decoder: %s has the id %d, which no token of tokenizer.json has", quote(content), id)
			case token.text != content && t.normalize(content) != token.text:
				return nil, fmt.Errorf("added_tokens_decoder: %s has the id %d, which is %s in tokenizer.json", quote(content), id, quote(token.text))
			}
		}
	}
	for _, x := range []struct {
		token, flag string
		added       []int32
	}{{"bos_token", "add_bos_token", t.template.before}, {"eos_token", "add_eos_token", t.template.after}, {"unk_token", "", nil}, {"pad_token", "", nil}} {
		content := textIn(config.Get(x.token))
		if content == "" {
			continue
		}
		id, ok := ids[content]
		if !ok {
			notes = append(notes, fmt.Sprintf("%s is %s, which is no token of tokenizer.json", x.token, quote(content)))
			continue
		}
		flag := config.Get(x.flag)
		if x.flag == "" || flag == nil || flag.Kind != jsontree.Bool {
			continue
		}
		if isAdded := slices.Contains(x.added, id); isAdded != (flag.Text == "true") {
			notes = append(notes, fmt.Sprintf("%s is %s, and tokenizer.json, which is followed, adds %s", x.flag, flag.Text, map[bool]string{true: quote(content), false: "no " + quote(content)}[isAdded]))
		}
	}
	if v := config.Get("split_special_tokens"); v != nil && v.Text == "true" {
		notes = append(notes, "split_special_tokens is true, which is not supported: special tokens in a text are found")
	}
	return notes, nil
}

// textIn returns a string, or the content of an added token, or "".
func textIn(v *jsontree.Value) string {
	if v != nil && v.Kind == jsontree.Object {
		v = v.Get("content")
	}
	if v == nil || v.Kind != jsontree.String {
		return ""
	}
	return v.Text
}
