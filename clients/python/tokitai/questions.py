"""The answers of the definitions themselves: what an operation should give, and whether what was given is admissible."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Union

from tokitai_client import Call, Client, Defined, Placed, Tensor

from . import arrays, forms
from .report import Report


class Enclosure(NamedTuple):
    """Two arrays of binary64, between which the real-number result lies."""

    lo: Any
    hi: Any


def _outputs(form: Defined, values: Mapping[str, Any]) -> Any:
    """Returns outputs as callables do: one value, or a tuple in the definition's order, with names."""
    names = [n for n in forms.outputs_of(form) if n in values]
    if len(names) == 1:
        return values[names[0]]
    return namedtuple(form.name.replace(".", "_"), names)(*(values[n] for n in names))


def _call(client: Client, op: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> tuple:
    form = forms.only_form(client, forms.source_of(op))
    given = forms.bound(form, arguments, named)
    operands, kind = arrays.tensors_of({n: v for n, v in given.items() if any(o.name == n for o in form.operands)})
    params = {n: v for n, v in given.items() if n not in operands}
    call = forms.FormOperation(client, form).prepare(**operands, **params)
    return form, call, kind


def reference(client: Client, op: Any, arguments: Sequence[Any], named: Mapping[str, Any], lowering: str = "cpu.reference") -> Any:
    form, call, kind = _call(client, op, arguments, named)
    result = client.calls([Call(call.definition, call.operands, call.params, lowering=lowering)])[0]
    return _outputs(form, {n: kind.array(t) for n, t in result.outputs.items()})
