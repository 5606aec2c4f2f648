package huggingface_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/model"
	"tokitai/model/huggingface"
	"tokitai/num"
	"tokitai/tensor/safetensors"
)

// small is a network that every test changes.
var small = model.Config{
	Vocabulary: 11, Block: 16, Layers: 2, Width: 8, Heads: 2, KVHeads: 1, Hidden: 6,
	Norm: "rms", Positions: "rope", FeedForward: "swiglu", RopeBase: 10000, Eps: 1e-5,
}

// networks has one of every family.
func networks() map[string]model.Config {
	list := map[string]model.Config{}
	add := func(name string, change func(c *model.Config)) {
		c := small
		change(&c)
		list[name] = c
	}
	add("llama", func(c *model.Config) {
		c.Storage, c.Rope = "bf16", model.Rope{Kind: "llama3", Factor: 8, Original: 8, Low: 1, High: 4}
	})
	add("mistral", func(c *model.Config) { c.Windows, c.HeadWidth = model.NumbersOf(5, 5), 6 })
	add("qwen2", func(c *model.Config) { c.QKVBias, c.Windows = true, model.NumbersOf(0, 3) })
	add("qwen3", func(c *model.Config) { c.HeadNorm, c.QKVBias, c.OutBias, c.Storage = "each", true, true, "f16" })
	add("qwen3_moe", func(c *model.Config) {
		c.HeadNorm, c.Mixture = "each", model.Mixture{Experts: 3, PerToken: 2, Hidden: 4, IsNormalised: true, Dense: model.NumbersOf(0)}
	})
	add("olmo2", func(c *model.Config) {
		c.HeadNorm, c.NormPlace = "all", "after"
		c.Rope = model.Rope{Kind: "yarn", Factor: 2, Original: 8, Fast: 32, Slow: 1, Amplitude: 1.0693147180559945}
	})
	add("olmoe", func(c *model.Config) {
		c.HeadNorm, c.Mixture = "all", model.Mixture{Experts: 3, PerToken: 2, Hidden: 6, Balance: 0.001}
		c.Storage = "bf16"
	})
	add("gpt2", func(c *model.Config) {
		c.Norm, c.Positions, c.FeedForward, c.Bias, c.Tied, c.KVHeads, c.RopeBase = "layer", "learned", "gelu", true, true, 2, 0
	})
	add("gemma2", func(c *model.Config) {
		c.Norm, c.NormPlace, c.FeedForward, c.Tied, c.HeadWidth = "rms1", "both", "geglu", true, 6
		c.Windows, c.AttentionCap, c.LogitCap, c.EmbedScale, c.AttentionScale = model.NumbersOf(4, 0), 50, 30, math.Sqrt(8), 1./3
	})
	return list
}

// values returns the bytes of a weight: initial values, rounded to its format.
func values(c *model.Config) func(w *model.Value) ([]byte, error) {
	return func(w *model.Value) ([]byte, error) {
		list := c.Initial(&model.Value{Name: w.Name, Shape: []int{w.Len(), 1}}, 5)
		a := num.ArrayOf(w.DType, 1, len(list), list...)
		return a.Data, nil
	}
}

func write(t *testing.T, c model.Config, o huggingface.WriteOptions) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "folder")
	if err := huggingface.Write(path, c, values(&c), o); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRoundTrip: a folder that is written, in one file or in shards, is the same network with the same weights
// when it is read; loaded weights have the same bits, and those that a file has as the program wants them are mapped.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, c := range networks() {
		for _, shard := range []int64{0, 700} {
			path := write(t, c, huggingface.WriteOptions{ShardBytes: shard})
			f, err := huggingface.Open(path)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if f.Family.Type != name || f.Config != c {
				t.Errorf("%s: read as %s %+v, want %+v", name, f.Family.Type, f.Config, c)
			}
			loaded, err := f.Load(cpu.Queue().Device())
			if err != nil {
				t.Fatal(err)
			}
			copied := int64(0)
			for _, w := range f.Weights {
				want, _ := values(&c)(w)
				got, err := loaded.Tensors[w.Name].Bytes()
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: %s differs from what was written; %v", name, w.Name, err)
				}
				isTogether := strings.Contains(w.Name, ".experts.") || name == "gpt2" && (strings.Contains(w.Name, "_proj.weight") || strings.Contains(w.Name, "self_attn.") && !strings.Contains(w.Name, "o_proj"))
				if isTogether {
					copied += w.Bytes()
				}
			}
			if loaded.Copied != copied {
				t.Errorf("%s: %d bytes were copied, want %d", name, loaded.Copied, copied)
			}
			if err := loaded.Close(); err != nil {
				t.Error(err)
			}
			again := filepath.Join(t.TempDir(), "again")
			if err := f.Write(again, f.Bytes, huggingface.WriteOptions{ShardBytes: shard}); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{"config.json", "model.safetensors", "model.safetensors.index.json"} {
				a, errA := os.ReadFile(filepath.Join(path, file))
				b, errB := os.ReadFile(filepath.Join(again, file))
				if !bytes.Equal(a, b) || errors.Is(errA, fs.ErrNotExist) != errors.Is(errB, fs.ErrNotExist) {
					t.Errorf("%s: %s is another file when it is written again", name, file)
				}
			}
			f.Close()
		}
	}
}

