package model

import (
	"strconv"

	"tokitai/num"
	"tokitai/op/combine"
	"tokitai/op/dispatch"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/layernorm"
	"tokitai/op/rmsnorm"
	"tokitai/op/rope"
	"tokitai/op/router"
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

	// joins says that a sum of the residual stream and the norm behind it are one call, with the same bits.
	joins bool

	// drop applies dropout; nil for none.
	drop func(name string, x Ref) Ref

	// measure is told the logits of a router, and how many tokens each of its experts has; nil for nobody.
	measure func(name string, logits, counts Ref)

	table                Ref // of the embedding
	positionQ, positionK Ref
	waves                []Ref // the tables of rope
	zeros                Ref   // biases of experts that have none

	linears   []string         // names of the linear layers
	isExcept  map[string]bool  // those that FP8 excepts
	quantised map[*Value][]Ref // rows in e4m3 and their scales, of what Quantize has had
}

func newBody(c Config, tokens int) body {
	b := body{Builder: NewBuilder(), Config: c, tokens: tokens, format: c.Format(), isExcept: map[string]bool{}, quantised: map[*Value][]Ref{}}
	for _, name := range c.FP8.Except.Values() {
		b.isExcept[name] = true
	}
	return b
}

// embed returns the residual stream of tokens, an int32 each. It declares the inputs that say where tokens stand:
// "position" for a learned table; else "position.q" and, if there are fewer heads of keys, "position.k",
// each with the token's position for every head, and the tables of ropeTables. With a
// mixture whose experts have no biases there is the input "router.bias", zeros that choose them by their scores alone.
func (d *body) embed(tokens Ref) Ref {
	d.table = d.Weight("model.embed_tokens.weight", d.format, d.Vocabulary, d.Width)
	x := d.Call("embed", embedding.ForwardDefinition, nil, tokens, d.table)[0]
	if d.EmbedScale != 0 {
		x = d.Call("embed.scale", Scale, Params{"factor": Number(d.rounded(d.EmbedScale))}, x)[0]
	}
	if d.Positions == "learned" {
		position := d.Input("position", num.I32, d.tokens)
		places := d.Weight("model.embed_positions.weight", d.format, d.Block, d.Width)
		x = d.add("embed.sum", x, d.Call("embed.position", embedding.ForwardDefinition, nil, position, places)[0])
	} else {
		d.positionQ = d.Input("position.q", num.I32, d.tokens*d.Heads)
		d.positionK = d.positionQ
		if d.KVHeads != d.Heads {
			d.positionK = d.Input("position.k", num.I32, d.tokens*d.KVHeads)
		}
		for _, t := range d.ropeLayout() {
			d.waves = append(d.waves, d.Input(t.name, num.F32, d.Block, t.cols))
		}
	}
	if d.Mixture.Experts > 0 && d.Mixture.Balance == 0 {
		d.zeros = d.Input("router.bias", num.F32, d.Mixture.Experts)
	}
	return d.dropped("embed", x)
}

// rounded returns x as the storage format of activations has it.
func (d *body) rounded(x float64) float64 {
	switch d.format {
	case num.BF16:
		return float64(num.BF16ToF32(num.F32ToBF16(float32(x))))
	case num.F16:
		return float64(num.F16ToF32(num.F32ToF16(float32(x))))
	}
	return float64(float32(x))
}

// layers returns the residual stream behind the last layer.
func (d *body) layers(x Ref) Ref {
	names := d.normNames()
	layerOf := func(i int) string { return "model.layers." + strconv.Itoa(i) + "." }
	// normed returns the norm of a value by a name of normNames, or the value for none.
	normed := func(layer, name string, x Ref) Ref {
		if name == "" {
			return x
		}
		return d.norm(layer+name, x)
	}
	// joined adds a branch to the residual stream, and returns it with the beginning of the next branch.
	joined := func(call string, x, branch Ref, layer, name string) (sum, next Ref) {
		if d.joins && d.Norm == "rms" && name != "" {
			both := d.Call(call, rmsnorm.ResidualForwardDefinition, Params{"eps": Number(d.Eps)}, x, branch, d.Weight(layer+name+".weight", d.format, d.Width))
			return both[0], both[1]
		}
		x = d.add(call, x, branch)
		return x, normed(layer, name, x)
	}
	h := normed(layerOf(0), names.before[0], x)
	for i := range d.Layers {
		layer := layerOf(i)
		h = normed(layer, names.after[0], d.weigh(i, layer, h))
		x, h = joined(layer+"mid", x, h, layer, names.before[1])
		if d.isMixture(i) {
			h = d.mixture(layer+"mlp.", h)
		} else {
			h = d.feedForward(layer+"mlp.", h)
		}
		h = normed(layer, names.after[1], h)
		if i+1 == d.Layers {
			return d.add(layer+"out", x, h)
		}
		x, h = joined(layer+"out", x, h, layerOf(i+1), names.before[0])
	}
	return x
}

