"""The tables of a report."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sweeps.analysis import course
from sweeps.analysis.new_ranges import Change
from sweeps.common.formatting import cell, duration, short
from sweeps.record.record import Record
from sweeps.record.trials import DEFAULTS, TrialRow

NO_HYPERPARAMETERS = ("_target_", "_partial_", "_convert_", "_recursive_")
"""Keys by which Hydra builds an object, which are left out where they are fixed."""


class Link(NamedTuple):
    """A cell that leads to the log of a trial."""

    text: str
    address: str
    """Relative to the folder of the sweep, in which the report is."""
    trial: int


@dataclass(frozen=True)
class Table:
    """Rows of text; one without a row is not shown."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | Link]]


def front(record: Record) -> Table:
    """The trials of the front; no rows with one objective."""
    values, confirmed = record.front_values(), record.confirmed_with_score()
    names = list(dict.fromkeys(name for number in values for name in record.varied(record.trials[number])))
    reruns = ["reruns"] if confirmed else []
    columns = ["trial", *record.objectives.metrics, "in epoch", *reruns, *names]
    rows = []
    for number, found in values.items() if record.objectives.are_several else ():
        trial = record.trials[number]
        cells: list[Any] = [number, *found, trial.best_epoch(record.objective)]
        cells += [len(confirmed[number].scores)] if confirmed else []
        rows.append([*map(short, cells), *(cell(record.varied(trial), name) for name in names)])
    return Table("The front, the knee first", columns, rows)


def space(record: Record) -> Table:
    """Each hyperparameter and its range in words."""
    info = record.info
    words = dict(info.identity["space"])
    for name, sampled in info.sampled_space.items():
        of = f" of {name}" if info.is_of_several else ""
        words |= {f"{hyperparameter}{of}": range_ for hyperparameter, range_ in sampled.items()}
    return pairs("Search space", "range", words)


def pairs(caption: str, column: str, values: Mapping[str, object]) -> Table:
    """A row for each hyperparameter."""
    return Table(caption, ["hyperparameter", column], [[name, cell(values, name)] for name in values])


def at_rungs(record: Record) -> Table:
    """What happened at each rung."""
    caption = (
        "The trials at each rung. Leaders missed: how many of those stopped would have had the best score at "
        "the next rung, estimated by those that reached it"
    )
    columns = ["epoch", "reached", "continued at once", "waited, then continued", "stopped", "leaders missed"]
    return Table(caption, columns, course.at_rungs(record))


def failures(record: Record) -> Table:
    """A row for each cause of failures."""
    rows = [
        [
            f"{len(cause.trials):,}",
            cause.status,
            cause.reason or "no reason was recorded",
            next((Link(f"trial {t.number}", t.log, t.number) for t in cause.trials if t.log), ""),
        ]
        for cause in course.causes_of(record.trials)
    ]
    columns = ["trials", "status", "reason", "log"]
    return Table("Trials that failed, diverged or are infeasible, by cause", columns, rows)


def attempts(record: Record) -> Table:
    """How trials ended before they were trained again."""
    columns = ["trial", "attempt", "status", "reason", "epochs", "trained", "log"]
    rows = [
        [trial.number, nth, row.status, why, len(row.epochs), duration(row.seconds), row.log or ""]
        for trial in record.trials
        for nth, row, why in attempts_of(trial)
    ]
    caption = "Earlier attempts of trials that were trained again"
    return Table(caption, columns, [[*map(str, row)] for row in rows])


def attempts_of(trial: TrialRow) -> list[tuple[int, TrialRow, str]]:
    """Its earlier attempts, from 1, each with the reason of its end."""
    return [
        (nth, row, after.opened_for if row.status == "unfinished" else row.reason)
        for nth, (row, after) in enumerate(itertools.pairwise([*trial.attempts, trial]), start=1)
    ]


def ranked(record: Record) -> list[TrialRow]:
    """The trials of the search, the best one or the front first; those that did not end well, or have no
    score, come last."""
    order = dict.fromkeys([*record.front(), *record.leaders(len(record.searched))])
    others = [trial for trial in record.searched if trial.number not in order]
    return [*(record.trials[number] for number in order), *others]


def ranking(record: Record) -> Table:
    """All trials, the best ones first; the number of each leads to its log."""
    trials, codes = ranked(record), record.codes()
    order = "by the score of their best epoch"
    if record.objectives.are_several:
        order = "the front first, then those that it dominates"
    model = ["trainable"] if record.info.is_of_several else []
    optional: Mapping[str, Callable[[TrialRow], str]] = {
        "micro-batch": lambda trial: short(trial.micro_batch),
        "code": lambda trial: codes[trial.number] if codes else "",
        "tags": lambda trial: " ".join(trial.tags),
        "note": lambda trial: trial.note,
    }
    shown = [name for name, of in optional.items() if any(map(of, trials))]
    names = list(dict.fromkeys(name for trial in trials for name in record.varied(trial)))
    columns = ["trial", *model, "status", *record.objectives.metrics, "in epoch", "epochs", *shown, *names]
    rows = []
    for trial in trials:
        number, params = number_of(trial), record.varied(trial)
        values = trial.values(record.objectives) or [None] * len(record.objectives.every)
        rows.append(
            [
                Link(number, trial.log, trial.number) if trial.log else number,
                *([trial.trainable] if model else []),
                trial.status,
                *map(short, (*values, trial.best_epoch(record.objective), len(trial.epochs))),
                *(optional[name](trial) for name in shown),
                *(cell(params, name) for name in names),
            ]
        )
    logs = ". A number leads to the log of its trial" if any(trial.log for trial in trials) else ""
    return Table(f"All {len(trials):,} trials, {order}{logs}", columns, rows)


def number_of(trial: TrialRow) -> str:
    """`7`, and `7 (your defaults)` of a baseline."""
    return f"{trial.number} ({DEFAULTS})" if trial.origin == DEFAULTS else str(trial.number)


def best_hyperparameters(record: Record) -> Table:
    """All that the best trial was trained with."""
    if (best := record.best()) is None:
        return pairs("", "value", {})
    last = {name: name.rpartition(".")[2] for name in best.fixed}
    settings = {name: value for name, value in best.fixed.items() if last[name] not in NO_HYPERPARAMETERS}
    return pairs(f"Hyperparameters of trial {best.number}", "value", {**best.params, **settings})


def next_ranges(record: Record, changes: Sequence[Change]) -> Table:
    """The ranges of the next sweep."""
    caption = "The ranges that --refine takes, unless Params refuses an end"
    if record.objectives.are_several:
        caption = "The ranges that the trials suggest for another sweep"
    return Table(caption, ["hyperparameter", "range", "next range", "why"], [list(each) for each in changes])
