"""Operands of a call of somebody's callable, in memory that shows what the callable does to it.

Every operand is a view of a larger block: guards stand before, after and, in some layouts, between its rows. Guards
are NaN in most calls, so that what is read from them shows in the result. After the call the blocks are compared
with what they were: a callable may write its outputs and nothing else. None of this is proof against a callable
that means to deceive: it runs in the same process."""

from __future__ import annotations

import math
import os
import random
import struct
import sys
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

from . import arrays
from .arrays import KINDS, LISTS, NAMES
from .calling import Wrong
from tokitai_client import DTYPES, Tensor

ON_THE_CPU = "without device= the callable gets arrays on the CPU"

GUARD_ELEMENTS = 64  # before the first and after the last element, at least
ALIGNMENT = 64  # bytes; libraries allocate at multiples of it
WIDEST_GAP = 24  # elements between rows

PLAIN, OFFSET, STRIDED = "plain", "offset", "strided"
VARIED = "varied"
LAYOUTS = (VARIED, PLAIN, OFFSET, STRIDED)

# Patterns of guards and poison: NaN with different payloads, then numbers that show in a sum.
_NANS = {"f16": (0x7E00, 0xFF55), "bf16": (0x7FC0, 0xFFD5), "f32": (0x7FC00000, 0xFFD55555), "e4m3": (0x7F, 0xFF), "e5m2": (0x7E, 0xFF)}
_LARGE = {"f16": 0xF9C4, "bf16": 0xF12A, "f32": 0xF12A1234, "e4m3": 0xF2, "e5m2": 0xF2}
_INTEGERS = (0x7FFFFFF0, 0x80000001, 0x5A5A5A5A)


def pattern(dtype: str, choice: random.Random) -> bytes:
    """Returns the bytes of one element of a guard: NaN three times out of four; an index far out of range."""
    if dtype in ("i8", "i64"):
        return choice.randbytes(DTYPES[dtype].size)
    if dtype == "i32":
        bits = choice.choice(_INTEGERS)
    else:
        bits = choice.choice(_NANS[dtype]) if choice.random() < 0.75 else _LARGE[dtype]
    return bits.to_bytes(DTYPES[dtype].size, "little")


class Layout(NamedTuple):
    """Where the rows of an operand are, in elements of its block."""

    first: int
    stride: int  # from one row to the next
    rows: int
    columns: int
    total: int  # elements of the block
    repeated: bool = False  # the first dimension has stride 0: all of its matrices are the same memory

    def strides(self, shape: Sequence[int]) -> Tuple[int, ...]:
        """Returns the stride of each dimension."""
        if not shape:
            return ()
        strides, step = [1], self.stride
        for size in reversed(shape[1:-1] if len(shape) > 1 else ()):
            strides.append(step)
            step *= size
        if len(shape) > 1:
            strides.append(0 if self.repeated else step)
        return tuple(reversed(strides))


def is_repeated(name: str, tensor: Tensor) -> bool:
    """Reports whether an input is given as one matrix that is repeated: all matrices along its first dimension are the same."""
    if name not in (VARIED, STRIDED) or tensor.data is None or len(tensor.shape) < 3 or tensor.shape[0] < 2:
        return False
    data = memoryview(tensor.data).cast("B")
    size = len(data) // tensor.shape[0]
    return all(data[at : at + size] == data[:size] for at in range(size, len(data), size))


