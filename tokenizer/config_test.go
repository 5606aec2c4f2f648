package tokenizer_test

import (
	"strconv"
	"strings"
	"testing"

	"tokitai/tokenizer"
)

// TestCompareConfig: what tokenizer_config.json says against tokenizer.json is an error or a note.
func TestCompareConfig(t *testing.T) {
	t.Parallel()
	k := open(t, "llama3") // with <|begin_of_text|> in front, and <|eot_id|>
	begin, _ := k.Encode("", tokenizer.EncodeOptions{})
	for _, c := range []struct{ config, notes, err string }{
		{`{}`, "", ""},
		{`{"bos_token":"<|begin_of_text|>","eos_token":{"content":"<|eot_id|>"},"add_bos_token":true,"add_eos_token":false}`, "", ""},
		{`{"bos_token":"<|begin_of_text|>","add_bos_token":false}`, `add_bos_token is false, and tokenizer.json, which is followed, adds "<|begin_of_text|>"`, ""},
		{`{"eos_token":"<|eot_id|>","add_eos_token":true}`, `add_eos_token is true, and tokenizer.json, which is followed, adds no "<|eot_id|>"`, ""},
		{`{"pad_token":"<pad>"}`, `pad_token is "<pad>", which is no token of tokenizer.json`, ""},
		{`{"split_special_tokens":true}`, "split_special_tokens is true, which is not supported", ""},
		{`{"added_tokens_decoder":{"ID":{"content":"<|begin_of_text|>"}}}`, "", ""},
		{`{"added_tokens_decoder":{"ID":{"content":"<s>"}}}`, "", `"<s>" has the id ID, which is "<|begin_of_text|>" in tokenizer.json`},
		{`{"added_tokens_decoder":{"99999":{"content":"<s>"}}}`, "", `"<s>" has the id 99999, which no token of tokenizer.json has`},
		{`{"added_tokens_decoder":{"x":{"content":"<s>"}}}`, "", `"x" is no token with an id`},
		{`[]`, "", "got an array, want an object"},
	} {
		id := func(s string) string { return strings.ReplaceAll(s, "ID", strconv.Itoa(int(begin[0]))) }
		notes, err := k.CompareConfig([]byte(id(c.config)))
		if got := strings.Join(notes, "; "); !strings.HasPrefix(got, c.notes) || c.notes == "" && got != "" {
			t.Errorf("%s: notes %q, want %q", c.config, got, c.notes)
		}
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), id(c.err))) {
			t.Errorf("%s: %v, want %q", c.config, err, c.err)
		}
	}
}
