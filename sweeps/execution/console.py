"""The screen while a sweep runs: Tune's CLIReporter, with the trials of the record.

On a terminal a table that is redrawn in place; in a file or a pipe, two lines every 15 s.
"""

from __future__ import annotations

import contextlib
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ray.tune import CLIReporter
from rich.console import Group
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from sweeps.common.formatting import count, duration, short
from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.driver import Driver
from sweeps.record.record import Record
from sweeps.record.trials import BAD, TrialRow, Waits

_COLOURS = {
    "finished": "green",
    "pruned": "yellow",
    "stopped": "cyan",
    "failed": "red",
    "diverged": "magenta",
    "infeasible": "blue",
}
_DIGITS = (4, 3, 2)
"""Significant digits of numbers: the most with which the table fits on the screen."""
_ROWS_OF_A_FILE = 40
_MOST_COLUMNS = 10_000
Column = tuple[str, Callable[[TrialRow], str | Text]]
"""Title, and the cell of a trial."""


class SweepReporter(CLIReporter):
    """Shows trials, the best so far, epochs trained and saved, the time elapsed and the time left."""

    def __init__(self, driver: Driver) -> None:
        self._driver, self._record, self._disk = driver, driver.record, driver.disk
        self._waits = driver.plan.waits(driver.record)
        self.console = driver.console
        self._live: Live | None = None
        super().__init__(max_report_frequency=1 if self.console.is_terminal else 15)

    def __reduce__(self) -> tuple[Any, ...]:
        """Tuner pickles its reporter; a terminal can't be pickled."""
        return CLIReporter, ()

    def report(self, trials: list[Any], done: bool, *sys_info: str) -> None:
        """Redraw, or print where there is nothing to redraw; a closed pipe or terminal ends no sweep."""
        with contextlib.suppress(OSError):
            self._show(done)

    def close(self) -> None:
        """Give the terminal back."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _show(self, done: bool) -> None:
        status = Text(f"{self._summary()}; {self._disk.in_words}")
        if not self.console.is_terminal:
            self.console.print(Group(status, self._table(whole=True)) if done else status, soft_wrap=True)
            return
        if self._live is None:
            self._live = Live(console=self.console, auto_refresh=False)
            self._live.start()
        self._live.update(Group(status, self._table(whole=done)), refresh=True)
        if done:
            self.close()

    def _summary(self) -> str:
        plan = self._driver.plan
        return summary(self._record, plan.config, plan.expected_epochs, self._waits)

    @property
    def _trials(self) -> Sequence[TrialRow]:
        return self._record.searched

    def _first_columns(self) -> list[Column]:
        return [("trial", lambda trial: str(trial.number))]

    def _table(self, whole: bool) -> Table:
        """The trials, as wide as the screen: no number is ever cut. Titles fold first, then numbers have
        fewer digits; in the end the hyperparameters that do not fit are left out, and named below."""
        trials = self._rows(whole)
        names = list(dict.fromkeys(name for trial in trials for name in trial.params))
        layouts = [(len(names), _DIGITS[0], False)]
        layouts += [(len(names), digits, True) for digits in _DIGITS]
        layouts += [(shown, _DIGITS[-1], True) for shown in reversed(range(len(names)))]
        options = self.console.options.update(max_width=_MOST_COLUMNS)
        for shown, digits, folds in layouts:
            table = self._drawn(trials, self._columns(names[:shown], digits, whole), names[shown:], folds)
            if Measurement.get(self.console, options, table).maximum <= self.console.width:
                break
        return table

    def _drawn(
        self, trials: Sequence[TrialRow], columns: Sequence[Column], left_out: Sequence[str], folds: bool
    ) -> Table:
        table = Table(box=None, pad_edge=False)
        for title, _ in columns:
            is_text = title in ("status", "trainable")
            folded = title.replace("_", "_\n") if folds else title
            table.add_column(folded, justify="left" if is_text else "right", vertical="bottom")
        best = self._record.best()
        for trial in trials:
            table.add_row(*(cell(trial) for _, cell in columns), style="bold" if trial is best else None)
        hidden = len(self._trials) - len(trials)
        notes = [f"and {count(hidden, 'more trial')}"] if hidden > 0 else []
        if left_out:
            notes.append(f"columns that do not fit: {', '.join(left_out)}")
        if notes:
            table.caption, table.caption_justify = Text("; ".join(notes), style="dim"), "left"
        return table

    def _columns(self, names: Sequence[str], digits: int, whole: bool) -> list[Column]:
        objective = self._record.objective

        def number(value: Any) -> str:
            return f"{value:.{digits}g}" if isinstance(value, float) else short(value)

        def status(trial: TrialRow) -> Text:
            word = trial.status if whole else _progress(trial, self._waits)
            return Text(word, style=_COLOURS.get(word, ""))

        def param(name: str) -> Column:
            return name, lambda trial: number(trial.params.get(name))

        columns: list[Column] = [*self._first_columns(), ("status", status)]
        if len(self._driver.config.trainables) > 1:
            columns.append(("trainable", lambda trial: trial.trainable))
        if any(trial.micro_batches for trial in self._trials):
            columns.append(("micro_batch", lambda trial: str(trial.micro_batch or "")))
        columns += [
            ("epoch", lambda trial: str(max(trial.epochs, default=0))),
            (objective.metric, lambda trial: number(trial.last_score)),
            ("best", lambda trial: number(trial.best_score(objective))),
        ]
        return [*columns, *map(param, names)]

    def _rows(self, whole: bool) -> list[TrialRow]:
        """The trials that train, then the others from best to worst, as many as the screen holds."""
        objective = self._record.objective

        def rank(trial: TrialRow) -> tuple[bool, bool, float]:
            score = trial.best_score(objective)
            return trial.status != "unfinished", score is None, -objective.sign * (score or 0.0)

        is_screen = self.console.is_terminal and not whole
        room = max(5, self.console.height - 6) if is_screen else _ROWS_OF_A_FILE
        return sorted(self._trials, key=rank)[:room]


class RerunReporter(SweepReporter):
    """The same while the best trials are trained again with new seeds."""

    def _summary(self) -> str:
        return summary_of_reruns(self._record, self._driver.config)

    @property
    def _trials(self) -> Sequence[TrialRow]:
        return [trial for trial in self._record.trials if trial.confirms is not None]

    def _first_columns(self) -> list[Column]:
        rerun: Column = ("rerun of", lambda trial: str(trial.confirms))
        return [*super()._first_columns(), rerun, ("seed", lambda trial: str(trial.seed))]


def _progress(trial: TrialRow, waits: Waits | None) -> str:
    """The status of a trial while its sweep runs."""
    if trial.status != "unfinished":
        return trial.status
    return "waiting" if waits is not None and waits(trial) else "training"


def summary(record: Record, config: SweepConfig, expected_epochs: float, waits: Waits | None = None) -> str:
    """Two lines on the whole sweep; the time left follows from `expected_epochs`, those of the plan."""
    trials, elapsed_s, objective = record.searched, record.elapsed_s, record.objective
    counts, planned = Counter(_progress(trial, waits) for trial in trials), record.planned_trials
    num_trials = planned[-1] if planned else config.num_trials
    live = counts["training"] + counts["waiting"]
    ended = len(trials) - live
    epochs = sum(len(trial.epochs) for trial in trials)
    saved = sum(config.max_epochs - len(trial.epochs) for trial in trials if trial.status == "pruned")
    time_left = ""
    if ended and epochs and num_trials and live:
        # The trials that end first have trained least, so by them alone the forecast would be too short.
        ended_epochs = sum(len(trial.epochs) for trial in trials if trial.status != "unfinished")
        expected = max(expected_epochs, ended_epochs / ended * num_trials)
        time_left = f", about {duration(max(0.0, expected - epochs) * elapsed_s / epochs)} left"

    def states(*words: str) -> str:
        return ", ".join(f"{counts[word]} {word}" for word in words if counts[word])

    ways = f" ({states(*_COLOURS)})" if ended else ""
    running = f"; {states('training', 'waiting')}" if live else ""
    sound = (trial for trial in trials if trial.status not in BAD)
    best = objective.best(sound, lambda trial: trial.best_score(objective))
    found = "none yet"
    if best is not None:
        score, epoch = short(best.best_score(objective)), best.best_epoch(objective)
        found = f"{score} (trial {best.number}, epoch {epoch})"
    return (
        f"trials {ended}/{num_trials} ended{ways}{running}; best {objective.metric} {found}\n"
        f"epochs {epochs:,} trained, {saved:,} saved by pruning; {duration(elapsed_s)} elapsed{time_left}"
    )


def summary_of_reruns(record: Record, config: SweepConfig) -> str:
    """Two lines on the reruns of the best trials."""
    reruns = {number: record.reruns.of(number) for number in record.reruns.numbers}
    begun = [rerun for of_trial in reruns.values() for rerun in of_trial]
    live = [rerun for rerun in begun if rerun.status == "unfinished"]
    ended, to_come = len(begun) - len(live), len(record.reruns_to_come())
    means = []
    for number, of_trial in reruns.items():
        scores = [rerun.best_score(record.objective) for rerun in of_trial if rerun.status == "finished"]
        if finite := [score for score in scores if score is not None]:
            means.append(f"trial {number} {short(statistics.fmean(finite))} ({count(len(finite), 'rerun')})")
    epochs = sum(len(rerun.epochs) for rerun in begun)
    seconds = sum(row.seconds for rerun in begun for row in rerun.epochs.values())
    time_left = ""
    if live and epochs:
        to_train = (len(live) + to_come) * config.max_epochs - sum(len(rerun.epochs) for rerun in live)
        time_left = f", about {duration(to_train * seconds / epochs / len(live))} left"
    return (
        f"reruns {ended}/{len(begun) + to_come} ended; "
        f"mean {config.objective.metric}: {', '.join(means) or 'none yet'}\n"
        f"epochs {epochs:,} trained; {duration(record.elapsed_s)} elapsed{time_left}"
    )
