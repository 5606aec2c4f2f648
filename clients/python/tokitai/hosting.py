"""Hosts callables in a process: chooses the library of their arrays, limits memory, and serves them on a socket."""

from __future__ import annotations

import socket
import sys
from typing import Callable, Dict, Mapping, NamedTuple, Tuple

from tokitai_client import Client, Defined

from . import arrays, autograd, calling, forms, loading, operands, serving
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


class Served(NamedTuple):
    """Callables by definition, before a device is opened: a process can still be forked."""

    functions: Mapping[str, Callable]
    forms: Mapping[str, Defined]
    library: str
    name: str
    options: Options


def prepare(functions: Mapping[str, Callable], options: Options) -> Served:
    """Finds out what callables compute, by the definitions that they are given for; "" stands for every definition. Raises
    Wrong if one cannot be called."""
    with Client(device="cpu", name="tokitai.kernel") as client:
        known = {form.name: form for form in forms.forms_of(client, forms.source_of(options.op))}
    unknown = [name for name in functions if name and name not in known]
    if unknown:
        raise Wrong(f"a function is given for {unknown[0]}, want {', '.join(known)}")
    chosen: Dict[str, Callable] = {}
    for name, form in known.items():
        function = functions.get(name) or functions.get("")
        if function is None:
            continue
        chosen[name] = autograd.adapted(function, form) if options.autograd else function
        calling.convention(chosen[name], forms.shape_of(form), options.omit)
    if not chosen:
        raise Wrong(f"no function is given for {', '.join(known)}")
    first = next(iter(functions.values()))
    library = library_for(first, options)
    if library != arrays.LISTS:
        arrays.load(library)
    operands.check_device(library, options.device)
    if library == "numpy" and any("bf16" in o.dtypes for form in known.values() for o in form.operands):
        arrays.load_small_formats()  # here, and not in every process that is forked from this one
    return Served(chosen, known, library, name_of(first), options)


def server(connection: socket.socket, served: Served, process: str, seed: int, is_limited: bool = True) -> serving.Server:
    """Opens the device, limits this process's memory if asked to, and returns what serves callables on a socket."""
    options = served.options
    library = operands.library(served.library, options.device)
    memory = free_memory() if options.memory == MOST else options.memory
    if library.device != "cpu" or not is_limited:
        memory = 0
    if memory:
        limit_memory(memory)
    kernels = {
        name: serving.Kernel(function, served.forms[name], library, options.layouts, seed, [o for o in options.omit if o in forms.outputs_of(served.forms[name])], memory)
        for name, function in served.functions.items()
    }
    description = f"{served.name} on arrays of {library.name}{version_of(library.name)}, in {process}"
    return serving.Server(connection, kernels, description, library.device)


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
