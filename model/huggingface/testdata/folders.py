"""Writes folders of small networks with random weights, and what their modules computed.

    python3 folders.py OUT

For every case there are OUT/CASE, a folder as transformers saves it, OUT/CASE.old.json, its
configuration in the spelling of version 4, and OUT/CASE.trace, a safetensors file with the
inputs and outputs of modules: "NAME.in" and "NAME.out" by the modules' names.
"""

import importlib
import json
import os
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, CONFIG_MAPPING, __version__

is_old = __version__.startswith("4.")

base = dict(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, pad_token_id=None, bos_token_id=1, eos_token_id=2)

cases = {
    "llama": ("llama", dict(head_dim=6, attention_bias=True, mlp_bias=True, rms_norm_eps=1e-5, rope_parameters=dict(
        rope_type="llama3", rope_theta=5000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16))),
    "llama-tied": ("llama", dict(tie_word_embeddings=True, hidden_act="gelu", rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=2.5))),
    "llama-yarn": ("llama", dict(hidden_act="gelu_pytorch_tanh", rope_parameters=dict(
        rope_type="yarn", rope_theta=100.0, factor=4.0, original_max_position_embeddings=16, beta_fast=2.0, beta_slow=0.5))),
    "llama-mscale": ("llama", dict(head_dim=16, rope_parameters=dict(
        rope_type="yarn", rope_theta=10000.0, factor=16.0, original_max_position_embeddings=4, mscale=0.7, mscale_all_dim=1.3, truncate=False))),
    "llama-dynamic": ("llama", dict(rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=4.0))),
    "llama-longrope": ("llama", dict(head_dim=4, rope_parameters=dict(
        rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=32, short_factor=[1.5, 2.0], long_factor=[3.0, 4.0]))),
    "llama-odd": ("llama", dict(vocab_size=43, hidden_size=20, intermediate_size=7, num_attention_heads=5, num_key_value_heads=1, head_dim=2, mlp_bias=True, rope_parameters=dict(
        rope_type="yarn", rope_theta=500.0, factor=3.0, original_max_position_embeddings=20, attention_factor=0.7))),
    "mistral": ("mistral", dict(sliding_window=5, head_dim=8)),
    "mistral-full": ("mistral", dict(sliding_window=None)),
    "qwen2": ("qwen2", dict(use_sliding_window=True, sliding_window=4, max_window_layers=1)),
    "qwen2-tied": ("qwen2", dict(tie_word_embeddings=True, num_key_value_heads=4, use_sliding_window=True, sliding_window=3, layer_types=["full_attention", "sliding_attention"], rope_parameters=dict(
        rope_type="dynamic", rope_theta=1e6, factor=2.0))),
    "qwen3": ("qwen3", dict(head_dim=8, attention_bias=True, use_sliding_window=True, sliding_window=3,
                            layer_types=["sliding_attention", "full_attention"])),
    "qwen3-moe": ("qwen3_moe", dict(head_dim=8, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=12, norm_topk_prob=True, mlp_only_layers=[0])),
    "qwen3-moe-step": ("qwen3_moe", dict(num_hidden_layers=3, num_experts=4, num_experts_per_tok=3, moe_intermediate_size=8, decoder_sparse_step=2)),
    "qwen3-moe-window": ("qwen3_moe", dict(head_dim=4, attention_bias=True, tie_word_embeddings=True, use_sliding_window=True, sliding_window=4, num_experts=3, num_experts_per_tok=3, moe_intermediate_size=5)),
    "olmo2": ("olmo2", dict(attention_bias=True)),
    "olmo2-yarn": ("olmo2", dict(vocab_size=41, num_key_value_heads=1, tie_word_embeddings=True, rope_parameters=dict(rope_type="yarn", rope_theta=1000.0, factor=2.0, original_max_position_embeddings=32))),
    "olmoe": ("olmoe", dict(num_experts=4, num_experts_per_tok=2, num_key_value_heads=4)),
    "olmoe-norm": ("olmoe", dict(hidden_act="gelu_pytorch_tanh", num_experts=5, num_experts_per_tok=1, norm_topk_prob=True, num_key_value_heads=2)),
    "gemma2-types": ("gemma2", dict(head_dim=256, attention_bias=True, num_key_value_heads=1, sliding_window=2, layer_types=["full_attention", "sliding_attention"], query_pre_attn_scalar=256)),
    "gemma2": ("gemma2", dict(head_dim=6, sliding_window=4, attn_logit_softcapping=2.0, final_logit_softcapping=3.0, query_pre_attn_scalar=9)),
    "gemma2-plain": ("gemma2", dict(head_dim=4, attn_logit_softcapping=None, final_logit_softcapping=None, tie_word_embeddings=False)),
    "gemma2-bf16": ("gemma2", dict(hidden_size=20, head_dim=10, sliding_window=4)),
    "gpt2": ("gpt2", dict(n_inner=20)),
    "gpt2-odd": ("gpt2", dict(vocab_size=43, n_embd=15, n_head=3, activation_function="gelu_pytorch_tanh")),
    "gpt2-gelu": ("gpt2", dict(activation_function="gelu", tie_word_embeddings=False, scale_attn_weights=False)),
}
storage = {"mistral": torch.bfloat16, "qwen2": torch.float16, "gemma2-bf16": torch.bfloat16}


