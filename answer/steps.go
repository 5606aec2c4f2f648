package answer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// admit ends sequences that nobody wants any more, and lets others begin.
func (e *Engine) admit() {
	e.mu.Lock()
	isEnding := e.isEnding
	var ended []*sequence
	e.waiting = slices.DeleteFunc(e.waiting, func(s *sequence) bool {
		if s.ctx.Err() == nil && !isEnding {
			return false
		}
		ended = append(ended, s)
		return true
	})
	e.stats.Canceled += int64(len(ended))
	e.mu.Unlock()
	for _, s := range ended {
		s.end(nil, cmp.Or(s.ctx.Err(), error(ErrClosed)))
	}
	for _, s := range slices.Clone(e.active) {
		if s.ctx.Err() != nil || isEnding {
			e.remove(s, nil, cmp.Or(s.ctx.Err(), error(ErrClosed)))
		}
	}
	for len(e.active) < e.limits.Sequences {
		e.mu.Lock()
		var s *sequence
		// A sequence begins when the pages of its tokens, and one more, are there.
		if len(e.waiting) > 0 && (len(e.active) == 0 || e.pages.available() > e.pagesOf(len(e.waiting[0].tokens))) {
			s, e.waiting = e.waiting[0], e.waiting[1:]
			s.isTold = true
		}
		e.mu.Unlock()
		if s == nil {
			break
		}
		e.begin(s)
	}
	e.publish()
}

func (e *Engine) pagesOf(tokens int) int { return pagesOf(tokens, e.limits.PageSize) }

// begin finds the pages of a sequence that are kept.
func (e *Engine) begin(s *sequence) {
	at, _ := slices.BinarySearchFunc(e.active, s, func(a, b *sequence) int { return cmp.Compare(a.number, b.number) })
	e.active = slices.Insert(e.active, at, s)
	size := e.limits.PageSize
	for key := s.root; !e.limits.NoReuse && (len(s.pages)+1)*size <= min(s.seen, len(s.tokens)-1); {
		tokens := s.tokens[len(s.pages)*size:][:size]
		key = key.next(tokens)
		page, ok := e.pages.find(key, tokens)
		if !ok {
			break
		}
		s.pages, s.keys = append(s.pages, page), append(s.keys, key)
	}
	s.cached = len(s.pages) * size
	s.reused = max(s.reused, min(s.cached, s.prompt))
	if s.known() <= s.cached { // an echo of one token
		e.finish(s, FinishLength)
	}
}

// publish tells what is computed now.
func (e *Engine) publish() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stats.Active, e.stats.Pages, e.stats.PagesKept = len(e.active), len(e.pages.pages), e.pages.idle.Len()
	e.stats.PagesUsed = e.stats.Pages - e.pages.available()
	e.stats.Slots = make([]Slot, len(e.active))
	for i, s := range e.active {
		e.stats.Slots[i] = Slot{s.number, s.prompt, len(s.tokens) - s.prompt, s.cached, len(s.pages)}
	}
}

// remove ends a sequence.
func (e *Engine) remove(s *sequence, o *Outcome, err error) {
	e.release(s)
	e.mu.Lock()
	switch {
	case err == nil:
		e.stats.Finished++
	case s.ctx.Err() != nil || e.isEnding:
		e.stats.Canceled++
	default:
		e.stats.Failed++
	}
	if err == nil {
		e.stats.CachedTokens += int64(s.reused)
	}
	e.mu.Unlock()
	s.end(o, err)
}

// release takes a sequence off the active ones.
func (e *Engine) release(s *sequence) {
	e.active = slices.DeleteFunc(e.active, func(x *sequence) bool { return x == s })
	e.pages.giveBack(s.pages)
	if e.drafter != nil {
		e.drafter.release(s)
	}
	s.pages, s.keys, s.cached = nil, nil, 0
}

func (e *Engine) failAll(err error) {
	for _, s := range slices.Clone(e.active) {
		e.remove(s, nil, err)
	}
}

// preempt lets the youngest sequence wait again. Its keys are computed anew later.
func (e *Engine) preempt() {
	s := e.active[len(e.active)-1]
	e.release(s)
	e.mu.Lock()
	e.stats.Preemptions++
	e.waiting = slices.Insert(e.waiting, 0, s)
	e.mu.Unlock()
}

// part is the tokens of a sequence in a step.
type part struct {
	s     *sequence
	fed   []int32
	first int // row of the step that is the first of the sequence
	rows  int
}

// compute computes a step, and returns the number of its tokens.
func (e *Engine) compute() (int, error) {
	parts, err := e.plan()
	n := len(e.step.tokens)
	if err != nil {
		return n, err
	}
	rows, err := e.runner.run(&e.step)
	if err != nil {
		return n, err
	}
	if err := e.redraw(parts, rows); err != nil {
		return n, err
	}
	for i := range parts {
		p := &parts[i]
		if err := e.take(p, rows[p.first:][:p.rows]); err != nil {
			e.remove(p.s, nil, err)
		}
	}
	return n, nil
}

