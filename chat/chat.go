// Package chat writes conversations as the text that a model was trained on, by the chat template
// that its folder brings along, as apply_chat_template of Hugging Face's transformers does.
package chat

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tokitai/chat/jinja"
	"tokitai/internal/jsontree"
	"tokitai/internal/readfile"
)

// Template is a model's chat template. It is safe for concurrent use.
type Template struct {
	plain, tools *jinja.Template        // tools: for conversations with tools, or nil
	special      map[string]jinja.Value // special tokens by their names, such as bos_token
}

// Options configures Render.
type Options struct {
	GenerationPrompt bool      // end with the beginning of an answer
	Now              time.Time // the date for templates that show it; such a template fails without one
}

// FormatError is a file that is malformed or not supported.
type FormatError struct {
	Path string
	Err  error
}

func (e *FormatError) Error() string { return e.Path + ": " + e.Err.Error() }
func (e *FormatError) Unwrap() error { return e.Err }

// ErrNone is the error of a folder that has no chat template.
var ErrNone = errors.New("the folder has no chat template")

const maxFileBytes = 1 << 26

// Open reads the template of a model's folder: chat_template.jinja and those in additional_chat_templates,
// or, without these files, chat_template of tokenizer_config.json. Special tokens are those of
// tokenizer_config.json, and, as in transformers, of special_tokens_map.json in folders whose
// tokenizer_config.json has no added_tokens_decoder, and of the tokenizer's class.
func Open(folder string) (*Template, error) {
	configPath := filepath.Join(folder, "tokenizer_config.json")
	data, err := read(configPath)
	if err != nil {
		return nil, err
	}
	config, err := parseObject(configPath, data)
	if err != nil {
		return nil, err
	}
	t := &Template{special: classTokens(config)}
	if err := t.takeTokens(configPath, config); err != nil {
		return nil, err
	}
	mapPath := filepath.Join(folder, "special_tokens_map.json")
	if data, err := read(mapPath); err == nil && config.Get("added_tokens_decoder") == nil {
		tokens, err := parseObject(mapPath, data)
		if err == nil {
			err = t.takeTokens(mapPath, tokens)
		}
		if err != nil {
			return nil, err
		}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	switch hasFiles, err := t.parseFiles(folder); {
	case err != nil:
		return nil, err
	case hasFiles:
		return t, nil
	}
	if err := t.parse(config.Get("chat_template")); err != nil {
		return nil, &FormatError{configPath, err}
	}
	return t, nil
}

func read(path string) ([]byte, error) {
	return readfile.Linked(path, maxFileBytes)
}

func parseObject(path string, data []byte) (*jsontree.Value, error) {
	v, err := jsontree.Parse(data)
	if err == nil && v.Kind != jsontree.Object {
		err = fmt.Errorf("got %v, want an object", v.Kind)
	}
	if err != nil {
		return nil, &FormatError{path, err}
	}
	return v, nil
}

// parseFiles parses the templates that are files of their own, if there are any.
func (t *Template) parseFiles(folder string) (hasFiles bool, err error) {
	const more = "additional_chat_templates"
	list, err := os.ReadDir(filepath.Join(folder, more))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	for _, e := range list {
		hasFiles = hasFiles || filepath.Ext(e.Name()) == ".jinja"
	}
	for _, file := range []struct {
		path string
		to   **jinja.Template
	}{{"chat_template.jinja", &t.plain}, {filepath.Join(more, "default.jinja"), &t.plain}, {filepath.Join(more, "tool_use.jinja"), &t.tools}} {
		path := filepath.Join(folder, file.path)
		source, err := read(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		hasFiles = true
		if *file.to, err = jinja.Parse(string(source)); err != nil {
			return false, &FormatError{path, err}
		}
	}
	if hasFiles && t.plain == nil {
		return false, &FormatError{filepath.Join(folder, more), errNoDefault}
	}
	return hasFiles, nil
}

var errNoDefault = errors.New("there is no template with the name default")

// parse parses chat_template: a string, or an array of templates with names.
func (t *Template) parse(v *jsontree.Value) (err error) {
	switch {
	case v == nil || v.Kind == jsontree.Null:
		return ErrNone
	case v.Kind == jsontree.String:
		t.plain, err = jinja.Parse(v.Text)
		return inTemplate(err)
	case v.Kind != jsontree.Array:
		return fmt.Errorf("chat_template is %v, want a string or an array", v.Kind)
	}
	for i := range v.List {
		name, source := v.List[i].Get("name"), v.List[i].Get("template")
		if name == nil || source == nil || name.Kind != jsontree.String || source.Kind != jsontree.String {
			return fmt.Errorf("chat_template %d has no name or no template", i)
		}
		switch name.Text {
		case "default":
			t.plain, err = jinja.Parse(source.Text)
		case "tool_use":
			t.tools, err = jinja.Parse(source.Text)
		}
		if err != nil {
			return inTemplate(err)
		}
	}
	if t.plain == nil {
		return inTemplate(errNoDefault)
	}
	return nil
}

func inTemplate(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("chat_template: %w", err)
}

// specialNames are the members of tokenizer_config.json that templates see.
var specialNames = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}

// takeTokens takes special tokens from an object of a file; null takes one away.
func (t *Template) takeTokens(path string, from *jsontree.Value) error {
	for _, name := range specialNames {
		v := from.Get(name)
		if v != nil && v.Kind == jsontree.Object { // older files have all of the added token
			v = v.Get("content")
		}
		switch {
		case v == nil:
		case v.Kind == jsontree.Null:
			delete(t.special, name)
		case v.Kind == jsontree.String:
			t.special[name] = v.Text
		default:
			return &FormatError{path, fmt.Errorf("%s is %v, want a string", name, v.Kind)}
		}
	}
	return nil
}

// classTokens returns the special tokens that a tokenizer's class in transformers has where a file has none.
func classTokens(config *jsontree.Value) map[string]jinja.Value {
	const end = "<|endoftext|>"
	class := ""
	if v := config.Get("tokenizer_class"); v != nil {
		class = strings.TrimSuffix(v.Text, "Fast")
	}
	switch class {
	case "LlamaTokenizer", "CodeLlamaTokenizer":
		return map[string]jinja.Value{"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
	case "GemmaTokenizer":
		return map[string]jinja.Value{"unk_token": "<unk>", "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>"}
	case "Qwen2Tokenizer":
		return map[string]jinja.Value{"unk_token": end, "eos_token": end, "pad_token": end}
	case "GPT2Tokenizer":
		return map[string]jinja.Value{"unk_token": end, "bos_token": end, "eos_token": end}
	}
	return map[string]jinja.Value{}
}

// Render writes a conversation in JSON: an array of messages, or an object with messages and other
// variables of the template, such as tools.
func (t *Template) Render(conversation []byte, o Options) (string, error) {
	root, err := jsontree.Parse(conversation)
	if err != nil {
		return "", err
	}
	variables := map[string]jinja.Value{"tools": nil, "documents": nil, "add_generation_prompt": o.GenerationPrompt}
	for name, v := range t.special {
		variables[name] = v
	}
	if root.Kind == jsontree.Array {
		root = &jsontree.Value{Kind: jsontree.Object, Members: []jsontree.Member{{Name: "messages", Value: *root}}}
	}
	messages := root.Get("messages")
	if messages == nil || messages.Kind != jsontree.Array || len(messages.List) == 0 {
		return "", errors.New("the conversation has no messages: want an array, or an object with messages")
	}
	for _, of := range []struct{ list, one string }{{"messages", "message"}, {"tools", "tool"}, {"documents", "document"}} {
		list := root.Get(of.list)
		if list == nil || list.Kind == jsontree.Null {
			continue
		}
		if list.Kind != jsontree.Array {
			return "", fmt.Errorf("%s is %v, want an array", of.list, list.Kind)
		}
		for i := range list.List {
			if kind := list.List[i].Kind; kind != jsontree.Object {
				return "", fmt.Errorf("%s %d is %v, want an object", of.one, i, kind)
			}
		}
	}
	for i := range messages.List {
		message := &messages.List[i]
		// As transformers does since its version 5.
		message.Members = slices.DeleteFunc(message.Members, func(m jsontree.Member) bool { return m.Value.Kind == jsontree.Null })
		aliasReasoning(message)
	}
	for i := range root.Members {
		m := &root.Members[i]
		if slices.Contains(ofPython, m.Name) {
			return "", fmt.Errorf("%s is no variable of a template but a parameter of apply_chat_template, which is not supported", m.Name)
		}
		if m.Name == "add_generation_prompt" && o.GenerationPrompt {
			return "", errors.New("the conversation and the options both set add_generation_prompt")
		}
		if variables[m.Name], err = valueOf(&m.Value); err != nil {
			return "", fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	template := t.plain
	if t.tools != nil && variables["tools"] != nil {
		template = t.tools
	}
	return template.Render(variables, jinja.Options{Now: o.Now})
}

// ofPython are the parameters of apply_chat_template that no template sees.
var ofPython = []string{"conversation", "chat_template", "continue_final_message", "tokenize", "sanitize_control_tokens", "padding", "truncation", "max_length", "return_tensors", "return_dict", "return_assistant_tokens_mask", "tokenizer_kwargs"}

// aliasReasoning gives a message's reasoning the names under which templates read it, as
// transformers does since its version 5.
func aliasReasoning(message *jsontree.Value) {
	for _, name := range []string{"reasoning_content", "thinking", "reasoning"} {
		v := message.Get(name)
		if v == nil {
			continue
		}
		reasoning := *v
		if message.Get("thinking") == nil {
			message.Members = append([]jsontree.Member{{Name: "thinking", Value: reasoning}}, message.Members...)
		}
		if at := message.Get("reasoning_content"); at != nil {
			*at = reasoning
		} else {
			message.Members = append(message.Members, jsontree.Member{Name: "reasoning_content", Value: reasoning})
		}
		return
	}
}

// valueOf returns JSON as a value of templates.
func valueOf(v *jsontree.Value) (jinja.Value, error) {
	switch v.Kind {
	case jsontree.Null:
		return nil, nil
	case jsontree.Bool:
		return v.Text == "true", nil
	case jsontree.String:
		return v.Text, nil
	case jsontree.Number:
		if n, err := strconv.ParseInt(v.Text, 10, 64); err == nil {
			return n, nil
		}
		f, err := strconv.ParseFloat(v.Text, 64)
		if err != nil || isInteger(v.Text) {
			return nil, fmt.Errorf("the number %s is too large", v.Text)
		}
		return f, nil
	case jsontree.Array:
		list := make(jinja.List, len(v.List))
		for i := range v.List {
			var err error
			if list[i], err = valueOf(&v.List[i]); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	d := &jinja.Dict{}
	for i := range v.Members {
		e, err := valueOf(&v.Members[i].Value)
		if err != nil {
			return nil, err
		}
		d.Set(v.Members[i].Name, e)
	}
	return d, nil
}

// isInteger reports whether a number is written without a point and an exponent.
func isInteger(s string) bool {
	for _, c := range s {
		if c == '.' || c == 'e' || c == 'E' {
			return false
		}
	}
	return true
}
