"""Differentiable torch functions, judged forward and backward in one call.

The function computes the forward result; its gradients come from torch.autograd. Where a gradient's definition takes what
autograd keeps to itself (the result of softmax, the mean and rstd of LayerNorm), the function is held to a definition of
both passes together, which takes the inputs and the gradient of the output."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from tokitai_client import Defined

from . import calling, forms
from .calling import Shape, Wrong

# Both passes of softmax. The gradient is taken from the stored result, as every library does: a kernel may round p.
SOFTMAX = """tokitai-def 1
rowwise softmax.autograd
  in  x[R,C]
  in  dy[R,C] as x
  out y[R,C] as x
  out dx[R,C] as x
  formula "y[r,c]  = exp(x[r,c] - max) / sum exp(x[r,c] - max)"
  formula "dx[r,c] = y[r,c] * (dy[r,c] - sum dy[r,c]*y[r,c])"
  e = exp(x - rowmax(x))
  p = e / rowsum(e)
  y <- p
  dx <- p * (dy - rowsum(dy * p))
"""

LAYERNORM = """tokitai-def 1
rowwise layernorm.autograd
  in    x[R,C]
  in    gamma[C] as x or f32
  in    beta[C] as gamma
  in    dy[R,C] as x
  param eps float in [0,+Inf) default 1e-5
  out   y[R,C] as x
  out   dx[R,C] as x
  out   dgamma[C] as gamma
  out   dbeta[C] as gamma
  formula "y[r,c]    = xhat[r,c] * gamma[c] + beta[c],  xhat[r,c] = (x[r,c] - mean[r]) * rstd[r]"
  formula "dx[r,c]   = (t[r,c] - sum t[r,c]/C - xhat[r,c] * sum t[r,c]*xhat[r,c]/C) * rstd[r],  t = dy * gamma"
  formula "dgamma[c] = sum over r of dy[r,c] * xhat[r,c],  dbeta[c] = sum over r of dy[r,c]"
  mean = rowsum(x) / C
  centred = x - mean
  rstd = 1 / sqrt(rowsum(centred * centred) / C + eps)
  xhat = centred * rstd
  t = dy * gamma
  y <- xhat * gamma + beta
  dx <- (t - rowsum(t) / C - xhat * (rowsum(t * xhat) / C)) * rstd
  dgamma <- colsum(dy * xhat)
  dbeta <- colsum(dy)
"""


# The same function as PyTorch computes it: one slope and one offset a row, and products from the left. Its differences cancel
# where the row has little variance, and its products underflow where others do not.
LAYERNORM_LINEAR = LAYERNORM.replace(
    "  dx <- (t - rowsum(t) / C - xhat * (rowsum(t * xhat) / C)) * rstd\n",
    """  slope = (rowsum(t) * mean - rowsum(t * x)) * rstd * rstd * rstd / C
  dx <- rstd * dy * gamma + slope * x - (slope * mean + rowsum(t) * rstd / C)
""",
)

GELU_ERF = """tokitai-def 1
rowwise gelu_erf.forward
  in  x[R,C]
  out y[R,C] as x
  formula "y = x/2 * (1 + erf(x/sqrt(2)))"
  y <- x * (0.5 + 0.5 * erf(x * {sqrt(1/2)}))
"""

GELU_ERF_BACKWARD = """tokitai-def 1
rowwise gelu_erf.backward
  in  dy[R,C]
  in  x[R,C] as dy
  out dx[R,C] as dy
  formula "dx = dy * ((1 + erf(x/sqrt(2)))/2 + x * exp(-x^2/2)/sqrt(2*pi))"
  density = exp(-0.5 * (x * x)) * {1/sqrt(2*pi)}
  dx <- dy * (0.5 + 0.5 * erf(x * {sqrt(1/2)}) + x * density)
