"""Parameters as people set them, where those of a definition are computed from them.

AdamW's definitions take a step size and a bias correction, which follow from the learning rate and the number of the
step; tokitai explain lists the latter. A callable that takes lr, t or weight_decay gets numbers from which the
parameters of the call follow. Where several do, as for a correction that is 1 at every late step, it gets the earliest step.
A seed has 64 bits, and is two int32 of a definition."""

from __future__ import annotations

import math
from typing import Callable, Dict, Mapping, NamedTuple, Optional, Tuple


class Settings(NamedTuple):
    """What people set for a definition: names with their defaults, what is computed from them, and how they follow from it."""

    defaults: Mapping[str, Optional[float]]
    derived: Tuple[str, ...]
    of: Callable[[Mapping[str, float]], Dict[str, float]]


def correction(beta: float, t: int) -> float:
    """Returns 1 - beta^t."""
    return -math.expm1(t * math.log(beta)) if beta > 0 else 1.0


def _adamw(params: Mapping[str, float]) -> Dict[str, float]:
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


def _seed(params: Mapping[str, float]) -> Dict[str, float]:
    low, high = (int(params[name]) & 0xFFFFFFFF for name in ("seed_low", "seed_high"))
    return {"seed": high << 32 | low}


_ADAMW = Settings({"lr": None, "weight_decay": 0.01, "t": None}, ("one_minus_beta1", "one_minus_beta2", "step_size", "inverse_sqrt_bc2", "decay"), _adamw)
_SEED = Settings({"seed": 0}, ("seed_low", "seed_high"), _seed)
_NONE = Settings({}, (), lambda params: {})
_BY_DEFINITION = {"adamw.step": _ADAMW, "adamw.step.master": _ADAMW, "adamw.step.stochastic": _ADAMW, "dropout.forward": _SEED, "dropout.backward": _SEED, "sample": _SEED}


def settings_of(definition: str) -> Settings:
    return _BY_DEFINITION.get(definition, _NONE)
