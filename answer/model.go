package answer

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tokitai/chat"
	"tokitai/data"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/model"
	"tokitai/model/huggingface"
	"tokitai/num"
	"tokitai/tensor"
	"tokitai/tensor/safetensors"
	"tokitai/tokenizer"
	"tokitai/train"
)

// Model is a model with its weights on a device.
type Model struct {
	Name       string // by which people ask for it
	Config     model.Config
	Weights    map[string]*tensor.Tensor
	Vocabulary Vocabulary
	Template   *chat.Template          // nil if it has none
	Ends       []int32                 // tokens that end an answer
	Generation *huggingface.Generation // what its folder says about sampling; nil if it is no such folder
	Notes      []string                // what its folder has that has no effect, or limits the model: sentences
	Identity   Identity
	Draft      *Model // guesses tokens for its engines, and stays open while they are; nil to guess by what repeats

	unchanged func() error // nil for weights that nobody else can write
	close     func() error
}

// Unchanged returns an error if the weights are no longer those of the identity, because somebody has written their files.
func (m *Model) Unchanged() error {
	if m.unchanged == nil {
		return nil
	}
	return m.unchanged()
}

// Identity says what decides the bits of a model's answers, but for the request. All digests are SHA-256, in
// hexadecimal.
type Identity struct {
	Model     string `json:"model"`              // weights: names, formats, shapes, bytes
	Program   string `json:"program"`            // calls with their definitions, from tokens to the token drawn
	Policy    string `json:"policy"`             // of products: same
	Rule      string `json:"rule"`               // by which their sums are rounded, as engine.WithRule takes it
	Tokenizer string `json:"tokenizer"`          // bytes, or the digest of tokenizer.json
	Template  string `json:"template,omitempty"` // digest of the file that has the chat template
}

// Fingerprint names what decides the bits of logits: model, program, policy and rule.
func (i *Identity) Fingerprint() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{i.Model, i.Program, i.Policy, i.Rule}, "\n")))
	return "tk_" + hex.EncodeToString(sum[:8])
}

