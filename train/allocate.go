package train

import (
	"strings"

	"tokitai/model"
	"tokitai/num"
	"tokitai/tensor"
)

// allocate makes the weights, the moments, and the levels of the tree.
func (t *Trainer) allocate() error {
	given, err := t.network.Constants(t.queue)
	if err != nil {
		return err
	}
	for _, v := range given {
		t.owned = append(t.owned, v)
	}
	groups, err := t.config.groups()
	if err != nil {
		return err
	}
	weights := t.network.Program.Of(model.Weight)
	for i, w := range weights {
		t.names = append(t.names, w.Name)
		factor := 1.0
		for _, g := range groups {
			if strings.Contains(w.Name, g.part) {
				factor = g.factor
			}
		}
		t.factors = append(t.factors, factor)
		t.shapes = append(t.shapes, w.Shape)
		shape, of := w.Shape, t.spans[i].of
		if t.isDivided(i) {
			shape, of = t.divided.shape(w.Shape), func(x *tensor.Tensor) (*tensor.Tensor, error) { return x, nil }
		}
		working, err := t.tensor(w.DType, shape...)
		if err != nil {
			return err
		}
		part, err := of(working)
		if err == nil {
			err = t.allocateState(&t.shard, part)
		}
		if err != nil {
			return err
		}
		t.working = append(t.working, working)
		given[w.Name] = working
	}
	if err := t.allocateBiases(given); err != nil {
		return err
	}
	if err := t.allocateTally(given); err != nil {
		return err
	}
	if err := t.divided.allocate(); err != nil {
		return err
	}
	_, nodes, levels := planLeaves(t.config.Leaves, t.leaves)
	if t.divided != nil {
		levels = len(t.leaves) // which are not neighbours
	}
	if t.isAuditing() {
		_, _, more := planLeaves(t.config.Leaves, t.team.leaves[t.team.auditee()])
		levels = max(levels, len(nodes)+more)
	}
	for i := range levels {
		var l level
		outputs := map[string]*tensor.Tensor{}
		for k, w := range weights {
			if t.isDivided(k) {
				l.grads = append(l.grads, nil)
				continue
			}
			g, err := t.tensor(num.F32, w.Shape...)
			if err != nil {
				return err
			}
			l.grads = append(l.grads, g)
			outputs[t.network.Gradients[w.Name]] = g
		}
		if l.loss.Tensor, err = t.tensor(num.F32, 1); err != nil {
			return err
		}
		outputs[model.Loss] = l.loss.Tensor
		if i == 0 {
			for name, v := range outputs {
				given[name] = v
			}
			l.leaf, err = model.NewInstance(t.queue, t.program, given)
			l.leaf, err = own(t, l.leaf, err)
		} else {
			l.leaf, err = t.levels[0].leaf.With(outputs)
		}
		if err != nil {
			return err
		}
		t.levels = append(t.levels, l)
	}
	if t.sums = t.levels[0].grads; t.team != nil {
		if err := t.allocateTeam(); err != nil {
			return err
		}
	}
	if t.norm.Tensor, err = t.tensor(num.F32, 1); err != nil {
		return err
	}
	if t.factor.Tensor, err = t.tensor(num.F32, 1); err != nil {
		return err
	}
	t.words, err = t.tensor(num.I32, len(weights), 2)
	return err
}

func (t *Trainer) tensor(d num.DType, shape ...int) (*tensor.Tensor, error) {
	v, err := tensor.New(t.queue.Device(), d, shape...)
	return own(t, v, err)
}

// own has a resource closed with the trainer.
func own[T interface{ Close() error }](t *Trainer, v T, err error) (T, error) {
	if err == nil {
		t.owned = append(t.owned, v)
	}
	return v, err
}

// Bytes returns the memory that the trainer holds on its device.
func (t *Trainer) Bytes() int64 {
	n := t.program.Bytes() + t.divided.bytes()
	seen := map[*tensor.Tensor]bool{}
	for _, v := range t.program.Values {
		if x := t.levels[0].leaf.Tensor(v.Name); v.Kind == model.Input || v.IsKept {
			seen[x] = true
		}
	}
	lists := [][]*tensor.Tensor{t.biases.each, {t.tally.all.counts, t.tally.all.entropies}, t.working, t.m, t.v, t.sums}
	if t.hasCopies() {
		lists = append(lists, t.weights)
	}
	for _, l := range t.levels {
		lists = append(lists, l.grads)
	}
	for _, list := range lists {
		for _, x := range list {
			if x != nil {
				seen[x] = true
			}
		}
	}
	for x := range seen {
		n += int64(x.Len()) * int64(x.DType().Size())
	}
	return n
}
