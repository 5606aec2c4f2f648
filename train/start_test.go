package train

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/model"
	"tokitai/model/huggingface"
)

// TestStart begins a run with the weights of another one and of a folder of transformers. It is resumed and
// computed again when these are gone, and its chain is that of no other run.
func TestStart(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "base")
	if _, err := do(osDisk{}, base, tiny(), 0); err != nil {
		t.Fatal(err)
	}
	last := newTrainer(t, cpu.Queue(), tiny().Config)
	list, err := Checkpoints(base)
	if err != nil {
		t.Fatal(err)
	}
	if err := last.restore(list[len(list)-1].Path); err != nil {
		t.Fatal(err)
	}
	_, weights, err := ReadWeights(list[len(list)-1].Path)
	if err != nil {
		t.Fatal(err)
	}
	digest := stateDigest(weights)
	folder := filepath.Join(t.TempDir(), "folder")
	c := tiny().Config.Config
	c.Dropout = 0
	err = huggingface.Write(folder, c, func(w *model.Value) ([]byte, error) {
		for i, name := range last.names {
			if name == w.Name {
				return last.weights[i].Bytes()
			}
		}
		return nil, os.ErrNotExist
	}, huggingface.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	chains := map[Entry]bool{}
	for _, path := range []string{base, folder} {
		s, run := tiny(), t.TempDir()
		s.Start, s.Rate, s.Keep = path, 2e-3, 1
		if _, err := do(osDisk{}, run, s, 3); err == nil {
			t.Fatal("not interrupted")
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		chain, err := do(osDisk{}, run, s, 0)
		if err != nil {
			t.Fatal(err)
		}
		chains[chain] = true
		if _, err := Replay(t.Context(), cpu.Queue(), run, 0, 7, text(), nil); err != nil {
			t.Error(err)
		}
		_, begun, err := ReadWeights(filepath.Join(run, checkpointFolder, checkpointName(0)))
		if got := stateDigest(begun); err != nil || got != digest {
			t.Errorf("%s: the run has begun with weights of the digest %s, want %s; %v", path, got, digest, err)
		}
	}
	if len(chains) != 1 {
		t.Errorf("the same weights from a run and from a folder give %d chains", len(chains))
	}
	s := tiny()
	if err := os.MkdirAll(base, 0o777); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{base: "neither a run nor a folder", filepath.Join(base, "none"): "no such file"} {
		s.Start = path
		if _, err := do(osDisk{}, t.TempDir(), s, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", path, err, want)
		}
	}
}

// TestStartErrors: weights that do not fit the settings are refused by name.
func TestStartErrors(t *testing.T) {
	t.Parallel()
	tr := newTrainer(t, cpu.Queue(), tiny().Config)
	good := func() *Start {
		s := &Start{weights: map[string]startWeight{}}
		for i, name := range tr.names {
			values, err := tr.weights[i].Float32s()
			if err != nil {
				t.Fatal(err)
			}
			s.weights[name] = startWeight{tr.weights[i].Shape(), values}
		}
		return s
	}
	const name = "model.norm.weight"
	for want, change := range map[string]func(s *Start){
		"weights and biases of routers, and the network": func(s *Start) { delete(s.weights, name) },
		"no weight " + name: func(s *Start) {
			s.weights["other"] = s.weights[name]
			delete(s.weights, name)
		},
		name + " is [8 1], and by the settings [8]": func(s *Start) { s.weights[name] = startWeight{[]int{8, 1}, s.weights[name].values} },
	} {
		s := good()
		change(s)
		if err := tr.Start(s, "path"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	before := tr.chain
	if err := tr.Start(good(), "path"); err != nil || tr.chain != before {
		t.Errorf("its own initial weights give another genesis; %v", err)
	}
}
