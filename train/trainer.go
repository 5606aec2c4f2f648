package train

import (
	"errors"

	"tokitai/engine"
	"tokitai/model"
	"tokitai/tensor"
)

// Trainer takes the steps of a run. It holds the weights, their moments and the chain.
type Trainer struct {
	config  Config
	queue   *engine.Queue
	data    Data
	task    task
	network *model.Network // of a leaf
	program *model.Program // of a leaf, as it is computed here: with the bits of the network's
	origin  Origin
	team    *team    // nil for a trainer that is alone
	divided *divided // nil unless experts are divided among ranks

	step  int // that was taken last
	chain Entry

	names   []string         // of the weights, in the order of their bytes
	shapes  [][]int          // of the weights
	factors []float64        // of their rates
	biases  biases           // of routers
	working []*tensor.Tensor // what programs read: the weights, or copies of them in 16 bits

	shard          // that this rank changes
	leaves []int   // that this rank computes
	levels []level // of the tree of leaves: partial sums
	norm   scalar
	factor scalar
	words  *tensor.Tensor // the digests of the weights

	once    recorded            // what all leaves read and weights alone decide; nil for nothing
	merges  map[string]recorded // that add up levels, by the formulas of their sums
	measure recorded            // the norm
	advance recorded            // nil for a rank that changes nothing

	tally    tally     // of the leaves of the step
	routed   routed    // in the leaves of the step
	routing  []Routing // of the step that was taken last
	isBroken bool      // after an error in a step
	owned    []interface{ Close() error }
}

// level is where the gradients of a leaf go, and later those of several.
type level struct {
	leaf      *model.Instance
	recording recorded
	pass      *pass            // instead of a recording, if experts are divided
	grads     []*tensor.Tensor // in the order of the weights
	loss      scalar
}

// scalar is a tensor of one binary32.
type scalar struct{ *tensor.Tensor }

func (s scalar) read() (float32, error) {
	v, err := s.Float32s()
	if err != nil {
		return 0, err
	}
	return v[0], nil
}

// New returns a trainer with initial weights, before its first step.
func New(q *engine.Queue, c Config, on Data) (*Trainer, error) {
	return NewRanked(q, Team{}, c, on)
}

// NewRanked is [New] for rank 0 of several; the others call [Follow].
func NewRanked(q *engine.Queue, with Team, c Config, on Data) (*Trainer, error) {
	t, err := prepare(q, with, c, on)
	if err != nil {
		return nil, err
	}
	if err := t.begin(0, t.initial); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// prepare returns a trainer without weights.
func prepare(q *engine.Queue, with Team, c Config, on Data) (*Trainer, error) {
	settings := Settings{Config: c}
	if err := settings.Check(); err != nil {
		return nil, err
	}
	if err := c.settle(q); err != nil {
		return nil, err
	}
	t := &Trainer{config: c, queue: q.With(engine.WithRule(c.Rule())), data: on}
	var err error
	if t.task, err = newTask(&t.config, on, false); err != nil {
		return nil, err
	}
	if t.network, err = t.task.network(c.Batch/c.Leaves, true); err != nil {
		return nil, err
	}
	t.setOrigin(on)
	if err = t.join(with); err == nil {
		t.program = t.divided.program(t.network.Program)
		err = t.allocate()
	}
	if err == nil {
		err = t.record()
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Steps returns how many steps have been taken.
func (t *Trainer) Steps() int { return t.step }

// Chain returns the entry of the last step.
func (t *Trainer) Chain() Entry { return t.chain }

// Origin returns what the chain begins with.
func (t *Trainer) Origin() Origin { return t.origin }

// Network returns the network of a leaf.
func (t *Trainer) Network() *model.Network { return t.network }

// Parameters returns the number of elements of all weights.
func (t *Trainer) Parameters() int {
	n := 0
	for _, w := range t.network.Program.Of(model.Weight) {
		n += w.Len()
	}
	return n
}

// Examples returns how many examples the trainer has, for training and behind them for validation: blocks of tokens.
func (t *Trainer) Examples() (train, validation int) { return t.task.examples() }

// Close frees the memory of the trainer. Ranks that follow it end.
func (t *Trainer) Close() error {
	var errs []error
	if !t.isBroken {
		errs = append(errs, t.command(endCommand))
	}
	for i := len(t.owned) - 1; i >= 0; i-- {
		errs = append(errs, t.owned[i].Close())
	}
	t.owned = nil
	return errors.Join(errs...)
}