// Load reads a model onto the device of a queue: a folder as the library transformers keeps models, the folder of a
// run of package train, whose newest checkpoint it takes, or a checkpoint.
func Load(q *engine.Queue, path string) (*Model, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	file := path
	if info.IsDir() {
		if _, err := os.Stat(filepath.Join(path, "config.json")); err == nil {
			return loadFolder(q, path)
		}
		if file, err = newest(path); err != nil {
			return nil, err
		}
	}
	c, entries, err := train.ReadWeights(file)
	if err != nil {
		return nil, err
	}
	if c.HasFeatures() {
		return nil, badInput("%s: it is a network of features, which answers nothing with text", file)
	}
	list, err := c.Weights()
	if err != nil {
		return nil, badInput("%s: %w", file, err)
	}
	formats := map[string]num.DType{}
	for _, w := range list {
		formats[w.Name] = w.DType
	}
	weights := map[string]*tensor.Tensor{}
	for _, e := range entries {
		t, err := asStored(q.Device(), &e, cmp.Or(formats[e.Name], e.DType))
		if err != nil {
			closeAll(weights)
			return nil, err
		}
		weights[e.Name] = t
	}
	m, err := NewModel(nameOf(path), c.Config, weights)
	if err != nil {
		return nil, err
	}
	if err := m.takeRun(file); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// asStored returns a weight of a checkpoint in the format that the network reads: rounded to 16 bits, as it was
// while the network was trained.
func asStored(dev device.Device, e *safetensors.Entry, format num.DType) (*tensor.Tensor, error) {
	if e.DType == format {
		return tensor.FromBytes(dev, e.DType, e.Data, e.Shape...)
	}
	n := len(e.Data) / e.DType.Size()
	from, values := num.Array{DType: e.DType, Rows: 1, Cols: n, Stride: n, Data: e.Data}, make([]float32, n)
	for i := range values {
		values[i] = from.At(0, i)
	}
	return tensor.FromFloat32(dev, format, values, e.Shape...)
}

// Sampling returns how tokens are drawn where a request does not say: as the model's folder wants them drawn, or by
// DefaultSampling.
func (m *Model) Sampling() Sampling {
	s, g := DefaultSampling, m.Generation
	if g == nil || !g.IsGiven {
		return s
	}
	if s.Repetition = g.Repetition; !g.IsSampled {
		s.Temperature = 0
		return s
	}
	s.Temperature, s.TopK, s.TopP, s.MinP = g.Temperature, g.TopK, g.TopP, g.MinP
	return s
}

// Stops returns the texts that end answers to requests without stops of their own. They are no part of the answer.
func (m *Model) Stops() []string {
	if m.Generation == nil {
		return nil
	}
	return m.Generation.Stops
}

// Most returns how many tokens an answer has at most where a request does not say; 0 if the model's folder does not either.
func (m *Model) Most() int {
	if m.Generation == nil {
		return 0
	}
	return m.Generation.MaxNew
}

// NewModel returns a model of bytes with given weights, which it owns from then on.
func NewModel(name string, c model.Config, weights map[string]*tensor.Tensor) (*Model, error) {
	m := &Model{
		Name: name, Config: c, Weights: weights, Vocabulary: Bytes{}, Ends: []int32{data.Beginning},
		Identity: Identity{Policy: "same", Rule: "fma", Tokenizer: data.Bytes.Identity},
		close:    func() error { return closeAll(weights) },
	}
	if err := m.identify(); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Follow has the products of a model summed by another rule than fma: see engine.WithRule. The engines made from then on
// follow it.
func (m *Model) Follow(rule def.Accum) error {
	if err := rule.Takes(m.Config.Format()); err != nil {
		return badInput("%s: %w", m.Name, err)
	}
	m.Identity.Rule = rule.String()
	return nil
}

func closeAll(weights map[string]*tensor.Tensor) error {
	var errs []error
	for _, t := range weights {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}

// identify computes the digests of weights and program. That of the weights is over name, format, shape and bytes of
// each, in the order of the names, behind the lengths of text and bytes.
func (m *Model) identify() (err error) {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(m.Weights)) {
		t := m.Weights[name]
		raw, err := t.Bytes()
		if err != nil {
			return err
		}
		head := fmt.Sprintf("%s %v %v", name, t.DType(), t.Shape())
		binary.Write(h, binary.LittleEndian, []uint64{uint64(len(head)), uint64(len(raw))})
		h.Write([]byte(head))
		h.Write(raw)
	}
	m.Identity.Model = hex.EncodeToString(h.Sum(nil))
	m.Identity.Program, err = programOf(m.Config)
	return err
}

// takeRun takes the tokenizer and the rule of the run that a checkpoint belongs to. A checkpoint alone, without its run,
// is of bytes, and its rule is fma.
func (m *Model) takeRun(checkpoint string) error {
	folder := filepath.Dir(filepath.Dir(checkpoint))
	d, err := train.ReadDescription(folder)
	if errors.Is(err, fs.ErrNotExist) {
		if m.Config.Vocabulary != data.Vocabulary {
			return badInput("%s: its tokens are no bytes, and there is no run around it that has their tokenizer", checkpoint)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if err := m.Follow(d.Settings.Rule()); err != nil {
		return err
	}
	t, err := d.Tokenizer(folder)
	if err != nil || t.File == nil {
		return err
	}
	words, err := tokenizer.Parse(t.File)
	if err != nil {
		return err
	}
	m.Vocabulary, m.Ends, m.Identity.Tokenizer = Words(words), nil, t.Identity
	if begin, err := words.Encode("", tokenizer.EncodeOptions{}); err == nil && len(begin) > 0 {
		m.Ends = begin[:1] // where the next document begins
	}
	return nil
}

// newest returns the path of the newest checkpoint of a run.
func newest(folder string) (string, error) {
	if _, err := train.ReadDescription(folder); errors.Is(err, fs.ErrNotExist) {
		return "", badInput("%s: the folder has neither config.json, as a model has, nor run.json, as a run has", folder)
	} else if err != nil {
		return "", err
	}
	list, err := train.Checkpoints(folder)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", badInput("%s: the run has no checkpoint yet", folder)
	}
	return list[len(list)-1].Path, nil
}

// nameOf returns the last part of a path, without the end of a file's name.
func nameOf(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		path = full
	}
	return strings.TrimSuffix(filepath.Base(path), ".safetensors")
}

// programOf returns the digest of what is computed for a token: the program of one token, whose calls are those of
// every other number of tokens, and the definitions that read the logits.
func programOf(c model.Config) (string, error) {
	p, err := model.NewInference(c, model.InferenceShape{Tokens: 1, Sequences: 1, Rows: 1, Pages: 1, PageSize: 16, PerSequence: 1})
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s%s %s\n%s %s\n", p.Program.Text(), Summary.Name, Summary.Hash(), Draw.Name, Draw.Hash())
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:]), nil
}

// Close frees the weights.
func (m *Model) Close() error { return m.close() }

// Conversation returns the tokens of a conversation in JSON, by the model's chat template.
func (m *Model) Conversation(conversation []byte, o chat.Options) ([]int32, error) {
	if m.Template == nil {
		return nil, badInput("%s has no chat template: ask for a completion of a text", m.Name)
	}
	text, err := m.Template.Render(conversation, o)
	if err != nil {
		return nil, err
	}
	return m.Vocabulary.Encode(text, false)
}
