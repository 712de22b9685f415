"""A space that is a function: the number of layers says which widths there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sweeps.space.conditional import ConditionalSpace, check


@dataclass(frozen=True, kw_only=True)
class Params:
    lr: float = 0.1
    layers: int = 1
    width_2: int = 0
    width_3: int = 0
    width_4: int = 0
    kind: str = "relu"
    rows: int = 100

    def __post_init__(self) -> None:
        if self.width_2 == 13:
            raise ValueError(f"width_2 {self.width_2}: brings bad luck")


def layered(trial: Any) -> None:
    """The number of layers says which widths there are, each width how large the next may be."""
    trial.suggest_float("lr", 1e-3, 1.0, log=True)
    width = 4
    for number in range(2, trial.suggest_int("layers", 1, 3) + 1):
        width = trial.suggest_int(f"width_{number}", width, 2 * width, step=2)


def checked(suggest: Callable[[Any], object] = layered, **fixed: Any) -> ConditionalSpace:
    return check(suggest, Params, fixed, frozenset({"conditional"}), "tpe", "net")
