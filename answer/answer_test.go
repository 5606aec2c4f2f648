package answer_test

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"tokitai/answer"
	"tokitai/answer/answertest"
	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/testlevel"
	"tokitai/model"
	"tokitai/num"
	"tokitai/op/checksum"
	"tokitai/op/sample"
	"tokitai/tensor"
)

// tiny is a decoder with groups of heads.
var tiny = answertest.Config

var tinyModel = sync.OnceValues(func() (*answer.Model, error) { return answertest.Model(tiny, 1) })

func tinyOrFail(t testing.TB) *answer.Model {
	t.Helper()
	m, err := tinyModel()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func start(t testing.TB, m *answer.Model, l answer.Limits) *answer.Engine {
	t.Helper()
	e, err := answer.NewEngine(cpu.Queue(), m, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// result is all that an answer tells.
type result struct {
	Events []answer.Event
	Text   string
	Finish string
}

func collect(a *answer.Answer) (result, error) {
	var r result
	for {
		events, outcome, err := a.Next()
		if err != nil {
			return r, err
		}
		for _, e := range events {
			r.Text += e.Text
		}
		r.Events = append(r.Events, events...)
		if outcome != nil {
			r.Text += outcome.Text
			r.Finish = outcome.Finish
			return r, nil
		}
	}
}

func answerTo(t testing.TB, e *answer.Engine, r answer.Request) result {
	t.Helper()
	a, err := e.Start(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := collect(a)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// requests are prompts with parameters of every kind.
func requests(n int, seed uint64) []answer.Request {
	r := rand.New(rand.NewPCG(seed, 0))
	shared := make([]int32, 40)
	for i := range shared {
		shared[i] = int32('a' + r.IntN(3))
	}
	list := make([]answer.Request, n)
	for i := range list {
		prompt := append([]int32{256}, shared[:r.IntN(len(shared))]...)
		for range r.IntN(9) {
			prompt = append(prompt, int32(r.IntN(256)))
		}
		q := answer.Request{Prompt: prompt, Choice: i % 3, Sampling: answer.DefaultSampling, Most: 1 + r.IntN(30), Logprobs: i%2 == 0, Top: i % 4, Salt: []string{"", "b"}[i%2]}
		q.Sampling.Seed = uint64(i / 2)
		switch i % 5 {
		case 1:
			q.Sampling.Temperature = 0
		case 2:
			q.Sampling.TopK, q.Sampling.Frequency, q.Sampling.Presence = 20, 0.5, 0.25
		case 3:
			q.Sampling.TopP, q.Sampling.Repetition, q.Sampling.Bias = 0.9, 1.3, []answer.Bias{{'x', 5}, {'a', -3}}
		case 4:
			q.Sampling.MinP, q.Stops, q.Echo, q.Logprobs = 0.05, []string{"a", "zz"}, true, true
		}
		list[i] = q
	}
	return list
}

// TestAlone: an answer has the same tokens, logprobs and checksums alone and with others, with pages and steps of every
// size, with prefixes reused or not, when it is preempted, and when tokens are guessed.
func TestAlone(t *testing.T) {
	m := tinyOrFail(t)
	list := requests(24, 1)
	var want []result
	alone := start(t, m, answer.Limits{Sequences: 1, Tokens: 128, Rows: 64, PageSize: 256, Waiting: 9, NoReuse: true})
	for _, r := range list {
		want = append(want, answerTo(t, alone, r))
	}
	for _, x := range []struct {
		name    string
		limits  answer.Limits
		guesses int
		draft   *answer.Model
	}{
		{"together", answer.Limits{Sequences: 7, Tokens: 64, Rows: 16, PageSize: 16, Waiting: 99}, 0, nil},
		{"small steps, preempted", answer.Limits{Sequences: 5, Tokens: 9, Rows: 6, Pages: 9, PageSize: 16, Waiting: 99}, 0, nil},
		{"guessed", answer.Limits{Sequences: 24, Tokens: 200, Rows: 64, PageSize: 32, Waiting: 99}, 5, nil},
		{"guessed, preempted, no reuse", answer.Limits{Sequences: 6, Tokens: 20, Rows: 12, Pages: 8, PageSize: 16, Waiting: 99, NoReuse: true}, 3, nil},
		{"drafted", answer.Limits{Sequences: 24, Tokens: 200, Rows: 64, PageSize: 32, Waiting: 99}, 5, draftOf(t, answertest.Config)},
		{"drafted, preempted, no reuse", answer.Limits{Sequences: 6, Tokens: 20, Rows: 12, Pages: 8, PageSize: 16, Waiting: 99, NoReuse: true}, 3, draftOf(t, shorter)},
	} {
		e := start(t, withDraft(m, x.draft), x.limits)
		for pass := range 2 { // the second finds prefixes
			var answers []*answer.Answer
			for _, r := range list {
				r.Guesses = x.guesses
				a, err := e.Start(context.Background(), r)
				if err != nil {
					t.Fatal(err)
				}
				answers = append(answers, a)
			}
			for i, a := range answers {
				got, err := collect(a)
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(got, want[i]) {
					t.Fatalf("%s, pass %d, request %d:\n%+v\nwant\n%+v", x.name, pass, i, got, want[i])
				}
			}
		}
		s := e.Stats()
		if x.limits.Pages > 0 && s.Preemptions == 0 {
			t.Errorf("%s: nothing was preempted", x.name)
		}
		if (s.CachedTokens > 0) == x.limits.NoReuse {
			t.Errorf("%s: %d tokens of prompts were reused", x.name, s.CachedTokens)
		}
		if (s.Guessed > 0) != (x.guesses > 0) || s.GuessedRight > s.Guessed {
			t.Errorf("%s: %d guesses, %d right", x.name, s.Guessed, s.GuessedRight)
		}
		if s.PagesUsed != 0 && s.Active == 0 {
			t.Errorf("%s: %d pages are in use at the end", x.name, s.PagesUsed)
		}
	}
}

// TestTraining: the logits of an answer's positions have the checksums of the decoder that training uses, and logprobs and
// tokens are those of package sample.
func TestTraining(t *testing.T) {
	learned, mixture := tiny, tiny
	learned.Norm, learned.Positions, learned.FeedForward, learned.Bias, learned.Tied, learned.Storage = "layer", "learned", "gelu", true, true, "bf16"
	mixture.Mixture, mixture.HeadNorm, mixture.Storage = model.Mixture{Experts: 5, PerToken: 2, Hidden: 24, IsNormalised: true}, "each", "f16"
	biased := tiny
	biased.Mixture = model.Mixture{Experts: 5, PerToken: 2, Hidden: 24, Balance: 0.5}
	mixture.Windows, mixture.AttentionCap, mixture.LogitCap = model.NumbersOf(20, 0), 30, 20
	for _, x := range []struct {
		name   string
		config model.Config
		rule   def.Accum
	}{
		{"tiny", tiny, def.FMAChain},
		{"learned", learned, def.FMAChain},
		{"tensor cores", learned, def.MMA(16, 25)},
		{"mixture", mixture, def.FMAChain},
		{"mixture with biases", biased, def.FMAChain},
		{"mixture, tensor cores", mixture, def.MMA(8, 24)},
	} {
		t.Run(x.name, func(t *testing.T) {
			if strings.HasPrefix(x.name, "mixture") {
				testlevel.Need(t, testlevel.Quick, "its kernels take seconds to be compiled and admitted")
			}
			trained(t, x.config, x.rule)
		})
	}
}

func trained(t *testing.T, tiny model.Config, rule def.Accum) {
	m, err := answertest.Model(tiny, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Follow(rule); err != nil {
		t.Fatal(err)
	}
	e := start(t, m, answer.DefaultLimits)
	got := answerTo(t, e, answer.Request{Prompt: []int32{256, 'a', 'b', 'c'}, Sampling: answer.DefaultSampling, Most: 92, NoEnd: true, Logprobs: true, Echo: true})
	if len(got.Events) != tiny.Block {
		t.Fatalf("%d events, want %d", len(got.Events), tiny.Block)
	}
	q := cpu.Queue().With(engine.WithRule(rule))
	d, err := model.NewDecoder(tiny, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	given, err := d.Constants(q)
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range m.Weights {
		given[name] = w
	}
	in, err := model.NewInstance(q, d.Program, given)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	tokens := make([]int32, tiny.Block)
	for i, event := range got.Events {
		tokens[i] = event.Token
	}
	if err := in.Tensor(model.Tokens).SetInt32s(tokens); err != nil {
		t.Fatal(err)
	}
	if err := in.Run(q, model.Variables{model.ScaleVariable: 0}); err != nil {
		t.Fatal(err)
	}
	for i, event := range got.Events[1:] {
		row, err := in.Tensor(model.Logits).Slice(i, i+1, 0, tiny.Vocabulary)
		if err != nil {
			t.Fatal(err)
		}
		sum, err := checksum.Of(q, row, 0)
		if err != nil {
			t.Fatal(err)
		}
		if want := uint64(sum.Word1)<<32 | uint64(sum.Word0); event.Checksum != want {
			t.Fatalf("position %d: checksum %016x, want %016x as in training", event.Position, event.Checksum, want)
		}
		if event.IsPrompt {
			continue
		}
		one := func(v float32) *tensor.Tensor {
			x, _ := tensor.FromFloat32(q.Device(), num.F32, []float32{v}, 1)
			return x
		}
		number := func(v int32) *tensor.Tensor { x, _ := tensor.FromInt32(q.Device(), []int32{v}, 1); return x }
		token, logprob := number(0), one(0)
		err = sample.Draw(q, token, logprob, row, sample.Settings{Sequence: number(0), Position: number(int32(event.Position)), Temperature: one(1), TopK: number(0), TopP: one(1), MinP: one(0)}, sample.Words{})
		if err != nil {
			t.Fatal(err)
		}
		id, _ := token.Int32s()
		lp, _ := logprob.Float32s()
		if id[0] != event.Token || lp[0] != event.Logprob {
			t.Fatalf("position %d: token %d with logprob %v, want %d with %v", event.Position, event.Token, event.Logprob, id[0], lp[0])
		}
	}
}

// TestDraw: the tokens that a step draws together, each row with a seed and parameters of its own, are those that
// package sample draws alone, and what else is read from a row is what Summary reads.
func TestDraw(t *testing.T) {
	const rows, vocabulary = 40, 300
	q, r := cpu.Queue(), rand.New(rand.NewPCG(3, 0))
	floats := func(n int, f func(i int) float32) *tensor.Tensor {
		values := make([]float32, n)
		for i := range values {
			values[i] = f(i)
		}
		x, err := tensor.FromFloat32(q.Device(), num.F32, values, n)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	ints := func(f func() int32) *tensor.Tensor {
		values := make([]int32, rows)
		for i := range values {
			values[i] = f()
		}
		x, err := tensor.FromInt32(q.Device(), values, rows)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	logits, err := floats(rows*vocabulary, func(i int) float32 {
		if i/vocabulary == rows-1 && i%vocabulary == 7 {
			return float32(math.NaN())
		}
		return float32(r.NormFloat64())
	}).Reshape(rows, vocabulary)
	if err != nil {
		t.Fatal(err)
	}
	in := []*tensor.Tensor{
		ints(func() int32 { return int32(r.Uint32()) % 3 }), ints(func() int32 { return int32(r.Uint32()) }), // seeds
		ints(func() int32 { return r.Int32N(3) }), ints(func() int32 { return r.Int32N(1000) }),
		floats(rows, func(i int) float32 { return float32(i%4) / 2 }), ints(func() int32 { return r.Int32N(30) - 5 }),
		floats(rows, func(i int) float32 { return float32(r.IntN(6)) / 4 }), floats(rows, func(int) float32 { return float32(r.IntN(4)) / 40 }),
	}
	zero := func() int32 { return 0 }
	none := func(int) float32 { return 0 }
	outs := func() []*tensor.Tensor {
		return []*tensor.Tensor{ints(zero), floats(rows, none), floats(rows, none), ints(zero), ints(zero)}
	}
	drawn, read := outs(), outs()
	for _, err := range []error{
		engine.Call(q, answer.Draw, slices.Concat([]*tensor.Tensor{logits}, in, drawn), nil),
		engine.Call(q, answer.Summary, append([]*tensor.Tensor{logits}, read...), nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	raw := func(x *tensor.Tensor) []byte {
		b, err := x.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for i := 1; i < len(drawn); i++ {
		if !bytes.Equal(raw(drawn[i]), raw(read[i])) {
			t.Errorf("%s differs from that of Summary", answer.Draw.Operands[len(in)+1+i].Name)
		}
	}
	low, _ := in[0].Int32s()
	high, _ := in[1].Int32s()
	tokens, _ := drawn[0].Int32s()
	largest, _ := read[0].Int32s()
	others := 0
	for i := range rows {
		one := func(x *tensor.Tensor) *tensor.Tensor {
			part, err := tensor.At(x.Buffer(), int64(i)*4, x.DType(), 1, 1)
			if err != nil {
				t.Fatal(err)
			}
			return part
		}
		row, err := logits.Slice(i, i+1, 0, vocabulary)
		if err != nil {
			t.Fatal(err)
		}
		settings := sample.Settings{Sequence: one(in[2]), Position: one(in[3]), Temperature: one(in[4]), TopK: one(in[5]), TopP: one(in[6]), MinP: one(in[7])}
		token, logprob := one(drawn[0]), one(drawn[1]) // read above
		if err := sample.Draw(q, token, logprob, row, settings, sample.Words{Seed: uint64(uint32(high[i]))<<32 | uint64(uint32(low[i]))}); err != nil {
			t.Fatal(err)
		}
		want, _ := token.Int32s()
		if tokens[i] != want[0] {
			t.Errorf("row %d: token %d, want %d", i, tokens[i], want[0])
		}
		if tokens[i] != largest[i] {
			others++
		}
	}
	if others < rows/4 {
		t.Errorf("%d of %d tokens are not the likeliest, which shows little", others, rows)
	}
}
