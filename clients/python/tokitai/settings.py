"""Parameters as people set them, where those of a definition are computed from them.

AdamW's definitions take a step size and a bias correction, which follow from the learning rate and the number of the
step; tokitai explain lists the latter. A callable that takes lr, t or weight_decay gets numbers from which the
parameters of the call follow. Where several do, as for a correction that is 1 at every late step, it gets the earliest step.
Dropout's keep follows from its threshold, a number of 64 bits from its halves, and vocab and experts from a shape."""

from __future__ import annotations

import math
from typing import Callable, Dict, Mapping, NamedTuple, Optional, Tuple


Shapes = Mapping[str, Tuple[int, ...]]


class Settings(NamedTuple):
    """What people set together: names with their defaults, the parameters of a definition that are computed from them, and how they
    follow from these and from the shapes of the operands."""

    defaults: Mapping[str, Optional[float]]
    derived: Tuple[str, ...]
    of: Callable[[Mapping[str, float], Shapes], Dict[str, float]]


def correction(beta: float, t: int) -> float:
    """Returns 1 - beta^t."""
    return -math.expm1(t * math.log(beta)) if beta > 0 else 1.0


def _adamw(params: Mapping[str, float], _: Shapes) -> Dict[str, float]:
    beta1, beta2 = params["beta1"], params["beta2"]
    second = 1 / params["inverse_sqrt_bc2"] ** 2  # 1 - beta2^t
    if beta2 == 0:
        t = 1
    elif second < 1:
        t = max(1, round(math.log1p(-second) / math.log(beta2)))
    else:  # beta2^t is lost beside 1
        t = math.ceil(-54 * math.log(2) / math.log(beta2))
    lr = params["step_size"] * correction(beta1, t)
    return {"lr": lr, "weight_decay": params["decay"] / lr if lr > 0 else 0.01, "t": t}


def _word(name: str) -> Settings:
    """A number of 64 bits, which is two int32 of a definition."""

    def of(params: Mapping[str, float], _: Shapes) -> Dict[str, float]:
        low, high = (int(params[half]) & 0xFFFFFFFF for half in (f"{name}_low", f"{name}_high"))
        return {name: high << 32 | low}

    return Settings({name: 0}, (f"{name}_low", f"{name}_high"), of)


def _keep(params: Mapping[str, float], _: Shapes) -> Dict[str, float]:
    """The probability with which dropout keeps an element: that of the words from the threshold on."""
    return {"keep": (2**32 - (int(params["threshold"]) & 0xFFFFFFFF)) / 2**32 if params["scale"] else 0.0}


def _rows(name: str, output: str) -> Settings:
    """A number of rows, which a call tells by the shape of an output."""
    return Settings({name: None}, (), lambda _, shapes: {name: shapes[output][0]})


_ADAMW = (Settings({"lr": None, "weight_decay": 0.01, "t": None}, ("one_minus_beta1", "one_minus_beta2", "step_size", "inverse_sqrt_bc2", "decay"), _adamw),)
_DROPOUT = (Settings({"keep": None}, ("threshold", "scale"), _keep), _word("seed"), _word("first"))
_VOCAB = (_rows("vocab", "dweight"),)
_BY_DEFINITION: Mapping[str, Tuple[Settings, ...]] = {
    "adamw.step": _ADAMW,
    "adamw.step.master": _ADAMW,
    "adamw.step.stochastic": _ADAMW,
    "dispatch.forward": (_rows("experts", "counts"),),
    "dropout.forward": _DROPOUT,
    "dropout.backward": _DROPOUT,
    "embedding.backward": _VOCAB,
    "embedding.backward.accumulate": _VOCAB,
    "sample": (_word("seed"),),
}


def settings_of(definition: str) -> Tuple[Settings, ...]:
    return _BY_DEFINITION.get(definition, ())


def names_of(definition: str, params: Tuple[str, ...]) -> Tuple[str, ...]:
    """Returns what people set for a definition, but for its own parameters."""
    return tuple(n for s in settings_of(definition) for n in s.defaults if n not in params)


def values_of(definition: str, params: Mapping[str, float], shapes: Shapes) -> Dict[str, float]:
    """Returns what people set, as it follows from a call."""
    return {n: v for s in settings_of(definition) for n, v in s.of(params, shapes).items() if n not in params}
