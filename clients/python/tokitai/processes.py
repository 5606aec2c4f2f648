"""Where a callable runs while it is checked.

A callable that another process can load runs in fresh processes: one process loads it, and is forked before it computes
anything. Others, such as closures and functions typed into a notebook, run in forked children of this process. Where a
child could not use the device or the library (CUDA that is already initialised, JAX), the callable runs in this
process: a crash then ends it."""

from __future__ import annotations

import os
import selectors
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from . import hosting, loading
from .calling import Absent, Wrong
from .children import FAULTS, Children, tell
from .progress import PAUSE_SECONDS, SILENT, Progress

FRESH, FORK, HERE = "fresh", "fork", "here"
WAYS = (FRESH, FORK, HERE)
DESCRIPTIONS = {FRESH: "fresh processes", FORK: "forked children of this process", HERE: "this process, where a crash ends everything"}


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
    return FORK if can_fork(hosting.library_for(next(iter(functions.values())), options), options.device) else HERE


def can_fork(library: str, device: str) -> bool:
    """Reports whether a child of this process can compute."""
    torch = sys.modules.get("torch")
    if library == "jax" or not hasattr(os, "fork"):  # its threads do not survive a fork
        return False
    return not (device.startswith("cuda") and (library == "cupy" or (torch is not None and torch.cuda.is_initialized()) or _has_opened_a_gpu()))


def _has_opened_a_gpu() -> bool:
    """Reports whether a driver was started here, as torch.cuda.is_available does: it does not work in forked children."""
    for descriptor in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        try:
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith("/dev/nvidia"):
                return True
        except OSError:  # it has been closed
            pass
    return False


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
    return command + (["--autograd"] if options.autograd else [])


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


