package answer

import (
	"slices"

	"tokitai/engine"
	"tokitai/model"
)

// drafter guesses tokens with a draft model. It draws them with the parameters and the random words of the request, so
// that it is right wherever both models lead to the same token. Its keys are in pages of its own.
type drafter struct {
	model  *Model
	runner *runner
	pages  *pages
	tokens int // of a step
	step   step
}

// drafted is what the drafter has of a sequence.
type drafted struct {
	tokens []int32 // whose keys are in pages
	pages  []int32
}

// newDrafter returns a drafter for the sequences of an engine with limits.
func newDrafter(q *engine.Queue, of *Model, l Limits) (*drafter, error) {
	m := of.Draft
	if m.Identity.Tokenizer != of.Identity.Tokenizer {
		return nil, badInput("the draft %s has another tokenizer than %s, want the same: a guess is a token", m.Name, of.Name)
	}
	each := pagesOf(m.Config.Block, l.PageSize)
	shape := model.InferenceShape{Tokens: l.Tokens, Sequences: l.Sequences, Rows: l.Sequences, Pages: min(l.Pages, l.Sequences*each), PageSize: l.PageSize, PerSequence: each}
	r, err := newRunner(q, m, shape)
	if err != nil {
		return nil, err
	}
	return &drafter{model: m, runner: r, pages: newPages(shape.Pages, l.PageSize), tokens: l.Tokens}, nil
}

// guess guesses tokens of sequences, at most as many as each wants: in steps that are given what the draft has not
// seen of them, and then the last guess.
func (d *drafter) guess(list []*sequence) error {
	for _, s := range list {
		n := 0
		for n < min(len(s.drafted.tokens), len(s.tokens)-1) && s.drafted.tokens[n] == s.tokens[n] {
			n++
		}
		s.drafted.tokens = s.drafted.tokens[:n] // behind them are guesses that were wrong
	}
	for len(list) > 0 {
		var err error
		if list, err = d.next(list); err != nil {
			return err
		}
	}
	return nil
}

// next computes a step, and returns the sequences that want a guess more. One whose prompt does not fit into the
// step gets no guess now.
func (d *drafter) next(list []*sequence) (rest []*sequence, err error) {
	d.step.reset()
	var drawn []*sequence
	for i, s := range list {
		fed := s.tokens[min(len(s.drafted.tokens), len(s.tokens)):]
		if len(fed) == 0 {
			fed = s.guessed[len(s.drafted.tokens)-len(s.tokens):]
		}
		others := len(list) - i - 1 // each has room for a token
		fed = fed[:min(len(fed), d.tokens-len(d.step.tokens)-others)]
		if !d.prepare(s, fed) {
			continue
		}
		d.step.add(fed, len(s.drafted.tokens), s.drafted.pages, d.pages.size)
		if s.drafted.tokens = append(s.drafted.tokens, fed...); len(s.drafted.tokens) == len(s.tokens)+len(s.guessed) {
			d.step.want(len(d.step.tokens)-1, s.drawing(len(s.drafted.tokens)-1))
			drawn = append(drawn, s)
		}
	}
	if len(d.step.tokens) == 0 {
		return nil, nil
	}
	rows, err := d.runner.run(&d.step)
	if err != nil {
		return nil, err
	}
	for i, s := range drawn {
		s.guessed = append(s.guessed, rows[i].drawn)
		if len(s.guessed) < s.wanted {
			rest = append(rest, s)
		}
	}
	return rest, nil
}

// prepare takes pages for more tokens of a sequence. It reports whether the draft can compute them.
func (d *drafter) prepare(s *sequence, fed []int32) bool {
	c, end := &d.model.Config, len(s.drafted.tokens)+len(fed)
	if end > c.Block || slices.ContainsFunc(fed, func(t int32) bool { return int(t) >= c.Vocabulary }) {
		return false
	}
	for len(s.drafted.pages) < pagesOf(end, d.pages.size) {
		page, ok := d.pages.take()
		if !ok {
			return false
		}
		s.drafted.pages = append(s.drafted.pages, page)
	}
	return true
}

// release frees what the drafter has of a sequence.
func (d *drafter) release(s *sequence) {
	d.pages.giveBack(s.drafted.pages)
	s.drafted = drafted{}
}
