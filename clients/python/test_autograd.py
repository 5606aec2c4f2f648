"""Tests of tokitai.check_autograd, with PyTorch's functions and wrong gradients: TOKITAI=path/to/tokitai python3 -m unittest test_autograd"""

from __future__ import annotations

import unittest
from typing import Any

import torch
import torch.nn.functional as F

import tokitai

torch.set_num_threads(1)


def softmax(x: Any) -> Any:
    return torch.softmax(x, -1)


def gelu(x: Any) -> Any:
    return F.gelu(x, approximate="tanh")


def gelu_erf(x: Any) -> Any:
    return x * (0.5 + 0.5 * torch.erf(x * 0.5**0.5))


def layernorm(x: Any, gamma: Any, beta: Any, eps: float) -> Any:
    return F.layer_norm(x, (x.shape[-1],), gamma, beta, eps)


def crossentropy(logits: Any, label: Any, ignore: int) -> Any:
    return F.cross_entropy(logits.float(), label, reduction="none", ignore_index=int(ignore))


def embedding(index: Any, weight: Any) -> Any:
    return F.embedding(index, weight)


class SoftmaxWithoutSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        (y,) = ctx.saved_tensors
        return dy * y


class GeluByTheOtherDerivative(torch.autograd.Function):
    """The result of the erf form with the gradient of the tanh form, which is off by 1e-3."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * (0.5 + 0.5 * torch.erf(x * 0.5**0.5))

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        (x,) = ctx.saved_tensors
        return torch.ops.aten.gelu_backward(dy, x, approximate="tanh")


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, gamma: Any, beta: Any, eps: float = 1e-5) -> Any:
        y, mean, rstd = torch.ops.aten.native_layer_norm(x, (x.shape[-1],), gamma, beta, eps)
        ctx.save_for_backward(x, gamma, mean, rstd)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        x, gamma, mean, rstd = ctx.saved_tensors
        xhat = (x - mean) * rstd
        t = dy * gamma
        return (t - t.mean(-1, keepdim=True) - xhat * (t * xhat).mean(-1, keepdim=True)) * rstd, (dy * xhat).sum(0), dy.sum(0), None


class LayerNormWithoutMean(LayerNorm):
    """dx without the term of the mean of dy*gamma."""

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        x, gamma, mean, rstd = ctx.saved_tensors
        xhat = (x - mean) * rstd
        t = dy * gamma
        return (t - xhat * (t * xhat).mean(-1, keepdim=True)) * rstd, (dy * xhat).sum(0), dy.sum(0), None


class CrossEntropy(torch.autograd.Function):
    """Right, and it does not read ignored rows."""

    @staticmethod
    def forward(logits: Any, label: Any, ignore: int = -100) -> Any:
        return F.cross_entropy(logits.float(), label, reduction="none", ignore_index=ignore)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        logits, label, ctx.ignore = inputs
        ctx.save_for_backward(logits, label)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        logits, label = ctx.saved_tensors
        dlogits = gradients_of_all(logits, label, gradient)
        return torch.where((label == ctx.ignore)[:, None], torch.zeros_like(dlogits), dlogits), None, None


class CrossEntropyOfAllRows(torch.autograd.Function):
    """Ignored rows have a gradient, too: that of the first class."""

    @staticmethod
    def forward(ctx: Any, logits: Any, label: Any, ignore: int = -100) -> Any:
        ctx.save_for_backward(logits, label)
        return F.cross_entropy(logits.float(), label, reduction="none", ignore_index=ignore)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradients_of_all(*ctx.saved_tensors, gradient), None, None


def gradients_of_all(logits: Any, label: Any, gradient: Any) -> Any:
    known = label.clamp(0, logits.shape[1] - 1)
    return (torch.softmax(logits.float(), -1) - F.one_hot(known, logits.shape[1])) * gradient[:, None]


class EmbeddingOfTheLast(torch.autograd.Function):
    """The gradient of a row is that of the last query for it, not the sum of all."""

    @staticmethod
    def forward(ctx: Any, index: Any, weight: Any) -> Any:
        ctx.save_for_backward(index)
        ctx.rows = len(weight)
        return F.embedding(index, weight)

    @staticmethod
    def backward(ctx: Any, dout: Any) -> Any:
        (index,) = ctx.saved_tensors
        dweight = torch.zeros(ctx.rows, dout.shape[1], dtype=dout.dtype)
        dweight[index] = dout
        return None, dweight


def check(function: Any, op: str, dtype: str = "f32", **options: Any) -> tokitai.Report:
    return tokitai.check_autograd(function, op, dtypes=[dtype], level="smoke", seed=1, profile="torch", layouts="plain", **options)


class Torch(unittest.TestCase):
    def accept(self, function: Any, op: str, dtype: str = "f32", **options: Any) -> None:
        report = check(function, op, dtype, **options)
        self.assertTrue(report.accepted, report)

    def reject(self, function: Any, op: str, *words: str, dtype: str = "f32", **options: Any) -> None:
        report = check(function, op, dtype, **options)
        self.assertEqual(report.verdict, "rejected", report)
        for word in words:
            self.assertIn(word, str(report))

    def test_softmax(self) -> None:
        self.accept(softmax, "softmax")
        self.accept(softmax, "softmax", "bf16")
        self.reject(SoftmaxWithoutSum, "softmax", "dx[")

    def test_gelu(self) -> None:
        self.accept(gelu, "gelu")
        self.accept(gelu, "gelu", "bf16")
        self.accept(gelu_erf, "gelu_erf")
        self.reject(gelu_erf, "gelu", "y[")
        self.reject(GeluByTheOtherDerivative, "gelu_erf", "dx[")

    def test_layernorm(self) -> None:
        self.accept(layernorm, "layernorm")
        self.accept(LayerNorm, "layernorm")
        self.reject(LayerNormWithoutMean, "layernorm", "dx[")
        self.reject(layernorm, "layernorm", "dx[", dtype="bf16")  # which is computed from a mean and rstd in bf16: docs/foreign.md

    def test_crossentropy(self) -> None:
        self.reject(crossentropy, "crossentropy", "crossentropy.C2")  # NaN in an ignored row: docs/foreign.md
        self.accept(crossentropy, "crossentropy", waive="crossentropy.C2")
        self.accept(crossentropy, "crossentropy", "bf16", waive="crossentropy.C2")
        self.accept(CrossEntropy, "crossentropy")
        self.reject(CrossEntropyOfAllRows, "crossentropy", "dlogits[", waive="crossentropy.C2")

    def test_embedding(self) -> None:
        self.accept(embedding, "embedding")
        self.reject(EmbeddingOfTheLast, "embedding", "dweight[")
        self.reject(embedding, "embedding", "dweight[", dtype="bf16")  # which is added in bf16: docs/foreign.md


if __name__ == "__main__":
    unittest.main()
