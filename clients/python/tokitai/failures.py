"""The failing cases of earlier checks, which the next check of the same kernel runs first.

There is one file for each kernel and operation, in a folder of the user's cache. It has names of cases and seeds, and no
data. A case that passes is forgotten. Whatever is wrong with the folder, checks run without it."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from typing import Any, Callable, List, Mapping, NamedTuple, Sequence

from . import forms, loading
from .calling import name_of

FOLDER = "TOKITAI_FAILURES"  # the folder, in the environment; empty for none
MOST_CASES = 8  # of one kernel and operation
MOST_FILES = 256
LONGEST_CASE = 1024
LONGEST_FILE = 1 << 16


class Failed(NamedTuple):
    """A case that failed."""

    op: str
    dtype: str
    case: str
    seed: int


def folder() -> str:
    """Returns the folder of the files, or "" if there is none."""
    if FOLDER in os.environ:
        return os.environ[FOLDER]
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        cache = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "tokitai", "failures") if os.path.isabs(cache) else ""


class Failures:
    """The failing cases of one kernel and operation, the latest first."""

    def __init__(self, functions: Mapping[str, Callable], source: forms.Source, autograd: bool = False):
        identity = [[definition, *_identity(function)] for definition, function in sorted(functions.items())]
        key = json.dumps([identity, source.text or source.name, autograd])
        home = folder()
        self.file = os.path.join(home, hashlib.sha256(key.encode()).hexdigest()[:32] + ".json") if home else ""

    def read(self) -> List[Failed]:
        if not self.file:
            return []
        try:
            with open(self.file, encoding="utf-8") as file:
                rows = json.loads(file.read(LONGEST_FILE))["failures"]
            cases = [Failed(r["op"], r["dtype"], r["case"], r["seed"]) for r in rows[:MOST_CASES]]
        except (OSError, ValueError, TypeError, KeyError):
            return []
        return [c for c in cases if _is_sound(c)]

    def write(self, cases: Sequence[Failed]) -> None:
        """Keeps cases in the place of those that are there. Without any, the file is removed."""
        if not self.file:
            return
        try:
            kept = [c._asdict() for c in dict.fromkeys(cases) if _is_sound(c)][:MOST_CASES]
            if not kept:
                os.unlink(self.file)
                return
            home = os.path.dirname(self.file)
            os.makedirs(home, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=home, suffix=".part", delete=False, encoding="utf-8") as file:
                json.dump({"failures": kept}, file, indent=1)
            os.replace(file.name, self.file)
            _prune(home)
        except OSError:
            pass


def _is_sound(c: Failed) -> bool:
    return all(isinstance(text, str) and 0 < len(text) <= LONGEST_CASE for text in (c.op, c.dtype, c.case)) and type(c.seed) is int and 0 <= c.seed < 1 << 64


def _identity(function: Any) -> List[str]:
    """Returns where a callable is, and its name: another version of the same function has the same."""
    place = loading.place_of(function)
    if place is not None:
        home = place.file or getattr(loading.sys.modules.get(place.module), "__file__", None) or place.module
        return [home, place.name]
    code = getattr(function, "__code__", None)
    return [getattr(code, "co_filename", "") or getattr(function, "__module__", None) or "", getattr(function, "__qualname__", "") or name_of(function)]


def _prune(home: str) -> None:
    """Removes the files that were written least recently, if there are too many."""
    with os.scandir(home) as entries:
        files = sorted(((e.stat().st_mtime_ns, e.path) for e in entries if e.name.endswith((".json", ".part"))), reverse=True)
    for _, path in files[MOST_FILES:]:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
