"""Deep-learning operations with the same bits on every machine, including operations you define.

    import tokitai

    rmsnorm = tokitai.define(text)              # the language: docs/definitions.md
    y = rmsnorm(x=x, gamma=gamma)["y"]          # arrays in, a Tensor out

define starts a process on first use and ends it with the program; use Client to control that. Everything in
tokitai_client.py, which needs only the standard library, can be imported from here."""

from __future__ import annotations

import atexit
import threading
from typing import Optional, Union

from tokitai_client import (
    Arena,
    Call,
    Client,
    Defined,
    Definition,
    DefinitionError,
    Hello,
    Memory,
    Operation,
    OperandForm,
    ParamForm,
    Pending,
    Placed,
    ProtocolError,
    Result,
    ServerDied,
    Stats,
    Tensor,
    TokitaiError,
    find_program,
)

__all__ = [
    "Arena",
    "Call",
    "Client",
    "Defined",
    "Definition",
    "DefinitionError",
    "Hello",
    "Memory",
    "Operation",
    "OperandForm",
    "ParamForm",
    "Pending",
    "Placed",
    "ProtocolError",
    "Result",
    "ServerDied",
    "Stats",
    "Tensor",
    "TokitaiError",
    "client",
    "define",
    "find_program",
]

_lock = threading.Lock()
_client: Optional[Client] = None


def client() -> Client:
    """Returns the client that define uses. It is started on first use, and again if its process has died."""
    global _client
    with _lock:
        if _client is not None and not _client.is_alive:
            _client.close()
            _client = None
        if _client is None:
            _client = Client(name="tokitai")
        return _client


def define(text: Union[str, bytes]) -> Operation:
    """Makes an operation from the text of its definition. Call it with arrays by name. A mistake in the text raises
    DefinitionError, with line and column. If the process dies, the next call starts another."""
    return Operation(text, client)


@atexit.register
def _close() -> None:
    global _client
    with _lock:
        if _client is not None:
            _client.close()
            _client = None
