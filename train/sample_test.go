package train

import (
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/data"
	"tokitai/model"
)

// TestSample: greedy text has the largest logit at each place, a seed decides text of a temperature, and no step is
// changed by it.
func TestSample(t *testing.T) {
	t.Parallel()
	s := tiny()
	s.Block, s.Dropout = 12, 0
	tr := newTrainer(t, cpu.Queue(), s.Config)
	take(t, tr, 3)
	before := state(t, tr)
	greedy, err := tr.NewSampler(0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := greedy.Sample("ab", nil)
	if err != nil {
		t.Fatal(err)
	}
	tokens := []int32{data.Beginning, 'a', 'b'}
	for len(tokens) < s.Block {
		block := make([]int32, s.Block)
		copy(block, tokens)
		for i := len(tokens); i < s.Block; i++ {
			block[i] = 7 // what stands behind does not matter
		}
		if err := greedy.in.Tensor(model.Tokens).SetInt32s(block); err != nil {
			t.Fatal(err)
		}
		if err := greedy.recording.Run(tr.queue); err != nil {
			t.Fatal(err)
		}
		if err := tr.queue.Wait(); err != nil {
			t.Fatal(err)
		}
		logits, err := greedy.in.Tensor(model.Logits).Float32s()
		if err != nil {
			t.Fatal(err)
		}
		row := logits[(len(tokens)-1)*s.Vocabulary:][:s.Vocabulary]
		next := int32(slices.Index(row, slices.Max(row)))
		if next == data.Beginning {
			break
		}
		tokens = append(tokens, next)
	}
	if want, _ := data.Bytes.Decode(tokens); got != want {
		t.Errorf("greedy %q, want %q", got, want)
	}
	if long, err := greedy.Sample(strings.Repeat("ab", 20), nil); err != nil || !strings.HasPrefix(long, "babababab") {
		t.Errorf("a long prompt gives %q, %v", long, err)
	}
	warm, err := tr.NewSampler(1)
	if err != nil {
		t.Fatal(err)
	}
	first, err := warm.Sample("", nil)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := warm.Sample("", nil); err != nil || again != first || first == got {
		t.Errorf("drawn twice: %q and %q, %v", first, again, err)
	}
	if state(t, tr) != before {
		t.Error("a sample has changed the state")
	}
}

// TestSamples: a run writes samples, and they change no entry of its chain.
func TestSamples(t *testing.T) {
	t.Parallel()
	s, folder := tiny(), t.TempDir()
	s.SampleEvery, s.Prompt = 3, "ab"
	want, _ := whole()
	if got, err := do(osDisk{}, folder, s, 0); err != nil || got != want {
		t.Errorf("chain %v, want %v; %v", got, want, err)
	}
	lines, err := ReadMetrics(folder)
	if err != nil {
		t.Fatal(err)
	}
	var at []int
	for _, l := range lines {
		if l.Sample != nil {
			at = append(at, l.Step)
		}
	}
	if !slices.Equal(at, []int{3, 6, 7}) {
		t.Errorf("samples after the steps %v, want 3, 6 and 7", at)
	}
}

// TestSGD holds steps of SGD to its formulas, computed here in binary32, with momentum, decay and rates by
// group; and a run of it is resumed to the same chain.
func TestSGD(t *testing.T) {
	t.Parallel()
	s := tiny()
	s.Optimizer, s.Momentum, s.Decay, s.Clip, s.Schedule, s.Warmup, s.Rates = "sgd", 0.75, 0.5, 0, "constant", 0, "mlp=0.5,down_proj=0"
	s.Rate = 0.25
	tr := newTrainer(t, cpu.Queue(), s.Config)
	for i, name := range tr.names {
		if want := map[bool]float64{true: 0.5, false: 1}[strings.Contains(name, "mlp")]; tr.factors[i] != want && !strings.Contains(name, "down_proj") {
			t.Errorf("%s has the factor %v, want %v", name, tr.factors[i], want)
		}
	}
	read := func(list []part) (values [][]float32) {
		for _, p := range list {
			v, err := p.tensor.Float32s()
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, v)
		}
		return values
	}
	for range 2 {
		var old [][][]float32
		for i := range tr.names {
			old = append(old, read(tr.parts(i)))
		}
		take(t, tr, 1)
		for i, name := range tr.names {
			now, grad := read(tr.parts(i)), read([]part{{tensor: tr.sums[i]}})[0]
			if len(now) != 2 {
				t.Fatalf("%s has %d tensors, want the weight and its buffer", name, len(now))
			}
			rate := float32(s.Rate * tr.factors[i])
			keep := float32(1)
			if tr.weights[i].Rank() > 1 {
				keep = float32(1 - s.Rate*tr.factors[i]*s.Decay)
			}
			for k := range grad {
				buffer := float32(0.75*old[i][1][k]) + grad[k]
				weight := float32(old[i][0][k]*keep) - float32(rate*buffer)
				if now[1][k] != buffer || now[0][k] != weight {
					t.Fatalf("%s, element %d: weight %v and buffer %v, want %v and %v", name, k, now[0][k], now[1][k], weight, buffer)
				}
			}
		}
	}
	want, err := do(osDisk{}, t.TempDir(), s, 0)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	do(osDisk{}, folder, s, 3)
	if got, err := do(osDisk{}, folder, s, 0); err != nil || got != want {
		t.Errorf("resumed: chain %v, want %v; %v", got, want, err)
	}
}
