package train

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"tokitai/backend/amdemu"
	"tokitai/backend/cpu"
	"tokitai/backend/sim"
	"tokitai/data"
	"tokitai/device/gpu/gputest"
	"tokitai/engine"
	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
	"tokitai/model"
)

// tiny returns settings of runs that take milliseconds.
func tiny() Settings {
	s := Default()
	s.Layers, s.Width, s.Heads, s.KVHeads, s.Hidden, s.Block = 1, 8, 2, 1, 8, 4
	s.Batch, s.Leaves, s.Steps, s.Warmup, s.Rate, s.MinRate, s.Dropout = 6, 3, 7, 2, 1e-2, 1e-3, 0.25
	s.CheckpointEvery, s.ValidateEvery, s.Keep = 2, 3, 2
	return s
}

// text is a corpus of 30 blocks of 4.
var text = sync.OnceValue(func() *data.Corpus { return data.New(data.Grammar(5, 120)) })

// bf16 returns the settings for training in 16 bits.
func bf16(s Settings) Settings {
	s.Storage = "bf16"
	return s
}

func newTrainer(t *testing.T, q *engine.Queue, c Config) *Trainer {
	t.Helper()
	tr, err := New(q, c, text())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr
}

func take(t *testing.T, tr *Trainer, n int) (last Result) {
	t.Helper()
	for range n {
		var err error
		if last, err = tr.Step(); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

func queueWith(t *testing.T, workers int) *engine.Queue {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Workers: workers})
	if err != nil {
		t.Fatal(err)
	}
	q, err := engine.OpenQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}

// fiveSteps is what five steps of tiny end with, whatever computes them: the digests of the weights, the bits of
// the loss. Settings that are added to configurations do not change it, as they would the chain.
const fiveSteps = "f7b4eb4d5231aaf4 40aac310"

func resultOf(r Result) string {
	return fmt.Sprintf("%s %08x", r.Weights[:16], math.Float32bits(r.Loss))
}

// TestDevices: a run has one chain, whatever computes it.
func TestDevices(t *testing.T) {
	t.Parallel()
	want := take(t, newTrainer(t, cpu.Queue(), tiny().Config), 5)
	if got := resultOf(want); got != fiveSteps {
		t.Errorf("five steps end with %s, want %s as on every machine", got, fiveSteps)
	}
	for _, workers := range []int{1, 3} {
		if got := take(t, newTrainer(t, queueWith(t, workers), tiny().Config), 5); got != want {
			t.Errorf("%d workers: %+v, want %+v", workers, got, want)
		}
	}
	for _, s := range []Settings{tiny(), bf16(tiny())} {
		want = take(t, newTrainer(t, cpu.Queue(), s.Config), 1)
		reference := cpu.Queue().With(engine.WithLowering("cpu.reference"))
		if got := take(t, newTrainer(t, reference, s.Config), 1); got != want {
			t.Errorf("precision %s, by the reference: %+v, want %+v", s.Storage, got, want)
		}
	}
}

// TestSimulator: simulated GPUs give the chain of the CPU.
func TestSimulator(t *testing.T) {
	t.Parallel()
	tool.Need(t, "g++")
	for _, id := range testlevel.Pick([]string{""}, []string{"", "64"}) {
		dev, err := sim.Backend.Open(id)
		if err != nil {
			t.Fatal(err)
		}
		list := []Settings{tiny()}
		if testlevel.Current() >= testlevel.Quick {
			tensorCores := bf16(tiny())
			tensorCores.Sums = "mma(16,25)"
			list = append(list, bf16(tiny()), tensorCores)
		}
		sameSteps(t, dev, testlevel.Pick(1, 5), list...)
	}
}

// TestEmulator: emulated GPUs of AMD give the chain of the CPU.
func TestEmulator(t *testing.T) {
	t.Parallel()
	testlevel.Need(t, testlevel.Quick, "it compiles and emulates every kernel of a step")
	for _, architecture := range []string{"gfx1100", "gfx942"} {
		sameSteps(t, amdemu.New(gputest.NeedsAMDEmulator(t, architecture)), 5, tiny(), bf16(tiny()))
	}
}

// sameSteps takes steps on a device and on the CPU.
func sameSteps(t *testing.T, dev engine.Device, n int, list ...Settings) {
	t.Helper()
	q, err := engine.OpenQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	for _, s := range list {
		s.Leaves, s.Batch = 2, 2
		got, want := take(t, newTrainer(t, q, s.Config), n), take(t, newTrainer(t, cpu.Queue(), s.Config), n)
		if got != want {
			t.Errorf("%s, precision %s %s: got %+v, want %+v", dev.Name(), s.Storage, s.Sums, got, want)
		}
	}
}

