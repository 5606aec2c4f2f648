package answer_test

import (
	"context"
	"testing"
	"time"

	"tokitai/answer"
	"tokitai/answer/answertest"
	"tokitai/backend/cpu"
	"tokitai/model"
)

// hundred is a decoder of 100 M parameters.
var hundred = model.Config{
	Vocabulary: 32000, Block: 2048, Layers: 12, Width: 768, Heads: 12, KVHeads: 4, Hidden: 2048,
	Norm: "rms", Positions: "rope", FeedForward: "swiglu", Tied: true, RopeBase: 10000, Eps: 1e-5,
}

// BenchmarkAnswer measures prompts of 1,024 tokens, and answers of 64 tokens, from their first tokens on: one behind 1,024, and one
// and 16 together behind 16, of a decoder of 100 M parameters with random weights; with -short, of one layer and few tokens.
func BenchmarkAnswer(b *testing.B) {
	for _, storage := range []string{"f32", "bf16"} {
		c := hundred
		c.Storage = storage
		if testing.Short() {
			c.Layers, c.Vocabulary = 1, 1000
		}
		m, err := answertest.Model(c, 1)
		if err != nil {
			b.Fatal(err)
		}
		e, err := answer.NewEngine(cpu.Queue(), m, answer.Limits{Sequences: 16, Tokens: 256, Rows: 64, PageSize: 64, Waiting: 99, NoReuse: true})
		if err != nil {
			b.Fatal(err)
		}
		run := func(name string, prompt, most, n int) {
			b.Run(storage+"/"+name, func(b *testing.B) {
				r := answer.Request{Prompt: make([]int32, prompt), Sampling: answer.DefaultSampling, Most: most, NoEnd: true}
				for i := range r.Prompt {
					r.Prompt[i] = int32(i * 37 % c.Vocabulary)
				}
				r.Sampling.Temperature = 0
				var first time.Time
				answering, told := time.Duration(0), 0
				for b.Loop() {
					told = 0
					tell := func(int, *answer.Event, string) error {
						if told++; told == n { // every answer has a token
							first = time.Now()
						}
						return nil
					}
					if _, _, err := e.Complete(context.Background(), r, n, tell); err != nil {
						b.Fatal(err)
					}
					answering += time.Since(first)
				}
				if most == 1 {
					b.ReportMetric(float64(prompt*b.N)/b.Elapsed().Seconds(), "tokens/s")
				} else {
					b.ReportMetric(float64((most-1)*n*b.N)/answering.Seconds(), "tokens/s")
				}
			})
		}
		run("prompt", 1024, 1, 1)
		run("behind", 1024, 64, 1)
		run("answer", 16, 64, 1)
		run("together", 16, 64, 16)
		e.Close()
		m.Close()
	}
}
