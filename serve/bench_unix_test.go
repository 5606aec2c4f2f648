//go:build unix

package serve_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"tokitai/answer"
	"tokitai/answer/answertest"
	"tokitai/backend/cpu"
	"tokitai/model"
	"tokitai/serve"
)

// BenchmarkServer measures what a server costs: the time of the processor for a token of 64 answers that are computed together,
// of 192 tokens each, by a decoder of 100 M parameters with random weights in bf16; with -short, of 16 tokens by one layer. In
// "engine" they are computed without a server, in "streams" and "whole" they are answers to clients in another process.
func BenchmarkServer(b *testing.B) {
	c := model.Config{
		Vocabulary: 32000, Block: 256, Layers: 12, Width: 768, Heads: 12, KVHeads: 4, Hidden: 2048, Storage: "bf16",
		Norm: "rms", Positions: "rope", FeedForward: "swiglu", Tied: true, RopeBase: 10000, Eps: 1e-5,
	}
	length, rounds := 192, 2
	if testing.Short() {
		c.Layers, c.Vocabulary, length, rounds = 1, 1000, 16, 1
	}
	m, err := answertest.Model(c, 1)
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	m.Vocabulary = spelled{m.Vocabulary}
	e, err := answer.NewEngine(cpu.Queue(), m, answer.Limits{Sequences: benchClients, Tokens: 1024, Rows: benchClients, PageSize: 64, Waiting: 99, NoReuse: true})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	o := serve.DefaultOptions
	o.Guesses = 0
	server := httptest.NewServer(serve.New(e, o))
	defer server.Close()
	measure := func(name string, answers func(length int) error) {
		b.Run(name, func(b *testing.B) {
			if err := answers(4); err != nil { // what is made once
				b.Fatal(err)
			}
			before, tokens := processorTime(b), e.Stats().OutputTokens
			for b.Loop() {
				if err := answers(length); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(e.Stats().OutputTokens-tokens), "cpu-ns/token")
		})
	}
	clients := func(stream string) func(int) error {
		return func(length int) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			client := exec.Command(self)
			client.Env = append(os.Environ(), clientOf+"="+server.URL)
			client.Stdin = strings.NewReader(fmt.Sprintf(`,"max_tokens":%d%s`, length, stream))
			if out, err := client.CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		}
	}
	for range rounds {
		measure("engine", func(length int) error { return askEngine(e, length) })
		measure("streams", clients(`,"stream":true`))
		measure("whole", clients(""))
	}
}

func askEngine(e *answer.Engine, length int) error {
	var requests []answer.Request
	for i := range benchClients {
		requests = append(requests, answer.Request{Prompt: benchPrompt(i), Sampling: answer.DefaultSampling, Most: length, NoEnd: true})
	}
	answers, err := e.StartAll(context.Background(), requests)
	if err != nil {
		return err
	}
	errs := make([]error, len(answers))
	var all sync.WaitGroup
	for i, a := range answers {
		all.Go(func() {
			for {
				_, outcome, err := a.Next()
				if errs[i] = err; err != nil || outcome != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// processorTime returns the nanoseconds that this process has computed for.
func processorTime(b *testing.B) int64 {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// spelled is a vocabulary in which every token is a text.
type spelled struct{ answer.Vocabulary }

func (spelled) Text() answer.Text { return spelling{} }

type spelling struct{}

func (spelling) Next(id int32) (string, error) { return fmt.Sprintf(" %d", id), nil }

func (spelling) End() string { return "" }
