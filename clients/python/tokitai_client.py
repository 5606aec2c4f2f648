"""Client of tokitai's kernel processes, written from docs/protocol.md: one file, only the standard library.

    from tokitai_client import Client, Tensor

    with Client() as client:                                    # starts `tokitai process`, ends it at the end
        x = Tensor.of("f32", [1.0, 2.0, 3.0], shape=(1, 3))
        result = client.call("softmax.forward", x=x, y=Tensor.empty("f32", (1, 3)))
        print(result["y"].values())

An operand is in one of three places: a Tensor is sent in messages; a Placed tensor is in an Arena, which both processes
share, or in Memory, which belongs to the process and stays there between calls:

    weights = client.new(4096)                                  # Memory
    weights.write(Tensor.of("f32", [0.5] * 1024).data)
    client.call("gelu.forward", x=weights.tensor("f32", (1024,)), y=Tensor.empty("f32", (1024,)))

You can define your own operations as text:

    rmsnorm = client.define(text)
    result = rmsnorm(x=x, gamma=gamma, eps=1e-6)                # outputs that are not given are allocated

A judge says whether outputs that somebody has computed are admissible, and what the real-number result is:

    report = client.judge("softmax.forward", x=x, outputs={"y": y})
    print(report["verdict"], report["reason"])
    ends = client.truth("softmax.forward", x=x, y=Tensor.empty("f32", (1, 3)))["y"]     # ends.lo <= result <= ends.hi

A refused request raises TokitaiError, and the process continues; if the process dies, ServerDied is raised.
"""

from __future__ import annotations

import array
import json
import math
import mmap
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

try:
    import fcntl
except ImportError:  # no shared memory there
    fcntl = None

Buffer = Union[bytes, bytearray, memoryview]

VERSION = 1
MAGIC = b"tokitai\n"

HELLO, CALL, NEW, WRITE, READ, FREE, ARENA, DROP, CANCEL, LIST, STATS, DEFINE, JUDGE, TRUTH, FORK = range(1, 16)
GOOD, ERROR = 256, 257

HEADER = struct.Struct("<QQII")  # length of the body, request, kind, descriptors
LONGEST_BODY = 1 << 48
RECEIVE_STEP = 1 << 24  # memory for a reply is taken as its bytes arrive
JOIN_BELOW = 1 << 16  # shorter messages are sent in one piece
STDERR_KEPT = 16 << 10
EXIT_SECONDS = 10.0

FRAMES, IN_ARENA, IN_HANDLE = 0, 1, 2
READS, WRITES = 1, 2

ERROR_NAMES = {
    1: "malformed",
    2: "bad argument",
    3: "no device",
    4: "out of memory",
    5: "inadmissible",
    6: "device lost",
    7: "canceled",
    8: "no such handle or arena",
    9: "too long",
    10: "not supported",
    11: "internal",
    12: "version",
    13: "definition",
}


DEFINITION_ERROR = 13


class TokitaiError(Exception):
    """An error reply: code (as in docs/protocol.md), name of the code, message, and details by name."""

    def __init__(self, code: int, message: str, details: Mapping[str, str]):
        super().__init__(message)
        self.code = code
        self.name = ERROR_NAMES.get(code, "unknown")
        self.message = message
        self.details = dict(details)

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


class DefinitionError(TokitaiError):
    """A mistake in the text of a definition: line and column, both from 1, or None if the process did not say."""

    def __init__(self, code: int, message: str, details: Mapping[str, str]):
        super().__init__(code, message, details)
        self.line = int(details["line"]) if "line" in details else None
        self.column = int(details["column"]) if "column" in details else None


class ServerDied(Exception):
    """The process has ended, with its exit status (negative: the signal that ended it) and the end of its standard error."""

    def __init__(self, status: Optional[int], stderr: str, reason: str = ""):
        said = f": {stderr.strip()}" if stderr.strip() else ""
        super().__init__(f"the process ended with status {status}{', ' + reason if reason else ''}{said}")
        self.status = status
        self.stderr = stderr
        self.reason = reason


class ProtocolError(Exception):
    """The process violated docs/protocol.md. It is killed, since nothing it sends later can be trusted."""


# Tensors


class _DType(NamedTuple):
    code: int
    size: int
    pack: Callable[[Sequence[float]], bytes]
    unpack: Callable[[Buffer], List[Any]]


def _pack_one(code: str, value: float) -> bytes:
    try:
        return struct.pack("<" + code, value)
    except OverflowError:  # struct refuses what rounds to infinity
        return struct.pack("<" + code, math.copysign(math.inf, value))


def _pack(code: str, values: Sequence[float]) -> bytes:
    floats = list(map(float, values))
    try:
        return struct.pack(f"<{len(floats)}{code}", *floats)
    except OverflowError:
        return b"".join(_pack_one(code, v) for v in floats)


def _unpack(code: str, data: Buffer) -> List[Any]:
    return list(struct.unpack(f"<{len(data) // struct.calcsize('<' + code)}{code}", data))


def bf16_bits(value: float) -> int:
    """Returns the 16 bits of the bf16 nearest to value, ties to even. Rounds once, not by way of f32."""
    if math.isnan(value):
        return 0x7FC0
    sign = 0x8000 if math.copysign(1.0, value) < 0 else 0
    if value == 0 or math.isinf(value):
        return sign | (0x7F80 if value else 0)
    _, exponent = math.frexp(value)
    unit = max(exponent - 8, -133)  # 8 bits of precision; 2^-133 is the least subnormal
    steps = round(math.ldexp(abs(value), -unit))  # the scaling is exact, round() ties to even
    return sign | min((unit + 133) * 128 + steps, 0x7F80)