// TestRouting: in each step every token goes to its experts, and the entropy is between none and that of even
// chances.
func TestRouting(t *testing.T) {
	t.Parallel()
	s := tiny()
	s.Layers, s.Mixture = 2, model.Mixture{Experts: 4, PerToken: 2, Hidden: 8}
	tr := newTrainer(t, cpu.Queue(), s.Config)
	for range 2 {
		take(t, tr, 1)
		if len(tr.Routing()) != 2 {
			t.Fatalf("%d routers, want 2", len(tr.Routing()))
		}
		for _, r := range tr.Routing() {
			sum := int64(0)
			for _, n := range r.Tokens {
				sum += n
			}
			// Weights of 0.02 leave the softmax nearly even.
			if want := int64(2 * s.Batch * s.Block); sum != want || len(r.Tokens) != 4 || r.Entropy > math.Log(4) || r.Entropy < math.Log(3) {
				t.Errorf("%s: %d tokens in all, want %d; %+v", r.Name, sum, want, r)
			}
		}
	}
	last := tr.network.Routers[1]
	logits, err := tr.levels[0].leaf.Tensor(last.Counts).Int32s()
	if err != nil || len(logits) != 4 {
		t.Errorf("counts %v, %v", logits, err)
	}
	if newTrainer(t, cpu.Queue(), tiny().Config).Routing() != nil {
		t.Error("a decoder without experts has routers")
	}
}

