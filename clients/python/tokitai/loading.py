"""Functions by name: which of them another process can load, and how it does.

A script that checks its own functions is loaded in the other process up to the call of check that asked for it: it runs
under another name than __main__, its earlier calls of check do nothing, and this one ends the loading."""

from __future__ import annotations

import dis
import hashlib
import importlib
import importlib.util
import json
import os
import sys
import types
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from .calling import Absent, Wrong

MODULE = "__tokitai_kernel__"  # the name of a file that was loaded by its path

checks = 0  # calls of check in this process so far
_stop_at = 0  # the call of check that ends the loading; 0 for none


class Loaded(BaseException):
    """Ends the loading of a script. No handler of ordinary errors catches it."""


def count_check() -> bool:
    """Counts a call of check. Returns whether it may do something: not while a script is loaded in a kernel process."""
    global checks
    checks += 1
    if _stop_at and checks == _stop_at:
        raise Loaded
    return not _stop_at


class Place(NamedTuple):
    """Where another process finds a callable: a module or a file, and the name in it."""

    module: str
    file: str
    name: str
    digest: str

    def __str__(self) -> str:
        return f"{self.file or self.module}:{self.name}"


def place_of(function: Callable) -> Optional[Place]:
    """Returns where a callable can be loaded from, or None: it is a closure, or was typed into an interpreter."""
    module = sys.modules.get(getattr(function, "__module__", None) or "__main__")
    for home in (module, sys.modules.get("__main__")):
        if home is None:
            continue
        name = _name_in(home, function)
        if name is None:
            continue
        file = getattr(home, "__file__", None)
        if home.__name__ not in ("__main__", MODULE) and _is_importable(home):
            return Place(home.__name__, "", name, digest_of(function))
        if file and os.path.isfile(file):
            return Place("", os.path.abspath(file), name, digest_of(function))
    return None


def _name_in(module: types.ModuleType, function: Callable) -> Optional[str]:
    qualified = getattr(function, "__qualname__", "")
    if qualified and "<" not in qualified and _find(module, qualified) is function:
        return qualified
    return next((name for name, value in vars(module).items() if value is function and name.isidentifier()), None)


def _find(module: Any, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part, None)
    return module


def _is_importable(module: types.ModuleType) -> bool:
    """Reports whether a module's name leads to its file, from sys.path."""
    try:
        spec = importlib.util.find_spec(module.__name__)
    except (ImportError, ValueError, AttributeError):
        return False
    file = getattr(module, "__file__", None)
    return spec is not None and (file is None or (spec.origin is not None and os.path.exists(spec.origin) and os.path.samefile(spec.origin, file)))


def digest_of(function: Callable) -> str:
    """Returns a hash of a function's code, so that no other function of the same name is taken for it; "" for other callables."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType):
        return ""
    digest = hashlib.sha256()

    def add(code: types.CodeType) -> None:
        digest.update(code.co_code + repr((code.co_firstlineno, code.co_names)).encode())
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                add(constant)
            else:
                digest.update(repr(constant).encode() if not isinstance(constant, frozenset) else repr(sorted(map(repr, constant))).encode())

    add(code)
    return digest.hexdigest()[:16]


STOP_AT, DIGEST = "TOKITAI_STOP_AT", "TOKITAI_DIGEST"


def instructions(places: Sequence[Place]) -> Dict[str, str]:
    """Returns what another process is told about callables besides their places, in its environment: not in its command line,
    which people repeat when they have changed the callable."""
    digests = {str(p): p.digest for p in places if p.digest}
    return {STOP_AT: str(checks), DIGEST: json.dumps(digests)}


def load(text: str, told: Mapping[str, str] = {}) -> Callable:
    """Loads a callable from FILE:NAME or MODULE:NAME. Raises Wrong with what is missing."""
    stop_at, digest = int(told.get(STOP_AT) or 0), json.loads(told.get(DIGEST) or "{}").get(text)
    home, colon, name = text.rpartition(":")
    if not colon or not home or not name:
        raise Wrong(f"{text!r} names no function, want FILE:FUNCTION or MODULE:FUNCTION, as in softmax.py:softmax")
    module = _load_file(home, stop_at) if home.endswith(".py") or os.sep in home else _load_module(home)
    function = _find(module, name)
    if function is None:
        known = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        raise Absent(f"{home} has no function {name} when it is loaded as a module{', it has ' + ', '.join(known[:8]) if known else ''}")
    if not callable(function):
        raise Wrong(f"{name} in {home} is a {type(function).__name__}, want a function")
    if digest and digest_of(function) != digest:
        raise Absent(f"{name} in {home} is another function than the one that was checked: the file has changed, or defines {name} more than once")
    return function


def _load_module(name: str) -> types.ModuleType:
    try:
        with _checking_nothing(sys.maxsize):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise Wrong(f"there is no module {error.name}: {error}") from error


@contextmanager
def _checking_nothing(stop_at: int) -> Iterator[None]:
    """Has calls of check do nothing while something is loaded, and the one with number stop_at end the loading: a process that
    checked what it loads would start another that does so too, and so on."""
    global checks, _stop_at
    checks, _stop_at = 0, stop_at
    try:
        yield
    except Loaded:
        pass
    finally:
        _stop_at = 0


def _load_file(path: str, stop_at: int) -> types.ModuleType:
    if not os.path.isfile(path):
        raise Wrong(f"there is no file {path}")
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(MODULE, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    with _checking_nothing(stop_at or sys.maxsize):
        spec.loader.exec_module(module)
    return module


def libraries_in(function: Callable) -> List[str]:
    """Returns the libraries that a function's code names, its helpers' included, in no order."""
    found, seen = set(), set()

    def visit(value: Any, depth: int) -> None:
        value = getattr(value, "func", None) or getattr(value, "__wrapped__", None) or getattr(value, "__func__", None) or value
        code = getattr(value, "__code__", None)
        if not isinstance(code, types.CodeType) or code in seen or depth > 4:
            root = (getattr(value, "__module__", None) or type(value).__module__ or "").split(".")[0]
            found.add(root)
            return
        seen.add(code)
        names, todo = set(), [code]
        while todo:
            c = todo.pop()
            for step in dis.get_instructions(c):
                if step.opname == "IMPORT_NAME":
                    found.add(step.argval.split(".")[0])
                elif step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):  # and no attribute of the same name
                    names.add(step.argval)
            todo += [k for k in c.co_consts if isinstance(k, types.CodeType)]
        cells = [cell.cell_contents for cell in (value.__closure__ or ()) if _is_full(cell)]
        for thing in cells + [value.__globals__[n] for n in names if n in value.__globals__]:
            if isinstance(thing, types.ModuleType):
                found.add(thing.__name__.split(".")[0])
            elif callable(thing):
                visit(thing, depth + 1)

    visit(function, 0)
    if "triton" in found:
        found.add("torch")
    if found & {"jaxlib"}:
        found.add("jax")
    return sorted(found)


def _is_full(cell: Any) -> bool:
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True
