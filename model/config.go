package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"tokitai/num"
)

// Config describes a decoder: blocks of attention and a feed-forward layer or a mixture of experts, each with
// norms and added to the residual stream. The zero value of a setting in the second group is what most
// decoders have.
type Config struct {
	Vocabulary  int     `json:"vocabulary"`
	Block       int     `json:"block"` // the largest number of tokens of a sequence
	Layers      int     `json:"layers"`
	Width       int     `json:"width"`
	Heads       int     `json:"heads"`
	KVHeads     int     `json:"kv_heads"`     // heads of keys and values, a divisor of heads
	Hidden      int     `json:"hidden"`       // width of the feed-forward layers
	Norm        string  `json:"norm"`         // rms, rms1 (by 1+w) or layer
	Positions   string  `json:"positions"`    // rope or learned
	FeedForward string  `json:"feed_forward"` // swiglu, geglu, geglu.erf, gelu or gelu.erf; those without .erf have gelu by tanh
	Bias        bool    `json:"bias"`         // of all linear layers but the head
	Tied        bool    `json:"tied"`         // the head is the embedding
	Dropout     float64 `json:"dropout"`      // the share that is dropped
	RopeBase    float64 `json:"rope_base"`
	Eps         float64 `json:"eps"` // of the norms

	Storage        string  `json:"precision,omitempty"`        // of weights and activations: f32 if it is "", f16 or bf16
	HeadWidth      int     `json:"head_width,omitempty"`       // 0 for width/heads
	NormPlace      string  `json:"norm_place,omitempty"`       // of attention and the feed-forward layer: before them if it is "", after or both
	HeadNorm       string  `json:"head_norm,omitempty"`        // of queries and keys: none if it is "", each head or all heads at once
	QKVBias        bool    `json:"qkv_bias,omitempty"`         // of the projections to queries, keys and values
	OutBias        bool    `json:"out_bias,omitempty"`         // of that of attention's result
	HiddenBias     bool    `json:"hidden_bias,omitempty"`      // of the feed-forward layers
	AttentionScale float64 `json:"attention_scale,omitempty"`  // of the scores; 0 for 1/sqrt(head_width)
	AttentionCap   float64 `json:"attention_cap,omitempty"`    // bounds the scores by cap*tanh(score/cap); 0 for no bound
	LogitCap       float64 `json:"logit_cap,omitempty"`        // bounds the logits likewise
	EmbedScale     float64 `json:"embed_scale,omitempty"`      // of the embedding; 0 for 1
	Windows        Numbers `json:"windows,omitempty"`          // for each layer how many keys a query sees, itself included, 0 for all; none for 0 everywhere
	Interleaved    bool    `json:"rope_interleaved,omitempty"` // rope turns pairs of neighbours, not of both halves of a head
	Rope           Rope    `json:"rope,omitzero"`
	Mixture        Mixture `json:"mixture,omitzero"`
	FP8            FP8     `json:"fp8,omitzero"` // of linear layers; none if it is zero
}

// Mixture describes the experts of a mixture: feed-forward layers with a gate. Every token goes through a few of them.
type Mixture struct {
	Experts      int     `json:"experts"`              // 0 for no mixture
	PerToken     int     `json:"per_token"`            // experts that a token goes through
	Hidden       int     `json:"hidden"`               // width of an expert
	IsNormalised bool    `json:"normalised,omitempty"` // the weights of a token's experts add up to 1
	Dense        Numbers `json:"dense,omitempty"`      // layers, from 0, that have one feed-forward layer instead
	Balance      float64 `json:"balance,omitempty"`    // by which a step of training moves the bias of each expert; 0 for no biases
}

// DefaultConfig is a small decoder of bytes.
var DefaultConfig = Config{
	Vocabulary: 257, Block: 64, Layers: 4, Width: 128, Heads: 4, KVHeads: 4, Hidden: 384,
	Norm: "rms", Positions: "rope", FeedForward: "swiglu", RopeBase: 10000, Eps: 1e-5,
}

// MaxLeafTokens is the largest number of tokens of one leaf: longer sums lose too much where
// matrix instructions truncate.
const MaxLeafTokens = 16384

