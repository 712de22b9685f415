"""What a sweep does now: which trials train on which PC, which wait at which rung, and what happened last."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sweeps.analysis.pruning import judged_at
from sweeps.common.formatting import duration
from sweeps.record import status
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow

MOST_EVENTS = 30
MOST_LISTED = 60
"""Trials that are listed at a rung."""


@dataclass(frozen=True)
class TrainingTrial:
    """A trial that trains now."""

    number: int
    pc: str
    gpu: str
    """"" without one."""
    epoch: int
    """The one that it trains, as far as it has told."""
    of: int
    """Epochs of a trial that is never pruned; 0 where that is not known."""
    reported_s: float
    """How long ago it has reported last, or begun."""


@dataclass(frozen=True)
class Rung:
    """A rung, and the trials that wait there until others have reached it."""

    epoch: int
    reached: int
    """Trials that have a score there."""
    waiting: Sequence[int]
    more: int
    """That wait there and are not listed."""


@dataclass(frozen=True)
class Event:
    """What happened to the sweep or a trial, for the user."""

    time: float | None
    """Seconds since 1970."""
    what: str
    text: str
    trial: int | None = None


def training(record: Record, now: float) -> list[TrainingTrial]:
    """The trials that train, by PC and GPU."""
    if not status.is_running(record) or record.info.paused_at is not None:
        return []
    most = record.info.max_epochs or 0
    found = [_training(trial, most, now) for trial in record.live if not trial.is_paused]
    return sorted(found, key=lambda trial: (trial.pc, trial.gpu, trial.number))


def _training(trial: TrialRow, most: int, now: float) -> TrainingTrial:
    last = max((row.time for row in trial.epochs.values()), default=trial.start)
    pc, gpu = str(trial.place.get("pc") or ""), str(trial.place.get("gpu") or "")
    return TrainingTrial(trial.number, pc, gpu, len(trial.epochs) + 1, most, max(0.0, now - last))


def rungs(record: Record) -> list[Rung]:
    """The rungs of a sweep that runs, with who waits there."""
    if not status.is_running(record):
        return []
    is_pruned = record.info.settings.scheduler != "none"
    waiting: dict[int, list[int]] = {epoch: [] for epoch in judged_at(record)[:-1] if is_pruned}
    for trial in record.live:
        if trial.is_paused:
            waiting.setdefault(len(trial.epochs), []).append(trial.number)
    return [
        Rung(epoch, len(record.scores_at(epoch)), there[:MOST_LISTED], max(0, len(there) - MOST_LISTED))
        for epoch, there in sorted(waiting.items())
    ]


def events(record: Record) -> list[Event]:
    """What happened, the newest first: starts and resumes, commands with their answers, notices of trials."""
    found = sorted(_events(record), key=lambda event: -(event.time or 0.0))
    return found[:MOST_EVENTS]


def _events(record: Record) -> Iterator[Event]:
    for place, run in enumerate(record.info.runs):
        changed = f" Changed: {'; '.join(run.changed)}." if run.changed else ""
        yield Event(run.started, "resumed" if place else "started", changed.strip())
    for each in record.info.steered:
        by = f" by {each.by}" if each.by else ""
        yield Event(each.time, f"{' '.join(each.words)}{by}", each.answer)
    for began, number in record.openings:
        yield Event(began, "trained again", record.trials[number].opened_for, number)
    for trial in record.trials:
        last = max((row.time for row in trial.epochs.values()), default=trial.start)
        for notice in trial.notices:
            yield Event(trial.end or last, "notice", notice, trial.number)


def last_report(trial: TrainingTrial) -> str:
    """`reported 12 s ago`"""
    return f"{'reported' if trial.epoch > 1 else 'begun'} {duration(trial.reported_s)} ago"


def epoch_in_words(trial: TrainingTrial) -> str:
    """`epoch 4 of 27`"""
    return f"epoch {trial.epoch:,} of {trial.of:,}" if trial.of else f"epoch {trial.epoch:,}"


def clock(moment: float | None) -> str:
    """`14:05:12`, with the date where it is another day."""
    if moment is None:
        return ""
    then, today = time.localtime(moment), time.localtime()
    is_today = (then.tm_year, then.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M", then)
