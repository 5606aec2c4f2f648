package model

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"tokitai/device"
	"tokitai/num"
	"tokitai/num/ball"
	"tokitai/op/rope"
	"tokitai/tensor"
)

// Rope says how the angles of rope are scaled, to reach further than the network was first trained for.
type Rope struct {
	Kind     string  `json:"kind"`               // "" for none, linear, llama3, yarn, dynamic or longrope
	Factor   float64 `json:"factor,omitempty"`   // by which positions reach further
	Original int     `json:"original,omitempty"` // the length that the network was first trained for; of all kinds but linear

	Low  float64 `json:"low,omitempty"`  // llama3: wavelengths above Original/Low are scaled
	High float64 `json:"high,omitempty"` // llama3: those below Original/High are not

	Fast      float64 `json:"fast,omitempty"`      // yarn: pairs with more turns than this in Original are not scaled
	Slow      float64 `json:"slow,omitempty"`      // yarn: those with fewer turns than this are
	IsUncut   bool    `json:"uncut,omitempty"`     // yarn: the limits are not rounded to whole pairs
	Amplitude float64 `json:"amplitude,omitempty"` // yarn and longrope: the factor of cosines and sines

	Short Numbers `json:"short,omitempty"` // longrope: what divides the angle of each pair up to Original
}

var ropeKinds = []string{"", "linear", "llama3", "yarn", "dynamic", "longrope"}

func (r *Rope) check(block, pairs int) error {
	isPositive := func(list ...float64) bool {
		return !slices.ContainsFunc(list, func(x float64) bool { return !(x > 0 && x <= math.MaxFloat64) })
	}
	switch {
	case !slices.Contains(ropeKinds, r.Kind):
		return fmt.Errorf("rope.kind is %q, want %s", r.Kind, strings.Join(ropeKinds[1:], ", "))
	case r.Kind == "":
		return nil
	case !isPositive(r.Factor) || r.Factor < 1:
		return fmt.Errorf("rope.factor is %v, want at least 1", r.Factor)
	case r.Kind == "linear":
		return nil
	case r.Original < 1:
		return fmt.Errorf("rope.original is %d, want at least 1", r.Original)
	case (r.Kind == "dynamic" || r.Kind == "longrope") && block > r.Original:
		return fmt.Errorf("block is %d, want at most %d: beyond the original length %s scales angles by the longest sequence of a batch, so that results would depend on other sequences", block, r.Original, r.Kind)
	case r.Kind == "llama3" && (!isPositive(r.Low, r.High) || r.Low >= r.High):
		return fmt.Errorf("rope.low is %v and rope.high %v, want 0 < low < high", r.Low, r.High)
	case r.Kind == "yarn" && (!isPositive(r.Fast, r.Slow, r.Amplitude) || r.Slow > r.Fast):
		return fmt.Errorf("rope.fast is %v, rope.slow %v and rope.amplitude %v, want numbers above 0, and slow at most fast", r.Fast, r.Slow, r.Amplitude)
	case r.Kind == "longrope" && (!isPositive(r.Amplitude) || len(r.Short.Values()) != pairs || !isPositive(r.Short.Values()...)):
		return fmt.Errorf("rope.amplitude is %v and rope.short has %d numbers, want one above 0, and one above 0 for each of %d pairs", r.Amplitude, len(r.Short.Values()), pairs)
	}
	return nil
}

// precision of the angles, in bits, before they are rounded to binary64.
const ropePrecision = 160

// angles returns the angle of each pair from one position to the next, for all kinds but "" and dynamic:
// the real number, rounded to binary64.
func (r *Rope) angles(base float64, pairs int) []float64 {
	n := func(x float64) ball.Big { return ball.NewBig(0, ropePrecision).FromFloat64(x) }
	one, turn := n(1), n(1).Pi().Scale2(1)
	logBase := n(base).Log()
	short := r.Short.Values()
	// pair returns the number of the pair, a fraction, that makes this many turns in the original length.
	pair := func(turns float64) ball.Big {
		return n(float64(pairs)).Mul(n(float64(r.Original)).Div(n(turns).Mul(turn)).Log()).Div(logBase)
	}
	low, high := 0.0, 0.0
	if r.Kind == "yarn" {
		low, high = mid(pair(r.Fast)), mid(pair(r.Slow))
		if !r.IsUncut {
			low, high = math.Floor(low), math.Ceil(high)
		}
		low, high = max(low, 0), min(high, float64(2*pairs-1))
		if low == high {
			high += 0.001
		}
	}
	list := make([]float64, pairs)
	for i := range list {
		a := logBase.Mul(n(0).FromRat(big.NewRat(int64(-i), int64(pairs)))).Exp()
		scaled := a.Div(n(r.Factor))
		switch r.Kind {
		case "linear":
			a = scaled
		case "longrope":
			a = a.Div(n(short[i]))
		case "yarn":
			ramp := n(min(max(mid(n(float64(i)).Sub(n(low)).Div(n(high).Sub(n(low)))), 0), 1))
			a = scaled.Mul(ramp).Add(a.Mul(one.Sub(ramp)))
		case "llama3":
			turns := a.Mul(n(float64(r.Original))).Div(turn)
			switch t := mid(turns); {
			case t < r.Low:
				a = scaled
			case t <= r.High:
				smooth := turns.Sub(n(r.Low)).Div(n(r.High).Sub(n(r.Low)))
				a = scaled.Mul(one.Sub(smooth)).Add(a.Mul(smooth))
			}
		}
		list[i] = mid(a)
	}
	return list
}

func mid(x ball.Big) float64 {
	v, _ := x.Mid().Float64()
	return v
}

// ropeLayout has the tables of rope, which are inputs of programs: for halves of heads "cos" and "sin", and for
// neighbours "wave", in which a cosine and its sine are neighbours too.
func (c *Config) ropeLayout() []ropeTable {
	pairs := c.headWidth() / 2
	if c.Interleaved {
		return []ropeTable{{"wave", 2 * pairs, rope.Interleave}}
	}
	return []ropeTable{
		{"cos", pairs, func(cos, _ []float32) []float32 { return cos }},
		{"sin", pairs, func(_, sin []float32) []float32 { return sin }},
	}
}

type ropeTable struct {
	name string
	cols int
	of   func(cos, sin []float32) []float32
}

// ropeTables returns the tables of ropeLayout for Block positions, in the memory of a device; none where positions are
// learned.
func (c *Config) ropeTables(dev device.Device) (map[string]*tensor.Tensor, error) {
	if c.Positions != "rope" {
		return map[string]*tensor.Tensor{}, nil
	}
	pairs, f := c.headWidth()/2, rope.Frequencies{Base: c.RopeBase}
	if c.Rope.Kind != "" && c.Rope.Kind != "dynamic" {
		f = rope.Frequencies{Angles: c.Rope.angles(c.RopeBase, pairs)}
	}
	cos, sin, err := rope.Table(c.Block, pairs, f)
	if err != nil {
		return nil, err
	}
	if a := c.Rope.Amplitude; a != 0 {
		for _, t := range [][]float32{cos, sin} {
			for k := range t {
				t[k] = float32(float64(t[k]) * a)
			}
		}
	}
	made := map[string]*tensor.Tensor{}
	for _, t := range c.ropeLayout() {
		if made[t.name], err = tensor.FromFloat32(dev, num.F32, t.of(cos, sin), c.Block, t.cols); err != nil {
			delete(made, t.name)
			for _, other := range made {
				other.Close()
			}
			return nil, err
		}
	}
	return made, nil
}
