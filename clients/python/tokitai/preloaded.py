"""One process of a batch that has loaded libraries, from which the batch's kernel processes are forked.

tokitai check --batch names a folder in TOKITAI_BATCH, in which the socket "alive" is open as long as the batch runs. The
first kernel of a batch loads its libraries and starts a process that loads the same libraries, and nothing of the kernel.
The kernels after it are forked from that process: each is as fresh as another start, without the time that importing takes.
Where anything is amiss, a kernel starts as it would without a batch."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import selectors
import socket
import struct
import subprocess
import sys
import threading
from typing import Any, List, Mapping, Optional, Sequence

from .children import Children
from .relay import end_as

FOLDER = "TOKITAI_BATCH"
ALIVE = "alive"
KERNEL = "tokitai.kernel"  # the module, which a function of the package hides
LIBRARIES = ("numpy", "torch")
LENGTH = struct.Struct("<Q")
LONGEST_REQUEST = 1 << 24
PATIENCE_SECONDS = 10  # with a kernel process that asks

_started: List[subprocess.Popen] = []


def _place(folder: str) -> str:
    """Returns where the process listens: one for each way to start Python."""
    how = repr((sys.executable, sys.version, sys.flags, sys.path[1:]))
    return os.path.join(folder, hashlib.blake2b(how.encode(), digest_size=8).hexdigest())


def batch() -> str:
    """Returns the folder of the batch that this kernel is one of, or "". Kernels do not see it."""
    return os.environ.pop(FOLDER, "")


def hosted(folder: str, arguments: Sequence[str], descriptor: int) -> Optional[int]:
    """Lets the kernel process be a fork of the batch's process, waits for its end, and returns its exit status. Returns None if
    there is no such process."""
    if not folder:
        return None
    request = json.dumps({"arguments": list(arguments), "folder": os.getcwd(), "path": sys.path, "environment": dict(os.environ)}).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(_place(folder))
            socket.send_fds(connection, [LENGTH.pack(len(request))], [descriptor, 1, 2])
            connection.sendall(request)
        except OSError:
            return None
        os.close(descriptor)  # the fork's is the only one
        return end_as(connection.recv(64).decode())


def offer(folder: str) -> None:
    """Starts the batch's process, if there is a batch and nobody has started it yet."""
    libraries = [name for name in LIBRARIES if name in sys.modules]
    if not folder or not libraries:
        return
    place = _place(folder)
    try:
        os.close(os.open(place + ".started", os.O_CREAT | os.O_EXCL))
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        environment = {name: value for name, value in os.environ.items() if name not in ("TOKITAI_FD", "TOKITAI_SEED")}
        command = [sys.executable, *flags, "-m", "tokitai.preloaded", place, *libraries]
        _started.append(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True))
    except OSError:
        pass


def _receive(connection: socket.socket) -> Any:
    """Returns a request and its descriptors."""
    head, descriptors, _, _ = socket.recv_fds(connection, LENGTH.size, 3)
    if len(head) != LENGTH.size or len(descriptors) != 3 or LENGTH.unpack(head)[0] > LONGEST_REQUEST:
        for number in descriptors:
            os.close(number)
        raise OSError("no request")
    left, parts = LENGTH.unpack(head)[0], []
    while left:
        parts.append(connection.recv(min(left, 1 << 16)))
        if not parts[-1]:
            raise OSError("the request ends early")
        left -= len(parts[-1])
    return json.loads(b"".join(parts)), descriptors


class Preloaded:
    """The process of a batch."""

    def __init__(self, place: str):
        self._children = Children(True)
        self._alive = socket.socket(socket.AF_UNIX)
        self._alive.connect(os.path.join(os.path.dirname(place), ALIVE))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(place + ".new")
        self._listener.listen(64)
        os.rename(place + ".new", place)
        self._is_over = False

    def run(self) -> None:
        """Forks kernel processes until the batch is over."""
        self._children.watch.register(self._alive, selectors.EVENT_READ, self._end)
        self._children.watch.register(self._listener, selectors.EVENT_READ, self._accept)
        try:
            while not self._is_over:
                self._children.wait()
        finally:
            self._children.close()

    def _end(self) -> None:
        self._is_over = True

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(PATIENCE_SECONDS)
        try:
            request, (kernel, output, errors) = _receive(connection)
        except (OSError, ValueError):
            connection.close()
            return
        connection.settimeout(None)
        self._children.fork(lambda descriptor: _serve(request, descriptor), connection, (kernel, output, errors), self._leave)

    def _leave(self) -> None:
        self._listener.close()
        self._alive.close()


def _serve(request: Mapping[str, Any], descriptor: int) -> int:
    """Is what the process that asked would have been."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.environ["TOKITAI_FD"] = str(descriptor)
    sys.path[:] = request["path"]
    sys.argv[1:] = request["arguments"]
    return importlib.import_module(KERNEL).main(request["arguments"])


def main(place: str, *libraries: str) -> int:
    for name in (KERNEL, *libraries):
        importlib.import_module(name)
    if threading.active_count() > 1:
        return 1  # which do not survive a fork
    Preloaded(place).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
