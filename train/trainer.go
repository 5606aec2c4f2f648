package train

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"tokitai/engine"
	"tokitai/model"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/checksum"
	"tokitai/op/norm"
	"tokitai/op/router"
	"tokitai/op/sgd"
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

// recorded is calls that run together: an engine.Recording.
type recorded interface {
	runner
	Update(calls func(q *engine.Queue) error) error
}

type runner interface{ Run(q *engine.Queue) error }

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

// Result is what a step has given.
type Result struct {
	Step    int
	Loss    float32 // the mean over the labels
	Norm    float32 // of all gradients together, before they were clipped
	Rate    float64
	Weights string // SHA-256 of the digests of the weights and biases, in hexadecimal
	Chain   Entry
}

// NotFiniteError reports a step whose loss or norm is no finite number. The step has changed nothing.
type NotFiniteError struct {
	Step       int
	Loss, Norm float32
	Call       string // the first call of the step, in program order, with such a result
	Tensor     string // that result, or a weight that it reads
}

func (e *NotFiniteError) Error() string {
	where := "the sum over the leaves overflowed"
	if e.Tensor != "" {
		where = fmt.Sprintf("the first tensor that is not finite is %s, of %s", e.Tensor, e.Call)
	}
	return fmt.Sprintf("step %d: loss %v, norm %v: %s; the step was not taken", e.Step, e.Loss, e.Norm, where)
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

// own has a resource closed with the trainer.
func own[T interface{ Close() error }](t *Trainer, v T, err error) (T, error) {
	if err == nil {
		t.owned = append(t.owned, v)
	}
	return v, err
}

func (t *Trainer) tensor(d num.DType, shape ...int) (*tensor.Tensor, error) {
	v, err := tensor.New(t.queue.Device(), d, shape...)
	return own(t, v, err)
}

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

// setOrigin sets what the chain begins with, but the weights.
func (t *Trainer) setOrigin(on Data) {
	optimizer := adamw.InPlaceDefinition
	switch {
	case t.config.Optimizer == "sgd":
		optimizer = sgd.StepDefinition
	case t.hasCopies():
		optimizer = adamw.MasterDefinition
	}
	update := ""
	for _, d := range []string{model.Add.Hash(), norm.SquareSumDefinition.Hash(), norm.TotalDefinition.Hash(), norm.ClipDefinition.Hash(), model.Scale.Hash(), optimizer.Hash(), checksum.ForwardDefinition.Hash()} {
		update += d + " "
	}
	if t.hasCopies() {
		update += model.RoundBF16.Hash() + " "
	}
	if t.config.Mixture.Balance > 0 && len(t.network.Routers) > 0 {
		update += router.BiasDefinition.Hash() + " "
	}
	t.origin = Origin{
		Config: t.config, Program: t.network.Program.Identity(), Update: update, Rule: t.config.Rule().String(), Tokenizer: t.task.tokenizer().Identity,
		Data: on.Identity(),
	}
}

// initial returns the initial values of a weight or of biases.
func (t *Trainer) initial(p part) ([]float32, error) {
	return t.task.initial(t.network.Program.Value(p.name)), nil
}

// initialState lists what is set before the first step: the moments too if they have seen steps. Otherwise they are 0.
func (t *Trainer) initialState() []part {
	if t.origin.Before > 0 {
		return t.state()
	}
	return t.learned()
}

// begin sets the state before the first step, whose moments have seen so many steps before, and the chain to its genesis.
func (t *Trainer) begin(before int, values func(p part) ([]float32, error)) error {
	t.step, t.origin.Before, t.origin.Moments = 0, before, ""
	if err := t.command(beginCommand); err != nil {
		return err
	}
	weights, moments := sha256.New(), sha256.New()
	var placed []partOf
	for _, p := range t.initialState() {
		list, err := values(p)
		if err != nil {
			return err
		}
		raw, err := binary.Append(nil, binary.LittleEndian, list)
		if err != nil {
			return err
		}
		digested, err := t.digestPart(p, raw)
		if err == nil {
			placed, err = append(placed, digested), t.place(p, raw)
		}
		if err != nil {
			return err
		}
		all := weights
		if isMoment(p.name) {
			all = moments
		}
		fmt.Fprintf(all, "%s %v\n", p.name, p.shape)
		all.Write(raw)
	}
	t.origin.Weights = hex.EncodeToString(weights.Sum(nil))
	if before > 0 {
		t.origin.Moments = hex.EncodeToString(moments.Sum(nil))
	}
	t.chain = t.origin.Genesis()
	if err := t.copyWeights(); err != nil {
		return err
	}
	return t.auditParts(placed)
}

// Steps returns how many steps have been taken.
func (t *Trainer) Steps() int { return t.step }

// Chain returns the entry of the last step.
func (t *Trainer) Chain() Entry { return t.chain }

// Origin returns what the chain begins with.
func (t *Trainer) Origin() Origin { return t.origin }

// Network returns the network of a leaf.
func (t *Trainer) Network() *model.Network { return t.network }

// leafExamples returns the examples of a leaf of a step, counted over all steps, those before the first too.
func (t *Trainer) leafExamples(step, leaf int) []int {
	each := t.config.Batch / t.config.Leaves
	list := make([]int, each)
	for i := range list {
		list[i] = t.task.training((t.origin.Before+step-1)*t.config.Batch + leaf*each + i)
	}
	return list
}

// load puts the examples of a leaf into the device's memory.
func (t *Trainer) load(step, leaf int) error {
	return t.task.put(t.levels[0].leaf, t.leafExamples(step, leaf))
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

func isFinite(v float32) bool { return v-v == 0 }

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

// notFinite computes the gradients of a step again, call by call, to name the first result that is
// not finite.
func (t *Trainer) notFinite(r Result) error {
	e := &NotFiniteError{Step: r.Step, Loss: r.Loss, Norm: r.Norm}
	if t.divided != nil {
		return t.divided.notFinite(e)
	}
	if t.team != nil && t.team.Rank() > 0 { // rank 0 tells it
		return e
	}
	in := t.levels[0].leaf
	for leaf := range t.config.Leaves {
		if err := t.load(r.Step, leaf); err != nil {
			return err
		}
		for i, c := range t.program.Calls {
			if err := in.RunCall(t.queue, i, t.variables(r.Step, leaf)); err != nil {
				return err
			}
			if err := t.queue.Wait(); err != nil {
				return err
			}
			at, err := firstNotFinite(in.Operands(i))
			if err != nil {
				return err
			}
			if at >= 0 {
				e.Call, e.Tensor = c.Name, c.Operands[at].Value().Name
				return e
			}
		}
	}
	return e
}

// firstNotFinite returns the position of the first tensor with an element that is not finite; -1 for none.
func firstNotFinite(list []*tensor.Tensor) (int, error) {
	for k, x := range list {
		if !x.DType().IsFloat() {
			continue
		}
		values, err := x.Float32s()
		if err != nil {
			return 0, err
		}
		if slices.ContainsFunc(values, func(v float32) bool { return !isFinite(v) }) {
			return k, nil
		}
	}
	return -1, nil
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

// part is a tensor of the state, with its name in a checkpoint.
type part struct {
	name   string
	shape  []int
	weight int            // its number, or -1 for biases, which every rank has
	tensor *tensor.Tensor // the span of this rank
}

// parts returns a weight with its moments.
func (t *Trainer) parts(i int) []part {
	list := make([]part, 0, 3)
	for k, x := range t.shard.state(i) {
		list = append(list, part{[]string{"", prefixM, prefixV}[k] + t.names[i], t.shapes[i], i, x})
	}
	return list
}

// learned lists the weights and the biases.
func (t *Trainer) learned() []part {
	var list []part
	for i := range t.names {
		list = append(list, t.parts(i)[0])
	}
	return append(list, t.biases.state()...)
}

// state lists all tensors of the state.
func (t *Trainer) state() []part {
	var list []part
	for i := range t.names {
		list = append(list, t.parts(i)...)
	}
	return append(list, t.biases.state()...)
}

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
