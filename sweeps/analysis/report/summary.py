"""The figures at the top of a report, each with what it means."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from sweeps.analysis.figures import costs
from sweeps.analysis.report import sentences
from sweeps.analysis.sweep import Sweep
from sweeps.common.formatting import count, duration, short
from sweeps.record import status
from sweeps.record.record import Record
from sweeps.record.trials import BAD, Status, TrialRow


class Tile(NamedTuple):
    """A figure of the summary."""

    label: str
    value: str
    note: str
    """A few words that say of what it is."""


def summary(sweep: Sweep) -> list[Tile]:
    """Best score, gain over the defaults or the time taken, trials, and what pruning saved."""
    record, spent = sweep.record, costs.spent(sweep)
    statuses = Counter(trial.status for trial in record.searched)
    told: tuple[Status, ...] = ("pruned", *BAD)
    kept = [each for each in told if statuses[each]]
    ended = len(record.searched) - statuses["unfinished"]
    trained = [count(spent.epochs, "epoch"), *(f"{statuses[each]:,} {each}" for each in kept)]
    trials = f"{ended:,} of {max(record.most_trials, len(record.searched)):,}"
    tiles = [
        _best(record),
        _gain(record) or _time(sweep, spent),
        Tile("Trials ended", trials, ", ".join(trained)),
    ]
    if spent.saved_epochs:
        whole = spent.epochs + spent.saved_epochs
        note = f"{spent.saved_epochs:,} of {count(whole, 'epoch')}"
        saved = f"{note}, {sentences.device_time(spent.saved_hours, spent.devices)}"
        tiles.append(Tile("Saved by pruning", f"{100 * spent.saved_epochs / whole:.0f} %", saved))
    elif tiles[1].label != "Time":
        tiles.append(_time(sweep, spent))
    return tiles


def _time(sweep: Sweep, spent: costs.Spent) -> Tile:
    note = f"{sentences.device_time(spent.device_hours, spent.devices)} of training"
    return Tile("Time", duration(sweep.record.elapsed_s), note)


def _best(record: Record) -> Tile:
    label, best = f"Best {record.objective.metric}", record.best()
    if best is None:
        return Tile(label, "none", "no trial has a score yet" if record.live else "no trial ended well")
    values, note = _values(record, best), f"trial {best.number}"
    if (confirmed := record.confirmed_with_score().get(best.number)) is not None:
        note += f", mean of {count(len(confirmed.scores), 'new seed')}"
    elif record.objectives.are_several:
        others = status.in_words(record, values).partition(", ")[2]
        note += f", the knee of {count(len(record.front()), 'trial')}: {others}"
    else:
        note += f", epoch {best.best_epoch(record.objective)}"
    live = status.not_ended(record, best)
    return Tile(label, short(values[0]), f"{note}, {live}" if live else note)


def _gain(record: Record) -> Tile | None:
    """How much better the best trial is than the best of the defaults; None where none has a score."""
    best, objective = record.best(), record.objective
    defaults = objective.best(record.baselines, lambda trial: trial.best_score(objective))
    score = None if defaults is None else defaults.best_score(objective)
    if best is None or defaults is None or score is None:
        return None
    gain = _values(record, best)[0] - score
    value = "none" if gain * objective.sign <= 0 else f"{gain:+.4g}"
    return Tile("Gain over your defaults", value, f"they had {short(score)} (trial {defaults.number})")


def _values(record: Record, trial: TrialRow) -> tuple[float, ...]:
    """Of each objective; of a trial that was confirmed the mean of its reruns."""
    confirmed = record.confirmed_with_score().get(trial.number)
    return confirmed.means if confirmed is not None else trial.values(record.objectives) or ()
