package huggingface

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tokitai/internal/newfile"
	"tokitai/model"
	"tokitai/tensor/safetensors"
)

// WriteOptions configures Write.
type WriteOptions struct {
	ShardBytes int64 // the largest file of weights; 0 for one file
}

// Write writes a folder that transformers loads: config.json, and the weights that read returns by their names, as
// bytes in the storage format of the configuration. It makes the folder; files that are there are replaced
// together, once all are complete. A configuration that none of Families has is refused.
func Write(path string, c model.Config, read func(w *model.Value) ([]byte, error), o WriteOptions) error {
	text, family, err := Describe(c)
	if err != nil {
		return err
	}
	return write(path, text, layoutOf(family, c, func(name string) bool { return name == "transformer.wte.weight" }), c, read, o)
}

// Write writes the folder's configuration again, and other weights of it, in tensors as the folder has them.
func (f *Folder) Write(path string, read func(w *model.Value) ([]byte, error), o WriteOptions) error {
	return write(path, f.configText, f.layout, f.Config, read, o)
}

func write(path string, config []byte, l layout, c model.Config, read func(w *model.Value) ([]byte, error), o WriteOptions) error {
	if c.FP8.IsUsed() {
		return errors.New("weights are in FP8, which is read and not written")
	}
	weights, err := c.Weights()
	if err != nil {
		return err
	}
	content := &safetensors.File{Metadata: map[string]string{"format": "pt"}}
	at := map[string]int{}
	for _, w := range weights {
		raw, err := read(w)
		if err == nil && int64(len(raw)) != w.Bytes() {
			err = fmt.Errorf("%d bytes, want %d for %v %v", len(raw), w.Bytes(), w.DType, w.Shape)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
		for _, p := range l.pieces(w) {
			i, isKnown := at[p.tensor]
			if !isKnown {
				i = len(content.Entries)
				at[p.tensor] = i
				content.Entries = append(content.Entries, safetensors.Entry{
					Name: p.tensor, DType: w.DType, Shape: p.shape, Data: make([]byte, elements(p.shape)*w.DType.Size()),
				})
			}
			raw = p.put(content.Entries[i].Data, raw, w.DType.Size())
		}
	}
	slices.SortFunc(content.Entries, func(a, b safetensors.Entry) int { return cmp.Compare(a.Name, b.Name) })
	if err := os.MkdirAll(path, 0o777); err != nil {
		return err
	}
	var b newfile.Batch
	defer b.Discard()
	err = b.Write(filepath.Join(path, "config.json"), func(w io.Writer) error {
		_, err := w.Write(config)
		return err
	})
	if err != nil {
		return err
	}
	if target := filepath.Join(path, "model.safetensors"); o.ShardBytes == 0 {
		err = safetensors.Stage(&b, target, content)
	} else {
		err = safetensors.StageShards(&b, filepath.Join(path, "model"+safetensors.IndexSuffix), content, o.ShardBytes)
	}
	if err != nil {
		return err
	}
	return b.Commit()
}

// put copies the first elements of a weight to where the piece is in its tensor, and returns the rest.
func (p *piece) put(tensor, raw []byte, size int) (rest []byte) {
	step := func(r, c, n int) {
		at := (r*p.width + c) * size
		raw = raw[copy(tensor[at:at+n*size], raw):]
	}
	if p.isTransposed {
		for c := p.cols[0]; c < p.cols[1]; c++ {
			for r := p.rows[0]; r < p.rows[1]; r++ {
				step(r, c, 1)
			}
		}
		return raw
	}
	for r := p.rows[0]; r < p.rows[1]; r++ {
		step(r, p.cols[0], p.cols[1]-p.cols[0])
	}
	return raw
}

// Describe returns the config.json of a network, in the spelling that versions 4 and 5 of transformers read, and the first of
// Families that has such networks. Dropout, which is for training, is left out.
func Describe(c model.Config) (text []byte, family *Family, err error) {
	if err := c.Check(); err != nil {
		return nil, nil, err
	}
	if c.Layers > maxLayers {
		return nil, nil, fmt.Errorf("%d layers, want at most %d", c.Layers, maxLayers)
	}
	c.Dropout = 0
	if c.Storage == "f32" {
		c.Storage = ""
	}
	if c.HeadWidth*c.Heads == c.Width {
		c.HeadWidth = 0
	}
	for _, f := range Families {
		text := describe(f, c)
		if _, again, err := ParseConfig(text); err == nil && again == c {
			return text, f, nil
		}
	}
	return nil, nil, fmt.Errorf("no class of transformers that is known here has this network: its settings are those of no family, or of several")
}

// real is a number that is written with a point: transformers tells 3.0 from 3.
type real float64

// MarshalJSON writes the number.
func (x real) MarshalJSON() ([]byte, error) {
	text := strconv.FormatFloat(float64(x), 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return []byte(text), nil
}

// member is a member of config.json.
type member struct {
	name  string
	value any
}

// describe returns the text by which a family would have a network; what it cannot say is missing.
func describe(f *Family, c model.Config) []byte {
	list := []member{{"architectures", []string{f.Class}}, {"model_type", f.Type}, {"torch_dtype", formatName(c.Format())}, {"vocab_size", c.Vocabulary}, {"tie_word_embeddings", c.Tied},
		{"bos_token_id", nil}, {"eos_token_id", nil}, {"pad_token_id", nil}}
	add := func(name string, value any) { list = append(list, member{name, value}) }
	acts := map[string]string{"swiglu": "silu", "geglu": "gelu_pytorch_tanh", "geglu.erf": "gelu", "gelu": "gelu_new", "gelu.erf": "gelu"}
	if f.Type == "gpt2" {
		list = append(list, []member{{"n_positions", c.Block}, {"n_embd", c.Width}, {"n_layer", c.Layers}, {"n_head", c.Heads}, {"n_inner", c.Hidden},
			{"activation_function", acts[c.FeedForward]}, {"layer_norm_epsilon", real(c.Eps)}, {"scale_attn_weights", c.AttentionScale != 1}}...)
		return encode(list)
	}
	width := c.HeadWidth
	if width == 0 {
		width = c.Width / c.Heads
	}
	list = append(list, []member{{"hidden_size", c.Width}, {"intermediate_size", c.Hidden}, {"num_hidden_layers", c.Layers}, {"num_attention_heads", c.Heads},
		{"num_key_value_heads", c.KVHeads}, {"head_dim", width}, {"max_position_embeddings", c.Block}, {"rms_norm_eps", real(c.Eps)}, {"rope_theta", real(c.RopeBase)}, {"rope_scaling", ropeScaling(c)}}...)
	if f.Type == "gemma2" {
		add("hidden_activation", acts[c.FeedForward])
	} else {
		add("hidden_act", acts[c.FeedForward])
	}
	if f.Type != "mistral" && f.Type != "qwen2" {
		add("attention_bias", c.QKVBias)
	}
	window, types := 0, slices.Repeat([]string{"full_attention"}, c.Layers)
	for i, n := range c.Windows.Values() {
		if n > 0 {
			window, types[i] = int(n), "sliding_attention"
		}
	}
	var sliding any
	if window > 0 {
		sliding = window
	}
	switch f.Type {
	case "llama":
		add("mlp_bias", c.HiddenBias)
	case "mistral":
		add("sliding_window", sliding)
	case "qwen2", "qwen3":
		add("use_sliding_window", window > 0)
		add("sliding_window", sliding)
		add("layer_types", types)
	case "qwen3_moe":
		add("use_sliding_window", window > 0)
		add("sliding_window", sliding)
		add("moe_intermediate_size", c.Mixture.Hidden)
		dense := []int{}
		for _, i := range c.Mixture.Dense.Values() {
			dense = append(dense, int(i))
		}
		add("mlp_only_layers", dense)
	case "gemma2":
		add("sliding_window", sliding)
		add("layer_types", types)
		add("query_pre_attn_scalar", inverseSquare(c.AttentionScale, width))
		add("attn_logit_softcapping", orNull(c.AttentionCap))
		add("final_logit_softcapping", orNull(c.LogitCap))
	}
	if f.Type == "qwen3_moe" || f.Type == "olmoe" {
		add("num_experts", c.Mixture.Experts)
		add("num_experts_per_tok", c.Mixture.PerToken)
		add("norm_topk_prob", c.Mixture.IsNormalised)
		if c.Mixture.Balance > 0 {
			add(biasField, real(c.Mixture.Balance))
		}
	}
	return encode(list)
}

func orNull(x float64) any {
	if x == 0 {
		return nil
	}
	return real(x)
}

// inverseSquare returns the whole number whose inverse root a scale is, or a fraction near it.
func inverseSquare(scale float64, otherwise int) any {
	if scale == 0 {
		return otherwise
	}
	x := 1 / (scale * scale)
	if n := math.Round(x); math.Abs(x-n) < 0.5 && 1/math.Sqrt(n) == scale {
		return int64(n)
	}
	return real(x)
}

func ropeScaling(c model.Config) any {
	r := c.Rope
	switch r.Kind {
	case "linear", "dynamic":
		return map[string]any{"rope_type": r.Kind, "factor": real(r.Factor)}
	case "llama3":
		return map[string]any{"rope_type": r.Kind, "factor": real(r.Factor), "original_max_position_embeddings": r.Original, "low_freq_factor": real(r.Low), "high_freq_factor": real(r.High)}
	case "yarn":
		return map[string]any{"rope_type": r.Kind, "factor": real(r.Factor), "original_max_position_embeddings": r.Original, "beta_fast": real(r.Fast), "beta_slow": real(r.Slow), "attention_factor": real(r.Amplitude), "truncate": !r.IsUncut}
	case "longrope": // sequences are not longer than Original: the factors for longer ones are not used
		return map[string]any{"rope_type": r.Kind, "factor": real(r.Factor), "original_max_position_embeddings": r.Original, "attention_factor": real(r.Amplitude), "short_factor": r.Short, "long_factor": r.Short}
	}
	return nil
}

func encode(list []member) []byte {
	var b bytes.Buffer
	b.WriteString("{\n")
	for i, m := range list {
		value, err := json.Marshal(m.value)
		if err != nil {
			panic(fmt.Sprintf("huggingface: %s: %v", m.name, err)) // numbers are finite: Check
		}
		fmt.Fprintf(&b, "  %q: %s", m.name, value)
		if i < len(list)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("}\n")
	return b.Bytes()
}
