package train

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/model"
	"tokitai/model/tkp1"
)

// TestExport: what a folder has that Export wrote are the weights of the checkpoint, and a TKP1 file has the moments too.
func TestExport(t *testing.T) {
	t.Parallel()
	s, table := tinyFeatures()
	decoder := bf16(tiny())
	decoder.Steps = s.Steps
	for name, run := range map[string]struct {
		s Settings
		d Data
	}{"features": {s, table}, "decoder": {decoder, text()}} {
		folder, to := t.TempDir(), filepath.Join(t.TempDir(), "exported")
		r, err := Open(cpu.Queue(), folder, run.s, run.d, "", "")
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Train(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := Export(folder, to, false); err != nil {
			t.Fatal(err)
		}
		want, err := ReadStart(cpu.Queue().Device(), folder)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadStart(cpu.Queue().Device(), to)
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range r.trainer.names { // in 16 bits a folder has what the network reads
			values, err := r.trainer.working[i].Float32s()
			if err != nil {
				t.Fatal(err)
			}
			want.weights[name] = startWeight{want.weights[name].shape, slices.Clone(values)}
		}
		if !reflect.DeepEqual(got.weights, want.weights) || got.Features != want.Features {
			t.Errorf("%s: the folder has other weights: %v, want %v", name, slices.Sorted(maps.Keys(got.weights)), slices.Sorted(maps.Keys(want.weights)))
		}
		if name == "features" {
			compareMoments(t, r.trainer, filepath.Join(to, NetworkFile))
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// compareMoments holds m, v and step of a TKP1 file to those of a trainer.
func compareMoments(t *testing.T, tr *Trainer, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := tkp1.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.Index(tr.names, "router.bias")
	m, _ := tr.m[i].Float32s()
	v, _ := tr.v[i].Float32s()
	if p := f.Parameters[1]; p.Name != "router.param_1" || !slices.Equal(p.M, m) || !slices.Equal(p.V, v) || int(p.Step) != tr.Steps() || int(f.Step) != tr.Steps() {
		t.Errorf("step %d, %+v, want m %v and v %v of step %d", f.Step, p, m, v, tr.Steps())
	}
}

// TestExportRefuses: what the other program would not read is named.
func TestExportRefuses(t *testing.T) {
	t.Parallel()
	s := tiny()
	s.Mixture = model.Mixture{Experts: 4, PerToken: 2, Hidden: 4, IsNormalised: true, Balance: 0.1}
	s.HeadNorm, s.Steps, s.Dropout = "each", 1, 0
	s.Warmup = 0
	folder, to := t.TempDir(), filepath.Join(t.TempDir(), "exported")
	r, err := Open(cpu.Queue(), folder, s, text(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := Export(folder, to, false); err == nil || !strings.Contains(err.Error(), "has no checkpoint yet") {
		t.Errorf("a run before its first step: error %v", err)
	}
	if err := r.Train(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := Export(folder, to, false); err == nil || !strings.Contains(err.Error(), "model.layers.0.mlp.gate.e_score_correction_bias") {
		t.Errorf("biases of routers: error %v", err)
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("a folder was written all the same")
	}
	if err := Export(folder, to, true); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadStart(cpu.Queue().Device(), to); err != nil || got.weights["model.layers.0.mlp.gate.e_score_correction_bias"].values == nil {
		t.Errorf("the folder has no biases; error %v", err)
	}
}
