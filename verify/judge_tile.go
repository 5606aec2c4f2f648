package verify

import (
	"bytes"
	"context"
	"fmt"

	"tokitai/evidence"
	"tokitai/num"
	"tokitai/num/ball"
	"tokitai/promise"
	"tokitai/trial"
	"tokitai/truth"
)

// view is a tile with its answer, the admissible values of its outputs, and the truth.
type view struct {
	target              *Target
	l                   *loaded
	at                  tile
	rule                trial.Rule
	inputs, got, answer []num.Array

	sets   sets
	waived []string                                      // clauses by name
	ranges map[int][]func(row, col int) (lo, hi float64) // in which every honest output lies, under promise stable
	covers []coverage                                    // of clauses; nil until an element is outside of its set
	exact  *truth.Result                                 // the real-number result; nil if outputs must equal the answer and accuracy is not measured
	truth  *enclosed                                     // nil if accuracy is not measured
	known  enclosure                                     // nil if outputs must equal the answer
	plain  enclosure                                     // known without the errors of declared functions; nil if they do not count
	grid   *truth.Grid                                   // nil if the pattern is not a grid, or outputs must equal the answer
}

// prepare computes the enclosures that the outputs are compared with.
func (v *view) prepare(ctx context.Context, m manner) (err error) {
	isBounded := v.target.Promised() != promise.Bits
	var known enclosure
	if isBounded {
		if known, err = v.enclosureOf(ctx); err != nil {
			return err
		}
	}
	if m.withTruth || isBounded {
		if v.exact, err = v.exactOf(ctx, known); err != nil {
			return err
		}
	}
	if m.withTruth {
		if v.truth, err = v.enclose(ctx, m.withBig); err != nil {
			return err
		}
	}
	if !isBounded {
		v.sets = answerSets{v}
		return nil
	}
	v.known = known
	if m.withTruth && v.l.c.IsStatistics && v.target.declaresFunctions() {
		if v.plain, err = v.plainOf(ctx); err != nil {
			return err
		}
	}
	class, err := v.classOf(ctx)
	v.sets = boundedSets{v, known, class}
	return err
}

// exactOf encloses the real-number result, which sets of promise stable come with.
func (v *view) exactOf(ctx context.Context, known enclosure) (*truth.Result, error) {
	if s, ok := known.(*stable); ok {
		if exact := s.forms.Exact(v.target.Definition); exact != nil {
			return exact, nil
		}
	}
	return truth.Enclose(v.target.Definition, v.inputs, truth.Options{Params: v.l.params, Mode: truth.Exact, Accum: v.l.accum(), Context: ctx})
}

// outputs judges every output.
func (v *view) outputs() *judgement {
	j := &judgement{Tiles: 1}
	for i := range v.target.Definition.Operands {
		if v.target.isJudged(i) {
			v.output(j, i)
		}
	}
	return j
}

// output judges every element of one output.
func (v *view) output(j *judgement, i int) {
	got, answer := v.got[i], v.answer[i]
	isMeasured := v.truth != nil && v.truth.correct[i] != nil
	isBounded := v.target.Promised() != promise.Bits
	var tally *tally
	if isBounded {
		tally = j.output(v.target.Definition.Operands[i].Name)
		if s, ok := v.sets.(boundedSets); ok {
			s.describe(i, tally)
		}
	}
	for r := range got.Rows {
		if !isBounded && !isMeasured && bytes.Equal(got.Row(r), answer.Row(r)) {
			j.Elements += int64(got.Cols)
			continue
		}
		for c := range got.Cols {
			j.Elements++
			x := got.Bits64(r, c)
			s := v.sets.at(i, r, c)
			if isBounded {
				v.countSet(j, tally, &s, i, r, c)
				if v.rule.Same(got.DType, x, answer.Bits64(r, c)) {
					j.SameBits++
				}
			}
			switch {
			case !s.has(v.rule, got.DType, x):
				v.outside(j, &s, i, r, c, x)
			case s.plain != nil && !s.plain.has(v.rule, got.DType, x):
				v.allowed(j, i, r, c)
			}
			if isMeasured {
				// Where the set has more than two values, or an allowance widens it, errors on the way
				// are larger than the last rounding: a form, or a declared function, may prefer a sign.
				isWidened := s.plain != nil && s.plain.count != s.count || v.target.Promised() == promise.Stable && s.count > 2
				v.measure(&j.Accuracy, i, r, c, x, isWidened)
				if isBounded {
					v.measure(&j.Own, i, r, c, answer.Bits64(r, c), isWidened)
				} else if b := v.exact.At(i, r, c); b.Known() {
					j.AllClose.count(closeness(got.DType, b.Mid))
				}
			}
		}
	}
}

// finding returns the finding that an element is not in its set, at its place in the whole
// output.
func (v *view) finding(i, r, c int, got uint64, s *set) *finding {
	at := v.at.operands[i]
	f := &finding{Tier: v.target.mainTier(), Operand: i, Row: at.Row + r, Col: at.Col + c, Got: got, Want: s.lo, WantTo: s.hi, Ints: s.ints}
	if f.Message = s.why; s.isOnGrid {
		f.Tier = evidence.Grid
	}
	if v.exact != nil {
		f.Truth = truthText(v.exact, v.got[i].DType, i, r, c)
	}
	return f
}

// truthText returns the real-number result of an element, or "" where it is not known.
func truthText(exact *truth.Result, d num.DType, operand, row, col int) string {
	if d == num.I32 {
		return intsText(exact.Ints(operand, row, col))
	}
	return ballText(exact.At(operand, row, col))
}

// intsText returns values as text: 3, or one of 1, 3, 9.
func intsText(values []int32) string {
	const most = 8
	text := ""
	for i, v := range values[:min(len(values), most)] {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprint(v)
	}
	switch {
	case len(values) > most:
		return fmt.Sprintf("one of %d: %s, …", len(values), text)
	case len(values) > 1:
		return "one of " + text
	}
	return text
}

func ballText(b ball.Ball) string {
	if !b.Known() {
		return ""
	}
	return fmt.Sprintf("%.9g", b.Mid)
}
