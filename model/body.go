package model

import (
	"strconv"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/attention"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/layernorm"
	"tokitai/op/rmsnorm"
	"tokitai/op/rope"
	"tokitai/op/swiglu"
)

// body builds what training and inference have in common, the calls from tokens to logits: embed, layers
// and head, in this order. They make the same calls wherever the keys of attention lie.
type body struct {
	*Builder
	Config
	tokens int       // rows of the residual stream
	format num.DType // of weights and activations

	// attend adds the calls that weigh the keys and values of a layer, with those of the new tokens
	// among them, and returns the result. q is [tokens, KVHeads, Heads/KVHeads, width], k and v
	// [tokens, KVHeads, width], the result like q. weighing names the definitions.
	attend func(layer int, name string, q, k, v Ref) Ref

	// drop applies dropout; nil for none.
	drop func(name string, x Ref) Ref

	table                          Ref // of the embedding
	cos, sin, positionQ, positionK Ref
}

// weighing is how a layer weighs keys: by the definition for packed sequences, or the one for the pages of
// a cache, which has the same bits.
type weighing struct {
	packed, paged *def.Definition
	params        Params
}

// weighing returns how a layer weighs keys.
func (c *Config) weighing(int) weighing {
	return weighing{attention.ForwardDefinition, attention.DecodeDefinition, Params{"kappa": Number(kappa(c.headWidth()))}}
}

// kappa returns the parameter of attention for scores divided by the root of the heads' width.
func kappa(width int) float64 { return attention.Kappa(invSqrt(width)) }

// headWidth returns the number of columns of a head.
func (c *Config) headWidth() int { return c.Width / c.Heads }

// embed returns the residual stream of tokens, an int32 each. It declares the inputs that say where tokens stand:
// "position" for a learned table; else "position.q" and, if there are fewer heads of keys, "position.k",
// each with the token's position for every head, and the tables "cos" and "sin" of Block positions.
func (d *body) embed(tokens Ref) Ref {
	d.table = d.Weight("model.embed_tokens.weight", d.format, d.Vocabulary, d.Width)
	x := d.Call("embed", embedding.ForwardDefinition, nil, tokens, d.table)[0]
	if d.Positions == "learned" {
		position := d.Input("position", num.I32, d.tokens)
		places := d.Weight("model.embed_positions.weight", d.format, d.Block, d.Width)
		x = d.add("embed.sum", x, d.Call("embed.position", embedding.ForwardDefinition, nil, position, places)[0])
	} else {
		pairs := d.headWidth() / 2
		d.positionQ = d.Input("position.q", num.I32, d.tokens*d.Heads)
		d.positionK = d.positionQ
		if d.KVHeads != d.Heads {
			d.positionK = d.Input("position.k", num.I32, d.tokens*d.KVHeads)
		}
		d.cos, d.sin = d.Input("cos", num.F32, d.Block, pairs), d.Input("sin", num.F32, d.Block, pairs)
	}
	return d.dropped("embed", x)
}

// layers returns the residual stream behind the last layer.
func (d *body) layers(x Ref) Ref {
	for i := range d.Layers {
		layer := "model.layers." + strconv.Itoa(i) + "."
		x = d.add(layer+"mid", x, d.weigh(i, layer, d.norm(layer+"input_layernorm", x)))
		x = d.add(layer+"out", x, d.feedForward(layer+"mlp.", d.norm(layer+"post_attention_layernorm", x)))
	}
	return x
}

// head computes the logits of rows of the residual stream behind the last layer.
func (d *body) head(x, logits Ref) {
	x = d.norm("model.norm", x)
	head := d.table
	if !d.Tied {
		head = d.Weight("lm_head.weight", d.format, d.Vocabulary, d.Width)
	}
	d.CallInto("lm_head", Linear, nil, []Ref{x, head}, []Ref{logits})
}

func (d *body) add(name string, a, b Ref) Ref { return d.Call(name, Add, nil, a, b)[0] }

func (d *body) dropped(name string, x Ref) Ref {
	if d.drop == nil {
		return x
	}
	return d.drop(name, x)
}

func (d *body) norm(name string, x Ref) Ref {
	gamma, eps := d.Weight(name+".weight", d.format, d.Width), Params{"eps": Number(d.Eps)}
	if d.Norm == "rms" {
		return d.Call(name, rmsnorm.ForwardDefinition, eps, x, gamma)[0]
	}
	return d.Call(name, layernorm.ForwardDefinition, eps, x, gamma, d.Weight(name+".bias", d.format, d.Width))[0]
}

func (d *body) linear(name string, x Ref, in, out int) Ref {
	y := d.Call(name, Linear, nil, x, d.Weight(name+".weight", d.format, out, in))[0]
	if !d.Bias {
		return y
	}
	return d.Call(name+".sum", Bias, nil, y, d.Weight(name+".bias", d.format, out))[0]
}

// weigh is the attention of a layer, with its linear layers.
func (d *body) weigh(layer int, prefix string, x Ref) Ref {
	name, width, shared := prefix+"self_attn.", d.headWidth(), d.Heads/d.KVHeads
	q := d.linear(name+"q_proj", x, d.Width, d.Width)
	k := d.linear(name+"k_proj", x, d.Width, d.KVHeads*width)
	v := d.linear(name+"v_proj", x, d.Width, d.KVHeads*width)
	if d.Positions == "rope" {
		q, k = d.turn(name+"q", q, d.positionQ, width), d.turn(name+"k", k, d.positionK, width)
	}
	o := d.attend(layer, name+"weigh", q.As(d.tokens, d.KVHeads, shared, width), k.As(d.tokens, d.KVHeads, width), v.As(d.tokens, d.KVHeads, width))
	return d.dropped(name+"o_proj", d.linear(name+"o_proj", o.As(d.tokens, d.Heads*width), d.Heads*width, d.Width))
}

// turn applies rope to the heads of x: their halves are two matrices.
func (d *body) turn(name string, x, position Ref, width int) Ref {
	y := d.Value(name+".turned", d.format, x.Shape()...)
	heads := x.As(x.Value().Len()/width, width)
	halves := []Ref{heads.Columns(0, width/2), heads.Columns(width/2, width)}
	turned := y.As(heads.Shape()...)
	d.CallInto(name+".rope", rope.ForwardDefinition, nil, []Ref{halves[0], halves[1], position, d.cos, d.sin},
		[]Ref{turned.Columns(0, width/2), turned.Columns(width/2, width)})
	return y
}

func (d *body) feedForward(name string, x Ref) Ref {
	var y Ref
	if d.FeedForward == "swiglu" {
		gate, up := d.linear(name+"gate_proj", x, d.Width, d.Hidden), d.linear(name+"up_proj", x, d.Width, d.Hidden)
		y = d.Call(name+"act", swiglu.ForwardDefinition, nil, gate, up)[0]
	} else {
		y = d.Call(name+"act", gelu.ForwardDefinition, nil, d.linear(name+"up_proj", x, d.Width, d.Hidden))[0]
	}
	return d.dropped(name+"down_proj", d.linear(name+"down_proj", y, d.Hidden, d.Width))
}
