// Package chat writes conversations as the text that a model was trained on, by the chat template
// that its folder brings along, as apply_chat_template of Hugging Face's transformers does.
package chat

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
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

// Open reads the template of a model's folder: chat_template.jinja, or chat_template of
// tokenizer_config.json. Special tokens are those of tokenizer_config.json.
func Open(folder string) (*Template, error) {
	configPath := filepath.Join(folder, "tokenizer_config.json")
	data, err := read(configPath)
	if err != nil {
		return nil, err
	}
	config, err := jsontree.Parse(data)
	if err == nil && config.Kind != jsontree.Object {
		err = fmt.Errorf("got %v, want an object", config.Kind)
	}
	if err != nil {
		return nil, &FormatError{configPath, err}
	}
	t := &Template{}
	if t.special, err = specialTokens(config); err != nil {
		return nil, &FormatError{configPath, err}
	}
	path := filepath.Join(folder, "chat_template.jinja")
	switch source, err := read(path); {
	case err == nil:
		if t.plain, err = jinja.Parse(string(source)); err != nil {
			return nil, &FormatError{path, err}
		}
		return t, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if err := t.parse(config.Get("chat_template")); err != nil {
		return nil, &FormatError{configPath, err}
	}
	return t, nil
}

func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readfile.Whole(path, file, maxFileBytes)
}

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
		return errors.New("chat_template has no template with the name default")
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

func specialTokens(config *jsontree.Value) (map[string]jinja.Value, error) {
	tokens := map[string]jinja.Value{}
	for _, name := range specialNames {
		v := config.Get(name)
		if v != nil && v.Kind == jsontree.Object { // older files have all of the added token
			v = v.Get("content")
		}
		switch {
		case v == nil || v.Kind == jsontree.Null:
		case v.Kind == jsontree.String:
			tokens[name] = v.Text
		default:
			return nil, fmt.Errorf("%s is %v, want a string", name, v.Kind)
		}
	}
	return tokens, nil
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
	if messages == nil || messages.Kind != jsontree.Array {
		return "", errors.New("the conversation has no messages: want an array, or an object with messages")
	}
	for i := range messages.List {
		if messages.List[i].Kind != jsontree.Object {
			return "", fmt.Errorf("message %d is %v, want an object", i, messages.List[i].Kind)
		}
		aliasReasoning(&messages.List[i])
	}
	for i := range root.Members {
		m := &root.Members[i]
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

// aliasReasoning gives a message's reasoning the names under which templates read it, as
// transformers does since its version 5.
func aliasReasoning(message *jsontree.Value) {
	for _, name := range []string{"reasoning_content", "thinking", "reasoning"} {
		v := message.Get(name)
		if v == nil || v.Kind == jsontree.Null {
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