// normNames has the names of the norms of a layer: of attention and of the feed-forward layer, "" for none.
type normNames struct{ before, after [2]string }

func (c *Config) normNames() normNames {
	switch c.NormPlace {
	case "after":
		return normNames{after: [2]string{"post_attention_layernorm", "post_feedforward_layernorm"}}
	case "both":
		return normNames{[2]string{"input_layernorm", "pre_feedforward_layernorm"}, [2]string{"post_attention_layernorm", "post_feedforward_layernorm"}}
	}
	return normNames{before: [2]string{"input_layernorm", "post_attention_layernorm"}}
}

// head computes the logits of rows of the residual stream behind the last layer.
func (d *body) head(x, logits Ref) {
	x = d.norm("model.norm", x)
	head := d.table
	if !d.Tied {
		head = d.Weight("lm_head.weight", d.format, d.Vocabulary, d.Width)
	}
	if d.LogitCap == 0 {
		d.CallInto("lm_head", Linear, nil, []Ref{x, head}, []Ref{logits})
		return
	}
	raw := d.Value("lm_head.y", num.F32, logits.Shape()...)
	d.CallInto("lm_head", Linear, nil, []Ref{x, head}, []Ref{raw})
	d.CallInto("lm_head.cap", Cap, Params{"cap": Number(d.LogitCap)}, []Ref{raw}, []Ref{logits})
}

func (d *body) add(name string, a, b Ref) Ref { return d.Call(name, Add, nil, a, b)[0] }

func (d *body) dropped(name string, x Ref) Ref {
	if d.drop == nil {
		return x
	}
	return d.drop(name, x)
}

func (d *body) norm(name string, x Ref) Ref {
	return d.normTo(name, x, x.Shape()[len(x.Shape())-1])
}

// normTo is norm over rows of some width.
func (d *body) normTo(name string, x Ref, width int) Ref {
	gamma, eps := d.Weight(name+".weight", d.format, width), Params{"eps": Number(d.Eps)}
	x = x.As(x.Value().Len()/width, width)
	switch d.Norm {
	case "rms":
		return d.Call(name, rmsnorm.ForwardDefinition, eps, x, gamma)[0]
	case "rms1":
		return d.Call(name, RMSNorm1, eps, x, gamma)[0]
	}
	return d.Call(name, layernorm.ForwardDefinition, eps, x, gamma, d.Weight(name+".bias", d.format, width))[0]
}

func (d *body) linear(name string, x Ref, in, out int, hasBias bool) Ref {
	d.linears = append(d.linears, name)
	var y Ref
	if d.isFP8(name) {
		y = d.linearFP8(name, x, in, out)
	} else {
		y = d.Call(name, Linear, nil, x, d.Weight(name+".weight", d.format, out, in))[0]
	}
	if !hasBias {
		return y
	}
	return d.Call(name+".sum", Bias, nil, y, d.Weight(name+".bias", d.format, out))[0]
}

// weigh is the attention of a layer, with its linear layers.
func (d *body) weigh(layer int, prefix string, x Ref) Ref {
	name, width, shared := prefix+"self_attn.", d.headWidth(), d.Heads/d.KVHeads
	hasBias := d.Bias || d.QKVBias
	q := d.linear(name+"q_proj", x, d.Width, d.Heads*width, hasBias)
	k := d.linear(name+"k_proj", x, d.Width, d.KVHeads*width, hasBias)
	v := d.linear(name+"v_proj", x, d.Width, d.KVHeads*width, hasBias)
	switch d.HeadNorm {
	case "each":
		q, k = d.normTo(name+"q_norm", q, width), d.normTo(name+"k_norm", k, width)
	case "all":
		q, k = d.norm(name+"q_norm", q), d.norm(name+"k_norm", k)
	}
	if d.Positions == "rope" {
		q, k = d.turn(name+"q", q, d.positionQ, width), d.turn(name+"k", k, d.positionK, width)
	}
	o := d.attend(layer, name+"weigh", q.As(d.tokens, d.KVHeads, shared, width), k.As(d.tokens, d.KVHeads, width), v.As(d.tokens, d.KVHeads, width))
	return d.dropped(name+"o_proj", d.linear(name+"o_proj", o.As(d.tokens, d.Heads*width), d.Heads*width, d.Width, d.Bias || d.OutBias))
}

