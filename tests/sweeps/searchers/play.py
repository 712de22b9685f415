"""A sweep played without Ray, for the tests of searchers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray import tune

from sweeps.common.yaml_values import ParamValue
from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.search.search_method import RecordSearcher
from sweeps.space.flat import check

EPOCHS = 9
"""Epochs of a trial here; rungs at 1 and 3."""


@dataclass(frozen=True, kw_only=True)
class Params:
    lr: float = 0.1
    width: int = 8
    activation: str = "relu"


CONTINUOUS = {"lr": tune.loguniform(1e-3, 1.0), "width": tune.qlograndint(8, 64, 8)}
FINITE = {
    "lr": tune.quniform(0.1, 1.0, 0.1),
    "width": tune.randint(1, 21),
    "activation": tune.choice(["relu", "gelu"]),
}
SMALL = {"width": tune.choice([4, 8, 16]), "activation": tune.choice(["relu", "gelu"])}


def score_of(params: Mapping[str, Any]) -> float:
    return -abs(math.log10(params.get("lr", 0.1)) + 1) - abs(params.get("width", 8) - 12) / 20


class Play:
    """A sweep without Ray: trials are proposed, scored at each rung and ended, oldest first."""

    def __init__(
        self, name: str, folder: Path, space: Mapping[str, Any], *, seed: int = 0, num_trials: int = 60
    ) -> None:
        folder.mkdir(exist_ok=True)
        record = Record.create(folder, "s", "max", {"metric": "m", "fixed": {}})
        self._set(name, record, space, seed, num_trials)

    @classmethod
    def resumed(cls, name: str, folder: Path, space: Mapping[str, Any], **config: int) -> Play:
        """The same sweep in another process: all it knows is the record."""
        play = cls.__new__(cls)
        play._set(name, Record.read(folder), space, config.get("seed", 0), config.get("num_trials", 60))
        return play

    def _set(self, name: str, record: Record, space: Mapping[str, Any], seed: int, num_trials: int) -> None:
        module = plugins.find("searcher", name)
        config = SweepConfig.from_settings(
            searcher=name, seed=seed, num_trials=num_trials, max_epochs=EPOCHS, grace_epochs=1
        )
        self.record = record
        self.searcher: RecordSearcher = module.build(
            config, check(space, Params, {}, module.TAKES, name), record
        )

    def propose(self) -> Any:
        return self.searcher.suggest(f"id-{len(self.record.trials)}")

    def end_oldest(self, score: Callable[[Mapping[str, Any]], float] = score_of) -> None:
        """The oldest live trial trains: two of three only to the first rung."""
        trial = self.record.live[0]
        pruned = trial.number % 3 > 0
        for epoch in (1,) if pruned else (1, 3, EPOCHS):
            self.record.report(trial.number, epoch, score(trial.params), {}, 1.0)
        self.record.end(trial.number, "pruned" if pruned else "finished")

    def run(self, trials: int, slots: int = 1) -> list[dict[str, ParamValue]]:
        """Params of so many more trials, `slots` of them at a time."""
        self.searcher.slots = slots
        proposed: list[dict[str, ParamValue]] = []
        while len(proposed) < trials:
            if (config := self.propose()) is None:
                self.end_oldest()
                continue
            assert config["params"] == self.record.trials[config["number"]].params
            proposed.append(config["params"])
        return proposed


def grid(space: Mapping[str, Any]) -> list[Mapping[str, ParamValue]]:
    return [point.params for point in check(space, Params, {}, frozenset({"finite"}), "grid").grid()]


def keys(points: Sequence[Mapping[str, ParamValue]]) -> set[tuple[tuple[str, ParamValue], ...]]:
    return {tuple(sorted(point.items())) for point in points}
