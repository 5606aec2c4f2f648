package openai_test

import (
	"reflect"
	"strings"
	"testing"

	"tokitai/answer"
	"tokitai/answer/answertest"
	"tokitai/answer/openai"
)

// TestEveryParameter: requests of both kinds take every parameter, and defaults stand where one is missing or null.
func TestEveryParameter(t *testing.T) {
	m := model(t)
	defaults := openai.Defaults{Base: answer.Request{Sampling: answer.DefaultSampling, Most: 7, Stops: []string{"x"}, Top: 1, Logprobs: true, Guesses: 2}, Choices: 3}
	const sampling = `"temperature":0.5,"top_k":-1,"top_p":0.25,"min_p":0.125,"frequency_penalty":1,"presence_penalty":-1,"repetition_penalty":2,"logit_bias":{"98":1.5,"97":-2},"seed":-1,`
	changed := defaults.Base
	changed.Sampling = answer.Sampling{Temperature: 0.5, TopP: 0.25, MinP: 0.125, Frequency: 1, Presence: -1, Repetition: 2, Bias: []answer.Bias{{Token: 97, Value: -2}, {Token: 98, Value: 1.5}}, Seed: 1<<64 - 1}
	changed.Most, changed.Stops, changed.NoEnd, changed.Top = 5, []string{"q"}, true, 4
	echoed := changed
	echoed.Echo = true
	completion, conversation := (*openai.Members).Completion, (*openai.Members).Conversation
	for _, x := range []struct {
		read func(*openai.Members, *answer.Model, openai.Defaults) (*openai.Request, error)
		body string
		want openai.Request
	}{
		{completion, `{"prompt":"a","temperature":null,"stop":null,"tools":[]}`, openai.Request{Base: defaults.Base, Choices: 3, Prompts: []openai.Prompt{{Tokens: []int32{256, 'a'}, Text: "a"}}}},
		{completion, `{"prompt":[97,98],` + sampling + `"max_tokens":5,"stop":"q","ignore_eos":true,"logprobs":4,"n":2,"echo":true}`, openai.Request{Base: echoed, Choices: 2, Echo: true, Prompts: []openai.Prompt{{Tokens: []int32{'a', 'b'}, Text: "ab"}}}},
		{conversation, `{"messages":[{"role":"user","content":"a"}]}`, openai.Request{IsChat: true, Base: defaults.Base, Choices: 3, Prompts: []openai.Prompt{{Tokens: []int32{'u', 'a'}}}}},
		{conversation, `{"messages":[{"role":"user","content":"a"}],` + sampling + `"max_completion_tokens":5,"stop":["q"],"ignore_eos":true,"top_logprobs":4,"n":2}`, openai.Request{IsChat: true, Base: changed, Choices: 2, Prompts: []openai.Prompt{{Tokens: []int32{'u', 'a'}}}}},
	} {
		members, err := openai.Parse([]byte(x.body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := x.read(members, m, defaults)
		if err != nil {
			t.Errorf("%s: %v", x.body, err)
		} else if !reflect.DeepEqual(*got, x.want) {
			t.Errorf("%s is\n%+v\nwant\n%+v", x.body, *got, x.want)
		}
	}
}

// TestConverse: a prompt that is a text becomes a conversation, and tokens stay what they are.
func TestConverse(t *testing.T) {
	for body, want := range map[string]string{`{"prompt":"a"}`: "sxua", `{"prompt":[97]}`: ""} {
		members, err := openai.Parse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if err := members.Converse("x"); err != nil {
			t.Fatal(err)
		}
		if members.Has("messages") != (want != "") || members.Has("prompt") != (want == "") {
			t.Errorf("%s has other members: %+v", body, members)
		}
		if want == "" {
			continue
		}
		r, err := members.Conversation(model(t), openai.Defaults{Base: answer.Request{Sampling: answer.DefaultSampling, Most: -1}, Choices: 1})
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, token := range r.Prompts[0].Tokens {
			text.WriteRune(token)
		}
		if text.String() != want {
			t.Errorf("the conversation is %q, want %q", text.String(), want)
		}
	}
}

// model returns one whose chat template writes the first letter of each role, and the message.
func model(t *testing.T) *answer.Model {
	t.Helper()
	m, err := answertest.ChatModel("{% for m in messages %}{{ m.role[0] }}{{ m.content }}{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}
