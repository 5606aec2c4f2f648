"""Kernels of Liger-Kernel, as callables that `tokitai check` can judge.

Liger-Kernel must be importable; LIGER may name a folder with its unpacked wheel. With TRITON_INTERPRET=1 the kernels run on the CPU.

    tokitai check rmsnorm.def --exec "python3 -m tokitai.kernel liger.py:rmsnorm --op rmsnorm.def --device cuda" --profile triton
"""
import os
import sys

if "LIGER" in os.environ:
    sys.path.insert(0, os.environ["LIGER"])
try:
    import packaging.version
except ImportError:  # Liger-Kernel needs packaging, which pip carries
    from pip._vendor import packaging
    from pip._vendor.packaging import version

    sys.modules["packaging"], sys.modules["packaging.version"] = packaging, version

import torch

from liger_kernel.ops import cross_entropy, geglu, layer_norm, rms_norm, softmax, swiglu
from liger_kernel.ops.experimental import embedding


class Context:
    """What autograd hands from forward to backward."""

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors


def softmax_forward(x):
    return softmax._softmax_forward(x)[0]


def softmax_backward(dy, y):
    block, warps = softmax.calculate_settings(dy.shape[-1])
    return softmax._softmax_backward(dy, y, block, warps, False)


def layernorm_forward(x, gamma, beta, eps, y, mean, rstd):
    out, _, m, r, _, _ = layer_norm.layer_norm_forward(x.contiguous(), gamma.contiguous(), beta.contiguous(), eps)
    y.copy_(out), mean.copy_(m), rstd.copy_(r)


def layernorm_backward(dy, x, gamma, mean, rstd):
    g = gamma.contiguous()
    return layer_norm.layer_norm_backward(dy.contiguous(), x.contiguous(), g, g, mean.contiguous(), rstd.contiguous())


def rmsnorm(x, gamma, eps):
    return rms_norm.rms_norm_forward(x.contiguous(), gamma.contiguous(), eps, 0.0, "gemma", None)[0]


def rmsnorm_llama(x, gamma, eps):
    """The default, "llama": the normalised row is rounded to the format of x before it is scaled."""
    return rms_norm.rms_norm_forward(x.contiguous(), gamma.contiguous(), eps, 0.0, "llama", None)[0]


def geglu_forward(a, b):
    return geglu.geglu_forward(a.contiguous(), b.contiguous())[2]


def swiglu_forward(a, b):
    return swiglu.swiglu_forward(a.contiguous(), b.contiguous())[2]


def crossentropy(logits, label, scale, ignore, loss, dlogits):
    """Loss and gradient for a reduction of "none". The loss has the format of the logits, and the gradient is written over them."""
    z, label = logits.clone().requires_grad_(), label.reshape(-1).long()
    outside = (label < 0) | (label >= z.shape[1])
    given = outside & (label != int(ignore))
    if given.any():  # Liger-Kernel refuses these labels
        with torch.no_grad():
            z[given] = 0
    rows, _, _, _, gradient = cross_entropy.cross_entropy_forward(z, torch.where(outside | (label == int(ignore)), -100, label), None, -100, 0.0, 0.0, "none", None, False)
    gradient = cross_entropy.cross_entropy_backward(gradient.detach(), torch.full_like(rows, scale))
    loss.copy_(rows.reshape(loss.shape)), dlogits.copy_(gradient)


def embedding_backward(index, dout, dweight):
    index = index.reshape(-1).long()
    inside = (index >= 0) & (index < dweight.shape[0])
    if not inside.all():
        index, dout = index[inside], dout[inside]
    if dout.dtype != dweight.dtype:
        dout = dout.to(dweight.dtype)
    if len(index) == 0:
        return dweight.zero_()
    context = Context()
    context.save_for_backward(index.contiguous(), torch.empty_like(dweight).contiguous())
    dweight.copy_(embedding.LigerEmbeddingFunction.backward(context, dout)[0])
