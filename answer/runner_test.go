package answer

import (
	"errors"
	"testing"

	"tokitai/backend/cuda"
	"tokitai/device"
	"tokitai/device/gpu"
	"tokitai/device/gpu/driver"
	"tokitai/device/gpu/gputest"
	"tokitai/engine"
	"tokitai/model"
	"tokitai/num"
	"tokitai/tensor"
)

// traffic counts what is asked of a GPU's driver.
type traffic struct {
	in, out, launches, graphs int
	fault                     error // of every launch
}

// countingQueue is a queue on a GPU that does nothing but count.
func countingQueue(t testing.TB) (*engine.Queue, *traffic) {
	t.Helper()
	table, n := gputest.NoOp(), new(traffic)
	copyIn, copyOut, launchGraph := table.CopyIn, table.CopyOut, table.LaunchGraph
	table.CopyIn = func(dst driver.Pointer, src []byte, s driver.Stream) error { n.in++; return copyIn(dst, src, s) }
	table.CopyOut = func(dst []byte, src driver.Pointer, s driver.Stream) error { n.out++; return copyOut(dst, src, s) }
	table.LaunchGraph = func(g driver.Graph, s driver.Stream) error {
		if n.graphs++; n.fault != nil {
			return n.fault
		}
		return launchGraph(g, s)
	}
	table.Launch = func(driver.Function, [3]uint32, [3]uint32, uint32, driver.Stream, []byte) error {
		n.launches++
		return nil
	}
	dev, err := gpu.Open(table, 0, gpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	q, err := engine.NewQueue(cuda.New(dev), engine.WithAdmission(engine.Off)) // there are no answers to be right
	if err != nil {
		t.Fatal(err)
	}
	return q, n
}

// countedModel is a model whose weights are not set.
func countedModel(t testing.TB, q *engine.Queue, c model.Config) *Model {
	t.Helper()
	p, err := model.NewInference(c, model.InferenceShape{Tokens: 1, Sequences: 1, Rows: 1, Pages: 1, PageSize: 16, PerSequence: 1})
	if err != nil {
		t.Fatal(err)
	}
	weights := map[string]*tensor.Tensor{}
	for _, w := range p.Program.Of(model.Weight) {
		if weights[w.Name], err = tensor.New(q.Device(), w.DType, w.Shape...); err != nil {
			t.Fatal(err)
		}
	}
	return &Model{Config: c, Weights: weights, Vocabulary: Bytes{}, Identity: Identity{Rule: "fma"}}
}

// countedRunner is a runner of a decoder whose weights are not set.
func countedRunner(t testing.TB, c model.Config, shape model.InferenceShape) (*runner, *traffic) {
	t.Helper()
	q, n := countingQueue(t)
	r, err := newRunner(q, countedModel(t, q, c), shape)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.close() })
	return r, n
}

// onGPU is a decoder in bf16.
var onGPU = model.Config{
	Vocabulary: 300, Block: 64, Layers: 2, Width: 32, Heads: 4, KVHeads: 2, Hidden: 48,
	Norm: "rms", Positions: "rope", FeedForward: "swiglu", RopeBase: 10000, Eps: 1e-5, Storage: num.BF16.String(),
}

// TestLost: a fault of the device ends the answers that are under way with an error that says so, and the engine
// tells it.
func TestLost(t *testing.T) {
	q, n := countingQueue(t)
	e, err := NewEngine(q, countedModel(t, q, onGPU), DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	n.fault = &device.LostError{Device: "gpu"}
	for range 2 { // the second finds the device lost
		a, err := e.Start(t.Context(), Request{Prompt: []int32{1}, Sampling: DefaultSampling, Most: 2})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := a.Next(); !errors.Is(err, device.ErrLost) {
			t.Errorf("the answer ends with %v, want %v", err, device.ErrLost)
		}
		<-e.Lost()
	}
	e.Close()
}

// TestTraffic: a step on a GPU is one copy in, one launch and one copy out, besides the words by which kernels refuse
// indices, whatever it computes.
func TestTraffic(t *testing.T) {
	r, n := countedRunner(t, onGPU, model.InferenceShape{Tokens: 32, Sequences: 4, Rows: 8, Pages: 8, PageSize: 16, PerSequence: 4})
	sampling := [2]Sampling{DefaultSampling, DefaultSampling}
	sampling[1].Seed, sampling[1].TopK = 7, 40
	for name, s := range map[string]*step{
		"prompt":  {tokens: []int32{1, 2, 3}, positions: []int32{0, 1, 2}, slots: []int32{0, 1, 2}, starts: []int32{0}, lengths: []int32{3}, pages: [][]int32{{0}}},
		"largest": {tokens: []int32{1}, positions: []int32{3}, slots: []int32{3}, starts: []int32{0}, lengths: []int32{4}, pages: [][]int32{{0}}, rows: []int32{0}, draws: []draw{{}}},
		"drawn": {
			tokens: []int32{1, 2, 3}, positions: []int32{3, 5, 9}, slots: []int32{3, 21, 41}, starts: []int32{0, 1, 2}, lengths: []int32{4, 6, 10}, pages: [][]int32{{0}, {1}, {2}},
			rows: []int32{0, 1, 2}, draws: []draw{{&sampling[0], 0, 4}, {&sampling[1], 1, 6}, {}},
		},
	} {
		for range 2 { // the first records
			*n = traffic{}
			if got, err := r.run(s); err != nil || len(got) != len(s.rows) {
				t.Fatal(name, len(got), err)
			}
		}
		want := traffic{in: 1, out: 2, graphs: 1}
		if len(s.rows) == 0 {
			want.out = 1
		}
		if *n != want {
			t.Errorf("%s: %+v, want %+v", name, *n, want)
		}
	}
}
