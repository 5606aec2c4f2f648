package openai

import (
	"encoding/json"
	"errors"
	"time"

	"tokitai/answer"
	"tokitai/chat"
	"tokitai/chat/jinja"
)

// Converse makes a prompt that is a text the last message of a conversation, which begins with a message of the
// system if there is one.
func (m *Members) Converse(system string) error {
	text, isText := as[string](m.left["prompt"])
	if !isText {
		return nil
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	list := []message{{"user", text}}
	if system != "" {
		list = append([]message{{"system", system}}, list...)
	}
	delete(m.left, "prompt")
	var err error
	m.left["messages"], err = json.Marshal(list)
	return err
}

// Conversation reads a request for a chat completion.
func (m *Members) Conversation(of *answer.Model, d Defaults) (*Request, error) {
	r := m.common(of, d)
	r.IsChat = true
	r.Base.Echo = false
	r.Base.Most = m.count("max_completion_tokens", m.count("max_tokens", d.Base.Most, 1, 1<<30), 1, 1<<30)
	m.Take("logprobs", &r.Base.Logprobs)
	r.Base.Top = m.count("top_logprobs", d.Base.Top, 0, maxTop)
	if r.Base.Top > 0 && !r.Base.Logprobs {
		m.Fail("top_logprobs", "want logprobs to be true")
	}
	var messages []map[string]json.RawMessage
	if !m.Take("messages", &messages) || len(messages) == 0 {
		m.Fail("messages", "want an array of messages")
	}
	variables := map[string]json.RawMessage{}
	m.Take("chat_template_kwargs", &variables)
	err := m.End()
	if err != nil {
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
	tokens, err := r.render(of, text, d.Date)
	if err != nil {
		return nil, badParam("messages", "%w", err)
	}
	r.Prompts = []Prompt{{Tokens: tokens}}
	return r, nil
}

// render returns the tokens of a conversation. It gives the template the date if that shows it.
func (r *Request) render(of *answer.Model, conversation []byte, date string) ([]int32, error) {
	options := chat.Options{GenerationPrompt: true}
	tokens, err := of.Conversation(conversation, options)
	if date == "" || !errors.Is(err, jinja.ErrNoDate) {
		return tokens, err
	}
	if options.Now, err = time.Parse(time.DateOnly, date); err != nil {
		return nil, err
	}
	r.Date = date
	return of.Conversation(conversation, options)
}

// plainMessage joins the parts of a content that is an array of texts, and refuses other parts.
func plainMessage(message map[string]json.RawMessage) error {
	var role string
	if json.Unmarshal(message["role"], &role) != nil || role == "" {
		return errors.New("it has no role")
	}
	for name, v := range message {
		if (name == "tool_calls" || name == "function_call" || name == "audio") && string(v) != "null" && string(v) != "[]" {
			return errors.New(name + " is not supported")
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
			return errors.New("content: a part of type " + p.Type + " is not supported")
		}
		text += *p.Text
	}
	joined, err := json.Marshal(text)
	message["content"] = joined
	return err
}