def _pack_bf16(values: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(values)}H", *map(bf16_bits, values))


def _unpack_bf16(data: Buffer) -> List[float]:
    bits = _unpack("H", data)
    return _unpack("f", struct.pack(f"<{len(bits)}I", *(b << 16 for b in bits)))


# FP8 by the OCP: the number of fraction bits, the exponent of the least subnormal, and the pattern after the largest
# finite value, which is NaN in e4m3 and infinity in e5m2.
_FP8 = {"e4m3": (3, -9, 0x7F), "e5m2": (2, -16, 0x7C)}


def fp8_bits(name: str, value: float) -> int:
    """Returns the 8 bits of the e4m3 or e5m2 nearest to value, ties to even. Rounds once; nothing saturates: a number that is
    too large becomes NaN in e4m3 and infinite in e5m2."""
    fraction, least, end = _FP8[name]
    if math.isnan(value):
        return 0x7F if name == "e4m3" else 0x7E
    sign = 0x80 if math.copysign(1.0, value) < 0 else 0
    if value == 0 or math.isinf(value):
        return sign | (end if value else 0)
    _, exponent = math.frexp(value)
    unit = max(exponent - fraction - 1, least)
    steps = round(math.ldexp(abs(value), -unit))
    return sign | min(((unit - least) << fraction) + steps, end)


def fp8_value(name: str, bits: int) -> float:
    """Returns the value of 8 bits of e4m3 or e5m2."""
    fraction, least, end = _FP8[name]
    magnitude = bits & 0x7F
    if magnitude >= end:
        value = math.inf if name == "e5m2" and magnitude == end else math.nan
    else:
        exponent, steps = magnitude >> fraction, magnitude & ((1 << fraction) - 1)
        value = math.ldexp(steps + ((1 << fraction) if exponent else 0), max(exponent - 1, 0) + least)
    return -value if bits & 0x80 else value


def _fp8(name: str, code: int) -> _DType:
    return _DType(code, 1, lambda v: bytes(fp8_bits(name, x) for x in v), lambda d: [fp8_value(name, b) for b in memoryview(d).cast("B")])


DTYPES: Dict[str, _DType] = {
    "f16": _DType(1, 2, lambda v: _pack("e", v), lambda d: _unpack("e", d)),
    "bf16": _DType(2, 2, _pack_bf16, _unpack_bf16),
    "f32": _DType(3, 4, lambda v: _pack("f", v), lambda d: _unpack("f", d)),
    "i32": _DType(4, 4, lambda v: struct.pack(f"<{len(v)}i", *v), lambda d: _unpack("i", d)),
    "e4m3": _fp8("e4m3", 5),
    "e5m2": _fp8("e5m2", 6),
    "i8": _DType(7, 1, lambda v: struct.pack(f"<{len(v)}b", *v), lambda d: _unpack("b", d)),
    "i64": _DType(8, 8, lambda v: struct.pack(f"<{len(v)}q", *v), lambda d: _unpack("q", d)),
}


_DTYPE_NAMES = {d.code: name for name, d in DTYPES.items()}
_BUFFER_DTYPES = {("e", 2): "f16", ("f", 4): "f32", ("i", 4): "i32", ("l", 4): "i32", ("b", 1): "i8", ("q", 8): "i64", ("l", 8): "i64"}


def _dtype(name: str) -> _DType:
    if name not in DTYPES:
        raise ValueError(f"dtype {name!r}, want one of {', '.join(DTYPES)}")
    return DTYPES[name]


@dataclass(frozen=True)
class Tensor:
    """A tensor that is sent in messages: elements as stored, row by row, little-endian. A tensor that a call only writes
    needs no data."""

    dtype: str
    shape: Tuple[int, ...]
    data: Optional[Buffer] = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        if self.data is not None and len(memoryview(self.data).cast("B")) != self.nbytes:
            raise ValueError(f"{self.dtype} {list(self.shape)}: got {len(self.data)} bytes of data, want {self.nbytes}")

    @classmethod
    def of(cls, dtype: str, values: Sequence[float], shape: Optional[Sequence[int]] = None) -> Tensor:
        """Makes a tensor from numbers, row by row, each rounded to nearest even; a number that is too large becomes infinite (NaN in e4m3, which has no infinity).
        Without a shape it is one row."""
        return cls(dtype, tuple(shape) if shape is not None else (len(values),), _dtype(dtype).pack(values))

    @classmethod
    def empty(cls, dtype: str, shape: Sequence[int]) -> Tensor:
        """Makes a tensor for a call to write."""
        return cls(dtype, tuple(shape))

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * _dtype(self.dtype).size

    @classmethod
    def from_buffer(cls, array: Any) -> Tensor:
        """Copies an array of f16, f32, int8, int32 or int64 that supports the buffer protocol, such as one of NumPy or array.array."""
        view = memoryview(array)
        dtype = _BUFFER_DTYPES.get((view.format.lstrip("@=<" if sys.byteorder == "little" else "<"), view.itemsize))
        if dtype is None:
            raise TypeError(f"an array of format {view.format!r}, want 'e' (f16), 'f' (f32), 'b' (i8), 'i' (i32) or 'q' (i64)")
        return cls(dtype, view.shape, view.tobytes())

    def values(self) -> List[Any]:
        """Returns the elements as numbers, row by row."""
        if self.data is None:
            raise ValueError("this tensor has no data")
        return _dtype(self.dtype).unpack(self.data)


