package train

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/backend/sim"
	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
	"tokitai/model"
)

// balanced returns settings of a mixture in the second of two layers, whose experts are balanced by their biases.
func balanced(rate float64) Settings {
	s := tiny()
	s.Layers, s.Mixture = 2, model.Mixture{Experts: 4, PerToken: 2, Hidden: 8, Dense: model.NumbersOf(0), Balance: rate}
	return s
}

func valuesOf(t *testing.T, tr *Trainer, router int) []float32 {
	t.Helper()
	v, err := tr.biases.each[router].Float32s()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(v)
}

// TestBalanceStep: a step raises the biases of experts with fewer tokens than the mean by the rate, in binary32, and
// lowers those with more; the others stay.
func TestBalanceStep(t *testing.T) {
	t.Parallel()
	s := balanced(1e-3)
	s.Mixture.Dense = "" // two routers
	tr := newTrainer(t, cpu.Queue(), s.Config)
	want := [2][]float32{make([]float32, 4), make([]float32, 4)}
	moved := 0
	for range 6 {
		take(t, tr, 1)
		for i, r := range tr.Routing() {
			sum := int64(0)
			for _, n := range r.Tokens {
				sum += n
			}
			for e, n := range r.Tokens {
				switch {
				case 4*n < sum:
					want[i][e] += float32(1e-3)
					moved++
				case 4*n > sum:
					want[i][e] -= float32(1e-3)
				}
			}
			if got := valuesOf(t, tr, i); !slices.Equal(got, want[i]) {
				t.Errorf("step %d: biases of %s are %v, want %v", tr.Steps(), r.Name, got, want[i])
			}
		}
	}
	if moved == 0 {
		t.Error("the experts always had the same load")
	}
}

// TestBalanceGradients: biases of 0 choose as none do, and their rate is no part of the gradients: the first step has the
// same bits. Later ones choose other experts.
func TestBalanceGradients(t *testing.T) {
	t.Parallel()
	with, without := newTrainer(t, cpu.Queue(), balanced(0.5).Config), newTrainer(t, cpu.Queue(), balanced(0).Config)
	a, b := take(t, with, 1), take(t, without, 1)
	if a.Loss != b.Loss || a.Norm != b.Norm {
		t.Errorf("the first step: loss %v, norm %v with biases, %v and %v without", a.Loss, a.Norm, b.Loss, b.Norm)
	}
	for i, name := range with.names {
		for k, p := range with.parts(i) {
			x, err := p.tensor.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			y, err := without.parts(i)[k].tensor.Bytes()
			if err != nil || string(x) != string(y) {
				t.Errorf("%s: the first step gives other bits of %s with biases; %v", name, p.name, err)
			}
		}
	}
	if with.Chain() == without.Chain() {
		t.Error("the chains are the same with biases and without")
	}
	if a, b = take(t, with, 3), take(t, without, 3); a.Loss == b.Loss {
		t.Error("four steps later the biases, of 0.5 and more, have changed nothing")
	}
	if slices.ContainsFunc(with.names, func(name string) bool { return strings.HasSuffix(name, model.BiasSuffix) }) {
		t.Error("a bias is among the weights, which the optimizer changes")
	}
}

// TestBalanceEven: the load of experts, which a skewed router has made uneven, becomes even.
func TestBalanceEven(t *testing.T) {
	t.Parallel()
	uneven := func(rate float64) int64 {
		s := balanced(rate)
		s.Rate, s.MinRate, s.Dropout, s.Steps, s.Warmup = 0, 0, 0, 40, 0 // the router stays as it is
		tr := newTrainer(t, cpu.Queue(), s.Config)
		at := slices.Index(tr.names, "model.layers.1.mlp.gate.weight")
		gate, err := tr.weights[at].Float32s()
		if err != nil {
			t.Fatal(err)
		}
		gate = slices.Clone(gate)
		for i := range gate {
			gate[i] *= 40 // differences that a few steps of the rate make up for
		}
		if err := tr.weights[at].SetFloat32s(gate); err != nil {
			t.Fatal(err)
		}
		load := make([]int64, 4)
		for step := range s.Steps {
			take(t, tr, 1)
			for e, n := range tr.Routing()[0].Tokens {
				if step >= s.Steps/2 {
					load[e] += n
				}
			}
		}
		return slices.Max(load) - slices.Min(load)
	}
	// In the second half of 40 steps of 24 tokens each expert has 240, if the load is even.
	if with, without := uneven(0.02), uneven(0); without < 120 || with > 40 {
		t.Errorf("the busiest expert has %d tokens more than the idlest with biases, %d without, want at most 40, and at least 120", with, without)
	}
}

