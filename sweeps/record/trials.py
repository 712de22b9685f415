"""The rows of the record: one per trial, and in it one per epoch."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from optuna.distributions import BaseDistribution, json_to_distribution

from sweeps.common.objective import Losses, Objective, Objectives
from sweeps.space.point import OptunaPoint, Point

if TYPE_CHECKING:
    from sweeps.common.yaml_values import ParamValue

Status = Literal["finished", "pruned", "stopped", "failed", "diverged", "infeasible", "unfinished"]
"""`stopped`: by the user, or by a limit of the sweep. `infeasible`: it does not fit in memory, or misses a
constraint. `unfinished`: in training, or interrupted with its sweep."""
ENDED_WELL: tuple[Status, ...] = ("finished", "pruned", "stopped")
"""The scores of these trials count."""
BAD: tuple[Status, ...] = ("failed", "diverged", "infeasible")
"""Statuses of trials that did not end well."""
TrialEvent = Literal["begun", "report", "paused", "continued", "ended", "notice"]
"""What happens to a trial, as its record tells those that listen."""
DEFAULTS = "your defaults"
"""Origin of a baseline."""
EPOCH = "epoch:"
"""Prefix of the system attributes of a trial that hold an epoch."""
PAUSE = "pause:"
"""The same of a pause, with the last epoch before it."""


class Ending(NamedTuple):
    """How a trial ends."""

    status: Status
    reason: str = ""
    static_metrics: Mapping[str, float] = MappingProxyType({})
    """Of a trial that is never trained: what is known of it all the same."""


@dataclass
class EpochRow:
    """One reported epoch."""

    score: float
    metrics: Mapping[str, float]
    seconds: float
    time: float
    """Of the report, seconds since 1970."""
    elapsed_s: float = 0.0
    """Run time of the sweep by then, all its runs together."""
    costs: Mapping[str, float] = field(default_factory=dict)
    """Time breakdown and other costs of the epoch: `data_wait_pct` and so on."""


class Pause(NamedTuple):
    """A wait of a trial that its scheduler has paused at a rung."""

    after_epoch: int
    """The last one before it."""
    began: float
    """Seconds since 1970."""
    ended: float | None = None
    """When the trial continued; None where it has not."""


@dataclass
class TrialRow:
    """One trial: its hyperparameters, its epochs, its end."""

    number: int
    params: Mapping[str, ParamValue]
    """Swept hyperparameters."""
    seed: int
    start: float
    """Seconds since 1970."""
    fixed: Mapping[str, ParamValue] = field(default_factory=dict)
    """Fixed hyperparameters."""
    trainable: str = ""
    """Its name."""
    optuna: OptunaPoint = field(default_factory=OptunaPoint)
    """The same point for Optuna, with ranges, by the names that the space suggests."""
    confirms: int | None = None
    """Number of the trial that it reruns with another seed; None: it is a trial of the search."""
    origin: str = ""
    """Of a baseline `DEFAULTS`; of an anchor, the trial of an earlier sweep that it repeats, as "trial 3 of
    NAME"; of the user's own points that; else ""."""
    end: float | None = None
    note: str = ""
    """Of the user."""
    tags: Sequence[str] = ()
    status: Status = "unfinished"
    reason: str = ""
    log: str | None = None
    """File of the traceback, relative to the sweep's folder."""
    places: Sequence[Mapping[str, Any]] = ()
    """pc, pid and gpu of all that trained it, in order, each with `after_epoch`, the last epoch before."""
    failures: int = 0
    """How often it raised an error and was retried."""
    notices: list[str] = field(default_factory=list)
    """For the user: a broken checkpoint, say."""
    micro_batches: list[int] = field(default_factory=list)
    """Rows of the micro-batches with which it went on, each time that it had run out of memory."""
    left: Mapping[str, Any] = field(default_factory=dict)
    """Where its training was left last, before its end: `after_epoch`, the last one that was reported, and
    `position`."""
    schedule: Mapping[str, Any] = field(default_factory=dict)
    """Of a LightningModule, for how many epochs the schedules of its learning rate are made, as
    `trainer.length_of_schedules` says; {} where it is not known."""
    schedule_from: int = 0
    """The epoch behind which these schedules are made anew; 0: they are those of all its epochs."""
    planned_epochs: int = 0
    """Epochs up to which it was to train when it began last, where they were raised before; else 0."""
    checkpoint_bytes: int = 0
    """Size of its newest checkpoint; 0 where it has written none."""
    static_metrics: Mapping[str, float] = field(default_factory=dict)
    """Of a trial that was refused before its training, as its trainable computes them."""
    epochs: dict[int, EpochRow] = field(default_factory=dict)
    """By 1-based epoch."""
    pauses: dict[int, Pause] = field(default_factory=dict)
    """By the last epoch before each."""
    passed_epoch: int = 0
    """Of an attempt that begins anew to train for longer: the last epoch of the one before. At rungs up to it
    the scheduler has let the trial go on."""
    decided_rungs: Sequence[int] = ()
    """Of a further attempt: the rungs at which its scheduler had decided for all when it began. It comes late
    to these."""
    attempt: int = 0
    """Which of its attempts this is, from 0: it was opened again so often."""
    opened_for: str = ""
    """Why it was opened again; "" of a first attempt."""
    attempts: list[TrialRow] = field(default_factory=list)
    """Its earlier attempts, the first one first. Their epochs that it has kept are among its own, too."""

    @property
    def point(self) -> Point:
        return Point(self.trainable, self.params, self.fixed)

    @property
    def proposed(self) -> float:
        """When its first attempt began, in seconds since 1970."""
        return (self.attempts[0] if self.attempts else self).start

    @property
    def name(self) -> str:
        """`trial_0007`, of a second attempt `trial_0007_attempt_2`: of its log, and its run in a logger."""
        again = f"_attempt_{self.attempt + 1}" if self.attempt else ""
        return f"trial_{self.number:04d}{again}"

    @property
    def is_outside(self) -> bool:
        """Whether it lies outside the space of its sweep, as defaults and points of the user may: it says
        nothing about the ranges there."""
        return bool(self.origin) and not self.optuna.params

    @property
    def is_paused(self) -> bool:
        """Whether it waits now: its scheduler has paused it, and it has not continued or ended."""
        last = self.pauses.get(len(self.epochs))
        return self.status == "unfinished" and last is not None and last.ended is None

    @property
    def micro_batch(self) -> int | None:
        """Rows that a worker trains at once; None: as the sweep's settings say."""
        return self.micro_batches[-1] if self.micro_batches else None

    @property
    def position(self) -> str:
        """Where it was left, as long as that is inside the epoch after its last one; else ""."""
        is_news = self.left.get("after_epoch") == len(self.epochs)
        return str(self.left["position"]) if is_news else ""

    @property
    def place(self) -> Mapping[str, Any]:
        """pc, pid and gpu that trained it last."""
        last = self.places[-1] if self.places else {}
        return {name: value for name, value in last.items() if name != "after_epoch"}

    def place_of(self, epoch: int) -> Mapping[str, Any]:
        """Where an epoch was trained; {} where its process could not tell."""
        return next((place for place in reversed(self.places) if place["after_epoch"] < epoch), {})

    def every_report(self) -> Iterator[tuple[TrialRow, int, EpochRow]]:
        """Its epochs, and those of earlier attempts that it has not kept: the attempt that has reported it,
        the epoch, and the row; each report is there once."""
        if not self.attempts:
            return ((self, epoch, row) for epoch, row in self.epochs.items())
        rows: dict[tuple[int, float], tuple[TrialRow, int, EpochRow]] = {}
        for attempt in (*self.attempts, self):
            for epoch, row in attempt.epochs.items():
                first, *_ = rows.get((epoch, row.time), (attempt,))
                rows[epoch, row.time] = first, epoch, row
        return iter(rows.values())

    @property
    def seconds(self) -> float:
        """Of training, all its epochs together."""
        return math.fsum(row.seconds for row in self.epochs.values())

    @property
    def spent_epochs(self) -> int:
        """Its epochs and those of earlier attempts that it has not kept."""
        return sum(1 for _ in self.every_report())

    @property
    def spent_seconds(self) -> float:
        """Of training, all these together."""
        return math.fsum(row.seconds for *_, row in self.every_report())

    @property
    def last_score(self) -> float | None:
        """The score of the last epoch."""
        return self.epochs[max(self.epochs)].score if self.epochs else None

    @property
    def last_metrics(self) -> Mapping[str, float]:
        """All metrics of the last epoch."""
        return self.epochs[max(self.epochs)].metrics if self.epochs else {}

    def best_epoch(self, objective: Objective) -> int | None:
        """The first epoch with the best finite score."""
        return objective.best(sorted(self.epochs), lambda epoch: self.epochs[epoch].score)

    def best_score(self, objective: Objective) -> float | None:
        """The best finite score of any epoch."""
        epoch = self.best_epoch(objective)
        return None if epoch is None else self.epochs[epoch].score

    def best_reported(self, objective: Objective) -> float | None:
        """When that epoch was reported, in seconds since 1970: no other one, of no attempt, has this time."""
        epoch = self.best_epoch(objective)
        return None if epoch is None else self.epochs[epoch].time

    def values(self, objectives: Objectives) -> tuple[float, ...] | None:
        """The value of each objective in the best epoch by the first one, whose weights are kept; None where
        no epoch has a finite score."""
        if (epoch := self.best_epoch(objectives.first)) is None:
            return None
        return objectives.values(self.epochs[epoch].score, self.epochs[epoch].metrics)

    def losses(self, objectives: Objectives) -> Losses | None:
        """The same, for the order of trials; None, too, where a value of that epoch is not finite."""
        if (epoch := self.best_epoch(objectives.first)) is None:
            return None
        losses = objectives.losses(self.epochs[epoch].score, self.epochs[epoch].metrics)
        return losses if all(map(math.isfinite, losses[1:])) else None