"""


class Part(NamedTuple):
    """One definition that a function is held to. rounded is a value that kernels keep in the storage format; forms are the
    same function of the real numbers written otherwise, each with what it says: a function may be any of them, in all cases."""

    op: str
    rounded: str = ""
    omit: Tuple[str, ...] = ()
    forms: Tuple[Tuple[str, str], ...] = ()


PARTS = {
    "softmax": (Part("softmax.forward"), Part(SOFTMAX, rounded="p")),
    "gelu": (Part("gelu.forward"), Part("gelu.backward")),
    "gelu_erf": (Part(GELU_ERF), Part(GELU_ERF_BACKWARD)),
    "layernorm": (Part("layernorm.forward", omit=("mean", "rstd")), Part(LAYERNORM, forms=((LAYERNORM_LINEAR, "dx = rstd*dy*gamma + slope*x + offset, as PyTorch computes it"),))),
    "crossentropy": (Part("crossentropy"),),
    "embedding": (Part("embedding.forward"), Part("embedding.backward")),
    "gemm": (Part("gemm.forward"), Part("gemm.grad_a"), Part("gemm.grad_b")),
}


def parts_of(op: str) -> Sequence[Part]:
    if op not in PARTS:
        raise forms.OperationError(f"op {op!r} has no gradients that torch.autograd gives, want one of {', '.join(PARTS)}")
    return PARTS[op]


class Pass(NamedTuple):
    """How a definition follows from a forward function: its inputs in order, those that get gradients (with the names of
    these), and the gradient of the result."""

    shape: Shape
    gradients: Dict[str, str] = {}
    incoming: str = ""
    gives_result: str = ""  # the output that is the function's result itself


PASSES = {
    "softmax.forward": Pass(Shape("softmax", ("x",), ("y",), ()), gives_result="y"),
    "softmax.autograd": Pass(Shape("softmax", ("x",), ("y",), ()), {"x": "dx"}, "dy", "y"),
    "gelu.forward": Pass(Shape("gelu", ("x",), ("y",), ()), gives_result="y"),
    "gelu.backward": Pass(Shape("gelu", ("x",), ("y",), ()), {"x": "dx"}, "dy"),
    "gelu_erf.forward": Pass(Shape("gelu_erf", ("x",), ("y",), ()), gives_result="y"),
    "gelu_erf.backward": Pass(Shape("gelu_erf", ("x",), ("y",), ()), {"x": "dx"}, "dy"),
    "layernorm.forward": Pass(Shape("layernorm", ("x", "gamma", "beta"), ("y",), ("eps",)), gives_result="y"),
    "layernorm.autograd": Pass(Shape("layernorm", ("x", "gamma", "beta"), ("y",), ("eps",)), {"x": "dx", "gamma": "dgamma", "beta": "dbeta"}, "dy", "y"),
    "crossentropy": Pass(Shape("crossentropy", ("logits", "label"), ("loss",), ("ignore",)), {"logits": "dlogits"}, "", "loss"),
    "embedding.forward": Pass(Shape("embedding", ("index", "weight"), ("out",), ()), gives_result="out"),
    "embedding.backward": Pass(Shape("embedding", ("index", "weight"), ("out",), ()), {"weight": "dweight"}, "dout"),
    "gemm.forward": Pass(Shape("gemm", ("A", "B"), ("C",), ()), gives_result="C"),
    "gemm.grad_a": Pass(Shape("gemm", ("A", "B"), ("C",), ()), {"A": "dA"}, "dC"),
    "gemm.grad_b": Pass(Shape("gemm", ("A", "B"), ("C",), ()), {"B": "dB"}, "dC"),
}


def adapted(function: Callable, form: Defined) -> Callable:
    """Returns a callable for a definition, from a differentiable function."""
    if form.name not in PASSES:
        raise Wrong(f"{form.name} does not follow from a forward function, want one of {', '.join(PASSES)}")
    if inspect.isclass(function) and hasattr(function, "apply"):
        function = _applied(function)
    return _Adapted(function, PASSES[form.name], form)


def _applied(function: Any) -> Callable:
    """Returns apply of a torch.autograd.Function, with the parameters of its forward: apply itself takes any, in order."""
    has_setup = any("setup_context" in vars(c) for c in function.__mro__ if c.__module__ != "torch.autograd.function")
    parameters = list(inspect.signature(function.forward).parameters.values())
    signature = inspect.Signature(parameters if has_setup else parameters[1:])  # without ctx

    def call(*arguments: Any, **named: Any) -> Any:
        bound = signature.bind(*arguments, **named)
        bound.apply_defaults()
        return function.apply(*bound.args)

    call.__name__ = function.__name__
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


class _Adapted:
    """A definition computed by a differentiable function."""

    def __init__(self, function: Callable, how: Pass, form: Defined):
        self._function, self._pass = function, how
        self._outputs = forms.outputs_of(form)
        self._convention = calling.convention(function, how.shape)
        self.__name__ = calling.name_of(function)
        unused = [n for n in how.shape.params if n not in self._convention.by_name]
        takes = forms.inputs_of(form) + [p.name for p in form.params if p.name not in unused]
        if form.name == "embedding.backward":  # the number of rows is a size of the output alone
            takes.append("dweight")
        self.__signature__ = inspect.Signature([inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in takes])

    def __call__(self, **values: Any) -> Any:
        import torch

        p = self._pass
        leaves = {n: self._input(torch, n, values) for n in p.shape.inputs}
        params = {n: values[n] for n in p.shape.params if n in values}
        with torch.enable_grad():
            result = calling.call(self._function, self._convention, p.shape, {**leaves, **params}, self._buffers(leaves))
        if isinstance(result, (tuple, list)) and result:
            result = result[0]
        if not isinstance(result, torch.Tensor):
            raise Wrong(f"{self.__name__} returned {'None' if result is None else 'a ' + type(result).__name__}, want a torch tensor with a gradient")
        outputs = {p.gives_result: result.detach()} if p.gives_result else {}
        if p.gradients:
            outputs.update(self._gradients(torch, result, leaves, values))
        if "dweight" in values:
            values["dweight"].copy_(outputs["dweight"])
            return None
        return tuple(outputs.get(n) for n in self._outputs if n in outputs)

    def _buffers(self, leaves: Dict[str, Any]) -> Dict[str, Any]:
        if self._convention.written:
            raise Wrong(f"{self.__name__} writes its output to an argument, and torch.autograd needs one that returns it")
        return {}

    def _input(self, torch: Any, name: str, values: Dict[str, Any]) -> Any:
        """Returns an input of the forward function; one that the definition does not have is zero, since the gradient
        does not depend on it."""
        if name in ("label", "index"):
            return values[name].to(torch.int64)
        if name in values:
            value = values[name].detach()
        elif name == "weight":
            value = torch.zeros_like(values["dweight"])
        elif name == "A":
            value = torch.zeros(values["dC"].shape[0], values["B"].shape[0], dtype=values["B"].dtype, device=values["B"].device)
        else:
            value = torch.zeros(values["A"].shape[1], values["dC"].shape[1], dtype=values["A"].dtype, device=values["A"].device)
        return value.requires_grad_(name in self._pass.gradients)

    def _gradients(self, torch: Any, result: Any, leaves: Dict[str, Any], values: Dict[str, Any]) -> Dict[str, Any]:
        p = self._pass
        if not result.requires_grad:
            raise Wrong(f"{self.__name__} gave a result without a gradient: it was not computed through torch.autograd")
        incoming = values[p.incoming].to(result.dtype) if p.incoming else torch.full_like(result, values["scale"])
        if incoming.shape != result.shape:
            raise Wrong(f"{self.__name__} gave a result of shape {list(result.shape)}, want {list(incoming.shape)}")
        names = list(p.gradients)
        gradients = torch.autograd.grad(result, [leaves[n] for n in names], incoming, allow_unused=True)
        for name, gradient in zip(names, gradients):
            if gradient is None:
                raise Wrong(f"{self.__name__} gave a result that does not depend on {name}: it has no gradient")
        return {p.gradients[n]: g for n, g in zip(names, gradients)}
