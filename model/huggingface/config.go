package huggingface

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tokitai/internal/jsontree"
	"tokitai/model"
	"tokitai/num"
	"tokitai/num/ball"
)

// Family is a kind of network that transformers has a class for.
type Family struct {
	Type  string // model_type of config.json
	Class string // its class for text generation
	read  func(f *fields) model.Config
}

// Families lists what can be read.
var Families = []*Family{
	{"llama", "LlamaForCausalLM", llama},
	{"mistral", "MistralForCausalLM", mistral},
	{"qwen2", "Qwen2ForCausalLM", qwen2},
	{"qwen3", "Qwen3ForCausalLM", qwen3},
	{"qwen3_moe", "Qwen3MoeForCausalLM", qwen3Mixture},
	{"olmo2", "Olmo2ForCausalLM", olmo2},
	{"olmoe", "OlmoeForCausalLM", olmoe},
	{"gpt2", "GPT2LMHeadModel", gpt2},
	{"gemma2", "Gemma2ForCausalLM", gemma2},
}

func familyOf(modelType string) *Family {
	for _, f := range Families {
		if f.Type == modelType {
			return f
		}
	}
	return nil
}

// ParseConfig reads the text of a config.json. Storage is that of the field dtype or torch_dtype, "" if it
// has none.
func ParseConfig(text []byte) (*Family, model.Config, error) {
	object, err := parseObject(text)
	if err != nil {
		return nil, model.Config{}, err
	}
	return readConfig(object)
}

func readConfig(object *jsontree.Value) (*Family, model.Config, error) {
	f := newFields(object, "")
	name := f.text("model_type", "")
	family := familyOf(name)
	if f.err == nil && family == nil {
		var known []string
		for _, x := range Families {
			known = append(known, x.Type)
		}
		f.fail("model_type is %q, want one of %s", name, strings.Join(known, ", "))
	}
	if f.err != nil {
		return nil, model.Config{}, f.err
	}
	common(f, family)
	c := family.read(f)
	if f.err == nil && c.Layers > maxLayers {
		f.fail("%d layers, want at most %d", c.Layers, maxLayers)
	}
	if c.Storage = f.storage(); c.Storage == "f32" {
		c.Storage = ""
	}
	f.quantization(&c, family)
	if err := f.end(); err != nil {
		return nil, model.Config{}, err
	}
	return family, c, c.Check()
}

// common reads what all families have and what changes no network.
func common(f *fields, family *Family) {
	f.must("compression_config", "quantization_config is where it is read")
	f.must("auto_map", "the folder brings code of its own, which is not run", "{}")
	f.must("is_encoder_decoder", "it is no decoder", "false")
	f.must("add_cross_attention", "nothing is there to attend to", "false")
	f.must("cross_attention_hidden_size", "nothing is there to attend to")
	f.must("pruned_heads", "weights have all heads", "{}")
	f.must("per_layer_config", "layers differ by windows and experts alone")
	for _, class := range f.texts("architectures") {
		if class != family.Class {
			f.fail("architectures has %s, want %s: a network that predicts tokens", class, family.Class)
		}
	}
	f.ignore(
		"transformers_version", "_name_or_path", "name_or_path", "_commit_hash", // where it comes from
		"use_cache", "cache_implementation", "return_dict", "return_dict_in_generate", "torchscript", "tf_legacy_loss", "use_bfloat16", // how Python calls it
		"attn_implementation", "_attn_implementation", "_attn_implementation_autoset", "experts_implementation", "output_attentions", "output_hidden_states", "output_scores", "chunk_size_feed_forward", "is_decoder", "tie_encoder_decoder", "decoder_start_token_id",
		"initializer_range", "attention_dropout", "hidden_dropout", "router_aux_loss_coef", "output_router_logits", "pretraining_tp", // training
		"id2label", "label2id", "num_labels", "problem_type", "finetuning_task", "task_specific_params", "tokenizer_class", "prefix", "unsloth_version", "unsloth_fixed", // other tasks
		"bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", // see Generation
	)
	f.ignore(generationFields...) // transformers leaves them to generation_config.json too
}

