"""PyTorch's own kernels, as callables that `tokitai check` can judge.

    tokitai check softmax.forward --exec "python3 -m tokitai.kernel pytorch.py:softmax_forward --op softmax.forward" --profile torch

Every function takes the operands of the definition it is named after, by name, and writes its outputs. They run on the device
that the operands are on. Nothing is computed here that PyTorch does not compute: an adapter only converts shapes, index types
and, where PyTorch has no kernel for a mixture of formats, widens the inputs to f32, which is exact.
"""
import math

import torch
import torch.nn.functional as F
from torch.optim.adamw import adamw as optimizer_step

aten = torch.ops.aten


def put(out, value):
    """Stores a result. It has the format of the output, or is wider and rounded once."""
    out.copy_(value.detach().reshape(out.shape))


def softmax_forward(x, y):
    put(y, torch.softmax(x, -1))


def softmax_backward(dy, y, dx):
    put(dx, aten._softmax_backward_data(dy, y, -1, dy.dtype))


def gelu_forward(x, y):
    put(y, F.gelu(x, approximate="tanh"))


def gelu_backward(dy, x, dx):
    put(dx, aten.gelu_backward(dy, x, approximate="tanh"))


def gelu_erf_forward(x, y):
    put(y, F.gelu(x))


def gelu_erf_backward(dy, x, dx):
    put(dx, aten.gelu_backward(dy, x))


def layernorm_forward(x, gamma, beta, eps, y, mean, rstd):
    if x.dtype != gamma.dtype and x.device.type == "cuda":  # mixed formats are for the CPU alone
        x = x.float()
    row = (x.shape[-1],)
    out, m, r = aten.native_layer_norm(x, row, gamma.reshape(-1), beta.reshape(-1), eps)
    if m.dtype != torch.float32:  # with gamma in 16 bits the CPU rounds both to 16 bits
        _, m, r = aten.native_layer_norm(x.float(), row, gamma.float().reshape(-1), beta.float().reshape(-1), eps)
    put(y, out), put(mean, m), put(rstd, r)


def layernorm_backward(dy, x, gamma, mean, rstd, dx, dgamma, dbeta):
    g = gamma.reshape(-1)
    if x.device.type == "cpu":
        g = g.float()  # mean and rstd in f32 want gamma in f32
    elif g.dtype != x.dtype:
        x, dy, g = x.float(), dy.float(), g.float()
    column = (x.shape[0], 1)
    a, b, c = aten.native_layer_norm_backward(dy, x, (x.shape[-1],), mean.reshape(column), rstd.reshape(column), g, g, [True, True, True])
    put(dx, a), put(dgamma, b), put(dbeta, c)


def crossentropy(logits, label, scale, ignore, loss, dlogits):
    """Loss and gradient through autograd. PyTorch refuses labels outside of the row: those rows become ignored rows of zeros."""
    label = label.reshape(-1).long()
    outside = (label < 0) | (label >= logits.shape[1])
    given = outside & (label != int(ignore))
    z = torch.where(given[:, None], torch.zeros((), dtype=logits.dtype, device=logits.device), logits) if given.any() else logits.clone()
    z.requires_grad_()
    with torch.enable_grad():
        rows = F.cross_entropy(z.float(), torch.where(outside | (label == int(ignore)), -100, label), reduction="none", ignore_index=-100)
        (gradient,) = torch.autograd.grad(rows, z, torch.full_like(rows, scale))
    put(loss, rows), put(dlogits, gradient)


def embedding_forward(index, weight, out):
    index = index.reshape(-1).long()
    outside = (index < 0) | (index >= weight.shape[0])
    rows = F.embedding(torch.where(outside, 0, index), weight)
    put(out, torch.where(outside[:, None], torch.zeros((), dtype=rows.dtype, device=rows.device), rows) if outside.any() else rows)


def embedding_backward(index, dout, dweight):
    index = index.reshape(-1).long()
    inside = (index >= 0) & (index < dweight.shape[0])
    if not inside.all():
        index, dout = index[inside], dout[inside]
    if dweight.dtype != dout.dtype:
        dout = dout.float()
    if len(index) == 0:
        return dweight.zero_()
    put(dweight, aten.embedding_dense_backward(dout, index, dweight.shape[0], -1, False))


def product(a, b, out):
    if out.dtype != a.dtype:
        a, b = a.float(), b.float()
    put(out, a @ b)


def gemm_forward(A, B, C):
    product(A, B, C)


def gemm_grad_a(dC, B, dA):
    product(dC, B.mT, dA)


def gemm_grad_b(A, dC, dB):
    product(A.mT, dC, dB)


