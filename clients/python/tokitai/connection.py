"""The client of tokitai_client.py with arrays of torch, numpy, cupy and jax in and out of every call."""

from __future__ import annotations

import dataclasses
from typing import Any, List, Mapping, Optional, Sequence, Union

import tokitai_client as plain
from tokitai_client import CALL, Call, Pending, Result, Tensor

from . import arrays
from .arrays import Kind


def _arrayed(result: Result, kind: Kind) -> Result:
    return dataclasses.replace(result, outputs={name: kind.array(t) for name, t in result.outputs.items()})


def _bytes_of(data: Any) -> plain.Buffer:
    return arrays.tensor_of(data)[0].data if arrays.library_of(data) else data


class Client(plain.Client):
    """Runs operations in a separate process. Operands may be arrays of torch, numpy, cupy or jax: results are then new arrays
    of the same kind as the first of them, on its device. Any number of threads may use one client."""

    def submit(self, calls: Sequence[Call]) -> Pending:
        converted, kinds = [], []
        for call in calls:
            operands, kind = arrays.tensors_of(call.operands)
            converted.append(dataclasses.replace(call, operands=operands))
            kinds.append(kind)
        roles = [self._roles(call.definition) for call in converted]
        body: List[plain.Buffer] = [plain._list(map(plain._encode_call, converted, roles))]
        for call, role in zip(converted, roles):
            body += plain._request_data(call, role)
        return self.request(CALL, body, lambda reply: [_arrayed(r, k) for r, k in zip(plain._decode_results(reply, converted, roles), kinds)])

    def define(self, text: Union[str, bytes]) -> "Operation":
        return Operation(text, lambda: self)

    def new(self, nbytes: int) -> "Memory":
        memory = super().new(nbytes)
        return Memory(self, memory.handle, nbytes)

    def arena(self, nbytes: int) -> "Arena":
        arena = super().arena(nbytes)
        arena.__class__ = Arena
        return arena


class Operation(plain.Operation):
    __doc__ = plain.Operation.__doc__

    def __call__(self, /, **arguments: Any) -> Result:
        converted, kind = self._converted(arguments)
        return _arrayed(super().__call__(**converted), kind)

    def prepare(self, /, **arguments: Any) -> Call:
        return super().prepare(**self._converted(arguments)[0])

    def _converted(self, arguments: Mapping[str, Any]) -> tuple:
        names = {o.name for o in self.form.operands}
        try:
            operands, kind = arrays.tensors_of({n: v for n, v in arguments.items() if n in names}, self.form)
        except arrays.ArrayError as error:
            raise TypeError(f"{self.name}: {error}") from error
        return {n: operands.get(n, v) for n, v in arguments.items()}, kind


class _Home:
    def write(self, data: Any, offset: int = 0) -> None:
        """Writes bytes, or the elements of an array, row by row."""
        super().write(_bytes_of(data), offset)

    def array(self, dtype: str, shape: Sequence[int], offset: int = 0, library: str = "numpy", device: Any = None) -> Any:
        """Copies a tensor in this memory to an array of a library: torch, numpy, cupy or jax."""
        if library not in arrays.LIBRARIES:
            raise ValueError(f"library {library!r}, want one of {', '.join(arrays.LIBRARIES)}")
        nbytes = Tensor.empty(dtype, shape).nbytes
        return Kind(library, device).array(Tensor(dtype, tuple(shape), self.read(nbytes, offset)))


class Memory(_Home, plain.Memory):
    __doc__ = plain.Memory.__doc__


class Arena(_Home, plain.Arena):
    __doc__ = plain.Arena.__doc__