@dataclass(frozen=True)
class Placed:
    """A tensor in an Arena or in Memory, made by their method tensor."""

    dtype: str
    shape: Tuple[int, ...]
    home: Union[Arena, Memory]
    offset: int
    row_stride: int


Operand = Union[Tensor, Placed]


def _placed(home: Union[Arena, Memory], dtype: str, shape: Sequence[int], offset: int, stride: Optional[int]) -> Placed:
    _dtype(dtype)
    row = shape[-1] if shape else 1
    return Placed(dtype, tuple(shape), home, offset, row if stride is None else stride)


@dataclass(frozen=True)
class Call:
    """One call of a definition. Policy "same" gives the same bits on every machine for matrix products too; an index
    out of range is refused or skipped; lowering names the kernel, otherwise the process chooses."""

    definition: str
    operands: Mapping[str, Operand]
    params: Mapping[str, float] = field(default_factory=dict)
    policy: str = "fast"
    skips_bad_index: bool = False
    is_tested: bool = True
    lowering: str = ""


@dataclass(frozen=True)
class Result:
    """The outputs of a call, by operand; the kernel that ran; the time in kernels of the whole request."""

    outputs: Mapping[str, Tensor]
    lowering: str
    kernel_nanoseconds: int

    def __getitem__(self, operand: str) -> Tensor:
        return self.outputs[operand]


class Definition(NamedTuple):
    """A definition in the reply to LIST. Roles of operands are 1 read, 2 written, 3 both."""

    name: str
    operands: Dict[str, int]
    params: List[str]


class OperandForm(NamedTuple):
    """An operand of a definition: its role is 1 read, 2 written, 3 both; sizes are letters, the same letter means the same
    size; it may have one of dtypes, or the dtype of the operand like, unless like is empty."""

    name: str
    role: int
    sizes: List[str]
    dtypes: List[str]
    like: str


class ParamForm(NamedTuple):
    """A parameter of a definition; default is None if a call must give it."""

    name: str
    is_int: bool
    default: Optional[float]


class Defined(NamedTuple):
    """The reply to DEFINE. Calls name the definition by its identity."""

    identity: str
    name: str
    operands: List[OperandForm]
    params: List[ParamForm]


class Enclosure(NamedTuple):
    """Ends of the intervals in which the real-number results of an output lie, row by row."""

    shape: Tuple[int, ...]
    lo: array.array
    hi: array.array


class Stats(NamedTuple):
    requests: int
    errors: int
    kernel_nanoseconds: int
    bytes_held: int
    most_bytes_held: int
    handles: int
    arenas: int


class Hello(NamedTuple):
    version: int
    generation: int
    build: str
    device: str
    description: str
    max_frame: int
    memory_limit: int
    has_arenas: bool


# Bytes of messages


def _u8(value: int) -> bytes:
    return struct.pack("<B", value)


def _u32(value: int) -> bytes:
    return struct.pack("<I", value)


def _u64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def _string(text: str) -> bytes:
    data = text.encode()
    return _u32(len(data)) + data


def _list(items: Iterable[bytes]) -> bytes:
    encoded = list(items)
    return _u32(len(encoded)) + b"".join(encoded)


class _Body:
    """Reads a reply's body from its beginning."""

    def __init__(self, data: Buffer):
        self._rest = memoryview(data)

    def take(self, length: int) -> memoryview:
        if length > len(self._rest):
            raise ProtocolError(f"a reply ends early: {len(self._rest)} bytes left, want {length}")
        taken, self._rest = self._rest[:length], self._rest[length:]
        return taken

    def u8(self) -> int:
        return self.take(1)[0]

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def f64(self) -> float:
        return struct.unpack("<d", self.take(8))[0]

    def dtype(self) -> str:
        code = self.u8()
        if code not in _DTYPE_NAMES:
            raise ProtocolError(f"a dtype of number {code} in a reply")
        return _DTYPE_NAMES[code]

    def string(self) -> str:
        try:
            return bytes(self.take(self.u32())).decode()
        except UnicodeDecodeError as error:
            raise ProtocolError(f"a string of a reply is not UTF-8: {error}") from error

    def list(self, item: Callable[[], Any]) -> List[Any]:
        return [item() for _ in range(self.u32())]

    def rest(self) -> bytes:
        return bytes(self.take(len(self._rest)))

    def end(self) -> None:
        if len(self._rest):
            raise ProtocolError(f"{len(self._rest)} bytes are left over in a reply")


def _role(roles: Mapping[str, int], name: str, operand: Operand) -> int:
    """Returns what the definition does with an operand. The process refuses an unknown one, with a message."""
    if name in roles:
        return roles[name]
    return READS if isinstance(operand, Tensor) and operand.data is not None else WRITES


def _encode_operand(name: str, operand: Operand, role: int) -> bytes:
    place = FRAMES if isinstance(operand, Tensor) else operand.home.place
    head = struct.pack("<BBB", _dtype(operand.dtype).code, place, role if place == FRAMES else 0)
    encoded = _string(name) + head + _list(map(_u64, operand.shape))
    if isinstance(operand, Placed):
        encoded += operand.home.reference() + _u64(operand.offset, operand.row_stride)
    return encoded


def _encode_call(call: Call, roles: Mapping[str, int]) -> bytes:
    policies = {"fast": 0, "same": 1}
    if call.policy not in policies:
        raise ValueError(f"policy {call.policy!r}, want fast or same")
    return b"".join(
        (
            _string(call.definition),
            struct.pack("<BBBB", policies[call.policy], call.skips_bad_index, not call.is_tested, 0),
            _string(call.lowering),
            _list(_string(name) + struct.pack("<d", value) for name, value in call.params.items()),
            _list(_encode_operand(name, operand, _role(roles, name, operand)) for name, operand in call.operands.items()),
        )
    )


