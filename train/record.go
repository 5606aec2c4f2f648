package train

import (
	"fmt"
	"math"
	"slices"

	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/norm"
	"tokitai/tensor"
)

// recorded is calls that run together: an engine.Recording.
type recorded interface {
	runner
	Update(calls func(q *engine.Queue) error) error
}

type runner interface{ Run(q *engine.Queue) error }

// record records the calls of a step: those of a leaf, for each level, the sums of levels, the norm, and the update of the weights.
func (t *Trainer) record() error {
	record := func(f func(q *engine.Queue) error) (*engine.Recording, error) {
		r, err := t.queue.Record(f)
		return own(t, r, err)
	}
	var err error
	if slices.ContainsFunc(t.program.Calls, t.program.IsOnce) {
		if t.once, err = record(t.levels[0].leaf.RunOnce); err != nil {
			return err
		}
	}
	for i := range t.levels {
		l := &t.levels[i]
		if t.divided != nil {
			if l.pass, err = t.divided.newPass(t.divided.division, l.leaf, t.variables(1, 0)); err != nil {
				return err
			}
			continue
		}
		if l.recording, err = record(func(q *engine.Queue) error { return l.leaf.RunRest(q, t.variables(1, 0)) }); err != nil {
			return err
		}
	}
	if t.merges = map[string]recorded{}; t.divided == nil {
		if err := t.eachSum(func(recorded) error { return nil }); err != nil {
			return err
		}
	}
	limit := t.config.Clip
	if limit == 0 {
		limit = math.MaxFloat32
	}
	measure, err := record(func(q *engine.Queue) error {
		if t.team != nil {
			return norm.ClipRows(q, t.norm.Tensor, t.factor.Tensor, limit, t.team.rows, t.team.totals)
		}
		return norm.Clip(q, t.norm.Tensor, t.factor.Tensor, limit, t.sums)
	})
	if err != nil {
		return err
	}
	t.measure = measure
	if t.team != nil {
		if err := t.recordTeam(record); err != nil {
			return err
		}
	}
	if !t.changes() && len(t.biases.names) == 0 {
		return nil // of more ranks than there are spans
	}
	advance, err := record(func(q *engine.Queue) error {
		if err := t.update(q, &t.shard, 1, 1); err != nil {
			return err
		}
		if err := t.digest(q, t.words, t.weights, t.spans); err != nil {
			return err
		}
		if t.team != nil {
			if err := t.digest(q, t.team.own, t.sharedOf(t.copies), t.spans); err != nil {
				return err
			}
		}
		return t.biases.move(q, t.config.Mixture.Balance)
	})
	t.advance = advance
	return err
}

// changes reports whether this rank changes weights.
func (t *Trainer) changes() bool { return lengthOf(t.spans) > 0 }

// hasCopies reports whether programs read copies of the weights in 16 bits.
func (t *Trainer) hasCopies() bool { return t.config.Format() != num.F32 }

// copyWeights rounds all weights to their copies, after they were set.
func (t *Trainer) copyWeights() error {
	for i := range t.weights {
		if err := t.copyWeight(t.queue, &t.shard, i); err != nil {
			return err
		}
	}
	if err := t.queue.Wait(); err != nil || t.team == nil {
		return err
	}
	if err := t.gatherWeights(); err != nil {
		return err
	}
	return t.noteState()
}

// digest makes the calls that compute the digests of tensors, each a span of a weight.
func (t *Trainer) digest(q *engine.Queue, words *tensor.Tensor, list []*tensor.Tensor, spans []span) error {
	for i, x := range list {
		if x == nil {
			continue
		}
		if err := digestInto(q, words, i, x, uint64(spans[i].lo)); err != nil {
			return fmt.Errorf("%s: %w", t.names[i], err)
		}
	}
	return nil
}
