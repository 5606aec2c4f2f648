"""Serves a Python function as a kernel process, for tokitai check:

    tokitai check softmax.forward --exec "python -m tokitai.kernel my_kernels.py:softmax --op softmax.forward"

FUNCTION may be a dotted name. For a group, such as --op softmax, give DEFINITION=FILE:FUNCTION for each definition, or one
differentiable torch function with --autograd."""

from __future__ import annotations

import argparse
import faulthandler
import os
import socket
import sys
import types
from typing import Any, Callable, Dict, Optional, Sequence

from . import arrays, hosting, loading, nursery, operands, preloaded, processes, serving
from .children import FAULTS

DESCRIPTION = "serve a Python function as a kernel process, for tokitai check OP --exec 'python -m tokitai.kernel FILE:FUNCTION --op OP'"


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m tokitai.kernel", description=DESCRIPTION)
    p.add_argument("function", nargs="+", metavar="FUNCTION", help="FILE:NAME or MODULE:NAME; DEFINITION=FILE:NAME for each of several")
    p.add_argument("--op", required=True, help="the operation, definition or group that it computes, or a file that defines one")
    p.add_argument("--arrays", default="auto", choices=("auto",) + arrays.KINDS, help="what it takes and gives (default: the library that its code names)")
    p.add_argument("--device", default="", help="where the arrays are: cpu, cuda, cuda:1 (default cpu)")
    p.add_argument("--layouts", default=operands.VARIED, choices=operands.LAYOUTS, help="how operands lie in memory: plain is contiguous and aligned (default varied)")
    p.add_argument("--memory", type=int, default=hosting.MOST, metavar="BYTES", help="how much memory the function may allocate on the CPU; 0 for no limit (default: most of what is free)")
    p.add_argument("--omit", action="append", default=[], metavar="OUTPUT", help="an output that the function does not give; may be repeated")
    p.add_argument("--autograd", action="store_true", help="compute gradients with torch.autograd from one differentiable function")
    p.add_argument("--listen", type=int, default=-1, help=argparse.SUPPRESS)
    return p


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = parser().parse_args(arguments)
    how = hosting.Options(**{n: getattr(options, n) for n in hosting.Options._fields})

    def prepare() -> hosting.Served:
        return hosting.prepare(functions_of(options), how)

    if options.listen >= 0:
        return processes.serve_listener(options.listen, prepare, options.device)
    try:
        descriptor = serving.descriptor_of()
        os.set_inheritable(descriptor, False)
        batch = preloaded.batch()
        ended = preloaded.hosted(batch, sys.argv[1:] if arguments is None else arguments, descriptor)
        if ended is not None:
            return ended
        faulthandler.enable()
        with socket.socket(fileno=descriptor) as connection:
            served, seed = prepare(), serving.seed_of()
            if processes.is_fit(served.library, options.device):
                preloaded.offer(batch)
                return nursery.Nursery(connection, served, seed).run()
            return hosting.server(connection, served, "a fresh process", seed).run()
    except FAULTS as error:
        print(f"tokitai.kernel: {error}", file=sys.stderr)
        return 2


def functions_of(options: argparse.Namespace) -> Dict[str, Callable]:
    """Loads the functions, by the definitions that they compute; "" stands for every definition."""
    functions = {}
    for text in options.function:
        definition, equals, place = text.partition("=")
        if not equals:
            definition, place = "", text
        functions[definition] = loading.load(place, os.environ)
    return functions


class _Callable(types.ModuleType):
    """Lets tokitai.kernel stay the decorator of the pytest plugin where this module has been imported."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        from .testing import kernel

        return kernel(*arguments, **named)


if __name__ == "__main__":
    sys.exit(main())
sys.modules[__name__].__class__ = _Callable
