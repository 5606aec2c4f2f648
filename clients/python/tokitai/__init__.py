"""Judges deep-learning kernels, and computes deep-learning operations with the same bits on every machine.

    import tokitai

    report = tokitai.check(my_softmax, "softmax.forward", dtypes=["bf16"])   # any callable on arrays
    assert report.accepted, report

    print(tokitai.compare("softmax.forward", x, y))  # is this y right for this x? No kernel runs
    y = tokitai.reference("softmax.forward", x)      # the answer; truth() encloses the real-number result
    rmsnorm = tokitai.define(text)                   # an operation of your own, for all of these: docs/definitions.md
    y = rmsnorm(x=x, gamma=gamma)["y"]

Arrays are those of torch, numpy, cupy and jax; nothing but the standard library is needed. reference, truth, compare and
define start a process on first use and end it with the program; use Client to control that."""

from __future__ import annotations

import atexit
import threading
from typing import Any, Mapping, Optional, Union

from tokitai_client import (
    Call,
    Defined,
    Definition,
    DefinitionError,
    Hello,
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

from . import questions as _questions
from .arrays import ArrayError
from .checking import CheckError, check, check_autograd
from .connection import Arena, Client, Memory, Operation
from .forms import OperationError
from .questions import Enclosure
from .report import Counterexample, Report, Tier
from .testing import kernel

__all__ = [
    "Arena",
    "ArrayError",
    "Call",
    "CheckError",
    "Client",
    "Counterexample",
    "Defined",
    "Definition",
    "DefinitionError",
    "Enclosure",
    "Hello",
    "Memory",
    "Operation",
    "OperandForm",
    "OperationError",
    "ParamForm",
    "Pending",
    "Placed",
    "ProtocolError",
    "Report",
    "Result",
    "ServerDied",
    "Stats",
    "Tensor",
    "Tier",
    "TokitaiError",
    "check",
    "check_autograd",
    "client",
    "compare",
    "define",
    "find_program",
    "judge",
    "kernel",
    "reference",
    "truth",
]

_lock = threading.Lock()
_client: Optional[Client] = None


def client() -> Client:
    """Returns the client that define and the questions use. It is started on first use, and again if its process has died."""
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


def reference(op: Any, /, *arguments: Any, **named: Any) -> Any:
    """Returns the answer of an operation, bit for bit: one array, or a tuple with names. Inputs are given by name or in the
    definition's order, parameters by name. The result is the kind of array that was given."""
    return _questions.reference(client(), op, arguments, named)


def truth(op: Any, /, *arguments: Any, **named: Any) -> Any:
    """Encloses the real-number result of an operation: like reference, with an Enclosure (lo, hi) for each output."""
    return _questions.truth(client(), op, arguments, named)


def compare(op: Any, inputs: Any, outputs: Any, params: Mapping[str, float] = {}, *, promise: Optional[str] = None, profile: Optional[str] = None, declare: Any = None, waive: Any = None) -> Report:
    """Says whether arrays that somebody has computed are right for their inputs: every element is compared with what the
    operation admits. No kernel runs. Inputs and outputs are given by name, as {"x": x}, in the definition's order, or alone;
    the arrays may be on any device. Outputs that are left out, or None, count as omitted. The terms are those of check."""
    return _questions.compare(client(), op, inputs, outputs, params, {"promise": promise, "profile": profile, "declare": declare, "waive": waive}).told()


judge = compare


@atexit.register
def _close() -> None:
    global _client
    with _lock:
        if _client is not None:
            _client.close()
            _client = None
