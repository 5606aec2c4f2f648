package serve

import (
	"cmp"
	"time"

	"tokitai/answer"
	"tokitai/answer/openai"
)

// request is a request for completions.
type request struct {
	*openai.Request
	isStream     bool
	includeUsage bool
}

// mostOfText is how many tokens a completion of a text has if neither a request nor the model's folder says.
const mostOfText = 16

// read reads a request by one of the readers of package openai.
func (s *Server) read(body []byte, most int, reader func(*openai.Members, *answer.Model, openai.Defaults) (*openai.Request, error)) (*request, error) {
	m, err := openai.Parse(body)
	if err != nil {
		return nil, err
	}
	r := new(request)
	m.Take("stream", &r.isStream)
	var options struct {
		IncludeUsage bool `json:"include_usage"`
	}
	if m.Take("stream_options", &options) && !r.isStream {
		m.Fail("stream_options", "want stream to be true")
	}
	r.includeUsage = options.IncludeUsage
	base := answer.Request{Sampling: s.model().Sampling(), Stops: s.model().Stops(), Most: cmp.Or(s.model().Most(), most), Guesses: s.options.Guesses}
	base.Sampling.Seed = answer.Seed()
	r.Request, err = reader(m, s.model(), openai.Defaults{Base: base, Choices: 1, Date: time.Now().UTC().Format(time.DateOnly)})
	return r, err
}

// most returns how many tokens an answer to a prompt can have.
func (s *Server) most(asked int, tokens int) int {
	room := max(1, s.model().Config.Block-tokens)
	if asked < 0 {
		asked = room
	}
	return min(asked, room, s.options.MaxTokens)
}
