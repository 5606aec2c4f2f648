package train

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/model"
	"tokitai/num"
)

// precise returns settings that train in 16 bits, with a mixture, by each optimizer, and either rule of sums.
func precise() map[string]Settings {
	list := map[string]Settings{}
	for optimizer, sums := range map[string]string{"adamw": "mma(16,25)", "sgd": ""} {
		s := bf16(tiny())
		s.Optimizer, s.Sums, s.Layers = optimizer, sums, 2
		s.Mixture, s.HeadNorm = model.Mixture{Experts: 4, PerToken: 2, Hidden: 8, Dense: model.NumbersOf(0)}, "each"
		list[optimizer] = s
	}
	return list
}

// TestPrecision trains in 16 bits: a run that is interrupted, resumed and computed again has the chain of one that
// is not; weights, moments and gradients are binary32, and what programs read are the weights, each rounded
// once. The rule of the sums changes the chain, and names itself in what it begins with.
func TestPrecision(t *testing.T) {
	t.Parallel()
	for name, s := range precise() {
		whole, folder := t.TempDir(), t.TempDir()
		want, err := do(osDisk{}, whole, s, 0)
		if err != nil {
			t.Fatal(err)
		}
		other := s
		other.Sums = map[string]string{"": "mma(16,25)"}[s.Sums]
		a, b := newTrainer(t, cpu.Queue(), s.Config), newTrainer(t, cpu.Queue(), other.Config)
		if resultOf(take(t, a, 3)) == resultOf(take(t, b, 3)) || a.Chain() == b.Chain() {
			t.Errorf("%s: the rule %q gives the bits of %q, or its chain", name, other.Sums, s.Sums)
		}
		if _, err := do(osDisk{}, folder, s, 3); err == nil {
			t.Fatal("not interrupted")
		}
		if got, err := do(osDisk{}, folder, s, 0); err != nil || got != want {
			t.Errorf("%s: resumed to the chain %v, want %v; %v", name, got, want, err)
		}
		if _, err := Replay(t.Context(), cpu.Queue(), folder, 4, 3, text(), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d, err := Diff(t.Context(), cpu.Queue(), [2]string{whole, folder}, [2]Data{text(), text()}); err != nil || d.Step != 0 || d.Same != s.Steps {
			t.Errorf("%s: %+v, %v, want no difference", name, d, err)
		}
		tr, err := Load(cpu.Queue(), folder, text())
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		checkCopies(t, tr, name+", restored")
		take(t, tr, 1)
		checkCopies(t, tr, name+", a step later")
		if rule := tr.Origin().Rule; rule != tr.config.Rule().String() || s.Sums != "" && rule != s.Sums {
			t.Errorf("%s: the chain begins with the rule %s", name, rule)
		}
		for i, name := range tr.names {
			for _, p := range append(tr.parts(i), part{name: "grad." + name, tensor: tr.sums[i]}) {
				if p.tensor.DType() != num.F32 {
					t.Errorf("%s is %v", p.name, p.tensor.DType())
				}
			}
		}
	}
}

// checkCopies holds what programs read to the weights, rounded here.
func checkCopies(t *testing.T, tr *Trainer, when string) {
	t.Helper()
	for i, w := range tr.weights {
		values, err := w.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		want := num.ArrayOf(num.BF16, 1, len(values), values...)
		got, err := tr.working[i].Bytes()
		if err != nil || !bytes.Equal(got, want.Data) {
			t.Errorf("%s: the copy of %s is not the weight, rounded; %v", when, tr.names[i], err)
		}
	}
}

// TestPrecisionOthers: all else that uses a run's weights takes those of 16 bits.
func TestPrecisionOthers(t *testing.T) {
	t.Parallel()
	s, folder := bf16(tiny()), t.TempDir()
	s.SampleEvery = 3
	if _, err := do(osDisk{}, folder, s, 0); err != nil {
		t.Fatal(err)
	}
	tr, err := Load(cpu.Queue(), folder, text())
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	lines, err := ReadMetrics(folder)
	if err != nil {
		t.Fatal(err)
	}
	e, err := tr.NewEvaluator()
	if err != nil {
		t.Fatal(err)
	}
	loss, err := e.Validate(nil)
	at := slices.IndexFunc(lines, func(l Line) bool { return l.Step == s.Steps && l.Validation != nil })
	if err != nil || at < 0 || loss != *lines[at].Validation {
		t.Errorf("evaluated to %v, %v, want what the run has", loss, err)
	}
	if _, _, list, err := tr.Diagnose(); err != nil || len(list) != len(tr.names) {
		t.Errorf("diagnosed %d weights, %v", len(list), err)
	}
	start, err := ReadStart(cpu.Queue().Device(), folder)
	if err != nil || start.Config.Format() != num.F32 {
		t.Fatalf("begins in %v, %v, want f32 unless a setting says otherwise", start.Config.Format(), err)
	}
	for _, s := range []Settings{tiny(), bf16(tiny())} {
		s.Start = folder
		run := filepath.Join(t.TempDir(), "run")
		if _, err := do(osDisk{}, run, s, 0); err != nil {
			t.Error(err)
		}
		if _, err := Replay(t.Context(), cpu.Queue(), run, 0, 3, text(), nil); err != nil {
			t.Error(err)
		}
	}
}

// TestPrecisionErrors: precisions and rules in which nothing is trained are refused by name, and so is a device
// that does not add up by the rule.
func TestPrecisionErrors(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ precision, sums, want string }{
		{"f16", "", "precision is f16, want f32 or bf16"}, {"fp8", "", `precision is "fp8"`}, {"bf16", "tree", "accumulation rule \"tree\""},
		{"", "mma(16,25)", "precision f32, want bf16"}, {"bf16", "mma(32,13,13)", "sums is"},
	} {
		s := Default()
		s.Storage, s.Sums = x.precision, x.sums
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("precision %q, sums %q: error %v, want one with %q", x.precision, x.sums, err, x.want)
		}
	}
	plain := Default()
	for _, one := range []string{"precision=f32", "sums=fma"} {
		if err := plain.Set(one); err != nil {
			t.Error(err)
		}
	}
	if list := plain.Differences(Default().Config); len(list) > 0 {
		t.Errorf("what is the default is a difference: %v", list)
	}
	s := bf16(tiny())
	s.Sums = "mma(5,20)"
	if _, err := New(cpu.Queue(), s.Config, text()); err == nil || !strings.Contains(err.Error(), "nothing here computes the rule mma(5,20)") {
		t.Errorf("a device without the rule: error %v", err)
	}
}
