"""Hosts callables in a process: chooses the library of their arrays, limits memory, and serves them on a socket."""

from __future__ import annotations

import socket
import sys
from typing import Callable, Mapping, NamedTuple, Tuple

from tokitai_client import Client

from . import arrays, autograd, forms, loading, operands, serving
from .calling import Wrong, name_of


MOST = -1  # most of the memory that is free
MEMORY_SHARE = 0.8


class Options(NamedTuple):
    """How callables are called."""

    op: str
    arrays: str = "auto"  # the library of their arrays
    device: str = ""
    layouts: str = operands.VARIED
    memory: int = MOST  # bytes that the process may allocate besides what it has; 0 for no limit
    omit: Tuple[str, ...] = ()  # outputs that they do not give
    autograd: bool = False


def serve(connection: socket.socket, functions: Mapping[str, Callable], options: Options, process: str, seed: int) -> int:
    """Serves functions on a socket, by the definitions that they compute, until the other end closes. Returns an exit code."""
    first = next(iter(functions.values()))
    library = operands.library(library_for(first, options), options.device)
    with Client(device="cpu", name="tokitai.kernel") as client:
        known = {form.name: form for form in forms.forms_of(client, forms.source_of(options.op))}
    memory = free_memory() if options.memory == MOST else options.memory
    kernels = {}
    for name, form in known.items():
        function = functions.get(name) or functions.get("")
        if function is None:
            continue
        if options.autograd:
            function = autograd.adapted(function, form)
        kernels[name] = serving.Kernel(function, form, library, options.layouts, seed, [o for o in options.omit if o in forms.outputs_of(form)], memory if library.device == "cpu" else 0)
    if not kernels:
        raise Wrong(f"no function is given for {', '.join(known)}")
    if memory and library.device == "cpu":
        limit_memory(memory)
    description = f"{name_of(first)} on arrays of {library.name}{version_of(library.name)}, in {process}"
    return serving.Server(connection, kernels, description, library.device).run()


def library_for(function: Callable, options: Options) -> str:
    """Returns the library whose arrays a function takes: the one that its code names, else one that is loaded, else lists."""
    if options.arrays != "auto":
        return options.arrays
    if options.autograd:
        return "torch"
    named = loading.libraries_in(function)
    for name in arrays.LIBRARIES:
        if name in named:
            return name
    for name in arrays.LIBRARIES:
        if name in sys.modules:
            return name
    return "torch" if options.device.startswith("cuda") else arrays.LISTS


def version_of(library: str) -> str:
    version = getattr(sys.modules.get(library), "__version__", "")
    return f" {version}" if version else ""


def limit_memory(nbytes: int) -> None:
    """Lets this process allocate no more than nbytes besides what it has."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            held = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + nbytes, resource.RLIM_INFINITY))
    except (ImportError, OSError, ValueError) as error:
        raise Wrong(f"memory={nbytes}: this system sets no limit ({error})") from error


def free_memory() -> int:
    """Returns most of the memory that is free; 0, for no limit, where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(int(line.split()[1]) * 1024 * MEMORY_SHARE)
    except OSError:
        pass
    return 0
