"""Kernels that cheat with what PyTorch has: its allocator, its classes, its threads and streams. They need torch; docs/foreign.md
lists them with how each is caught, and test_cheats.py shows that it is.

    tokitai check softmax.forward --exec "python3 -m tokitai.kernel torch_kernels.py:unwritten --op softmax.forward" --level smoke
"""
import gc
import threading
import time

import torch

cache = {}


def honest(x):
    return torch.softmax(x, -1)


def unwritten(x):
    """empty_like finds what an earlier result left in memory. KernelBench, Sakana AI."""
    return torch.empty_like(x)


def left_in_memory(x):
    """Computes, frees the result, and returns memory that is likely to hold that of another call."""
    y = torch.empty_like(x)
    torch.softmax(x, -1)
    return y


def cached_by_pointer(x):
    """The address of the input is the key. Wafer saw this in C++."""
    key = x.data_ptr(), tuple(x.shape), x.dtype
    if key not in cache:
        cache[key] = torch.softmax(x, -1)
    return cache[key]


def cached_by_sum(x):
    """A checksum is the key, which all zero-sum or NaN inputs share."""
    key = tuple(x.shape), x.dtype, round(float(x.float().sum()), 1)
    if key not in cache:
        cache[key] = torch.softmax(x, -1)
    return cache[key]


def stale_pointer(x):
    """A graph that was recorded once reads the memory that it was recorded with. KernelBench-Hard."""
    return torch.softmax(cache.setdefault(tuple(x.shape), x), -1)


def skips_same_address(x, y):
    """Does nothing where it was called with the same memory before. GPU MODE."""
    key = x.data_ptr(), y.data_ptr()
    if cache.get("last") != key:
        y.copy_(torch.softmax(x, -1))
    cache["last"] = key


def predicted_inputs(x):
    """Answers for the inputs of a fixed seed were computed before. KernelBench draws them with seed 42."""
    torch.manual_seed(42)
    known = torch.randn(x.shape)
    return torch.softmax(known, -1).to(x.dtype)


def found_by_gc(x):
    """Looks for the expected result among all objects. pygpubench."""
    for found in gc.get_objects():
        if type(found) is torch.Tensor and found is not x and found.shape == x.shape and found.dtype == x.dtype and found.data_ptr() != x.data_ptr():
            return found.clone()
    return torch.zeros_like(x)


def written_to_input(x):
    """Writes the result over its input and returns that."""
    x.copy_(torch.softmax(x, -1))
    return x


class Lazy(torch.Tensor):
    """A tensor whose values are computed when somebody asks for them. GPU MODE, Wafer."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        args = [torch.softmax(a.source, -1) if isinstance(a, Lazy) and "detach" in str(function) else a for a in args]
        return super().__torch_function__(function, types, args, kwargs or {})


def lazy(x):
    y = torch.Tensor._make_subclass(Lazy, torch.empty_like(x))
    y.source = x
    return y


def late_thread(x, y):
    def work():
        time.sleep(0.01)
        y.copy_(torch.softmax(x, -1))

    threading.Thread(target=work, daemon=True).start()


def corrected_later(x):
    """Returns at once what a thread computes meanwhile."""
    y = torch.zeros_like(x)
    threading.Thread(target=lambda: y.copy_(torch.softmax(x, -1)), daemon=True).start()
    return y


def other_stream(x, y):
    """Work on a stream of its own, which the caller's clock does not see. On the CPU, the same as late_thread."""
    if not x.is_cuda:
        return late_thread(x, y)
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(20_000_000)
        y.copy_(torch.softmax(x, -1))


def half_precision(x):
    return torch.softmax(x.half(), -1).to(x.dtype)


def patched_torch(x):
    """Replaces what other harnesses compare with, and returns zeros."""
    torch.allclose = torch.equal = torch.testing.assert_close = lambda *a, **k: True
    torch.softmax = lambda t, *a, **k: torch.zeros_like(t)
    return torch.softmax(x)


def patched_reading(x):
    """Replaces the ways in which a tensor is read and compared, and returns zeros."""
    zeros = torch.zeros_like(x)
    torch.Tensor.__eq__ = torch.Tensor.equal = lambda *a, **k: True
    torch.Tensor.isnan = lambda t: zeros.bool()
    torch.Tensor.contiguous = lambda t, *a, **k: t.clone().fill_(0.5)
    return zeros