// storage returns the format that dtype or torch_dtype names; "" for none.
func (f *fields) storage() string {
	formats := map[string]string{"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
	storage := ""
	for _, name := range []string{"torch_dtype", "dtype"} {
		given := strings.TrimPrefix(f.text(name, "auto"), "torch.")
		if given == "auto" {
			continue
		}
		format, ok := formats[given]
		switch {
		case !ok:
			f.fail("%s is %q, want float32, bfloat16 or float16", name, given)
		case storage != "" && storage != format:
			f.fail("dtype is %s and torch_dtype another format, want one of them", given)
		}
		storage = format
	}
	return storage
}

// formatName returns the name that configurations have for a storage format.
func formatName(d num.DType) string {
	return map[num.DType]string{num.F32: "float32", num.BF16: "bfloat16", num.F16: "float16"}[d]
}

// usual are the values that a family has for fields that are missing.
type usual struct {
	block, kvHeads int // kvHeads: 0 for as many as heads
	headWidth      int // 0 for width/heads
	eps            float64
	isTied         bool
	act            string // the name of the field of the activation
}

// decoder reads what all families but GPT-2 have.
func decoder(f *fields, u usual) model.Config {
	c := model.Config{
		Vocabulary: f.needed("vocab_size"), Block: f.size("max_position_embeddings", u.block), Layers: f.needed("num_hidden_layers"),
		Width: f.needed("hidden_size"), Heads: f.needed("num_attention_heads"), Hidden: f.needed("intermediate_size"),
		Norm: "rms", Positions: "rope", Eps: f.number("rms_norm_eps", u.eps), Tied: f.bool("tie_word_embeddings", u.isTied),
	}
	heads := c.Heads
	if u.kvHeads > 0 && !f.has("num_key_value_heads") {
		heads = u.kvHeads
	}
	c.KVHeads = f.size("num_key_value_heads", heads)
	width := 0
	if u.headWidth > 0 && !f.has("head_dim") {
		width = u.headWidth
	}
	if c.HeadWidth = f.size("head_dim", width); c.HeadWidth*c.Heads == c.Width {
		c.HeadWidth = 0
	}
	act := "hidden_act"
	if u.act != "" {
		act = u.act
	}
	c.FeedForward = f.activation(act, "silu", map[string]string{
		"silu": "swiglu", "swish": "swiglu", "gelu_pytorch_tanh": "geglu", "gelu_new": "geglu", "gelu": "geglu.erf",
	})
	if f.err == nil && c.HeadWidth == 0 && c.Width%c.Heads != 0 {
		f.fail("hidden_size is %d and num_attention_heads %d, want a multiple of it, or head_dim", c.Width, c.Heads)
	}
	f.rope(&c)
	return c
}

func (f *fields) activation(field, otherwise string, known map[string]string) string {
	name := f.text(field, otherwise)
	kind, ok := known[name]
	if !ok {
		var names []string
		for n := range known {
			names = append(names, n)
		}
		slices.Sort(names)
		f.fail("%s is %q, want %s", field, name, strings.Join(names, ", "))
	}
	return kind
}

func llama(f *fields) model.Config {
	c := decoder(f, usual{block: 2048, eps: 1e-6})
	c.QKVBias = f.bool("attention_bias", false)
	c.OutBias = c.QKVBias
	c.HiddenBias = f.bool("mlp_bias", false)
	return c
}

func mistral(f *fields) model.Config {
	c := decoder(f, usual{block: 4096 * 32, kvHeads: 8, eps: 1e-6})
	f.must("layer_types", "the class Mistral has one kind of layers", "[]")
	window := 4096
	if f.has("sliding_window") {
		window = f.size("sliding_window", 0)
	}
	if window > 0 {
		c.Windows = everywhere(c.Layers, window)
	}
	return c
}

// maxLayers limits the time and memory that a wrong configuration takes before a tensor is found missing.
const maxLayers = 4096

func everywhere(layers, window int) model.Numbers {
	return model.NumbersOf(slices.Repeat([]int{window}, min(layers, maxLayers))...)
}

func qwen2(f *fields) model.Config {
	c := decoder(f, usual{block: 32768, kvHeads: 32, eps: 1e-6})
	c.QKVBias = true
	f.qwenWindows(&c)
	return c
}

func qwen3(f *fields) model.Config {
	c := decoder(f, usual{block: 32768, kvHeads: 32, headWidth: 128, eps: 1e-6})
	c.HeadNorm = "each"
	c.QKVBias = f.bool("attention_bias", false)
	c.OutBias = c.QKVBias
	f.qwenWindows(&c)
	return c
}

// qwenWindows reads which layers of Qwen 2 and 3 have a window.
func (f *fields) qwenWindows(c *model.Config) {
	isUsed, from := f.bool("use_sliding_window", false), 28
	window := 4096
	if f.has("sliding_window") {
		window = f.size("sliding_window", 0)
	}
	if v := f.get("max_window_layers"); v != nil && v.Text == "0" {
		from = 0
	} else {
		from = f.size("max_window_layers", from)
	}
	if !isUsed {
		window = 0
	}
	f.windows(c, window, func(i int) bool { return window > 0 && i >= from })
}

// windows sets the windows of layers by layer_types, or, where there is no such field, by a rule.
func (f *fields) windows(c *model.Config, window int, has func(layer int) bool) {
	list, types := make([]int, min(c.Layers, maxLayers)), f.texts("layer_types")
	if f.err != nil {
		return
	}
	if f.get("layer_types") != nil && len(types) != c.Layers {
		f.fail("layer_types has %d layers and num_hidden_layers is %d", len(types), c.Layers)
		return
	}
	any := false
	for i := range list {
		isWindowed := has(i)
		if types != nil {
			switch types[i] {
			case "full_attention":
				isWindowed = false
			case "sliding_attention":
				isWindowed = true
			default:
				f.fail("layer_types has %q, want full_attention or sliding_attention", types[i])
			}
		}
		if isWindowed && window == 0 {
			f.fail("layer %d has sliding_attention, and no sliding_window is set and in use", i)
		}
		if isWindowed {
			list[i], any = window, true
		}
	}
	if any {
		c.Windows = model.NumbersOf(list...)
	}
}

func qwen3Mixture(f *fields) model.Config {
	c := decoder(f, usual{block: 32768, kvHeads: 4, eps: 1e-6})
	c.HeadNorm = "each"
	c.QKVBias = f.bool("attention_bias", false)
	c.OutBias = c.QKVBias
	f.ignore("max_window_layers") // the class has windows in all layers or in none
	window := 4096
	if f.has("sliding_window") {
		window = f.size("sliding_window", 0)
	}
	if f.bool("use_sliding_window", false) && window > 0 {
		c.Windows = everywhere(c.Layers, window)
	}
	c.Mixture = f.mixture(128)
	c.Mixture.Hidden = f.size("moe_intermediate_size", 768)
	step, dense := f.size("decoder_sparse_step", 1), f.integers("mlp_only_layers")
	var without []int
	for i := range min(c.Layers, maxLayers) {
		if slices.Contains(dense, i) || (i+1)%step != 0 {
			without = append(without, i)
		}
	}
	if len(without) == c.Layers {
		c.Mixture = model.Mixture{}
	} else {
		c.Mixture.Dense = model.NumbersOf(without...)
	}
	return c
}

// biasField says that routers have biases, and by how much a step of training moves them. transformers knows neither the
// field nor the biases in these classes.
const biasField = "router_bias_update_rate"

// mixture reads the fields that mixtures have in common.
func (f *fields) mixture(experts int) model.Mixture {
	names := []string{"num_experts", "num_local_experts"}
	if a, b := f.size(names[0], 0), f.size(names[1], 0); a > 0 && b > 0 && a != b {
		f.fail("%s is %d and %s %d, want one number", names[0], a, names[1], b)
	} else if max(a, b) > 0 {
		experts = max(a, b)
	}
	m := model.Mixture{Experts: experts, PerToken: f.size("num_experts_per_tok", 8), IsNormalised: f.bool("norm_topk_prob", false), Balance: f.number(biasField, 0)}
	if m.PerToken > m.Experts {
		f.fail("num_experts_per_tok is %d of %d experts", m.PerToken, m.Experts)
	}
	return m
}

func olmo2(f *fields) model.Config {
	c := decoder(f, usual{block: 2048, eps: 1e-5})
	c.NormPlace, c.HeadNorm = "after", "all"
	c.QKVBias = f.bool("attention_bias", false)
	c.OutBias = c.QKVBias
	return c
}

func olmoe(f *fields) model.Config {
	c := decoder(f, usual{block: 4096, eps: 1e-5})
	c.HeadNorm = "all"
	c.QKVBias = f.bool("attention_bias", false)
	c.OutBias = c.QKVBias
	f.must("clip_qkv", "queries, keys and values are not clipped here")
	c.Mixture = f.mixture(64)
	c.Mixture.Hidden = c.Hidden
	return c
}

func gemma2(f *fields) model.Config {
	c := decoder(f, usual{block: 8192, kvHeads: 4, headWidth: 256, eps: 1e-6, isTied: true, act: "hidden_activation"})
	if !f.has("hidden_activation") {
		f.must("hidden_act", "the class has gelu_pytorch_tanh, or hidden_activation", `"gelu_pytorch_tanh"`)
		c.FeedForward = "geglu"
	}
	if old := f.text("hidden_act", ""); old != "" && f.has("hidden_activation") && old != f.text("hidden_activation", "") {
		f.fail("hidden_act is %q and hidden_activation %q, want one of them", old, f.text("hidden_activation", ""))
	}
	f.must("use_bidirectional_attention", "a token sees those before it alone", "false")
	c.Norm, c.NormPlace = "rms1", "both"
	c.QKVBias = f.bool("attention_bias", false)
	c.OutBias = c.QKVBias
	c.EmbedScale = math.Sqrt(float64(c.Width))
	if scalar := f.number("query_pre_attn_scalar", 256); scalar > 0 {
		c.AttentionScale = 1 / math.Sqrt(scalar)
	} else {
		f.fail("query_pre_attn_scalar is %v, want a number above 0", scalar)
	}
	c.AttentionCap = f.cap("attn_logit_softcapping", 50)
	c.LogitCap = f.cap("final_logit_softcapping", 30)
	window := 4096
	if f.has("sliding_window") {
		window = f.size("sliding_window", 0)
	}
	f.windows(&c, window, func(i int) bool { return i%2 == 0 })
	return c
}

// cap reads the bound of a soft cap; null is none.
func (f *fields) cap(name string, otherwise float64) float64 {
	if f.has(name) {
		otherwise = 0
	}
	x := f.number(name, otherwise)
	if f.get(name) != nil && x <= 0 {
		f.fail("%s is %v, want a number above 0, or null for none", name, x)
	}
	return x
}

func gpt2(f *fields) model.Config {
	// either reads a size by the names of GPT-2 and of other families.
	either := func(name, other string, otherwise int) int {
		if f.get(name) != nil && f.get(other) != nil && f.size(name, 0) != f.size(other, 0) {
			f.fail("%s is %d and %s %d, want one number", name, f.size(name, 0), other, f.size(other, 0))
		}
		return f.size(name, f.size(other, otherwise))
	}
	c := model.Config{
		Vocabulary: f.needed("vocab_size"), Block: either("n_positions", "max_position_embeddings", 1024), Layers: either("n_layer", "num_hidden_layers", 12),
		Width: either("n_embd", "hidden_size", 768), Heads: either("n_head", "num_attention_heads", 12),
		Norm: "layer", Positions: "learned", Bias: true, Eps: f.number("layer_norm_epsilon", 1e-5), Tied: f.bool("tie_word_embeddings", true),
	}
	c.KVHeads, c.Hidden = c.Heads, f.size("n_inner", min(4*c.Width, math.MaxInt32))
	c.FeedForward = f.activation("activation_function", "gelu_new", map[string]string{
		"gelu_new": "gelu", "gelu_pytorch_tanh": "gelu", "gelu_fast": "gelu", "gelu": "gelu.erf",
	})
	if n := f.size("n_ctx", c.Block); n != c.Block {
		f.fail("n_ctx is %d and n_positions %d, want one number", n, c.Block)
	}
	if !f.bool("scale_attn_weights", true) {
		c.AttentionScale = 1
	}
	f.must("scale_attn_by_inverse_layer_idx", "the scale is the same in all layers", "false")
	f.ignore("reorder_and_upcast_attn") // scores are in binary32 anyway
	f.ignore("resid_pdrop", "embd_pdrop", "attn_pdrop", "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "summary_first_dropout", "gradient_checkpointing")
	if f.err == nil && c.Width%c.Heads != 0 {
		f.fail("n_embd is %d and n_head %d, want a multiple of it", c.Width, c.Heads)
	}
	return c
}

// rope reads the angles of positions, in either spelling.
func (f *fields) rope(c *model.Config) {
	c.RopeBase = f.number("rope_theta", 10000)
	f.must("partial_rotary_factor", "all of a head is turned", "1")
	old, scaling := f.get("rope_scaling"), f.get("rope_parameters")
	if scaling == nil {
		scaling = old
	} else if old != nil {
		f.fail("rope_scaling and rope_parameters are both there, want one of them")
	}
	original := f.size("original_max_position_embeddings", 0)
	if scaling == nil || f.err != nil {
		return
	}
	if scaling.Kind != jsontree.Object {
		f.wrong("rope_parameters", scaling, "an object")
		return
	}
	within := "rope_parameters."
	if old != nil {
		within = "rope_scaling."
	}
	r := newFields(scaling, within)
	for _, m := range scaling.Members {
		if m.Value.Kind == jsontree.Object {
			r.fail("%s%s is an object, which is not supported: all layers turn by the same angles", within, m.Name)
		}
	}
	c.RopeBase = r.number("rope_theta", c.RopeBase)
	if f.get("rope_theta") != nil && r.get("rope_theta") != nil && f.number("rope_theta", 0) != c.RopeBase {
		f.fail("rope_theta is %v, and in %s %v", f.number("rope_theta", 0), strings.TrimSuffix(within, "."), c.RopeBase)
	}
	r.must("partial_rotary_factor", "all of a head is turned", "1")
	kind := r.text("rope_type", r.text("type", "default"))
	if t := r.text("type", kind); t != kind {
		r.fail("%srope_type is %q and type %q, want one of them", within, kind, t)
	}
	length := func() int {
		const name = "original_max_position_embeddings"
		switch {
		case original == 0:
			return r.size(name, c.Block)
		case r.size(name, original) != original:
			r.fail("%s%s is %d, and outside of it %d, want one number", within, name, r.size(name, original), original)
		case kind == "yarn" && old != nil && r.get(name) == nil && original != c.Block:
			r.fail("%s is %d, which version 5 of transformers takes for yarn, and version 4 does not: want it in rope_scaling", name, original)
		}
		return original
	}
	s := model.Rope{Kind: kind}
	switch kind {
	case "default":
		s.Kind = ""
	case "linear":
		s.Factor = r.number("factor", 0)
	case "dynamic":
		s.Factor, s.Original = r.number("factor", 0), c.Block
		if n := r.size("original_max_position_embeddings", c.Block); n != c.Block {
			r.fail("%soriginal_max_position_embeddings is %d and max_position_embeddings %d, want one number for rope_type dynamic", within, n, c.Block)
		}
	case "llama3":
		s.Factor, s.Original, s.Low, s.High = r.number("factor", 0), length(), r.number("low_freq_factor", 0), r.number("high_freq_factor", 0)
	case "yarn":
		s.Original = length()
		s.Factor = r.number("factor", float64(c.Block)/float64(s.Original))
		s.Fast, s.Slow = r.orWhereZero("beta_fast", 32), r.orWhereZero("beta_slow", 1)
		s.IsUncut = !r.bool("truncate", true)
		s.Amplitude = r.amplitude(s.Factor)
	case "longrope":
		s.Original = length()
		if len(r.numbers("long_factor")) == 0 {
			r.fail("%slong_factor is missing", within)
		}
		s.Short = model.NumbersOf(r.numbers("short_factor")...)
		s.Factor = max(1, r.number("factor", float64(c.Block)/float64(s.Original)))
		s.Amplitude = r.number("attention_factor", longAmplitude(s.Factor, s.Original))
		if old != nil && r.get("attention_factor") == nil {
			r.amplitudesOfVersions(s, original, c.Block)
		}
		c.Block = min(c.Block, s.Original)
	default:
		r.fail("%srope_type is %q, want default, linear, dynamic, llama3, yarn or longrope", within, kind)
	}
	c.Rope = s
	if err := r.end(); err != nil {
		f.fail("%w", err)
	}
}

func (f *fields) orWhereZero(name string, otherwise float64) float64 {
	if x := f.number(name, otherwise); x != 0 {
		return x
	}
	return otherwise
}

// amplitude returns the factor of cosines and sines of yarn.
func (f *fields) amplitude(factor float64) float64 {
	scale := func(by float64) float64 {
		if factor <= 1 {
			return 1
		}
		return 0.1*by*logarithm(factor) + 1
	}
	all, one := f.number("mscale_all_dim", 0), f.number("mscale", 0)
	otherwise := scale(1)
	if all != 0 && one != 0 {
		otherwise = scale(one) / scale(all)
	}
	return f.number("attention_factor", otherwise)
}

// longAmplitude returns that of longrope.
func longAmplitude(factor float64, original int) float64 {
	if factor <= 1 || original < 2 {
		return 1
	}
	return math.Sqrt(1 + logarithm(factor)/logarithm(float64(original)))
}

// amplitudesOfVersions refuses settings of longrope that version 4 of transformers reads as another amplitude than version 5: a
// length that stands outside of them replaces the factor there, and one that stands inside is not read.
func (f *fields) amplitudesOfVersions(s model.Rope, outside, block int) {
	factor, length := s.Factor, block
	if outside > 0 {
		factor, length = float64(block)/float64(outside), outside
	} else if f.get("factor") == nil {
		return // version 4 refuses it
	}
	if four := longAmplitude(factor, length); four != s.Amplitude {
		f.fail("%sattention_factor is missing, and by the other fields it is %v in version 4 of transformers, and %v in version 5: want it in the file", f.within, four, s.Amplitude)
	}
}

// logarithm returns the natural logarithm, rounded once.
func logarithm(x float64) float64 {
	v, _ := ball.NewBig(x, 160).Log().Mid().Float64()
	return v
}

// errorIn adds the path of a file to an error.
func errorIn(path string, err error) error {
	if err == nil {
		return nil
	}
	return &FormatError{path, fmt.Errorf("%w", err)}
}