// Check returns an error for settings that no decoder has.
func (c *Config) Check() error {
	for _, n := range []struct {
		name  string
		value int
	}{
		{"vocabulary", c.Vocabulary}, {"block", c.Block}, {"layers", c.Layers}, {"width", c.Width},
		{"heads", c.Heads}, {"kv_heads", c.KVHeads}, {"hidden", c.Hidden},
	} {
		if n.value < 1 || n.value > math.MaxInt32 {
			return fmt.Errorf("%s is %d, want at least 1", n.name, n.value)
		}
	}
	for _, n := range []struct {
		name, value string
		known       []string
	}{
		{"norm", c.Norm, []string{"rms", "rms1", "layer"}},
		{"positions", c.Positions, []string{"rope", "learned"}},
		{"feed_forward", c.FeedForward, []string{"swiglu", "geglu", "geglu.erf", "gelu", "gelu.erf"}},
		{"precision", cmp.Or(c.Storage, "f32"), []string{"f32", "bf16", "f16"}},
		{"norm_place", cmp.Or(c.NormPlace, "before"), []string{"before", "after", "both"}},
		{"head_norm", cmp.Or(c.HeadNorm, "none"), []string{"none", "each", "all"}},
	} {
		if !slices.Contains(n.known, n.value) {
			return fmt.Errorf("%s is %q, want %s", n.name, n.value, strings.Join(n.known, " or "))
		}
	}
	switch {
	case c.HeadWidth == 0 && c.Width%c.Heads != 0:
		return fmt.Errorf("width is %d, want a multiple of heads, %d", c.Width, c.Heads)
	case c.HeadWidth < 0 || c.HeadWidth > math.MaxInt32/c.Heads:
		return fmt.Errorf("head_width is %d, want at least 1", c.HeadWidth)
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("heads is %d, want a multiple of kv_heads, %d", c.Heads, c.KVHeads)
	case c.Positions == "rope" && c.headWidth()%2 != 0:
		return fmt.Errorf("heads have the width %d, want an even width: rope turns pairs", c.headWidth())
	case c.Positions == "rope" && !(c.RopeBase >= 1 && c.RopeBase <= math.MaxFloat64):
		return fmt.Errorf("rope_base is %v, want at least 1", c.RopeBase)
	case !(c.Dropout >= 0 && c.Dropout < 1):
		return fmt.Errorf("dropout is %v, want at least 0 and less than 1", c.Dropout)
	case !(c.Eps > 0 && c.Eps <= 1) || float32(c.Eps) == 0:
		return fmt.Errorf("eps is %v, want more than 0 and at most 1", c.Eps)
	case c.Positions != "rope" && c.Interleaved:
		return fmt.Errorf("rope_interleaved is true, and positions are %s", c.Positions)
	case c.Positions != "rope" && c.Rope != (Rope{}):
		return fmt.Errorf("rope is scaled, and positions are %s", c.Positions)
	}
	for _, n := range []struct {
		name  string
		value float64
	}{{"attention_scale", c.AttentionScale}, {"attention_cap", c.AttentionCap}, {"logit_cap", c.LogitCap}, {"embed_scale", c.EmbedScale}} {
		if !(n.value >= 0 && n.value <= math.MaxFloat32) || n.value > 0 && float32(n.value) == 0 {
			return fmt.Errorf("%s is %v, want at least 0, and a number of binary32", n.name, n.value)
		}
	}
	if list := c.Windows.Values(); len(list) > 0 && len(list) != c.Layers {
		return fmt.Errorf("windows has %d numbers, want one for each of %d layers", len(list), c.Layers)
	}
	for i, w := range c.Windows.Values() {
		if w < 0 || w > math.MaxInt32 || w != math.Trunc(w) {
			return fmt.Errorf("the window of layer %d is %v, want a whole number of at least 0", i, w)
		}
	}
	if c.Positions == "rope" {
		if err := c.Rope.check(c.Block, c.headWidth()/2); err != nil {
			return err
		}
	}
	if err := c.FP8.check(); err != nil {
		return err
	}
	return c.Mixture.check(c.Layers)
}

func (m *Mixture) check(layers int) error {
	switch {
	case *m == Mixture{}:
		return nil
	case m.Experts < 1 || m.Experts > 1<<16:
		return fmt.Errorf("mixture.experts is %d, want 1 to 65536", m.Experts)
	case m.PerToken < 1 || m.PerToken > m.Experts:
		return fmt.Errorf("mixture.per_token is %d, want 1 to the %d experts", m.PerToken, m.Experts)
	case m.Hidden < 1 || m.Hidden > math.MaxInt32:
		return fmt.Errorf("mixture.hidden is %d, want at least 1", m.Hidden)
	case !(m.Balance >= 0 && m.Balance <= math.MaxFloat32) || m.Balance > 0 && float32(m.Balance) == 0:
		return fmt.Errorf("mixture.balance is %v, want at least 0, and a number of binary32", m.Balance)
	}
	for _, i := range m.Dense.Values() {
		if i < 0 || i >= float64(layers) || i != math.Trunc(i) {
			return fmt.Errorf("mixture.dense has %v, want layers from 0 to %d", i, layers-1)
		}
	}
	return nil
}

// headWidth returns the number of columns of a head.
func (c *Config) headWidth() int {
	if c.HeadWidth > 0 {
		return c.HeadWidth
	}
	return c.Width / c.Heads
}

// window returns how many keys the queries of a layer see; 0 for all.
func (c *Config) window(layer int) int {
	if list := c.Windows.Values(); layer < len(list) {
		return int(list[layer])
	}
	return 0
}

// isMixture reports whether a layer has experts.
func (c *Config) isMixture(layer int) bool {
	return c.Mixture.Experts > 0 && !slices.Contains(c.Mixture.Dense.Values(), float64(layer))
}

// Format returns the storage format of weights and activations.
func (c *Config) Format() num.DType {
	switch c.Storage {
	case "bf16":
		return num.BF16
	case "f16":
		return num.F16
	}
	return num.F32
}
