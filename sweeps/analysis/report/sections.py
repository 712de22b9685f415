"""What the report and the page in the browser show of a sweep: a summary, and sections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sweeps.analysis import advice
from sweeps.analysis.advice import Step
from sweeps.analysis.figures import costs
from sweeps.analysis.report import confidence, report_tables, sentences
from sweeps.analysis.report.report_tables import Link, Table
from sweeps.analysis.sweep import Sweep
from sweeps.common.formatting import count, duration, short
from sweeps.record import status
from sweeps.record.record import Record
from sweeps.record.trials import BAD, Status


class Tile(NamedTuple):
    """A figure of the summary."""

    label: str
    value: str
    note: str
    """A few words that say of what it is."""


def summary(record: Record) -> list[Tile]:
    """Best score, gain over the defaults or the time taken, trials, and what pruning saved."""
    spent, statuses = costs.spent(record), Counter(trial.status for trial in record.searched)
    told: tuple[Status, ...] = ("pruned", *BAD)
    ended = len(record.searched) - statuses["unfinished"]
    kept = (f"{statuses[each]:,} {each}" for each in told if statuses[each])
    trained = ", ".join([count(spent.epochs, "epoch"), *kept])
    trials = f"{ended:,} of {max(record.most_trials, len(record.searched)):,}"
    training = f"{sentences.device_time(spent.device_hours, spent.devices)} of training"
    time, gain = Tile("Time", duration(record.elapsed_s), training), _gain(record)
    tiles = [_best(record), gain or time, Tile("Trials ended", trials, trained)]
    if spent.saved_epochs:
        whole = spent.epochs + spent.saved_epochs
        note = f"{spent.saved_epochs:,} of {count(whole, 'epoch')}"
        saved = f"{note}, {sentences.device_time(spent.saved_hours, spent.devices)}"
        tiles.append(Tile("Saved by pruning", f"{100 * spent.saved_epochs / whole:.0f} %", saved))
    elif gain is not None:
        tiles.append(time)
    return tiles


def _best(record: Record) -> Tile:
    label, best = f"Best {record.objective.metric}", record.best()
    if best is None:
        return Tile(label, "none", "no trial has a score yet" if record.live else "no trial ended well")
    values, note = record.front_values()[best.number], f"trial {best.number}"
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
    """How much better the best trial is than the best of the defaults; None where none has a score that
    counts."""
    best, objective = record.best(), record.objective
    losses = ((trial, trial.losses(record.objectives)) for trial in record.baselines)
    # One that has not ended may miss a constraint, too.
    sound = [trial for trial, found in losses if trial.status not in BAD and found and not found[0]]
    defaults = objective.best(sound, lambda trial: trial.best_score(objective))
    score = None if defaults is None else defaults.best_score(objective)
    if best is None or defaults is None or score is None:
        return None
    gain = record.front_values()[best.number][0] - score
    value = "none" if gain * objective.sign <= 0 else f"{gain:+.4g}"
    return Tile("Gain over your defaults", value, f"they had {short(score)} (trial {defaults.number})")


@dataclass(frozen=True)
class Section:
    """A part: sentences, steps, a command, tables and figures, in this order."""

    title: str
    sentences: Sequence[str] = ()
    steps: Sequence[Step] = ()
    command: str = ""
    tables: Sequence[Table] = ()
    """One without a row is not shown."""
    figures: Sequence[str] = ()
    """By their names in `figures.FIGURES`: `page.figure` draws one."""

    @property
    def name(self) -> str:
        """That of its anchor: `next-steps`."""
        return self.title.lower().replace(" ", "-")

    def leading(self, to: Callable[[Link], str]) -> Section:
        """The same with other addresses of its links."""

        def moved(cell: str | Link) -> str | Link:
            return cell if isinstance(cell, str) else cell._replace(address=to(cell))

        tables = [replace(table, rows=[[*map(moved, row)] for row in table.rows]) for table in self.tables]
        return replace(self, tables=tables)


def sections(record: Record) -> list[Section]:
    """Those that have something to show, in order."""
    return [found for make in SECTIONS.values() if (found := make(record)) is not None]


def _result(record: Record) -> Section:
    figures = (
        *(["front"] if record.objectives.are_several else []),
        *(["history"] if record.has_epochs else []),
        *(["seeds"] if record.rerun_trials else []),
    )
    return Section(
        "Result",
        [sentences.result(record), *sentences.troubles(record), *confidence.confidence(record)],
        command=confidence.to_confirm(record),
        tables=[report_tables.front(record), report_tables.best_hyperparameters(record)],
        figures=figures,
    )


def _next_steps(record: Record) -> Section:
    if status.is_running(record):
        said = f"The sweep is {status.status(record)}: what is next follows at its end."
        return Section("Next steps", [said])
    advised = advice.advise(Sweep(record))
    tables = [report_tables.next_ranges(record, advised.changes)]
    return Section("Next steps", advised.basis, steps=advised.steps, tables=tables)


def _trials(record: Record) -> Section | None:
    return Section("Trials", tables=[report_tables.ranking(record)]) if record.trials else None


def _learning(record: Record) -> Section | None:
    if not record.has_epochs:
        return None
    return Section(
        "Learning and pruning",
        [sentences.pruning(record)],
        tables=[report_tables.at_rungs(record)],
        figures=["learning_curves", "metrics"],
    )


def _hyperparameters(record: Record) -> Section | None:
    if not record.has_epochs:
        return None
    first = f"These figures are by {record.objective.metric}, the first objective, alone."
    return Section(
        "Hyperparameters",
        [first] if record.objectives.are_several else [],
        figures=["importance", "parallel_coordinates", "slices", "contour"],
    )


def _cost(record: Record) -> Section | None:
    if not record.has_epochs:
        return None
    return Section("Cost", [sentences.cost(record)], figures=["time_spent", "utilization", "timeline"])


def _failures(record: Record) -> Section | None:
    tables = [report_tables.failures(record), report_tables.attempts(record)]
    if not any(table.rows for table in tables):
        return None
    retry = status.retry_command(record)
    said = ["This command trains those again that failed:"] if retry else []
    return Section("Failures", said, command=retry, tables=tables)


def _settings(record: Record) -> Section:
    tables = [report_tables.space(record)]
    return Section("Settings and search space", sentences.settings(record), tables=tables)


SECTIONS: Mapping[str, Callable[[Record], Section | None]] = {
    "result": _result,
    "next-steps": _next_steps,
    "trials": _trials,
    "learning-and-pruning": _learning,
    "hyperparameters": _hyperparameters,
    "cost": _cost,
    "failures": _failures,
    "settings-and-search-space": _settings,
}
"""Each by its name, in order; None where it has nothing to show. Figures are not drawn by them."""