// TestBalanceRun: a run that is interrupted, resumed and computed again has the chain of one that is not, biases
// included, and another rate is a difference that diff finds where it begins to count.
func TestBalanceRun(t *testing.T) {
	t.Parallel()
	s, whole, folder := balanced(0.25), t.TempDir(), t.TempDir()
	want, err := do(osDisk{}, whole, s, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := do(osDisk{}, folder, s, 3); err == nil {
		t.Fatal("not interrupted")
	}
	if got, err := do(osDisk{}, folder, s, 0); err != nil || got != want {
		t.Errorf("resumed to the chain %v, want %v; %v", got, want, err)
	}
	if _, err := Replay(t.Context(), cpu.Queue(), folder, 4, 3, text(), nil); err != nil {
		t.Error(err)
	}
	if d, err := Diff(t.Context(), cpu.Queue(), [2]string{whole, folder}, [2]Data{text(), text()}); err != nil || d.Step != 0 || d.Same != s.Steps {
		t.Errorf("%+v, %v, want no difference", d, err)
	}
	other := t.TempDir()
	if _, err := do(osDisk{}, other, balanced(0.5), 0); err != nil {
		t.Fatal(err)
	}
	const bias = "model.layers.1.mlp.gate.e_score_correction_bias"
	d, err := Diff(t.Context(), cpu.Queue(), [2]string{whole, other}, [2]Data{text(), text()})
	if err != nil || d.Step != 1 || d.Tensor != bias || len(d.Settings) != 1 {
		t.Errorf("%+v, %v, want the biases to differ in step 1", d, err)
	}

	// A checkpoint has the biases, and a run that starts from it begins with them; one without begins with 0.
	tr, err := Load(cpu.Queue(), folder, text())
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	last := valuesOf(t, tr, 0)
	if slices.Max(last) == 0 {
		t.Error("the biases of the last checkpoint are 0")
	}
	for _, x := range []struct {
		from string
		rate float64
		want []float32
	}{{folder, 0.125, last}, {"", 0.125, make([]float32, 4)}} {
		s := balanced(x.rate)
		if s.Start = x.from; s.Start == "" {
			s.Start = filepath.Join(t.TempDir(), "run")
			if _, err := do(osDisk{}, s.Start, balanced(0), 0); err != nil {
				t.Fatal(err)
			}
		}
		started := newTrainer(t, cpu.Queue(), s.Config)
		start, err := ReadStart(cpu.Queue().Device(), s.Start)
		if err == nil {
			err = started.Start(start, s.Start)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := valuesOf(t, started, 0); !slices.Equal(got, x.want) {
			t.Errorf("starts with the biases %v, want %v", got, x.want)
		}
	}
	plain := newTrainer(t, cpu.Queue(), balanced(0).Config)
	start, err := ReadStart(cpu.Queue().Device(), folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := plain.Start(start, folder); err == nil || !strings.Contains(err.Error(), "biases of routers") {
		t.Errorf("a network without biases takes weights that were trained with them: error %v", err)
	}
}

// TestBalanceOthers: validation and samples choose experts by the biases, as the next step does, and a 16-bit run keeps
// them in binary32.
func TestBalanceOthers(t *testing.T) {
	t.Parallel()
	for _, s := range []Settings{balanced(0.5), bf16(balanced(0.5))} {
		tr := newTrainer(t, cpu.Queue(), s.Config)
		e, err := tr.NewEvaluator()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tr.NewSampler(1); err != nil {
			t.Error(err)
		}
		take(t, tr, 3)
		want, err := e.Validate(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.biases.all.SetFloat32s(make([]float32, tr.biases.all.Len())); err != nil {
			t.Fatal(err)
		}
		if got, err := e.Validate(nil); err != nil || got == want {
			t.Errorf("the loss is %v with biases and without; %v", got, err)
		}
	}
}

// TestBalanceSimulator: a simulated GPU gives the chain of the CPU.
func TestBalanceSimulator(t *testing.T) {
	t.Parallel()
	tool.Need(t, "g++")
	testlevel.Need(t, testlevel.Quick, "it compiles the kernels of a mixture")
	dev, err := sim.Backend.Open("")
	if err != nil {
		t.Fatal(err)
	}
	s := balanced(0.5)
	s.Layers, s.Mixture.Dense = 1, ""
	sameSteps(t, dev, 3, s)
}

func TestBalanceErrors(t *testing.T) {
	t.Parallel()
	s := balanced(math.Inf(1))
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "mixture.balance") {
		t.Errorf("an infinite rate: error %v", err)
	}
	s = balanced(0.5)
	s.Mixture.Experts, s.Mixture.PerToken, s.Block, s.Batch, s.Leaves = 4096, 4096, 1024, 1024, 1024
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "counted in 32 bits") {
		t.Errorf("more choices than 32 bits count: error %v", err)
	}
	one := Default()
	if err := one.Set(`mixture={"experts":8,"per_token":2,"hidden":64,"balance":0.001}`); err != nil || one.Mixture.Balance != 0.001 || one.Check() != nil {
		t.Errorf("the setting gives %+v; %v, %v", one.Mixture, err, one.Check())
	}
}
