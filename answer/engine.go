package answer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"tokitai/device"
	"tokitai/engine"
	"tokitai/model"
)

// Limits say how much an engine computes at once.
type Limits struct {
	Sequences int           // that are computed together
	Tokens    int           // of a step
	Rows      int           // of logits in a step
	Pages     int           // of the caches; 0 for as many as the sequences can fill
	PageSize  int           // tokens of a page
	Waiting   int           // requests that wait for their turn; more are refused
	Queued    time.Duration // for which a request waits at most; 0 for any time
	NoReuse   bool          // compute every prompt from its first token on
}

// DefaultLimits suit a small machine.
var DefaultLimits = Limits{Sequences: 16, Tokens: 256, Rows: 64, PageSize: 64, Waiting: 256}

// Widen raises the tokens and rows of a step to the least that the sequences need.
func (l *Limits) Widen() { l.Tokens, l.Rows = max(l.Tokens, l.Sequences), max(l.Rows, l.Sequences) }

// Most returns how many answers an engine computes and lets wait at once.
func (l Limits) Most() int { return l.Sequences + l.Waiting }

// Errors of requests that are not computed.
var (
	ErrBusy     = errors.New("too many requests are waiting")
	ErrClosed   = errors.New("the engine has been closed")
	ErrTooLong  = errors.New("too many tokens")
	ErrNoNumber = errors.New("the logits are no finite numbers")
)

// Engine computes answers, many at once. Its methods are safe for concurrent use.
type Engine struct {
	model   *Model
	limits  Limits
	runner  *runner
	drafter *drafter // nil without a draft

	mu       sync.Mutex
	waiting  []*sequence // preempted ones in front
	arrived  int64
	isClosed bool // takes no more requests
	isEnding bool // ends those that it has
	wake     chan struct{}
	stopped  chan struct{}
	stats    Stats
	closing  sync.Once
	lost     chan struct{}
	closed   error // of closing

	// Of the goroutine that computes.
	pages  *pages
	active []*sequence // by age
	step   step
}

