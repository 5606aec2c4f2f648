package huggingface

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tokitai/internal/jsontree"
	"tokitai/internal/readfile"
	"tokitai/model"
	"tokitai/num"
	"tokitai/tensor/file"
	"tokitai/tensor/safetensors"
)

// Folder is a folder whose configuration and headers of weights have been read, and fit each other.
type Folder struct {
	Path       string
	Family     *Family
	Config     model.Config // Storage is that of the configuration, or of the first tensor
	Generation *Generation
	Weights    []*model.Value

	Parameters int64          // elements of all weights, tied ones once
	Stored     map[string]int // tensors by format, as safetensors names it
	Notes      []string       // what is there and has no effect, or limits the network: sentences

	layout     layout
	set        *file.Set
	configText []byte
	infos      map[string]safetensors.Info
}

// Open reads a folder, but no weights.
func Open(path string) (*Folder, error) {
	f := &Folder{Path: path, Stored: map[string]int{}, infos: map[string]safetensors.Info{}}
	if err := f.open(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Close closes the files.
func (f *Folder) Close() error {
	if f == nil || f.set == nil {
		return nil
	}
	return f.set.Close()
}

func (f *Folder) open() error {
	configPath := filepath.Join(f.Path, "config.json")
	object, text, err := readObject(configPath)
	if err != nil {
		return err
	}
	f.configText = text
	if f.Family, f.Config, err = readConfig(object); err != nil {
		return errorIn(configPath, err)
	}
	if kind := f.Config.Rope.Kind; kind == "dynamic" || kind == "longrope" {
		f.Notes = append(f.Notes, fmt.Sprintf("rope_type %s: sequences have at most %d tokens, since angles of longer ones depend on the longest of a batch", kind, f.Config.Block))
	}
	if f.Config.Mixture.Balance > 0 {
		f.Notes = append(f.Notes, "router biases: transformers has none in "+f.Family.Class+", and chooses experts without them")
	}
	if err := f.readGeneration(configPath, object); err != nil {
		return err
	}
	weights := f.weightsPath()
	if err := checkKind(weights); err != nil {
		return err
	}
	if exists(filepath.Join(f.Path, "adapter_config.json")) {
		return &FormatError{filepath.Join(f.Path, "adapter_config.json"), errors.New("adapters are not supported: merge it into the weights")}
	}
	if f.set, err = file.Open(weights); err != nil {
		return err
	}
	return f.check()
}

// readGeneration reads generation_config.json. Where it is missing, or names no token that ends an answer, config.json stands
// for it.
func (f *Folder) readGeneration(configPath string, config *jsontree.Value) error {
	inConfig, err := generationOf(config)
	if err != nil {
		return errorIn(configPath, err)
	}
	path := filepath.Join(f.Path, "generation_config.json")
	object, _, err := readObject(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		path, f.Generation = configPath, inConfig
	case err != nil:
		return err
	default:
		if f.Generation, err = readGeneration(object); err != nil {
			return errorIn(path, err)
		}
		if len(f.Generation.End) == 0 {
			f.Generation.End = inConfig.End
		}
	}
	for _, end := range f.Generation.End {
		if end >= f.Config.Vocabulary {
			return errorIn(path, fmt.Errorf("eos_token_id has %d, and vocab_size is %d", end, f.Config.Vocabulary))
		}
	}
	for _, s := range f.Generation.Unsupported {
		f.Notes = append(f.Notes, filepath.Base(path)+": "+s)
	}
	return nil
}

// weightsPath returns what transformers would read: folders may have weights in other layouts beside it.
func (f *Folder) weightsPath() string {
	one, index := filepath.Join(f.Path, "model.safetensors"), filepath.Join(f.Path, "model"+safetensors.IndexSuffix)
	switch {
	case exists(one):
		if exists(index) {
			f.Notes = append(f.Notes, "model"+safetensors.IndexSuffix+" and its shards are not read, since there is a model.safetensors")
		}
		return one
	case exists(index):
		return index
	}
	return f.Path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// checkKind refuses pipes and the like, whose opening would wait. A folder stands for a file in it, which is found later.
func checkKind(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return err
	}
	return readfile.CheckRegular(path, info.Mode())
}

// check compares the headers of the weights with the configuration.
func (f *Folder) check() error {
	f.layout = layoutOf(f.Family, f.Config, f.set.Has)
	if f.layout.fused && f.Config.HasExpertsInFP8() {
		return &FormatError{f.set.Path(), errors.New("quantization_config, and experts of a layer in one tensor: these are not supported in FP8")}
	}
	used := map[string]bool{}
	for _, shard := range f.set.Files()[1:] { // an index names tensors that its shards must have
		if err := f.readShard(shard); err != nil {
			return err
		}
	}
	// A tensor names its format before the configuration does.
	if f.Config.Storage == "" && !f.saysStorage() {
		if d := f.format("model.embed_tokens.weight", f.layout.prefix+"wte.weight"); d != num.NoDType && d != num.F32 {
			f.Config.Storage = d.String()
		}
	}
	var err error
	if f.Weights, err = f.Config.Weights(); err != nil {
		return err
	}
	var missing []string
	for _, w := range f.Weights {
		if parts := f.scalesOf(w); parts != nil {
			for _, part := range parts {
				name := f.tensorOfScale(part)
				if used[name] = true; !f.set.Has(name) {
					missing = append(missing, name)
				} else if err := f.checkScale(part, name); err != nil {
					return err
				}
			}
			continue
		}
		f.Parameters += int64(w.Len())
		for _, p := range f.layout.pieces(w) {
			if used[p.tensor] {
				continue
			}
			used[p.tensor] = true
			if !f.set.Has(p.tensor) {
				missing = append(missing, p.tensor)
				if len(missing) > 1000 {
					break
				}
				continue
			}
			if err := f.checkTensor(p, w.DType); err != nil {
				return err
			}
		}
		if len(missing) > 1000 {
			break
		}
	}
	if len(missing) > 0 {
		return &FormatError{f.set.Path(), fmt.Errorf("%d tensors that config.json asks for are missing: %s", len(missing), some(missing))}
	}
	return f.checkRest(used)
}

// readShard opens a shard, so that one that is missing or damaged is found now.
func (f *Folder) readShard(path string) error {
	if err := checkKind(path); err != nil {
		return err
	}
	r, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	var extra, elsewhere []string
	for _, name := range r.Names() {
		switch f.set.FileOf(name) {
		case "":
			extra = append(extra, name)
		case path:
		default:
			elsewhere = append(elsewhere, name)
		}
	}
	switch {
	case len(extra) > 0:
		return &FormatError{path, fmt.Errorf("it has %d tensors that the index does not name: %s", len(extra), some(extra))}
	case len(elsewhere) > 0:
		return &FormatError{path, fmt.Errorf("it has %d tensors that are in other files by the index: %s", len(elsewhere), some(elsewhere))}
	}
	return nil
}

func (f *Folder) saysStorage() bool {
	object, err := parseObject(f.configText)
	return err == nil && (object.Get("dtype") != nil || object.Get("torch_dtype") != nil)
}

// info describes a tensor.
func (f *Folder) info(name string) (safetensors.Info, error) {
	if i, ok := f.infos[name]; ok {
		return i, nil
	}
	i, err := f.set.Info(name)
	if err == nil {
		f.infos[name] = i
	}
	return i, err
}

// format returns the storage format of the first of some tensors that there is.
func (f *Folder) format(names ...string) num.DType {
	for _, n := range names {
		if f.set.Has(n) {
			i, _ := f.info(n)
			return i.Storage()
		}
	}
	return num.NoDType
}

// checkTensor compares the header of a tensor with the configuration, by which it is a part of a weight of a format.
func (f *Folder) checkTensor(p piece, format num.DType) error {
	i, err := f.info(p.tensor)
	if err != nil {
		return err
	}
	if !slices.Equal(i.Shape, p.shape) {
		return &FormatError{f.set.Path(), fmt.Errorf("tensor %q is %v, and by config.json %v", p.tensor, i.Shape, p.shape)}
	}
	d := i.Storage()
	switch {
	case format.IsFP8() && d != format:
		return &FormatError{f.set.Path(), fmt.Errorf("tensor %q is %v, and by quantization_config of config.json F8_E4M3", p.tensor, i.DType)}
	case d.IsFP8() && !format.IsFP8():
		return &FormatError{f.set.Path(), fmt.Errorf("tensor %q is %v, and by config.json its layer is not quantised", p.tensor, i.DType)}
	case !format.IsFP8() && d != num.F32 && d != num.BF16 && d != num.F16:
		return &FormatError{f.set.Path(), fmt.Errorf("tensor %q is %v, which is not supported: want F32, BF16 or F16", p.tensor, i.DType)}
	}
	f.Stored[i.DType]++
	return nil
}

// checkRest looks at the tensors that no weight needs.
func (f *Folder) checkRest(used map[string]bool) error {
	var extra, scales []string
	for _, name := range f.set.Names() {
		switch {
		case used[name]:
		case f.layout.isBuffer(name):
		case name == "lm_head.weight" && f.Config.Tied:
			if err := f.checkTied(); err != nil {
				return err
			}
		case strings.HasSuffix(name, "_scale") || strings.HasSuffix(name, "_scale_inv") || strings.HasSuffix(name, ".qweight"):
			scales = append(scales, name)
		default:
			extra = append(extra, name)
		}
	}
	if len(scales) > 0 && f.Config.FP8.IsUsed() {
		return &FormatError{f.set.Path(), fmt.Errorf("%d scales belong to nothing that is scaled by config.json: %s", len(scales), some(scales))}
	}
	if len(scales) > 0 {
		return &FormatError{f.set.Path(), fmt.Errorf("the weights are quantised, which is not supported: %s", some(scales))}
	}
	if len(extra) > 0 {
		return &FormatError{f.set.Path(), fmt.Errorf("%d tensors are not used by a network of config.json: %s", len(extra), some(extra))}
	}
	return nil
}

// checkTied compares a head with the embedding that takes its place.
func (f *Folder) checkTied() error {
	table := cmp.Or(f.layout.tableName(), "model.embed_tokens.weight")
	same, err := f.same("lm_head.weight", table)
	if err == nil && !same {
		err = &FormatError{f.set.Path(), fmt.Errorf("tie_word_embeddings is true, and lm_head.weight differs from %s", table)}
	}
	return err
}

func (l *layout) tableName() string {
	if l.family.Type == "gpt2" {
		return l.prefix + "wte.weight"
	}
	return ""
}
