"""A callable as a kernel process: the other side of docs/protocol.md, section "Kernels in other languages".

HELLO, LIST and CALL are answered; everything else is refused. What a callable does wrong is an error reply with a
message, and the process goes on."""

from __future__ import annotations

import hashlib
import os
import platform
import random
import socket
import struct
import sys
import time
from contextlib import nullcontext
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from tokitai_client import (
    CALL,
    DTYPES,
    ERROR,
    FRAMES,
    GOOD,
    HEADER,
    HELLO,
    LIST,
    LONGEST_BODY,
    MAGIC,
    READS,
    VERSION,
    WRITES,
    Defined,
    ProtocolError,
    Tensor,
    _Body,
    _list,
    _string,
    _u8,
    _u32,
    _u64,
)

from . import calling, operands
from .calling import Shape, Wrong
from .settings import names_of, settings_of, values_of

MALFORMED, BAD_ARGUMENT, TOO_LARGE, NOT_SUPPORTED, INTERNAL, NO_VERSION = 1, 2, 4, 10, 11, 12
LONGEST_STRING = 4096
MAX_FRAME = 1 << 32
FORKS = 2  # in the reply to HELLO: FORK is answered
REMEMBERED_BYTES = 1 << 20  # outputs up to this size are looked at again before the next call


class Refusal(Exception):
    """An error reply."""

    def __init__(self, code: int, message: str):
        super().__init__(message)
        self.code = code


class Operand(NamedTuple):
    name: str
    role: int
    tensor: Tensor  # without data


class Request(NamedTuple):
    definition: str
    params: Dict[str, float]
    operands: List[Operand]

    def shape(self) -> Shape:
        reads = tuple(o.name for o in self.operands if o.role & READS)
        writes = tuple(o.name for o in self.operands if o.role & WRITES)
        params = tuple(self.params)
        return Shape(self.definition, reads, writes, params, names_of(self.definition, params))


def _decode_operand(body: _Body) -> Operand:
    name, dtype, place, role = body.string(), body.dtype(), body.u8(), body.u8()
    if place != FRAMES:
        raise Refusal(NOT_SUPPORTED, f"operand {name} is in place {place}, want {FRAMES}: this process has no memory of its own to offer")
    return Operand(name, role, Tensor(dtype, tuple(body.list(body.u64))))


def _decode_call(body: _Body) -> Request:
    definition = body.string()
    body.take(4)  # policy, bad indices, admission: for kernels of tokitai's own
    body.string()
    params = dict(body.list(lambda: (body.string(), body.f64())))
    return Request(definition, params, body.list(lambda: _decode_operand(body)))