ATTRIBUTES = {each.name for each in dataclasses.fields(TrialRow)}
"""Fields that are attributes of the user in Optuna's journal."""
ATTEMPT_OF = "attempt_of"
"""Attribute of the user of an Optuna trial that is a further attempt: the number of the trial. Optuna changes
no trial that has ended, so each attempt is a trial of its own there, and later trials have other numbers."""


def row_of(number: int, begun: Mapping[str, Any]) -> TrialRow:
    """A trial as its first line in the journal has it, without its earlier attempts."""
    kept = {name: value for name, value in begun.get("user_attrs", {}).items() if name in ATTRIBUTES}
    kept.pop("status", None)
    row = TrialRow(
        **{"start": seconds_of(begun.get("datetime_start")) or 0.0, **kept},
        number=number,
        optuna=_optuna_point(begun.get("params", {}), begun.get("distributions", {})),
    )
    for key, content in begun.get("system_attrs", {}).items():
        take_up(row, key, content)
    return row


def _optuna_point(params: Mapping[str, Any], distributions: Mapping[str, str]) -> OptunaPoint:
    found = {name: _distribution(text) for name, text in distributions.items()}
    return OptunaPoint({name: found[name].to_external_repr(value) for name, value in params.items()}, found)


@functools.lru_cache(maxsize=1000)
def _distribution(text: str) -> BaseDistribution:
    """Of its JSON; all trials of a sweep have the same few."""
    return json_to_distribution(text)