// plan chooses the tokens of a step, and the pages of their keys.
func (e *Engine) plan() ([]part, error) {
	counts := e.share()
	if err := e.guess(); err != nil {
		return nil, err
	}
	e.takePages(counts)
	var parts []part
	e.step.reset()
	for _, s := range e.active {
		if counts[s] == 0 {
			continue
		}
		p := part{s: s, first: len(e.step.rows)}
		p.fed = append(slices.Clone(s.tokens[s.cached:][:counts[s]]), s.guessed...)
		start := len(e.step.tokens)
		e.step.add(p.fed, s.cached, s.pages, e.limits.PageSize)
		for i := max(0, s.seen-s.cached); i < len(p.fed); i++ {
			e.step.want(start+i, e.drawing(s, s.cached+i))
			p.rows++
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// share divides a step: first one token for each sequence that answers, with guesses behind it, then as many of the
// prompts as there is room for, older sequences before younger ones.
func (e *Engine) share() map[*sequence]int {
	room, rows := e.limits.Tokens, e.limits.Rows
	counts := map[*sequence]int{}
	for _, s := range e.active {
		s.guessed, s.wanted = nil, 0
		if s.isAnswering() {
			counts[s], room, rows = 1, room-1, rows-1
		}
	}
	for _, s := range e.active {
		left := s.known() - s.cached
		switch {
		case !s.isAnswering():
			n := min(left, room)
			if unseen := max(s.seen, s.cached); unseen < s.cached+n { // tokens from there on have rows that are wanted
				n = min(n, unseen-s.cached+max(0, rows))
				rows -= max(0, s.cached+n-unseen)
			}
			counts[s], room = n, room-n
		case s.request.Guesses > 0 && s.request.Given == nil && s.request.Most > 0:
			s.wanted = max(0, min(s.request.Guesses, room, rows, s.prompt+s.request.Most-len(s.tokens)-1, e.model.Config.Block-len(s.tokens)-1))
			if e.drafter == nil {
				s.guessed = s.guess(s.wanted)
				s.wanted = len(s.guessed)
			}
			room, rows = room-s.wanted, rows-s.wanted
		}
	}
	return counts
}

// guess has the draft guess the tokens that sequences want.
func (e *Engine) guess() error {
	if e.drafter == nil {
		return nil
	}
	var list []*sequence
	for _, s := range e.active {
		if s.wanted > 0 {
			list = append(list, s)
		}
	}
	if err := e.drafter.guess(list); err != nil {
		return fmt.Errorf("guessing: %w", err)
	}
	for _, s := range list { // a draft may have more tokens than the model
		if i := slices.IndexFunc(s.guessed, func(t int32) bool { return t < 0 || int(t) >= e.model.Config.Vocabulary }); i >= 0 {
			s.guessed = s.guessed[:i]
		}
	}
	return nil
}

// takePages takes the pages of a step, for older sequences first. Where there are none, the youngest waits again.
func (e *Engine) takePages(counts map[*sequence]int) {
	for _, s := range slices.Clone(e.active) {
		if !slices.Contains(e.active, s) || counts[s] == 0 {
			continue
		}
		want := e.pagesOf(s.cached + counts[s] + len(s.guessed))
		for len(s.pages) < want {
			if page, ok := e.pages.take(); ok {
				s.pages = append(s.pages, page)
				continue
			}
			isSelf := e.active[len(e.active)-1] == s
			e.preempt()
			if isSelf {
				break
			}
		}
	}
}

// drawing returns how the token behind token at of a sequence is drawn in the step.
func (e *Engine) drawing(s *sequence, at int) draw {
	if !s.draws(at) || s.request.Sampling.changes() {
		return draw{}
	}
	return s.drawing(at)
}

// redraw draws the tokens behind rows whose logits are changed first.
func (e *Engine) redraw(parts []part, rows []summary) error {
	for _, p := range parts {
		s := p.s
		if !s.request.Sampling.changes() {
			continue
		}
		full := append(slices.Clone(s.tokens), s.guessed...)
		for i := range p.rows {
			at := s.cached + len(p.fed) - p.rows + i // of the token of the row
			if !s.draws(at) {
				continue
			}
			logits, err := e.runner.row(p.first + i)
			if err != nil {
				return err
			}
			s.request.Sampling.adjust(logits, full[:s.prompt], full[s.prompt:at+1])
			if rows[p.first+i].drawn, err = e.runner.drawFrom(logits, s.drawing(at)); err != nil {
				return err
			}
		}
	}
	return nil
}

// take gives a sequence what a step has computed for it.
func (e *Engine) take(p *part, rows []summary) error {
	s := p.s
	first := s.cached + len(p.fed) - p.rows // token of the first row
	base := s.cached
	if p.rows == 0 {
		if e.advance(s, base+len(p.fed)); s.cached >= s.known() { // nothing is wanted behind it
			e.finish(s, FinishLength)
		}
		return nil
	}
	fedEnd := base + len(p.fed)
	for i := range rows {
		at, row := first+i, &rows[i]
		if most := float64(row.most); math.IsNaN(most) || math.IsInf(most, 0) {
			return fmt.Errorf("%w: behind token %d the largest is %v", ErrNoNumber, at, row.most)
		}
		if s.request.Echo && at == 0 {
			s.add(Event{Token: s.tokens[0], IsPrompt: true})
		}
		event := Event{Position: at + 1, Drawn: row.drawn, Checksum: row.checksum(), HasRow: true}
		isNew := at+1 == len(s.tokens)
		if event.Token = row.drawn; !isNew {
			event.Token, event.IsPrompt = s.tokens[at+1], at+1 < s.prompt
		}
		if err := e.describe(&event, s, p.first+i, row); err != nil {
			return err
		}
		s.seen = at + 1
		if isNew {
			s.tokens = append(s.tokens, event.Token)
		}
		finish := ""
		if !event.IsPrompt && s.request.Given == nil {
			var err error
			if finish, err = e.extend(s, &event); err != nil {
				return err
			}
		} else if s.seen == s.known() {
			finish = FinishLength
		}
		s.add(event)
		if finish != "" {
			e.advance(s, min(at+1, fedEnd))
			e.finish(s, finish)
			return nil
		}
		if next := at + 1 - base; isNew && next < len(p.fed) && p.fed[next] != event.Token {
			e.guessed(len(s.guessed), i)
			e.advance(s, at+1)
			return nil
		}
	}
	e.guessed(len(s.guessed), len(s.guessed))
	e.advance(s, fedEnd)
	return nil
}

// guessed counts guesses, and how many of them were right.
func (e *Engine) guessed(n, right int) {
	e.mu.Lock()
	e.stats.Guessed += int64(n)
	e.stats.GuessedRight += int64(right)
	e.mu.Unlock()
}

// describe fills in the logprobs of an event.
func (e *Engine) describe(event *Event, s *sequence, row int, of *summary) error {
	if !s.request.Logprobs {
		return nil
	}
	logits, err := e.runner.row(row)
	if err != nil {
		return err
	}
	event.Logprob = of.logprob(logits[event.Token])
	if s.request.Top > 0 {
		event.Top = likeliest(logits, of, s.request.Top)
	}
	return nil
}

// extend adds the text of a new token to an answer, and returns why the answer ends with it, if it does.
func (e *Engine) extend(s *sequence, event *Event) (finish string, err error) {
	e.mu.Lock()
	e.stats.OutputTokens++
	e.mu.Unlock()
	if slices.Contains(e.model.Ends, event.Token) && !s.request.NoEnd {
		return FinishStop, nil
	}
	text, err := s.text.Next(event.Token)
	if err != nil {
		text, err = "", nil // a token that the vocabulary does not have, such as padding of the table
	}
	isStopped := false
	if event.Text, isStopped = s.stop.add(text); isStopped {
		s.isStopped = true
		return FinishStop, nil
	}
	if len(s.tokens)-s.prompt >= s.request.Most || len(s.tokens) >= e.model.Config.Block {
		return FinishLength, nil
	}
	return "", nil
}

// finish ends a sequence with what is left of its text.
func (e *Engine) finish(s *sequence, why string) {
	o := &Outcome{Finish: why, Cached: s.reused}
	if s.request.Given == nil && !s.isStopped {
		text, isStopped := s.stop.add(s.text.End())
		if o.Text = text; !isStopped {
			o.Text += s.stop.end()
		} else if why == FinishLength {
			o.Finish = FinishStop
		}
	}
	e.remove(s, o, nil)
}

// advance notes that the keys of the first tokens of a sequence are in its pages, and keeps the pages that are
// complete for others.
func (e *Engine) advance(s *sequence, cached int) {
	if added := min(cached, s.prompt) - min(s.cached, s.prompt); added > 0 {
		e.mu.Lock()
		e.stats.PromptTokens += int64(added)
		e.mu.Unlock()
	}
	s.cached = cached
	size := e.limits.PageSize
	for i := len(s.keys); (i+1)*size <= cached; i++ {
		tokens := s.tokens[i*size:][:size]
		key := s.root
		if i > 0 {
			key = s.keys[i-1]
		}
		key = key.next(tokens)
		s.keys = append(s.keys, key)
		if !e.limits.NoReuse {
			e.pages.keep(s.pages[i], key, tokens)
		}
	}
}
