"""Shows how far a check has come, while it runs.

The program appends lines to a file, several a second, and whoever waits for it looks at the last of them: no thread does,
since children are forked meanwhile. On a terminal and in a notebook one line is updated and erased at the end; elsewhere a
line is printed from time to time."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from typing import Any, Callable, Union

PAUSE_SECONDS = 0.2  # between looks at the file
PLAIN_SECONDS = 10.0  # between lines that stay
LAST_BYTES = 4096

Wanted = Union[bool, Callable[[str], None], None]


class _Line:
    """One line that is updated, on a terminal or in a notebook."""

    def __init__(self, stream: Any, is_terminal: bool):
        self._stream, self._is_terminal, self._width = stream, is_terminal, 0

    def __call__(self, text: str) -> None:
        if self._is_terminal:
            text = text[: max(shutil.get_terminal_size().columns - 1, 20)]
        self._write("\r" + text.ljust(self._width))
        self._width = len(text)

    def end(self) -> None:
        if self._width:
            self._write("\r" + " " * self._width + "\r")
            self._width = 0

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # it is closed
            pass


class _Plain:
    """Lines that stay, one from time to time."""

    def __init__(self, stream: Any):
        self._stream, self._next = stream, time.monotonic()

    def __call__(self, text: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_SECONDS
            print(text, file=self._stream, flush=True)

    def end(self) -> None:
        return None


class _Asked:
    """A function that is called with each line."""

    def __init__(self, function: Callable[[str], None]):
        self._function = function

    def __call__(self, text: str) -> None:
        self._function(text)

    def end(self) -> None:
        return None


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def _shown_by(wanted: Wanted) -> Any:
    """Returns what shows progress, or None. Without a wish it is shown where somebody looks: on a terminal, and in a notebook."""
    if wanted is None:
        is_terminal = _is_terminal()
        return _Line(sys.stderr, is_terminal) if is_terminal or _in_notebook() else None
    if isinstance(wanted, bool):
        if not wanted:
            return None
        is_terminal = _is_terminal()
        return _Line(sys.stderr, is_terminal) if is_terminal or _in_notebook() else _Plain(sys.stderr)
    if not callable(wanted):
        raise TypeError(f"progress is a {type(wanted).__name__}, want True, False or a function of a text")
    return _Asked(wanted)


def _is_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # it is closed
        return False


class Progress:
    """Shows the progress of one or more runs of the program. Use it as a context."""

    def __init__(self, wanted: Wanted = None):
        self._shown = _shown_by(wanted)
        self._before = ""
        self.file = ""  # that the program writes to; "" if nothing is shown
        self._size, self._next = 0, 0.0

    def __enter__(self) -> "Progress":
        if self._shown is not None:
            descriptor, self.file = tempfile.mkstemp(prefix="tokitai-progress-")
            os.close(descriptor)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._shown is not None:
            self._shown.end()
            os.unlink(self.file)

    def part(self, text: str) -> None:
        """Says what the following lines are about."""
        self._before = text + ": " if text else ""

    def say(self, text: str) -> None:
        if self._shown is not None:
            self._shown(self._before + text)

    def look(self) -> None:
        """Shows what the program has written, unless that was done a moment ago."""
        if self._shown is None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + PAUSE_SECONDS
        with open(self.file, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size == self._size:
                return
            self._size = size
            file.seek(max(0, size - LAST_BYTES))
            lines = file.read().decode(errors="replace").split("\n")
        if len(lines) > 1:  # the last one may be unfinished
            self.say(lines[-2])


SILENT = Progress(False)
