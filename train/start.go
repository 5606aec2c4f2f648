package train

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tokitai/device"
	"tokitai/engine"
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
	Steps     int            // that its moments have seen; 0 if it has none

	weights   map[string]startWeight
	moments   map[string]startWeight // by their names in a checkpoint
	optimizer string                 // of the moments
	isTKP1    bool
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

// What a run does with the moments of the network that it starts with. By default it takes those of a TKP1 file, which is the
// state of a training, and no others.
const (
	takeMoments = "start"
	zeroMoments = "zero"
)

// readStart reads the network that a run starts with. Moments that the run does not take are left out.
func (s *Settings) readStart(dev device.Device) (*Start, error) {
	start, err := ReadStart(dev, s.Start)
	if err != nil {
		return nil, err
	}
	switch {
	case s.Moments == zeroMoments || s.Moments == "" && !start.isTKP1:
		start.Steps, start.moments, start.optimizer = 0, nil, ""
	case s.Moments == takeMoments && start.Steps == 0:
		return nil, badInput("moments is %s, and %s has none, or none that is not 0", takeMoments, s.Start)
	}
	return start, nil
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

// readTKP1 reads a TKP1 file, and holds it to the arch.json beside it, if there is one.
func (s *Start) readTKP1(path string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	f, err := tkp1.Read(from, int(info.Size()))
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
	states, steps, err := f.Take()
	if err != nil {
		return badInput("%s: %w", path, err)
	}
	n, err := model.NewFeatures(s.Features, 1, false)
	if err != nil {
		return err
	}
	s.isTKP1, s.Steps, s.moments = true, steps, map[string]startWeight{}
	hasM, hasV := false, false
	for _, w := range n.Program.Of(model.Weight) {
		state := states[w.Name]
		s.weights[w.Name] = startWeight{w.Shape, state.Weight}
		s.moments[prefixM+w.Name] = startWeight{w.Shape, state.M}
		s.moments[prefixV+w.Name] = startWeight{w.Shape, state.V}
		hasM, hasV = hasM || !isZero(state.M), hasV || !isZero(state.V)
	}
	switch s.optimizer = "adamw"; {
	case !hasM && !hasV: // a file of weights
		s.Steps, s.moments, s.optimizer = 0, nil, ""
	case !hasV:
		s.optimizer = "sgd"
	}
	if s.moments != nil && s.Steps == 0 {
		return badInput("%s: it has moments that are not 0, of step 0", path)
	}
	return nil
}

func isZero(list []float32) bool {
	return !slices.ContainsFunc(list, func(v float32) bool { return v != 0 })
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func (s *Start) readCheckpoint(path string) error {
	h, f, err := readCheckpoint(path)
	if err != nil {
		return err
	}
	c := h.Origin.Config
	if err := c.checkNetwork(); err != nil {
		return badInput("%s: %w", path, err)
	}
	c.Storage = ""
	s.Config, s.Features = c.Config, c.Features
	if s.Steps = h.Origin.Before + h.Step; s.Steps > 0 {
		s.moments, s.optimizer = map[string]startWeight{}, c.Optimizer
	}
	for _, e := range f.Entries {
		to := s.weights
		if isMoment(e.Name) {
			to = s.moments
		}
		if to != nil {
			a := num.Array{Data: e.Data, DType: e.DType, Rows: 1, Cols: len(e.Data) / e.DType.Size()}
			to[e.Name] = startWeight{e.Shape, floats(&a)}
		}
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

// Start takes the weights, the biases of routers, and the moments if there are any, before the first step.
func (t *Trainer) Start(s *Start, path string) error {
	if s.moments != nil && s.optimizer != t.config.Optimizer {
		return badInput("%s: its moments are those of %s, and optimizer is %s: want moments=%s, or that optimizer", path, s.optimizer, t.config.Optimizer, zeroMoments)
	}
	if most := math.MaxInt32/t.config.Leaves - t.config.Steps; s.Steps > most {
		return badInput("%s: its moments are of step %d, want at most %d: 2^31-1 leaves in all", path, s.Steps, most)
	}
	n := len(t.names)
	for _, name := range t.biases.names {
		if _, ok := s.weights[name]; ok {
			n++
		}
	}
	if len(s.weights) != n {
		return badInput("%s: it has %d weights and biases of routers, and the network of the settings %d", path, len(s.weights), n)
	}
	return t.begin(s.Steps, func(p part) ([]float32, error) {
		isMoment := isMoment(p.name)
		from := s.weights
		if isMoment {
			from = s.moments
		}
		v, ok := from[p.name]
		if !ok && p.weight < 0 { // the network that starts has no biases of routers, which is as if they were 0
			return make([]float32, p.tensor.Len()), nil
		}
		if !ok {
			return nil, badInput("%s: no weight %s, which the network of the settings has", path, p.name)
		}
		if !slices.Equal(v.shape, p.shape) {
			return nil, badInput("%s: %s is %v, and by the settings %v", path, p.name, v.shape, p.shape)
		}
		isSquare := strings.HasPrefix(p.name, prefixV)
		for i, x := range v.values {
			if isMoment && (!isFinite(x) || isSquare && x < 0) {
				return nil, badInput("%s: element %d of %s is %v, which no step gives", path, i, p.name, x)
			}
		}
		return v.values, nil
	})
}

// NewStarted returns a trainer before the first step of a run of these settings: with the network that they start with, if
// they name one, and otherwise with initial weights. With a team it is that of rank 0.
func NewStarted(q *engine.Queue, with Team, s *Settings, on Data) (*Trainer, error) {
	t, err := NewRanked(q, with, s.Config, on)
	if err != nil || s.Start == "" {
		return t, err
	}
	if err := t.startBy(s); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// startBy has a trainer begin with the network that the settings name.
func (t *Trainer) startBy(s *Settings) error {
	start, err := s.readStart(t.queue.Device())
	if err != nil {
		return err
	}
	return t.Start(start, s.Start)
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