def _request_data(call: Call, roles: Mapping[str, int]) -> List[Buffer]:
    """The data that a call sends, in the order of its operands."""
    data = []
    for name, operand in call.operands.items():
        if isinstance(operand, Tensor) and _role(roles, name, operand) & READS:
            if operand.data is None:
                raise ValueError(f"{call.definition}: {name} is read, and has no data")
            data.append(operand.data)
    return data


def _decode_error(body: _Body) -> TokitaiError:
    code, message = body.u32(), body.string()
    details = dict(body.list(lambda: (body.string(), body.string())))
    return (DefinitionError if code == DEFINITION_ERROR else TokitaiError)(code, message, details)


def _decode_hello(body: _Body) -> Hello:
    return Hello(
        body.u32(), body.u64(), body.string(), body.string(), body.string(), body.u64(), body.u64(), bool(body.u32() & 1)
    )


def _decode_definition(body: _Body) -> Definition:
    name = body.string()
    operands = dict(body.list(lambda: (body.string(), body.u8())))
    return Definition(name, operands, body.list(body.string))


def _decode_operand_form(body: _Body) -> OperandForm:
    return OperandForm(body.string(), body.u8(), body.list(body.string), body.list(body.dtype), body.string())


def _decode_param_form(body: _Body) -> ParamForm:
    name, is_int, has_default, default = body.string(), body.u8() == 1, body.u8() == 1, body.f64()
    return ParamForm(name, is_int, default if has_default else None)


def _decode_defined(body: _Body) -> Defined:
    identity, name = body.string(), body.string()
    operands = body.list(lambda: _decode_operand_form(body))
    return Defined(identity, name, operands, body.list(lambda: _decode_param_form(body)))


def _decode_results(body: _Body, calls: Sequence[Call], roles: Sequence[Mapping[str, int]]) -> List[Result]:
    nanoseconds, lowerings = body.u64(), body.list(body.string)
    if len(lowerings) != len(calls):
        raise ProtocolError(f"{len(lowerings)} lowerings for {len(calls)} calls")
    results = []
    for call, role, lowering in zip(calls, roles, lowerings):
        outputs = {}
        for name, operand in call.operands.items():
            if isinstance(operand, Tensor) and _role(role, name, operand) & WRITES:
                outputs[name] = Tensor(operand.dtype, operand.shape, bytes(body.take(operand.nbytes)))
        results.append(Result(outputs, lowering, nanoseconds))
    return results


def _doubles(body: _Body, count: int) -> array.array:
    values = array.array("d", bytes(body.take(8 * count)))
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _nothing(body: _Body) -> None:
    return None


# Transport


