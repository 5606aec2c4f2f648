"""Arrays of PyTorch, NumPy, CuPy and JAX as tensors, and back. No library is imported before an array of it is met or
asked for.

A Kind says what an array was: its library, and the device it was on. Kind.array makes the same kind of array from a
tensor. bf16 and FP8 have no format of NumPy's own: NumPy, CuPy and JAX take those of ml_dtypes."""

from __future__ import annotations

import ctypes
import importlib
import math
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from tokitai_client import DTYPES, Placed, Tensor

from .calling import Wrong

# Names of the formats in torch; those of NumPy and ml_dtypes are the same but for the case of no format here.
NAMES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "i32": "int32", "i8": "int8", "i64": "int64", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
_DTYPES = {name: dtype for dtype, name in NAMES.items()}

LIBRARIES = ("torch", "jax", "cupy", "numpy")  # in the order in which a callable's library is looked for
LISTS = "list"  # nested lists of numbers, for callables that use no library
KINDS = LIBRARIES + (LISTS,)


class ArrayError(TypeError):
    """A value that is no array of a known format."""


def library_of(value: Any) -> Optional[str]:
    """Returns the library that an array belongs to, or None."""
    for name in LIBRARIES:
        module = sys.modules.get(name)
        if module is None:
            continue
        array = {"torch": "Tensor", "jax": "Array"}.get(name, "ndarray")
        if isinstance(value, getattr(module, array, ())):
            return name
    return None


def load(library: str) -> Any:
    """Imports a library. Raises ImportError with what to do about it."""
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise ImportError(f"arrays={library!r} needs the library {library}, which cannot be imported: {error}") from error


@dataclass(frozen=True)
class Kind:
    """What an array is: its library, or None for a Tensor, and its device, or None for the library's own choice."""

    library: Optional[str]
    device: Any = None

    def array(self, tensor: Tensor) -> Any:
        """Returns the tensor as an array of this kind, with memory of its own."""
        if self.library is None:
            return tensor
        return _MAKERS[self.library](tensor, self.device)


PLAIN = Kind(None)


def tensor_of(value: Any, name: str = "an operand", is_wide: bool = False) -> Tuple[Tensor, Kind]:
    """Copies an array to a Tensor. An array of int64 whose values fit becomes i32, since that is what libraries make indices,
    unless the operand is i64."""
    if isinstance(value, Tensor):
        return value, PLAIN
    library = library_of(value)
    if library == "torch":
        return _from_torch(value, name, is_wide)
    if library == "cupy":
        return _from_numpy(sys.modules["cupy"].asnumpy(value), name, is_wide), Kind("cupy", value.device.id)
    if library == "jax":
        return _from_numpy(load("numpy").asarray(value), name, is_wide), Kind("jax", next(iter(value.devices())))
    if library == "numpy":
        return _from_numpy(value, name, is_wide), Kind("numpy")
    if hasattr(value, "__dlpack__"):
        return _from_dlpack(value, name)
    try:
        return Tensor.from_buffer(value), PLAIN
    except TypeError as error:
        raise ArrayError(f"{name} is {_described(value)}, want a Tensor, or an array of torch, numpy, cupy or jax ({error})") from error


def tensors_of(operands: Mapping[str, Any], form: Any = None) -> Tuple[dict, Kind]:
    """Converts operands by name, for the definition that takes them if it is known. Tensors in other memory stay as they are. The kind is that of the first array."""
    wide = {o.name for o in form.operands if "i64" in _formats(form, o)} if form else ()
    converted, kind = {}, PLAIN
    for name, value in operands.items():
        if isinstance(value, Placed):
            converted[name] = value
            continue
        converted[name], own = tensor_of(value, name, name in wide)
        if kind is PLAIN:
            kind = own
    return converted, kind


def _formats(form: Any, operand: Any) -> list:
    """Returns the formats that an operand may have."""
    like = next((o for o in form.operands if o.name == operand.like), None)
    return operand.dtypes + (like.dtypes if like else [])


