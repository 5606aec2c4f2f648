package train

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"tokitai/device"
	"tokitai/model"
	"tokitai/model/huggingface"
	"tokitai/model/tkp1"
	"tokitai/num"
)

// Start is a network with its weights, from which a run can begin.
type Start struct {
	Config    model.Config   // in f32: in what precision the weights were trained or stored is not taken over
	Features  model.Features // of a network of features, whose Config is zero
	Tokenizer string         // path of the tokenizer.json that belongs to it, or ""

	weights map[string]startWeight
}

type startWeight struct {
	shape  []int
	values []float32
}

// Settings returns the default settings for such a network.
func (s *Start) Settings() Settings {
	base := Default()
	if s.Features != (model.Features{}) {
		base = DefaultFeatures()
	}
	base.Config.Config, base.Features = s.Config, s.Features
	base.Tokenizer = cmp.Or(s.Tokenizer, base.Tokenizer)
	return base
}

// ReadStart reads the newest checkpoint of a run, a checkpoint, a folder of transformers, or a TKP1 file. Weights of
// 16 bits become binary32, which has all their values.
func ReadStart(dev device.Device, path string) (*Start, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	s := &Start{weights: map[string]startWeight{}}
	switch {
	case isTKP1(path):
		return s, s.readTKP1(path)
	case !info.IsDir():
		return s, s.readCheckpoint(path)
	case isTKP1(filepath.Join(path, NetworkFile)):
		return s, s.readTKP1(filepath.Join(path, NetworkFile))
	}
	if file := filepath.Join(path, TokenizerFile); isFile(file) {
		s.Tokenizer = file
	}
	if !isFile(filepath.Join(path, headerKey)) {
		return s, s.readFolder(dev, path)
	}
	newest, err := checkpointAt(path)
	if err != nil {
		return nil, err
	}
	return s, s.readCheckpoint(newest)
}

// isTKP1 reports whether a file begins as TKP1 files do.
func isTKP1(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	begin := make([]byte, len(tkp1.Magic))
	_, err = io.ReadFull(f, begin)
	return err == nil && string(begin) == tkp1.Magic
}

// IsOfFeatures reports whether a path that ReadStart takes has a network of features.
func IsOfFeatures(path string) bool {
	if isTKP1(path) || isTKP1(filepath.Join(path, NetworkFile)) {
		return true
	}
	if isFile(path) {
		c, _, err := ReadWeights(path)
		return err == nil && c.HasFeatures()
	}
	d, err := ReadDescription(path)
	return err == nil && d.Settings.HasFeatures()
}

// readTKP1 reads a TKP1 file, and holds it to the arch.json beside it, if there is one. Moments are left: a run begins with those of
// its own first step.
func (s *Start) readTKP1(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f, err := tkp1.Parse(text)
	if err != nil {
		return badInput("%s: %w", path, err)
	}
	beside := filepath.Join(filepath.Dir(path), tkp1.ArchitectureFile)
	if text, err := os.ReadFile(beside); err == nil {
		if err := f.CheckArchitecture(text); err != nil {
			return badInput("%s: %w", beside, err)
		}
	}
	if s.Features, err = f.Features(); err != nil {
		return badInput("%s: %w", path, err)
	}
	weights, err := f.Weights()
	if err != nil {
		return badInput("%s: %w", path, err)
	}
	n, err := model.NewFeatures(s.Features, 1, false)
	if err != nil {
		return err
	}
	for _, w := range n.Program.Of(model.Weight) {
		s.weights[w.Name] = startWeight{w.Shape, weights[w.Name]}
	}
	return nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func (s *Start) readCheckpoint(path string) error {
	c, entries, err := ReadWeights(path)
	if err != nil {
		return err
	}
	c.Storage = ""
	s.Config, s.Features = c.Config, c.Features
	for _, e := range entries {
		a := num.Array{Data: e.Data, DType: e.DType, Rows: 1, Cols: len(e.Data) / e.DType.Size()}
		s.weights[e.Name] = startWeight{e.Shape, floats(&a)}
	}
	return nil
}

func floats(a *num.Array) []float32 {
	list := make([]float32, a.Cols)
	for i := range list {
		list[i] = a.At(0, i)
	}
	return list
}

func (s *Start) readFolder(dev device.Device, path string) error {
	f, err := huggingface.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return badInput("%s: neither a run nor a folder of transformers: %w", path, err)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	f.Config.Storage = ""
	s.Config = f.Config
	loaded, err := f.Load(dev)
	if err != nil {
		return err
	}
	defer loaded.Close()
	for name, w := range loaded.Tensors {
		values, err := w.Float32s()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.weights[name] = startWeight{w.Shape(), slices.Clone(values)}
	}
	return nil
}

// Start takes the weights, and the biases of routers, before the first step.
func (t *Trainer) Start(s *Start, path string) error {
	n := len(t.names)
	for _, name := range t.biases.names {
		if _, ok := s.weights[name]; ok {
			n++
		}
	}
	if len(s.weights) != n {
		return badInput("%s: it has %d weights and biases of routers, and the network of the settings %d", path, len(s.weights), n)
	}
	return t.begin(func(w *model.Value) ([]float32, error) {
		v, ok := s.weights[w.Name]
		if !ok && w.Kind == model.Fixed { // the network that starts has none, which is as if they were 0
			return make([]float32, w.Len()), nil
		}
		if !ok {
			return nil, badInput("%s: no weight %s, which the network of the settings has", path, w.Name)
		}
		if !slices.Equal(v.shape, w.Shape) {
			return nil, badInput("%s: %s is %v, and by the settings %v", path, w.Name, v.shape, w.Shape)
		}
		return v.values, nil
	})
}

// startOf has a trainer begin as a run did: with the weights that the run has kept as its checkpoint of step 0, if
// they are not those of the seed. It returns false if the run has none yet.
func (t *Trainer) startOf(folder string) (isKept bool, err error) {
	path := filepath.Join(folder, checkpointFolder, checkpointName(0))
	if !isFile(path) {
		return false, nil
	}
	s := &Start{weights: map[string]startWeight{}}
	if err := s.readCheckpoint(path); err != nil {
		return true, err
	}
	return true, t.Start(s, path)
}
