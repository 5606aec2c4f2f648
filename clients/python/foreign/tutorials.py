"""Kernels of Triton's tutorials, as callables that `tokitai check` can judge.

TRITON_TUTORIALS names the folder python/tutorials of a checkout of Triton. The kernels are taken from its files as they are;
what a file runs besides, its unit test and its benchmark, is left out. With TRITON_INTERPRET=1 they run on the CPU.

    TRITON_TUTORIALS=triton/python/tutorials TRITON_INTERPRET=1 \\
        tokitai check softmax.forward --exec "python3 -m tokitai.kernel tutorials.py:softmax_forward --op softmax.forward" --profile triton
"""
import ast
import functools
import linecache
import os
import sys
import types

import torch
import triton
import triton.language as tl


@functools.cache
def tutorial(file):
    """The functions and classes of a tutorial, without what it does when it is imported."""
    path = os.path.join(os.environ["TRITON_TUTORIALS"], file)
    with open(path) as f:
        text = f.read()
    kept = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    tree = ast.parse(text)
    tree.body = [n for n in tree.body if isinstance(n, kept) and not _is_benchmark(n)]
    module = types.ModuleType(os.path.basename(file).split(".")[0].replace("-", "_"))
    module.__file__ = path
    sys.modules[module.__name__] = module
    linecache.cache[path] = (len(text), None, text.splitlines(True), path)  # triton.jit reads the source of a kernel
    # One configuration instead of a search for the fastest of a dozen in every shape: they differ in the size of their tiles.
    module.get_autotune_config = _one_configuration
    tree.body = [n for n in tree.body if getattr(n, "name", "") != "get_autotune_config"]
    exec(compile(tree, path, "exec"), module.__dict__)
    return module


def _is_benchmark(node):
    return any("perf_report" in ast.dump(d) for d in getattr(node, "decorator_list", ())) or getattr(node, "name", "").startswith("test_")


def _one_configuration():
    return [triton.Config({"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 8}, num_stages=3, num_warps=4)]


def softmax_forward(x):
    """02-fused-softmax.py. Its wrapper asks the compiled kernel for its registers to size the grid; here there is a program a row."""
    rows, columns = x.shape
    y = torch.empty_like(x)
    kernel = tutorial("02-fused-softmax.py").softmax_kernel
    kernel[(rows, 1, 1)](y, x, x.stride(0), y.stride(0), rows, columns, BLOCK_SIZE=triton.next_power_of_2(columns), num_stages=2, num_warps=8)
    return y


def matmul(A, B, C):
    """03-matrix-multiplication.py. Its result is always in f16."""
    c = tutorial("03-matrix-multiplication.py").matmul(A.contiguous(), B)
    if c.dtype != C.dtype:
        raise NotImplementedError(f"the product is {c.dtype}, want {C.dtype}")
    C.copy_(c)


class Context:
    """What autograd hands from forward to backward."""

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors


def layernorm_forward(x, gamma, beta, eps):
    context = Context()
    y = tutorial("05-layer-norm.py").LayerNorm.forward(context, x.contiguous(), gamma.shape, gamma.contiguous(), beta.contiguous(), eps)
    return y, context.saved_tensors[3], context.saved_tensors[4]


def layernorm_backward(dy, x, gamma, mean, rstd):
    context, columns = Context(), x.shape[-1]
    gamma = gamma.contiguous()
    context.save_for_backward(x.contiguous(), gamma, gamma, mean.contiguous(), rstd.contiguous())
    context.BLOCK_SIZE = triton.next_power_of_2(columns)
    context.num_warps = min(max(context.BLOCK_SIZE // 256, 1), 8)
    dx, _, dgamma, dbeta, _ = tutorial("05-layer-norm.py").LayerNorm.backward(context, dy.contiguous())
    return dx, dgamma, dbeta