class _SocketTransport:
    """One end of a socket pair; the process has the other."""

    can_share_memory = True
    ends_at_once = True

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()

    def start(self, command: List[str]) -> subprocess.Popen:
        number = self._theirs.fileno()
        try:
            return subprocess.Popen(
                command + ["--fd", str(number)],
                pass_fds=(number,),
                start_new_session=True,  # Ctrl-C is for the caller to handle
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
        except BaseException:
            self._ours.close()
            raise
        finally:
            self._theirs.close()

    def send(self, data: Buffer, descriptor: Optional[int] = None) -> None:
        if descriptor is not None:
            sent = socket.send_fds(self._ours, [data], [descriptor])
            data = memoryview(data)[sent:]
        self._ours.sendall(data)

    def receive_into(self, view: memoryview) -> int:
        return self._ours.recv_into(view)

    def hang_up(self) -> None:
        try:
            self._ours.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other end is gone already
            pass

    def close(self) -> None:
        self._ours.close()


class _StdioTransport:
    """Standard input and output of the process, for systems where sockets cannot be inherited."""

    can_share_memory = False
    ends_at_once = False  # at the end of its input the process first answers what it has read

    def start(self, command: List[str]) -> subprocess.Popen:
        self._process = subprocess.Popen(
            command + ["--stdio"],
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the caller to handle
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        return self._process

    def send(self, data: Buffer, descriptor: Optional[int] = None) -> None:
        rest = memoryview(data)
        while len(rest):
            rest = rest[self._process.stdin.write(rest) :]

    def receive_into(self, view: memoryview) -> int:
        return self._process.stdout.readinto(view)

    def hang_up(self) -> None:
        try:
            self._process.stdin.close()
        except OSError:
            pass

    def close(self) -> None:
        self._process.stdout.close()


class _LastWords:
    """Reads the process's standard error and keeps the end of it."""

    def __init__(self, pipe: Any):
        self._kept = b""
        self._pipe = pipe
        self._thread = threading.Thread(target=self._drain, name="tokitai stderr", daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        with self._pipe:
            while chunk := os.read(self._pipe.fileno(), 1 << 12):
                self._kept = (self._kept + chunk)[-STDERR_KEPT:]

    def text(self, seconds: float = 1.0) -> str:
        self._thread.join(seconds)  # a grandchild may hold the pipe open
        return self._kept.decode(errors="replace")


class Pending:
    """A request in flight."""

    def __init__(self, client: Client, number: int, decode: Callable[[_Body], Any]):
        self.number = number
        self._client = client
        self._decode = decode
        self._future: Future = Future()

    def result(self, timeout: Optional[float] = None) -> Any:
        """Waits for the reply; raises TokitaiError or ServerDied, or concurrent.futures.TimeoutError after the timeout,
        and can then be called again."""
        return self._future.result(timeout)

    def done(self) -> bool:
        return self._future.done()

    def cancel(self) -> None:
        """Asks the process not to compute this request. result() then raises error 7, unless it is already done."""
        self._client.cancel(self)

    def _accept(self, kind: int, body: _Body) -> None:
        value = _decode_error(body) if kind == ERROR else self._decode(body)
        body.end()
        if kind == ERROR:
            self._future.set_exception(value)
        else:
            self._future.set_result(value)

    def _fail(self, error: Exception) -> None:
        if not self._future.done():
            self._future.set_exception(error)


# The client


def find_program() -> str:
    """Returns the path of the program `tokitai`: the value of the environment variable TOKITAI, else the one that was installed
    with this module, else the one on PATH."""
    program = os.environ.get("TOKITAI") or _packaged_program() or shutil.which("tokitai")
    if not program:
        raise FileNotFoundError("no program tokitai on PATH, and TOKITAI names none")
    return program


def _packaged_program() -> Optional[str]:
    """Returns the program that the wheel of this module has installed, or None."""
    from importlib import metadata  # which takes long to import

    try:
        installed = metadata.distribution("tokitai")
        if not os.path.samefile(str(installed.locate_file("tokitai_client.py")), __file__):
            return None
        for file in installed.files or ():
            path = str(file.locate())
            if file.name == "tokitai" and os.access(path, os.X_OK) and os.path.isfile(path):
                return os.path.realpath(path)
    except (metadata.PackageNotFoundError, OSError):
        pass
    return None


class Client:
    """Runs operations in a separate process. Any number of threads may use one client."""

    def __init__(
        self,
        program: Optional[str] = None,
        *,
        device: Optional[str] = None,
        max_frame: Optional[int] = None,
        memory_limit: Optional[int] = None,
        uses_stdio: bool = False,
        name: str = "tokitai_client.py",
        versions: Tuple[int, int] = (VERSION, VERSION),
    ):
        command = [program or find_program(), "process"]
        for flag, value in (("--device", device), ("--max-frame", max_frame), ("--memory-limit", memory_limit)):
            if value is not None:
                command += [flag, str(value)]
        self._sending = threading.Lock()  # held while a frame is sent, so that frames stay whole
        self._table = threading.Lock()  # guards the fields below
        self._number = 0
        self._pending: Dict[int, Pending] = {}
        self._death: Optional[Exception] = None
        self._definitions: Optional[Dict[str, Definition]] = None
        self._defined: Dict[str, Mapping[str, int]] = {}  # roles of operands by identity
        self._arenas = 0

        self._transport = _StdioTransport() if uses_stdio else _SocketTransport()
        self.process = self._transport.start(command)
        self._last_words = _LastWords(self.process.stderr)
        self._reader = threading.Thread(target=self._read, name="tokitai replies", daemon=True)
        self._reader.start()
        try:
            greeting = MAGIC + _u32(versions[0]) + _u32(versions[1]) + _string(name)
            self.hello: Hello = self.request(HELLO, [greeting], _decode_hello).result()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> Optional[int]:
        """Ends the process, even while a kernel runs, and returns its exit status."""
        self._transport.hang_up()
        if self._pending and not self._transport.ends_at_once:
            self.process.kill()
        try:
            self.process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        self._transport.close()
        return self.process.returncode

    # Calls

    def call(self, definition: str, /, params: Optional[Mapping[str, float]] = None, **operands: Operand) -> Result:
        """Runs one definition. Outputs that are Tensors are in the result, by name."""
        return self.calls([Call(definition, operands, params or {})])[0]

    def calls(self, calls: Sequence[Call]) -> List[Result]:
        """Runs several definitions in one request, in order."""
        return self.submit(calls).result()

    def submit(self, calls: Sequence[Call]) -> Pending:
        """Like calls, but returns at once. Requests run in the order in which they are submitted."""
        calls = list(calls)
        roles = [self._roles(call.definition) for call in calls]
        body: List[Buffer] = [_list(map(_encode_call, calls, roles))]
        for call, role in zip(calls, roles):
            body += _request_data(call, role)
        return self.request(CALL, body, lambda reply: _decode_results(reply, calls, roles))

    def cancel(self, pending: Pending) -> None:
        """Asks the process not to compute a request. This has no reply; the request itself is answered."""
        self._send(CANCEL, [_u64(pending.number)], self._next_number())

    # Definitions

    def define(self, text: Union[str, bytes]) -> Operation:
        """Makes a callable definition from its text. A mistake raises DefinitionError, with line and column."""
        return Operation(text, lambda: self)

    def _define(self, text: Union[str, bytes]) -> Defined:
        data = text.encode() if isinstance(text, str) else text
        form = self.request(DEFINE, [data], _decode_defined).result()
        with self._table:
            self._defined[form.identity] = {o.name: o.role for o in form.operands}
        return form

    @property
    def is_alive(self) -> bool:
        """Reports whether the process can take requests, as far as is known."""
        return self._death is None

    # Judges

    def judge(
        self,
        definition: str,
        /,
        params: Optional[Mapping[str, float]] = None,
        *,
        outputs: Mapping[str, Tensor],
        promise: str = "",
        profile: str = "",
        declare: str = "",
        waive: Sequence[str] = (),
        skips_bad_index: bool = False,
        **inputs: Tensor,
    ) -> Dict[str, Any]:
        """Asks whether outputs that somebody has computed are admissible for their inputs, and returns the report: a dict
        that follows evidence/schema.json, whose "verdict" is accepted, rejected or undecided. No kernel runs.

        An operand that is both read and written is among the inputs with its values before, and among the outputs with
        those after. promise is bits, ordered or stable, the default; profile, declare and waive are as on the command line
        of tokitai check. An output that is declared to be omitted is given as Tensor.empty."""
        call = self._question(definition, params, inputs, outputs, skips_bad_index)
        roles = self._roles(definition)
        body: List[Buffer] = [b"".join(map(_string, (promise, profile, declare))) + _list(map(_string, waive)) + _encode_call(call, roles)]
        body += _request_data(call, roles)
        for name, operand in call.operands.items():
            if _role(roles, name, operand) & WRITES:
                after = outputs[name]
                body.append(bytes(after.nbytes) if after.data is None else after.data)
        return self.request(JUDGE, body, lambda reply: json.loads(reply.rest())).result()

    def truth(
        self,
        definition: str,
        /,
        params: Optional[Mapping[str, float]] = None,
        *,
        skips_bad_index: bool = False,
        **operands: Tensor,
    ) -> Dict[str, Enclosure]:
        """Encloses the real-number results of a definition: returns the ends of each output's enclosures, by name, as
        arrays of float64. Between them lies the exact result; both are NaN where nothing is enclosed. Outputs are given as
        Tensor.empty, like those of call."""
        roles = self._roles(definition)
        call = self._question(definition, params, operands, None, skips_bad_index)

        def decode(reply: _Body) -> Dict[str, Enclosure]:
            ends = {}
            for name, operand in call.operands.items():
                if _role(roles, name, operand) & WRITES:
                    count = math.prod(operand.shape)
                    ends[name] = Enclosure(operand.shape, _doubles(reply, count), _doubles(reply, count))
            return ends

        return self.request(TRUTH, [_encode_call(call, roles), *_request_data(call, roles)], decode).result()

    def _question(
        self,
        definition: str,
        params: Optional[Mapping[str, float]],
        inputs: Mapping[str, Tensor],
        outputs: Optional[Mapping[str, Tensor]],
        skips_bad_index: bool,
    ) -> Call:
        """Returns a call whose operands are all in the frames. Outputs are None where the call has none yet."""
        for name, operand in (*inputs.items(), *(outputs or {}).items()):
            if not isinstance(operand, Tensor):
                raise TypeError(f"{definition}: {name} is {type(operand).__name__}, want a Tensor")
        operands: Dict[str, Operand] = dict(inputs)
        if outputs is not None:
            roles = self._roles(definition)
            for name, output in outputs.items():
                if roles and not roles.get(name, 0) & WRITES:
                    raise TypeError(f"{definition}: {name} is given as an output, want {', '.join(n for n, r in roles.items() if r & WRITES)}")
                operands.setdefault(name, Tensor.empty(output.dtype, output.shape))
                if (operands[name].dtype, operands[name].shape) != (output.dtype, output.shape):
                    raise ValueError(f"{definition}: {name} is {output.dtype} {list(output.shape)} after the call, and was {operands[name].dtype} {list(operands[name].shape)}")
            for name, role in roles.items():
                if role & WRITES and name not in outputs:
                    raise TypeError(f"{definition}: the output {name} is missing")
        return Call(definition, operands, params or {}, skips_bad_index=skips_bad_index)

    # Memory

    def new(self, nbytes: int) -> Memory:
        """Allocates memory of the process's device, all zero."""
        return Memory(self, self.request(NEW, [_u64(nbytes)], _Body.u64).result(), nbytes)

    def arena(self, nbytes: int) -> Arena:
        """Allocates memory shared by both processes, nbytes rounded up to whole pages."""
        if not self._transport.can_share_memory or not self.hello.has_arenas:
            raise NotImplementedError("this process shares no memory")
        with self._table:
            self._arenas += 1
            number = self._arenas
        return Arena(self, number, -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE)

    # Questions

    def list(self) -> List[Definition]:
        """Lists all definitions with their operands and parameters."""
        return self.request(LIST, [], lambda body: body.list(lambda: _decode_definition(body))).result()

    def stats(self) -> Stats:
        return self.request(STATS, [], lambda body: Stats(*(body.u64() for _ in Stats._fields))).result()

    # Messages

    def request(
        self, kind: int, body: Sequence[Buffer], decode: Callable[[_Body], Any], descriptor: Optional[int] = None
    ) -> Pending:
        """Sends any request; decode reads the body of a successful reply."""
        pending = Pending(self, self._next_number(), decode)
        with self._table:
            if self._death:
                raise self._death
            self._pending[pending.number] = pending
        self._send(kind, body, pending.number, descriptor)
        return pending

    def _roles(self, definition: str) -> Mapping[str, int]:
        if definition in self._defined:
            return self._defined[definition]
        if self._definitions is None:
            self._definitions = {d.name: d for d in self.list()}
        known = self._definitions.get(definition)
        return known.operands if known else {}

    def _next_number(self) -> int:
        with self._table:
            self._number += 1
            return self._number

    def _send(self, kind: int, body: Sequence[Buffer], number: int, descriptor: Optional[int] = None) -> None:
        parts = [memoryview(part).cast("B") for part in body]
        length = sum(map(len, parts))
        header = HEADER.pack(length, number, kind, 0 if descriptor is None else 1)
        with self._sending:
            try:
                if length < JOIN_BELOW:
                    self._transport.send(header + b"".join(parts), descriptor)
                    return
                self._transport.send(header, descriptor)
                for part in parts:
                    self._transport.send(part)
            except (OSError, ValueError):  # the other end is gone: the reader tells everyone who waits
                pass
            except BaseException:  # a frame cut short makes all that follows unreadable
                self.process.kill()
                raise

    def _read(self) -> None:
        try:
            while self._read_reply():
                pass
            self._die(self._autopsy())
        except Exception as error:  # whatever it is, who waits must hear of it
            self.process.kill()
            self._die(error)

    def _read_reply(self) -> bool:
        header = self._receive(HEADER.size)
        if header is None:
            return False
        length, number, kind, descriptors = HEADER.unpack(header)
        if kind not in (GOOD, ERROR) or descriptors != 0 or length > LONGEST_BODY:
            raise ProtocolError(f"a reply of kind {kind}, {length} bytes and {descriptors} descriptors")
        body = self._receive(length)
        if body is None:
            return False
        with self._table:
            pending = self._pending.pop(number, None)
        if pending is None:
            raise ProtocolError(f"a reply to request {number}, which is not in flight")
        try:
            pending._accept(kind, _Body(body))
        except Exception as error:
            pending._fail(error)
            raise
        return True

    def _receive(self, length: int) -> Optional[bytearray]:
        received = bytearray()
        while len(received) < length:
            step = bytearray(min(length - len(received), RECEIVE_STEP))
            view = memoryview(step)
            while len(view):
                try:
                    count = self._transport.receive_into(view)
                except (OSError, ValueError):
                    count = 0
                if not count:
                    return None
                view = view[count:]
            received = received + step if received else step
        return received

    def _autopsy(self) -> ServerDied:
        try:
            self.process.wait(EXIT_SECONDS)
            return ServerDied(self.process.returncode, self._last_words.text())
        except subprocess.TimeoutExpired:
            self.process.kill()
            return ServerDied(self.process.wait(), self._last_words.text(), "killed because it closed its end and stayed")

    def _die(self, error: Exception) -> None:
        with self._table:
            self._death = error
            waiting, self._pending = list(self._pending.values()), {}
        for pending in waiting:
            pending._fail(error)


class Operation:
    """A callable definition. Pass operands and parameters by name:

        result = rmsnorm(x=x, gamma=gamma, eps=1e-6)
        result["y"].values()

    Operands are Tensors, Placed tensors, or arrays that Tensor.from_buffer takes. Outputs that are not given are
    allocated and returned in the result; parameters with a default may be left out."""

    def __init__(self, text: Union[str, bytes], find_client: Callable[[], Client]):
        self._text = text
        self._find_client = find_client
        self._known_to = find_client()
        self.form: Defined = self._known_to._define(text)

    @property
    def identity(self) -> str:
        return self.form.identity

    @property
    def name(self) -> str:
        return self.form.name

    def __repr__(self) -> str:
        return f"<{self.name}({', '.join(self._names())}), {self.identity}>"

    def __call__(self, /, **arguments: Any) -> Result:
        """Computes the definition and returns its outputs."""
        call = self.prepare(**arguments)
        return self._client().calls([call])[0]

    def prepare(self, /, **arguments: Any) -> Call:
        """Returns a Call for Client.calls and Client.submit; dataclasses.replace changes its policy or lowering."""
        unknown = [name for name in arguments if name not in self._names()]
        if unknown:
            raise TypeError(f"{self.name}: {unknown[0]} is unknown, want {', '.join(self._names())}")
        params = {p.name: float(arguments[p.name]) for p in self.form.params if p.name in arguments}
        for p in self.form.params:
            if p.name not in params and p.default is None:
                raise TypeError(f"{self.name}: the parameter {p.name} is missing")
        operands: Dict[str, Operand] = {}
        for form in self.form.operands:
            if form.name in arguments:
                operands[form.name] = self._operand(form.name, arguments[form.name])
            elif form.role & READS:
                raise TypeError(f"{self.name}: the operand {form.name} is missing")
        for form in self.form.operands:
            if form.name not in operands:
                operands[form.name] = Tensor.empty(self._dtype_of(form, operands), self._shape_of(form, operands))
        self._client()
        return Call(self.identity, operands, params)

    def _client(self) -> Client:
        """Returns the client, after sending the definition to its process; a new client if the last process died."""
        client = self._find_client()
        if client is not self._known_to:
            client._define(self._text)
            self._known_to = client
        return client

    def _names(self) -> List[str]:
        return [form.name for form in self.form.operands] + [form.name for form in self.form.params]

    def _operand(self, name: str, value: Any) -> Operand:
        if isinstance(value, (Tensor, Placed)):
            return value
        try:
            return Tensor.from_buffer(value)
        except TypeError as error:
            raise TypeError(f"{self.name}: {name} is {type(value).__name__}, want a Tensor, or an array of f16, f32, i8, i32 or i64 ({error})") from error

    def _dtype_of(self, form: OperandForm, operands: Mapping[str, Operand]) -> str:
        """Returns the dtype of an output: that of the operand it is like, else the only one, else that of the first operand
        of real numbers."""
        name, rule = form.name, form
        forms = {f.name: f for f in self.form.operands}
        while rule.like:
            if rule.like in operands:
                return operands[rule.like].dtype
            rule = forms[rule.like]
        if len(rule.dtypes) == 1:
            return rule.dtypes[0]
        for operand in operands.values():
            if operand.dtype in rule.dtypes:
                return operand.dtype
        raise TypeError(f"{self.name}: no input determines the dtype of {name}, want {name}=Tensor.empty(dtype, shape)")

    def _shape_of(self, form: OperandForm, operands: Mapping[str, Operand]) -> Tuple[int, ...]:
        """Returns the shape of an output: that of an input with the same sizes, or with one more; else from the sizes, the
        first of which stands for all leading ones."""
        inputs = [(f.sizes, operands[f.name].shape) for f in self.form.operands if f.role & READS]
        for sizes, shape in inputs:
            if sizes == form.sizes:
                return shape
        for sizes, shape in inputs:
            if len(sizes) > 1 and sizes[:-1] == form.sizes:
                return shape[:-1]
        known: Dict[str, int] = {}
        for sizes, shape in inputs:
            if sizes:
                leading = len(shape) - len(sizes) + 1
                known.update(zip(sizes, (math.prod(shape[: max(0, leading)]), *shape[max(0, leading) :])))
        missing = [letter for letter in form.sizes if letter not in known]
        if missing:
            raise TypeError(f"{self.name}: no input determines the size {missing[0]} of {form.name}, want {form.name}=Tensor.empty(dtype, shape)")
        return tuple(known[letter] for letter in form.sizes)


class Memory:
    """Memory of the process's device, valid until free() or the end of the process. Tensors stay in it between calls."""

    place = IN_HANDLE

    def __init__(self, client: Client, handle: int, nbytes: int):
        self.handle = handle
        self.nbytes = nbytes
        self._client = client

    def reference(self) -> bytes:
        return _u64(self.handle)

    def tensor(self, dtype: str, shape: Sequence[int], offset: int = 0, row_stride: Optional[int] = None) -> Placed:
        """Returns a tensor in this memory at offset, in bytes; row_stride is in elements."""
        return _placed(self, dtype, shape, offset, row_stride)

    def write(self, data: Buffer, offset: int = 0) -> None:
        data = memoryview(data).cast("B")
        head = _u64(self.handle, offset, len(data)) + _u8(0)
        self._client.request(WRITE, [head, data], _nothing).result()

    def read(self, nbytes: Optional[int] = None, offset: int = 0) -> bytes:
        head = _u64(self.handle, offset, self.nbytes - offset if nbytes is None else nbytes) + _u8(0)
        return self._client.request(READ, [head], _Body.rest).result()

    def write_from(self, arena: Arena, nbytes: int, offset: int = 0, arena_offset: int = 0) -> None:
        """Copies bytes from an arena to this memory, without sending them."""
        self._copy(WRITE, arena, nbytes, offset, arena_offset)

    def read_into(self, arena: Arena, nbytes: int, offset: int = 0, arena_offset: int = 0) -> None:
        """Copies bytes from this memory to an arena, without sending them."""
        self._copy(READ, arena, nbytes, offset, arena_offset)

    def free(self) -> None:
        self._client.request(FREE, [_u64(self.handle)], _nothing).result()

    def _copy(self, kind: int, arena: Arena, nbytes: int, offset: int, arena_offset: int) -> None:
        body = _u64(self.handle, offset, nbytes) + _u8(1) + arena.reference() + _u64(arena_offset)
        self._client.request(kind, [body], _nothing).result()


def _sealed_memory(nbytes: int) -> int:
    """Returns a descriptor of allocated memory whose size cannot change."""
    descriptor = os.memfd_create("tokitai", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.posix_fallocate(descriptor, 0, nbytes)
        add_seals = getattr(fcntl, "F_ADD_SEALS", 1033)
        seal, shrink, grow = 1, 2, 4
        fcntl.fcntl(descriptor, add_seals, seal | shrink | grow)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


class Arena:
    """Memory shared by both processes. Do not change the operands of a call until it is answered."""

    place = IN_ARENA

    def __init__(self, client: Client, number: int, nbytes: int):
        self.number = number
        self.nbytes = nbytes
        self._client = client
        descriptor = _sealed_memory(nbytes)
        try:
            body = _u32(number) + _u64(nbytes)
            client.request(ARENA, [body], _nothing, descriptor).result()
            self.bytes = mmap.mmap(descriptor, nbytes)
        finally:
            os.close(descriptor)

    def reference(self) -> bytes:
        return _u32(self.number)

    def tensor(self, dtype: str, shape: Sequence[int], offset: int = 0, row_stride: Optional[int] = None) -> Placed:
        """Returns a tensor in the arena at offset, in bytes; row_stride is in elements."""
        return _placed(self, dtype, shape, offset, row_stride)

    def write(self, data: Buffer, offset: int = 0) -> None:
        view = memoryview(data).cast("B")
        self.bytes[offset : offset + len(view)] = view

    def read(self, nbytes: Optional[int] = None, offset: int = 0) -> bytes:
        return self.bytes[offset : self.nbytes if nbytes is None else offset + nbytes]

    def drop(self) -> None:
        """Frees the arena in both processes."""
        self._client.request(DROP, [_u32(self.number)], _nothing).result()
        self.bytes.close()


def _demo() -> None:
    row = [1.0, 2.0, 3.0, 4.0]
    with Client() as client:
        result = client.call("softmax.forward", x=Tensor.of("f32", row, (1, 4)), y=Tensor.empty("f32", (1, 4)))
        print(f"{client.hello.build} on {client.hello.description}, {result.lowering}")
    exps = [math.exp(x - max(row)) for x in row]
    for x, got, want in zip(row, result["y"].values(), (e / math.fsum(exps) for e in exps)):
        print(f"softmax({x}) = {got:.9f}   check {want:.9f}   difference {abs(got - want):.1e}")


if __name__ == "__main__":
    _demo()
