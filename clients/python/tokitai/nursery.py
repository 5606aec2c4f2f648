"""A kernel process that answers FORK: it has loaded callables and computed nothing, and forks the processes that compute."""

from __future__ import annotations

import array
import os
import selectors
import socket
from typing import List, NamedTuple, Optional

from tokitai_client import FORK, Defined, ProtocolError, _Body, _u64

from . import hosting
from .children import Children
from .serving import FORKS, MALFORMED, Refusal, Server

MOST_DESCRIPTORS = 3  # of a FORK: socket, output, status


class Listed(NamedTuple):
    """What LIST says of a kernel."""

    form: Defined


class Nursery(Server):
    """Answers HELLO, LIST and FORK. If it is asked to compute nevertheless, it does, and forks no more."""

    features = FORKS

    def __init__(self, connection: socket.socket, served: hosting.Served, seed: int):
        listed = {name: Listed(served.forms[name]) for name in served.functions}
        super().__init__(connection, listed, f"{served.name} on arrays of {served.library}", served.options.device or "cpu")
        self._served, self._seed = served, seed
        self._children = Children(True)
        self._descriptors: List[int] = []
        self._computing: Optional[Server] = None

    def run(self) -> int:
        code: List[int] = []
        self._children.watch.register(self.connection, selectors.EVENT_READ, lambda: self._advance(code))
        try:
            while not code:
                self._children.wait()
        finally:
            self._children.close()
        return code[0]

    def _advance(self, code: List[int]) -> None:
        ended = self.step()
        if ended is not None:
            code.append(ended)

    def _answer(self, kind: int, body: _Body) -> List[bytes]:
        descriptors, self._descriptors = self._descriptors, []
        if kind != FORK:
            for number in descriptors:
                os.close(number)
            return super()._answer(kind, body)
        seed = body.u64()
        body.end()
        if len(descriptors) != MOST_DESCRIPTORS:
            raise ProtocolError(f"FORK has {len(descriptors)} descriptors, want {MOST_DESCRIPTORS}: socket, output, status")
        if self._computing is not None:
            raise Refusal(MALFORMED, "this process has computed, want FORK before CALL")
        connection, output, status = descriptors
        number = self._children.fork(self._children.serving(self._served, seed), socket.socket(fileno=status), (connection, output, os.dup(output)), self.connection.close)
        return [_u64(number)]

    def _calls(self, body: _Body) -> List[bytes]:
        if self._computing is None:
            self._computing = hosting.server(self.connection, self._served, "a fresh process", self._seed)
        return self._computing._calls(body)

    def _receive(self, length: int) -> Optional[bytearray]:
        received = bytearray(length)
        view = memoryview(received)
        size = socket.CMSG_SPACE(MOST_DESCRIPTORS * array.array("i").itemsize)
        while len(view):
            try:
                count, messages, _, _ = self.connection.recvmsg_into([view], size)
            except ConnectionError:
                count, messages = 0, []
            for level, kind, data in messages:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    numbers = array.array("i")
                    numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
                    self._descriptors += list(numbers)
            if not count:
                return None
            view = view[count:]
        return received
