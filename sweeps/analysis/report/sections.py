"""What the report and the page in the browser show of a sweep: a summary, and sections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sweeps.analysis import advice
from sweeps.analysis.advice import Step
from sweeps.analysis.report import confidence, report_tables, sentences
from sweeps.analysis.report.report_tables import Table
from sweeps.analysis.sweep import Sweep
from sweeps.record import status


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


def sections(sweep: Sweep) -> list[Section]:
    """Those that have something to show, in order."""
    return [found for make in SECTIONS.values() if (found := make(sweep)) is not None]


def _result(sweep: Sweep) -> Section:
    record = sweep.record
    figures = (
        *(["front"] if record.objectives.are_several else []),
        *(["history"] if record.has_epochs else []),
        *(["seeds"] if record.rerun_trials else []),
    )
    return Section(
        "Result",
        [sentences.result(sweep), *sentences.troubles(sweep), *confidence.confidence(sweep)],
        command=confidence.to_confirm(sweep),
        tables=[report_tables.front(sweep), report_tables.best_hyperparameters(sweep)],
        figures=figures,
    )


def _next_steps(sweep: Sweep) -> Section:
    if status.is_running(sweep.record):
        how = status.status(sweep.record)
        return Section("Next steps", [f"The sweep is {how}: what is next follows at its end."])
    advised = advice.advise(sweep)
    tables = [report_tables.next_ranges(sweep, advised.changes)]
    return Section("Next steps", advised.basis, steps=advised.steps, tables=tables)


def _trials(sweep: Sweep) -> Section | None:
    return Section("Trials", tables=[report_tables.ranking(sweep)]) if sweep.record.trials else None


def _learning(sweep: Sweep) -> Section | None:
    if not sweep.record.has_epochs:
        return None
    return Section(
        "Learning and pruning",
        [sentences.pruning(sweep)],
        tables=[report_tables.at_rungs(sweep)],
        figures=["learning_curves", "metrics"],
    )


def _hyperparameters(sweep: Sweep) -> Section | None:
    if not sweep.record.has_epochs:
        return None
    first = f"These figures are by {sweep.record.objective.metric}, the first objective, alone."
    return Section(
        "Hyperparameters",
        [first] if sweep.record.objectives.are_several else [],
        figures=["importance", "parallel_coordinates", "slices", "contour"],
    )


def _cost(sweep: Sweep) -> Section | None:
    if not sweep.record.has_epochs:
        return None
    return Section("Cost", [sentences.cost(sweep)], figures=["time_spent", "utilization", "timeline"])


def _failures(sweep: Sweep) -> Section | None:
    tables = [report_tables.failures(sweep), report_tables.attempts(sweep)]
    if not any(table.rows for table in tables):
        return None
    retry = status.retry_command(sweep.record)
    said = ["This command trains those again that failed:"] if retry else []
    return Section("Failures", said, command=retry, tables=tables)


def _settings(sweep: Sweep) -> Section:
    tables = [report_tables.space(sweep)]
    return Section("Settings and search space", sentences.settings(sweep), tables=tables)


SECTIONS: Mapping[str, Callable[[Sweep], Section | None]] = {
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
