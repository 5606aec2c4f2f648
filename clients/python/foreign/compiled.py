"""What torch.compile makes of PyTorch's functions, as callables that `tokitai check` can judge.

Sizes are dynamic, and falling back to eager kernels is an error: fullgraph raises where the limit of compilations is reached."""
import torch
import torch.nn.functional as F

torch._dynamo.config.recompile_limit = 64


def compiled(function):
    return torch.compile(function, dynamic=True, fullgraph=True)


_softmax = compiled(lambda x: torch.softmax(x, -1))
_gelu = compiled(lambda x: F.gelu(x, approximate="tanh"))
_gelu_erf = compiled(lambda x: F.gelu(x))
_layernorm = compiled(lambda x, gamma, beta, eps: F.layer_norm(x, (x.shape[-1],), gamma, beta, eps))
_rmsnorm = compiled(lambda x, gamma, eps: F.rms_norm(x, (x.shape[-1],), gamma, eps))
_swiglu = compiled(lambda a, b: F.silu(a) * b)
_geglu = compiled(lambda a, b: F.gelu(a, approximate="tanh") * b)
_softmax_backward = compiled(lambda dy, y: torch.ops.aten._softmax_backward_data(dy, y, -1, dy.dtype))
_gelu_backward = compiled(lambda dy, x: torch.ops.aten.gelu_backward(dy, x, approximate="tanh"))


def softmax_forward(x):
    return _softmax(x)


def softmax_backward(dy, y):
    return _softmax_backward(dy, y)


def gelu_forward(x):
    return _gelu(x)


def gelu_backward(dy, x):
    return _gelu_backward(dy, x)


def gelu_erf_forward(x):
    return _gelu_erf(x)


def layernorm_forward(x, gamma, beta, eps, y):
    """y alone: the mean and the reciprocal deviation stay inside."""
    y.copy_(_layernorm(x, gamma, beta, eps))


def rmsnorm(x, gamma, eps):
    return _rmsnorm(x, gamma, eps)


def swiglu_forward(a, b):
    return _swiglu(a, b)


def geglu_forward(a, b):
    return _geglu(a, b)
