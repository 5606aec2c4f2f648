package serve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"tokitai/answer"
	"tokitai/answer/openai"
)

func (s *Server) serveCompletions(x *exchange) error {
	r, err := s.read(x.body, mostOfText, (*openai.Members).Completion)
	if err != nil {
		return err
	}
	return s.complete(x, r)
}

func (s *Server) serveChat(x *exchange) error {
	r, err := s.read(x.body, -1, (*openai.Members).Conversation)
	if err != nil {
		return err
	}
	return s.complete(x, r)
}

// complete answers all prompts of a request, together.
func (s *Server) complete(x *exchange, r *request) error {
	if n, most := len(r.Prompts)*r.Choices, s.engine.Limits().Most(); n > most {
		return newError(http.StatusBadRequest, badRequest, "", "%d answers are asked for in one request, want at most %d: that many this server computes or lets wait", n, most)
	}
	ctx, cancel := context.WithTimeout(x.request.Context(), s.options.MaxTime)
	defer cancel()
	c := &completion{server: s, x: x, r: r, left: len(r.Prompts) * r.Choices, offsets: make([]int, len(r.Prompts)*r.Choices)}
	c.template = reply{ID: "cmpl-" + x.id, Object: "text_completion", Created: time.Now().Unix(), Model: s.model().Name, Fingerprint: s.model().Identity.Fingerprint()}
	if r.IsChat {
		c.template.ID, c.template.Object = "chatcmpl-"+x.id, "chat.completion"
		if r.isStream {
			c.template.Object = "chat.completion.chunk"
		}
	}
	lists, receipts, err := c.compute(ctx)
	if reporter := s.reporter.Load(); reporter != nil {
		reporter.tell(s.engine) // before the client knows the end
	}
	for _, list := range lists {
		for i := range list {
			x.output += outputs(list[i].Events)
		}
	}
	if err != nil && ctx.Err() != nil && x.request.Context().Err() == nil {
		err = ctx.Err() // too slow, and not the client's wish
	}
	if err != nil {
		if x.status != 0 && x.request.Context().Err() == nil { // in the middle of a stream
			c.send(map[string]any{"error": errorOf(err)})
		}
		return err
	}
	if r.isStream {
		return c.endStream(lists, receipts)
	}
	full := c.template
	full.Usage = c.usage(lists)
	full.setReceipts(receipts)
	for p := range lists {
		for i := range lists[p] {
			one := &lists[p][i]
			offset := 0
			choice := replyChoice{Index: p*r.Choices + i, Finish: &one.Finish, Logprobs: s.logprobs(r, one.Events, &offset)}
			text := one.Text
			if r.Echo {
				text = r.Prompts[p].Text + text
			}
			if r.IsChat {
				choice.Message = &replyMessage{"assistant", &text}
			} else {
				choice.Text = &text
			}
			full.Choices = append(full.Choices, choice)
		}
	}
	x.control.SetWriteDeadline(time.Now().Add(x.stall))
	return writeJSON(x, http.StatusOK, full)
}

func (r *reply) setReceipts(list []*answer.Receipt) {
	if len(list) == 1 {
		r.Receipt = list[0]
	} else {
		r.Receipts = list
	}
}

// outputs returns the number of events that are no prompt.
func outputs(events []answer.Event) int {
	n := 0
	for i := range events {
		if !events[i].IsPrompt {
			n++
		}
	}
	return n
}

// completion is a request that is being answered.
type completion struct {
	server   *Server
	x        *exchange
	r        *request
	template reply

	mu      sync.Mutex
	left    int          // choices that have not ended
	last    *replyChoice // the end of the last of them, which waits for the receipts
	offsets []int        // of logprobs, by choice
}

