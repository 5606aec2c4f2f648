package openai

import (
	"encoding/json"
	"fmt"

	"tokitai/answer"
)

// Request is a request for completions, of texts or of a conversation.
type Request struct {
	IsChat  bool
	Prompts []Prompt
	Base    answer.Request // of all of them
	Choices int            // for each
	Echo    bool           // answers begin with the text of the prompt
	Date    string         // that the chat template was given
}

// Prompt is one of them.
type Prompt struct {
	Tokens []int32
	Text   string // for an echo
}

// Limits of a request.
const (
	maxChoices = 128
	maxPrompts = 256
	maxTop     = 20
)

// Defaults are what a request asks for if it does not say.
type Defaults struct {
	Base    answer.Request
	Choices int
	Date    string // for chat templates that show it; "" to refuse these
}

// common takes what both kinds of requests have.
func (m *Members) common(of *answer.Model, d Defaults) *Request {
	r := &Request{Base: d.Base}
	var model string
	if m.Take("model", &model); model != "" && model != of.Name && m.err == nil {
		m.err = &Error{Code: UnknownModel, cause: fmt.Errorf("the model %q does not exist; there is %q", model, of.Name)}
	}
	m.sampling(&r.Base.Sampling)
	if err := r.Base.Sampling.Check(of.Config.Vocabulary); err != nil && m.err == nil {
		m.err = err
	}
	m.stops(&r.Base.Stops)
	r.Choices = m.count("n", d.Choices, 1, maxChoices)
	m.Take("ignore_eos", &r.Base.NoEnd)
	return r
}

// Completion reads a request for completions of texts.
func (m *Members) Completion(of *answer.Model, d Defaults) (*Request, error) {
	r := m.common(of, d)
	r.Base.Most = m.count("max_tokens", d.Base.Most, 0, 1<<30)
	r.Echo = d.Base.Echo
	m.Take("echo", &r.Echo)
	var raw json.RawMessage
	if m.Take("logprobs", &raw) {
		r.Base.Top, r.Base.Logprobs = 0, string(raw) != "false"
		if r.Base.Logprobs && json.Unmarshal(raw, &r.Base.Top) != nil || r.Base.Top < 0 || r.Base.Top > maxTop {
			m.Fail("logprobs", "is %s, want 0 to %d", raw, maxTop)
		}
	}
	if r.Base.Most == 0 && !r.Echo {
		m.Fail("max_tokens", "is 0, want at least 1, or echo to be true")
	}
	r.Base.Echo = r.Echo && r.Base.Logprobs // without logprobs an echo is the text alone
	raw = nil
	if !m.Take("prompt", &raw) {
		m.Fail("prompt", "is missing, want a text, an array of tokens, or an array of these")
	}
	err := m.End()
	if err != nil {
		return nil, err
	}
	r.Prompts, err = promptsOf(of.Vocabulary, raw, r.Echo)
	return r, err
}

// as decodes JSON, and returns nothing unless all of it is of the type.
func as[T any](raw json.RawMessage) (v T, ok bool) {
	if err := json.Unmarshal(raw, &v); err != nil {
		return *new(T), false
	}
	return v, true
}

// promptsOf reads a text, texts, tokens, or arrays of tokens.
func promptsOf(v answer.Vocabulary, raw json.RawMessage, isEcho bool) ([]Prompt, error) {
	text, isText := as[string](raw)
	texts, areTexts := as[[]string](raw)
	tokens, areTokens := as[[]int32](raw)
	lists, areLists := as[[][]int32](raw)
	switch {
	case isText:
		texts = []string{text}
	case areTokens && len(tokens) > 0:
		lists = [][]int32{tokens}
	case !(areTexts && len(texts) > 0) && !(areLists && len(lists) > 0):
		return nil, badParam("prompt", "want a text, an array of tokens, or an array of these, that is not empty")
	}
	if n := len(texts) + len(lists); n > maxPrompts {
		return nil, badParam("prompt", "%d prompts, want at most %d", n, maxPrompts)
	}
	var list []Prompt
	for _, text := range texts {
		tokens, err := v.Encode(text, true)
		if err != nil {
			return nil, badParam("prompt", "%v", err)
		}
		list = append(list, Prompt{tokens, text})
	}
	for _, tokens := range lists {
		p := Prompt{Tokens: tokens}
		if isEcho {
			text, err := answer.TextOf(v, tokens)
			if err != nil {
				return nil, badParam("prompt", "%v", err)
			}
			p.Text = text
		}
		list = append(list, p)
	}
	return list, nil
}