// TestMappedWrites: what a program writes to mapped weights does not reach the file.
func TestMappedWrites(t *testing.T) {
	t.Parallel()
	path := write(t, small, huggingface.WriteOptions{})
	before, _ := os.ReadFile(filepath.Join(path, "model.safetensors"))
	f, err := huggingface.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := f.Load(cpu.Queue().Device())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if w.Mapped == 0 {
		t.Error("no weight is mapped")
	}
	norm := w.Tensors["model.norm.weight"]
	if err := norm.SetFloat32s(make([]float32, norm.Len())); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.ReadFile(filepath.Join(path, "model.safetensors")); !bytes.Equal(before, after) {
		t.Error("the file has changed")
	}
}

// TestConverted: tensors in another format than the configuration's are rounded once.
func TestConverted(t *testing.T) {
	t.Parallel()
	path := write(t, small, huggingface.WriteOptions{})
	edit(t, path, func(c map[string]any) { c["torch_dtype"] = "bfloat16" })
	f, err := huggingface.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Config.Storage != "bf16" || f.Stored["F32"] == 0 {
		t.Fatalf("storage %q, tensors %v", f.Config.Storage, f.Stored)
	}
	w, err := f.Load(cpu.Queue().Device())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	c := small
	c.Storage = "bf16"
	for _, v := range f.Weights {
		want, _ := values(&c)(v)
		if got, _ := w.Tensors[v.Name].Bytes(); !bytes.Equal(got, want) {
			t.Errorf("%s is not what rounding once gives", v.Name)
		}
	}
}

