package train

import (
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/model"
	"tokitai/num"
	"tokitai/op/checksum"
	"tokitai/op/router"
	"tokitai/tensor"
)

// Routing says how a router of a mixture has worked in a step.
type Routing struct {
	Name    string  `json:"name"`    // that its weights begin with
	Tokens  []int64 `json:"tokens"`  // that each expert has had
	Entropy float64 `json:"entropy"` // of the router's softmax, in nats: the mean over the tokens
}

// biases are those of the experts of all routers, by which these are balanced. They are part of the state of a
// run as the weights are, but an optimizer does not see them: a step moves each up or down by the same amount.
// The zero value is that of routers without biases.
type biases struct {
	names  []string         // in the order of their bytes
	of     []int            // the router that each belongs to, by its number in the program
	each   []*tensor.Tensor // rows of all
	all    *tensor.Tensor   // [routers, experts]
	counts *tensor.Tensor   // int32 likewise: the tokens of each expert in a step
	words  *tensor.Tensor   // digests
}

// allocateBiases makes the biases of a decoder's routers, and gives them to its program.
func (t *Trainer) allocateBiases(given map[string]*tensor.Tensor) error {
	b, rate := &t.biases, t.config.Mixture.Balance
	if rate == 0 || len(t.network.Routers) == 0 {
		return nil
	}
	for _, v := range t.network.Program.Of(model.Fixed) {
		b.names = append(b.names, v.Name)
		b.of = append(b.of, slices.IndexFunc(t.network.Routers, func(m model.Measured) bool { return m.Bias == v.Name }))
	}
	n, experts := len(b.names), t.config.Mixture.Experts
	for _, x := range []struct {
		to    **tensor.Tensor
		dtype num.DType
		cols  int
	}{{&b.all, num.F32, experts}, {&b.counts, num.I32, experts}, {&b.words, num.I32, 2}} {
		var err error
		if *x.to, err = t.tensor(x.dtype, n, x.cols); err != nil {
			return err
		}
	}
	for i, name := range b.names {
		row, err := b.all.Slice(i, i+1, 0, experts)
		if err == nil {
			row, err = row.Reshape(experts)
		}
		if err != nil {
			return err
		}
		b.each = append(b.each, row)
		given[name] = row
	}
	return nil
}

// giveTo gives the biases to another program of the decoder.
func (b *biases) giveTo(given map[string]*tensor.Tensor) {
	for i, name := range b.names {
		given[name] = b.each[i]
	}
}

// state lists the biases as parts of the state.
func (b *biases) state() []part {
	var list []part
	for i, name := range b.names {
		list = append(list, part{name, b.each[i].Shape(), -1, b.each[i]})
	}
	return list
}

// setCounts takes the tokens that the experts have had in a step.
func (b *biases) setCounts(routing []Routing) error {
	if len(b.names) == 0 {
		return nil
	}
	var counts []int32
	for _, r := range b.of {
		for _, n := range routing[r].Tokens {
			counts = append(counts, int32(n)) // Check has bounded their sum
		}
	}
	return b.counts.SetInt32s(counts)
}

// move makes the call that moves the biases, and those that compute their digests.
func (b *biases) move(q *engine.Queue, rate float64) error {
	if len(b.names) == 0 {
		return nil
	}
	if err := router.BiasStep(q, b.all, b.counts, rate); err != nil {
		return err
	}
	for i, row := range b.each {
		if err := digestInto(q, b.words, i, row, 0); err != nil {
			return fmt.Errorf("%s: %w", b.names[i], err)
		}
	}
	return nil
}

// digestInto makes the call that computes the digest of a tensor, whose elements are numbered from first on, into a row of
// words.
func digestInto(q *engine.Queue, words *tensor.Tensor, row int, x *tensor.Tensor, first uint64) error {
	var to [2]*tensor.Tensor
	for k := range to {
		v, err := words.Slice(row, row+1, k, k+1)
		if err != nil {
			return err
		}
		to[k] = v
	}
	return checksum.Forward(q, to[0], to[1], x, first)
}

// digestsOf reads the digests of n tensors.
func digestsOf(words *tensor.Tensor, n int) ([]checksum.Digest, error) {
	if n == 0 {
		return nil, nil
	}
	read, err := words.Int32s()
	if err != nil {
		return nil, err
	}
	list := make([]checksum.Digest, n)
	for i := range list {
		list[i] = checksum.Digest{Word0: uint32(read[2*i]), Word1: uint32(read[2*i+1])}
	}
	return list, nil
}