def gemm_accumulate(A, B, C):
    if C.dtype != A.dtype:
        A, B = A.float(), B.float()
    put(C, torch.addmm(C, A, B))


def total_norm(x, norm):
    put(norm, torch.nn.utils.get_total_norm([x.float()]))


def clip_factor(norm, max_norm, factor):
    """What clip_grad_norm_ makes of a gradient of 1."""
    for given, result in zip(norm.reshape(-1), factor.reshape(-1)):
        one = torch.nn.Parameter(torch.ones_like(given))
        one.grad = torch.ones_like(given)
        torch.nn.utils.clip_grads_with_norm_([one], max_norm, given)
        result.copy_(one.grad)


def clip_grad_norm(total, max_norm, norm, factor):
    put(norm, total.sqrt())
    clip_factor(norm, max_norm, factor)


def settings(p):
    """The numbers that people set, from those that the definition of AdamW has: lr, weight decay and the number of the step."""
    t = 1.0
    if p["beta2"] > 0:
        rest = 1 - p["inverse_sqrt_bc2"] ** -2  # beta2^t, below what 1/sqrt(1 - beta2^t) shows for a late step
        t = max(1.0, round(math.log(max(rest, 2**-60)) / math.log(p["beta2"])))
    lr = p["step_size"] * (1 - p["beta1"] ** t)
    return t, lr, p["decay"] / lr if lr > 0 else 0.0


def adamw(weight, m, v, grad, p, **how):
    """A step of torch.optim.AdamW. Moments are f32 here; PyTorch's would have the format of the weights, which are widened."""
    t, lr, decay = settings(p)
    w = weight.float() if weight.dtype != torch.float32 else weight
    step = torch.tensor(t, dtype=torch.float32, device=w.device if how.get("fused") or how.get("capturable") else "cpu")
    optimizer_step([w], [grad.float()], [m], [v], [], [step - 1], lr=lr, beta1=p["beta1"], beta2=p["beta2"],
                            weight_decay=decay, eps=p["eps"], amsgrad=False, maximize=False, **how)
    if w is not weight:
        weight.copy_(w)


def adamw_step(weight, m, v, grad, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, inverse_sqrt_bc2, eps, decay):
    adamw(weight, m, v, grad, locals(), foreach=False)


def adamw_step_foreach(weight, m, v, grad, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, inverse_sqrt_bc2, eps, decay):
    adamw(weight, m, v, grad, locals(), foreach=True)


def adamw_step_fused(weight, m, v, grad, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, inverse_sqrt_bc2, eps, decay):
    adamw(weight, m, v, grad, locals(), fused=True)


def attention(backend, q, k, v, qstart, kstart, kappa, o):
    """Attention of packed sequences, one call of a backend for each. PyTorch has no rows that see nothing: those are zeros here."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.bias import causal_lower_right

    tokens, groups, shared, width = q.shape
    queries, keys = qstart.reshape(-1).tolist(), kstart.reshape(-1).tolist()
    o.zero_()
    for first, end, begin, stop in zip(queries, queries[1:], keys, keys[1:]):
        first = max(first, end - (stop - begin))
        if first == end:
            continue
        heads = q[first:end].reshape(1, end - first, groups * shared, width).transpose(1, 2)
        parts = [x[begin:stop].transpose(0, 1)[None].repeat_interleave(shared, 1) for x in (k, v)]
        mask = causal_lower_right(end - first, stop - begin)
        try:
            with sdpa_kernel([getattr(SDPBackend, backend)]):
                result = F.scaled_dot_product_attention(heads, *parts, attn_mask=mask, scale=kappa * math.log(2))
        except RuntimeError as e:
            if "No available kernel" in str(e) or "No viable backend" in str(e):
                raise NotImplementedError(f"{backend} does not take these sizes or this format") from e
            raise
        o[first:end].copy_(result.transpose(1, 2).reshape(end - first, groups, shared, width))


def attention_math(q, k, v, qstart, kstart, kappa, o):
    attention("MATH", q, k, v, qstart, kstart, kappa, o)


def attention_flash(q, k, v, qstart, kstart, kappa, o):
    attention("FLASH_ATTENTION", q, k, v, qstart, kstart, kappa, o)


def attention_efficient(q, k, v, qstart, kstart, kappa, o):
    attention("EFFICIENT_ATTENTION", q, k, v, qstart, kstart, kappa, o)


def attention_cudnn(q, k, v, qstart, kstart, kappa, o):
    attention("CUDNN_ATTENTION", q, k, v, qstart, kstart, kappa, o)
