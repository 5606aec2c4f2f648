package train

import (
	"context"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/backend/sim"
	"tokitai/data"
	"tokitai/engine"
	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
	"tokitai/model"
)

// tinyFeatures returns settings of runs of a network of features that take milliseconds, and rows for it.
func tinyFeatures() (Settings, *data.Table) {
	s := DefaultFeatures()
	s.Features = model.Features{Inputs: data.SyntheticInputs, Outputs: data.SyntheticOutputs, Hidden: 8, Layers: 1, Experts: 3, PerRow: 2}
	s.Batch, s.Leaves, s.Steps, s.Warmup, s.Rate, s.MinRate = 6, 3, 7, 2, 1e-2, 1e-3
	s.CheckpointEvery, s.ValidateEvery, s.Keep = 2, 3, 2
	return s, data.Synthetic(1, 45)
}

// runFeatures trains in a folder, up to some step.
func runFeatures(t *testing.T, folder string, s Settings, table *data.Table, upTo int) {
	t.Helper()
	r, err := Open(cpu.Queue(), folder, s, table, "synthetic:45", "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err = r.Train(ctx, func(l Line) {
		if l.Step == upTo && upTo < s.Steps {
			stop()
		}
	})
	if closed := r.Close(); err != nil && upTo == s.Steps || closed != nil {
		t.Fatal(err, closed)
	}
}

// TestFeatures: a run that was stopped has the chain of one that was not, on any number of workers and by the interpreter;
// it can be computed again, compared and begun from; and its loss falls.
func TestFeatures(t *testing.T) {
	t.Parallel()
	s, table := tinyFeatures()
	whole, cut, dense := t.TempDir(), t.TempDir(), s
	runFeatures(t, whole, s, table, s.Steps)
	runFeatures(t, cut, s, table, 3)
	runFeatures(t, cut, s, table, s.Steps)
	d, err := Diff(t.Context(), cpu.Queue(), [2]string{whole, cut}, [2]Data{table, table})
	if err != nil || d.Same != s.Steps || d.Step != 0 {
		t.Errorf("resumed: %+v, error %v", d, err)
	}
	if _, err := Replay(t.Context(), cpu.Queue(), whole, 4, 3, table, nil); err != nil {
		t.Error(err)
	}
	dense.Features = model.Features{Inputs: s.Features.Inputs, Outputs: s.Features.Outputs, Hidden: 8, Layers: 2, Width: 4}
	for _, s := range []Settings{s, dense} {
		want := take(t, trainerOf(t, cpu.Queue(), s, table), 1)
		for _, q := range []*engine.Queue{queueWith(t, 1), cpu.Queue().With(engine.WithLowering("cpu.reference"))} {
			if got := take(t, trainerOf(t, q, s, table), 1); got != want {
				t.Errorf("%s: %+v, want %+v", q.Device().Name(), got, want)
			}
		}
	}
	tr, err := Load(cpu.Queue(), whole, table)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	e, err := tr.NewEvaluator()
	if err != nil {
		t.Fatal(err)
	}
	loss, rows, err := e.Loss(table, nil)
	if err != nil || rows != table.Len() {
		t.Errorf("loss of %d rows, error %v, want %d", rows, err, table.Len())
	}
	first, _, err := evaluatorOf(t, trainerOf(t, cpu.Queue(), s, table)).Loss(table, nil)
	if err != nil || !(loss < first) {
		t.Errorf("the loss is %v before the first step and %v after the last, error %v", first, loss, err)
	}
	start, err := ReadStart(cpu.Queue().Device(), whole)
	if err != nil || start.Settings().Features != s.Features {
		t.Fatalf("the run has the network %+v, error %v", start, err)
	}
	further := trainerOf(t, cpu.Queue(), s, table)
	if err := further.Start(start, whole); err != nil {
		t.Fatal(err)
	}
	if again, _, err := evaluatorOf(t, further).Loss(table, nil); err != nil || again != loss {
		t.Errorf("begun with the weights of the run: loss %v, want %v; %v", again, loss, err)
	}
}

