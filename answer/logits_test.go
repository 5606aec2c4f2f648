package answer

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/testlevel"
	"tokitai/model"
	"tokitai/num"
	"tokitai/tensor"
)

// TestLogits: the logits of prompts have the same bits in the forward pass of training, where a step computes whole
// prompts, pieces of them or single tokens, alone and in batches of every kind, wherever the pages of their keys lie.
func TestLogits(t *testing.T) {
	c := onGPU
	c.Block = 96
	for _, x := range []struct {
		storage num.DType
		rule    def.Accum
	}{{num.F32, def.FMAChain}, {num.BF16, def.FMAChain}, {num.BF16, def.MMA(16, 25)}} {
		c.Storage = x.storage.String()
		t.Run(c.Storage+" "+x.rule.String(), func(t *testing.T) {
			if x.storage == num.BF16 {
				testlevel.Need(t, testlevel.Quick, "its kernels take seconds to be compiled and admitted")
			}
			compareLogits(t, c, x.rule, testlevel.Pick(8, 40, 1000))
		})
	}
}

// TestFP8Logits compares logits as TestLogits does, of models whose weights are in FP8. A token's inputs are scaled without
// regard to the other tokens of a step, or its logits would depend on them.
func TestFP8Logits(t *testing.T) {
	testlevel.Need(t, testlevel.Quick, "its kernels take seconds to be admitted")
	mixture := model.Mixture{Experts: 4, PerToken: 2, Hidden: 136}
	for _, x := range []struct {
		model.FP8
		model.Mixture
	}{
		{FP8: model.FP8{Scales: "rows"}}, {FP8: model.FP8{Scales: "rows", IsStatic: true, Except: model.NamesOf("model.layers.0.self_attn.q_proj")}}, {FP8: model.FP8{Scales: "blocks"}},
		{model.FP8{Scales: "rows"}, mixture}, {model.FP8{Scales: "rows", IsStatic: true}, mixture}, {model.FP8{Scales: "blocks"}, mixture},
	} {
		c := onGPU
		c.Block, c.Layers, c.Storage, c.FP8, c.Mixture = 32, 1, "", x.FP8, x.Mixture
		c.Width, c.Hidden = 160, 256
		t.Run(fmt.Sprintf("%s, static %t, %d experts", x.Scales, x.IsStatic, x.Experts), func(t *testing.T) { compareLogits(t, c, def.FMAChain, 8) })
	}
}

func compareLogits(t *testing.T, c model.Config, rule def.Accum, prompts int) {
	m := randomModel(t, c)
	if err := m.Follow(rule); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(5, uint64(prompts)))
	x := &comparison{model: m, random: random, prompts: make([][]int32, prompts)}
	for i := range x.prompts {
		x.prompts[i] = make([]int32, 1+random.IntN(c.Block))
		for k := range x.prompts[i] {
			x.prompts[i][k] = random.Int32N(int32(c.Vocabulary))
		}
	}
	x.train(t, rule)
	whole := func(_, left int) int { return left }
	piece := func(_, left int) int { return 1 + random.IntN(min(left, 17)) }
	one := func(int, int) int { return 1 }
	for _, way := range []struct {
		name     string
		together int
		tokens   func(i, left int) int
	}{
		{"whole prompts", 1, whole}, {"whole prompts, 7 together", 7, whole},
		{"pieces", 1, piece}, {"pieces, 7 together", 7, piece},
		{"tokens", 1, one}, {"tokens, 7 together", 7, one}, {"tokens, 64 together", 64, one},
		{"tokens beside pieces, 64 together", 64, func(i, left int) int {
			if i%2 == 0 {
				return 1
			}
			return piece(i, left)
		}},
	} {
		x.infer(t, way.name, way.together, way.tokens)
	}
}

