"""The decorator that makes tests of kernels, for the pytest plugin."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Optional, Sequence

from .checking import check

ATTRIBUTE = "__tokitai_kernel__"


class Asked:
    """What a decorated kernel is checked for."""

    def __init__(self, op: Any, dtypes: Optional[Sequence[str]], autograd: bool, options: Dict[str, Any]):
        self.op, self.dtypes, self.autograd, self.options = op, dtypes, autograd, options


def kernel(op: Any, *, dtypes: Optional[Sequence[str]] = None, autograd: bool = False, **options: Any) -> Callable[[Callable], Callable]:
    """Marks a function in a test file as a kernel of an operation. pytest then has one test for each format and tier; options
    are those of check, or of check_autograd with autograd=True; level is smoke and seed 1 unless they are given.

        @tokitai.kernel("softmax.forward", dtypes=["f32", "bf16"])
        def softmax(x):
            return torch.softmax(x, -1)
    """
    unknown = [name for name in options if name not in inspect.signature(check).parameters or name in ("fn", "op")]
    if unknown:
        raise TypeError(f"kernel: {unknown[0]} is unknown, want an option of tokitai.check")

    def mark(function: Callable) -> Callable:
        if not callable(function):
            raise TypeError(f"kernel marks a callable, got a {type(function).__name__}")
        setattr(function, ATTRIBUTE, Asked(op, [dtypes] if isinstance(dtypes, str) else dtypes, autograd, options))
        return function

    return mark
