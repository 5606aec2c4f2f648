package chat_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tokitai/chat"
	"tokitai/chat/jinja"
)

const config = `{"bos_token":"<s>","eos_token":{"content":"</s>","special":true},"pad_token":null,"model_max_length":1e30}`

// folder writes the files of a model's folder, as pairs of name and content.
func folder(t testing.TB, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(files[i+1]), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const turns = `{{ bos_token }}{% if tools %}tools {{ tools | length }}
{% endif %}{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ m.thinking }}{{ eos_token }}
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}`

func TestRender(t *testing.T) {
	t.Parallel()
	dir := folder(t, "tokenizer_config.json", config, "chat_template.jinja", turns)
	for _, c := range []struct {
		conversation string
		prompt       bool
		want         string
	}{
		{`[{"role":"user","content":"hi"}]`, false, "<s><user>hi</s>\n"},
		{`[{"role":"user","content":"hi"}]`, true, "<s><user>hi</s>\n<assistant>"},
		{`{"messages":[{"role":"user","content":"hi"}],"add_generation_prompt":true}`, false, "<s><user>hi</s>\n<assistant>"},
		{`{"messages":[{"role":"user"}],"tools":[{},{"a":2.5}]}`, false, "<s>tools 2\n<user></s>\n"},
		{`{"messages":[{"role":"user"}],"bos_token":"X"}`, false, "X<user></s>\n"},
		{`[{"role":"assistant","content":"a","reasoning":"r"}]`, false, "<s><assistant>ar</s>\n"},
		{`[{"role":"assistant","content":null,"thinking":null,"reasoning":"r"}]`, false, "<s><assistant>r</s>\n"},
		{`[{"role":"assistant","content":"a","thinking":"t","reasoning_content":"r"}]`, false, "<s><assistant>at</s>\n"},
	} {
		k, err := chat.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := k.Render([]byte(c.conversation), chat.Options{GenerationPrompt: c.prompt}); err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", c.conversation, got, err, c.want)
		}
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	messages := []byte(`{"messages":[{}],"tools":[{}]}`)
	for _, c := range []struct {
		files []string
		want  string
	}{
		{[]string{"tokenizer_config.json", `{"chat_template":"one"}`}, "one"},
		{[]string{"tokenizer_config.json", `{"chat_template":"one"}`, "chat_template.jinja", "two"}, "two"},
		{[]string{"tokenizer_config.json", `{"chat_template":[{"name":"default","template":"d"},{"name":"tool_use","template":"t"}]}`}, "t"},
		{[]string{"tokenizer_config.json", `{"chat_template":"one"}`, "chat_template.jinja", "two", "additional_chat_templates/tool_use.jinja", "three"}, "three"},
		{[]string{"tokenizer_config.json", `{"chat_template":"one"}`, "additional_chat_templates/default.jinja", "two", "additional_chat_templates/rag.jinja", "{% include 'x' %}"}, "two"},
		{[]string{"tokenizer_config.json", `{"chat_template":[{"name":"default","template":"d"},{"name":"rag","template":"{% include 'x' %}"}]}`}, "d"},
	} {
		k, err := chat.Open(folder(t, c.files...))
		if err != nil {
			t.Errorf("%s: %v", c.files, err)
			continue
		}
		if got, err := k.Render(messages, chat.Options{}); err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", c.files, got, err, c.want)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ config, template, conversation, want string }{
		{`{`, "", `[{}]`, "tokenizer_config.json: byte 1: the text ends"},
		{`[{}]`, "", `[{}]`, "got an array, want an object"},
		{`{}`, "", `[{}]`, "the folder has no chat template"},
		{`{"chat_template":7}`, "", `[{}]`, "chat_template is a number, want a string or an array"},
		{`{"chat_template":[{"name":"x","template":"y"}]}`, "", `[{}]`, "no template with the name default"},
		{`{"chat_template":[{"name":"x"}]}`, "", `[{}]`, "chat_template 0 has no name or no template"},
		{`{"chat_template":"\n{% include 'x' %}"}`, "", `[]`, `chat_template: line 2: the statement "include" is not supported`},
		{`{"bos_token":7}`, "x", `[{}]`, "bos_token is a number, want a string"},
		{`{}`, "{{ x | batch }}", `[]`, `chat_template.jinja: line 1: the filter "batch" is not supported`},
		{`{}`, "x", `{}`, "the conversation has no messages"},
		{`{}`, "x", `[]`, "the conversation has no messages"},
		{`{}`, "x", `{"messages":[{}],"tools":[{},7]}`, "tool 1 is a number, want an object"},
		{`{}`, "x", `{"messages":[{}],"documents":"a"}`, "documents is a string, want an array"},
		{`{}`, "x", `{"messages":[{}],"continue_final_message":true}`, "continue_final_message is no variable of a template"},
		{`{}`, "x", `[1]`, "message 0 is a number, want an object"},
		{`{}`, "x", `[{"a":1,"a":2}]`, `duplicate name "a"`},
		{`{}`, "x", `{"messages":[{}],"n":9223372036854775808}`, "n: the number 9223372036854775808 is too large"},
		{`{}`, "{{ raise_exception('no') }}", `[{}]`, "the template refuses: no"},
		{`{}`, "{{ strftime_now('%Y') }}", `[{}]`, "the template asks for the date, and none is given"},
	} {
		files := []string{"tokenizer_config.json", c.config}
		if c.template != "" {
			files = append(files, "chat_template.jinja", c.template)
		}
		k, err := chat.Open(folder(t, files...))
		if err == nil {
			_, err = k.Render([]byte(c.conversation), chat.Options{})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s %s: %v, want %s", c.config, c.template, c.conversation, err, c.want)
		}
	}
	if _, err := chat.Open(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Error("an empty folder:", err)
	}
}

func TestDate(t *testing.T) {
	t.Parallel()
	k, err := chat.Open(folder(t, "tokenizer_config.json", "{}", "chat_template.jinja", "{{ strftime_now('%d %b %Y') }}"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := k.Render([]byte("[{}]"), chat.Options{Now: time.Date(2026, 11, 9, 0, 0, 0, 0, time.UTC)}); err != nil || got != "09 Nov 2026" {
		t.Error(got, err)
	}
	if _, err := k.Render([]byte("[{}]"), chat.Options{}); !errors.Is(err, jinja.ErrNoDate) {
		t.Error(err)
	}
}

// TestSpecialTokens: special tokens are those of tokenizer_config.json, of special_tokens_map.json where the former is as old
// as that, or of the tokenizer's class.
func TestSpecialTokens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ config, tokens, want string }{
		{`{"bos_token":"a","eos_token":{"content":"b"}}`, "", "a b"},
		{`{"bos_token":"a"}`, `{"bos_token":"c","eos_token":{"content":"d"}}`, "c d"},
		{`{"bos_token":"a","added_tokens_decoder":{}}`, `{"bos_token":"c","eos_token":"d"}`, "a "},
		{`{"tokenizer_class":"LlamaTokenizerFast","eos_token":"e"}`, "", "<s> e"},
		{`{"tokenizer_class":"LlamaTokenizer","bos_token":null}`, "", " </s>"},
		{`{"tokenizer_class":"GemmaTokenizer"}`, "", "<bos> <eos>"},
		{`{"tokenizer_class":"Qwen2Tokenizer"}`, "", " <|endoftext|>"},
		{`{"tokenizer_class":"GPT2Tokenizer"}`, "", "<|endoftext|> <|endoftext|>"},
		{`{"tokenizer_class":"PreTrainedTokenizerFast"}`, "", " "},
	} {
		files := []string{"tokenizer_config.json", c.config, "chat_template.jinja", "{{ bos_token }} {{ eos_token }}"}
		if c.tokens != "" {
			files = append(files, "special_tokens_map.json", c.tokens)
		}
		k, err := chat.Open(folder(t, files...))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := k.Render([]byte(`[{}]`), chat.Options{}); err != nil || got != c.want {
			t.Errorf("%s %s: %q, %v, want %q", c.config, c.tokens, got, err, c.want)
		}
	}
}
