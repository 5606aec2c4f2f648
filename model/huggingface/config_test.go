package huggingface_test

import (
	"math"
	"testing"

	"tokitai/model"
	"tokitai/model/huggingface"
)

// TestKnown reads configurations with the fields that those of models which people use have.
func TestKnown(t *testing.T) {
	t.Parallel()
	rms := model.Config{Norm: "rms", Positions: "rope", FeedForward: "swiglu", Storage: "bf16"}
	for name, test := range map[string]struct {
		text string
		want func(c *model.Config)
	}{
		"Llama 3.1": {`{"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
			"intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
			"rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
			"transformers_version": "4.42.3", "use_cache": true, "vocab_size": 128256}`,
			func(c *model.Config) {
				c.Vocabulary, c.Block, c.Layers, c.Width, c.Heads, c.KVHeads, c.Hidden, c.RopeBase, c.Eps = 128256, 131072, 32, 4096, 32, 8, 14336, 500000, 1e-5
				c.Rope = model.Rope{Kind: "llama3", Factor: 8, Original: 8192, Low: 1, High: 4}
			}},
		"Mistral 7B": {`{"architectures": ["MistralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 32768,
			"model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
			"transformers_version": "4.42.0.dev0", "use_cache": true, "vocab_size": 32768}`,
			func(c *model.Config) {
				c.Vocabulary, c.Block, c.Layers, c.Width, c.Heads, c.KVHeads, c.Hidden, c.RopeBase, c.Eps = 32768, 32768, 32, 4096, 32, 8, 14336, 1e6, 1e-5
			}},
		"Qwen 2.5": {`{"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02, "intermediate_size": 4864,
			"max_position_embeddings": 32768, "max_window_layers": 21, "model_type": "qwen2", "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768,
			"tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.43.1", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936}`,
			func(c *model.Config) {
				c.Vocabulary, c.Block, c.Layers, c.Width, c.Heads, c.KVHeads, c.Hidden, c.RopeBase, c.Eps = 151936, 32768, 24, 896, 14, 2, 4864, 1e6, 1e-6
				c.QKVBias, c.Tied = true, true
			}},
		"Qwen 3": {`{"architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024, "initializer_range": 0.02,
			"intermediate_size": 3072, "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null,
			"rope_theta": 1000000, "sliding_window": null, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936}`,
			func(c *model.Config) {
				c.Vocabulary, c.Block, c.Layers, c.Width, c.Heads, c.KVHeads, c.Hidden, c.RopeBase, c.Eps = 151936, 40960, 28, 1024, 16, 8, 3072, 1e6, 1e-6
				c.HeadNorm, c.HeadWidth, c.Tied = "each", 128, true
			}},
		"Qwen 3 mixture": {`{"architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 151643, "decoder_sparse_step": 1, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048,
			"initializer_range": 0.02, "intermediate_size": 6144, "max_position_embeddings": 40960, "max_window_layers": 48, "mlp_only_layers": [], "model_type": "qwen3_moe", "moe_intermediate_size": 768, "norm_topk_prob": true,
			"num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4, "output_router_logits": false, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000.0,
			"router_aux_loss_coef": 0.001, "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936}`,
			func(c *model.Config) {
				c.Vocabulary, c.Block, c.Layers, c.Width, c.Heads, c.KVHeads, c.Hidden, c.RopeBase, c.Eps = 151936, 40960, 48, 2048, 32, 4, 6144, 1e6, 1e-6
				c.HeadNorm, c.HeadWidth, c.Mixture = "each", 128, model.Mixture{Experts: 128, PerToken: 8, Hidden: 768, IsNormalised: true}
			}},
		"OLMo 2": {`{"architectures": ["Olmo2ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "eos_token_id": 100257, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192,
			"max_position_embeddings": 4096, "model_type": "olmo2", "num_attention_heads": 16, "num_hidden_layers": 16, "num_key_value_heads": 16, "pad_token_id": 100277, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 500000,
			"tie_word_embeddings": false, "torch_dtype": "float32", "transformers_version": "4.47.0", "use_cache": true, "vocab_size": 100352}`,
			func(c *model.Config) {
				c.Vocabulary, c.Block, c.Layers, c.Width, c.Heads, c.KVHeads, c.Hidden, c.RopeBase, c.Eps = 100352, 4096, 16, 2048, 16, 16, 8192, 500000, 1e-6
				c.NormPlace, c.HeadNorm, c.Storage = "after", "all", ""
			}},
		"OLMoE": {`{"architectures": ["OlmoeForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "clip_qkv": null, "eos_token_id": 50279, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 1024,
			"max_position_embeddings": 4096, "model_type": "olmoe", "norm_topk_prob": false, "num_attention_heads": 16, "num_experts": 64, "num_experts_per_tok": 8, "num_hidden_layers": 16, "num_key_value_heads": 16, "output_router_logits": false,
			"pad_token_id": 1, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000.0, "router_aux_loss_coef": 0.01, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.43.0.dev0", "use_cache": true,
			"vocab_size": 50304}`,
			func(c *model.Config) {
				c.Vocabulary, c.Block, c.Layers, c.Width, c.Heads, c.KVHeads, c.Hidden, c.RopeBase, c.Eps = 50304, 4096, 16, 2048, 16, 16, 1024, 10000, 1e-5
				c.HeadNorm, c.Mixture = "all", model.Mixture{Experts: 64, PerToken: 8, Hidden: 1024}
			}},
		"GPT-2": {`{"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2",
			"n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": null, "summary_first_dropout": 0.1, "summary_proj_to_labels": true, "summary_type": "cls_index",
			"summary_use_proj": true, "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}, "vocab_size": 50257}`,
			func(c *model.Config) {
				*c = model.Config{Vocabulary: 50257, Block: 1024, Layers: 12, Width: 768, Heads: 12, KVHeads: 12, Hidden: 3072, Norm: "layer", Positions: "learned", FeedForward: "gelu", Bias: true, Tied: true, Eps: 1e-5}
			}},
		"Gemma 2": {`{"architectures": ["Gemma2ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "attn_logit_softcapping": 50.0, "bos_token_id": 2, "cache_implementation": "hybrid", "eos_token_id": 1, "final_logit_softcapping": 30.0,
			"head_dim": 256, "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304, "initializer_range": 0.02, "intermediate_size": 9216, "max_position_embeddings": 8192, "model_type": "gemma2",
			"num_attention_heads": 8, "num_hidden_layers": 2, "num_key_value_heads": 4, "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096, "torch_dtype": "float32",
			"transformers_version": "4.42.4", "use_cache": true, "vocab_size": 256000}`,
			func(c *model.Config) {
				c.Vocabulary, c.Block, c.Layers, c.Width, c.Heads, c.KVHeads, c.Hidden, c.RopeBase, c.Eps = 256000, 8192, 2, 2304, 8, 4, 9216, 10000, 1e-6
				c.Norm, c.NormPlace, c.FeedForward, c.HeadWidth, c.Tied, c.Storage = "rms1", "both", "geglu", 256, true, ""
				c.Windows, c.AttentionCap, c.LogitCap, c.EmbedScale, c.AttentionScale = model.NumbersOf(4096, 0), 50, 30, math.Sqrt(2304), 1./16
			}},
	} {
		want := rms
		test.want(&want)
		_, got, err := huggingface.ParseConfig([]byte(test.text))
		if err != nil || got != want {
			t.Errorf("%s: %+v, want %+v; %v", name, got, want, err)
		}
	}
}
