"""The screen while a sweep runs: Tune's CLIReporter, showing the record.

On a terminal one table that is redrawn in place; into a file or a pipe, a few lines now and then.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from ray.tune import CLIReporter
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sweeps.common.formatting import duration, short
from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.driver import Driver
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow, Waits

_COLOURS = {"finished": "green", "pruned": "yellow", "failed": "red", "diverged": "magenta"}


class SweepReporter(CLIReporter):
    """Shows trials, the best so far, epochs trained and saved, time gone and time left."""

    def __init__(self, driver: Driver) -> None:
        self._config, self._record, self._disk = driver.config, driver.record, driver.disk
        self._expected_epochs = driver.plan.expected_epochs
        self._waits = driver.plan.waits(driver.record)
        self.console = driver.console
        self._live: Live | None = None
        super().__init__(max_report_frequency=1 if self.console.is_terminal else 15)

    def __reduce__(self) -> tuple[Any, ...]:
        """Tuner pickles all that it is given; a terminal can't be."""
        return CLIReporter, ()

    def report(self, trials: list[Any], done: bool, *sys_info: str) -> None:
        """Redraw, or print where there is nothing to redraw; a closed pipe or terminal ends no sweep."""
        with contextlib.suppress(OSError):
            self._show(done)

    def _show(self, done: bool) -> None:
        status = f"{self._summary()}; {self._disk.in_words}"
        view = Group(Text(status), self._table(whole=done))
        if not self.console.is_terminal:
            self.console.print(view if done else Text(status), soft_wrap=True)
            return
        if self._live is None:
            self._live = Live(console=self.console, auto_refresh=False)
            self._live.start()
        self._live.update(view, refresh=True)
        if done:
            self.close()

    def _summary(self) -> str:
        return summary(self._record, self._config, self._expected_epochs, self._waits)

    @property
    def _trials(self) -> Sequence[TrialRow]:
        """Those to show."""
        return self._record.searched

    def close(self) -> None:
        """Give the terminal back."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _table(self, whole: bool) -> Table:
        table = Table(box=None, pad_edge=False)
        for title in self._first_columns():
            table.add_column(title, justify="right")
        table.add_column("status")
        if len(self._config.trainables) > 1:
            table.add_column("trainable")
        table.add_column("epoch", justify="right")
        table.add_column(self._config.objective.metric, justify="right")
        table.add_column("best", justify="right")
        rows = self._rows(whole)
        hyperparameters = list(dict.fromkeys(name for trial in rows for name in trial.params))
        for name in hyperparameters:
            table.add_column(name, justify="right")
        best = self._record.best()
        for trial in rows:
            word = trial.status if whole else _word(trial, self._waits)
            table.add_row(*self._cells(trial, word, hyperparameters), style="bold" if trial is best else None)
        hidden = len(self._trials) - table.row_count
        if hidden > 0:
            table.caption, table.caption_justify = f"and {hidden} more", "left"
        return table

    def _first_columns(self) -> dict[str, Callable[[TrialRow], str]]:
        return {"trial": lambda trial: str(trial.number)}

    def _rows(self, whole: bool) -> list[TrialRow]:
        """Those that train, then the others from best to worst, as many as the screen holds."""
        objective = self._config.objective

        def rank(trial: TrialRow) -> tuple[bool, bool, float]:
            score = trial.best_score(objective)
            return trial.status != "unfinished", score is None, -objective.sign * (score or 0.0)

        trials = sorted(self._trials, key=rank)
        room = max(5, self.console.height - 6) if self.console.is_terminal and not whole else 40
        return trials[:room]

    def _cells(self, trial: TrialRow, word: str, hyperparameters: list[str]) -> list[Text | str]:
        last = trial.epochs[max(trial.epochs)].score if trial.epochs else None
        return [
            *(cell(trial) for cell in self._first_columns().values()),
            Text(word, style=_COLOURS.get(word, "")),
            *([trial.trainable] if len(self._config.trainables) > 1 else []),
            str(max(trial.epochs, default=0)),
            short(last),
            short(trial.best_score(self._config.objective)),
            *(short(trial.params.get(name)) for name in hyperparameters),
        ]


class RerunReporter(SweepReporter):
    """The same while the best trials are trained again with new seeds."""

    def _summary(self) -> str:
        return summary_of_reruns(self._record, self._config)

    @property
    def _trials(self) -> Sequence[TrialRow]:
        return [trial for trial in self._record.trials if trial.confirms is not None]

    def _first_columns(self) -> dict[str, Callable[[TrialRow], str]]:
        columns = {"reruns": lambda trial: str(trial.confirms), "seed": lambda trial: str(trial.seed)}
        return {**super()._first_columns(), **columns}


def _word(trial: TrialRow, waits: Waits | None) -> str:
    """The status of a trial while its sweep runs."""
    if trial.status != "unfinished":
        return trial.status
    return "waiting" if waits is not None and waits(trial) else "training"


def summary(record: Record, config: SweepConfig, expected_epochs: float, waits: Waits | None = None) -> str:
    """Two lines on the whole sweep; `expected_epochs` are those of the plan, for the time that is left."""
    elapsed_s = record.elapsed_s
    counts = dict.fromkeys(("finished", "pruned", "failed", "diverged", "training", "waiting"), 0)
    epochs = saved = ended_epochs = 0
    good = (trial for trial in record.searched if trial.status not in ("failed", "diverged"))
    best = record.objective.best(good, lambda trial: trial.best_score(record.objective))
    for trial in record.searched:
        counts[_word(trial, waits)] += 1
        epochs += len(trial.epochs)
        if trial.status != "unfinished":
            ended_epochs += len(trial.epochs)
        if trial.status == "pruned":
            saved += config.max_epochs - len(trial.epochs)
    live = counts["training"] + counts["waiting"]
    ended = len(record.searched) - live
    left_s = None
    if ended and epochs and config.num_trials and live:
        # Those that end first have trained least, so what has ended alone would promise too much.
        expected = max(expected_epochs, ended_epochs / ended * config.num_trials)
        left_s = max(0.0, expected - epochs) * elapsed_s / epochs
    states = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    found = "none yet"
    if best is not None:
        score, epoch = short(best.best_score(record.objective)), best.best_epoch(record.objective)
        found = f"{score} (trial {best.number}, epoch {epoch})"
    time_left = "" if left_s is None else f", about {duration(left_s)} left"
    return (
        f"trials {ended}/{config.num_trials} ended ({states}); best {config.objective.metric} {found}\n"
        f"epochs {epochs:,} trained, {saved:,} saved by pruning; {duration(elapsed_s)} gone{time_left}"
    )


def summary_of_reruns(record: Record, config: SweepConfig) -> str:
    """Two lines on the reruns of the top, as `summary` has them of the search."""
    reruns = {number: record.reruns.of(number) for number in record.reruns.numbers}
    begun = [rerun for of_trial in reruns.values() for rerun in of_trial]
    ended = [rerun for rerun in begun if rerun.status != "unfinished"]
    means = []
    for number, of_trial in reruns.items():
        scores = [rerun.best_score(record.objective) for rerun in of_trial if rerun.status == "finished"]
        if finite := [score for score in scores if score is not None]:
            means.append(f"trial {number} {short(statistics.fmean(finite))} of {len(finite)}")
    epochs = sum(len(rerun.epochs) for rerun in begun)
    seconds = sum(row.seconds for rerun in begun for row in rerun.epochs.values())
    to_train = (len(begun) + len(record.reruns_to_come()) - len(ended)) * config.max_epochs
    to_train -= sum(len(rerun.epochs) for rerun in begun if rerun.status == "unfinished")
    training = sum(rerun.status == "unfinished" for rerun in begun)
    time_left = ""
    if training and epochs:
        time_left = f", about {duration(to_train * seconds / epochs / training)} left"
    return (
        f"reruns {len(ended)}/{len(begun) + len(record.reruns_to_come())} ended; "
        f"mean {config.objective.metric} {', '.join(means) or 'none yet'}\n"
        f"epochs {epochs:,} trained again; {duration(record.elapsed_s)} gone{time_left}"
    )