def _described(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def dtype_named(name: str) -> Optional[str]:
    """Returns the dtype of a format as torch and NumPy name it, or None."""
    return _DTYPES.get(name)


def _refused(name: str, got: str) -> ArrayError:
    return ArrayError(f"{name} has dtype {got}, want one of {', '.join(_DTYPES)}")


def _narrowed(name: str, array: Any) -> Any:
    """Returns an array of int64 as one of int32."""
    if array.size and not (-(2**31) <= int(array.min()) and int(array.max()) < 2**31):
        raise ArrayError(f"{name} has int64 values that no int32 can hold")
    return array.astype("int32")


@lru_cache(maxsize=None)
def numpy_name(dtype: Any) -> str:
    """Returns the name of a dtype of NumPy, which takes NumPy long to find."""
    return dtype.name


def _from_numpy(array: Any, name: str, is_wide: bool = False) -> Tensor:
    if numpy_name(array.dtype) == "int64" and not is_wide:
        array = _narrowed(name, array)
    dtype = _DTYPES.get(numpy_name(array.dtype))
    if dtype is None:
        raise _refused(name, array.dtype.name)
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    return Tensor(dtype, array.shape, array.tobytes())


def load_small_formats() -> None:
    """Imports the formats that NumPy has not, if they are installed."""
    try:
        importlib.import_module("ml_dtypes")
    except ImportError:
        pass


@lru_cache(maxsize=None)
def _numpy_dtype(dtype: str) -> Any:
    numpy = load("numpy")
    if dtype in ("bf16", "e4m3", "e5m2"):
        try:
            return numpy.dtype(getattr(importlib.import_module("ml_dtypes"), NAMES[dtype]))
        except ImportError as error:
            raise ImportError(f"{dtype} has no format in NumPy: install ml_dtypes, or use torch") from error
    return numpy.dtype(NAMES[dtype])


def _to_numpy(tensor: Tensor, _: Any = None) -> Any:
    return load("numpy").frombuffer(bytearray(tensor.data), _numpy_dtype(tensor.dtype)).reshape(tensor.shape)


def _to_cupy(tensor: Tensor, device: Any) -> Any:
    cupy = load("cupy")
    with cupy.cuda.Device(device):
        return cupy.asarray(_to_numpy(tensor))


def _to_jax(tensor: Tensor, device: Any) -> Any:
    return load("jax").device_put(_to_numpy(tensor), device)


def torch_device(name: str) -> Any:
    """Returns a device of torch, which need not exist. Raises Wrong if torch has none of this name."""
    try:
        return load("torch").device(name)
    except RuntimeError as error:
        raise Wrong(f"device {name!r}: torch has no such device, want cpu, cuda or cuda:1") from error


def torch_dtype(dtype: str) -> Any:
    return getattr(load("torch"), NAMES[dtype])


def _from_torch(value: Any, name: str, is_wide: bool = False) -> Tuple[Tensor, Kind]:
    torch = sys.modules["torch"]
    kind = Kind("torch", value.device)
    if value.layout != torch.strided or value.is_meta:
        raise ArrayError(f"{name} is a torch tensor of layout {value.layout} on {value.device}, want a dense one with data")
    if value.dtype == torch.int64 and not is_wide:
        if value.numel() and not (-(2**31) <= int(value.min()) and int(value.max()) < 2**31):
            raise ArrayError(f"{name} has int64 values that no int32 can hold")
        value = value.to(torch.int32)
    dtype = _DTYPES.get(str(value.dtype).replace("torch.", "", 1))
    if dtype is None:
        raise _refused(name, str(value.dtype))
    return Tensor(dtype, tuple(value.shape), torch_bytes(value)), kind


def torch_bytes(value: Any) -> bytes:
    """Returns a tensor's elements row by row, without NumPy, which has not all formats."""
    host = value.detach().resolve_conj().resolve_neg().to("cpu").contiguous()
    return ctypes.string_at(host.data_ptr(), host.numel() * host.element_size())


def _to_torch(tensor: Tensor, device: Any) -> Any:
    torch = load("torch")
    flat = torch.frombuffer(bytearray(tensor.data), dtype=torch.uint8).view(torch_dtype(tensor.dtype))
    value = flat.reshape(tensor.shape)
    return value if device is None or str(device) == "cpu" else value.to(device)


def _from_dlpack(value: Any, name: str) -> Tuple[Tensor, Kind]:
    """Takes an array of any other library, through torch, which has every format, or NumPy."""
    for library in ("torch", "numpy"):
        try:
            array = importlib.import_module(library).from_dlpack(value)
        except Exception as error:  # libraries refuse devices and formats in ways of their own
            reason = error
            continue
        tensor, kind = tensor_of(array, name)
        return tensor, kind
    raise ArrayError(f"{name} is {_described(value)}, which neither torch nor numpy takes through DLPack: {reason}") from reason


def shape_of_lists(value: Any) -> Tuple[int, ...]:
    """Returns the shape of nested lists of numbers. Raises ArrayError if they have none."""
    if not isinstance(value, (list, tuple)):
        return ()
    shapes = {shape_of_lists(item) for item in value}
    if len(shapes) != 1:
        raise ArrayError("rows have different lengths" if shapes else "a list is empty")
    return (len(value), *shapes.pop())


def flat_lists(value: Any) -> List[float]:
    if isinstance(value, (list, tuple)):
        return [number for item in value for number in flat_lists(item)]
    return [value]


def nested(values: Sequence[Any], shape: Sequence[int]) -> Any:
    """Returns numbers as nested lists of a shape; the only number if there are no sizes."""
    if not shape:
        return values[0]
    if len(shape) == 1:
        return list(values)
    step = math.prod(shape[1:])
    return [nested(values[i : i + step], shape[1:]) for i in range(0, len(values), step)]


def _to_lists(tensor: Tensor, _: Any = None) -> Any:
    return nested(tensor.values(), tensor.shape)


_MAKERS = {"torch": _to_torch, "numpy": _to_numpy, "cupy": _to_cupy, "jax": _to_jax, LISTS: _to_lists}

assert set(NAMES) == set(DTYPES)