// compute computes all choices, by prompt.
func (c *completion) compute(ctx context.Context) ([][]answer.Completed, []*answer.Receipt, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := len(c.r.Prompts)
	lists, receipts, errs := make([][]answer.Completed, n), make([]*answer.Receipt, n), make([]error, n)
	var all sync.WaitGroup
	for p := range c.r.Prompts {
		request := c.r.Base
		request.Prompt, request.Salt = c.r.Prompts[p].Tokens, c.x.salt
		request.Most = c.server.most(request.Most, len(request.Prompt))
		c.x.prompt += len(request.Prompt)
		var tell func(int, *answer.Event, string) error
		if c.r.isStream {
			tell = func(choice int, event *answer.Event, finish string) error { return c.tell(p, choice, event, finish) }
		}
		all.Go(func() {
			lists[p], receipts[p], errs[p] = c.server.engine.Complete(ctx, request, c.r.Choices, tell)
			if errs[p] != nil {
				cancel()
				return
			}
			receipts[p].Date = c.r.Date
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return lists, receipts, err
		}
	}
	return lists, receipts, errors.Join(errs...)
}

// tell streams an event of a choice.
func (c *completion) tell(p, choice int, event *answer.Event, finish string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := p*c.r.Choices + choice
	if c.x.status == 0 {
		c.x.Header().Set("Content-Type", "text/event-stream")
		c.x.Header().Set("Cache-Control", "no-cache")
		c.x.WriteHeader(http.StatusOK)
	}
	if c.offsets[at] == 0 { // the first of this choice
		c.offsets[at] = 1
		empty := ""
		first := replyChoice{Index: at, Logprobs: none}
		switch {
		case c.r.IsChat:
			first.Delta = &replyMessage{"assistant", &empty}
			if err := c.sendChoice(first); err != nil {
				return err
			}
		case c.r.Echo:
			first.Text = &c.r.Prompts[p].Text
			if err := c.sendChoice(first); err != nil {
				return err
			}
		}
	}
	text := event.Text
	one := replyChoice{Index: at, Logprobs: none}
	if event.Token >= 0 {
		if c.r.Base.Logprobs {
			offset := c.offsets[at] - 1
			one.Logprobs = c.server.logprobs(c.r, []answer.Event{*event}, &offset)
			c.offsets[at] = offset + 1
		}
		if text == "" && !c.r.Base.Logprobs {
			return nil
		}
	}
	if c.r.IsChat {
		one.Delta = &replyMessage{Content: &text}
		if event.Token < 0 && text == "" {
			one.Delta = &replyMessage{}
		}
	} else {
		one.Text = &text
	}
	if event.Token < 0 {
		one.Finish = &finish
		if c.left--; c.left == 0 {
			c.last = &one
			return nil
		}
	}
	return c.sendChoice(one)
}

func (c *completion) sendChoice(one replyChoice) error {
	chunk := c.template
	chunk.Choices = []replyChoice{one}
	return c.send(chunk)
}

// send writes an event of a stream.
func (c *completion) send(v any) error {
	return c.x.write(event(v))
}

// event returns an event of a stream.
func event(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // numbers and texts
	}
	return append(append([]byte("data: "), text...), "\n\n"...)
}

// endStream writes the end of the last choice, with the receipts, or behind it the usage with these.
func (c *completion) endStream(lists [][]answer.Completed, receipts []*answer.Receipt) error {
	chunk := c.template
	chunk.Choices = []replyChoice{*c.last}
	if c.r.includeUsage {
		if err := c.send(chunk); err != nil {
			return err
		}
		chunk.Choices, chunk.Usage = []replyChoice{}, c.usage(lists)
	}
	chunk.setReceipts(receipts)
	if err := c.send(chunk); err != nil {
		return err
	}
	return c.x.write([]byte("data: [DONE]\n\n"))
}

func (c *completion) usage(lists [][]answer.Completed) *usage {
	u := new(usage)
	for p, list := range lists {
		u.Prompt += len(c.r.Prompts[p].Tokens)
		for i := range list {
			u.Completion += outputs(list[i].Events)
		}
		u.Details.Cached += list[0].Cached
	}
	u.Total = u.Prompt + u.Completion
	return u
}

// serveReplay computes the answers of a receipt again.
func (s *Server) serveReplay(x *exchange) error {
	receipts, err := answer.ReadReceipts(x.body)
	if err != nil {
		return err
	}
	if len(receipts) == 0 {
		return newError(http.StatusBadRequest, badRequest, "", "the body has no receipt")
	}
	ctx, cancel := context.WithTimeout(x.request.Context(), s.options.MaxTime)
	defer cancel()
	began, tokens := time.Now(), 0
	for _, r := range receipts {
		n, err := answer.Replay(ctx, s.engine, r, nil)
		tokens += n
		if d, ok := errors.AsType[*answer.Difference](err); ok {
			return writeJSON(x, http.StatusOK, map[string]any{"same": false, "tokens": tokens, "difference": d})
		}
		if err != nil {
			return err
		}
	}
	return writeJSON(x, http.StatusOK, map[string]any{"same": true, "tokens": tokens, "seconds": time.Since(began).Seconds()})
}
