"""A trainable that replays a learning curve instead of training: a point of `benchmarks.curves`.

It goes through Lightning's one `fit()` with its checkpoints, as any trainable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks import curves

if TYPE_CHECKING:
    from benchmarks._replayed import Replay
    from benchmarks.trivial import OneBatch

METRIC, MODE = "val_acc", "max"


@dataclass(frozen=True, kw_only=True)
class Params:
    """A point by the position of each value, 0 the smallest."""

    dropout: int = 0
    width: int = 0
    batch_size: int = 0
    momentum: int = 0
    lr: int = 0
    curves_seed: int = 0
    """Whose curves are replayed."""
    pace: float = 0.0
    """Seconds that a second of the real training takes here."""


def build_model(params: Params) -> Replay:
    from benchmarks._replayed import Replay  # here, not above: the clock needs Params alone

    table = curves.load()
    key = table.place(vars(params)), params.curves_seed
    return Replay(table.scores[key], tuple(params.pace * seconds for seconds in table.seconds[key]))


def build_data(params: Params) -> OneBatch:
    from benchmarks.trivial import OneBatch

    return OneBatch()
