package huggingface_test

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/internal/tool"
	"tokitai/model"
	"tokitai/model/huggingface"
	"tokitai/num"
	"tokitai/tensor/safetensors"
)

// fp8Folders has testdata/fp8.py write its folders.
func fp8Folders(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "folders")
	python := tool.Need(t, "python3")
	if text, err := exec.Command(python, "testdata/fp8.py", out).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// TestFP8 reads folders that a script has written as people's tools write them, by every name that scales have. Package
// model compares what their layers compute.
func TestFP8(t *testing.T) {
	t.Parallel()
	out := fp8Folders(t)
	for name, want := range map[string]model.FP8{
		"tensor":  {Scales: "rows", Except: inLayer1("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")},
		"static":  {Scales: "rows", IsStatic: true, Except: model.NamesOf("model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj")},
		"channel": {Scales: "rows", Except: inLayer1("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")},
		"blocks":  {Scales: "blocks"},

		"transformers": {Scales: "rows", IsStatic: true}, // the names that it writes

		"experts_tensor":  {Scales: "rows", Except: model.NamesOf("model.layers.0.mlp.experts.up_proj", "model.layers.1.mlp.up_proj")},
		"experts_static":  {Scales: "rows", IsStatic: true},
		"experts_channel": {Scales: "rows", Except: inLayer1("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")},
		"experts_blocks":  {Scales: "blocks"},

		"compressed_blocks": {Scales: "blocks"},
		"compressed":        {Scales: "rows", IsStatic: true, Except: inLayer1("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")},
	} {
		path := filepath.Join(out, name)
		f, err := huggingface.Open(path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		defer f.Close()
		if w, err := f.Load(cpu.Queue().Device()); err != nil {
			t.Errorf("%s: %v", name, err)
		} else {
			w.Close()
		}
		if f.Config.FP8 != want {
			t.Errorf("%s: %+v, want %+v", name, f.Config.FP8, want)
		}
		if err := f.Write(filepath.Join(t.TempDir(), "again"), f.Bytes, huggingface.WriteOptions{}); err == nil {
			t.Errorf("%s: it is written, and config.json then is of something else", name)
		}
	}
}

func inLayer1(names ...string) model.Names {
	for i, n := range names {
		names[i] = "model.layers.1." + n
	}
	return model.NamesOf(names...)
}

// TestBrokenFP8 has folders that ask for what is not supported, or contradict themselves: each is refused with the cause.
func TestBrokenFP8(t *testing.T) {
	t.Parallel()
	out := fp8Folders(t)
	quantized := func(member string, value any) func(config map[string]any, file *safetensors.File) {
		return func(config map[string]any, _ *safetensors.File) {
			config["quantization_config"].(map[string]any)[member] = value
		}
	}
	group := func(part, member string, value any) func(config map[string]any, file *safetensors.File) {
		return func(config map[string]any, _ *safetensors.File) {
			groups := config["quantization_config"].(map[string]any)["config_groups"].(map[string]any)["group_0"].(map[string]any)
			if member == "" {
				groups[part] = value
				return
			}
			groups[part].(map[string]any)[member] = value
		}
	}
	const (
		scale       = "model.layers.0.mlp.up_proj.weight_scale"
		expertScale = "model.layers.0.mlp.experts.1.down_proj.weight_scale"
	)
	tensorOf := func(name string, change func(e *safetensors.Entry)) func(map[string]any, *safetensors.File) {
		return func(_ map[string]any, file *safetensors.File) {
			for i := range file.Entries {
				if file.Entries[i].Name == name {
					change(&file.Entries[i])
				}
			}
		}
	}
	number := func(v float64) func(e *safetensors.Entry) {
		return func(e *safetensors.Entry) { e.Data = num.ArrayOf(num.F32, 1, 1, float32(v)).Data }
	}
	for _, c := range []struct {
		folder, want string
		change       func(config map[string]any, file *safetensors.File)
	}{
		{"tensor", `the weights are quantised by "gptq", which is not supported`, quantized("quant_method", "gptq")},
		{"tensor", `the weights are quantised by "awq", which is not supported`, quantized("quant_method", "awq")},
		{"tensor", `the weights are quantised by "bitsandbytes", which is not supported`, quantized("quant_method", "bitsandbytes")},
		{"tensor", `the weights are quantised by "mxfp4", which is not supported`, quantized("quant_method", "mxfp4")},
		{"tensor", `the weights are quantised by "fbgemm_fp8", which is not supported`, quantized("quant_method", "fbgemm_fp8")},
		{"tensor", `the weights are quantised by "modelopt", which is not supported`, quantized("quant_method", "modelopt")},
		{"tensor", "quantization_config has no quant_method", func(config map[string]any, _ *safetensors.File) {
			delete(config["quantization_config"].(map[string]any), "quant_method")
		}},
		{"tensor", `quantization_config.fmt is "e5m2", which is not supported`, quantized("fmt", "e5m2")},
		{"tensor", `quantization_config.scale_fmt is "ue8m0", which is not supported`, quantized("scale_fmt", "ue8m0")},
		{"tensor", `quantization_config.expert_dtype is "fp4", which is not supported`, quantized("expert_dtype", "fp4")},
		{"transformers", `scale "model.layers.1.mlp.up_proj.activation_scale" is [3], want one number`, tensorOf("model.layers.1.mlp.up_proj.activation_scale", func(e *safetensors.Entry) {
			e.Shape, e.Data = []int{3}, make([]byte, 12)
		})},
		{"transformers", "activation_scale\" has 0 at 0, want numbers above 0", tensorOf("model.layers.1.mlp.up_proj.activation_scale", number(0))},
		{"static", "1 scales belong to nothing that is scaled by config.json: model.layers.1.mlp.up_proj.activation_scale", func(_ map[string]any, file *safetensors.File) {
			file.Entries = append(file.Entries, safetensors.Entry{Name: "model.layers.1.mlp.up_proj.activation_scale", DType: num.F32, Shape: []int{}, Data: make([]byte, 4)})
		}},
		{"tensor", "quantization_config.weight_block_size is [64 64], which is not supported: want [128 128]", quantized("weight_block_size", []int{64, 64})},
		{"tensor", `quantization_config.activation_scheme is "none", want dynamic or static`, quantized("activation_scheme", "none")},
		{"tensor", "quantization_config.modules_to_convert is a field that is not known here", quantized("modules_to_convert", []string{})},
		{"tensor", `quantization_config is "fp8", want an object`, func(config map[string]any, _ *safetensors.File) { config["quantization_config"] = "fp8" }},
		{"channel", `weights.type is "int", which is not supported: FP8 alone is`, group("weights", "type", "int")},
		{"channel", "weights.num_bits is 4, which is not supported: FP8 alone is", group("weights", "num_bits", 4)},
		{"channel", `weights.strategy is "group", which is not supported`, group("weights", "strategy", "group")},
		{"channel", "input_activations is missing: want FP8 for weights and for their inputs", group("input_activations", "", nil)},
		{"channel", `input_activations.strategy is "tensor" and dynamic true, want`, group("input_activations", "strategy", "tensor")},
		{"channel", `targets is ["Embedding"], want Linear`, group("targets", "", []string{"Embedding"})},
		{"channel", `quantization_config.format is "int-quantized", which is not supported`, quantized("format", "int-quantized")},
		{"channel", "quantization_config.kv_cache_scheme is an object, which is not supported", quantized("kv_cache_scheme", map[string]any{"num_bits": 8})},
		{"channel", `quantization_config.ignore has the pattern "(?=q)", which is not supported`, quantized("ignore", []string{"re:(?=q)"})},
		{"tensor", "1 tensors that config.json asks for are missing: " + scale, tensorOf(scale, func(e *safetensors.Entry) { e.Name = "model.layers.0.mlp.up_proj.bias_scale" })},
		{"static", "6 tensors that config.json asks for are missing", func(config map[string]any, file *safetensors.File) {
			var rest []safetensors.Entry
			for _, e := range file.Entries {
				if !strings.HasPrefix(e.Name, "model.layers.0.") || !strings.HasSuffix(e.Name, model.InputScale) {
					rest = append(rest, e)
				}
			}
			file.Entries = rest
		}},
		{"static", "scales belong to nothing that is scaled by config.json", quantized("activation_scheme", "dynamic")},
		{"tensor", "scale \"" + scale + "\" is [3], want one number, or one for each of 12 rows", tensorOf(scale, func(e *safetensors.Entry) {
			e.Shape, e.Data = []int{3}, make([]byte, 12)
		})},
		{"tensor", "scale \"" + scale + "\" is I32, which is not supported", tensorOf(scale, func(e *safetensors.Entry) { e.DType = num.I32 })},
		{"tensor", "scale \"" + scale + "\" has NaN at 0, want numbers above 0", tensorOf(scale, number(math.NaN()))},
		{"tensor", "has 0 at 0, want numbers above 0", tensorOf(scale, number(0))},
		{"tensor", "has -1 at 0, want numbers above 0", tensorOf(scale, number(-1))},
		{"tensor", "has +Inf at 0, want numbers above 0", tensorOf(scale, number(math.Inf(1)))},
		{"static", "has 0 at 0, want numbers above 0", func(_ map[string]any, file *safetensors.File) { // their product underflows
			for i := range file.Entries {
				if strings.HasPrefix(file.Entries[i].Name, "model.layers.0.mlp.up_proj.") && strings.HasSuffix(file.Entries[i].Name, "_scale") {
					number(1e-30)(&file.Entries[i])
				}
			}
		}},
		{"static", "input_scale\" has 0 at 0, want numbers above 0", tensorOf("model.layers.1.mlp.up_proj.input_scale", number(0))},
		{"tensor", `tensor "model.layers.0.mlp.up_proj.weight" is F8_E5M2, and by quantization_config of config.json F8_E4M3`,
			tensorOf("model.layers.0.mlp.up_proj.weight", func(e *safetensors.Entry) { e.DType = num.E5M2 })},
		{"tensor", `and by config.json its layer is not quantised`, quantized("ignored_layers", []string{"layers.0.mlp.up_proj", "model.layers.1.mlp"})},
		{"blocks", `up_proj.weight_scale_inv" is [1], want [2 2]: one for each block`, tensorOf("model.layers.0.mlp.up_proj.weight_scale_inv", func(e *safetensors.Entry) {
			e.Shape, e.Data = []int{1}, e.Data[:4]
		})},
		{"blocks", "has -1 at 0, want numbers above 0", tensorOf("model.layers.0.mlp.up_proj.weight_scale_inv", func(e *safetensors.Entry) {
			copy(e.Data, num.ArrayOf(num.F32, 1, 1, -1).Data)
		})},
		{"blocks", "fp8.static and fp8.scales blocks", quantized("activation_scheme", "static")},
		{"compressed_blocks", "weights.block_structure is [64 128], which is not supported: want [128 128]", group("weights", "block_structure", []int{64, 128})},
		{"compressed_blocks", "input_activations.group_size is 64, which is not supported", group("input_activations", "group_size", 64)},
		{"tensor", `tensor "model.layers.1.mlp.gate_proj.weight" is BF16, and by quantization_config of config.json F8_E4M3`, quantized("ignored_layers", nil)},
		{"tensor", "the weights of GPT-2 are stored transposed, which is not supported in FP8", func(config map[string]any, _ *safetensors.File) {
			quantization := config["quantization_config"]
			clear(config)
			maps.Copy(config, map[string]any{"model_type": "gpt2", "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 64, "vocab_size": 257, "quantization_config": quantization})
		}},
		{"tensor", "quantization_config.kv_cache_quant_method is \"fp8\", which is not supported: keys and values are stored like activations", quantized("kv_cache_quant_method", "fp8")},
		{"tensor", "quantization_config.dequantize is true, which is not supported: weights are multiplied as they are stored", quantized("dequantize", true)},
		{"experts_tensor", "quantization_config leaves 1 of the 3 experts of model.layers.0.mlp.experts.down_proj as they are, which is not supported: want all or none", quantized("modules_to_not_convert", []string{"model.layers.0.mlp.experts.1.down_proj"})},
		{"experts_tensor", "1 tensors that config.json asks for are missing: " + expertScale, tensorOf(expertScale, func(e *safetensors.Entry) { e.Name += "s" })},
		{"experts_tensor", "scale \"" + expertScale + "\" is [3], want one number, or one for each of 8 rows", tensorOf(expertScale, func(e *safetensors.Entry) {
			e.Shape, e.Data = []int{3}, make([]byte, 12)
		})},
		{"experts_tensor", "scale \"" + expertScale + "\" has -1 at 0, want numbers above 0", tensorOf(expertScale, number(-1))},
		{"experts_tensor", `tensor "model.layers.0.mlp.experts.0.down_proj.weight" is F8_E4M3, and by config.json its layer is not quantised`, quantized("modules_to_not_convert", []string{"down_proj", "up_proj"})},
		{"experts_static", "experts.2.up_proj.input_scale\" has 0 at 0, want numbers above 0", tensorOf("model.layers.0.mlp.experts.2.up_proj.input_scale", number(0))},
		{"experts_blocks", `gate_proj.weight_scale_inv" is [1], want [2 2]: one for each block`, tensorOf("model.layers.0.mlp.experts.2.gate_proj.weight_scale_inv", func(e *safetensors.Entry) {
			e.Shape, e.Data = []int{1}, e.Data[:4]
		})},
		{"experts_tensor", "experts of a layer in one tensor: these are not supported in FP8", tensorOf("model.layers.0.mlp.experts.0.down_proj.weight", func(e *safetensors.Entry) {
			e.Name = "model.layers.0.mlp.experts.gate_up_proj"
		})},
		{"experts_tensor", `tensor "model.layers.0.mlp.gate.weight" is F8_E4M3, and by config.json its layer is not quantised`, tensorOf("model.layers.0.mlp.gate.weight", func(e *safetensors.Entry) {
			e.DType, e.Data = num.E4M3, e.Data[:len(e.Data)/2]
		})},
	} {
		path := filepath.Join(t.TempDir(), "broken")
		if err := os.MkdirAll(path, 0o777); err != nil {
			t.Fatal(err)
		}
		file, err := safetensors.ReadFile(filepath.Join(out, c.folder, "model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(out, c.folder, "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		var config map[string]any
		if err := json.Unmarshal(text, &config); err != nil {
			t.Fatal(err)
		}
		c.change(config, file)
		if text, err = json.Marshal(config); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "config.json"), text, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := safetensors.WriteFile(filepath.Join(path, "model.safetensors"), file); err != nil {
			t.Fatal(err)
		}
		f, err := huggingface.Open(path)
		if err == nil {
			var w *huggingface.Weights
			if w, err = f.Load(cpu.Queue().Device()); err == nil {
				w.Close()
			}
			f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", c.folder, err, c.want)
		}
	}
}