def run(command: Sequence[str], meanwhile: Callable[[Callable[[], bool]], None], environment: Optional[Mapping[str, str]] = None, progress: Progress = SILENT) -> Finished:
    """Runs the program. meanwhile serves what it asks this process for, until its argument returns true."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)

        def is_over() -> bool:
            progress.look()
            return process.poll() is not None

        try:
            meanwhile(is_over)
            while not is_over():
                try:
                    process.wait(PAUSE_SECONDS if progress.file else None)
                except subprocess.TimeoutExpired:
                    pass
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
    """Serves callables of this process to relays that connect to a listener, in forked children or here."""

    def __init__(self, listener: socket.socket, prepare: Callable[[], hosting.Served], is_forked: bool, is_fresh: bool = False):
        self._listener, self._is_forked = listener, is_forked
        self._children = Children(is_fresh)
        self._watch = self._children.watch
        self._watch.register(listener, selectors.EVENT_READ, self._accept)
        self._served: Optional[hosting.Served] = None
        self.fault: Optional[Exception] = None
        try:
            self._served = prepare()
        except FAULTS as error:
            self.fault = error

    def is_fit(self, device: str) -> bool:
        """Reports whether children of this process can compute, after what loading the callables has started."""
        return is_fit(self._served.library, device)

    def close(self) -> None:
        self._children.close()

    def serve_until(self, is_done: Callable[[], bool]) -> None:
        while not is_done():
            self._children.wait()

    def _accept(self) -> None:
        relay, _ = self._listener.accept()
        message, descriptors, _, _ = socket.recv_fds(relay, 64, 3)
        if len(descriptors) != 3:
            relay.close()
            return
        seed = int(message.strip() or b"0")
        if self._is_forked:
            self._children.fork(self._children.serving(self._served, seed), relay, descriptors, self._listener.close)
        else:
            self._serve_here(relay, descriptors, seed)

    def _serve_here(self, relay: socket.socket, descriptors: Sequence[int], seed: int) -> None:
        connection = socket.socket(fileno=descriptors[0])
        code: Optional[int] = None
        try:
            server = hosting.server(connection, self._served, "the process that called check", seed, False)
        except FAULTS as error:
            os.write(descriptors[2], f"tokitai: {error}\n".encode())
            code = 2
        os.close(descriptors[1])
        os.close(descriptors[2])

        def step() -> None:
            answered = code if code is not None else server.step()
            if answered is None:
                return
            if code is None:
                self._watch.unregister(connection)
            connection.close()
            tell(relay, f"exit {answered}")

        if code is None:
            self._watch.register(connection, selectors.EVENT_READ, step)
        else:
            step()


def serve_listener(number: int, prepare: Callable[[], hosting.Served], device: str) -> int:
    """Serves fresh children of this process, which has loaded callables and computed nothing, to the relays that connect to
    listener number. Says on standard output when it is ready, and ends when its standard input does."""
    answer = os.dup(1)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)  # scripts print while they are loaded
    os.close(nothing)
    with socket.socket(fileno=number) as listener:
        host = Host(listener, prepare, True, True)
        kind = "absent" if isinstance(host.fault, Absent) else "fault"
        told = f"{kind} {host.fault}" if host.fault else "ready" if host.is_fit(device) else "unfit"
        os.write(answer, told.encode())
        os.close(answer)
        if told != "ready":
            return 2
        life = selectors.DefaultSelector()
        life.register(0, selectors.EVENT_READ)
        try:
            host.serve_until(lambda: bool(life.select(0)))
        finally:
            host.close()
    return 0


def is_fit(library: str, device: str) -> bool:
    """Reports whether children of this process, which has loaded callables, can compute."""
    return threading.active_count() == 1 and (can_fork(library, device) or (library == "jax" and not _is_started()))


def _is_started() -> bool:
    """Reports whether JAX runs, with its threads."""
    return bool(getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None))


class Kernel(NamedTuple):
    """What tokitai check is told to run, and what serves it meanwhile."""

    command: List[str]
    meanwhile: Callable[[Callable[[], bool]], None]
    shown: List[str]  # the command that people can repeat; empty if there is none
    environment: Optional[Mapping[str, str]] = None  # that the command needs, if not this process's


def _wait(is_done: Callable[[], bool]) -> None:
    return None


@contextmanager
def kernel(functions: Mapping[str, Callable], options: hosting.Options, way: str) -> Iterator[Kernel]:
    """Opens what serves callables while they are checked. Raises Wrong if they cannot be served."""
    if way == FRESH:
        with _fresh(functions, options) as opened:
            yield opened
        return
    with _listening() as (listener, path):
        host = Host(listener, lambda: hosting.prepare(functions, options), way == FORK)
        try:
            if host.fault:
                raise host.fault
            yield Kernel(_relay(path), host.serve_until, [])
        finally:
            host.close()


@contextmanager
def _fresh(functions: Mapping[str, Callable], options: hosting.Options) -> Iterator[Kernel]:
    command, environment = fresh_command(functions, options), fresh_environment(functions)
    with _listening() as (listener, path), tempfile.TemporaryFile() as errors:  # which a pipe might not hold
        number = listener.fileno()
        loader = subprocess.Popen(
            command + ["--listen", str(number)], env=environment, pass_fds=(number,), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
        try:
            listener.close()
            told = loader.stdout.read().decode()
            if told == "ready":
                yield Kernel(_relay(path), _wait, command)
                return
            loader.stdin.close()
            status = loader.wait()
            said = _text(errors)
        finally:
            loader.stdin.close()
            try:
                loader.wait(5)
            except subprocess.TimeoutExpired:
                loader.kill()
                loader.wait()
            loader.stdout.close()
    if told.startswith(("absent ", "fault ")):
        kind, _, message = told.partition(" ")
        raise (Absent if kind == "absent" else Wrong)(message)
    if told != "unfit":
        raise Wrong(f"the process that loads {', '.join(str(loading.place_of(f)) for f in functions.values())} ended with status {status}:\n{_last(said)}")
    yield Kernel(command, _wait, command, environment)


def _last(text: str, lines: int = 12) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])


@contextmanager
def _listening() -> Iterator[Any]:
    with tempfile.TemporaryDirectory(prefix="tokitai-") as folder, socket.socket(socket.AF_UNIX) as listener:
        path = os.path.join(folder, "relay")
        listener.bind(path)
        listener.listen(64)
        yield listener, path


def _relay(path: str) -> List[str]:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "relay.py")
    return [sys.executable or "python3", "-I", "-S", program, path]


def exec_line(command: Sequence[str]) -> str:
    return shlex.join(command)