def layout(name: str, shape: Sequence[int], size: int, choice: random.Random, repeated: bool = False) -> Layout:
    """Draws a layout: plain begins at a multiple of 64 bytes, offset anywhere, strided has gaps between rows as well."""
    if name == VARIED:
        name = choice.choice((PLAIN, PLAIN, OFFSET, STRIDED))
    columns = shape[-1] if shape else 1
    rows = math.prod(shape[1:-1] if repeated else shape[:-1]) if shape else 1
    first = ALIGNMENT // size * -(-GUARD_ELEMENTS * size // ALIGNMENT)
    if name != PLAIN:
        first += choice.randrange(1, ALIGNMENT // size)
    stride = columns + (choice.randrange(1, WIDEST_GAP) if name == STRIDED and rows > 1 else 0)
    return Layout(first, stride, rows, columns, first + stride * rows + GUARD_ELEMENTS, repeated)


class Block:
    """An operand with its surroundings. array is what the callable gets."""

    def __init__(self, name: str, tensor: Tensor, place: Layout, fill: bytes, make: Callable[[bytearray, Layout], Tuple[Any, Callable[[], bytes]]]):
        self.name = name
        self.tensor = tensor
        self.place = place
        size = len(fill)
        before = bytearray(fill * place.total)
        if tensor.data is not None:
            row = place.columns * size
            data = memoryview(tensor.data).cast("B")
            for r in range(place.rows):
                at = (place.first + r * place.stride) * size
                before[at : at + row] = data[r * row : (r + 1) * row]
        self.before = bytes(before)
        self.array, self._read = make(before, place)

    def inspect(self, may_write: bool, who: str) -> None:
        """Compares the block with what it was. Raises Wrong if something changed that must not."""
        after = self._read()
        if after == self.before:
            return
        size, place = DTYPES[self.tensor.dtype].size, self.place
        at = next(i for i, (a, b) in enumerate(zip(after, self.before)) if a != b) if not may_write else self._outside(after)
        if at is None:
            return
        element = at // size - place.first
        row, column = divmod(element, place.stride)
        inside = 0 <= row < place.rows and column < place.columns
        if inside:
            index = ", ".join(map(str, _index(element // place.stride * place.columns + column, self.tensor.shape)))
            raise Wrong(f"{who} {_changed(self.tensor)} {self.name} at [{index}]", self.name)
        if element < 0:
            where = f"{-element} elements before its beginning"
        elif row >= place.rows or (row == place.rows - 1 and column >= place.columns):
            where = f"{element - (place.rows - 1) * place.stride - place.columns + 1} elements after its end"
        else:
            where = f"between its rows {row} and {row + 1}"
        raise Wrong(f"{who} wrote outside {self.name}, {where}", self.name)

    def _outside(self, after: bytes) -> Optional[int]:
        """Returns the first changed byte outside the rows, or None."""
        size, place = DTYPES[self.tensor.dtype].size, self.place
        expected = bytearray(self.before)
        for r in range(place.rows):
            at = (place.first + r * place.stride) * size
            expected[at : at + place.columns * size] = after[at : at + place.columns * size]
        if after == expected:
            return None
        return next(i for i, (a, b) in enumerate(zip(after, expected)) if a != b)


def _changed(tensor: Tensor) -> str:
    return "changed its input" if tensor.data is not None else "refused the call, but wrote"


def _index(position: int, shape: Sequence[int]) -> List[int]:
    index = []
    for size in reversed(shape):
        position, i = divmod(position, size)
        index.append(i)
    return index[::-1]


class Held:
    """An operand that has no block: nested lists, and arrays of JAX, which nobody can change."""

    def __init__(self, name: str, tensor: Tensor, array: Any, read: Optional[Callable[[Any], bytes]]):
        self.name, self.tensor, self.array, self._read = name, tensor, array, read
        self._before = read(array) if read else b""  # the payload of a NaN may not survive the way to a Python number

    def inspect(self, may_write: bool, who: str) -> None:
        if may_write or self._read is None:
            return
        try:
            same = self._read(self.array) == self._before
        except (arrays.ArrayError, TypeError, ValueError, struct.error):
            same = False
        if not same:
            raise Wrong(f"{who} {_changed(self.tensor)} {self.name}", self.name)


class Library:
    """The arrays that a callable takes and gives, of one library on one device."""

    name = ""
    device = "cpu"
    can_change_later = True  # whether somebody may write to a result after it was returned

    def operand(self, name: str, tensor: Tensor, layout_name: str, choice: random.Random, noise: random.Random, may_repeat: bool = False) -> Any:
        """Returns an operand with a tensor's values, or poisoned if it has none. choice decides the layout, noise the guards;
        may_repeat says that equal matrices may be the same memory."""
        fill = pattern(tensor.dtype, noise)
        place = layout(layout_name, tensor.shape, len(fill), choice, may_repeat and is_repeated(layout_name, tensor))
        return Block(name, tensor, place, fill, lambda data, where: self.make(data, where, tensor))

    def make(self, data: bytearray, place: Layout, tensor: Tensor) -> Tuple[Any, Callable[[], bytes]]:
        raise NotImplementedError

    def is_array(self, value: Any) -> bool:
        return arrays.library_of(value) == self.name

    def wanted(self, name: str, tensor: Tensor) -> str:
        return f"{name}: {self.name} {NAMES[tensor.dtype]} {list(tensor.shape)}{'' if self.device == 'cpu' else ' on ' + self.device}"

    def data(self, value: Any, name: str, tensor: Tensor, who: str) -> bytes:
        """Copies an output that a callable gave. Raises Wrong if it is not what the definition has."""
        self.check_class(value, who, name)
        if not self.is_array(value):
            raise Wrong(f"{who} gave {'None' if value is None else 'a ' + type(value).__name__}, want {self.wanted(name, tensor)}", name)
        got_dtype, got_device = self.described(value)
        if tuple(value.shape) != tensor.shape:
            raise Wrong(f"{who} gave {name} with shape {list(value.shape)}, want {list(tensor.shape)}", name)
        dtype = arrays.dtype_named(got_dtype)
        if dtype != tensor.dtype:
            raise Wrong(f"{who} gave {name} as {got_dtype}, want {NAMES[tensor.dtype]}", name, dtype=dtype or "")
        if got_device != self.device:
            raise Wrong(f"{who} gave {name} on {got_device}, want {self.device}", name)
        return bytes(arrays.tensor_of(value, name, is_wide=tensor.dtype == "i64")[0].data)

    def described(self, value: Any) -> Tuple[str, str]:
        return value.dtype.name, self.device

    def check_class(self, value: Any, who: str, name: str) -> None:
        """Raises Wrong for an array whose elements may be computed when somebody reads them."""

    def shares(self, value: Any, operand: Any) -> bool:
        """Reports whether writing to a value would change an operand."""
        return value is operand

    def around(self) -> Any:
        """Returns a context for the call, or None."""
        return None

    def synchronise(self) -> None:
        """Waits until the device has done all that it was given."""

    def poison(self, nbytes: int) -> None:
        """Leaves NaN in memory that the callable's next allocation is likely to get."""


class Torch(Library):
    name = "torch"

    def __init__(self, device: str = "cpu"):
        self.torch = arrays.load("torch")
        where = arrays.torch_device(device)
        if where.type == "cuda":
            if not self.torch.cuda.is_available():
                raise Wrong(f"device={device!r}: torch {self.torch.__version__} finds no GPU, though its driver is there: torch.cuda.init() says why; {ON_THE_CPU}")
            if (where.index or 0) >= self.torch.cuda.device_count():
                raise Wrong(f"device={device!r}: torch finds {self.torch.cuda.device_count()} GPUs, numbered from 0")
            where = self.torch.device("cuda", where.index or 0)
            self.torch.cuda.set_device(where)
        self.where = where
        self.device = str(where)
        self.calls = 0
        self._side = None

    def make(self, data: bytearray, place: Layout, tensor: Tensor) -> Tuple[Any, Callable[[], bytes]]:
        torch = self.torch
        block = torch.empty(len(data), dtype=torch.uint8, device=self.where)
        block.copy_(torch.frombuffer(data, dtype=torch.uint8))
        view = torch.as_strided(block.view(arrays.torch_dtype(tensor.dtype)), tensor.shape, place.strides(tensor.shape), place.first)
        return view, lambda: arrays.torch_bytes(block)

    def described(self, value: Any) -> Tuple[str, str]:
        return str(value.dtype).replace("torch.", "", 1), str(value.device)

    def check_class(self, value: Any, who: str, name: str) -> None:
        torch = self.torch
        if isinstance(value, torch.Tensor) and type(value) not in (torch.Tensor, torch.nn.Parameter):
            raise Wrong(f"{who} gave a {type(value).__name__}, a subclass of torch.Tensor, whose elements may be computed later: want a torch.Tensor", name)

    def shares(self, value: Any, operand: Any) -> bool:
        if not isinstance(value, self.torch.Tensor) or value.device != operand.device:
            return False
        return value.untyped_storage().data_ptr() == operand.untyped_storage().data_ptr()

    def around(self) -> Any:
        """Every other call runs on a stream that is not the default one."""
        self.calls += 1
        if self.where.type != "cuda" or self.calls % 2:
            return None
        if self._side is None:
            self._side = self.torch.cuda.Stream(self.where)
        self._side.wait_stream(self.torch.cuda.current_stream(self.where))
        return self.torch.cuda.stream(self._side)

    def synchronise(self) -> None:
        if self.where.type == "cuda":
            self.torch.cuda.synchronize(self.where)

    def poison(self, nbytes: int) -> None:
        self.torch.full((nbytes,), 0xFF, dtype=self.torch.uint8, device=self.where)


class NumPy(Library):
    name = "numpy"

    def __init__(self, device: str = "cpu"):
        if device != "cpu":
            raise Wrong(_not_on(self.name, device))
        self.numpy = arrays.load("numpy")

    def make(self, data: bytearray, place: Layout, tensor: Tensor) -> Tuple[Any, Callable[[], bytes]]:
        numpy = self.numpy
        spare = numpy.empty(len(data) + ALIGNMENT, numpy.uint8)
        skip = -spare.__array_interface__["data"][0] % ALIGNMENT
        block = spare[skip : skip + len(data)]
        block[:] = numpy.frombuffer(data, numpy.uint8)
        size = DTYPES[tensor.dtype].size
        strides = [s * size for s in place.strides(tensor.shape)]
        view = numpy.ndarray(tensor.shape, arrays._numpy_dtype(tensor.dtype), block, place.first * size, strides)
        return view, block.tobytes

    def described(self, value: Any) -> Tuple[str, str]:
        return arrays.numpy_name(value.dtype), self.device

    def is_array(self, value: Any) -> bool:
        return isinstance(value, (self.numpy.ndarray, self.numpy.generic))

    def check_class(self, value: Any, who: str, name: str) -> None:
        if isinstance(value, self.numpy.ndarray) and type(value) is not self.numpy.ndarray:
            raise Wrong(f"{who} gave a {type(value).__name__}, a subclass of numpy.ndarray, whose elements may be computed later: want a numpy.ndarray", name)

    def shares(self, value: Any, operand: Any) -> bool:
        return isinstance(value, self.numpy.ndarray) and bool(self.numpy.may_share_memory(value, operand))

    def data(self, value: Any, name: str, tensor: Tensor, who: str) -> bytes:
        return super().data(self.numpy.asarray(value) if isinstance(value, self.numpy.generic) else value, name, tensor, who)

    def poison(self, nbytes: int) -> None:
        self.numpy.full(nbytes, 0xFF, self.numpy.uint8)


class CuPy(Library):
    name = "cupy"

    def __init__(self, device: str = "cuda:0"):
        self.cupy = arrays.load("cupy")
        kind, _, number = device.partition(":")
        if kind != "cuda":
            raise Wrong(f"arrays='cupy' are on a GPU, and device is {device}")
        count = self.cupy.cuda.runtime.getDeviceCount()
        if int(number or 0) >= count:
            raise Wrong(f"device {device}: cupy finds {count} CUDA devices")
        self.device = f"cuda:{number or 0}"
        self.cupy.cuda.Device(int(number or 0)).use()

    def make(self, data: bytearray, place: Layout, tensor: Tensor) -> Tuple[Any, Callable[[], bytes]]:
        cupy, numpy = self.cupy, arrays.load("numpy")
        block = cupy.asarray(numpy.frombuffer(data, numpy.uint8))
        size = DTYPES[tensor.dtype].size
        strides = [s * size for s in place.strides(tensor.shape)]
        view = cupy.ndarray(tensor.shape, arrays._numpy_dtype(tensor.dtype), block.data + place.first * size, strides)
        return view, lambda: cupy.asnumpy(block).tobytes()

    def described(self, value: Any) -> Tuple[str, str]:
        return value.dtype.name, f"cuda:{value.device.id}"

    def shares(self, value: Any, operand: Any) -> bool:
        return isinstance(value, self.cupy.ndarray) and bool(self.cupy.may_share_memory(value, operand))

    def synchronise(self) -> None:
        self.cupy.cuda.Device().synchronize()


class Jax(Library):
    name = "jax"
    can_change_later = False

    def __init__(self, device: str = ""):
        self.jax = arrays.load("jax")
        kind, _, number = device.partition(":")
        try:
            devices = self.jax.devices(kind or None)
            self.where = devices[int(number or 0)]
        except (RuntimeError, IndexError) as error:
            raise Wrong(f"device {device}: jax has no such device ({error})") from error
        self.device = f"{self.where.platform}:{self.where.id}" if self.where.platform != "cpu" else "cpu"

    def operand(self, name: str, tensor: Tensor, layout_name: str, choice: random.Random, noise: random.Random, may_repeat: bool = False) -> Any:
        if tensor.data is None:
            raise Wrong(f"arrays of jax cannot be written: want a callable that returns {name}")
        return Held(name, tensor, arrays.Kind("jax", self.where).array(tensor), None)

    def shares(self, value: Any, operand: Any) -> bool:
        return False  # nobody can write to either

    def described(self, value: Any) -> Tuple[str, str]:
        where = next(iter(value.devices()))
        return value.dtype.name, "cpu" if where.platform == "cpu" else f"{where.platform}:{where.id}"


class Lists(Library):
    """Nested lists of numbers, for callables in plain Python. Results are rounded to the output's format."""

    name = LISTS
    can_change_later = False

    def __init__(self, device: str = "cpu"):
        if device != "cpu":
            raise Wrong(_not_on(self.name, device))

    def operand(self, name: str, tensor: Tensor, layout_name: str, choice: random.Random, noise: random.Random, may_repeat: bool = False) -> Any:
        if tensor.data is None:
            values = [-1 if tensor.dtype in ("i8", "i32", "i64") else math.nan] * math.prod(tensor.shape)
            array = arrays.nested(values, tensor.shape)
        else:
            array = arrays.Kind(LISTS).array(tensor)
        return Held(name, tensor, array, lambda a: self._packed(a, tensor))

    def is_array(self, value: Any) -> bool:
        return isinstance(value, (list, float, int))

    def check_class(self, value: Any, who: str, name: str) -> None:
        if not isinstance(value, (list, tuple)):
            return
        if type(value) not in (list, tuple):
            raise Wrong(f"{who} gave a {type(value).__name__}, a subclass of {'list' if isinstance(value, list) else 'tuple'}, whose elements may be computed later: want a list", name)
        for item in value:
            self.check_class(item, who, name)

    def wanted(self, name: str, tensor: Tensor) -> str:
        return f"{name}: nested lists of numbers of shape {list(tensor.shape)}" if tensor.shape else f"{name}: a number"

    def data(self, value: Any, name: str, tensor: Tensor, who: str) -> bytes:
        self.check_class(value, who, name)
        if not isinstance(value, (list, tuple, float, int)):
            raise Wrong(f"{who} gave {'None' if value is None else 'a ' + type(value).__name__}, want {self.wanted(name, tensor)}", name)
        try:
            shape = arrays.shape_of_lists(value)
        except arrays.ArrayError as error:
            raise Wrong(f"{who} gave {name} as lists that have no shape: {error}", name) from error
        if shape != tensor.shape:
            raise Wrong(f"{who} gave {name} with shape {list(shape)}, want {list(tensor.shape)}", name)
        try:
            return self._packed(value, tensor)
        except (TypeError, ValueError, OverflowError, struct.error) as error:
            raise Wrong(f"{who} gave {name} with an element that is no number of {tensor.dtype}: {error}", name) from error

    @staticmethod
    def _packed(value: Any, tensor: Tensor) -> bytes:
        return DTYPES[tensor.dtype].pack(arrays.flat_lists(value))


_LIBRARIES = {"torch": Torch, "numpy": NumPy, "cupy": CuPy, "jax": Jax, LISTS: Lists}


def check_device(name: str, device: str) -> None:
    """Raises Wrong if a library cannot have arrays on a device, as far as that shows without starting a driver."""
    if not device or device == "cpu":
        return
    if name in ("numpy", LISTS):
        raise Wrong(_not_on(name, device))
    if name == "torch" and arrays.torch_device(device).type == "cuda":
        missing = missing_driver(arrays.load("torch"), os.path.exists)
        if missing:
            raise Wrong(f"device={device!r}: {missing}; {ON_THE_CPU}")


def missing_driver(torch: Any, exists: Callable[[str], bool]) -> str:
    """Says what torch lacks to use a GPU on this machine; "" if it may have everything."""
    if not torch.version.cuda and not torch.version.hip:
        return f"torch {torch.__version__} is built without CUDA: install a build of torch that has it"
    drivers = ("/dev/kfd",) if torch.version.hip else ("/dev/nvidiactl", "/dev/dxg")  # the last is that of Windows, for its Linux
    if sys.platform == "linux" and not any(map(exists, drivers)):
        return f"this machine has no driver of a GPU ({drivers[0]} does not exist): run the check on one that has, or let the container have its GPU"
    return ""


def _not_on(name: str, device: str) -> str:
    what = "nested lists" if name == LISTS else f"arrays of {name}"
    return f"device={device!r}: the callable gets {what} on the CPU alone: leave device= out, or say with arrays= that it takes those of torch, cupy or jax"


def library(name: str, device: Optional[str]) -> Library:
    """Opens a library for a callable."""
    if name not in KINDS:
        raise ValueError(f"arrays {name!r}, want one of {', '.join(KINDS)}")
    return _LIBRARIES[name](device) if device else _LIBRARIES[name]()
