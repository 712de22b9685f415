"""What the record holds: a row per trial, and in it one per epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from sweeps.common.objective import Objective
from sweeps.space.point import OptunaPoint, Point

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from sweeps.common.yaml_values import ParamValue

Status = Literal["finished", "pruned", "failed", "diverged", "unfinished"]
"""`unfinished` has not ended: it is training now, or the sweep stopped under it."""
EPOCH = "epoch:"
"""A trial's system attributes that are epochs begin with it."""


@dataclass
class EpochRow:
    """One reported epoch."""

    score: float
    metrics: Mapping[str, float]
    seconds: float
    time: float
    """When it was reported, seconds since 1970."""
    elapsed_s: float = 0.0
    """How long the sweep had run by then, all its runs together."""
    costs: Mapping[str, float] = field(default_factory=dict)
    """Where the epoch's time went, and what else it took: `data_wait_pct` and so on."""


@dataclass
class TrialRow:
    """One trial: what was tried, how far it came, how it ended."""

    number: int
    params: Mapping[str, ParamValue]
    """Swept hyperparameters."""
    seed: int
    start: float
    """Seconds since 1970."""
    fixed: Mapping[str, ParamValue] = field(default_factory=dict)
    """Hyperparameters that stood still; with the swept ones, all that the trial trains with."""
    trainable: str = ""
    """What it trained, as it was named to the sweep."""
    optuna: OptunaPoint = field(default_factory=OptunaPoint)
    """What was tried as Optuna has it, ranges too: hyperparameters by the names that the space asks for."""
    confirms: int | None = None
    """Number of the trial that it reruns with another seed; None: it is one of the search."""
    origin: str = ""
    """Of an anchor, the trial of an earlier sweep that it runs again, as "trial 3 of NAME"; else ""."""
    end: float | None = None
    status: Status = "unfinished"
    reason: str = ""
    log: str | None = None
    """Where the traceback is, relative to the sweep's folder."""
    place: Mapping[str, Any] = field(default_factory=dict)
    """pc, pid and gpu that trained it last."""
    notices: list[str] = field(default_factory=list)
    """What the user should know of how it was trained: a broken checkpoint, say."""
    epochs: dict[int, EpochRow] = field(default_factory=dict)
    """1-based epoch to what was reported."""

    @property
    def point(self) -> Point:
        """What was tried."""
        return Point(self.trainable, self.params, self.fixed)

    @property
    def last_score(self) -> float | None:
        """The score of the last epoch."""
        return self.epochs[max(self.epochs)].score if self.epochs else None

    def best_epoch(self, objective: Objective) -> int | None:
        """The first epoch with the best finite score."""
        return objective.best(sorted(self.epochs), lambda epoch: self.epochs[epoch].score)

    def best_score(self, objective: Objective) -> float | None:
        """The best finite score of any epoch."""
        epoch = self.best_epoch(objective)
        return None if epoch is None else self.epochs[epoch].score


def template_of(trial: TrialRow) -> FrozenTrial:
    """A trial that begins, as Optuna's journal is told of it."""
    from optuna.trial import TrialState, create_trial

    attributes = {
        "trainable": trial.trainable,
        "params": trial.params,
        "fixed": trial.fixed,
        "seed": trial.seed,
        **({} if trial.confirms is None else {"confirms": trial.confirms}),
        **({"origin": trial.origin} if trial.origin else {}),
    }
    params, distributions = dict(trial.optuna.params), dict(trial.optuna.distributions)
    return create_trial(
        state=TrialState.RUNNING, params=params, distributions=distributions, user_attrs=attributes
    )


def row_of(frozen: FrozenTrial, trainable: str) -> TrialRow:
    """A trial as Optuna's journal has it; `trainable` where a record of one names it once."""
    attributes = frozen.user_attrs
    return TrialRow(
        number=frozen.number,
        params=attributes["params"],
        fixed=attributes.get("fixed", {}),
        trainable=attributes.get("trainable", trainable),
        seed=attributes["seed"],
        confirms=attributes.get("confirms"),
        optuna=OptunaPoint(frozen.params, frozen.distributions),
        start=_seconds(frozen.datetime_start) or 0.0,
        end=_seconds(frozen.datetime_complete),
        status=attributes.get("status", "unfinished") if frozen.state.is_finished() else "unfinished",
        reason=attributes.get("reason", ""),
        log=attributes.get("log"),
        place=attributes.get("place", {}),
        origin=attributes.get("origin", ""),
        notices=attributes.get("notices", []),
        epochs={
            int(key.removeprefix(EPOCH)): EpochRow(**content)
            for key, content in frozen.system_attrs.items()
            if key.startswith(EPOCH)
        },
    )


@dataclass(frozen=True)
class Earlier:
    """What a sweep knows of those that it refines; no trial of its own."""

    trials: Sequence[TrialRow] = ()
    """Points of its space whose scores are comparable with its own."""
    anchors: Sequence[TrialRow] = ()
    """Points that it tries first, where the scores that they had are not comparable."""

    def to_json(self) -> dict[str, Any]:
        """What `earlier_of` reads."""
        return {kind: [_plain(trial) for trial in getattr(self, kind)] for kind in ("trials", "anchors")}


NO_EARLIER = Earlier()


def _plain(trial: TrialRow) -> dict[str, Any]:
    kept = ("params", "fixed", "trainable", "status", "origin")
    scores = {epoch: row.score for epoch, row in trial.epochs.items() if math.isfinite(row.score)}
    return {**{name: getattr(trial, name) for name in kept}, "scores": scores}


def earlier_of(content: Mapping[str, Any]) -> Earlier:
    """The earlier trials that a record holds."""
    rows = {
        kind: [
            TrialRow(
                number=-1,
                seed=0,
                start=0.0,
                epochs={int(e): EpochRow(score, {}, 0.0, 0.0) for e, score in row["scores"].items()},
                **{name: value for name, value in row.items() if name != "scores"},
            )
            for row in content.get(kind, [])
        ]
        for kind in ("trials", "anchors")
    }
    return Earlier(**rows)


def _seconds(moment: datetime | None) -> float | None:
    """Optuna's naive local time as seconds since 1970."""
    return None if moment is None else moment.astimezone(UTC).timestamp()


Waits = Callable[[TrialRow], bool]
"""Whether a trial is paused, until others of its bracket have come as far."""


def why_diverged(metric: str, epoch: int, score: float) -> str:
    """The reason of a trial whose metric was not finite."""
    return f"{metric} was {score} in epoch {epoch}"
