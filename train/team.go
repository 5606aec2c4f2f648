package train

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"tokitai/engine"
	"tokitai/model"
	"tokitai/num"
	"tokitai/op/checksum"
	"tokitai/op/norm"
	"tokitai/ranks"
	"tokitai/tensor"
)

// Team is the ranks that train together. The zero value is for one process that is alone.
type Team struct {
	Group ranks.Group
	Facts []ranks.Fact // that all must have in common, besides settings, definitions and data
	Audit float64      // the share of steps that two ranks compute; above 0, all that is sent and kept is digested too

	// Judge is where a third opinion is computed if two ranks differ: a queue of another device, or nil for that of the trainer.
	Judge *engine.Queue

	// DividesExperts has each rank hold some of the experts alone; rows of others go to the ranks that have them.
	DividesExperts bool
}

// team is what a rank knows of all of them. Rank r computes the gradients of some leaves, and changes a span of
// each weight.
type team struct {
	ranks.Group
	leaves [][]int  // of each rank, ascending
	nodes  [][]node // of each rank: the sums that it has over its leaves
	spans  [][]span // of each rank: what it changes of each weight
	shared [][]span // of these, what others hold too: all but experts that are divided

	rows   []*tensor.Tensor // of each weight: the square sum of each flat row of its gradient
	all    *tensor.Tensor   // all of these, one behind the other
	totals *tensor.Tensor   // of each weight

	measure recorded          // the square sums of the own spans
	copied  *engine.Recording // the digests of what programs read
	own     *tensor.Tensor    // digests of the own spans of that
	whole   *tensor.Tensor    // digests of all of it
	sent    []checksum.Digest // of all of it, as its owners have it

	audit audit

	send, receive [][]byte
}

// roundElements bounds what a rank gets of its spans at once.
const roundElements = 1 << 22

// join makes a trainer one of several, unless it is alone.
func (t *Trainer) join(with Team) error {
	sizes := []int{}
	for _, w := range t.network.Program.Of(model.Weight) {
		sizes = append(sizes, w.Len())
	}
	t.leaves, t.spans = leavesOf(t.config.Leaves, 1, 0), divide(sizes, 1)[0]
	if with.Group == nil {
		return nil
	}
	n, rank := with.Group.Size(), with.Group.Rank()
	if n > t.config.Leaves {
		return badInput("%d ranks for %d leaves, want at most as many ranks as leaves", n, t.config.Leaves)
	}
	if err := t.divideExperts(with); err != nil {
		return err
	}
	facts := slices.Clone(with.Facts)
	eachField(reflect.ValueOf(t.config), func(name string, v any) {
		facts = append(facts, ranks.Fact{Name: "the setting " + name, Value: fmt.Sprint(v)})
	})
	facts = append(facts, ranks.Fact{Name: "the share of steps that is audited", Value: fmt.Sprint(with.Audit)},
		ranks.Fact{Name: "the division of experts", Value: fmt.Sprint(with.DividesExperts)},
		ranks.Fact{Name: "the definitions of the network", Value: t.origin.Program},
		ranks.Fact{Name: "the definitions of a step", Value: fmt.Sprintf("%x", sha256.Sum256([]byte(t.origin.Update)))},
		ranks.Fact{Name: "the tokenizer", Value: t.origin.Tokenizer}, ranks.Fact{Name: "the data", Value: t.origin.Data})
	if err := ranks.Agree(with.Group, facts); err != nil {
		return err
	}
	m := &team{Group: with.Group, audit: audit{share: with.Audit, judge: with.Judge}, send: make([][]byte, n), receive: make([][]byte, n)}
	if t.divided == nil {
		m.spans = divide(sizes, n)
		m.shared = m.spans
	} else {
		m.spans, m.shared = t.divided.spans(sizes)
	}
	for r := range n {
		var leaves []int
		var nodes []node
		if t.divided == nil {
			leaves = leavesOf(t.config.Leaves, n, r)
			nodes, _ = sumsOf(t.config.Leaves, leaves)
		} else {
			for leaf := r; leaf < t.config.Leaves; leaf += n {
				leaves, nodes = append(leaves, leaf), append(nodes, node{0, leaf})
			}
		}
		m.leaves, m.nodes = append(m.leaves, leaves), append(m.nodes, nodes)
	}
	t.team, t.leaves, t.spans = m, m.leaves[rank], m.spans[rank]
	return nil
}

// leavesOf returns the leaves of a rank.
func leavesOf(leaves, ranks, rank int) (list []int) {
	for leaf := rank * leaves / ranks; leaf < (rank+1)*leaves/ranks; leaf++ {
		list = append(list, leaf)
	}
	return list
}

