package train

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"tokitai/engine"
	"tokitai/model"
	"tokitai/op/checksum"
)

// Result is what a step has given.
type Result struct {
	Step    int
	Loss    float32 // the mean over the labels
	Norm    float32 // of all gradients together, before they were clipped
	Rate    float64
	Weights string // SHA-256 of the digests of the weights and biases, in hexadecimal
	Chain   Entry
}

// Step takes one step. After a [NotFiniteError] nothing has changed; after another error the trainer
// must not be used any more.
func (t *Trainer) Step() (Result, error) {
	if err := t.command(stepCommand); err != nil {
		return Result{}, err
	}
	r, err := t.takeStep()
	if _, isNotFinite := errors.AsType[*NotFiniteError](err); err != nil && !isNotFinite {
		t.isBroken = true
	}
	return r, err
}

func (t *Trainer) takeStep() (Result, error) {
	r := Result{Step: t.step + 1, Rate: t.config.RateAt(t.step + 1)}
	var factor float32
	var err error
	if r.Loss, r.Norm, factor, err = t.gradients(r.Step); err != nil {
		return r, err
	}
	if err := t.agreeOnScalars(r.Loss, r.Norm, factor); err != nil {
		return r, fmt.Errorf("step %d: %w", r.Step, err)
	}
	if !isFinite(r.Loss) || !isFinite(r.Norm) || !isFinite(factor) {
		return r, t.notFinite(r)
	}
	if err := t.biases.setCounts(t.routing); err != nil {
		return r, err
	}
	if t.changes() {
		if err := t.advance.Update(func(q *engine.Queue) error { return t.update(q, &t.shard, r.Step, factor) }); err != nil {
			return r, err
		}
	}
	if err := t.lendState(r.Step); err != nil {
		return r, fmt.Errorf("step %d: %w", r.Step, err)
	}
	if t.advance != nil {
		if err := t.advance.Run(t.queue); err != nil {
			return r, err
		}
	}
	digests, err := t.digests()
	if err != nil {
		return r, err
	}
	t.step, t.chain = r.Step, t.chain.Next(r.Step, r.Loss, r.Norm, digests)
	if t.team != nil {
		err := t.agree()
		if err == nil {
			err = t.noteState()
		}
		if err == nil {
			err = t.auditUpdate(r.Step, factor)
		}
		if err != nil {
			return r, fmt.Errorf("step %d: %w", r.Step, err)
		}
	}
	r.Chain = t.chain
	all := sha256.New()
	binary.Write(all, binary.LittleEndian, digests)
	r.Weights = hex.EncodeToString(all.Sum(nil))
	return r, nil
}

// gradients computes the gradients of a step, into the first level, and what follows from them.
func (t *Trainer) gradients(step int) (loss, total, factor float32, err error) {
	if err := t.auditState(); err != nil {
		return 0, 0, 0, fmt.Errorf("step %d: %w", step, err)
	}
	t.tally.leaves = 0
	if err := t.sumOwnLeaves(step); err != nil {
		return 0, 0, 0, err
	}
	if t.routed, err = t.tally.read(); err != nil {
		return 0, 0, 0, err
	}
	var sum float32
	if t.team != nil {
		if sum, err = t.reduce(step); err != nil {
			return 0, 0, 0, fmt.Errorf("step %d: %w", step, err)
		}
	}
	t.sumRouting()
	if err := t.measure.Run(t.queue); err != nil {
		return 0, 0, 0, err
	}
	if err := t.queue.Wait(); err != nil {
		return 0, 0, 0, err
	}
	if t.team == nil {
		if sum, err = t.levels[0].loss.read(); err != nil {
			return 0, 0, 0, err
		}
	}
	if total, err = t.norm.read(); err != nil {
		return 0, 0, 0, err
	}
	factor, err = t.factor.read()
	// The quotient of two binary32 is rounded to binary64 and then to binary32, which gives the
	// same as one rounding: 53 >= 2*24 + 2.
	return float32(float64(sum) / float64(t.terms())), total, factor, err
}

// sumLeaves computes the gradients of leaves, and adds them up as far as they are neighbours in the tree, into levels from at on. It
// calls note, unless that is nil, with the level of each leaf.
func (t *Trainer) sumLeaves(step int, leaves []int, at int, note func(l *level) error) ([]node, error) {
	if t.once != nil {
		if err := t.once.Run(t.queue); err != nil {
			return nil, err
		}
	}
	plan, nodes, _ := planLeaves(t.config.Leaves, leaves)
	for _, p := range plan {
		to := at + p.level
		if err := t.leaf(step, p.leaf, to); err != nil {
			return nil, err
		}
		if note != nil {
			if err := note(&t.levels[to]); err != nil {
				return nil, err
			}
		}
		for _, sum := range p.sums {
			merge, err := t.merge(sum.moved(at))
			if err == nil {
				err = merge.Run(t.queue)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return nodes, nil
}

// leaf computes the gradients of a leaf into a level.
func (t *Trainer) leaf(step, leaf, at int) error {
	if err := t.load(step, leaf); err != nil {
		return err
	}
	l, v := &t.levels[at], t.variables(step, leaf)
	var calls runner = l.recording
	if l.pass != nil {
		calls = l.pass
	}
	if t.config.Dropout > 0 {
		var err error
		if l.pass != nil {
			err = l.pass.vary(v)
		} else {
			err = l.recording.Update(func(q *engine.Queue) error { return l.leaf.RunVarying(q, v) })
		}
		if err != nil {
			return err
		}
	}
	if err := calls.Run(t.queue); err != nil {
		return err
	}
	return t.tally.add(t.queue)
}

// load puts the examples of a leaf into the device's memory.
func (t *Trainer) load(step, leaf int) error {
	return t.task.put(t.levels[0].leaf, t.leafExamples(step, leaf))
}

// leafExamples returns the examples of a leaf of a step, counted over all steps, those before the first too.
func (t *Trainer) leafExamples(step, leaf int) []int {
	each := t.config.Batch / t.config.Leaves
	list := make([]int, each)
	for i := range list {
		list[i] = t.task.training((t.origin.Before+step-1)*t.config.Batch + leaf*each + i)
	}
	return list
}

// variables are those of the pass over a leaf.
func (t *Trainer) variables(step, leaf int) model.Variables {
	return model.Variables{
		model.ScaleVariable:    1 / float64(t.terms()),
		model.SeedLowVariable:  float64(int32(uint32(t.config.Seed))),
		model.SeedHighVariable: float64(int32(uint32(t.config.Seed >> 32))),
		model.PassVariable:     float64((t.origin.Before+step-1)*t.config.Leaves + leaf),
	}
}

// terms returns how many terms the loss of a step has.
func (t *Trainer) terms() int { return t.config.Batch * t.task.terms() }

func (t *Trainer) digests() ([]checksum.Digest, error) {
	if err := t.queue.Wait(); err != nil {
		return nil, err
	}
	list, err := digestsOf(t.words, len(t.weights))
	if err == nil && t.team != nil {
		list, err = t.exchangeWeights(list)
	}
	if err != nil {
		return nil, err
	}
	more, err := digestsOf(t.biases.words, len(t.biases.names))
	return append(list, more...), err
}

func isFinite(v float32) bool { return v-v == 0 }
