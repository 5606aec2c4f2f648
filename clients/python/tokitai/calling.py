"""How a callable is called: which arguments it gets, and what it may give back.

Operands and parameters are passed by the definition's names where the callable has parameters of these names; otherwise
its inputs are passed in the definition's order. Outputs are returned in the definition's order, as one array or a tuple,
or written to arrays that the callable takes: by their names, or as out= (an array, or a tuple of them)."""

from __future__ import annotations

import inspect
import traceback
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

TRACEBACK_LINES = 3


class Wrong(Exception):
    """What a callable did wrong, in a message for the report. operand is what is wrong, if it is about one; is_refusal says that
    the callable does not take this call, and may take others; index is the operand that it says has an index out of range; dtype is
    the format of an output that should have another one."""

    def __init__(self, message: str, operand: str = "", is_refusal: bool = False, index: str = "", dtype: str = ""):
        super().__init__(message)
        self.operand = operand
        self.is_refusal = is_refusal
        self.index = index
        self.dtype = dtype


class Absent(Wrong):
    """A callable that another process does not find where this one has it."""


class Convention(NamedTuple):
    """The arguments of a callable, by the names of the definition."""

    positional: Tuple[str, ...]  # inputs without a name, in order
    by_name: Tuple[str, ...]  # operands and parameters
    written: Tuple[str, ...]  # outputs that it takes and writes; inout operands are not among them
    out: bool  # it takes them as out=
    returned: Tuple[str, ...]  # outputs that it returns


class Shape(NamedTuple):
    """A definition, as far as a call tells: names of inputs, outputs (inout operands are both), parameters, and what people set
    instead of some of these."""

    name: str
    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]
    params: Tuple[str, ...]
    settings: Tuple[str, ...] = ()


def name_of(function: Callable) -> str:
    for owner in (function, getattr(function, "func", None), getattr(function, "__wrapped__", None), type(function)):
        name = getattr(owner, "__name__", None)
        if name:
            return name
    return "the callable"


def parameters_of(function: Callable) -> Optional[Mapping[str, inspect.Parameter]]:
    """Returns the parameters of a callable, or None if it does not tell, as many that are written in C."""
    try:
        return inspect.signature(_told(function)).parameters
    except (TypeError, ValueError):
        return None


def _told(function: Callable) -> Callable:
    """Returns what has the signature: forward of a torch module, whose own is of no use."""
    forward = getattr(function, "forward", None)
    return forward if forward is not None and not inspect.isclass(function) and not inspect.isroutine(function) else function