// allocateTeam makes what only ranks have.
func (t *Trainer) allocateTeam() error {
	m := t.team
	err := t.allocateSums(m, &t.shard)
	if err != nil {
		return err
	}
	rows := 0
	for _, w := range t.network.Program.Of(model.Weight) {
		rows += norm.Rows(w.Len())
	}
	if m.all, err = t.tensor(num.F32, rows); err != nil {
		return err
	}
	at := 0
	for i, w := range t.network.Program.Of(model.Weight) {
		all, err := flat(m.all, at, at+norm.Rows(w.Len()))
		if err != nil {
			return err
		}
		own, err := t.spans[i].rowsOf(all)
		if err != nil {
			return err
		}
		m.rows, t.rows = append(m.rows, all), append(t.rows, own)
		at += all.Len()
	}
	for _, x := range []**tensor.Tensor{&m.own, &m.whole} {
		if *x, err = t.tensor(num.I32, len(t.working), 2); err != nil {
			return err
		}
	}
	if m.totals, err = t.tensor(num.F32, len(t.working)); err != nil {
		return err
	}
	if err := t.divided.setWhole(&t.shard); err != nil || !t.isAuditing() {
		return err
	}
	m.audit.other, err = t.newShard(m, m.auditee())
	return err
}

// recordTeam records the calls that only ranks make.
func (t *Trainer) recordTeam(record func(func(q *engine.Queue) error) (*engine.Recording, error)) error {
	m := t.team
	var err error
	if slices.ContainsFunc(t.whole, func(x *tensor.Tensor) bool { return x != nil }) {
		measure, err := record(t.shard.measureRows)
		if err != nil {
			return err
		}
		m.measure = measure
	}
	whole := make([]span, len(t.working))
	m.copied, err = record(func(q *engine.Queue) error { return t.digest(q, m.whole, t.sharedOf(t.working), whole) })
	return err
}

// Commands are what rank 0 has the others do.
const (
	beginCommand   = iota + 1 // take the weights before the first step
	restoreCommand            // take the state after a step
	stepCommand
	saveCommand // send the state
	passCommand // compute rows of its experts for a pass over examples for validation, or over a sample
	sizeCommand // send how large the memory is
	endCommand
)

// order is a command, with the step and the entry of the chain behind which it is, and the steps before the first.
type order struct {
	Command, Step, Before uint64
	Chain                 Entry
}

// command tells the other ranks what comes next; it does nothing for a trainer that is alone or follows.
func (t *Trainer) command(kind uint64) error {
	if t.team == nil || t.team.Rank() > 0 {
		return nil
	}
	raw, err := binary.Append(nil, binary.LittleEndian, order{kind, uint64(t.step), uint64(t.origin.Before), t.chain})
	if err != nil {
		return err
	}
	return t.team.Broadcast(0, raw)
}

// Follow trains as a rank other than 0: it does what rank 0 says, until that one closes its trainer.
func Follow(q *engine.Queue, with Team, c Config, on Data) error {
	t, err := prepare(q, with, c, on)
	if err != nil {
		return err
	}
	defer t.Close()
	for {
		o, err := t.nextOrder()
		if err != nil || o.Command == endCommand {
			return err
		}
		if err := t.obey(o); err != nil {
			return err
		}
	}
}

// nextOrder waits for what rank 0 says.
func (t *Trainer) nextOrder() (o order, err error) {
	raw := make([]byte, binary.Size(o))
	if err := t.team.Broadcast(0, raw); err != nil {
		return o, err
	}
	_, err = binary.Decode(raw, binary.LittleEndian, &o)
	return o, err
}

// obey does what rank 0 does at the same time.
func (t *Trainer) obey(o order) error {
	take := func(list []part) error {
		for _, p := range list {
			if err := t.place(p, nil); err != nil {
				return err
			}
		}
		return t.copyWeights()
	}
	switch o.Command {
	case beginCommand:
		t.step, t.origin.Before = 0, int(o.Before)
		return take(t.initialState())
	case restoreCommand:
		t.step, t.origin.Before = int(o.Step), int(o.Before)
		return take(t.state())
	case passCommand:
		return t.divided.forward(nil)
	case sizeCommand:
		_, err := t.Sizes()
		return err
	case saveCommand:
		for _, p := range t.state() {
			if _, err := t.collect(p); err != nil {
				return err
			}
		}
		return nil
	case stepCommand:
		t.chain = o.Chain
		_, err := t.takeStep()
		if _, isNotFinite := errors.AsType[*NotFiniteError](err); isNotFinite {
			return nil
		}
		return err
	}
	return fmt.Errorf("rank 0 sends the command %d, which is none", o.Command)
}