// Stats counts what an engine has done and does.
type Stats struct {
	Active       int     `json:"active"`
	Waiting      int     `json:"waiting"`
	Pages        int     `json:"pages"`
	PagesUsed    int     `json:"pages_used"`
	PagesKept    int     `json:"pages_kept"` // of prefixes, which nobody uses now
	Steps        int64   `json:"steps"`
	StepSeconds  float64 `json:"step_seconds"`
	StepTokens   int     `json:"step_tokens"` // of the last step
	PromptTokens int64   `json:"prompt_tokens"`
	CachedTokens int64   `json:"cached_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	Guessed      int64   `json:"guessed"`
	GuessedRight int64   `json:"guessed_right"`
	Preemptions  int64   `json:"preemptions"`
	Finished     int64   `json:"finished"`
	Canceled     int64   `json:"canceled"`
	Failed       int64   `json:"failed"`
	Refused      int64   `json:"refused"`
	Slots        []Slot  `json:"slots"`
}

// Add adds what another engine has done. What is there now stays.
func (s *Stats) Add(other *Stats) {
	s.Steps += other.Steps
	s.StepSeconds += other.StepSeconds
	s.PromptTokens += other.PromptTokens
	s.CachedTokens += other.CachedTokens
	s.OutputTokens += other.OutputTokens
	s.Guessed += other.Guessed
	s.GuessedRight += other.GuessedRight
	s.Preemptions += other.Preemptions
	s.Finished += other.Finished
	s.Canceled += other.Canceled
	s.Failed += other.Failed
	s.Refused += other.Refused
}

// Slot is a sequence that is being computed.
type Slot struct {
	Number int64 `json:"number"`
	Prompt int   `json:"prompt"`
	Output int   `json:"output"`
	Cached int   `json:"cached"`
	Pages  int   `json:"pages"`
}

// NewEngine returns an engine of a model on the device of a queue, which it uses until it is closed. It does not
// close the model.
func NewEngine(q *engine.Queue, m *Model, l Limits) (*Engine, error) {
	if l.Sequences < 1 || l.Rows < 1 || l.Tokens < l.Sequences || l.Rows < l.Sequences || l.Waiting < 0 || l.Pages < 0 {
		return nil, badInput("%d sequences in steps of %d tokens and %d rows, want at least 1, and steps of at least a token and a row for each", l.Sequences, l.Tokens, l.Rows)
	}
	if l.PageSize < 16 || l.PageSize > 256 || l.PageSize&(l.PageSize-1) != 0 {
		return nil, badInput("pages of %d tokens, want a power of two from 16 to 256", l.PageSize)
	}
	each := pagesOf(m.Config.Block, l.PageSize)
	if l.Pages == 0 {
		l.Pages = l.Sequences * each
	}
	if l.Pages < each {
		return nil, badInput("%d pages of %d tokens, want at least %d: those of one sequence of %d tokens", l.Pages, l.PageSize, each, m.Config.Block)
	}
	r, err := newRunner(q, m, model.InferenceShape{Tokens: l.Tokens, Sequences: l.Sequences, Rows: l.Rows, Pages: l.Pages, PageSize: l.PageSize, PerSequence: each})
	if err != nil {
		return nil, err
	}
	e := &Engine{model: m, limits: l, runner: r, wake: make(chan struct{}, 1), stopped: make(chan struct{}), lost: make(chan struct{}), pages: newPages(l.Pages, l.PageSize)}
	if m.Draft != nil {
		if e.drafter, err = newDrafter(q, m, l); err != nil {
			r.close()
			return nil, err
		}
	}
	go e.run()
	return e, nil
}

// Model returns the model of the engine.
func (e *Engine) Model() *Model { return e.model }

// Lost returns a channel that is closed when the device is lost: no answer can be computed any more.
func (e *Engine) Lost() <-chan struct{} { return e.lost }

// Limits returns the limits of the engine.
func (e *Engine) Limits() Limits { return e.limits }

// Stats returns the counters.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Waiting = len(e.waiting)
	return s
}

// Start starts to compute an answer, which ends early if the context does.
func (e *Engine) Start(ctx context.Context, r Request) (*Answer, error) {
	answers, err := e.StartAll(ctx, []Request{r})
	if err != nil {
		return nil, err
	}
	return answers[0], nil
}

// StartAll starts all requests. If one is refused, it starts none and returns the error.
func (e *Engine) StartAll(ctx context.Context, requests []Request) ([]*Answer, error) {
	if err := e.model.Unchanged(); err != nil { // before memory is read that the file may no longer have
		return nil, err
	}
	var list []*sequence
	var answers []*Answer
	for i := range requests {
		s, err := e.sequence(ctx, &requests[i])
		if err != nil {
			return nil, err
		}
		list, answers = append(list, s), append(answers, s.Answer)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.isClosed {
		return nil, ErrClosed
	}
	if free := e.limits.Most() - e.stats.Active - len(e.waiting); len(list) > free {
		e.stats.Refused += int64(len(list))
		return nil, ErrBusy
	}
	for _, s := range list {
		e.arrived++
		s.number = e.arrived
		var wait context.CancelFunc = func() {}
		if e.limits.Queued > 0 {
			timer := time.AfterFunc(e.limits.Queued, func() { e.expire(s) })
			wait = func() { timer.Stop() }
		}
		context.AfterFunc(s.ctx, func() { wait(); e.notify() })
	}
	e.waiting = append(e.waiting, list...)
	e.notify()
	return answers, nil
}

// expire refuses a sequence that has waited too long.
func (e *Engine) expire(s *sequence) {
	e.mu.Lock()
	i := slices.Index(e.waiting, s)
	if i < 0 || s.isTold {
		e.mu.Unlock()
		return
	}
	e.waiting = slices.Delete(e.waiting, i, i+1)
	e.stats.Refused++
	e.mu.Unlock()
	s.end(nil, ErrBusy)
}

// sequence checks a request.
func (e *Engine) sequence(ctx context.Context, r *Request) (*sequence, error) {
	c := &e.model.Config
	if len(r.Prompt) == 0 {
		return nil, badInput("the prompt is empty, want at least one token")
	}
	for i, t := range r.Prompt {
		if t < 0 || int(t) >= c.Vocabulary {
			return nil, badInput("token %d of the prompt is %d, want 0 to %d", i, t, c.Vocabulary-1)
		}
	}
	for i, t := range r.Given {
		if t < 0 || int(t) >= c.Vocabulary {
			return nil, badInput("token %d of the answer is %d, want 0 to %d", i, t, c.Vocabulary-1)
		}
	}
	if len(r.Prompt)+len(r.Given) > c.Block {
		return nil, badInput("%w: %d, want at most %d", ErrTooLong, len(r.Prompt)+len(r.Given), c.Block)
	}
	if r.Most > 0 && len(r.Prompt) >= c.Block {
		return nil, badInput("%w: the prompt has %d, and with the answer the model takes %d", ErrTooLong, len(r.Prompt), c.Block)
	}
	if r.Most < 0 || r.Top < 0 || r.Top > c.Vocabulary || r.Guesses < 0 {
		return nil, badInput("%d tokens, %d likeliest ones, %d guesses, want at least 0, and at most a vocabulary", r.Most, r.Top, r.Guesses)
	}
	if slices.Contains(r.Stops, "") {
		return nil, badInput("a stop is empty, want a text")
	}
	if err := r.Sampling.Check(c.Vocabulary); err != nil {
		return nil, err
	}
	r.Sampling = r.Sampling.normal()
	a := &Answer{request: *r, ready: make(chan struct{}, 1)}
	a.ctx, a.cancel = context.WithCancel(ctx)
	s := &sequence{Answer: a, tokens: slices.Concat(r.Prompt, r.Given), prompt: len(r.Prompt), root: root(&e.model.Identity, r.Salt), text: e.model.Vocabulary.Text(), stop: stopper{stops: r.Stops}}
	s.seen = s.firstRow()
	return s, nil
}

func (e *Engine) notify() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Drain takes no more requests, and returns when all have ended or the context has.
func (e *Engine) Drain(ctx context.Context) error {
	e.mu.Lock()
	e.isClosed = true
	e.mu.Unlock()
	e.notify()
	select {
	case <-e.stopped:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends all answers, and frees the memory of the engine.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.isClosed, e.isEnding = true, true
	e.mu.Unlock()
	e.notify()
	<-e.stopped
	e.closing.Do(func() {
		e.closed = e.runner.close()
		if e.drafter != nil {
			e.closed = errors.Join(e.closed, e.drafter.runner.close())
		}
	})
	return e.closed
}

// run computes steps until the engine is closed and nothing is left.
func (e *Engine) run() {
	defer close(e.stopped)
	isLost := false
	for {
		e.admit()
		if len(e.active) == 0 {
			e.mu.Lock()
			isDone := e.isClosed && len(e.waiting) == 0
			e.mu.Unlock()
			if isDone {
				return
			}
			<-e.wake
			continue
		}
		began := time.Now()
		tokens, err := e.compute()
		e.mu.Lock()
		e.stats.Steps++
		e.stats.StepSeconds += time.Since(began).Seconds()
		e.stats.StepTokens = tokens
		e.mu.Unlock()
		if err != nil {
			e.failAll(fmt.Errorf("computing the answer: %w", err))
			if errors.Is(err, device.ErrLost) && !isLost {
				isLost = true
				close(e.lost)
			}
		}
	}
}