def take_up(row: TrialRow, key: str, content: Any) -> int | None:
    """Add an epoch or a pause to a trial, of a system attribute in the journal; the epoch, None of any other
    attribute."""
    kind, _, after = key.partition(":")
    if f"{kind}:" == EPOCH:
        row.epochs[int(after)] = EpochRow(**content)
        return int(after)
    if f"{kind}:" == PAUSE:
        row.pauses[int(after)] = Pause(int(after), *content)
    return None


@dataclass(frozen=True)
class Earlier:
    """Trials of the sweeps that a sweep refines."""

    trials: Sequence[TrialRow] = ()
    """Points of its space whose scores are comparable with its own."""
    anchors: Sequence[TrialRow] = ()
    """Points that it tries first, because their scores are not comparable."""

    def to_json(self) -> dict[str, Any]:
        """For `earlier_of`."""
        return {kind: [_plain(trial) for trial in trials] for kind, trials in vars(self).items()}


NO_EARLIER = Earlier()


def _plain(trial: TrialRow) -> dict[str, Any]:
    kept = ("params", "fixed", "trainable", "status", "origin")
    scores = {epoch: row.score for epoch, row in trial.epochs.items() if math.isfinite(row.score)}
    return {**{name: getattr(trial, name) for name in kept}, "scores": scores}


def earlier_of(content: Mapping[str, Any]) -> Earlier:
    """The earlier trials that a record holds."""
    return Earlier(**{kind: [_row_of_plain(**row) for row in rows] for kind, rows in content.items()})


def _row_of_plain(scores: Mapping[str, float], **others: Any) -> TrialRow:
    epochs = {int(epoch): EpochRow(score, {}, 0.0, 0.0) for epoch, score in scores.items()}
    return TrialRow(number=-1, seed=0, start=0.0, epochs=epochs, **others)


def seconds_of(moment: str | None) -> float | None:
    """A time as Optuna writes it, in seconds since 1970."""
    return None if moment is None else datetime.fromisoformat(moment).timestamp()


Waits = Callable[[TrialRow], bool]
"""Whether the scheduler lets a trial wait now, until others of its bracket have reached its epoch."""


def why_diverged(metric: str, epoch: int, score: float) -> str:
    """The reason of a diverged trial: its metric was not finite."""
    return f"{metric} was {score} in epoch {epoch}"
