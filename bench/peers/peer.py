"""A peer of `tokitai bench --peers`: PyTorch or NumPy, timed from inside.

peer.py LIBRARY THREADS reads one JSON object per line from standard input and answers each with
one line (see protocol.go). An operation has one or more forms, ways in which a user of the
library would write it. The fastest one is timed.
"""
import base64
import gc
import json
import math
import os
import sys
import time


class Unsupported(Exception):
    """The library has no such operation, or not in this format."""


def call(form, s):
    """Calls a form on a set of operands. The set keeps what the form returns until it is used
    again, so that results a form allocates are spread over memory like those it is given."""
    s["result"] = form(s)


class Case:
    """One operation with its operands, several sets of equal values in different memory."""

    def __init__(self, library, request):
        self.library, self.request = library, request
        self.forms = library.forms(request)
        self.sets = [self.fresh() for _ in range(request["sets"])]
        self.at = 0
        times = {}
        for name in self.forms:
            try:
                times[name] = self.trial(name)
            except Exception as e:
                failure = e
        if not times:
            raise failure
        self.name = min(times, key=times.get)

    def fresh(self):
        s = {name: self.library.load(o) for name, o in self.request["operands"].items()}
        self.library.complete(self.request, s)
        return s

    def trial(self, name):
        """Returns the least of three times of a form, after a first call."""
        self.name = name
        self.run(1, 1)
        return min(self.run(3, self.request["calls"])) if len(self.forms) > 1 else 0

    def run(self, repeat, calls):
        form, sets, n, at = self.forms[self.name], self.sets, len(self.sets), self.at
        clock, times = time.perf_counter_ns, []
        for _ in range(repeat):
            start = clock()
            for _ in range(calls):
                call(form, sets[at])
                at = at + 1 if at + 1 < n else 0
            times.append(clock() - start)
        self.at = at
        return times

    def check(self, rows):
        """Computes the first set again from its original values; returns rows of the outputs."""
        s = self.sets[0] = self.fresh()
        call(self.forms[self.name], s)
        outputs = self.library.outputs(self.request, s)
        return {"own": not outputs, "outputs": {name: base64.b64encode(self.library.values(outputs[name], rows[name])).decode()
                                                for name in rows if name in outputs}}


