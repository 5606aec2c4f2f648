package answer_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"tokitai/answer"
	"tokitai/backend/cpu"
	"tokitai/data"
	"tokitai/model"
	"tokitai/num"
	"tokitai/train"
)

// TestRunInBF16: a run that was trained in bf16 answers with its weights, each rounded once, as it was trained with, and
// chooses experts by the biases of its routers, which are not rounded.
func TestRunInBF16(t *testing.T) {
	s, folder, text := train.Default(), t.TempDir(), data.New(data.Grammar(5, 400))
	s.Layers, s.Width, s.Heads, s.KVHeads, s.Hidden, s.Block, s.Storage = 1, 8, 2, 1, 8, 16, "bf16"
	s.Mixture = model.Mixture{Experts: 4, PerToken: 1, Hidden: 8, Balance: 0.3}
	s.Batch, s.Steps, s.Warmup = 2, 1, 0
	r, err := train.Open(cpu.Queue(), folder, s, text, "text", "")
	if err != nil {
		t.Fatal(err)
	}
	err = r.Train(context.Background(), nil)
	if closed := r.Close(); err != nil || closed != nil {
		t.Fatal(err, closed)
	}
	m, err := answer.Load(cpu.Queue(), folder)
	if err != nil {
		t.Fatal(err)
	}
	e := start(t, m, answer.DefaultLimits)
	t.Cleanup(func() { e.Close(); m.Close() })
	list, err := train.Checkpoints(folder)
	if err != nil {
		t.Fatal(err)
	}
	_, entries, err := train.ReadWeights(list[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range entries {
		n := len(w.Data) / 4
		from, want := num.Array{DType: w.DType, Rows: 1, Cols: n, Stride: n, Data: w.Data}, num.NewArray(num.BF16, 1, n)
		for i := range n {
			want.Set(0, i, from.At(0, i))
		}
		if strings.HasSuffix(w.Name, model.BiasSuffix) {
			if got, err := m.Weights[w.Name].Float32s(); err != nil || slices.Max(got) != 0.3 && slices.Min(got) != -0.3 {
				t.Errorf("%s is %v, %v, want biases that one step has moved by 0.3", w.Name, got, err)
			}
			continue
		}
		if got, err := m.Weights[w.Name].Bytes(); err != nil || w.DType != num.F32 || !bytes.Equal(got, want.Data) {
			t.Errorf("%s of the checkpoint is %v, and what answers read is not that, rounded; %v", w.Name, w.DType, err)
		}
	}
	answerTo(t, e, answer.Request{Prompt: []int32{256, 'a'}, Sampling: answer.DefaultSampling, Most: 4, NoEnd: true})
}
