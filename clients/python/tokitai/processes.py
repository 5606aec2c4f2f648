"""Where a callable runs while it is checked.

A callable that another process can load runs in fresh processes. Others, such as closures and functions typed into a
notebook, run in forked children of this process. Where a child could not use the device or the library (CUDA that is
already initialised, JAX), the callable runs in this process: a crash then ends it."""

from __future__ import annotations

import faulthandler
import os
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from . import hosting, loading
from .calling import Wrong

FRESH, FORK, HERE = "fresh", "fork", "here"
WAYS = (FRESH, FORK, HERE)
DESCRIPTIONS = {FRESH: "fresh processes", FORK: "forked children of this process", HERE: "this process, where a crash ends everything"}
POLL_SECONDS = 0.05


def way_for(functions: Mapping[str, Callable], options: hosting.Options, wanted: Optional[str]) -> str:
    """Chooses where callables run."""
    if wanted is not None and wanted not in WAYS:
        raise ValueError(f"process {wanted!r}, want one of {', '.join(WAYS)}")
    can_load = bool(sys.executable) and all(loading.place_of(f) is not None for f in functions.values())
    if wanted == FRESH and not can_load:
        raise ValueError("process 'fresh': another process cannot load the function, want one that is at the top level of a file")
    if wanted:
        return wanted
    if can_load:
        return FRESH
    library = hosting.library_for(next(iter(functions.values())), options)
    torch = sys.modules.get("torch")
    is_initialised = torch is not None and torch.cuda.is_initialized()
    if library == "jax" or library == "cupy" or (options.device.startswith("cuda") and is_initialised) or not hasattr(os, "fork"):
        return HERE
    return FORK


def fresh_command(functions: Mapping[str, Callable], options: hosting.Options) -> List[str]:
    """Returns the command of a process that loads and serves functions."""
    command = [sys.executable, "-m", "tokitai.kernel"]
    for definition, function in functions.items():
        place = loading.place_of(function)
        command.append(f"{definition}={place}" if definition else str(place))
    command += ["--op", options.op]
    defaults = hosting.Options("")
    for name in ("arrays", "device", "layouts", "memory"):
        if getattr(options, name) != getattr(defaults, name):
            command += [f"--{name}", str(getattr(options, name))]
    for output in options.omit:
        command += ["--omit", output]
    if options.autograd:
        command.append("--autograd")
    return command


def fresh_environment(functions: Mapping[str, Callable]) -> Dict[str, str]:
    """Returns an environment in which a fresh process finds the modules that this one finds."""
    places = [p for p in map(loading.place_of, functions.values()) if p]
    path = [os.path.abspath(p) for p in sys.path if p and os.path.exists(p)]
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(path + [own])), **loading.instructions(places)}


class Finished(NamedTuple):
    code: int
    stdout: str
    stderr: str


def run(command: Sequence[str], environment: Mapping[str, str], host: Optional["Host"] = None) -> Finished:
    """Runs the program, and serves what it asks this process for."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        try:
            if host:
                host.serve_until(lambda: process.poll() is not None)
            process.wait()
        except BaseException:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            raise
        return Finished(process.returncode, *(_text(f) for f in (out, err)))


def _text(file: Any) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


class Host:
    """Serves callables of this process to the program, in forked children or here."""

    def __init__(self, functions: Mapping[str, Callable], options: hosting.Options, is_forked: bool, folder: str):
        self._functions, self._options, self._is_forked = functions, options, is_forked
        self._listener = socket.socket(socket.AF_UNIX)
        self._path = os.path.join(folder, "relay")
        self._listener.bind(self._path)
        self._listener.listen(16)
        self._children: Dict[int, socket.socket] = {}  # by process, the relay that waits for its end
        self._watch = selectors.DefaultSelector()
        self._watch.register(self._listener, selectors.EVENT_READ)

    @property
    def command(self) -> List[str]:
        relay = os.path.join(os.path.dirname(os.path.abspath(__file__)), "relay.py")
        return [sys.executable or "python3", "-I", relay, self._path]

    def close(self) -> None:
        for child in list(self._children):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            self._children.pop(child).close()
        self._watch.close()
        self._listener.close()

    def serve_until(self, is_done: Callable[[], bool]) -> None:
        while not is_done():
            for key, _ in self._watch.select(POLL_SECONDS):
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._drop(key.data)
            self._bury()

    def _accept(self) -> None:
        relay, _ = self._listener.accept()
        message, descriptors, _, _ = socket.recv_fds(relay, 64, 3)
        if len(descriptors) != 3:
            relay.close()
            return
        seed = int(message.strip() or b"0")
        if self._is_forked:
            self._fork(relay, descriptors, seed)
        else:
            self._serve_here(relay, descriptors, seed)

    def _fork(self, relay: socket.socket, descriptors: Sequence[int], seed: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                self._listener.close()
                relay.close()
                code = self._serve_forked(descriptors, seed)
            finally:
                os._exit(code)
        for descriptor in descriptors:
            os.close(descriptor)
        self._children[child] = relay
        self._watch.register(relay, selectors.EVENT_READ, child)

    def _serve_forked(self, descriptors: Sequence[int], seed: int) -> int:
        for other in self._children.values():
            other.close()
        os.setsid()
        os.dup2(descriptors[1], 1)
        os.dup2(descriptors[2], 2)
        faulthandler.enable(file=2)
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.set_num_threads(1)  # threads of a pool do not survive a fork
        return self._serve(descriptors[0], seed, 2)

    def _serve_here(self, relay: socket.socket, descriptors: Sequence[int], seed: int) -> None:
        with relay:
            code = self._serve(descriptors[0], seed, descriptors[2])
            for descriptor in descriptors[1:]:
                os.close(descriptor)
            relay.sendall(f"exit {code}".encode())

    def _serve(self, descriptor: int, seed: int, errors: int) -> int:
        with socket.socket(fileno=descriptor) as connection:
            try:
                where = "a forked child" if self._is_forked else "the process that called check"
                return hosting.serve(connection, self._functions, self._options, where, seed)
            except (Wrong, ImportError, ValueError) as error:
                os.write(errors, f"tokitai: {error}\n".encode())
                return 2

    def _drop(self, child: int) -> None:
        """Ends a child whose relay is gone: the program has killed it."""
        if child in self._children:
            self._watch.unregister(self._children[child])
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def _bury(self) -> None:
        for child in list(self._children):
            done, status = os.waitpid(child, os.WNOHANG)
            if not done:
                continue
            relay = self._children.pop(child)
            try:
                self._watch.unregister(relay)
            except KeyError:
                pass
            how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"
            with relay:
                try:
                    relay.sendall(how.encode())
                except OSError:
                    pass  # the relay was killed


@contextmanager
def hosted(functions: Mapping[str, Callable], options: hosting.Options, way: str, folder: str) -> Iterator[Optional[Host]]:
    """Opens what serves callables of this process, or nothing for fresh processes."""
    if way == FRESH:
        yield None
        return
    host = Host(functions, options, way == FORK, folder)
    try:
        yield host
    finally:
        host.close()


def exec_line(command: Sequence[str]) -> str:
    return shlex.join(command)
