package answer_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tokitai/answer"
	"tokitai/model/huggingface"
)

// TestFolderSampling: tokens are drawn as generation_config.json says, if it says anything about it.
func TestFolderSampling(t *testing.T) {
	t.Parallel()
	with := func(change func(s *answer.Sampling)) answer.Sampling {
		s := answer.DefaultSampling
		change(&s)
		return s
	}
	for text, want := range map[string]answer.Sampling{
		`{"eos_token_id": 2}`:                      answer.DefaultSampling,
		`{"do_sample": false, "temperature": 0.5}`: with(func(s *answer.Sampling) { s.Temperature = 0 }),
		`{"repetition_penalty": 1.2}`:              with(func(s *answer.Sampling) { s.Temperature, s.Repetition = 0, 1.2 }),
		`{"do_sample": true, "temperature": 0.5, "top_k": 7, "top_p": 0.9, "min_p": 0.1}`:                   with(func(s *answer.Sampling) { s.Temperature, s.TopK, s.TopP, s.MinP = 0.5, 7, 0.9, 0.1 }),
		`{"do_sample": true, "repetition_penalty": 1.1, "temperature": null, "top_k": 0, "new_one": "new"}`: with(func(s *answer.Sampling) { s.Repetition = 1.1 }),
	} {
		g, err := huggingface.ParseGeneration([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		m := &answer.Model{Generation: g}
		if got := m.Sampling(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	g, err := huggingface.ParseGeneration([]byte(`{"max_new_tokens": 7, "max_length": 20}`))
	if err != nil {
		t.Fatal(err)
	}
	if n, none := (&answer.Model{Generation: g}).Most(), new(answer.Model).Most(); n != 7 || none != 0 {
		t.Errorf("answers have at most %d tokens, and without a folder %d: want 7 and 0", n, none)
	}
	if got := new(answer.Model).Sampling(); !reflect.DeepEqual(got, answer.DefaultSampling) {
		t.Errorf("without a folder: %+v", got)
	}
}

// TestOpenTokenizer: what a folder says against its tokenizer is told.
func TestOpenTokenizer(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	text, err := os.ReadFile("../tokenizer/testdata/llama3.json")
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	put("tokenizer.json", text)
	k, notes, err := answer.OpenTokenizer(folder, 1000)
	if err != nil || len(notes) > 0 {
		t.Fatal(notes, err)
	}
	put("tokenizer_config.json", []byte(`{"bos_token":"<|begin_of_text|>","add_bos_token":false}`))
	_, notes, err = answer.OpenTokenizer(folder, k.Size()-1)
	if got := strings.Join(notes, "; "); err != nil || !strings.Contains(got, "a text with others is refused; tokenizer_config.json: add_bos_token is false") {
		t.Errorf("notes %q, %v", got, err)
	}
	put("tokenizer_config.json", []byte(`{"added_tokens_decoder":{"0":{"content":"<s>"}}}`))
	if _, _, err = answer.OpenTokenizer(folder, 1000); err == nil || !strings.Contains(err.Error(), `tokenizer_config.json: added_tokens_decoder: "<s>" has the id 0, which is`) {
		t.Error(err)
	}
}