// TestFused: a folder whose experts are one tensor, as transformers has them in memory, is the same network, and
// is written as it was.
func TestFused(t *testing.T) {
	t.Parallel()
	c := networks()["qwen3_moe"]
	path := write(t, c, huggingface.WriteOptions{})
	one, err := safetensors.ReadFile(filepath.Join(path, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	fused := &safetensors.File{Metadata: one.Metadata}
	get := func(name string) []byte {
		e, ok := one.Entry(name)
		if !ok {
			t.Fatalf("no %s", name)
		}
		return e.Data
	}
	var gateUp, down []byte
	for _, e := range []string{"0", "1", "2"} {
		prefix := "model.layers.1.mlp.experts." + e + "."
		gateUp = append(append(gateUp, get(prefix+"gate_proj.weight")...), get(prefix+"up_proj.weight")...)
		down = append(down, get(prefix+"down_proj.weight")...)
	}
	for _, e := range one.Entries {
		if !strings.Contains(e.Name, ".experts.") {
			fused.Entries = append(fused.Entries, e)
		}
	}
	fused.Entries = append(fused.Entries,
		safetensors.Entry{Name: "model.layers.1.mlp.experts.gate_up_proj", DType: num.F32, Shape: []int{3, 8, 8}, Data: gateUp},
		safetensors.Entry{Name: "model.layers.1.mlp.experts.down_proj", DType: num.F32, Shape: []int{3, 8, 4}, Data: down})
	if err := safetensors.WriteFile(filepath.Join(path, "model.safetensors"), fused); err != nil {
		t.Fatal(err)
	}
	f, err := huggingface.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, w := range f.Weights {
		want, _ := values(&c)(w)
		if got, err := f.Bytes(w); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs; %v", w.Name, err)
		}
	}
	again := filepath.Join(t.TempDir(), "again")
	if err := f.Write(again, f.Bytes, huggingface.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	written, err := safetensors.ReadFile(filepath.Join(again, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := written.Entry("model.layers.1.mlp.experts.gate_up_proj"); !ok || !bytes.Equal(e.Data, gateUp) {
		t.Error("experts are written in another layout")
	}
}

// edit changes the configuration of a folder.
func edit(t *testing.T, path string, change func(c map[string]any)) {
	t.Helper()
	file := filepath.Join(path, "config.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]any
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	change(c)
	if text, err = json.Marshal(c); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o666); err != nil {
		t.Fatal(err)
	}
}

// content changes the tensors of a folder.
func content(t *testing.T, path string, change func(f *safetensors.File)) {
	t.Helper()
	file := filepath.Join(path, "model.safetensors")
	f, err := safetensors.ReadFile(file)
	if err == nil {
		change(f)
		err = safetensors.WriteFile(file, f)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestBroken: folders with one fault each are refused with a sentence that names it.
func TestBroken(t *testing.T) {
	t.Parallel()
	set := func(name string, value any) func(t *testing.T, path string) {
		return func(t *testing.T, path string) { edit(t, path, func(c map[string]any) { c[name] = value }) }
	}
	ropes := func(original any, scaling map[string]any) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			edit(t, path, func(c map[string]any) {
				c["rope_scaling"], c["original_max_position_embeddings"] = scaling, original
			})
		}
	}
	raw := func(name, text string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(filepath.Join(path, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	rename := func(from, to string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			content(t, path, func(f *safetensors.File) {
				for i := range f.Entries {
					if f.Entries[i].Name == from {
						f.Entries[i].Name = to
					}
				}
			})
		}
	}
	faults := []struct {
		want  string
		spoil func(t *testing.T, path string)
	}{
		{"config.json: no such file", func(t *testing.T, path string) { os.Remove(filepath.Join(path, "config.json")) }},
		{"config.json: byte 21: the text ends", raw("config.json", `{"model_type": "llama`)},
		{"config.json: got an array, want an object", raw("config.json", `[]`)},
		{`byte 24: duplicate name "model_type"`, raw("config.json", `{"model_type": "llama", "model_type": "gpt2"}`)},
		{`model_type is "t5", want one of llama`, set("model_type", "t5")},
		{"hidden_size is missing", func(t *testing.T, path string) { edit(t, path, func(c map[string]any) { delete(c, "hidden_size") }) }},
		{`hidden_size is "8", want a whole number`, set("hidden_size", "8")},
		{"num_hidden_layers is 1.5", set("num_hidden_layers", 1.5)},
		{"num_hidden_layers is -1", set("num_hidden_layers", -1)},
		{"layers, want at most 4096", set("num_hidden_layers", 1<<30)},
		{"heads is 2, want a multiple of kv_heads, 3", set("num_key_value_heads", 3)},
		{`hidden_act is "relu2", want gelu, gelu_new`, set("hidden_act", "relu2")},
		{"tie_word_embeddings is 1, want true or false", set("tie_word_embeddings", 1)},
		{"sliding_windw is a field that is not known here", set("sliding_windw", 5)},
		{`the weights are quantised by "gptq", which is not supported`, set("quantization_config", map[string]any{"quant_method": "gptq"})},
		{"auto_map", set("auto_map", map[string]any{"AutoModel": "modeling.Model"})},
		{"architectures has LlamaForSequenceClassification, want LlamaForCausalLM", set("architectures", []string{"LlamaForSequenceClassification"})},
		{`torch_dtype is "float64", want float32`, set("torch_dtype", "float64")},
		{"dtype is float16 and torch_dtype another format", set("dtype", "float16")},
		{`rope_type is "su", want default`, set("rope_scaling", map[string]any{"type": "su", "factor": 2})},
		{"rope_scaling.alpha is a field that is not known", set("rope_scaling", map[string]any{"rope_type": "linear", "factor": 2, "alpha": 1})},
		{"rope.factor is 0, want at least 1", set("rope_scaling", map[string]any{"rope_type": "linear"})},
		{"rope_scaling and rope_parameters are both there", func(t *testing.T, path string) {
			edit(t, path, func(c map[string]any) {
				c["rope_scaling"] = map[string]any{"rope_type": "linear", "factor": 2}
				c["rope_parameters"] = map[string]any{"rope_type": "default"}
			})
		}},
		{"rope_scaling.original_max_position_embeddings is 8, and outside of it 4, want one number", ropes(4, map[string]any{"rope_type": "yarn", "factor": 2, "original_max_position_embeddings": 8})},
		{"original_max_position_embeddings is 4, which version 5 of transformers takes for yarn, and version 4 does not: want it in rope_scaling", ropes(4, map[string]any{"rope_type": "yarn", "factor": 2})},
		{"rope_scaling.attention_factor is missing, and by the other fields it is 1.4142135623730951 in version 4 of transformers, and 1 in version 5",
			ropes(4, map[string]any{"rope_type": "longrope", "factor": 1, "short_factor": []int{1, 2}, "long_factor": []int{1, 2}})},
		{"it is 1.224744871391589 in version 4 of transformers, and 1.4142135623730951 in version 5",
			ropes(nil, map[string]any{"rope_type": "longrope", "factor": 4, "original_max_position_embeddings": 4, "short_factor": []int{1, 2}, "long_factor": []int{1, 2}})},
		{"rope_theta is 10000, and in rope_parameters 500", set("rope_parameters", map[string]any{"rope_type": "default", "rope_theta": 500})},
		{"partial_rotary_factor is 0.5, which is not supported", set("partial_rotary_factor", 0.5)},
		{"rope_parameters.full_attention is an object", set("rope_parameters", map[string]any{"full_attention": map[string]any{"rope_type": "default"}})},
		{"rms_norm_eps is null, want a value", set("rms_norm_eps", nil)},
		{"max_position_embeddings is null, want a value", set("max_position_embeddings", nil)},
		{"rope_scaling.rope_type is null, want a value", set("rope_scaling", map[string]any{"rope_type": nil})},
		{`dtype is "", want float32`, set("dtype", "")},
		{"adapter_config.json: adapters are not supported", raw("adapter_config.json", "{}")},
		{"element 1 is 70000, which is too large for f16, the dtype of config.json", func(t *testing.T, path string) {
			set("torch_dtype", "float16")(t, path)
			content(t, path, func(f *safetensors.File) {
				binary.LittleEndian.PutUint32(f.Entries[0].Data[4:], math.Float32bits(70000))
			})
		}},
		{"temperature is -1", raw("generation_config.json", `{"temperature": -1}`)},
		{"eos_token_id is \"end\", want a list of numbers", raw("generation_config.json", `{"eos_token_id": "end"}`)},
		{"config.json: eos_token_id has 11, and vocab_size is 11", set("eos_token_id", []int{2, 11})},
		{`config.json: eos_token_id is "end", want a list of numbers`, set("eos_token_id", "end")},
		{"repetition_penalty is 0, want a number above 0", raw("generation_config.json", `{"repetition_penalty": 0}`)},
		{"no .safetensors file", func(t *testing.T, path string) { os.Remove(filepath.Join(path, "model.safetensors")) }},
		{"1 tensors that config.json asks for are missing: model.norm.weight", rename("model.norm.weight", "model.norm.wait")},
		{"9 tensors that config.json asks for are missing", set("num_hidden_layers", 3)},
		{"tensors are not used by a network of config.json: model.layers.1.", set("num_hidden_layers", 1)},
		{"lm_head.weight differs from model.embed_tokens.weight", set("tie_word_embeddings", true)},
		{`tensor "model.embed_tokens.weight" is [11 8], and by config.json [12 8]`, set("vocab_size", 12)},
		{`tensor "model.norm.weight" is I32, which is not supported`, func(t *testing.T, path string) {
			content(t, path, func(f *safetensors.File) {
				for i := range f.Entries {
					if f.Entries[i].Name == "model.norm.weight" {
						f.Entries[i].DType = num.I32
					}
				}
			})
		}},
		{"the weights are quantised, which is not supported: model.layers.0.mlp.up_proj.weight_scale_inv", func(t *testing.T, path string) {
			content(t, path, func(f *safetensors.File) {
				f.Entries = append(f.Entries, safetensors.Entry{Name: "model.layers.0.mlp.up_proj.weight_scale_inv", DType: num.F32, Shape: []int{1}, Data: make([]byte, 4)})
			})
		}},
		{"go beyond the 3547 bytes of data", func(t *testing.T, path string) { cut(t, filepath.Join(path, "model.safetensors"), -5) }},
		{"header", func(t *testing.T, path string) { cut(t, filepath.Join(path, "model.safetensors"), 20) }},
	}
	for _, fault := range faults {
		path := write(t, small, huggingface.WriteOptions{})
		fault.spoil(t, path)
		refused(t, path, fault.want)
	}
	// Shards.
	sharded := []struct {
		want  string
		spoil func(t *testing.T, path string, index map[string]any, shards []string)
	}{
		{"no such file", func(_ *testing.T, path string, _ map[string]any, shards []string) { os.Remove(shards[1]) }},
		{"go beyond the 351 bytes of data", func(t *testing.T, _ string, _ map[string]any, shards []string) { cut(t, shards[0], -1) }},
		{"it has 1 tensors that are in other files by the index: model.norm.weight", func(t *testing.T, path string, _ map[string]any, shards []string) {
			last, err := safetensors.ReadFile(shards[len(shards)-1])
			if err != nil {
				t.Fatal(err)
			}
			first, err := safetensors.ReadFile(shards[0])
			if err != nil {
				t.Fatal(err)
			}
			first.Entries = append(first.Entries, last.Entries[len(last.Entries)-1])
			if err := safetensors.WriteFile(shards[0], first); err != nil {
				t.Fatal(err)
			}
		}},
		{"it has 1 tensors that are in other files by the index: model.norm.weight", func(_ *testing.T, _ string, index map[string]any, _ []string) {
			m := index["weight_map"].(map[string]any)
			m["model.norm.weight"] = m["model.embed_tokens.weight"]
		}},
		{"tensors that the index does not name: model.norm.weight", func(_ *testing.T, _ string, index map[string]any, _ []string) {
			delete(index["weight_map"].(map[string]any), "model.norm.weight")
		}},
		{"want one in the folder of the index", func(_ *testing.T, _ string, index map[string]any, _ []string) {
			index["weight_map"].(map[string]any)["model.norm.weight"] = "../other.safetensors"
		}},
	}
	for _, fault := range sharded {
		path := write(t, small, huggingface.WriteOptions{ShardBytes: 700})
		shards, _ := filepath.Glob(filepath.Join(path, "model-*.safetensors"))
		slices.Sort(shards)
		file := filepath.Join(path, "model.safetensors.index.json")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var index map[string]any
		if err := json.Unmarshal(text, &index); err != nil {
			t.Fatal(err)
		}
		fault.spoil(t, path, index, shards)
		text, _ = json.Marshal(index)
		os.WriteFile(file, text, 0o666)
		refused(t, path, fault.want)
	}
}

func refused(t *testing.T, path, want string) {
	t.Helper()
	f, err := huggingface.Open(path)
	if err == nil {
		var w *huggingface.Weights
		if w, err = f.Load(cpu.Queue().Device()); err == nil {
			w.Close()
		}
		f.Close()
	}
	if err == nil {
		t.Errorf("a folder is accepted, want an error with %q", want)
	} else if !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}

// TestTwoLayouts: of one file and an index the file is read, as transformers does, and a note says so.
func TestTwoLayouts(t *testing.T) {
	t.Parallel()
	path := write(t, small, huggingface.WriteOptions{})
	index := filepath.Join(path, "model.safetensors.index.json")
	if err := os.WriteFile(index, []byte(`{"weight_map":{"model.norm.weight":"none.safetensors"}}`), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := huggingface.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(f.Notes) != 1 || !strings.Contains(f.Notes[0], "model.safetensors.index.json and its shards are not read") {
		t.Errorf("notes %q", f.Notes)
	}
}

// cut shortens a file to n bytes, or by -n.
func cut(t *testing.T, path string, n int64) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil && n < 0 {
		n += info.Size()
	}
	if err == nil {
		err = os.Truncate(path, n)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestGeneration: settings are handed over, and those that are not supported are named.
func TestGeneration(t *testing.T) {
	t.Parallel()
	g, err := huggingface.ParseGeneration([]byte(`{"bos_token_id": 1, "eos_token_id": [2, 7], "do_sample": true, "temperature": 0.7, "top_k": 20, "top_p": 0.8,
		"repetition_penalty": 1.05, "num_beams": 2, "max_new_tokens": 30, "transformers_version": "4.37.0", "new_setting": 3}`))
	if err != nil {
		t.Fatal(err)
	}
	want := huggingface.Generation{
		Begin: 1, Pad: -1, End: []int{2, 7}, IsSampled: true, Temperature: 0.7, TopK: 20, TopP: 0.8, MaxNew: 30,
		Repetition: 1.05, IsGiven: true,
		Unsupported: []string{"num_beams is 2, which is not supported: answers would be other ones", "new_setting is a setting that is not known here"},
	}
	got, _ := json.Marshal(g)
	if text, _ := json.Marshal(want); !bytes.Equal(got, text) {
		t.Errorf("%s\nwant %s", got, text)
	}
}

// TestGenerationOfConfig: without generation_config.json, or without a token that ends answers in it, config.json stands for it.
func TestGenerationOfConfig(t *testing.T) {
	t.Parallel()
	path := write(t, small, huggingface.WriteOptions{})
	edit(t, path, func(c map[string]any) {
		c["eos_token_id"], c["temperature"], c["do_sample"], c["num_beams"] = 3, 0.5, true, 4
	})
	for _, c := range []struct {
		file, notes string
		temperature float64
		end         int
	}{
		{"", "config.json: num_beams is 4", 0.5, 3},
		{`{"temperature": 0.7}`, "", 0.7, 3},
		{`{"eos_token_id": 4, "num_beams": 2}`, "generation_config.json: num_beams is 2", 1, 4},
	} {
		if c.file != "" {
			if err := os.WriteFile(filepath.Join(path, "generation_config.json"), []byte(c.file), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		f, err := huggingface.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if g := f.Generation; g.Temperature != c.temperature || !slices.Equal(g.End, []int{c.end}) || !strings.HasPrefix(strings.Join(f.Notes, "\n"), c.notes) {
			t.Errorf("%s: %+v, notes %q", c.file, g, f.Notes)
		}
	}
}

// TestDescribeRefuses: a network of no family is not described as another one.
func TestDescribeRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(c *model.Config){
		"norms after":      func(c *model.Config) { c.NormPlace = "after" },
		"layer norm":       func(c *model.Config) { c.Norm = "layer" },
		"logit cap":        func(c *model.Config) { c.LogitCap = 3 },
		"scaled embedding": func(c *model.Config) { c.EmbedScale = 2 },
		"neighbours":       func(c *model.Config) { c.Interleaved = true },
		"two windows":      func(c *model.Config) { c.QKVBias, c.Windows = true, model.NumbersOf(2, 3) },
	} {
		c := small
		change(&c)
		if text, family, err := huggingface.Describe(c); err == nil {
			t.Errorf("%s is described as %s:\n%s", name, family.Type, text)
		}
	}
}

// FuzzConfig: whatever is read is refused, or is a network that can be described and read again.
func FuzzConfig(f *testing.F) {
	for _, name := range slices.Sorted(maps.Keys(networks())) {
		text, _, err := huggingface.Describe(networks()[name])
		if err != nil {
			f.Fatal(name, err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"model_type": "llama", "vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 4,
		"rope_parameters": {"rope_type": "longrope", "short_factor": [1, 2], "long_factor": [1, 2], "original_max_position_embeddings": 64}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, c, err := huggingface.ParseConfig(text)
		huggingface.ParseGeneration(text)
		if err != nil {
			return
		}
		if err := c.Check(); err != nil {
			t.Fatalf("%s gives %v", text, err)
		}
		if again, _, err := huggingface.Describe(c); err == nil {
			if _, other, err := huggingface.ParseConfig(again); err != nil || other != c {
				t.Fatalf("%+v is described as %s, which is %+v; %v", c, again, other, err)
			}
		}
	})
}

var update = flag.Bool("update", false, "write the folder of testdata")

// TestExample: the committed folder, which documents explain, is what is written today.
func TestExample(t *testing.T) {
	t.Parallel()
	c := networks()["qwen3_moe"]
	c.Storage, c.Rope = "bf16", model.Rope{Kind: "yarn", Factor: 2, Original: 8, Fast: 32, Slow: 1, Amplitude: 1.0693147180559945}
	path := write(t, c, huggingface.WriteOptions{})
	generation := `{"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "eos_token_id": [1, 2], "repetition_penalty": 1.05}` + "\n"
	if err := os.WriteFile(filepath.Join(path, "generation_config.json"), []byte(generation), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"config.json", "generation_config.json", "model.safetensors"} {
		want, err := os.ReadFile(filepath.Join(path, name))
		if err != nil {
			t.Fatal(err)
		}
		committed := filepath.Join("testdata", "qwen3_moe", name)
		if *update {
			os.MkdirAll(filepath.Dir(committed), 0o777)
			if err := os.WriteFile(committed, want, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(committed); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is out of date: go test ./model/huggingface -run TestExample -update; %v", committed, err)
		}
	}
}
