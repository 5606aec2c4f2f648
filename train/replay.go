package train

import (
	"context"
	"fmt"

	"tokitai/engine"
)

// Replayed is what computing steps of a run again has shown.
type Replayed struct {
	Start int `json:"start"` // the step of the checkpoint that it began with; 0 for the initial weights
	From  int `json:"from"`
	To    int `json:"to"` // the last step that was compared

	// Differs is the first step whose entry of the chain is another one than the run has; 0 if none.
	Differs int    `json:"differs,omitempty"`
	Want    *Line  `json:"want,omitempty"` // that the run has
	Got     *Line  `json:"got,omitempty"`
	Chain   string `json:"chain"` // entry of the last step
}

// DifferenceError reports a run whose bits are not those of its configuration and data.
type DifferenceError struct{ Replayed Replayed }

func (e *DifferenceError) Error() string {
	r := &e.Replayed
	return fmt.Sprintf("step %d is not what the run has: %s", r.Differs, difference(r.Got, r.Want))
}

// difference says in what two lines of a step differ, the first thing that is computed first.
func difference(a, b *Line) string {
	switch {
	case a.LossBits != b.LossBits:
		return fmt.Sprintf("loss %v (%s), not %v (%s)", *a.Loss, a.LossBits, *b.Loss, b.LossBits)
	case a.NormBits != b.NormBits:
		return fmt.Sprintf("the loss is the same, the norm %v (%s), not %v (%s)", *a.Norm, a.NormBits, *b.Norm, b.NormBits)
	case a.Weights != b.Weights:
		return "loss and norm are the same, the weights after the step are others"
	}
	return "loss, norm and weights are the same, the chain before it is another one"
}

// Replay computes n steps behind step from of a run again, on any device, and compares them with what the run
// has recorded. It begins with the newest checkpoint up to that step, or with the initial weights, and
// compares every step from there. The error is a *DifferenceError if they differ.
func Replay(ctx context.Context, q *engine.Queue, folder string, from, n int, on Data, tell func(Result)) (*Replayed, error) {
	d, lines, err := readRun(folder)
	if err != nil {
		return nil, err
	}
	if from < 0 || n < 1 || from+n > len(lines) {
		return nil, badInput("%s: steps %d to %d, want some of the %d that the run has taken", folder, from+1, from+n, len(lines))
	}
	t, err := d.trainer(q, folder, from, on)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	r := &Replayed{Start: t.step, From: from, To: from + n}
	if t.step > 0 && t.chain.String() != lines[t.step-1].Chain {
		return nil, badInput("%s: the checkpoint of step %d has the entry %s, and %s the entry %s", folder, t.step, t.chain, metricsFile, lines[t.step-1].Chain)
	}
	for t.step < r.To {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		result, err := t.Step()
		if err != nil {
			return nil, err
		}
		if tell != nil {
			tell(result)
		}
		if r.Chain = result.Chain.String(); r.Chain != lines[t.step-1].Chain {
			got := lineOf(result, 0)
			r.Differs, r.Want, r.Got = t.step, &lines[t.step-1], &got
			return r, &DifferenceError{*r}
		}
	}
	return r, nil
}

// readRun returns the description of a run and the lines of its steps.
func readRun(folder string) (*Description, []Line, error) {
	d, err := ReadDescription(folder)
	if err != nil {
		return nil, nil, err
	}
	lines, err := ReadMetrics(folder)
	if err != nil {
		return nil, nil, err
	}
	list, err := steps(lines)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", folder, err)
	}
	return d, list, nil
}

// trainer returns a trainer of a run in the state of its newest checkpoint up to a step.
func (d *Description) trainer(q *engine.Queue, folder string, upTo int, on Data) (*Trainer, error) {
	t, err := New(q, d.Settings.Config, on)
	if err != nil {
		return nil, err
	}
	if _, err = t.startOf(folder); err == nil {
		err = d.Origin.accepts(&t.origin, folder)
	}
	var list []Checkpoint
	if err == nil {
		list, err = Checkpoints(folder)
	}
	for i := len(list) - 1; i >= 0 && err == nil; i-- {
		if list[i].Step <= upTo {
			err = t.restore(list[i].Path)
			break
		}
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Load returns a trainer in the state of the newest checkpoint of a run, and its step.
func Load(q *engine.Queue, folder string, on Data) (*Trainer, error) {
	d, err := ReadDescription(folder)
	if err != nil {
		return nil, err
	}
	list, err := Checkpoints(folder)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, badInput("%s: the run has no checkpoint yet", folder)
	}
	return d.trainer(q, folder, list[len(list)-1].Step, on)
}
