package model

import (
	"fmt"
	"strconv"

	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/attention"
	"tokitai/op/crossentropy"
	"tokitai/op/dropout"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/layernorm"
	"tokitai/op/norm"
	"tokitai/op/rmsnorm"
	"tokitai/op/rope"
	"tokitai/op/swiglu"
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

// Decoder is a dense decoder for a number of sequences at once.
type Decoder struct {
	Config    Config
	Sequences int
	Program   *Program
	Gradients map[string]string // names of the gradients by those of the weights; nil without them
}

// Tokens returns how many tokens a run takes.
func (d *Decoder) Tokens() int { return d.Sequences * d.Config.Block }

// NewDecoder returns the program of a decoder: for training, with dropout and gradients, or the same
// forward calls without dropout.
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
	d := &decoder{Builder: NewBuilder(), Config: c, tokens: sequences * c.Block, sequences: sequences, training: training}
	logits, dlogits := d.forward()
	full := &Decoder{Config: c, Sequences: sequences}
	if training {
		full.Gradients = map[string]string{}
		for name, r := range d.Backward(logits, dlogits, nil) {
			full.Gradients[name] = r.Value().Name
		}
	}
	var err error
	full.Program, err = d.Builder.Program()
	return full, err
}

// decoder builds the program.
type decoder struct {
	*Builder
	Config
	tokens, sequences int
	training          bool

	starts, cos, sin, positionQ, positionK Ref
	sites                                  int // of dropout, so far
}

func (d *decoder) forward() (logits, dlogits Ref) {
	tokens, labels := d.Input(Tokens, num.I32, d.tokens), d.Input(Labels, num.I32, d.tokens)
	d.starts = d.Input("starts", num.I32, d.sequences+1)
	table := d.Weight("model.embed_tokens.weight", num.F32, d.Vocabulary, d.Width)
	x := d.Call("embed", embedding.ForwardDefinition, nil, tokens, table)[0]
	if d.Positions == "learned" {
		position := d.Input("position", num.I32, d.tokens)
		places := d.Weight("model.embed_positions.weight", num.F32, d.Block, d.Width)
		x = d.add("embed.sum", x, d.Call("embed.position", embedding.ForwardDefinition, nil, position, places)[0])
	} else {
		pairs := d.Width / d.Heads / 2
		d.positionQ = d.Input("position.q", num.I32, d.tokens*d.Heads)
		d.positionK = d.positionQ
		if d.KVHeads != d.Heads {
			d.positionK = d.Input("position.k", num.I32, d.tokens*d.KVHeads)
		}
		d.cos, d.sin = d.Input("cos", num.F32, d.Block, pairs), d.Input("sin", num.F32, d.Block, pairs)
	}
	x = d.drop("embed", x)
	for i := range d.Layers {
		layer := "model.layers." + strconv.Itoa(i) + "."
		x = d.add(layer+"mid", x, d.attention(layer, d.norm(layer+"input_layernorm", x)))
		x = d.add(layer+"out", x, d.feedForward(layer+"mlp.", d.norm(layer+"post_attention_layernorm", x)))
	}
	x = d.norm("model.norm", x)
	head := table
	if !d.Tied {
		head = d.Weight("lm_head.weight", num.F32, d.Vocabulary, d.Width)
	}
	logits = d.Value(Logits, num.F32, d.tokens, d.Vocabulary)
	d.CallInto("lm_head", Linear, nil, []Ref{x, head}, []Ref{logits})
	if !d.training {
		d.Keep(logits)
	}
	out := d.Call("crossentropy", crossentropy.Definition, Params{"scale": Variable(ScaleVariable)}, logits, labels)
	loss := d.Value(Loss, num.F32, 1)
	d.CallInto(Loss, norm.TotalDefinition, nil, []Ref{out[0].As(1, d.tokens)}, []Ref{loss})
	d.Keep(loss)
	return logits, out[1]
}

func (d *decoder) add(name string, a, b Ref) Ref { return d.Call(name, Add, nil, a, b)[0] }