// routed is how the routers have worked in leaves, one behind the other.
type routed struct {
	counts    []int32   // of each leaf and router, the tokens of each expert
	entropies []float32 // of each leaf and router, the sum over the tokens
}

// tally is how the routers have worked in leaves, on the device, where calls write it down. So the host need not wait for one leaf
// before it has the next one computed.
type tally struct {
	routers   int
	counts    *tensor.Tensor                             // [routers, experts] of the leaf that was computed last
	entropies *tensor.Tensor                             // [routers] of it
	all       struct{ counts, entropies *tensor.Tensor } // of the leaves of a step
	leaves    int                                        // of the step so far
}

// tallyDefinition copies how routers have worked.
var tallyDefinition = def.Must(def.Rowwise("train.tally", func(b *def.Builder) {
	x, e := b.In("x", def.Only(num.I32)), b.InRow("e", def.Only(num.F32))
	b.Out("counts", x, def.Only(num.I32))
	b.OutRow("entropy", e, def.Only(num.F32))
	b.Formula("counts = x", "entropy = e")
}))

// allocateTally makes the tally, and gives its parts to the program of a leaf.
func (t *Trainer) allocateTally(given map[string]*tensor.Tensor) error {
	y := &t.tally
	if y.routers = len(t.network.Routers); y.routers == 0 {
		return nil
	}
	experts := t.network.Routers[0].Experts
	for _, x := range []struct {
		to    **tensor.Tensor
		dtype num.DType
		shape []int
	}{
		{&y.counts, num.I32, []int{y.routers, experts}}, {&y.entropies, num.F32, []int{y.routers}},
		{&y.all.counts, num.I32, []int{t.config.Leaves * y.routers, experts}}, {&y.all.entropies, num.F32, []int{t.config.Leaves * y.routers}},
	} {
		var err error
		if *x.to, err = t.tensor(x.dtype, x.shape...); err != nil {
			return err
		}
	}
	for i, r := range t.network.Routers {
		var err error
		if given[r.Counts], err = flat(y.counts, i*experts, (i+1)*experts); err != nil {
			return err
		}
		if given[r.Entropy], err = flat(y.entropies, i, i+1); err != nil {
			return err
		}
	}
	return nil
}

// add makes the call that notes how routers have worked in the leaf that was computed last.
func (y *tally) add(q *engine.Queue) error {
	if y.routers == 0 {
		return nil
	}
	from, to := y.leaves*y.routers, (y.leaves+1)*y.routers
	counts, err := y.all.counts.Slice(from, to, 0, y.counts.Shape()[1])
	if err != nil {
		return err
	}
	entropies, err := flat(y.all.entropies, from, to)
	if err != nil {
		return err
	}
	y.leaves++
	return engine.Call(q, tallyDefinition, []*tensor.Tensor{y.counts, y.entropies, counts, entropies}, nil)
}

// read returns how routers have worked in the leaves of the step.
func (y *tally) read() (r routed, err error) {
	if y.routers == 0 || y.leaves == 0 {
		return r, nil
	}
	rows, experts := y.leaves*y.routers, y.counts.Shape()[1]
	counts, err := flat(y.all.counts, 0, rows*experts)
	if err != nil {
		return r, err
	}
	entropies, err := flat(y.all.entropies, 0, rows)
	if err != nil {
		return r, err
	}
	if r.counts, err = counts.Int32s(); err == nil {
		r.entropies, err = entropies.Float32s()
	}
	return r, err
}

// sumRouting adds up the routing of all leaves, in their order.
func (t *Trainer) sumRouting() {
	t.routing = nil
	for _, r := range t.network.Routers {
		t.routing = append(t.routing, Routing{r.Name, make([]int64, r.Experts), 0})
	}
	for i, entropy := range t.routed.entropies {
		r := &t.routing[i%len(t.routing)]
		r.Entropy += float64(entropy) / float64(t.config.Rows())
		for e := range r.Tokens {
			r.Tokens[e] += int64(t.routed.counts[i*len(r.Tokens)+e])
		}
	}
}

// Routing returns how the routers have worked in the last step; nil without mixtures.
func (t *Trainer) Routing() []Routing { return t.routing }