// turn applies rope to the heads of x.
func (d *body) turn(name string, x, position Ref, width int) Ref {
	y := d.Value(name+".turned", d.format, x.Shape()...)
	heads := x.As(x.Value().Len()/width, width)
	if d.Interleaved {
		d.CallInto(name+".rope", rope.InterleavedForwardDefinition, nil, []Ref{heads, d.waves[0], position}, []Ref{y.As(heads.Shape()...)})
		return y
	}
	halves := []Ref{heads.Columns(0, width/2), heads.Columns(width/2, width)}
	turned := y.As(heads.Shape()...)
	d.CallInto(name+".rope", rope.ForwardDefinition, nil, []Ref{halves[0], halves[1], position, d.waves[0], d.waves[1]},
		[]Ref{turned.Columns(0, width/2), turned.Columns(width/2, width)})
	return y
}

func (d *body) feedForward(name string, x Ref) Ref {
	hasBias := d.Bias || d.HiddenBias
	var gate Ref
	if d.isGated() {
		gate = d.linear(name+"gate_proj", x, d.Width, d.Hidden, hasBias)
	}
	y := d.activate(name+"act", gate, d.linear(name+"up_proj", x, d.Width, d.Hidden, hasBias))
	return d.dropped(name+"down_proj", d.linear(name+"down_proj", y, d.Hidden, d.Width, hasBias))
}

func (c *Config) isGated() bool { return c.FeedForward != "gelu" && c.FeedForward != "gelu.erf" }

// activate applies the activation to up, or to the gate of it.
func (d *body) activate(name string, gate, up Ref) Ref {
	switch d.FeedForward {
	case "swiglu":
		return d.Call(name, swiglu.ForwardDefinition, nil, gate, up)[0]
	case "geglu":
		return d.Call(name, Multiply, nil, d.Call(name+".gelu", gelu.ForwardDefinition, nil, gate)[0], up)[0]
	case "geglu.erf":
		return d.Call(name, Multiply, nil, d.Call(name+".gelu", gelu.ErfForwardDefinition, nil, gate)[0], up)[0]
	case "gelu.erf":
		return d.Call(name, gelu.ErfForwardDefinition, nil, up)[0]
	}
	return d.Call(name, gelu.ForwardDefinition, nil, up)[0]
}

// BiasSuffix ends the name of a router's biases. They are added to the scores of experts to choose some, not to
// their weights.
const BiasSuffix = "gate.e_score_correction_bias"

// mixture sends every token through its experts: the rows of an expert are brought together, and its
// weights multiply them. Weights of all experts lie in one tensor, [experts, out, in].
func (d *body) mixture(name string, x Ref) Ref {
	m := &d.Mixture
	logits := d.Call(name+"gate", Linear, nil, x, d.Weight(name+"gate.weight", d.format, m.Experts, d.Width))[0]
	weight, expert := d.Value(name+"route.weight", num.F32, d.tokens, m.PerToken), d.Value(name+"route.expert", num.I32, d.tokens, m.PerToken)
	bias := d.zeros
	if m.Balance > 0 {
		bias = d.Fixed(name+BiasSuffix, num.F32, m.Experts)
	}
	normalise := 0.0
	if m.IsNormalised {
		normalise = 1
	}
	d.CallInto(name+"route", router.SoftmaxForwardDefinition, Params{"k": Number(float64(m.PerToken)), "normalise": Number(normalise)},
		[]Ref{logits, bias}, []Ref{weight, expert})
	integers := func(what string, shape ...int) Ref { return d.Value(name+"sort."+what, num.I32, shape...) }
	counts, offsets := integers("counts", m.Experts), integers("offsets", m.Experts+1)
	source, slot, place := integers("source", d.tokens, m.PerToken), integers("slot", d.tokens, m.PerToken), integers("place", d.tokens, m.PerToken)
	d.CallInto(name+"sort", dispatch.ForwardDefinition, nil, []Ref{expert}, []Ref{counts, offsets, source, slot, place})

	if d.measure != nil {
		d.measure(name, logits, counts)
	}

	rows := d.Call(name+"rows", combine.PermuteDefinition, nil, source.As(d.tokens*m.PerToken), x)[0]
	sorted := &sortedRows{experts: m.Experts, offsets: offsets}
	grouped := func(layer string, x Ref, in, out int) Ref {
		layer = name + "experts." + layer
		d.linears = append(d.linears, layer)
		if d.isFP8(layer) {
			return d.groupedFP8(layer, x, sorted, in, out)
		}
		return d.Call(layer, Grouped, nil, x, d.Weight(layer+".weight", d.format, m.Experts, out, in), offsets)[0]
	}
	var gate Ref
	if d.isGated() {
		gate = grouped("gate_proj", rows, d.Width, m.Hidden)
	}
	y := grouped("down_proj", d.activate(name+"experts.act", gate, grouped("up_proj", rows, d.Width, m.Hidden)), m.Hidden, d.Width)
	return d.dropped(name+"experts", d.Call(name+"combine", combine.ForwardDefinition, nil, place, y, weight)[0])
}
