package train

import (
	"fmt"
	"slices"

	"tokitai/engine"
	"tokitai/model"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/norm"
	"tokitai/op/sgd"
	"tokitai/tensor"
)

// shard is what a rank changes in a step: a span of each weight with its moments; all of it for a trainer that is alone.
// Where a span is empty, there is no tensor. v is empty with sgd, which has no second moment.
type shard struct {
	spans         []span
	weights, m, v []*tensor.Tensor
	copies        []*tensor.Tensor // what programs read of the spans
	sums          []*tensor.Tensor // gradients of the step

	// Only of ranks.
	sum     *tensor.Tensor   // sums, one behind the other
	waiting []*tensor.Tensor // sums of a round that wait for others, from the second on
	whole   []*tensor.Tensor // the flat rows of sums that begin here, whole
	rows    []*tensor.Tensor // their square sums
}

// allocateState makes the state of the next weight of a shard, of which programs read part.
func (t *Trainer) allocateState(s *shard, part *tensor.Tensor) (err error) {
	s.copies = append(s.copies, part)
	lists := []*[]*tensor.Tensor{&s.weights, &s.m, &s.v}
	if t.config.Optimizer == "sgd" {
		lists = lists[:2]
	}
	for k, list := range lists {
		v := part
		if part != nil && (k > 0 || part.DType() != num.F32) {
			if v, err = t.tensor(num.F32, part.Shape()...); err != nil {
				return err
			}
		}
		*list = append(*list, v)
	}
	return nil
}

// allocateSums makes the tensors in which what ranks send for a shard is added up.
func (t *Trainer) allocateSums(m *team, s *shard) (err error) {
	n, at := 0, 0
	for i, one := range s.spans {
		if !t.isDivided(i) {
			n += one.len()
		}
	}
	if s.sum, err = t.tensor(num.F32, max(1, n)); err != nil {
		return err
	}
	s.sums = make([]*tensor.Tensor, len(s.spans))
	for i, part := range s.copies {
		if t.isDivided(i) {
			s.sums[i] = t.divided.levels[0][i]
			continue
		}
		if part != nil {
			shape := part.Shape()
			if s.sums[i], err = tensor.At(s.sum.Buffer(), 4*int64(at), num.F32, shape[len(shape)-1], shape...); err != nil {
				return err
			}
		}
		at += s.spans[i].len()
	}
	s.whole = slices.Clone(s.sums)
	most, sums := 0, tree{leaves: t.config.Leaves}
	for _, x := range inOrder(m.nodes) {
		most = max(most, len(sums.nodes)+1)
		sums.push(x.node, func(int) error { return nil })
	}
	s.waiting = []*tensor.Tensor{s.sum}
	for range most - 1 {
		x, err := t.tensor(num.F32, max(1, min(n, roundElements)))
		if err != nil {
			return err
		}
		s.waiting = append(s.waiting, x)
	}
	return nil
}

// newShard makes the shard of another rank, on the device of the trainer.
func (t *Trainer) newShard(m *team, rank int) (*shard, error) {
	s := &shard{spans: m.spans[rank]}
	for i, one := range s.spans {
		var part, rows *tensor.Tensor
		var err error
		if n := one.len(); n > 0 {
			if part, err = t.tensor(t.working[i].DType(), n); err == nil {
				rows, err = t.tensor(num.F32, norm.Rows(n))
			}
		}
		if err == nil {
			err = t.allocateState(s, part)
		}
		if err != nil {
			return nil, err
		}
		s.rows = append(s.rows, rows)
	}
	return s, t.allocateSums(m, s)
}

// state lists the tensors of a weight that one step leaves to the next: itself and the moments.
func (s *shard) state(weight int) []*tensor.Tensor {
	list := []*tensor.Tensor{s.weights[weight], s.m[weight]}
	if len(s.v) > 0 {
		list = append(list, s.v[weight])
	}
	return list
}

// moveState calls move for the state of spans of the shard, with its part of raw, whose length it returns: span after span.
func (s *shard) moveState(spans []span, raw []byte, move func(x *tensor.Tensor, lo, hi int, raw []byte) error) (n int, err error) {
	for _, one := range spans {
		lo := s.spans[one.weight].lo
		for _, x := range s.state(one.weight) {
			size := 4 * one.len()
			if move != nil {
				if err := move(x, one.lo-lo, one.hi-lo, raw[n:n+size]); err != nil {
					return n, err
				}
			}
			n += size
		}
	}
	return n, nil
}

// measureRows makes the calls that compute the square sums of the flat rows of a shard's gradients.
func (s *shard) measureRows(q *engine.Queue) error {
	for i, x := range s.whole {
		if x == nil {
			continue
		}
		if err := norm.RowSums(q, s.rows[i], x); err != nil {
			return err
		}
	}
	return nil
}

// update makes the calls that change the weights and moments of a shard: the gradients times the factor, and the optimizer.
func (t *Trainer) update(q *engine.Queue, s *shard, step int, factor float32) error {
	rate := t.config.RateAt(step)
	for i, g := range s.sums {
		if g == nil {
			continue
		}
		if err := t.optimize(q, s, i, g, float64(factor), step, rate*t.factors[i]); err != nil {
			return fmt.Errorf("%s: %w", t.names[i], err)
		}
	}
	return nil
}

// optimize makes the calls that change one weight and its moments, and its copy in 16 bits, by the gradient times factor. The decay is the optimizer's own in
// AdamW. With SGD it is a product of the weight, 1 - rate*decay in binary64, before the step: decoupled
// from the gradient and its momentum as well.
func (t *Trainer) optimize(q *engine.Queue, s *shard, i int, g *tensor.Tensor, factor float64, step int, rate float64) error {
	c, decay := &t.config, 0.0
	if len(t.shapes[i]) > 1 {
		decay = c.Decay
	}
	if c.Optimizer == "sgd" {
		if err := engine.Call(q, model.Scale, []*tensor.Tensor{g, g}, []float64{factor}); err != nil {
			return err
		}
		if decay > 0 {
			if err := engine.Call(q, model.Scale, []*tensor.Tensor{s.weights[i], s.weights[i]}, []float64{1 - rate*decay}); err != nil {
				return err
			}
		}
		if err := sgd.Step(q, sgd.Update{Weight: s.weights[i], Buffer: s.m[i], Grad: g, Hyper: sgd.Hyper{LR: rate, Momentum: c.Momentum}}); err != nil {
			return err
		}
		return t.copyWeight(q, s, i)
	}
	h := adamw.Hyper{LR: rate, Beta1: c.Beta1, Beta2: c.Beta2, Eps: c.AdamEps, WeightDecay: decay}
	u := adamw.Update{State: adamw.State{Weight: s.weights[i], M: s.m[i], V: s.v[i]}, Grad: g, Hyper: h, T: t.origin.Before + step}
	if t.hasCopies() {
		u.Mode, u.State.Copy = adamw.Master, s.copies[i]
	}
	return adamw.StepScaled(q, u, factor)
}

// copyWeight makes the call that rounds a weight to its copy, as the master form of AdamW does, if there is one.
func (t *Trainer) copyWeight(q *engine.Queue, s *shard, i int) error {
	if !t.hasCopies() || s.weights[i] == nil {
		return nil
	}
	return engine.Call(q, model.RoundBF16, []*tensor.Tensor{s.weights[i], s.copies[i]}, nil)
}
