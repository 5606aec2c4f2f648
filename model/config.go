package model

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Config describes a dense decoder: blocks of attention and a feed-forward layer, each behind a
// norm and added to the residual stream.
type Config struct {
	Vocabulary  int     `json:"vocabulary"`
	Block       int     `json:"block"` // the largest number of tokens of a sequence
	Layers      int     `json:"layers"`
	Width       int     `json:"width"`
	Heads       int     `json:"heads"`
	KVHeads     int     `json:"kv_heads"`     // heads of keys and values, a divisor of heads
	Hidden      int     `json:"hidden"`       // width of the feed-forward layers
	Norm        string  `json:"norm"`         // rms or layer
	Positions   string  `json:"positions"`    // rope or learned
	FeedForward string  `json:"feed_forward"` // swiglu or gelu
	Bias        bool    `json:"bias"`         // of linear layers
	Tied        bool    `json:"tied"`         // the head is the embedding
	Dropout     float64 `json:"dropout"`      // the share that is dropped
	RopeBase    float64 `json:"rope_base"`
	Eps         float64 `json:"eps"` // of the norms
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
		{"norm", c.Norm, []string{"rms", "layer"}},
		{"positions", c.Positions, []string{"rope", "learned"}},
		{"feed_forward", c.FeedForward, []string{"swiglu", "gelu"}},
	} {
		if !slices.Contains(n.known, n.value) {
			return fmt.Errorf("%s is %q, want %s", n.name, n.value, strings.Join(n.known, " or "))
		}
	}
	switch {
	case c.Width%c.Heads != 0:
		return fmt.Errorf("width is %d, want a multiple of heads, %d", c.Width, c.Heads)
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("heads is %d, want a multiple of kv_heads, %d", c.Heads, c.KVHeads)
	case c.Positions == "rope" && c.Width/c.Heads%2 != 0:
		return fmt.Errorf("width is %d for %d heads, want heads of an even width, whose halves rope turns", c.Width, c.Heads)
	case c.Positions == "rope" && !(c.RopeBase >= 1 && c.RopeBase <= math.MaxFloat64):
		return fmt.Errorf("rope_base is %v, want at least 1", c.RopeBase)
	case !(c.Dropout >= 0 && c.Dropout < 1):
		return fmt.Errorf("dropout is %v, want at least 0 and less than 1", c.Dropout)
	case !(c.Eps > 0 && c.Eps <= 1) || float32(c.Eps) == 0:
		return fmt.Errorf("eps is %v, want more than 0 and at most 1", c.Eps)
	}
	return nil
}
