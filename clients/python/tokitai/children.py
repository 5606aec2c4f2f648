"""Forked children that serve callables, and who waits for them."""

from __future__ import annotations

import faulthandler
import gc
import os
import selectors
import signal
import socket
import sys
import traceback
from typing import Callable, Dict, NamedTuple, Sequence

from . import hosting
from .calling import Wrong
from .forms import OperationError

POLL_SECONDS = 0.02
FRAMES_SHOWN = 3
FAULTS = (Wrong, OperationError, ImportError, ValueError)  # that are said, not traced


class Child(NamedTuple):
    """A forked child, as its parent knows it."""

    status: socket.socket  # is told how it ends; when the other end closes, the child is killed
    errors: int  # its standard error
    fault: int  # memory that has the child's stack if a signal ended it


class Children:
    """Forks children of this process, which serve callables, and waits for their end."""

    def __init__(self, is_fresh: bool):
        self._is_fresh = is_fresh  # this process has computed nothing
        self._children: Dict[int, Child] = {}
        self.watch = selectors.DefaultSelector()  # calls what is registered as data when there is something to read

    def close(self) -> None:
        for number in list(self._children):
            _kill(number)
        self._bury(0)
        self.watch.close()

    def wait(self) -> None:
        """Waits a little for something to happen, and deals with it."""
        for key, _ in self.watch.select(POLL_SECONDS):
            key.data()
        self._bury(os.WNOHANG)

    def fork(self, serve: Callable[[int], int], status: socket.socket, descriptors: Sequence[int], leave: Callable[[], None]) -> int:
        """Starts a child whose socket, output and errors descriptors has, and returns its number. serve gets the number of the socket
        and returns the exit status. leave is called in the child, which has no use for what its parent listens to."""
        gc.freeze()  # what the child never frees need not be copied when it collects garbage
        fault = os.memfd_create("fault")
        sys.stdout.flush()
        sys.stderr.flush()
        number = os.fork()
        if number == 0:
            code = 1
            try:
                leave()
                status.close()
                self._begin(descriptors, fault)
                code = serve(descriptors[0])
            except BaseException:  # which os._exit would hide
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(descriptors[0])
        os.close(descriptors[1])
        self._children[number] = Child(status, descriptors[2], fault)
        self.watch.register(status, selectors.EVENT_READ, lambda: self._end(number))
        return number

    def _begin(self, descriptors: Sequence[int], fault: int) -> None:
        for other in self._children.values():
            other.status.close()
        self.watch.close()
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, descriptor in enumerate((nothing, descriptors[1], descriptors[2])):
            os.dup2(descriptor, number)
            os.close(descriptor)
        faulthandler.enable(fault, all_threads=False)

    def serving(self, served: hosting.Served, seed: int) -> Callable[[int], int]:
        """Returns what serves callables in a child."""

        def serve(descriptor: int) -> int:
            _differ(seed)
            torch = sys.modules.get("torch")
            if torch is not None and not self._is_fresh:
                torch.set_num_threads(1)  # threads of a pool do not survive a fork
            with socket.socket(fileno=descriptor) as connection:
                try:
                    return hosting.server(connection, served, "a fresh process" if self._is_fresh else "a forked child", seed).run()
                except FAULTS as error:
                    os.write(2, f"tokitai: {error}\n".encode())
                    return 2

        return serve

    def _end(self, number: int) -> None:
        """Ends a child whose status nobody waits for any more."""
        self.watch.unregister(self._children[number].status)
        _kill(number)

    def _bury(self, how: int) -> None:
        for number in list(self._children):
            if os.waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT | how) is None:
                continue
            _kill(number)  # what it has started and left behind; before it is waited for, its number is nobody else's
            _, status = os.waitpid(number, 0)
            child = self._children.pop(number)
            try:
                self.watch.unregister(child.status)
            except KeyError:
                pass
            if os.WIFSIGNALED(status):
                os.write(child.errors, _fault_in(child.fault).encode())
            os.close(child.errors)
            os.close(child.fault)
            tell(child.status, f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}")


def _kill(number: int) -> None:
    """Kills a child that has not been waited for, and the processes of its group."""
    for kill in (os.killpg, os.kill):  # it may not have a group of its own yet
        try:
            kill(number, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _differ(seed: int) -> None:
    """Gives a child what another start would give it: a seed of its own. random does so by itself."""
    os.environ["TOKITAI_SEED"] = str(seed)
    random = sys.modules.get("numpy.random")
    if random is not None:
        random.seed(seed % 2**32)


def tell(status: socket.socket, text: str) -> None:
    """Says how a child has ended."""
    with status:
        try:
            status.sendall(text.encode())
        except OSError:
            pass  # nobody wants to know


def _fault_in(number: int) -> str:
    """Returns where a signal ended a child, without the frames of this package."""
    os.lseek(number, 0, os.SEEK_SET)
    lines = os.read(number, 1 << 14).decode(errors="replace").splitlines()
    own = os.path.dirname(os.path.abspath(__file__))
    frames = [line.strip() for line in lines if line.startswith("  File") and own not in line and "<frozen " not in line][:FRAMES_SHOWN]
    return "\n".join(lines[:1] + frames) + "\n" if lines else ""