func trainerOf(t *testing.T, q *engine.Queue, s Settings, d Data) *Trainer {
	t.Helper()
	tr, err := New(q, s.Config, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr
}

func evaluatorOf(t *testing.T, tr *Trainer) *Evaluator {
	t.Helper()
	e, err := tr.NewEvaluator()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestFeaturesInSimulator: a simulated GPU gives the chain of the CPU.
func TestFeaturesInSimulator(t *testing.T) {
	t.Parallel()
	testlevel.Need(t, testlevel.Quick, "it compiles every kernel of a step")
	tool.Need(t, "g++")
	dev, err := sim.Backend.Open("")
	if err != nil {
		t.Fatal(err)
	}
	q, err := engine.OpenQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	s, table := tinyFeatures()
	s.Batch, s.Leaves = 2, 2
	if got, want := take(t, trainerOf(t, q, s, table), 2), take(t, trainerOf(t, cpu.Queue(), s, table), 2); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestPaddingOfRows: validation takes as many rows at once as a leaf has; what fills the last leaf adds 0 to the sum.
func TestPaddingOfRows(t *testing.T) {
	t.Parallel()
	s, table := tinyFeatures() // four rows for validation
	var losses []float64
	for _, rows := range []int{4, 6} {
		s.Batch, s.Leaves = rows, 1
		loss, n, err := evaluatorOf(t, trainerOf(t, cpu.Queue(), s, table)).Loss(nil, nil)
		if err != nil || n != 4 {
			t.Fatalf("%d rows, error %v, want 4", n, err)
		}
		losses = append(losses, loss)
	}
	if losses[0] != losses[1] {
		t.Errorf("with two rows of padding the loss is %v, without %v", losses[1], losses[0])
	}
}

// TestFeatureErrors: data that do not fit, and settings of decoders.
func TestFeatureErrors(t *testing.T) {
	t.Parallel()
	s, table := tinyFeatures()
	for want, change := range map[string]func(s *Settings) Data{
		"the data have 96 features and 20 targets in a row, and features in the settings 95 inputs": func(s *Settings) Data { s.Features.Inputs = 95; return table },
		"the data have 9 rows, want at least 10":                                                    func(*Settings) Data { return data.Synthetic(1, 9) },
		"the data are a *data.Corpus: a network of features learns from rows":                       func(*Settings) Data { return text() },
		"the data are a *data.Table":                                                                func(s *Settings) Data { *s = tiny(); return table },
	} {
		c := s
		d := change(&c)
		if _, err := New(cpu.Queue(), c.Config, d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for setting, want := range map[string]string{
		"heads=2": "heads is 2, not 0: it is for decoders", "precision=bf16": "precision is bf16, not : it is for decoders", "dropout=0.5": "dropout is 0.5",
		"tokenizer=bytes": "a network of features has neither tokens", "sample_every=1": "neither tokens nor samples", "batch=32768": "a leaf of 32768 tokens or rows is longer",
	} {
		c := s
		c.Leaves = 1
		err := c.Set(setting)
		if err == nil {
			err = c.Check()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", setting, err, want)
		}
	}
}

// TestAncestorTrainer2_EvaluationSeesNewNorms: the ancestor kept a copy of gamma and beta that it never refreshed.
func TestAncestorTrainer2_EvaluationSeesNewNorms(t *testing.T) {
	t.Parallel()
	s, table := tinyFeatures()
	s.Rates = "experts=0,router=0,norms=1" // nothing else changes
	tr := trainerOf(t, cpu.Queue(), s, table)
	e := evaluatorOf(t, tr)
	before, _, err := e.Loss(table, nil)
	if err != nil {
		t.Fatal(err)
	}
	take(t, tr, 2)
	after, _, err := e.Loss(table, nil)
	if err != nil {
		t.Fatal(err)
	}
	anew, _, err := evaluatorOf(t, tr).Loss(table, nil)
	if after == before || after != anew || err != nil {
		t.Errorf("the loss was %v; with other norms it is %v, and by a new evaluator %v, %v", before, after, anew, err)
	}
}

// TestAncestorTrainer3_NoSettingIsIgnored: the ancestor read model_kind and router_kind, and used neither.
func TestAncestorTrainer3_NoSettingIsIgnored(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"model_kind=dense", "router_kind=top2", `features={"router_kind":"top2"}`, `mixture={"kind":"top2"}`} {
		s, _ := tinyFeatures()
		if err := s.Set(setting); err == nil || !strings.Contains(err.Error(), "unknown ") {
			t.Errorf("%s: error %v", setting, err)
		}
	}
}

// TestAncestorTrainer4_DecayIsDecoupled: the ancestor added the decay to the gradient on the CPU, and not on a GPU. Moments do not
// see it, with either optimizer; TestFeaturesInSimulator compares the bits of a GPU.
func TestAncestorTrainer4_DecayIsDecoupled(t *testing.T) {
	t.Parallel()
	for _, optimizer := range []string{"adamw", "sgd"} {
		s, table := tinyFeatures()
		s.Optimizer, s.Decay = optimizer, 0
		without := trainerOf(t, cpu.Queue(), s, table)
		take(t, without, 1)
		s.Decay = 0.5
		with := trainerOf(t, cpu.Queue(), s, table)
		take(t, with, 1)
		for i, name := range with.names {
			for k, part := range with.parts(i) {
				got, err := part.tensor.Float32s()
				if err != nil {
					t.Fatal(err)
				}
				want, err := without.parts(i)[k].tensor.Float32s()
				if err != nil {
					t.Fatal(err)
				}
				if isSame := slices.Equal(got, want); isSame != (k > 0 || with.weights[i].Rank() == 1) {
					t.Errorf("%s: %s of %s is the same with decay: %v, want that of weights of matrices alone to change", optimizer, part.name, name, isSame)
				}
			}
		}
	}
}

// TestAncestorTrainer6_TheFirstStepHasARate: the ancestor's warm-up began with a step of rate 0.
func TestAncestorTrainer6_TheFirstStepHasARate(t *testing.T) {
	t.Parallel()
	c := DefaultFeatures().Config
	if got := []float64{c.RateAt(1), c.RateAt(5), c.RateAt(c.Steps)}; got[0] != c.Rate/5 || got[1] != c.Rate || got[2] != c.Rate/10 {
		t.Errorf("the rates of step 1, 5 and the last are %v, want a fifth of %v, all of it, and a tenth", got, c.Rate)
	}
}

// TestAncestorTrainer7_EpochsAreShuffled: the ancestor read its rows in one order, again and again.
func TestAncestorTrainer7_EpochsAreShuffled(t *testing.T) {
	t.Parallel()
	s, table := tinyFeatures()
	s.Batch, s.Leaves = 41, 1 // all rows for training
	tr := trainerOf(t, cpu.Queue(), s, table)
	var orders [][]int
	for step := range 2 {
		list := tr.leafExamples(step+1, 0)
		orders = append(orders, slices.Clone(list))
		slices.Sort(list)
		for i, row := range list {
			if row != i {
				t.Fatalf("epoch %d has not every row once: %v", step, list)
			}
		}
		if slices.Equal(orders[step], list) {
			t.Errorf("epoch %d has the rows in their order", step)
		}
	}
	if slices.Equal(orders[0], orders[1]) {
		t.Error("two epochs have one order")
	}
}
