"""The answers of the definitions themselves: what an operation should give, and whether what was given is admissible."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Union

from tokitai_client import Call, Client, Defined, Placed, Tensor

from . import arrays, forms
from .report import Report


class Enclosure(NamedTuple):
    """Two arrays of binary64, between which the real-number result lies; both are NaN where nothing is enclosed. Of inputs
    that are Tensors they are nested lists."""

    lo: Any
    hi: Any


def _outputs(form: Defined, values: Mapping[str, Any]) -> Any:
    """Returns outputs as callables do: one value, or a tuple in the definition's order, with names."""
    names = forms.outputs_of(form)
    if len(names) == 1:
        return values[names[0]]
    return namedtuple(form.name.replace(".", "_"), names)(*(values[n] for n in names))


def _call(client: Client, op: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> tuple:
    form = forms.only_form(client, forms.source_of(op))
    given = forms.bound(form, arguments, named)
    operands, kind = arrays.tensors_of({n: v for n, v in given.items() if any(o.name == n for o in form.operands)}, form)
    params = {n: v for n, v in given.items() if n not in operands}
    call = forms.FormOperation(client, form).prepare(**operands, **params)
    return form, call, kind


def reference(client: Client, op: Any, arguments: Sequence[Any], named: Mapping[str, Any], lowering: str = "cpu.reference") -> Any:
    form, call, kind = _call(client, op, arguments, named)
    result = client.calls([Call(call.definition, call.operands, call.params, lowering=lowering)])[0]
    return _outputs(form, {n: kind.array(t) for n, t in result.outputs.items()})


def truth(client: Client, op: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    form, call, kind = _call(client, op, arguments, named)
    ends = client.truth(call.definition, call.params, **call.operands)
    return _outputs(form, {n: Enclosure(*(_doubles(kind, end, e.shape) for end in (e.lo, e.hi))) for n, e in ends.items()})


def _doubles(kind: arrays.Kind, values: Any, shape: Sequence[int]) -> Any:
    """Returns numbers in binary64 as an array of a kind. JAX, which has none unless told to, gives them to NumPy."""
    if kind.library == "torch":
        torch = arrays.load("torch")
        made = torch.tensor(values, dtype=torch.float64, device=kind.device)
    elif kind.library is not None:
        made = arrays.load("cupy" if kind.library == "cupy" else "numpy").array(values, dtype="float64")
    else:
        return arrays.nested(values, shape)
    return made.reshape(tuple(shape))


def compare(client: Client, op: Any, inputs: Any, outputs: Any, params: Mapping[str, float], terms: Mapping[str, Any]) -> Report:
    form = forms.only_form(client, forms.source_of(op))
    given = arrays.tensors_of(_by_name(form, inputs, forms.inputs_of(form), "input"), form)[0]
    named = _by_name(form, outputs, forms.outputs_of(form), "output")
    got = arrays.tensors_of({n: v for n, v in named.items() if v is not None}, form)[0]
    omitted = [n for n in forms.outputs_of(form) if n not in got]
    if omitted:
        whole = forms.FormOperation(client, form).prepare(**given, **params)
        got.update((n, Tensor.empty(whole.operands[n].dtype, whole.operands[n].shape)) for n in omitted)
    declare = " ".join([_joined(terms.get("declare"), " "), *(f"omit={n}" for n in omitted)]).strip()
    waived = terms.get("waive") or ()
    answer = client.judge(
        form.identity, dict(params), outputs=got, promise=terms.get("promise") or "", profile=terms.get("profile") or "",
        declare=declare, waive=[waived] if isinstance(waived, str) else list(waived), **given,
    )  # fmt: skip
    return Report([answer], "the given output")


def _joined(value: Union[str, Iterable[str], None], between: str) -> str:
    return value if isinstance(value, str) else between.join(value or ())


def _by_name(form: Defined, values: Any, names: Sequence[str], role: str) -> Dict[str, Any]:
    """Returns operands by name: a dictionary, a sequence in the definition's order, or the only one."""
    if isinstance(values, Mapping):
        unknown = [n for n in values if n not in names]
        if unknown:
            raise TypeError(f"{form.name}: {unknown[0]} is no {role}, want {', '.join(names)}")
        return dict(values)
    items = values if isinstance(values, (tuple, list)) else [values]
    if len(items) > len(names):
        raise TypeError(f"{form.name}: got {len(items)} {role}s, want {len(names)}: {', '.join(names)}")
    return dict(zip(names, items))
