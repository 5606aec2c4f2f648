"""tokitai from Python: operations whose results are fixed to the bit, one's own among them.

    import tokitai

    rmsnorm = tokitai.define(text)              # the language: docs/definitions.md
    y = rmsnorm(x=x, gamma=gamma)["y"]          # arrays in, a Tensor out

define starts a process that computes when it is first called, and ends it with the program; Client gives control over
that. All of tokitai_client.py, which needs nothing but the standard library, can be imported from here."""

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
    """The client that define uses: started when it is first needed, and again when its process has died."""
    global _client
    with _lock:
        if _client is not None and not _client.is_alive:
            _client.close()
            _client = None
        if _client is None:
            _client = Client(name="tokitai")
        return _client


def define(text: Union[str, bytes]) -> Operation:
    """A definition from its text, to be called with arrays by name. A mistake in the text raises DefinitionError, which
    has its line and column. The operation outlives the death of its process: the next call starts another."""
    return Operation(text, client)


@atexit.register
def _close() -> None:
    global _client
    with _lock:
        if _client is not None:
            _client.close()
            _client = None
