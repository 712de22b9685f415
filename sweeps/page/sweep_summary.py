"""What the list shows of a sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sweeps.analysis.course import best_so_far
from sweeps.kinds.registry import shown_name
from sweeps.record import status
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome
from sweeps.record.trials import BAD, TrialRow

MOST_POINTS = 60
"""Of the small curve."""


class TrainingTrial(NamedTuple):
    """A trial in training."""

    number: int
    epoch: int
    """The one that it trains."""
    pc: str
    """Name of the PC; "" before its first report."""
    pid: int
    gpu: str
    """In words; "" on a CPU."""


@dataclass(frozen=True, kw_only=True)
class SweepSummary:
    """A sweep in a row."""

    name: str
    trainable: str
    metric: str
    mode: str
    status: str
    """In the words of the record."""
    started: float | None
    """Seconds since 1970."""
    planned: int
    """Trials asked for in all."""
    ended: int
    """Of these."""
    bad: int
    """Of those that have ended: failed, diverged or infeasible."""
    training: Sequence[TrainingTrial]
    """Those that train now."""
    epochs: int
    """Trained, of reruns too."""
    tags: Sequence[str]
    best_trial: int | None
    best_score: float | None
    """Of a trial that was confirmed the mean of its reruns."""
    is_confirmed: bool
    best: str
    """In words."""
    curve: Sequence[tuple[float, float]]
    """Epochs trained until then, and the best score so far, wherever it got better; the last one ends it."""
    ends: float | None
    """When it is estimated to end, in seconds since 1970; None where it does not train, or is not known."""

    @property
    def places(self) -> Mapping[str, int]:
        """Name of a PC to the number of trials that train there."""
        return Counter(trial.pc for trial in self.training if trial.pc)


def summary_of(record: Record) -> SweepSummary:
    """The row of a sweep."""
    leader, objective = record.best(), record.objective
    return SweepSummary(
        name=record.name,
        trainable=", ".join(map(shown_name, record.info.trainables)),
        metric=objective.metric,
        mode=objective.mode,
        status=status.status(record),
        started=record.info.started,
        planned=max(record.most_trials, len(record.searched)),
        ended=sum(trial.status != "unfinished" for trial in record.searched),
        bad=sum(trial.status in BAD for trial in record.searched),
        training=[
            TrainingTrial(
                trial.number,
                status.epoch_now(record, trial),
                str(trial.place.get("pc") or ""),
                int(trial.place.get("pid") or 0),
                str(trial.place.get("gpu") or ""),
            )
            for trial in training(record)
        ],
        epochs=sum(trial.spent_epochs for trial in record.trials),
        tags=list(record.info.tags),
        best_trial=None if leader is None else leader.number,
        best_score=None if leader is None else record.front_values()[leader.number][0],
        is_confirmed=bool(record.confirmed_with_score()),
        best=status.best(record),
        curve=best_so_far(record, "epochs", MOST_POINTS),
        ends=_ends(record) if status.status(record) is Outcome.RUNNING else None,
    )


def training(record: Record) -> list[TrialRow]:
    """The trials that train now."""
    of_sweep = status.status(record)
    return [trial for trial in record.live if status_word(trial, of_sweep) == "training"]


def status_word(trial: TrialRow, of_sweep: Outcome) -> str:
    """The status of a trial; of one that has not ended what it does, by the status of its sweep: `training`,
    `waiting` (at a rung, in a pause or in the queue), or `unfinished` where no process runs its sweep."""
    if trial.status != "unfinished" or of_sweep not in (Outcome.RUNNING, Outcome.PAUSED, Outcome.WAITING):
        return trial.status
    return "training" if of_sweep is Outcome.RUNNING and not trial.is_paused else "waiting"


def _ends(record: Record) -> float | None:
    """By the estimate of the process that runs it now."""
    left, runs = record.info.time_left, record.info.runs
    began = runs[-1].started if runs else None
    return None if left is None or left.time < (began or 0.0) else left.time + left.seconds


class SweepState(NamedTuple):
    """What changes whenever a sweep does."""

    changed_ns: int = 0
    """When its journal was written last."""
    size_bytes: int = 0
    """Of the journal."""
    is_held: bool = False
    """Whether a process runs it."""