// randomModel returns a model whose weights are larger than those that training starts with, so that prompts matter.
func randomModel(t *testing.T, c model.Config) *Model {
	t.Helper()
	d, err := model.NewDecoder(c, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	weights := map[string]*tensor.Tensor{}
	for _, w := range append(d.Program.Of(model.Weight), d.Program.Of(model.Fixed)...) {
		values := c.Initial(w, 1)
		for i := range values {
			switch {
			case w.Kind == model.Fixed && w.DType == num.F32: // a scale
				values[i] = 0.5 + float32(i%3)/4
			case len(w.Shape) > 1:
				values[i] *= 12
			}
		}
		if weights[w.Name], err = tensor.FromFloat32(cpu.Queue().Device(), w.DType, values, w.Shape...); err != nil {
			t.Fatal(err)
		}
	}
	m, err := NewModel("random", c, weights)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// comparison holds prompts with the logits that training computes for them.
type comparison struct {
	model   *Model
	random  *rand.Rand
	prompts [][]int32
	logits  [][]byte // of the tokens of each
}

// row is the number of bytes of the logits of a token.
func (x *comparison) row() int { return 4 * x.model.Config.Vocabulary }

// train computes the logits by the program that trains the model, some prompts at a time, with gradients and all.
func (x *comparison) train(t *testing.T, rule def.Accum) {
	t.Helper()
	const together = 8
	c := x.model.Config
	q := cpu.Queue().With(engine.WithRule(rule))
	d, err := model.NewDecoder(c, together, testlevel.Current() > testlevel.Smoke && !c.FP8.IsUsed())
	if err != nil {
		t.Fatal(err)
	}
	given, err := d.Constants(q)
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range x.model.Weights {
		given[name] = w
	}
	logits, err := tensor.New(q.Device(), num.F32, d.Tokens(), c.Vocabulary) // not in memory that is used again
	if err != nil {
		t.Fatal(err)
	}
	defer logits.Close()
	given[model.Logits] = logits
	in, err := model.NewInstance(q, d.Program, given)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for list := range slices.Chunk(x.prompts, together) {
		tokens := make([]int32, d.Tokens())
		for i, p := range list {
			copy(tokens[i*c.Block:], p)
		}
		if err := in.Tensor(model.Tokens).SetInt32s(tokens); err != nil {
			t.Fatal(err)
		}
		if err := in.Run(q, model.Variables{model.ScaleVariable: 1}); err != nil {
			t.Fatal(err)
		}
		all, err := logits.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range list {
			x.logits = append(x.logits, slices.Clone(all[i*c.Block*x.row():][:len(p)*x.row()]))
		}
	}
}

// placed is a prompt that is being computed.
type placed struct {
	prompt, cached int
	pages          []int32
}

// infer computes the logits of all prompts, so many prompts in a step, and compares them. tokens says how many tokens of a
// prompt a step takes.
func (x *comparison) infer(t *testing.T, name string, together int, tokens func(i, left int) int) {
	t.Helper()
	const pageSize = 16
	c := x.model.Config
	each := pagesOf(c.Block, pageSize)
	shape := model.InferenceShape{Tokens: 128, Sequences: together, Rows: 128, Pages: (together + 1) * each, PageSize: pageSize, PerSequence: each}
	r, err := newRunner(cpu.Queue(), x.model, shape)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	var free []int32
	for _, p := range x.random.Perm(shape.Pages) {
		free = append(free, int32(p))
	}
	var s step
	var active []*placed
	next, steps, numbers, differ := 0, 0, 0, 0
	for next < len(x.prompts) || len(active) > 0 {
		for ; next < len(x.prompts) && len(active) < together; next++ {
			active = append(active, &placed{prompt: next, pages: slices.Clone(free[:each])})
			free = free[each:]
		}
		s.reset()
		var fed []int
		for i, p := range active {
			left := x.prompts[p.prompt][p.cached:]
			n := min(tokens(p.prompt, len(left)), len(left), shape.Tokens-len(s.tokens)-(len(active)-i-1))
			for k := range n {
				s.want(len(s.tokens)+k, draw{})
			}
			s.add(left[:n], p.cached, p.pages, pageSize)
			fed = append(fed, n)
		}
		if _, err := r.run(&s); err != nil {
			t.Fatal(err)
		}
		steps++
		rows, err := r.logits.Slice(0, len(s.rows), 0, c.Vocabulary)
		if err != nil {
			t.Fatal(err)
		}
		got, err := rows.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range active {
			want := x.logits[p.prompt][p.cached*x.row():][:fed[i]*x.row()]
			for k := 0; k < len(want); k += 4 {
				if a, b := binary.LittleEndian.Uint32(got[k:]), binary.LittleEndian.Uint32(want[k:]); a != b {
					if differ++; differ == 1 {
						t.Errorf("%s: prompt %d, token %d, logit %d is %08x, want %08x as in training", name, p.prompt, p.cached+k/x.row(), k%x.row()/4, a, b)
					}
				}
			}
			numbers += len(want) / 4
			got = got[len(want):]
			if p.cached += fed[i]; p.cached == len(x.prompts[p.prompt]) {
				free = append(free, p.pages...)
			}
		}
		active = slices.DeleteFunc(active, func(p *placed) bool { return p.cached == len(x.prompts[p.prompt]) })
	}
	t.Logf("%s: %d prompts in %d steps, %d of %d logits differ", name, len(x.prompts), steps, differ, numbers)
}
