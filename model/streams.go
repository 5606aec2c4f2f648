package model

import (
	"math"
	"sync"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/op/attention"
)

// weighing is how a layer weighs keys: by the definition for packed sequences, or the one for the pages of
// a cache, which has the same bits.
type weighing struct {
	packed, paged *def.Definition
	params        Params
}

// stream is attention with a window, a soft cap or both, and its gradients.
type stream struct{ packed, paged, backward *def.Definition }

// streams returns attention by whether it has a window, and whether it has a cap. They are made for the
// first model: every program that starts would wait for them.
var streams = sync.OnceValue(func() map[[2]bool]stream {
	list := map[[2]bool]stream{{}: {attention.ForwardDefinition, attention.DecodeDefinition, attention.BackwardDefinition}}
	for _, is := range [][2]bool{{true, false}, {false, true}, {true, true}} {
		packed := streamOf(is[0], is[1], false)
		list[is] = stream{packed, streamOf(is[0], is[1], true), def.Must(def.Derivative(packed, nil, fn.All...))}
	}
	return list
})

func streamOf(hasWindow, hasCap, isPaged bool) *def.Definition {
	name := "model.attention"
	f := def.StreamForm{
		Query: "q", Key: "k", Value: "v", QueryStarts: "qstart", KeyStarts: "kstart", Out: "o", LogSum: "lse",
		Functions: def.StreamFunctions{Short: fn.Exp2Short3Function, Exp2: fn.Exp2Function, Log2: fn.Log2Function},
	}
	exponent, visible := "kappa * s", "key <= query"
	if hasWindow {
		name, visible = name+".window", "key <= query < key + window"
	}
	if hasCap {
		name, exponent = name+".cap", "cap * tanh(inner * s)"
	}
	if isPaged {
		name, f.KeyStarts, f.Lengths, f.Pages = name+".paged", "", "klen", "pages"
	}
	f.Formula = []string{"o = sum of 2^t*v / sum of 2^t, t = " + exponent + ", s = sum of q*k over d, over the keys with " + visible, "lse = log2(sum of 2^t)"}
	return def.Must(def.StreamOf(name, f, func(b *def.StreamBuilder) {
		var t def.Value
		if hasCap {
			t = fn.Tanh(b.Score().Mul(b.Param("inner"))).Mul(b.Param("cap"))
		} else {
			t = b.Score().Mul(b.Param("kappa"))
		}
		isSeen := b.Key().LessEqual(b.Query())
		if hasWindow {
			window := b.IntParam("window", def.Between(1, math.MaxInt32))
			isSeen = def.Select(isSeen, b.Query().Less(b.Key().IAdd(window)), b.Key().Less(def.IntConst(0)))
		}
		b.Weigh(t.As("t"), isSeen.As("visible"))
	}))
}

// weighing returns how a layer weighs keys.
func (c *Config) weighing(layer int) weighing {
	scale, window, p := c.scoreScale(), c.window(layer), Params{}
	if c.AttentionCap > 0 {
		p["inner"], p["cap"] = Number(scale/c.AttentionCap), Number(attention.Kappa(c.AttentionCap))
	} else {
		p["kappa"] = Number(attention.Kappa(scale))
	}
	if window > 0 {
		p["window"] = Number(float64(window))
	}
	s := streams()[[2]bool{window > 0, c.AttentionCap > 0}]
	return weighing{s.packed, s.paged, p}
}

// scoreScale returns the factor of the scores.
func (c *Config) scoreScale() float64 {
	if c.AttentionScale > 0 {
		return c.AttentionScale
	}
	return invSqrt(c.headWidth())
}

// Attention returns the definition by which a layer weighs the keys of packed sequences, and its parameters.
func (c *Config) Attention(layer int) (*def.Definition, map[string]float64) {
	w := c.weighing(layer)
	numbers := map[string]float64{}
	for name, p := range w.params {
		numbers[name] = p.Number
	}
	return w.packed, numbers
}