func (d *decoder) norm(name string, x Ref) Ref {
	gamma, eps := d.Weight(name+".weight", num.F32, d.Width), Params{"eps": Number(d.Eps)}
	if d.Norm == "rms" {
		return d.Call(name, rmsnorm.ForwardDefinition, eps, x, gamma)[0]
	}
	return d.Call(name, layernorm.ForwardDefinition, eps, x, gamma, d.Weight(name+".bias", num.F32, d.Width))[0]
}

func (d *decoder) linear(name string, x Ref, in, out int) Ref {
	y := d.Call(name, Linear, nil, x, d.Weight(name+".weight", num.F32, out, in))[0]
	if !d.Bias {
		return y
	}
	return d.Call(name+".sum", Bias, nil, y, d.Weight(name+".bias", num.F32, out))[0]
}

func (d *decoder) attention(layer string, x Ref) Ref {
	name, width, shared := layer+"self_attn.", d.Width/d.Heads, d.Heads/d.KVHeads
	q := d.linear(name+"q_proj", x, d.Width, d.Width)
	k := d.linear(name+"k_proj", x, d.Width, d.KVHeads*width)
	v := d.linear(name+"v_proj", x, d.Width, d.KVHeads*width)
	if d.Positions == "rope" {
		q, k = d.turn(name+"q", q, d.positionQ, width), d.turn(name+"k", k, d.positionK, width)
	}
	o := d.Call(name+"weigh", attention.ForwardDefinition, Params{"kappa": Number(kappa(width))},
		q.As(d.tokens, d.KVHeads, shared, width), k.As(d.tokens, d.KVHeads, width), v.As(d.tokens, d.KVHeads, width), d.starts, d.starts)[0]
	return d.drop(name+"o_proj", d.linear(name+"o_proj", o.As(d.tokens, d.Width), d.Width, d.Width))
}

// kappa returns the parameter of attention for scores divided by the root of the heads' width.
func kappa(width int) float64 { return attention.Kappa(invSqrt(width)) }

// turn applies rope to the heads of x: their halves are two matrices.
func (d *decoder) turn(name string, x, position Ref, width int) Ref {
	y := d.Value(name+".turned", num.F32, x.Shape()...)
	heads := x.As(x.Value().Len()/width, width)
	halves := []Ref{heads.Columns(0, width/2), heads.Columns(width/2, width)}
	turned := y.As(heads.Shape()...)
	d.CallInto(name+".rope", rope.ForwardDefinition, nil, []Ref{halves[0], halves[1], position, d.cos, d.sin},
		[]Ref{turned.Columns(0, width/2), turned.Columns(width/2, width)})
	return y
}

func (d *decoder) feedForward(name string, x Ref) Ref {
	var y Ref
	if d.FeedForward == "swiglu" {
		gate, up := d.linear(name+"gate_proj", x, d.Width, d.Hidden), d.linear(name+"up_proj", x, d.Width, d.Hidden)
		y = d.Call(name+"act", swiglu.ForwardDefinition, nil, gate, up)[0]
	} else {
		y = d.Call(name+"act", gelu.ForwardDefinition, nil, d.linear(name+"up_proj", x, d.Width, d.Hidden))[0]
	}
	return d.drop(name+"down_proj", d.linear(name+"down_proj", y, d.Hidden, d.Width))
}

// drop applies dropout while training. Every place has its own random words, by its number.
func (d *decoder) drop(name string, x Ref) Ref {
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

// Constants returns the inputs that are the same in every run: where sequences start, positions,
// and the tables of rope. The caller closes them.
func (d *Decoder) Constants(q *engine.Queue) (map[string]*tensor.Tensor, error) {
	list := map[string]*tensor.Tensor{}
	var failed error
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
	if d.Config.Positions == "rope" {
		cos, sin, err := rope.Tables(q.Device(), d.Config.Block, d.Config.Width/d.Config.Heads/2, rope.Frequencies{Base: d.Config.RopeBase})
		put("cos", cos, err)
		put("sin", sin, err)
	}
	if failed != nil {
		for _, t := range list {
			t.Close()
		}
		return nil, failed
	}
	return list, nil
}
