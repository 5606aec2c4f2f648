package serve

import (
	"encoding/json"
	"errors"
	"time"

	"tokitai/answer"
	"tokitai/chat"
	"tokitai/chat/jinja"
)

// request is a request for completions, of a text or of a conversation.
type request struct {
	isChat       bool
	prompts      []prompt
	base         answer.Request // of all of them
	n            int
	isStream     bool
	includeUsage bool
	hasLogprobs  bool
	echo         bool
	date         string
}

// prompt is one of them.
type prompt struct {
	tokens []int32
	text   string // for an echo
}

// Limits of a request.
const (
	maxChoices = 128
	maxPrompts = 256
	maxTop     = 20
)

// common takes what both kinds of requests have.
func (s *Server) common(m *members, r *request) {
	var model string
	if m.take("model", &model); model != "" && model != s.model().Name {
		e := newError(404, badRequest, "model_not_found", "the model %q does not exist; this server has %q", model, s.model().Name)
		if m.err == nil {
			m.err = e
		}
	}
	r.base.Sampling = m.sampling()
	if err := r.base.Sampling.Check(s.model().Config.Vocabulary); err != nil && m.err == nil {
		m.err = err
	}
	r.base.Stops = m.stops()
	r.base.Guesses = s.options.Guesses
	r.n = m.count("n", 1, 1, maxChoices)
	m.take("stream", &r.isStream)
	m.take("ignore_eos", &r.base.NoEnd)
	var options struct {
		IncludeUsage bool `json:"include_usage"`
	}
	if m.take("stream_options", &options) && !r.isStream {
		m.fail("stream_options", "want stream to be true")
	}
	r.includeUsage = options.IncludeUsage
}

// most returns how many tokens an answer to a prompt can have.
func (s *Server) most(asked int, tokens int) int {
	room := max(1, s.model().Config.Block-tokens)
	if asked < 0 {
		asked = room
	}
	return min(asked, room, s.options.MaxTokens)
}

// completion reads a request for completions of texts.
func (s *Server) completion(body []byte) (*request, error) {
	m, err := parseMembers(body)
	if err != nil {
		return nil, err
	}
	r := new(request)
	s.common(m, r)
	r.base.Most = m.count("max_tokens", 16, 0, 1<<30)
	m.take("echo", &r.echo)
	var raw json.RawMessage
	if m.take("logprobs", &raw) && string(raw) != "false" {
		r.hasLogprobs = true
		if json.Unmarshal(raw, &r.base.Top) != nil || r.base.Top < 0 || r.base.Top > maxTop {
			m.fail("logprobs", "is %s, want 0 to %d", raw, maxTop)
		}
	}
	if r.base.Most == 0 && !r.echo {
		m.fail("max_tokens", "is 0, want at least 1, or echo to be true")
	}
	// Without logprobs an echo is the text alone.
	r.base.Echo, r.base.Logprobs = r.echo && r.hasLogprobs, r.hasLogprobs
	raw = nil
	if !m.take("prompt", &raw) {
		m.fail("prompt", "is missing, want a text, an array of tokens, or an array of these")
	}
	if err := m.end(); err != nil {
		return nil, err
	}
	if r.prompts, err = s.promptsOf(raw, r.echo); err != nil {
		return nil, err
	}
	return r, nil
}

// as decodes JSON, and returns nothing unless all of it is of the type.
func as[T any](raw json.RawMessage) (v T, ok bool) {
	if err := json.Unmarshal(raw, &v); err != nil {
		return *new(T), false
	}
	return v, true
}

// promptsOf reads a text, texts, tokens, or arrays of tokens.
func (s *Server) promptsOf(raw json.RawMessage, isEcho bool) ([]prompt, error) {
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
	var list []prompt
	for _, text := range texts {
		tokens, err := s.model().Vocabulary.Encode(text, true)
		if err != nil {
			return nil, badParam("prompt", "%v", err)
		}
		list = append(list, prompt{tokens, text})
	}
	for _, tokens := range lists {
		p := prompt{tokens: tokens}
		if isEcho {
			text := s.model().Vocabulary.Text()
			for _, t := range tokens {
				part, err := text.Next(t)
				if err != nil {
					return nil, badParam("prompt", "%v", err)
				}
				p.text += part
			}
			p.text += text.End()
		}
		list = append(list, p)
	}
	return list, nil
}

// conversation reads a request for a chat completion.
func (s *Server) conversation(body []byte) (*request, error) {
	m, err := parseMembers(body)
	if err != nil {
		return nil, err
	}
	r := &request{isChat: true}
	s.common(m, r)
	r.base.Most = m.count("max_completion_tokens", m.count("max_tokens", -1, 1, 1<<30), 1, 1<<30)
	m.take("logprobs", &r.hasLogprobs)
	r.base.Top = m.count("top_logprobs", 0, 0, maxTop)
	if r.base.Top > 0 && !r.hasLogprobs {
		m.fail("top_logprobs", "want logprobs to be true")
	}
	r.base.Logprobs = r.hasLogprobs
	var messages []map[string]json.RawMessage
	if !m.take("messages", &messages) || len(messages) == 0 {
		m.fail("messages", "want an array of messages")
	}
	variables := map[string]json.RawMessage{}
	m.take("chat_template_kwargs", &variables)
	if err := m.end(); err != nil {
		return nil, err
	}
	for i, message := range messages {
		if err := plainMessage(message); err != nil {
			return nil, badParam("messages", "message %d: %v", i, err)
		}
	}
	if variables["messages"], err = json.Marshal(messages); err != nil {
		return nil, err
	}
	text, err := json.Marshal(variables)
	if err != nil {
		return nil, err
	}
	tokens, err := s.model().Conversation(text, chat.Options{GenerationPrompt: true})
	if errors.Is(err, jinja.ErrNoDate) {
		now := time.Now().UTC()
		r.date = now.Format(time.DateOnly)
		if now, err = time.Parse(time.DateOnly, r.date); err == nil {
			tokens, err = s.model().Conversation(text, chat.Options{GenerationPrompt: true, Now: now})
		}
	}
	if err != nil {
		return nil, badParam("messages", "%v", err)
	}
	r.prompts = []prompt{{tokens: tokens}}
	return r, nil
}

// plainMessage joins the parts of a content that is an array of texts, and refuses other parts.
func plainMessage(message map[string]json.RawMessage) error {
	var role string
	if json.Unmarshal(message["role"], &role) != nil || role == "" {
		return errors.New("it has no role")
	}
	for name, v := range message {
		if (name == "tool_calls" || name == "function_call" || name == "audio") && string(v) != "null" && string(v) != "[]" {
			return errors.New(name + " is not supported by this server")
		}
	}
	var text string
	if json.Unmarshal(message["content"], &text) == nil && string(message["content"]) != "null" {
		return nil
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if json.Unmarshal(message["content"], &parts) != nil || parts == nil {
		return errors.New("content: want a text, or an array of parts of type text")
	}
	for _, p := range parts {
		if p.Type != "text" || p.Text == nil {
			return errors.New("content: a part of type " + p.Type + " is not supported by this server")
		}
		text += *p.Text
	}
	joined, err := json.Marshal(text)
	message["content"] = joined
	return err
}
