"""Writes folders of small networks whose weights are in FP8, as people's tools write them, and what linear layers of
them compute. Nothing but Python's own library is used, and nothing of this project.

    fp8.py FOLDER    one folder for each variant below, and beside it FOLDER/VARIANT.trace
"""
import bisect
import json
import math
import os
import random
import struct
import sys
from fractions import Fraction


def f32(x):
    """The binary32 nearest to a number of binary64."""
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def nearest(x):
    """The binary32 nearest to a fraction."""
    if x == 0:
        return 0.0
    y = f32(float(x))  # at most one step off
    list = [y] + [struct.unpack("<f", struct.pack("<i", struct.unpack("<i", struct.pack("<f", y))[0] + d))[0] for d in (-1, 1)]
    list = [v for v in list if math.isfinite(v)]
    even = lambda v: struct.unpack("<I", struct.pack("<f", v))[0] & 1
    return min(list, key=lambda v: (abs(Fraction(v) - x), even(v)))


def fma(a, b, c):
    """The sum of the product of two values of e4m3, which binary64 has, and a binary32, rounded once."""
    p = a * b
    s = p + c
    back = s - p
    if (p - (s - back)) + (c - back) == 0:  # s is exact
        return f32(s)
    return nearest(Fraction(p) + Fraction(c))


def e4m3_value(p):
    sign, e, m = -1 if p & 0x80 else 1, p >> 3 & 15, p & 7
    return sign * (m * 2.0**-9 if e == 0 else (8 + m) * 2.0 ** (e - 10))


VALUES = [e4m3_value(p) for p in range(0x7F)]  # not negative, ascending


def e4m3(x, sign):
    """The pattern nearest to a fraction, ties to even patterns, with the sign of a number; |x| <= 448."""
    high = min(bisect.bisect_left(VALUES, abs(x)), len(VALUES) - 1)
    low = max(high - 1, 0)
    p = min((low, high), key=lambda p: (abs(VALUES[p] - abs(x)), p & 1))
    return p | (0x80 if math.copysign(1, sign) < 0 else 0)


def bf16(x):
    b = struct.unpack("<I", struct.pack("<f", x))[0]
    return (b + 0x7FFF + (b >> 16 & 1)) >> 16


def bf16_value(p):
    return struct.unpack("<f", struct.pack("<I", p << 16))[0]


class File:
    """A file of tensors."""

    def __init__(self):
        self.header, self.data = {}, b""

    def add(self, name, dtype, shape, raw):
        self.header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(self.data), len(self.data) + len(raw)]}
        self.data += raw

    def f32(self, name, shape, values):
        self.add(name, "F32", shape, b"".join(struct.pack("<f", v) for v in values))

    def bf16(self, name, shape, patterns):
        self.add(name, "BF16", shape, b"".join(struct.pack("<H", p) for p in patterns))

    def e4m3(self, name, shape, patterns):
        self.add(name, "F8_E4M3", shape, bytes(patterns))

    def write(self, path):
        text = json.dumps(self.header).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + self.data)


def compressed(weights, inputs):
    common = {"num_bits": 8, "type": "float", "symmetric": True, "group_size": None, "block_structure": None, "actorder": None, "observer": "minmax", "observer_kwargs": {}}
    return {
        "quant_method": "compressed-tensors", "format": "float-quantized", "quantization_status": "compressed", "global_compression_ratio": 1.5,
        "ignore": ["lm_head", "re:.*layers\\.1\\.mlp.*"], "kv_cache_scheme": None,
        "config_groups": {"group_0": {"targets": ["Linear"], "output_activations": None, "weights": common | {"dynamic": False} | weights, "input_activations": common | inputs}},
    }


# Neither rows nor columns are multiples of 128, but the columns of some weights are.
WIDE = dict(hidden_size=256, intermediate_size=150, num_attention_heads=2, num_key_value_heads=1, vocab_size=257)
SMALL = dict(hidden_size=8, intermediate_size=12, num_attention_heads=2, num_key_value_heads=1, vocab_size=257)
EXPERTS = dict(num_experts=3, num_experts_per_tok=2, norm_topk_prob=True, mlp_only_layers=[1])

