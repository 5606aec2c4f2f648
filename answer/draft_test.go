package answer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"tokitai/answer"
	"tokitai/answer/answertest"
	"tokitai/backend/cpu"
	"tokitai/model"
	"tokitai/tensor"
)

// shorter is a decoder of other shapes than tiny, which takes fewer tokens.
var shorter = func() model.Config {
	c := tiny
	c.Block, c.Layers, c.Width, c.Hidden = 40, 1, 16, 24
	return c
}()

func draftOf(t testing.TB, c model.Config) *answer.Model {
	t.Helper()
	m, err := answertest.Model(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// withDraft returns a model with a draft. The models have their weights in common.
func withDraft(m, draft *answer.Model) *answer.Model {
	with := *m
	with.Draft = draft
	return &with
}

// TestDraft: every prompt of a set has the same answers and receipts with a draft and without, at temperatures 0 and
// 1. A draft with the weights of the model is always right, since it draws with the same words.
func TestDraft(t *testing.T) {
	m := tinyOrFail(t)
	plain := start(t, m, answer.DefaultLimits)
	for _, x := range []struct {
		name    string
		draft   *answer.Model
		isExact bool
	}{{"the same", m, true}, {"a shorter one", draftOf(t, shorter), false}} {
		e := start(t, withDraft(m, x.draft), answer.DefaultLimits)
		for _, temperature := range []float64{0, 1} {
			for i, r := range requests(12, 9) {
				r.Sampling = answer.Sampling{Temperature: temperature, TopP: 1, Repetition: 1, Seed: uint64(i)}
				want := fmt.Sprint(completed(t, plain, r))
				if r.Guesses = 4; fmt.Sprint(completed(t, e, r)) != want {
					t.Errorf("%s, temperature %v, prompt %d: the answers differ", x.name, temperature, i)
				}
			}
		}
		s := e.Stats()
		t.Logf("%s: %d of %d guesses are right, %d steps for %d tokens", x.name, s.GuessedRight, s.Guessed, s.Steps, s.OutputTokens)
		if s.Guessed == 0 || s.GuessedRight == 0 || (s.GuessedRight == s.Guessed) != x.isExact {
			t.Errorf("%s: %d of %d guesses are right", x.name, s.GuessedRight, s.Guessed)
		}
		if x.isExact && s.Steps*4 > s.OutputTokens { // two answers at a time, most with four guesses
			t.Errorf("%d steps for %d tokens: the draft has stopped to guess", s.Steps, s.OutputTokens)
		}
		if s.PagesUsed != 0 {
			t.Errorf("%s: %d pages are in use at the end", x.name, s.PagesUsed)
		}
	}
}

// completed returns two answers with their receipt.
func completed(t *testing.T, e *answer.Engine, r answer.Request) ([]answer.Completed, answer.Receipt) {
	t.Helper()
	list, receipt, err := e.Complete(context.Background(), r, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		list[i].Cached = 0 // what earlier requests left
	}
	return list, *receipt
}

// TestOtherTokenizer: a draft whose tokens are others is refused.
func TestOtherTokenizer(t *testing.T) {
	m := tinyOrFail(t)
	draft := *m
	draft.Identity.Tokenizer = "other"
	if _, err := answer.NewEngine(cpu.Queue(), withDraft(m, &draft), answer.DefaultLimits); !errors.Is(err, tensor.ErrBadArgument) {
		t.Errorf("a draft with another tokenizer: %v, want an error", err)
	}
}
