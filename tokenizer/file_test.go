package tokenizer_test

import (
	"os"
	"strings"
	"testing"

	"tokitai/tokenizer"
)

// edit replaces a part of a file of testdata, once.
func edit(t *testing.T, family, old, new string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + family + ".json")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(data), old); n == 0 {
		t.Fatalf("%s.json has no %s", family, old)
	}
	return []byte(strings.Replace(string(data), old, new, 1))
}

// TestRefused: every part that is not supported is refused by its name, and so is what contradicts
// itself.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ family, old, new, want string }{
		{"gpt2", `{"version"`, `{"versoin":1,"version"`, `the member "versoin" is not supported`},
		{"gpt2", `"1.0"`, `"2.0"`, `version "2.0" is not supported`},
		{"gpt2", `"truncation":null`, `"truncation":{"max_length":8}`, "truncation is not supported"},
		{"gpt2", `"padding":null`, `"padding":{}`, "padding is not supported"},
		{"gpt2", `"normalizer":null`, `"normalizer":{"type":"Lowercase"}`, "normalizer Lowercase is not supported"},
		{"gpt2", `"normalizer":null`, `"normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"}]}`, "normalizer NFKC is not supported"},
		{"gpt2", `"normalizer":null`, `"normalizer":{"type":"NFC","extra":1}`, `normalizer NFC: the member "extra" is not supported`},
		{"gpt2", `"normalizer":null`, `"normalizer":{"type":"Replace","pattern":{"Regex":"a+"},"content":""}`, "normalizer Replace: a regular expression is not supported"},
		{"gpt2", `"pre_tokenizer":{"type":"ByteLevel"`, `"pre_tokenizer":{"type":"Digits"`, "pre_tokenizer Digits is not supported"},
		{"gpt2", `"pre_tokenizer":{"type":"ByteLevel"`, `"pre_tokenizer":{"kind":"ByteLevel"`, `pre_tokenizer has no member "type"`},
		{"llama3", `\\p{N}{1,3}`, `\\p{N}{1,4}`, `1,4`},
		{"llama3", `"behavior":"Isolated"`, `"behavior":"Removed"`, `behavior "Removed" and invert false is not supported`},
		{"gemma", `"MergedWithPrevious"`, `"Contiguous"`, `behavior "Contiguous" and invert false is not supported`},
		{"mistral", `"prepend_scheme":"first"`, `"prepend_scheme":"last"`, `prepend_scheme "last" is not supported`},
		{"mistral", `"prepend_scheme":"first"`, `"prepend_scheme":"first","add_prefix_space":false`, "add_prefix_space contradicts prepend_scheme first"},
		{"mistral", `"TemplateProcessing"`, `"BertProcessing"`, "post_processor BertProcessing is not supported"},
		{"mistral", `,{"Sequence":{"id":"A","type_id":0}}]`, `]`, "must have the sequence A once"},
		{"mistral", `"ids":[1]`, `"ids":[2]`, "is 2, which is not that of the vocabulary"},
		{"mistral", `"ids":[1]`, `"ids":[1,2]`, "has more ids than tokens"},
		{"mistral", `"Strip","content":" ","start":1,"stop":0`, `"Strip","content":" ","start":1,"stop":1`, "decoder Strip with a stop other than 0 is not supported"},
		{"mistral", `{"type":"Fuse"}`, `{"type":"CTC"}`, "decoder CTC is not supported"},
		{"mistral", `{"type":"ByteFallback"},{"type":"Fuse"}`, `{"type":"Fuse"},{"type":"ByteFallback"}`, "decoder ByteFallback is not supported after Fuse or ByteLevel"},
		{"gpt2", `"model":{"type":"BPE"`, `"model":{"type":"Unigram"`, "model Unigram is not supported"},
		{"gpt2", `"dropout":null`, `"dropout":0.1`, "model BPE with dropout is not supported"},
		{"gpt2", `"dropout":null`, `"dropout":"0"`, "model BPE with dropout is not supported"},
		{"gpt2", `"continuing_subword_prefix":null`, `"continuing_subword_prefix":[]`, "model BPE with continuing_subword_prefix is not supported"},
		{"gpt2", `"continuing_subword_prefix":null`, `"continuing_subword_prefix":"##"`, "model BPE with continuing_subword_prefix is not supported"},
		{"gpt2", `"end_of_word_suffix":null`, `"end_of_word_suffix":"</w>"`, "model BPE with end_of_word_suffix is not supported"},
		{"gpt2", `"unk_token":null`, `"unk_token":"[UNK]"`, `the vocabulary lacks the unk_token "[UNK]"`},
		{"llama2", `"<0x41>":`, `"<0x4_>":`, "the vocabulary lacks <0x41>"},
		{"gpt2", `"!":0,`, `"!":1,`, `both have the id 1`},
		{"gpt2", `"!":0,`, `"!":0,"!":0,`, `duplicate name "!"`},
		{"gpt2", `"!":0,`, `"!":-1,`, "is not an integer from 0 to 2147483647"},
		{"gpt2", `"!":0,`, `"!":2147483648,`, "is not an integer from 0 to 2147483647"},
		{"gpt2", `"!":0,`, `"!":1e3,`, "is not an integer from 0 to 2147483647"},
		{"gpt2", `"!":0,`, `"":0,`, "token 0 is empty"},
		{"gpt2", `"merges":[`, `"merges":[["!","zzz"],`, `merge 0 is of "!" and "zzz", but the vocabulary lacks "zzz"`},
		{"gpt2", `"merges":[`, `"merges":[["!","!"],`, `but the vocabulary lacks "!!"`},
		{"gpt2", `"merges":[`, `"merges":["a b c",`, "merge 0 is not two tokens"},
		{"gpt2", `"merges":[`, `"merges":["Ġ a","Ġ a",`, "merges 0 and 1 are both of"},
		{"gpt2", `"merges":[`, `"merges":7,"other":[`, "merges is a number, want an array"},
		{"gpt2", `"content":"<|endoftext|>"`, `"content":""`, "is empty"},
		{"gpt2", `"content":"<|endoftext|>"`, `"content":"` + strings.Repeat("x", 1025) + `"`, "has 1025 bytes, want at most 1024"},
		{"gpt2", `"special":true`, `"special":1`, "special is a number, want a bool"},
		{"qwen3", `"content":"<|im_end|>"`, `"content":"<|im_start|>"`, `is a second "<|im_start|>"`},
		{"qwen3", `"content":"<|im_end|>"`, `"content":"a"`, `added token "a" has the id`},
		{"gpt2", `"decoder":{"type":"ByteLevel"`, `"decoder":{"type":"WordPiece"`, "decoder WordPiece is not supported"},
		{"gpt2", `"decoder":{`, `"decoder":null,"decoded":{`, "a file without a decoder is not supported"},
	} {
		if _, err := tokenizer.Parse(edit(t, c.family, c.old, c.new)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s.json with %.60s:\n got  %v\n want %s", c.family, c.new, err, c.want)
		}
	}
	whole := edit(t, "llama2", `"version"`, `"version"`)
	for _, n := range []int{0, 1, 10, len(whole) / 2, len(whole) - 1} {
		if _, err := tokenizer.Parse(whole[:n]); err == nil || !strings.Contains(err.Error(), "the text ends") {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	if _, err := tokenizer.Parse([]byte(strings.Repeat("[", 1<<20))); err == nil || !strings.Contains(err.Error(), "in each other") {
		t.Error("deep JSON:", err)
	}
	if _, err := tokenizer.Parse([]byte("[]")); err == nil || !strings.Contains(err.Error(), "got an array, want an object") {
		t.Error("an array:", err)
	}
}

// TestForms: other spellings of the same file give the same ids.
func TestForms(t *testing.T) {
	t.Parallel()
	text := " a b the reader, it's 12345\n\n x"
	for _, c := range []struct{ family, old, new string }{
		{"llama3", `"behavior":"Isolated","invert":false`, `"behavior":"Removed","invert":true`},
		{"gpt2", `"use_regex":true`, `"use_regex":true`},
		{"gpt2", `"type":"BPE",`, ``},
		{"mistral", `"prepend_scheme":"first"`, `"prepend_scheme":"first","add_prefix_space":true`},
		{"gpt2", `["Ġ","t"]`, `"Ġ t"`},
	} {
		want, err := open(t, c.family).Encode(text, tokenizer.EncodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		k, err := tokenizer.Parse(edit(t, c.family, c.old, c.new))
		if err != nil {
			t.Errorf("%s.json with %s: %v", c.family, c.new, err)
			continue
		}
		if got, err := k.Encode(text, tokenizer.EncodeOptions{}); err != nil || !equal(got, want) {
			t.Errorf("%s.json with %s: %v, %v, want %v", c.family, c.new, got, err, want)
		}
	}
}

// TestUnknown: a character without a token is an error, or the unknown token.
func TestUnknown(t *testing.T) {
	t.Parallel()
	k, err := tokenizer.Parse(edit(t, "gpt2", `"Ã":`, `"ÃÃ":`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Encode("aé", tokenizer.EncodeOptions{}); err == nil || !strings.Contains(err.Error(), `the byte 0xC3, which is in "aé"`) {
		t.Error(err)
	}
	data := string(edit(t, "llama2", `"byte_fallback":true`, `"byte_fallback":false`))
	for _, c := range []struct {
		unk, fuse string
		want      []int32
	}{{`"<unk>"`, "true", []int32{1, 0}}, {`"<unk>"`, "false", []int32{1, 0, 0}}, {"null", "true", nil}} {
		k, err := tokenizer.Parse([]byte(strings.NewReplacer(`"unk_token":"<unk>"`, `"unk_token":`+c.unk, `"fuse_unk":true`, `"fuse_unk":`+c.fuse, `{"type":"Prepend","prepend":"▁"},`, "").Replace(data)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := k.Encode("☃☄", tokenizer.EncodeOptions{})
		if c.want == nil && (err == nil || !strings.Contains(err.Error(), "no token for '☃' (U+2603), and no unknown token")) || c.want != nil && !equal(got, c.want) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}

func equal(a, b []int32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// FuzzParse: no file makes Parse or what it returns panic.
func FuzzParse(f *testing.F) {
	for _, family := range families {
		data, err := os.ReadFile("testdata/" + family + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, "it's é 12345 <s>")
	}
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		k, err := tokenizer.Parse(data)
		if err != nil {
			return
		}
		ids, err := k.Encode(text, tokenizer.EncodeOptions{})
		if err != nil {
			return
		}
		if _, err := k.Decode(ids, tokenizer.DecodeOptions{}); err != nil {
			t.Errorf("%q: %v of its own ids", text, err)
		}
	})
}

// FuzzText: a byte-level tokenizer without a normalizer gives every text back.
func FuzzText(f *testing.F) {
	f.Add("it's é 12345\n\n <|endoftext|> \u0301")
	var all []*tokenizer.Tokenizer
	for _, family := range []string{"gpt2", "llama3", "llama4", "tekken"} {
		all = append(all, open(f, family))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for i, k := range all {
			ids, err := k.Encode(text, tokenizer.EncodeOptions{NoSpecial: true})
			if err != nil {
				if strings.ToValidUTF8(text, "") == text {
					t.Errorf("%d: %q: %v", i, text, err)
				}
				continue
			}
			if back, err := k.Decode(ids, tokenizer.DecodeOptions{}); err != nil || back != text {
				t.Errorf("%d: %q comes back as %q, %v", i, text, back, err)
			}
		}
	})
}