# By name: quantization_config, how scales of weights lie, and the layers that are not quantised.
VARIANTS = {
    "tensor": ({"quant_method": "fp8", "activation_scheme": "dynamic", "ignored_layers": ["lm_head", "model.layers.1.mlp"]}, "tensor", "layers.1.mlp"),
    "static": ({"quant_method": "fp8", "activation_scheme": "static", "fmt": "e4m3", "modules_to_not_convert": ["lm_head", "q_proj"]}, "tensor", "q_proj"),
    "transformers": ({"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": None, "dequantize": False, "modules_to_not_convert": None, "modules_to_convert": None, "scale_fmt": "float", "expert_dtype": "fp8"}, "tensor", "none"),
    "channel": (compressed({"strategy": "channel"}, {"strategy": "token", "dynamic": True}), "channel", "layers.1.mlp"),
    "blocks": ({"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [128, 128]}, "block", "none"),
    "compressed_blocks": (
        compressed({"strategy": "block", "block_structure": [128, 128]}, {"strategy": "group", "group_size": 128, "dynamic": True}),
        "block",
        "layers.1.mlp",
    ),
    "compressed": (compressed({"strategy": "tensor"}, {"strategy": "tensor", "dynamic": False}), "tensor", "layers.1.mlp"),
    "experts_tensor": ({"quant_method": "fp8", "activation_scheme": "dynamic", "modules_to_not_convert": ["lm_head", "model.layers.0.mlp.gate", "up_proj"]}, "tensor", "up_proj"),
    "experts_static": ({"quant_method": "fp8", "activation_scheme": "static"}, "tensor", "none"),
    "experts_channel": (compressed({"strategy": "channel"}, {"strategy": "token", "dynamic": True}), "channel", "layers.1.mlp"),
    "experts_blocks": ({"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [128, 128]}, "block", "none"),
}


def folder(path, quantization, scaling, except_):
    random.seed(os.path.basename(path))
    os.makedirs(path)
    c = WIDE if scaling == "block" else SMALL
    width, hidden, layers = c["hidden_size"], c["intermediate_size"], 1 if scaling == "block" else 2
    experts, narrow = 3 if "experts" in path else 0, 136 if scaling == "block" else 10  # and their width
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16", "num_hidden_layers": layers, "max_position_embeddings": 64,
        "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, "quantization_config": quantization, **c,
    }
    if experts:
        config |= {"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "head_dim": width // 2, "moe_intermediate_size": narrow, **EXPERTS}
        if layers == 1:
            config["mlp_only_layers"] = []
    with open(os.path.join(path, "config.json"), "w") as f:
        json.dump(config, f)
    weights, trace = File(), File()
    is_static = quantization.get("activation_scheme") == "static" or '"token"' not in json.dumps(quantization) and '"group"' not in json.dumps(quantization) and "config_groups" in quantization
    ends = (".weight_scale_inv", ".activation_scale") if "expert_dtype" in quantization else (".weight_scale", ".input_scale")
    noise = lambda n: [0x3E00 | random.getrandbits(8) | random.getrandbits(1) << 15 for _ in range(n)]  # from 1/8 to 1/2
    ones = lambda n: [bf16(1.0)] * n

    def linear(name, out, in_):
        if except_ in name:
            weights.bf16(name + ".weight", (out, in_), noise(out * in_))
            return
        tall, wide = {"tensor": (out, in_), "channel": (1, in_), "block": (128, 128)}[scaling]  # what has a scale
        down, across = -(-out // tall), -(-in_ // wide)
        part_of = lambda i: i // in_ // tall * across + i % in_ // wide
        scales = [f32(random.uniform(0.0005, 0.002)) for _ in range(down * across)]
        if scaling == "channel":  # stored like the rest of the network
            scales = [bf16_value(bf16(s)) for s in scales]
        q = [p if p & 0x7F != 0x7F else 0 for p in random.randbytes(out * in_)]
        weights.e4m3(name + ".weight", (out, in_), q)
        if scaling == "channel":
            weights.bf16(name + ".weight_scale", (out, 1), [bf16(s) for s in scales])
        elif scaling == "block":
            weights.f32(name + (".weight_scale_inv" if "weight_block_size" in quantization else ".weight_scale"), (down, across), scales)
        else:
            weights.f32(name + ends[0], () if is_static else (1,), scales)
        given = None
        if is_static:
            given = f32(random.uniform(0.002, 0.004))
            weights.f32(name + ends[1], (1,) if scaling == "tensor" else (), [given])
        if path.endswith("compressed_blocks"):
            return  # the same numbers by other names
        if name.startswith("model.layers.0") and name.endswith(("gate_proj", "down_proj") if experts else ("up_proj", "down_proj")):
            record(name, out, in_, q, lambda n, k: scales[part_of(n * in_ + k)], given)

    def record(name, out, in_, weight, scale_of, given):
        """What the layer computes from a few rows: one of zeros, one of small numbers, one with a large one."""
        tokens = 5 if scaling != "block" else 3
        x = [[f32(random.gauss(0, 1)) for _ in range(in_)] for _ in range(tokens)]
        x[1] = [0.0 if i % 2 else -0.0 for i in range(in_)]
        x[2] = [v * 2.0**-120 for v in x[2][:-1]] + [v * 300 for v in x[2][-1:]]
        if tokens > 3:
            x[2][-1], x[3][in_ // 2] = 0.0, 300.0
        x = [[bf16_value(bf16(v)) for v in row] for row in x]
        patterns, by, y = [], [], []
        parts = [range(at, min(at + 128, in_)) for at in range(0, in_, 128)] if scaling == "block" else [range(in_)]
        for row in x:
            q, s = [], []
            for part in parts:
                s.append(given or f32(max(abs(row[k]) for k in part) / 448))
                q += [e4m3(max(-448, min(448, Fraction(row[k]) / Fraction(s[-1] or 1.0))), row[k]) for k in part]
            patterns += q
            by += s
            q = [e4m3_value(p) for p in q]
            for n in range(out):
                total = 0.0
                for part, scale in zip(parts, s):
                    acc = 0.0
                    for k in part:
                        acc = fma(q[k], e4m3_value(weight[n * in_ + k]), acc)
                    if given:
                        total = f32(acc * f32(given * scale_of(n, 0)))
                    elif scaling == "block":
                        total = nearest(Fraction(acc) * Fraction(f32(scale * scale_of(n, part[0]))) + Fraction(total))
                    else:
                        total = f32(f32(acc * scale) * scale_of(n, 0))
                y.append(total)
        trace.bf16(name + ".x", (tokens, in_), [bf16(v) for row in x for v in row])
        trace.e4m3(name + ".q", (tokens, in_), patterns)
        trace.f32(name + ".scale", (tokens, len(parts)), by)
        trace.f32(name + ".y", (tokens, out), y)

    weights.bf16("model.embed_tokens.weight", (c["vocab_size"], width), noise(c["vocab_size"] * width))
    for i in range(layers):
        layer = f"model.layers.{i}."
        weights.bf16(layer + "input_layernorm.weight", (width,), ones(width))
        weights.bf16(layer + "post_attention_layernorm.weight", (width,), ones(width))
        for name, out, in_ in (("q", width, width), ("k", width // 2, width), ("v", width // 2, width), ("o", width, width)):
            linear(layer + "self_attn." + name + "_proj", out, in_)
        if experts:
            for name in ("q", "k"):
                weights.bf16(layer + f"self_attn.{name}_norm.weight", (width // 2,), ones(width // 2))
        if experts and i == 0:
            weights.bf16(layer + "mlp.gate.weight", (experts, width), noise(experts * width))
        for e in range(experts) if experts and i == 0 else [None]:
            of, inner = ("mlp.", hidden) if e is None else (f"mlp.experts.{e}.", narrow)
            for name, out, in_ in (("gate", inner, width), ("up", inner, width), ("down", width, inner)):
                linear(layer + of + name + "_proj", out, in_)
    weights.bf16("model.norm.weight", (width,), ones(width))
    weights.bf16("lm_head.weight", (c["vocab_size"], width), noise(c["vocab_size"] * width))
    weights.write(os.path.join(path, "model.safetensors"))
    trace.write(path + ".trace")


for name, variant in VARIANTS.items():
    folder(os.path.join(sys.argv[1], name), *variant)
