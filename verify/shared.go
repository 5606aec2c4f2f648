package verify

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"tokitai/def"
	"tokitai/num"
	"tokitai/trial"
)

// Share lets targets that are verified together share their work: the values of an input
// are generated once for all formats, and an answer is computed once for all lowerings. It
// is kept until every target of the definition has been verified once.
func Share(targets []*Target) {
	type work struct {
		definition *def.Definition
		params     string
	}
	all := map[work]*shared{}
	for _, t := range targets {
		w := work{t.Definition, strings.Join(t.fixed.Texts, " ")}
		s := all[w]
		if s == nil {
			s = &shared{room: mostShared, values: map[string]*once[[]float32]{}, questions: map[string]*question{}}
			all[w] = s
		}
		s.users++
		t.shared = s
	}
}

// mostShared is how many bytes are kept for a definition. Values that do not fit are computed
// each time.
const mostShared = 128 << 20

// shared holds the values that the targets of a definition share. A nil shared keeps nothing.
type shared struct {
	mu        sync.Mutex
	users     int // targets that have not been verified
	room      int64
	values    map[string]*once[[]float32]
	questions map[string]*question
}

// leave records that a target has been verified.
func (s *shared) leave() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users <= 0 {
		s.room, s.values, s.questions = 0, nil, nil
	}
}

// keep returns the entry of a key, which takes a number of bytes, or nil if there is no room
// for it.
func keep[T any](s *shared, entries map[string]*T, key string, bytes int64) *T {
	if e := entries[key]; e != nil || s.room < bytes {
		return e
	}
	s.room -= bytes
	e := new(T)
	entries[key] = e
	return e
}

// valuesOf returns the values of an input, row by row, before they are rounded to its
// format. They must not be changed. It returns nil if they are not kept.
func (s *shared) valuesOf(key string, n int, build func() []float32) []float32 {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	e := keep(s, s.values, key, 4*int64(n))
	s.mu.Unlock()
	if e == nil {
		return nil
	}
	return e.get(build)
}

// question identifies the inputs of a case, for all lowerings with one model and all layouts, and
// holds the answer if it is known. A nil question keeps nothing.
type question struct {
	inputs, outputs once[string] // hashes, as in evidence

	mu     sync.Mutex
	answer []num.Array // the outputs, as they were interpreted; nil if they were not
	judged *judgement  // of outputs that are the answer
}

// questionOf returns the question of a case, or nil if it is not kept.
func (t *Target) questionOf(l *loaded, o *Options) *question {
	s, c := t.shared, l.c
	if s == nil {
		return nil
	}
	key := fmt.Sprintf("%s/%s/%d/%t/%v/%v/%d/%t/%t/%t", c.Pattern, c.SizesText(), c.Params, c.IsInside, c.Formats, l.accum(), o.Seed, c.IsAccuracy, o.Level >= Full, o.InterpretAll)
	bytes := int64(0)
	for i, a := range l.inputs() {
		if t.Definition.Operands[i].IsOut {
			bytes += int64(a.Rows) * int64(a.Cols) * int64(a.DType.Size())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return keep(s, s.questions, key, bytes)
}

// inputsHash returns the hash of the inputs.
func (q *question) inputsHash(l *loaded) string {
	hash := func() string { return trial.EvidenceInputs(l.target.Definition, l.inputs(), l.params) }
	if q == nil {
		return hash()
	}
	return q.inputs.get(hash)
}

// outputsHash returns the hash of a run's outputs. If they equal the answer, it is the answer's hash.
func (q *question) outputsHash(t *Target, j *judgement, out *outcome) string {
	if q == nil || j == nil || !t.Lowering.Promise.IsBits() || !j.isAnswer() {
		return out.hash(t.Definition)
	}
	return q.outputs.get(func() string { return out.hash(t.Definition) })
}

// answered returns the answer to a case, and how outputs that equal it are judged, as far
// as these are known.
func (q *question) answered() ([]num.Array, *judgement) {
	if q == nil {
		return nil, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.answer, q.judged
}

// learn keeps an answer, and how outputs that equal it were judged, which may be nil.
func (q *question) learn(d *def.Definition, answer []num.Array, judged *judgement) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.answer == nil {
		q.answer = slices.Clone(answer)
		for i := range d.Operands {
			if !d.Operands[i].IsOut {
				q.answer[i] = num.Array{} // the case has this array already
			}
		}
	}
	if judged != nil && q.judged == nil {
		q.judged = new(*judged)
	}
}
