package answer

import (
	"context"
	"strings"
	"sync"
)

// Request asks for one answer. Several answers to the same prompt are several requests whose Choice differs.
type Request struct {
	Prompt   []int32
	Choice   int
	Sampling Sampling
	Most     int      // tokens of the answer; 0 computes the prompt alone
	Stops    []string // texts that end the answer, and are not part of it
	NoEnd    bool     // go on behind tokens that end an answer
	Logprobs bool     // tell the logprob of each token
	Top      int      // with Logprobs, how many of the likeliest tokens to tell at each position
	Echo     bool     // tell the tokens of the prompt too
	Salt     string   // prefixes are shared among requests of the same salt alone
	Guesses  int      // tokens to guess at a time; 0 for none

	// Given is an answer that is to be computed again. Every token of it is told, with the one that is drawn.
	Given []int32
}

// Event is a token of an answer, or of its prompt.
type Event struct {
	Token    int32
	Position int     // of the token
	IsPrompt bool    // it was given
	Drawn    int32   // of a request with Given: the token that is drawn at this position
	Text     string  // that is certain with this token and was not before
	Logprob  float32 // of the first token of a prompt: 0, and no row
	Top      []Likely
	Checksum uint64 // of the row of logits that the token was drawn from
	HasRow   bool
}

// Likely is a token with its logprob.
type Likely struct {
	Token   int32
	Logprob float32
}

// Reasons for which answers end.
const (
	FinishStop   = "stop"   // a token or a text that ends an answer
	FinishLength = "length" // as many tokens as were asked for, or as fit
)

// Outcome is how an answer has ended.
type Outcome struct {
	Finish string
	Text   string // the rest of the text
	Cached int    // tokens of the prompt whose keys were reused
}

// Answer is an answer that is being computed.
type Answer struct {
	request Request
	ctx     context.Context
	cancel  context.CancelFunc

	mu      sync.Mutex
	events  []Event
	outcome *Outcome
	err     error
	ready   chan struct{}
}

// Next returns the next events: at least one, all that there are, or none together with the outcome.
func (a *Answer) Next() ([]Event, *Outcome, error) {
	for {
		a.mu.Lock()
		events, outcome, err := a.events, a.outcome, a.err
		a.events = nil
		a.mu.Unlock()
		switch {
		case len(events) > 0:
			return events, nil, nil
		case err != nil:
			return nil, nil, err
		case outcome != nil:
			return nil, outcome, nil
		}
		<-a.ready
	}
}

// Cancel ends the answer. Next returns an error then.
func (a *Answer) Cancel() { a.cancel() }

func (a *Answer) add(e Event) {
	a.mu.Lock()
	a.events = append(a.events, e)
	a.mu.Unlock()
	a.wake()
}

func (a *Answer) end(o *Outcome, err error) {
	a.mu.Lock()
	if a.outcome == nil && a.err == nil {
		a.outcome, a.err = o, err
	}
	a.mu.Unlock()
	a.wake()
	a.cancel()
}

func (a *Answer) wake() {
	select {
	case a.ready <- struct{}{}:
	default:
	}
}

// stopper holds back text that may be the beginning of a stop.
type stopper struct {
	stops []string
	held  string
}

// add adds text, and returns what is certain. At a stop it returns the text in front of it.
func (s *stopper) add(text string) (certain string, isStopped bool) {
	if len(s.stops) == 0 {
		return text, false
	}
	s.held += text
	first := -1
	for _, stop := range s.stops {
		if i := strings.Index(s.held, stop); i >= 0 && (first < 0 || i < first) {
			first = i
		}
	}
	if first >= 0 {
		certain, s.held = s.held[:first], ""
		return certain, true
	}
	keep := 0
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(s.held)); n > keep; n-- {
			if strings.HasSuffix(s.held, stop[:n]) {
				keep = n
				break
			}
		}
	}
	certain, s.held = s.held[:len(s.held)-keep], s.held[len(s.held)-keep:]
	return certain, false
}

// end returns what was held back.
func (s *stopper) end() string {
	text := s.held
	s.held = ""
	return text
}
