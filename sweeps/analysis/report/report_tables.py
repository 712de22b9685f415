"""The tables of a report."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sweeps.analysis import pruning
from sweeps.analysis.failure_causes import causes_of
from sweeps.analysis.new_ranges import Change
from sweeps.analysis.sweep import Sweep
from sweeps.common.formatting import cell, duration, short
from sweeps.record.trials import DEFAULTS, TrialRow

NO_HYPERPARAMETERS = ("_target_", "_partial_", "_convert_", "_recursive_")
"""Keys by which Hydra builds an object, which are left out where they are fixed."""
MOST_ROWS = 20
"""That are shown before the reader asks for all."""


class Link(NamedTuple):
    """A cell that leads somewhere."""

    text: str
    address: str


@dataclass(frozen=True)
class Table:
    """Rows of text; one without a row is not shown."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | Link]]

    @property
    def is_folded(self) -> bool:
        """Whether the first rows alone are shown at first."""
        return len(self.rows) > MOST_ROWS


def front(sweep: Sweep) -> Table:
    """The trials of the front; no rows with one objective."""
    record = sweep.record
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


def space(sweep: Sweep) -> Table:
    """Each hyperparameter and its range in words."""
    info = sweep.record.info
    words = dict(info.identity["space"])
    for name, sampled in info.sampled_space.items():
        of = f" of {name}" if info.is_of_several else ""
        words |= {f"{hyperparameter}{of}": range_ for hyperparameter, range_ in sampled.items()}
    return pairs("Search space", "range", words)


def pairs(caption: str, column: str, values: Mapping[str, object]) -> Table:
    """A row for each hyperparameter."""
    return Table(caption, ["hyperparameter", column], [[name, cell(values, name)] for name in values])


def at_rungs(sweep: Sweep) -> Table:
    """What happened at each rung."""
    caption = (
        "The trials at each rung. Leaders missed: how many of those stopped would have had the best score at "
        "the next rung, estimated by those that reached it"
    )
    columns = ["epoch", "reached", "continued at once", "waited, then continued", "stopped", "leaders missed"]
    return Table(caption, columns, pruning.at_rungs(sweep.record))


def failures(sweep: Sweep) -> Table:
    """A row for each cause of failures."""
    rows = [
        [
            f"{len(cause.trials):,}",
            cause.status,
            cause.reason or "no reason was recorded",
            next((Link(f"trial {each.number}", each.log) for each in cause.trials if each.log), ""),
        ]
        for cause in causes_of(sweep.record.trials)
    ]
    columns = ["trials", "status", "reason", "log"]
    return Table("Trials that failed, diverged or are infeasible, by cause", columns, rows)


def attempts(sweep: Sweep) -> Table:
    """How trials ended before they were trained again."""
    columns = ["trial", "attempt", "status", "reason", "epochs", "trained", "log"]
    rows = [
        [trial.number, nth, row.status, why, len(row.epochs), duration(row.seconds), row.log or ""]
        for trial in sweep.record.trials
        for nth, (row, after) in enumerate(itertools.pairwise([*trial.attempts, trial]), start=1)
        for why in [after.opened_for if row.status == "unfinished" else row.reason]
    ]
    caption = "Earlier attempts of trials that were trained again"
    return Table(caption, columns, [[*map(str, row)] for row in rows])


def ranked(sweep: Sweep) -> list[TrialRow]:
    """The trials of the search, the best one or the front first; those that did not end well, or have no
    score, come last."""
    record = sweep.record
    order = dict.fromkeys([*record.front(), *record.leaders(len(record.searched))])
    others = [trial for trial in record.searched if trial.number not in order]
    return [*(record.trials[number] for number in order), *others]


def ranking(sweep: Sweep) -> Table:
    """All trials, the best ones first; the number of each leads to its log."""
    record, trials = sweep.record, ranked(sweep)
    order = "by the score of their best epoch"
    if record.objectives.are_several:
        order = "the front first, then those that it dominates"
    objective, several = record.objective, record.info.is_of_several
    hyperparameters = list(dict.fromkeys(name for trial in trials for name in record.varied(trial)))
    trainable = ["trainable"] if several else []
    columns = ["trial", *trainable, "status", *record.objectives.metrics, "in epoch", "epochs"]
    is_split = any(trial.micro_batches for trial in trials)
    codes = record.codes()
    own = [name for name in ("tags", "note") if any(getattr(trial, name) for trial in trials)]
    columns += [*(["micro-batch"] if is_split else []), *(["code"] if codes else []), *own, *hyperparameters]
    rows = []
    for trial in trials:
        number = f"{trial.number} ({DEFAULTS})" if trial.origin == DEFAULTS else str(trial.number)
        cells: list[Any] = [*([trial.trainable] if several else []), trial.status]
        cells += trial.values(record.objectives) or [None] * len(record.objectives.every)
        cells += [trial.best_epoch(objective), len(trial.epochs)]
        cells += [trial.micro_batch or ""] if is_split else []
        cells += [codes[trial.number]] if codes else []
        cells += [" ".join(trial.tags) if name == "tags" else trial.note for name in own]
        params = record.varied(trial)
        rows.append(
            [
                Link(number, trial.log) if trial.log else number,
                *map(short, cells),
                *(cell(params, name) for name in hyperparameters),
            ]
        )
    logs = ". A number leads to the log of its trial" if any(trial.log for trial in trials) else ""
    return Table(f"All {len(trials):,} trials, {order}{logs}", columns, rows)


def best_hyperparameters(sweep: Sweep) -> Table:
    """All that the best trial was trained with."""
    if (best := sweep.record.best()) is None:
        return pairs("", "value", {})
    last = {name: name.rpartition(".")[2] for name in best.fixed}
    settings = {name: value for name, value in best.fixed.items() if last[name] not in NO_HYPERPARAMETERS}
    return pairs(f"Hyperparameters of trial {best.number}", "value", {**best.params, **settings})


def next_ranges(sweep: Sweep, changes: Sequence[Change]) -> Table:
    """The ranges of the next sweep."""
    caption = "The ranges that --refine takes, unless Params refuses an end"
    if sweep.record.objectives.are_several:
        caption = "The ranges that the trials suggest for another sweep"
    return Table(caption, ["hyperparameter", "range", "next range", "why"], [list(each) for each in changes])