class Torch:
    """PyTorch without autograd: operations and the operations that autograd calls for gradients,
    with out= where there is one."""

    def __init__(self, threads):
        import torch
        import torch.nn.functional
        self.torch, self.F, self.aten = torch, torch.nn.functional, torch.ops.aten
        torch.set_num_threads(threads)
        torch.set_num_interop_threads(1)
        self.dtypes = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "i32": torch.int32}
        self.guard = torch.inference_mode()

    def about(self):
        torch = self.torch
        lines = [line.strip(" -") for line in torch.__config__.show().splitlines()]
        details = [line for line in lines if line.startswith(("Intel(R) MKL-DNN", "Intel(R) oneAPI Math", "OpenMP"))]
        details.append("CPU capability " + torch.backends.cpu.get_cpu_capability())
        return {"name": "PyTorch", "version": torch.__version__, "details": details, "threads": torch.get_num_threads()}

    def load(self, o):
        torch = self.torch
        dtype = self.dtypes[o["dtype"]]
        if not o["file"]:
            return torch.full(o["shape"], float("nan") if dtype.is_floating_point else -1, dtype=dtype)
        return torch.from_file(o["file"], shared=False, size=product(o["shape"]), dtype=dtype).clone().reshape(o["shape"])

    def complete(self, request, s):
        """Adds what PyTorch keeps beside the operands."""
        torch, op, p = self.torch, request["op"], request["params"]
        if "offsets" in s and "grouped" in op:
            s["groups"], s["ends"] = groups(s), s["offsets"].flatten()[1:].clone()
        if "index" in s:
            s["index64"] = s["index"].to(torch.int64)
        if "label" in s:
            s["label64"] = s["label"].to(torch.int64)
            s["scratch"], s["one"] = torch.empty_like(s["logits"]), torch.full([], p["scale"] * len(s["label"]), dtype=s["logits"].dtype)
            s["parameter"] = None
        if op == "layernorm.forward":
            for name in ("mean", "rstd"):
                s[name] = s[name].to(s["gamma"].dtype).reshape(-1, 1)
        if op == "layernorm.backward":  # statistics are in the format of gamma
            for name in ("mean", "rstd"):
                s[name] = s[name].to(s["gamma"].dtype).reshape(-1, 1)
            s["beta"] = torch.zeros_like(s["gamma"])
        if op == "adamw.step":
            with torch.inference_mode(False):
                w = torch.nn.Parameter(s.pop("weight").clone())
                w.grad = s.pop("grad").clone()
                s["optimizer"] = torch.optim.AdamW([w], lr=p["lr"], betas=(p["beta1"], p["beta2"]), eps=p["eps"], weight_decay=p["weight_decay"], fused=True)
                s["optimizer"].state[w] = {"step": torch.tensor(float(p["t"] - 1)), "exp_avg": s.pop("m").clone(), "exp_avg_sq": s.pop("v").clone()}
                s["parameter"] = w
        if op == "sgd.step":
            with torch.inference_mode(False):
                w = torch.nn.Parameter(s.pop("weight").clone())
                w.grad = s.pop("grad").clone()
                s["optimizer"] = torch.optim.SGD([w], lr=p["lr"], momentum=p["momentum"], dampening=p["dampening"], weight_decay=p["weight_decay"], fused=True)
                s["optimizer"].state[w] = {"momentum_buffer": s.pop("buffer").clone()}
                s["parameter"] = w
        if op in ("rmsnorm.backward", "rmsnorm.residual.backward"):
            s["rstd"] = s["rstd"].reshape(-1, 1)
            x = s["sum"] if "residual" in op else s["x"]
            with torch.inference_mode(False), torch.enable_grad():
                s["inputs"] = x.clone().requires_grad_(), s["gamma"].clone().requires_grad_()
                s["graph"] = rms_norm(self.F, s["inputs"][0], s["inputs"][1], 1e-6)
                s["outer"] = s["dy"].clone()
        if op.startswith("rope."):  # tables in the format of the model; the halves are views of one tensor
            for name in ("cos", "sin"):
                s[name] = s[name].to(s["x1"].dtype)
            s["x"] = torch.cat((s["x1"], s["x2"]), -1)
            s["x1"], s["x2"] = s["x"].chunk(2, -1)
            s["position64"] = s["position"].to(torch.int64)
            s["y"] = torch.empty_like(s["x"])
            if "gamma1" in s:
                s["gamma"] = torch.cat((s["gamma1"], s["gamma2"]))
        if op.startswith("attention."):
            self.attention(request, s)
        for name in ("expert", "place", "source"):
            if name in s:
                s[name + "64"] = s[name].to(torch.int64)

    def forms(self, request):
        torch, F, aten, op = self.torch, self.F, self.aten, request["op"]
        matmul = {"torch.matmul(out=)": lambda s: torch.matmul(s["A"], s["B"], out=s["C"])}
        forms = {
            "gemm.forward": matmul,
            "gemm.batched.forward": matmul,
            "gemm.grad_a": {"torch.matmul(out=)": lambda s: torch.matmul(s["dC"], s["B"].mT, out=s["dA"])},
            "gemm.grad_b": {"torch.matmul(out=)": lambda s: torch.matmul(s["A"].mT, s["dC"], out=s["dB"])},
            "gemm.grouped.forward": {
                "torch.mm(out=) of each group": lambda s: each_group(s, "C", lambda g, rows: torch.mm(s["A"][rows], s["B"][g], out=s["C"][rows])),
                "F.grouped_mm": lambda s: F.grouped_mm(s["A"], s["B"], offs=s["ends"]),
            },
            "gemm.grouped.grad_a": {
                "torch.mm(out=) of each group": lambda s: each_group(s, "dA", lambda g, rows: torch.mm(s["dC"][rows], s["B"][g].mT, out=s["dA"][rows])),
                "F.grouped_mm": lambda s: F.grouped_mm(s["dC"], s["B"].mT, offs=s["ends"]),
            },
            "gemm.grouped.grad_b": {
                "torch.mm(out=) of each group": lambda s: each_group(s, "dB", lambda g, rows: torch.mm(s["A"][rows].mT, s["dC"][rows], out=s["dB"][g])),
                "F.grouped_mm": lambda s: F.grouped_mm(s["A"].mT, s["dC"], offs=s["ends"]),
            },
            "softmax.forward": {
                "torch.softmax(out=)": lambda s: torch.softmax(s["x"], -1, out=s["y"]),
                "F.softmax": lambda s: F.softmax(s["x"], -1),
            },
            "softmax.backward": {
                "aten._softmax_backward_data(out=)": lambda s: aten._softmax_backward_data.out(s["dy"], s["y"], -1, s["dy"].dtype, grad_input=s["dx"]),
                "aten._softmax_backward_data": lambda s: aten._softmax_backward_data(s["dy"], s["y"], -1, s["dy"].dtype),
            },
            "gelu.forward": {
                "aten.gelu(out=)": lambda s: aten.gelu.out(s["x"], approximate="tanh", out=s["y"]),
                "F.gelu": lambda s: F.gelu(s["x"], approximate="tanh"),
            },
            "gelu.backward": {
                "aten.gelu_backward(out=)": lambda s: aten.gelu_backward.grad_input(s["dy"], s["x"], approximate="tanh", grad_input=s["dx"]),
                "aten.gelu_backward": lambda s: aten.gelu_backward(s["dy"], s["x"], approximate="tanh"),
            },
            "layernorm.forward": {
                "aten.native_layer_norm": lambda s: aten.native_layer_norm(s["x"], [s["x"].shape[-1]], s["gamma"], s["beta"], request["params"]["eps"]),
                "F.layer_norm": lambda s: F.layer_norm(s["x"], [s["x"].shape[-1]], s["gamma"], s["beta"], request["params"]["eps"]),
                "aten.native_layer_norm(out=)": lambda s: aten.native_layer_norm.out(
                    s["x"], [s["x"].shape[-1]], s["gamma"], s["beta"], request["params"]["eps"], out0=s["y"], out1=s["mean"], out2=s["rstd"]),
            },
            "layernorm.backward": {
                "aten.native_layer_norm_backward": lambda s: aten.native_layer_norm_backward(
                    s["dy"], s["x"], [s["x"].shape[-1]], s["mean"], s["rstd"], s["gamma"], s["beta"], [True, True, True]),
                "aten.native_layer_norm_backward(out=)": lambda s: aten.native_layer_norm_backward.out(
                    s["dy"], s["x"], [s["x"].shape[-1]], s["mean"], s["rstd"], s["gamma"], s["beta"], [True, True, True],
                    out0=s["dx"], out1=s["dgamma"], out2=s["dbeta"]),
            },
            "crossentropy": {
                "F.cross_entropy, autograd": self.cross_entropy,
                "aten.nll_loss, aten._log_softmax(out=)": self.cross_entropy_out,
            },
            "embedding.forward": {
                "F.embedding": lambda s: F.embedding(s["index64"], s["weight"]),
                "F.embedding, int32": lambda s: F.embedding(s["index"], s["weight"]),
                "torch.index_select(out=)": lambda s: torch.index_select(s["weight"], 0, s["index64"], out=s["out"]),
                "torch.index_select(out=), int32": lambda s: torch.index_select(s["weight"], 0, s["index"], out=s["out"]),
            },
            "embedding.backward": {
                "aten.embedding_dense_backward": lambda s: aten.embedding_dense_backward(s["dout"], s["index64"], s["dweight"].shape[0], -1, False),
                "aten.embedding_dense_backward, int32": lambda s: aten.embedding_dense_backward(s["dout"], s["index"], s["dweight"].shape[0], -1, False),
                "zero_, index_add_": lambda s: s["dweight"].zero_().index_add_(0, s["index64"], s["dout"]),
            },
            "adamw.step": {"torch.optim.AdamW(fused=True)": self.step},
            "sgd.step": {"torch.optim.SGD(fused=True)": self.step},
            "rmsnorm.forward": {"F.rms_norm": lambda s: rms_norm(F, s["x"], s["gamma"], request["params"]["eps"])},
            "rmsnorm.residual.forward": {"torch.add(out=), F.rms_norm": lambda s: self.residual(s, request["params"]["eps"])},
            "rmsnorm.backward": {
                "F.rms_norm, autograd": self.rms_norm_backward,
                "aten._fused_rms_norm_backward": lambda s: aten._fused_rms_norm_backward(s["dy"], s["x"], [s["x"].shape[-1]], s["rstd"], s["gamma"], [True, True]),
            },
            "rmsnorm.residual.backward": {
                "F.rms_norm, autograd, add": lambda s: self.add_sum(s, self.rms_norm_backward(s)),
                "aten._fused_rms_norm_backward, add": lambda s: self.add_sum(s, aten._fused_rms_norm_backward(
                    s["dy"], s["sum"], [s["sum"].shape[-1]], s["rstd"], s["gamma"], [True, True])),
            },
            "rope.forward": {
                "x*cos + rotate_half(x)*sin": lambda s: self.rotate(s, s["x"]),
                "halves": lambda s: self.rotate_halves(s, s["x1"], s["x2"]),
                "halves(out=)": lambda s: self.rotate_into(s, s["x1"], s["x2"]),
            },
            "rope.norm.forward": {
                "F.rms_norm, x*cos + rotate_half(x)*sin": lambda s: self.rotate(s, rms_norm(F, s["x"], s["gamma"], request["params"]["eps"])),
                "F.rms_norm, halves": lambda s: self.rotate_halves(s, *rms_norm(F, s["x"], s["gamma"], request["params"]["eps"]).chunk(2, -1)),
                "F.rms_norm, halves(out=)": lambda s: self.rotate_into(s, *rms_norm(F, s["x"], s["gamma"], request["params"]["eps"]).chunk(2, -1)),
            },
            "swiglu.forward": {
                "F.silu * up": lambda s: F.silu(s["gate"]) * s["up"],
                "aten.silu(out=), mul_": lambda s: aten.silu.out(s["gate"], out=s["y"]).mul_(s["up"]),
            },
            "swiglu.backward": {
                "aten.silu, aten.silu_backward": lambda s: (aten.silu_backward(s["dy"] * s["up"], s["gate"]), F.silu(s["gate"]) * s["dy"]),
                "aten.silu(out=), aten.silu_backward(out=)": self.swiglu_backward,
            },
            "silu.forward": {
                "aten.silu(out=)": lambda s: aten.silu.out(s["x"], out=s["y"]),
                "F.silu": lambda s: F.silu(s["x"]),
            },
            "silu.backward": {
                "aten.silu_backward(out=)": lambda s: aten.silu_backward.grad_input(s["dy"], s["x"], grad_input=s["dx"]),
                "aten.silu_backward": lambda s: aten.silu_backward(s["dy"], s["x"]),
            },
            "gelu.erf.forward": {
                "aten.gelu(out=)": lambda s: aten.gelu.out(s["x"], approximate="none", out=s["y"]),
                "F.gelu": lambda s: F.gelu(s["x"]),
            },
            "gelu.erf.backward": {
                "aten.gelu_backward(out=)": lambda s: aten.gelu_backward.grad_input(s["dy"], s["x"], approximate="none", grad_input=s["dx"]),
                "aten.gelu_backward": lambda s: aten.gelu_backward(s["dy"], s["x"], approximate="none"),
            },
            "relu2.forward": {
                "F.relu().square_()": lambda s: F.relu(s["x"]).square_(),
                "torch.clamp(out=), square_": lambda s: torch.clamp(s["x"], min=0, out=s["y"]).square_(),
            },
            "relu2.backward": {
                "F.relu() * 2 * dy": lambda s: F.relu(s["x"]).mul_(2).mul_(s["dy"]),
                "torch.clamp(out=), mul_": lambda s: torch.clamp(s["x"], min=0, out=s["dx"]).mul_(2).mul_(s["dy"]),
            },
            "router.softmax.forward": {"torch.softmax, torch.topk, gather": lambda s: self.route(s, s["expert"].shape[-1])},
            "dispatch.forward": {
                "torch.sort(stable=True), bincount": lambda s: self.dispatch(s, "expert64"),
                "torch.sort(stable=True), bincount, int32": lambda s: self.dispatch(s, "expert"),
            },
            "combine.permute.forward": {
                "torch.index_select(out=)": lambda s: torch.index_select(s["x"], 0, s["source64"], out=s["rows"]),
                "x[source]": lambda s: s["x"][s["source64"]],
            },
            "combine.forward": {
                "F.embedding_bag": lambda s: F.embedding_bag(s["place64"], s["o"], per_sample_weights=s["weight"], mode="sum"),
                "torch.bmm": lambda s: torch.bmm(s["weight"].unsqueeze(1), s["o"][s["place64"]]).squeeze(1),
                "(o[place] * weight).sum": lambda s: (s["o"][s["place64"]] * s["weight"].unsqueeze(-1)).sum(1),
            },
            "dropout.forward": {
                "F.dropout": lambda s: F.dropout(s["x"], 1 - request["params"]["keep"], True),
                "aten.native_dropout": lambda s: aten.native_dropout(s["x"], 1 - request["params"]["keep"], True)[0],
            },
            "attention.forward": {
                "F.scaled_dot_product_attention": lambda s: self.attend(s, s["q"], s["k"], s["v"]).transpose(1, 2),
                "aten._scaled_dot_product_flash_attention_for_cpu": lambda s: aten._scaled_dot_product_flash_attention_for_cpu(
                    s["q"], s["k"], s["v"], 0.0, True, scale=s["scale"])[0].transpose(1, 2),
            },
            "attention.backward": {
                "F.scaled_dot_product_attention, autograd": self.attention_backward,
                "aten._scaled_dot_product_flash_attention_for_cpu_backward": self.attention_backward_of_results,
            },
            "sample": {
                "softmax / exponential_(), argmax": self.sample,
                "torch.multinomial": self.multinomial,
            },
            "sample greedy": {"argmax, logsumexp": self.greedy, "argmax, log_softmax": self.greedy_log_softmax},
        }
        if op not in forms:
            raise Unsupported("PyTorch has no form of " + op)
        return forms[op]

    def cross_entropy(self, s):
        torch = self.torch
        with torch.inference_mode(False), torch.enable_grad():
            if s["parameter"] is None:
                s["parameter"], s["target"] = s["logits"].clone().requires_grad_(), s["label64"].clone()
            loss = self.F.cross_entropy(s["parameter"], s["target"])
            return torch.autograd.grad(loss, s["parameter"])[0]

    def cross_entropy_out(self, s):
        aten, x = self.aten, s["logits"]
        log = aten._log_softmax.out(x, -1, False, out=s["scratch"])
        _, weight = aten.nll_loss_forward(log, s["label64"], None, 1, -100)
        g = aten.nll_loss_backward(s["one"], log, s["label64"], None, 1, -100, weight)
        return aten._log_softmax_backward_data.out(g, log, -1, x.dtype, out=s["dlogits"])

    def attention(self, request, s):
        """Makes the operands of attention views of [sequence, head, token, column], and what its gradients need."""
        torch = self.torch
        sequences, tokens, heads = len(s["qstart"]) - 1, s["q"].shape[0], s["q"].shape[1] * s["q"].shape[2]
        if tokens != s["k"].shape[0] or tokens % sequences != 0 or s["q"].shape[2] != 1:
            raise Unsupported("causal attention in PyTorch has as many keys as queries, and heads of their own here")
        for name in ("q", "k", "v", "do"):
            if name in s:
                s[name] = s[name].reshape(sequences, tokens // sequences, heads, -1).transpose(1, 2)
        s["scale"] = request["params"]["kappa"] * math.log(2)
        if "do" not in s:
            return
        s["results"] = self.aten._scaled_dot_product_flash_attention_for_cpu(s["q"], s["k"], s["v"], 0.0, True, scale=s["scale"])
        with torch.inference_mode(False), torch.enable_grad():
            s["inputs"] = tuple(s[name].clone().requires_grad_() for name in ("q", "k", "v"))
            s["graph"], s["outer"] = self.attend(s, *s["inputs"]), s["do"].clone()

    def attend(self, s, q, k, v):
        return self.F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=s["scale"])

    def attention_backward(self, s):
        with self.torch.inference_mode(False):
            gradients = self.torch.autograd.grad(s["graph"], s["inputs"], s["outer"], retain_graph=True)
        return tuple(g.transpose(1, 2) for g in gradients)

    def attention_backward_of_results(self, s):
        gradients = self.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            s["do"], s["q"], s["k"], s["v"], *s["results"], 0.0, True, scale=s["scale"])
        return tuple(g.transpose(1, 2) for g in gradients)

    def residual(self, s, eps):
        self.torch.add(s["x"], s["residual"], out=s["sum"])
        return s["sum"], rms_norm(self.F, s["sum"], s["gamma"], eps)

    def rms_norm_backward(self, s):
        with self.torch.inference_mode(False):
            return self.torch.autograd.grad(s["graph"], s["inputs"], s["outer"], retain_graph=True)

    def add_sum(self, s, gradients):
        return gradients[0] + s["dsum"], gradients[1]

    def rotate(self, s, x):
        torch = self.torch
        cos, sin = (s[name].index_select(0, s["position64"]) for name in ("cos", "sin"))
        x1, x2 = x.chunk(2, -1)
        return (x * torch.cat((cos, cos), -1) + torch.cat((-x2, x1), -1) * torch.cat((sin, sin), -1)).chunk(2, -1)

    def rotate_halves(self, s, x1, x2):
        cos, sin = (s[name].index_select(0, s["position64"]) for name in ("cos", "sin"))
        return x1 * cos - x2 * sin, x1 * sin + x2 * cos

    def rotate_into(self, s, x1, x2):
        torch = self.torch
        cos, sin = (s[name].index_select(0, s["position64"]) for name in ("cos", "sin"))
        y1, y2 = s["y"].chunk(2, -1)
        torch.mul(x1, cos, out=y1).addcmul_(x2, sin, value=-1)
        torch.mul(x1, sin, out=y2).addcmul_(x2, cos)
        return y1, y2

    def swiglu_backward(self, s):
        torch, aten = self.torch, self.aten
        aten.silu.out(s["gate"], out=s["dup"]).mul_(s["dy"])
        torch.mul(s["dy"], s["up"], out=s["dgate"])
        aten.silu_backward.grad_input(s["dgate"], s["gate"], grad_input=s["dgate"])
        return s["dgate"], s["dup"]

    def route(self, s, k):
        torch = self.torch
        score = torch.softmax(s["logits"], -1)
        expert = torch.topk(score + s["bias"], k, -1, sorted=False).indices
        weight = score.gather(-1, expert)
        return expert, weight / weight.sum(-1, keepdim=True)

    def dispatch(self, s, name):
        torch = self.torch
        expert, experts = s[name].flatten(), len(s["counts"])
        slot = torch.sort(expert, stable=True).indices
        counts = torch.bincount(expert, minlength=experts)
        place = torch.empty_like(slot)
        place[slot] = torch.arange(len(slot))
        shape, column = s[name].shape, (-1, 1)
        offsets = self.F.pad(counts.cumsum(0), (1, 0))
        return counts.reshape(column), offsets.reshape(column), (slot // shape[-1]).reshape(shape), slot.reshape(shape), place.reshape(shape)

    def sample(self, s):
        torch = self.torch
        log = torch.log_softmax(s["logits"], -1)
        p = torch.softmax(s["logits"] / s["temperature"].unsqueeze(-1), -1)
        token = torch.argmax(p.div_(torch.empty_like(p).exponential_()), -1)
        return token, log.gather(-1, token.unsqueeze(-1))

    def multinomial(self, s):
        torch = self.torch
        log = torch.log_softmax(s["logits"], -1)
        token = torch.multinomial(torch.softmax(s["logits"] / s["temperature"].unsqueeze(-1), -1), 1)
        return token, log.gather(-1, token)

    def greedy(self, s):
        torch = self.torch
        logit, token = torch.max(s["logits"], -1, keepdim=True)
        return token, logit - torch.logsumexp(s["logits"], -1, keepdim=True)

    def greedy_log_softmax(self, s):
        torch = self.torch
        logprob, token = torch.max(torch.log_softmax(s["logits"], -1), -1, keepdim=True)
        return token, logprob

    def step(self, s):
        with self.torch.inference_mode(False), self.torch.no_grad():
            s["optimizer"].step()

    # The outputs of forms that return several.
    results = {
        "layernorm.backward": ["dx", "dgamma", "dbeta"], "rmsnorm.residual.forward": ["sum", "y"],
        "rmsnorm.backward": ["dx", "dgamma"], "rmsnorm.residual.backward": ["dx", "dgamma"],
        "attention.backward": ["dq", "dk", "dv"],
        "rope.forward": ["y1", "y2"], "rope.norm.forward": ["y1", "y2"], "swiglu.backward": ["dgate", "dup"],
        "dispatch.forward": ["counts", "offsets", "source", "slot", "place"], "sample greedy": ["token", "logprob"],
    }

    def outputs(self, request, s):
        op, result = request["op"], s["result"]
        if op == "adamw.step":
            state = s["optimizer"].state[s["parameter"]]
            return {"weight": s["parameter"], "m": state["exp_avg"], "v": state["exp_avg_sq"]}
        if op == "sgd.step":
            return {"weight": s["parameter"], "buffer": s["optimizer"].state[s["parameter"]]["momentum_buffer"]}
        if op == "crossentropy":
            return {"dlogits": result}
        if op in ("sample", "dropout.forward"):
            return {}
        if op == "router.softmax.forward":  # in ascending order, which nobody is timed for
            expert, order = result[0].sort(-1)
            return {"expert": expert, "weight": result[1].gather(-1, order)}
        if isinstance(result, tuple):
            return dict(zip(self.results.get(op, ["y", "mean", "rstd"]), result))
        return {request["result"]: result}

    def values(self, t, rows):
        t = t.detach()
        t = t.reshape(-1, t.shape[-1]) if t.dim() > 1 else t.reshape(1, -1)
        return t[rows].to(self.torch.float32).contiguous().numpy().tobytes()


class NumPy:
    """NumPy with out=, as far as it goes without another library; f32 only."""

    def __init__(self, threads):
        import numpy
        self.np, self.threads = numpy, threads
        self.dtypes = {"f32": numpy.float32, "i32": numpy.int32}
        self.guard = None

    def about(self):
        np = self.np
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return {"name": "NumPy", "version": np.__version__, "details": [f"{blas['name']} {blas['version']}"], "threads": self.threads}

    def load(self, o):
        np = self.np
        if o["dtype"] not in self.dtypes:
            raise Unsupported("NumPy computes in f32 only here")
        dtype = self.dtypes[o["dtype"]]
        if not o["file"]:
            return np.full(o["shape"], -1, dtype=dtype)
        return np.fromfile(o["file"], dtype=dtype).reshape(o["shape"])

    def complete(self, request, s):
        if "grouped" in request["op"]:
            s["groups"] = groups(s)
        if request["op"] == "gelu.forward":
            s["scratch"] = self.np.full_like(s["x"], -1)

    def forms(self, request):
        np, op = self.np, request["op"]
        matmul = {"np.matmul(out=)": lambda s: np.matmul(s["A"], s["B"], out=s["C"])}
        forms = {
            "gemm.forward": matmul,
            "gemm.batched.forward": matmul,
            "gemm.grad_a": {"np.matmul(out=)": lambda s: np.matmul(s["dC"], s["B"].swapaxes(-1, -2), out=s["dA"])},
            "gemm.grad_b": {"np.matmul(out=)": lambda s: np.matmul(s["A"].swapaxes(-1, -2), s["dC"], out=s["dB"])},
            "gemm.grouped.forward": {"np.matmul(out=) of each group": lambda s: each_group(
                s, "C", lambda g, rows: np.matmul(s["A"][rows], s["B"][g], out=s["C"][rows]))},
            "gemm.grouped.grad_a": {"np.matmul(out=) of each group": lambda s: each_group(
                s, "dA", lambda g, rows: np.matmul(s["dC"][rows], s["B"][g].T, out=s["dA"][rows]))},
            "gemm.grouped.grad_b": {"np.matmul(out=) of each group": lambda s: each_group(
                s, "dB", lambda g, rows: np.matmul(s["A"][rows].T, s["dC"][rows], out=s["dB"][g]))},
            "softmax.forward": {"np.max, np.exp, np.sum": self.softmax},
            "gelu.forward": {"np.tanh": self.gelu},
            "layernorm.forward": {"np.mean, np.sqrt": lambda s: self.layernorm(s, request["params"]["eps"])},
            "embedding.forward": {"np.take(out=)": lambda s: np.take(s["weight"], s["index"], axis=0, out=s["out"], mode="clip")},
        }
        if op not in forms:
            raise Unsupported("NumPy has no short form of " + op)
        if any(o["dtype"] not in self.dtypes for o in request["operands"].values()):
            raise Unsupported("NumPy computes in f32 only here")
        return forms[op]

    def softmax(self, s):
        np, x, y = self.np, s["x"], s["y"]
        np.subtract(x, np.max(x, axis=-1, keepdims=True), out=y)
        np.exp(y, out=y)
        return np.multiply(y, 1 / np.sum(y, axis=-1, keepdims=True), out=y)

    def gelu(self, s):
        np, x, y, t = self.np, s["x"], s["y"], s["scratch"]
        np.multiply(x, x, out=t)
        np.multiply(t, np.float32(0.7978845608 * 0.044715), out=t)
        np.add(t, np.float32(0.7978845608), out=t)
        np.multiply(t, x, out=t)
        np.tanh(t, out=t)
        np.add(t, np.float32(1), out=t)
        np.multiply(x, np.float32(0.5), out=y)
        return np.multiply(y, t, out=y)

    def layernorm(self, s, eps):
        np, x, y = self.np, s["x"], s["y"]
        np.subtract(x, np.mean(x, axis=-1, keepdims=True), out=y)
        variance = np.einsum("rc,rc->r", y, y)[:, None] / np.float32(x.shape[-1])
        np.multiply(y, 1 / np.sqrt(variance + np.float32(eps)), out=y)
        np.multiply(y, s["gamma"], out=y)
        return np.add(y, s["beta"], out=y)

    def outputs(self, request, s):
        return {request["result"]: s["result"]}

    def values(self, a, rows):
        return a.reshape(-1, a.shape[-1])[rows].astype(self.np.float32).tobytes()


def rms_norm(F, x, gamma, eps):
    return F.rms_norm(x, [x.shape[-1]], gamma, eps)


def groups(s):
    """Returns the rows of each group as slices."""
    offsets = s["offsets"].flatten().tolist()
    return [slice(begin, end) for begin, end in zip(offsets, offsets[1:])]


def each_group(s, result, multiply):
    for g, rows in enumerate(s["groups"]):
        multiply(g, rows)
    return s[result]


def product(shape):
    n = 1
    for size in shape:
        n *= size
    return n


def serve(library, requests, answer):
    case = None
    for line in requests:
        request = json.loads(line)
        try:
            if request["do"] == "prepare":
                case = None  # frees the memory of the one before
                case = Case(library, request)
                answer({"form": case.name})
            elif request["do"] == "run":
                answer({"ns": case.run(request["repeat"], request["calls"])})
            elif request["do"] == "check":
                answer(case.check(request["rows"]))
            elif request["do"] == "release":
                case = None
                answer({})
            else:
                answer({"error": "unknown request " + request["do"]})
        except Unsupported as e:
            case = None
            answer({"unsupported": str(e)})
        except Exception as e:
            case = None
            answer({"error": f"{type(e).__name__}: {e}"})


def main():
    # What libraries print must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(message):
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    try:
        library = {"torch": Torch, "numpy": NumPy}[sys.argv[1]](int(sys.argv[2]))
    except ImportError as e:
        answer({"missing": str(e)})
        return
    answer(library.about())
    gc.disable()
    if library.guard is not None:
        library.guard.__enter__()
    serve(library, sys.stdin, answer)


if __name__ == "__main__":
    main()
