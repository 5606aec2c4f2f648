package model

import (
	"fmt"

	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/crossentropy"
	"tokitai/op/dropout"
	"tokitai/op/norm"
	"tokitai/tensor"
)

// Names of the inputs and results of a decoder, and of the variables of its runs.
const (
	Tokens = "tokens" // int32, those of each sequence one behind the other
	Labels = "labels" // int32, the token behind each, or crossentropy.DefaultIgnore
	Loss   = "loss"   // the sum of the losses of all labels
	Logits = "logits"

	ScaleVariable    = "scale"    // by which gradients of the logits are multiplied
	SeedLowVariable  = "seedlow"  // of dropout, as int32
	SeedHighVariable = "seedhigh" //
	PassVariable     = "pass"     // the number of the pass, from 0: each drops other elements
)

// Decoder is a decoder for a number of sequences at once.
type Decoder struct {
	Network
	Config    Config
	Sequences int
}

// Tokens returns how many tokens a run takes.
func (d *Decoder) Tokens() int { return d.Sequences * d.Config.Block }

// NewDecoder returns the program of a decoder: for training, with dropout and gradients, or the same
// forward calls without dropout. Where weights and activations are stored in bf16, so are the gradients of
// activations; logits, loss and the gradients of weights are binary32.
//
// Weights have the names and shapes of Llama's classes in the library transformers, so that a linear
// layer has [out, in]; a learned table of positions is model.embed_positions.weight, and without a
// gate the feed-forward layer has up_proj and down_proj alone.
func NewDecoder(c Config, sequences int, training bool) (*Decoder, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if sequences < 1 || sequences > MaxLeafTokens/c.Block {
		return nil, fmt.Errorf("%d sequences of %d tokens in a leaf, want at least 1 and at most %d tokens", sequences, c.Block, MaxLeafTokens)
	}
	if training && c.Format() == num.F16 {
		return nil, fmt.Errorf("precision is f16, want f32 or bf16 for training: most gradients are too small for f16")
	}
	if training && c.FP8.IsUsed() {
		return nil, fmt.Errorf("weights are in FP8, in which they have no gradients: nothing can be trained")
	}
	d := &decoder{body: newBody(c, sequences*c.Block), sequences: sequences, training: training}
	full := &Decoder{Network: Network{block: c.Block}, Config: c, Sequences: sequences}
	full.constants = full.tables
	if training {
		d.measure = func(name string, logits, counts Ref) {
			m := measured(d.Builder, name, logits, counts)
			if c.Mixture.Balance > 0 {
				m.Bias = name + BiasSuffix
			}
			full.Routers = append(full.Routers, m)
		}
	}
	logits, dlogits := d.forward()
	if training {
		full.Gradients = namesOf(d.Backward(logits, dlogits, nil))
	}
	var err error
	full.Program, err = d.Builder.Program()
	return full, err
}

// decoder builds the program of a leaf: sequences one behind the other, with labels.
type decoder struct {
	body
	sequences int
	training  bool

	starts Ref
	sites  int // of dropout, so far
}

func (d *decoder) forward() (logits, dlogits Ref) {
	tokens, labels := d.Input(Tokens, num.I32, d.tokens), d.Input(Labels, num.I32, d.tokens)
	d.starts = d.Input("starts", num.I32, d.sequences+1)
	d.attend, d.drop = d.attention, d.dropout
	logits = d.Value(Logits, num.F32, d.tokens, d.Vocabulary)
	d.head(d.layers(d.embed(tokens)), logits)
	if !d.training {
		d.Keep(logits)
	}
	out := d.Call("crossentropy", crossentropy.Definition, Params{"scale": Variable(ScaleVariable)}, logits, labels)
	loss := d.Value(Loss, num.F32, 1)
	d.CallInto(Loss, norm.TotalDefinition, nil, []Ref{out[0].As(1, d.tokens)}, []Ref{loss})
	d.Keep(loss)
	return logits, out[1]
}

// attention weighs the keys and values of the same sequence.
func (d *decoder) attention(layer int, name string, q, k, v Ref) Ref {
	w := d.weighing(layer)
	return d.Call(name, w.packed, w.params, q, k, v, d.starts, d.starts)[0]
}

// dropout drops elements while training. Every place has its own random words, by its number.
func (d *decoder) dropout(name string, x Ref) Ref {
	if d.Dropout == 0 || !d.training {
		return x
	}
	threshold, scale := dropout.Limits(1 - d.Dropout)
	d.sites++
	return d.Call(name+".drop", dropout.ForwardDefinition, Params{
		"seed_low": Variable(SeedLowVariable), "seed_high": Variable(SeedHighVariable), "step": Variable(PassVariable),
		"tensor": Number(float64(d.sites - 1)), "first_low": Number(0), "first_high": Number(0),
		"threshold": Number(threshold), "scale": Number(scale),
	}, x)[0]
}

// tables returns the inputs that are the same in every run: where sequences start, positions, and the tables of rope.
func (d *Decoder) tables(q *engine.Queue) (map[string]*tensor.Tensor, error) {
	list, failed := d.Config.ropeTables(q.Device())
	if failed != nil {
		return nil, failed
	}
	put := func(name string, t *tensor.Tensor, err error) {
		if list[name] = t; err != nil && failed == nil {
			failed = err
		}
	}
	positions := func(name string, times int) {
		if d.Program.Value(name) == nil {
			return
		}
		var p []int32
		for i := range d.Tokens() {
			for range times {
				p = append(p, int32(i%d.Config.Block))
			}
		}
		t, err := tensor.FromInt32(q.Device(), p, len(p))
		put(name, t, err)
	}
	var starts []int32
	for i := range d.Sequences + 1 {
		starts = append(starts, int32(i*d.Config.Block))
	}
	t, err := tensor.FromInt32(q.Device(), starts, len(starts))
	put("starts", t, err)
	positions("position", 1)
	positions("position.q", d.Config.Heads)
	positions("position.k", d.Config.KVHeads)
	if n := d.Config.Mixture.Experts; d.Program.Value("router.bias") != nil {
		t, err := tensor.FromFloat32(q.Device(), num.F32, make([]float32, n), n)
		put("router.bias", t, err)
	}
	if failed != nil {
		for _, t := range list {
			t.Close()
		}
		return nil, failed
	}
	return list, nil
}

// Weights returns the weights of a decoder, and the biases of its routers, in the order in which its program declares them.
func (c *Config) Weights() ([]*Value, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	d := &decoder{body: newBody(*c, 1), sequences: 1}
	d.forward()
	if d.err != nil {
		return nil, d.err
	}
	var list []*Value
	for _, v := range d.values {
		if v.Kind == Weight || v.Kind == Fixed {
			list = append(list, v)
		}
	}
	return list, nil
}