// TestLeaves: the gradients of a step are the adjacent binary tree over those of its leaves.
func TestLeaves(t *testing.T) {
	t.Parallel()
	add := func(a, b []float32) []float32 {
		sum := make([]float32, len(a))
		for i := range a {
			sum[i] = a[i] + b[i]
		}
		return sum
	}
	for leaves, tree := range map[int]func(g [][]float32) []float32{
		1: func(g [][]float32) []float32 { return g[0] },
		2: func(g [][]float32) []float32 { return add(g[0], g[1]) },
		3: func(g [][]float32) []float32 { return add(add(g[0], g[1]), g[2]) },
		7: func(g [][]float32) []float32 {
			return add(add(add(g[0], g[1]), add(g[2], g[3])), add(add(g[4], g[5]), g[6]))
		},
	} {
		s := tiny()
		s.Leaves, s.Batch = leaves, leaves
		tr := newTrainer(t, cpu.Queue(), s.Config)
		at := slices.Index(tr.names, "model.layers.0.mlp.up_proj.weight")
		read := func() []float32 {
			if err := tr.queue.Wait(); err != nil {
				t.Fatal(err)
			}
			v, err := tr.levels[0].grads[at].Float32s()
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		var each [][]float32
		for leaf := range leaves {
			if err := tr.leaf(1, leaf, 0); err != nil {
				t.Fatal(err)
			}
			each = append(each, read())
		}
		if _, _, _, err := tr.gradients(1); err != nil {
			t.Fatal(err)
		}
		if got, want := read(), tree(each); !slices.Equal(got, want) {
			t.Errorf("%d leaves: gradient %v, want %v", leaves, got, want)
		}
	}
}

// TestDecay: weight decay changes matrices, and no vector.
func TestDecay(t *testing.T) {
	t.Parallel()
	var weights [2][][]float32
	tr := [2]*Trainer{}
	for i, decay := range []float64{0, 0.5} {
		s := tiny()
		s.Decay = decay
		tr[i] = newTrainer(t, cpu.Queue(), s.Config)
		take(t, tr[i], 1)
		for _, w := range tr[i].weights {
			v, err := w.Float32s()
			if err != nil {
				t.Fatal(err)
			}
			weights[i] = append(weights[i], v)
		}
	}
	for i, name := range tr[0].names {
		if isMatrix := tr[0].weights[i].Rank() > 1; slices.Equal(weights[0][i], weights[1][i]) == isMatrix {
			t.Errorf("%s: the same with and without decay: %v, want %v", name, isMatrix, !isMatrix)
		}
	}
}

// TestClip: gradients whose norm is below the limit keep their bits, and others are scaled down.
func TestClip(t *testing.T) {
	t.Parallel()
	s := tiny()
	s.Clip = 0
	free := take(t, newTrainer(t, cpu.Queue(), s.Config), 1)
	s.Clip = float64(2 * free.Norm)
	if far := take(t, newTrainer(t, cpu.Queue(), s.Config), 1); far.Weights != free.Weights || far.Norm != free.Norm {
		t.Error("a limit that is not reached changes the weights")
	}
	s.Clip = float64(free.Norm / 1024)
	s.AdamEps = 1e-3 // so that the size of gradients matters
	small := take(t, newTrainer(t, cpu.Queue(), s.Config), 1)
	s.Clip = 0
	if large := take(t, newTrainer(t, cpu.Queue(), s.Config), 1); small.Norm != large.Norm || small.Weights == large.Weights {
		t.Error("a limit that is exceeded does not change the weights, or changes the norm that is reported")
	}
}

// TestNotFinite: a step that would not be finite is not taken, and names the first tensor that is not.
func TestNotFinite(t *testing.T) {
	t.Parallel()
	tr := newTrainer(t, cpu.Queue(), tiny().Config)
	take(t, tr, 1)
	i := slices.Index(tr.names, "model.layers.0.mlp.down_proj.weight")
	values, err := tr.weights[i].Float32s()
	if err != nil {
		t.Fatal(err)
	}
	values[3] = float32(math.Inf(1))
	if err := tr.weights[i].SetFloat32s(values); err != nil {
		t.Fatal(err)
	}
	before, chain := state(t, tr), tr.Chain()
	_, err = tr.Step()
	e, ok := errors.AsType[*NotFiniteError](err)
	if !ok || e.Step != 2 || e.Tensor != "model.layers.0.mlp.down_proj.weight" {
		t.Errorf("error %v, want one that names the weight", err)
	}
	if state(t, tr) != before || tr.Chain() != chain || tr.Steps() != 1 {
		t.Error("a step that was not taken has changed the state")
	}
}

func state(t *testing.T, tr *Trainer) string {
	t.Helper()
	f, err := tr.checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	return stateDigest(f.Entries)
}

// TestGrammar trains on the grammar until the loss is near its entropy, of which a model without attention
// would stay 1.5 nats away. The loss on n labels lies below the entropy by chance, if at all: label by label
// the model's loss exceeds -log p of the language on average, and these are from ln 2 to ln 16, so
// that by Hoeffding's inequality their mean is lower than expected by d with a probability of at most
// exp(-2n(d/(ln 16 - ln 2))^2).
func TestGrammar(t *testing.T) {
	t.Parallel()
	for _, precision := range []string{"", "bf16"} {
		t.Run(cmp.Or(precision, "f32"), func(t *testing.T) {
			t.Parallel()
			testGrammar(t, precision)
		})
	}
}

func testGrammar(t *testing.T, precision string) {
	s, letters, near := tiny(), 60_000, 0.25
	s.Width, s.Heads, s.KVHeads, s.Hidden, s.Block, s.Dropout = 32, 2, 2, 32, 32, 0
	s.Batch, s.Leaves, s.Steps, s.Warmup, s.Rate, s.MinRate = 8, 2, 250, 20, 3e-2, 3e-4
	if testlevel.Current() >= testlevel.Quick {
		letters, near = 600_000, 0.02
		s.Layers, s.Hidden, s.Block, s.Leaves, s.Steps, s.Warmup, s.Rate, s.MinRate, s.Decay = 2, 64, 64, 1, 1500, 50, 1.2e-2, 0, 0.01
	}
	s.Storage = precision
	tr, err := New(cpu.Queue(), s.Config, data.New(data.Grammar(0, letters)))
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	take(t, tr, s.Steps)
	e, err := tr.NewEvaluator()
	if err != nil {
		t.Fatal(err)
	}
	loss, err := e.Validate(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, validation := tr.Examples()
	floor := data.GrammarLoss(s.Block)
	below := 3 * math.Ln2 * math.Sqrt(math.Log(1e9)/(2*float64(validation*s.Block)))
	t.Logf("loss %v, entropy %v", loss, floor)
	if loss > floor+near || loss < floor-below {
		t.Errorf("loss %v, want one from %v to %v: the entropy is %v", loss, floor-below, floor+near, floor)
	}
}

// TestEvaluatorCalls: evaluation runs the forward calls of training, without dropout.
func TestEvaluatorCalls(t *testing.T) {
	t.Parallel()
	for _, dropout := range []float64{0, 0.5} {
		s := tiny()
		s.Dropout = dropout
		tr := newTrainer(t, cpu.Queue(), s.Config)
		e, err := tr.NewEvaluator()
		if err != nil {
			t.Fatal(err)
		}
		names := func(calls []*model.Call) (list []string) {
			for _, c := range calls {
				if name := c.Definition.Name; c.Name != "embed.drop" && !strings.HasSuffix(c.Name, ".drop") {
					list = append(list, fmt.Sprint(c.Name, " ", name, " ", c.Params))
				}
				if c.Name == model.Loss {
					break
				}
			}
			return list
		}
		got, want := names(e.network.Program.Calls), names(tr.network.Program.Calls)
		if !slices.Equal(got, want) || len(got) != len(e.network.Program.Calls) {
			t.Errorf("dropout %v: evaluation has the calls %v, training %v", dropout, got, want)
		}
	}
}