def convention(function: Callable, shape: Shape, omitted: Sequence[str] = ()) -> Convention:
    """Decides how a callable is called. Raises Wrong if it cannot be."""
    pure = tuple(n for n in shape.outputs if n not in shape.inputs and n not in omitted)
    returned = tuple(n for n in shape.outputs if n not in omitted)
    parameters = parameters_of(function)
    if parameters is None:
        return Convention(shape.inputs, (), (), False, returned)
    p = inspect.Parameter
    takes = {n for n, q in parameters.items() if q.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    kinds = {q.kind for q in parameters.values()}
    takes_any = p.VAR_KEYWORD in kinds and p.VAR_POSITIONAL not in kinds  # with both, as wrappers have, inputs go in order
    required = [n for n, q in parameters.items() if q.default is p.empty and q.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]

    taken: set = set()
    positional: Tuple[str, ...] = ()
    params = tuple(n for n in shape.params if n in takes or takes_any) + tuple(n for n in shape.settings if n in takes)
    if not all(n in takes or (takes_any and n not in parameters) for n in shape.inputs):
        positional = shape.inputs
        places = [n for n, q in parameters.items() if q.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if len(places) < len(positional) and p.VAR_POSITIONAL not in kinds:
            raise Wrong(f"{name_of(function)}{_signature(function)} takes {len(places)} arguments in order, want the {len(positional)} inputs of {shape.name}: {', '.join(shape.inputs)}")
        taken = set(places[: len(positional)])
        clash = [n for n in params if n in taken]
        if clash:
            raise Wrong(f"{name_of(function)}{_signature(function)}: {clash[0]} stands among the first {len(positional)} arguments, which are the inputs {', '.join(shape.inputs)} in this order")
    by_name = (() if positional else shape.inputs) + params

    written = tuple(n for n in pure if n in takes and n not in taken and n != "out")
    if written and set(written) != set(pure):
        missing = [n for n in pure if n not in written]
        raise Wrong(f"{name_of(function)}{_signature(function)} takes the output {written[0]} but not {', '.join(missing)}, want all outputs or none")
    out = "out" in takes and "out" not in taken and "out" not in shape.inputs and "out" not in shape.params
    if out:
        written = pure
    required = [n for n in required if n not in taken]
    given = set(by_name) | set(written if not out else ()) | ({"out"} if out else set())
    unknown = [n for n in required if n not in given]
    if unknown:
        raise Wrong(
            f"{name_of(function)}{_signature(function)} needs {unknown[0]}, which {shape.name} does not have: "
            f"its inputs are {', '.join(shape.inputs)}{', its parameters ' + ', '.join(shape.params + shape.settings) if shape.params + shape.settings else ''}, its outputs {', '.join(shape.outputs)}"
        )
    return Convention(positional, by_name, written, out, returned)


def _signature(function: Callable) -> str:
    try:
        return str(inspect.signature(_told(function)))
    except (TypeError, ValueError):
        return ""


def call(function: Callable, how: Convention, shape: Shape, values: Mapping[str, Any], buffers: Mapping[str, Any]) -> Any:
    """Calls a callable. values has inputs and parameters, buffers the outputs that it writes."""
    arguments = [values[n] for n in how.positional]
    named: Dict[str, Any] = {n: values[n] for n in how.by_name if n in values}
    if how.out:
        outs = tuple(buffers[n] for n in how.written)
        named["out"] = outs[0] if len(outs) == 1 else outs
    else:
        named.update((n, buffers[n]) for n in how.written)
    return function(*arguments, **named)


def outputs(how: Convention, shape: Shape, result: Any, values: Mapping[str, Any], buffers: Mapping[str, Any], wanted: Callable[[str], str], is_array: Callable[[Any], bool], name: str) -> Dict[str, Any]:
    """Returns the outputs by name, from what the callable returned or wrote. wanted describes an output in messages."""
    both = [n for n in how.returned if n in shape.inputs]
    if how.written and (result is None or _is_buffer(result, buffers)):
        return {**{n: values[n] for n in both}, **{n: buffers[n] for n in how.written}}
    if result is None and both and len(both) == len(how.returned):
        return {n: values[n] for n in both}
    wants = ", ".join(wanted(n) for n in how.returned)
    if result is None:
        raise Wrong(f"{name} returned None, want {wants}", how.returned[0])
    if len(how.returned) == 1 and is_array(result):
        return {how.returned[0]: result}
    if isinstance(result, (tuple, list)):
        if len(result) != len(how.returned):
            raise Wrong(f"{name} returned {len(result)} values, want {len(how.returned)}: {wants}", how.returned[0])
        return dict(zip(how.returned, result))
    if isinstance(result, Mapping):
        missing = [n for n in how.returned if n not in result]
        if missing:
            raise Wrong(f"{name} returned a dictionary without {missing[0]}, want {wants}", missing[0])
        return {n: result[n] for n in how.returned}
    if is_array(result):
        raise Wrong(f"{name} returned one array, want {len(how.returned)}: {wants}", how.returned[0])
    raise Wrong(f"{name} returned a {type(result).__name__}, want {wants}", how.returned[0])


def _is_buffer(result: Any, buffers: Mapping[str, Any]) -> bool:
    """Reports whether a callable returned the arrays that it was given to write."""
    if isinstance(result, (tuple, list)):
        return bool(result) and all(_is_buffer(item, buffers) for item in result)
    return any(result is b for b in buffers.values())


def account(error: BaseException, name: str) -> str:
    """Returns what a callable raised: the error and the end of the traceback, without the frames of this package."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not _is_own(f.filename)]
    said = "".join(traceback.format_exception_only(type(error), error)).strip()
    where = [f"{f.filename}:{f.lineno} in {f.name}{f' ({f.line})' if f.line else ''}" for f in frames[-TRACEBACK_LINES:]]
    return f"{name} raised {' '.join(said.split())}" + (", at " + ", called at ".join(reversed(where)) if where else "")


def _is_own(path: str) -> bool:
    return path.startswith(__file__.rsplit("/", 1)[0] + "/")