class Kernel:
    """A callable that serves one definition."""

    def __init__(self, function: Callable, form: Optional[Defined], library: operands.Library, layouts: str, seed: int, omitted: Sequence[str] = (), memory: int = 0):
        self.function = function
        self.name = calling.name_of(function)
        self.form = form
        self.library = library
        self.layouts = layouts
        self.seed = seed
        self.omitted = tuple(omitted)
        self.memory = memory  # bytes that the process may allocate, for messages; 0 for no limit
        self._process = os.getpid()
        self._conventions: Dict[Shape, calling.Convention] = {}
        self._seen: Dict[bytes, int] = {}  # how often inputs were met
        self._last: List[Tuple[str, Any, bytes, Tensor]] = []  # outputs of the last call, and what they were

    def compute(self, request: Request, data: Mapping[str, bytes]) -> Tuple[Dict[str, bytes], int]:
        """Calls the callable once, and returns the outputs and the nanoseconds that it took."""
        shape = request.shape()
        how = self._conventions.get(shape)
        if how is None:
            how = self._conventions[shape] = calling.convention(self.function, shape, self.omitted)
        set_by = values_of(request.definition, request.params, {o.name: tuple(o.tensor.shape) for o in request.operands})
        self._check_params(how, request, set_by)
        self._look_back()
        choice, noise = self._choices(request, data)
        blocks = {}
        for o in request.operands:
            if o.role & READS or o.name in how.written:
                tensor = Tensor(o.tensor.dtype, o.tensor.shape, data[o.name]) if o.role & READS else o.tensor
                try:
                    blocks[o.name] = self.library.operand(o.name, tensor, self.layouts, choice, noise, may_repeat=not o.role & WRITES)
                except ImportError as error:  # a format that the library has not
                    raise Wrong(str(error), is_refusal=True) from error
        values: Dict[str, Any] = {o.name: blocks[o.name].array for o in request.operands if o.role & READS}
        values.update((n, self._param(n, v)) for n, v in request.params.items())
        values.update(set_by)
        buffers = {n: blocks[n].array for n in how.written}
        for o in request.operands:
            if o.role & WRITES and o.name not in how.written and o.name not in self.omitted:
                self.library.poison(o.tensor.nbytes)
        try:
            results, nanoseconds = self._call(how, shape, request, values, buffers)
        except Wrong as wrong:
            if not wrong.operand:
                self._inspect(request, blocks, may_write=not wrong.is_refusal)
            raise
        self._inspect(request, blocks)
        for name in self.omitted:
            for o in request.operands:
                if o.name == name:
                    results[name] = operands.pattern(o.tensor.dtype, noise) * (o.tensor.nbytes // DTYPES[o.tensor.dtype].size)
        return results, nanoseconds

    def _call(self, how: calling.Convention, shape: Shape, request: Request, values: Mapping[str, Any], buffers: Mapping[str, Any]) -> Tuple[Dict[str, bytes], int]:
        tensors = {o.name: o.tensor for o in request.operands}
        library = self.library
        with library.around() or nullcontext():
            begin = time.perf_counter_ns()
            try:
                returned = calling.call(self.function, how, shape, values, buffers)
            except NotImplementedError as error:
                raise Wrong(f"{self.name} refused: {error}", is_refusal=True) from error
            except Wrong:
                raise
            except BaseException as error:  # SystemExit and KeyboardInterrupt, too
                index = _index_of(request) if isinstance(error, IndexError) else ""
                raise Wrong(calling.account(error, self.name) + self._hint(error), is_refusal=bool(index), index=index) from error
            finally:
                if os.getpid() != self._process:
                    os._exit(0)  # a child of the callable's own, which must not answer
            arrays = calling.outputs(how, shape, returned, values, buffers, lambda n: library.wanted(n, tensors[n]), library.is_array, self.name)
            nanoseconds = time.perf_counter_ns() - begin
            for name, array in arrays.items():
                self._check_apart(how, request, values, name, array)
            # Results are copied behind the work of the stream that the callable was called on, and no other.
            results = {n: library.data(a, n, tensors[n], self.name) for n, a in arrays.items()}
        library.synchronise()
        self._last = [(n, a, results[n], tensors[n]) for n, a in arrays.items() if library.can_change_later and len(results[n]) <= REMEMBERED_BYTES]
        if library.device != "cpu":
            self._look_back()
        return results, nanoseconds

    def _inspect(self, request: Request, blocks: Mapping[str, Any], may_write: bool = True) -> None:
        """Raises Wrong if a call changed what it must not: inputs, guards, and if it was refused its outputs."""
        for o in request.operands:
            if o.name in blocks:
                blocks[o.name].inspect(may_write and bool(o.role & WRITES), self.name)

    def _check_apart(self, how: calling.Convention, request: Request, values: Mapping[str, Any], name: str, array: Any) -> None:
        """Raises Wrong for an output that a callable made itself, in memory of an input: who writes to one changes the other. An
        operand that is both input and output is its own place."""
        if name in how.written:
            return
        for o in request.operands:
            if o.name != name and o.role & READS and not o.role & WRITES and self.library.shares(array, values[o.name]):
                raise Wrong(f"{self.name} returned {name} in the memory of its input {o.name}: want a new array", name)

    def _hint(self, error: BaseException) -> str:
        if self.memory and (isinstance(error, MemoryError) or "allocate memory" in str(error)):
            return f"; the memory ran out: its process may allocate {self.memory / 2**30:.3g} GiB, or as many bytes as memory= says"
        return ""

    def _look_back(self) -> None:
        """Compares the outputs of the last call with what they were when it returned."""
        last, self._last = self._last, []
        for name, array, data, tensor in last:
            if self.library.data(array, name, tensor, self.name) != data:
                raise Wrong(f"{self.name} changed {name} after it had returned: it left work behind, on another stream or thread", name)

    def _choices(self, request: Request, data: Mapping[str, bytes]) -> Tuple[random.Random, random.Random]:
        """Returns the sources of layouts and of noise. Layouts depend on formats and shapes alone: a case that fails in one
        layout fails again in another process, and calls whose results are compared with each other have the same, since
        the order of a sum may depend on it. Noise differs from call to call."""
        form = hashlib.blake2b(repr((request.definition, request.operands)).encode(), digest_size=16).digest()
        digest = hashlib.blake2b(form + repr(request.params).encode(), digest_size=16)
        for name in data:
            digest.update(data[name])
        key = digest.digest()
        count = self._seen.get(key, 0)
        if len(self._seen) < 1 << 20:
            self._seen[key] = count + 1
        word = int.from_bytes(key, "little")
        return random.Random(int.from_bytes(form, "little")), random.Random((word + count) ^ (self.seed << 64))

    def _param(self, name: str, value: float) -> Any:
        form = next((p for p in self.form.params if p.name == name), None) if self.form else None
        return int(value) if form is not None and form.is_int else value

    def _check_params(self, how: calling.Convention, request: Request, set_by: Mapping[str, float]) -> None:
        """Refuses a call with parameters that the callable does not take, unless they have their defaults. A callable that takes
        what people set need not take what is computed from it."""
        needed, defaults = dict(request.params), {}
        for settings in settings_of(request.definition):
            if any(name in how.by_name for name in settings.defaults):
                needed = {**{n: v for n, v in needed.items() if n not in settings.derived}, **{n: set_by[n] for n in settings.defaults if n in set_by}}
                defaults.update(settings.defaults)
        for name, value in needed.items():
            if name in how.by_name:
                continue
            form = next((p for p in self.form.params if p.name == name), None) if self.form else None
            default = form.default if form else defaults.get(name)
            if default is None or struct.pack("<f", default) != struct.pack("<f", value):
                wants = f"its default {default:g}" if default is not None else "no default"
                raise Wrong(f"{self.name} takes no parameter {name}, which is {value:g} in this call and has {wants}: add {name} to its parameters", is_refusal=True)


class Server:
    """Answers the requests that arrive on a socket, one after another."""

    features = 0

    def __init__(self, connection: socket.socket, kernels: Mapping[str, Kernel], description: str, device: str):
        self.connection = connection
        self.kernels = kernels
        self.description = description
        self.device = device

    def run(self) -> int:
        """Serves until the other end closes. Returns the exit code of the process."""
        code = None
        while code is None:
            code = self.step()
        return code

    def step(self) -> Optional[int]:
        """Answers one request. Returns an exit code when there are no more."""
        header = self._receive(HEADER.size)
        if header is None:
            return 0
        length, number, kind, _ = HEADER.unpack(header)
        if length > LONGEST_BODY:
            return 2
        body = self._receive(length)
        if body is None:
            return 21
        try:
            reply = self._answer(kind, _Body(body))
        except Refusal as refusal:
            self._send(ERROR, number, [_error(refusal.code, str(refusal))])
            return 2 if refusal.code == NO_VERSION else None
        except Wrong as wrong:
            code = BAD_ARGUMENT if wrong.is_refusal else INTERNAL
            details = {"output": wrong.operand, "dtype": wrong.dtype, "operand": wrong.index}
            self._send(ERROR, number, [_error(code, str(wrong), {name: value for name, value in details.items() if value})])
        except MemoryError as error:
            self._send(ERROR, number, [_error(TOO_LARGE, f"out of memory: {error}")])
        except ProtocolError as error:
            self._send(ERROR, number, [_error(MALFORMED, str(error))])
        else:
            self._send(GOOD, number, reply)
        return None

    def _answer(self, kind: int, body: _Body) -> List[bytes]:
        if kind == HELLO:
            return self._hello(body)
        if kind == LIST:
            body.end()
            return [_list(_string(name) + _list(_operands(k)) + _list(_string(p.name) for p in (k.form.params if k.form else ())) for name, k in self.kernels.items())]
        if kind == CALL:
            return self._calls(body)
        raise Refusal(NOT_SUPPORTED, f"request {kind} is not supported, want HELLO, LIST or CALL")

    def _hello(self, body: _Body) -> List[bytes]:
        if bytes(body.take(len(MAGIC))) != MAGIC:
            raise ProtocolError("the magic is wrong")
        lowest, highest = body.u32(), body.u32()
        if not lowest <= VERSION <= highest:
            raise Refusal(NO_VERSION, f"versions {lowest} to {highest}, want {VERSION}")
        generation = random.SystemRandom().getrandbits(64)
        build = f"tokitai for Python {platform.python_version()}"
        return [_u32(VERSION), _u64(generation), _string(build), _string(self.device), _string(_clipped(self.description)), _u64(MAX_FRAME, MAX_FRAME), _u32(self.features)]

    def _calls(self, body: _Body) -> List[bytes]:
        requests = body.list(lambda: _decode_call(body))
        names, replies, nanoseconds = [], [], 0
        for request in requests:
            if request.definition not in self.kernels:
                raise Refusal(BAD_ARGUMENT, f"no kernel computes {request.definition}, want {', '.join(self.kernels)}")
        data = [{o.name: bytes(body.take(o.tensor.nbytes)) for o in r.operands if o.role & READS} for r in requests]
        body.end()
        for request, inputs in zip(requests, data):
            results, took = self.kernels[request.definition].compute(request, inputs)
            nanoseconds += took
            names.append("check.process")
            replies += [results[o.name] for o in request.operands if o.role & WRITES]
        return [_u64(nanoseconds), _list(map(_string, names)), *replies]

    def _receive(self, length: int) -> Optional[bytearray]:
        received = bytearray(length)
        view = memoryview(received)
        while len(view):
            try:
                count = self.connection.recv_into(view)
            except ConnectionError:
                count = 0
            if not count:
                return None
            view = view[count:]
        return received

    def _send(self, kind: int, number: int, parts: Sequence[bytes]) -> None:
        body = b"".join(parts)
        try:
            self.connection.sendall(HEADER.pack(len(body), number, kind, 0) + body)
        except ConnectionError:
            pass  # the other end is gone: the next read says so


def _index_of(request: Request) -> str:
    """Returns the operand whose values an IndexError is about: the first one of integers that is read."""
    return next((o.name for o in request.operands if o.role & READS and o.tensor.dtype in ("i32", "i64")), "")


def _operands(kernel: Kernel) -> List[bytes]:
    return [_string(o.name) + _u8(o.role) for o in kernel.form.operands] if kernel.form else []


def _error(code: int, message: str, details: Mapping[str, str] = {}) -> bytes:
    return _u32(code) + _string(_clipped(message)) + _list(_string(n) + _string(v) for n, v in details.items())


def _clipped(text: str) -> str:
    data = text.encode(errors="replace")
    return text if len(data) <= LONGEST_STRING else data[: LONGEST_STRING - 4].decode(errors="ignore") + " …"


def seed_of(environment: Mapping[str, str] = os.environ) -> int:
    """Returns the number in TOKITAI_SEED, from which guards and poison are drawn, or one of the system's."""
    text = environment.get("TOKITAI_SEED", "")
    return int(text) if text.isdigit() else random.SystemRandom().getrandbits(64)


def descriptor_of(environment: Mapping[str, str] = os.environ) -> int:
    """Returns the number of the socket. Raises Wrong if there is none."""
    text = environment.get("TOKITAI_FD", "")
    if not text.isdigit():
        raise Wrong("TOKITAI_FD is not set: this program is started by tokitai check OP --exec 'python -m tokitai.kernel …'")
    return int(text)
