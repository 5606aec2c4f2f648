package sample_test

import (
	"math"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/sample"
	"tokitai/verify/mutants"
)

// variant is a sampler in plain Go that sorts every row, with one fault or none.
type variant struct {
	parts        mutants.Parts
	lastOfEquals bool // of equal logits the last counts
	skipsNaN     bool // a NaN is never the largest
	ofRow        bool // noise by the number of the row
	samePosition bool // noise without the position
	exclusive    bool // top_p drops the token that reaches the limit
	massOfAll    bool // top_p is a share of all tokens, not of those that top_k keeps
	noneIsOne    bool // top_k = 0 keeps one token
	allButOne    bool // top_k of all tokens but one keeps all
	ofSum        bool // min_p is compared with probabilities
	laterScaled  bool // filters see the logits before the temperature
	scaled       bool // logprob with the temperature
	keptOnly     bool // logprob among what is kept
}

func (v variant) body(c *mutants.Call) {
	stored := func(name string, r int) uint32 { return c.Stored[c.Position(name)].Bits(r, 0) }
	param := func(i int) uint32 { return uint32(int32(c.Params[i])) }
	seed := uint64(param(0)) | uint64(param(1))<<32
	for r := range c.In("logits").Rows {
		x := c.In("logits").Row(r)
		temperature, topP, minP := c.In("temperature").Row(r)[0], c.In("top_p").Row(r)[0], c.In("min_p").Row(r)[0]
		counter := [4]uint32{0, stored("sequence", r), stored("position", r), param(2)}
		if v.ofRow {
			counter[1] = uint32(r)
		}
		if v.samePosition {
			counter[2] = 0
		}
		noise := func(col int) float32 {
			counter[0] = uint32(col) / 4
			w := (float64(num.Philox(seed, counter)[col%4]) + 0.5) / (1 << 32)
			return -v.parts.Log(-float32(math.Log1p(-float64(min(float32(w), 1-0x1p-24)))))
		}
		token, kept, z := v.draw(x, temperature, topP, minP, int32(stored("top_k", r)), noise)
		d, e := make([]float32, len(x)), make([]float32, len(x))
		most := x[largest(x, false)]
		for i := range x {
			d[i] = x[i] - most
			if v.scaled && temperature > 0 {
				d[i] = z[i]
			}
			if e[i] = v.parts.Exp(d[i]); v.keptOnly && !slices.Contains(kept, i) {
				e[i] = 0
			}
		}
		c.In("token").Row(r)[0], c.In("logprob").Row(r)[0] = float32(token), d[token]-v.parts.Log(v.parts.Sum(e))
	}
}

// largest returns the first or the last of the largest elements; a NaN is larger than all.
func largest(x []float32, isLast bool) int {
	at := 0
	for i := range x {
		if x[i] > x[at] || x[i] != x[i] && x[at] == x[at] || isLast && (x[i] == x[at] || x[i] != x[i]) {
			at = i
		}
	}
	return at
}

func (v variant) draw(x []float32, temperature, topP, minP float32, topK int32, noise func(int) float32) (token int, kept []int, z []float32) {
	token = largest(x, v.lastOfEquals)
	if v.skipsNaN {
		for i := range x {
			if x[token] != x[token] || x[i] > x[token] {
				token = i
			}
		}
	}
	most := x[largest(x, false)]
	z = make([]float32, len(x))
	for i := range x {
		kept = append(kept, i)
		z[i] = (x[i] - most) / min(temperature, math.MaxFloat32)
	}
	if !(temperature > 0) || most != most || math.IsInf(float64(most), 0) {
		return token, kept, z
	}
	mass := func(i int) float64 {
		of := z[i]
		if v.laterScaled {
			of = x[i] - most
		}
		return math.RoundToEven(float64(v.parts.Exp(of)) * (1 << 30))
	}
	slices.SortStableFunc(kept, func(i, j int) int {
		switch {
		case x[i] > x[j], v.lastOfEquals && x[i] == x[j] && i > j:
			return -1
		case x[i] < x[j], v.lastOfEquals && x[i] == x[j] && i < j:
			return 1
		}
		return 0
	})
	total := 0.0
	all := kept
	if v.noneIsOne {
		topK = max(topK, 1)
	}
	if topK >= 1 && !(v.allButOne && int(topK) == len(x)-1) {
		kept = kept[:min(int(topK), len(kept))]
	}
	if !v.massOfAll {
		all = kept
	}
	for _, i := range all {
		total += mass(i)
	}
	if !(topP >= 1) {
		limit := 1.0
		if topP > 0 {
			limit = max(1, math.Floor(total*(math.RoundToEven(float64(topP)*(1<<31))/(1<<31))))
		}
		sum := 0.0
		for n, i := range kept {
			if sum += mass(i); sum >= limit {
				if kept = kept[:n+1]; v.exclusive {
					kept = kept[:max(n, 1)]
				}
				break
			}
		}
	}
	best := float32(math.Inf(-1))
	slices.Sort(kept)
	limit := min(minP, 1)
	if v.ofSum {
		limit *= float32(total / (1 << 30))
	}
	for _, i := range kept {
		if v.parts.Exp(z[i]) < limit && z[i] != 0 {
			continue
		}
		if s := z[i] + noise(i); s > best {
			best, token = s, i
		}
	}
	return token, kept, z
}

func TestMutants(t *testing.T) {
	wrong, right := mutants.NewList(sample.Operations), mutants.NewList(sample.Operations)
	honest := mutants.Ordered(mutants.InLanes(16))
	plain := func(v variant) mutants.Plain {
		v.parts = honest
		return mutants.Plain{Body: v.body}
	}
	wrong.Of(sample.Definition, num.F32)
	wrong.From(mutants.KernelPractice)
	for _, w := range []struct {
		name, text string
		v          variant
	}{
		{"last-of-equals", "of equal logits the last counts", variant{lastOfEquals: true}},
		{"nan-skipped", "a NaN logit is never taken", variant{skipsNaN: true}},
		{"noise-by-row", "the noise is that of the row in its batch", variant{ofRow: true}},
		{"same-at-all-positions", "the noise is the same at all positions", variant{samePosition: true}},
		{"top-p-exclusive", "the token that reaches top_p is dropped", variant{exclusive: true}},
		{"top-p-of-all", "top_p is a share of all tokens, not of those that top_k keeps", variant{massOfAll: true}},
		{"top-k-all-but-one", "top_k of all tokens but one keeps all", variant{allButOne: true}},
		{"top-k-0-is-1", "top_k = 0 keeps one token", variant{noneIsOne: true}},
		{"min-p-of-probability", "min_p is compared with probabilities, not with their share of the largest", variant{ofSum: true}},
		{"temperature-last", "top_p sees the logits before the temperature", variant{laterScaled: true}},
		{"logprob-scaled", "logprob is that at the temperature", variant{scaled: true}},
		{"logprob-of-kept", "logprob is that among the kept tokens", variant{keptOnly: true}},
	} {
		wrong.Add(w.name, w.text, mutants.AnyOrder, plain(w.v))
	}
	right.Of(sample.Definition, num.F32)
	right.Add("reference", "the definition itself", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer})
	right.Add("sorted", "sorts rows, and sums in another order", mutants.AnyOrder, plain(variant{}))
	mutants.Test(t, sample.Operations, wrong.All, right.All, func(p mutants.Parts) map[*def.Definition]func(*mutants.Call) {
		return map[*def.Definition]func(*mutants.Call){sample.Definition: variant{parts: p}.body}
	})
}