def config_of(kind, extra):
    extra = dict(extra)
    if is_old and "rope_parameters" in extra:
        rope = dict(extra.pop("rope_parameters"))
        extra.update(rope_theta=rope.pop("rope_theta"), rope_scaling=rope)
        if rope["rope_type"] == "longrope":  # it looks for the length outside
            extra["original_max_position_embeddings"] = rope.pop("original_max_position_embeddings")
    if kind == "gpt2":
        return CONFIG_MAPPING[kind](**{**dict(vocab_size=40, n_positions=64, n_embd=16, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2), **extra})
    return CONFIG_MAPPING[kind](**{**base, **extra})


def in_old_spelling(path):
    config = json.load(open(path))
    rope = config.pop("rope_parameters", None)
    if rope:
        config["rope_theta"] = rope.pop("rope_theta")
        kind = rope.pop("rope_type")
        config["rope_scaling"] = None if kind == "default" else dict(rope, type=kind) if kind == "linear" else dict(rope, rope_type=kind)
    config["torch_dtype"] = config.pop("dtype", None) or config["torch_dtype"]
    if "num_local_experts" in config:
        config["num_experts"] = config.pop("num_local_experts")
    return config


def trace(model, tokens):
    """Returns what modules and functions were given and returned."""
    record, handles = {}, []

    def put(name, x):
        if isinstance(x, torch.Tensor):
            record[name] = (x.detach().clone().contiguous() if x.is_floating_point() else x.detach().to(torch.int32).contiguous())

    def hook(name):
        def after(module, args, kwargs, out):
            if args:
                put(name + ".in", args[0])
            elif "hidden_states" in kwargs:
                put(name + ".in", kwargs["hidden_states"])
            for i, o in enumerate(out if isinstance(out, tuple) else (out,)):
                put(name + ".out" + ("" if i == 0 else str(i)), o)
            if len(args) > 2 and name.endswith("experts"):
                put(name + ".indices", args[1])
                put(name + ".weights", args[2])
        return after

    for name, module in model.named_modules():
        if name:
            handles.append(module.register_forward_hook(hook(name), with_kwargs=True))

    source = importlib.import_module(type(model).__module__)
    attend, turn = getattr(source, "eager_attention_forward", None), getattr(source, "apply_rotary_pos_emb", None)
    counts = [0, 0]

    def attention(module, q, k, v, *args, **kwargs):
        out = attend(module, q, k, v, *args, **kwargs)
        for name, x in (("q", q), ("k", k), ("v", v)):  # [1, heads, tokens, width]
            put(f"attention.{counts[0]}.{name}", x[0].transpose(0, 1))
        put(f"attention.{counts[0]}.o", out[0][0])
        counts[0] += 1
        return out

    def rotary(q, k, cos, sin, *args, **kwargs):
        out = turn(q, k, cos, sin, *args, **kwargs)
        half = cos.shape[-1] // 2
        for name, x in (("q", q), ("k", k), ("qo", out[0]), ("ko", out[1])):
            put(f"rope.{counts[1]}.{name}", x[0].transpose(0, 1))
        put(f"rope.{counts[1]}.cos", cos[0, :, :half])
        put(f"rope.{counts[1]}.sin", sin[0, :, :half])
        counts[1] += 1
        return out

    if attend:
        source.eager_attention_forward = attention
    if turn and attend:
        source.apply_rotary_pos_emb = rotary
    # The erf of oneDNN is off by six roundings, that of torch's own kernels by two.
    with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False):
        put("logits", model(tokens).logits)
    if attend:
        source.eager_attention_forward = attend
    if turn:
        source.apply_rotary_pos_emb = turn
    for h in handles:
        h.remove()
    put("tokens", tokens)
    return record


def main(out):
    torch.set_num_threads(1)
    for number, (name, (kind, extra)) in enumerate(cases.items()):
        torch.manual_seed(number)
        if is_old and name == "olmo2-yarn":  # its class there has linear and dynamic alone
            continue
        config = config_of(kind, extra)
        config._attn_implementation = "eager"
        if not is_old:
            config._experts_implementation = "eager"
        model = AutoModelForCausalLM.from_config(config).eval()
        with torch.no_grad():
            for weight, p in model.named_parameters():
                p.normal_(0, 0.3)
                if p.dim() == 1 and weight.endswith("weight") and kind != "gemma2":
                    p.add_(1)
        model = model.to(storage.get(name, torch.float32))
        model.config.dtype = storage.get(name, torch.float32)
        folder = os.path.join(out, name)
        model.save_pretrained(folder, max_shard_size="6KB" if number % 2 else "1GB")
        with open(folder + ".old.json", "w") as f:
            json.dump(in_old_spelling(os.path.join(folder, "config.json")), f)
        tokens = torch.randint(0, 40, (1, 12))
        save_file({k: v.clone() for k, v in trace(model, tokens).items()}, folder + ".trace")
    print("written")


def load(paths):
    """Loads folders that were written elsewhere, and prints the largest difference of any weight to the original's."""
    for path in paths:
        written, original = path.split("=")
        a, info = AutoModelForCausalLM.from_pretrained(written, output_loading_info=True)
        b = AutoModelForCausalLM.from_pretrained(original)
        for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            if info[what]:
                print(written, what, sorted(map(str, info[what])))
        x, y = a.state_dict(), b.state_dict()
        if x.keys() != y.keys() or a.dtype != b.dtype:
            print(written, "other weights")
        for k in x:
            if not torch.equal(x[k], y[k]):
                print(written, k, "differs")
    print("loaded")


if __name__ == "__main__":
    if sys.argv[1] == "load":
        load(sys.argv[2:])
    else:
        main(sys.argv[1])
