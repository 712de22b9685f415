"""The screen while a sweep runs: Tune's CLIReporter, with the trials of the record.

On a terminal a bar and a table that are redrawn in place; in a file or a pipe, a line for each trial that
ends, and two lines every minute.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from ray.tune import CLIReporter
from ray.tune.experiment import Trial
from rich.console import Console, Group
from rich.live import Live
from rich.measure import Measurement
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sweeps.common.cli.terminal import Cell
from sweeps.common.formatting import cell, count
from sweeps.execution.output import status_lines
from sweeps.execution.output.time_left import TimeLeft, TimeLeftTeller
from sweeps.execution.run_context import RunContext
from sweeps.ray_cluster.ray_internals import KeptHere
from sweeps.record.sweep_info import NotedTimeLeft
from sweeps.record.trials import BAD, TrialRow

_COLOURS = {
    "finished": "green",
    "pruned": "yellow",
    "stopped": "cyan",
    "failed": "red",
    "diverged": "magenta",
    "infeasible": "blue",
}
STATUS_EVERY_S = 60.0
"""In a file or a pipe."""
MOST_AT_END = 40
"""Trials in the last table."""
Column = tuple[str, Callable[[TrialRow], str | Text]]
"""Title, and the cell of a trial."""


class SweepReporter(KeptHere, CLIReporter):
    """Shows trials, the best so far, epochs trained and saved, the time elapsed and the time left.

    Args:
        slots: trials that may train now.
        of_reruns: whether the best trials are trained again with new seeds; then the reruns are shown.
    """

    def __init__(
        self,
        context: RunContext,
        slots: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
        of_reruns: bool = False,
    ) -> None:
        self._context, self._record, self._disk = context, context.record, context.disk
        self._of_reruns = of_reruns
        self._running: set[int] = set()
        """Trials that have a process."""
        self._time_left = TimeLeftTeller(context, slots)
        self._clock, self._status_next = clock, clock() + STATUS_EVERY_S
        self._all_began = False
        self._told = {trial.number for trial in self._trials if trial.status != "unfinished"}
        """Trials whose end was told, now or in an earlier run."""
        self.console = context.console
        self._live: Live | None = None
        super().__init__(max_report_frequency=1)

    def report(self, trials: list[Any], done: bool, *sys_info: str) -> None:
        """Redraw, or print where there is nothing to redraw; a closed pipe or terminal ends no sweep."""
        self._running = {trial.config["number"] for trial in trials if trial.status == Trial.RUNNING}
        with contextlib.suppress(OSError):
            self._show(done)

    def redraw(self) -> None:
        """The same while Tune's loop waits, and nothing trains."""
        self.report([], False)

    def close(self) -> None:
        """Give the terminal back."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _show(self, done: bool) -> None:
        if not self._is_drawn:
            self._log(done)
            return
        left = self._estimate(done)
        head = status_lines.filled(self._status(done, left), self._screen.width)
        room = MOST_AT_END if done else max(5, self._screen.height - head.count("\n") - 6)
        bar = [] if done else [self._bar(left)]
        drawn = Group(*bar, Text(head), self._table(done, room))
        if self._context.cell is not None:
            self._context.cell.draw(drawn)
            return
        if self._live is None:
            self._live = Live(console=self.console, auto_refresh=False)
            self._live.start()
        self._live.update(drawn, refresh=True)
        if done:
            self.close()

    def _estimate(self, done: bool) -> TimeLeft | None:
        """The time left, which others that share the PCs are told, too."""
        left = None if done else self._time_left.now()
        budget_s = self._context.left_s
        most_s = math.inf if budget_s is None else budget_s
        self._context.places.left_s = None if left is None else min(left.best_s, most_s)
        if left is not None:
            self._note(NotedTimeLeft(min(left.best_s, most_s), time.time()))
        return left

    def _note(self, left: NotedTimeLeft) -> None:
        """Write the time left for pages, where the one that was written last has become wrong."""
        before = self._record.info.time_left
        if before is not None:
            wrong_s = abs(before.time + before.seconds - left.time - left.seconds)
            if 0 <= left.time - before.time < STATUS_EVERY_S or wrong_s < max(30.0, left.seconds / 10):
                return
        self._record.note("time_left", vars(left))

    @property
    def _screen(self) -> Console | Cell:
        """What is drawn on."""
        return self._context.cell or self.console

    @property
    def _is_drawn(self) -> bool:
        """Whether it is drawn again in place, not printed line by line."""
        is_terminal = self.console.is_terminal and not self.console.is_dumb_terminal
        return self._context.cell is not None or is_terminal

    def _bar(self, left: TimeLeft | None) -> Table:
        """How many epochs are trained of those that the sweep is expected to train."""
        trained = sum(len(trial.epochs) for trial in self._record.trials)
        total = trained + (left.epochs if left is not None else 0)
        of = f" of about {round(total):,}" if left is not None else ""
        row = Table.grid(padding=(0, 1))
        bar = ProgressBar(total or 1, trained, self._screen.width // 3, style="bright_black")
        bar.complete_style = bar.finished_style = "green"
        row.add_row(bar, f"{trained:,}{of} epochs; {self._time_left.in_words(left)}")
        return row

    def _log(self, done: bool) -> None:
        """The trials that have ended since the last time; the status once the first trials train, and every
        minute."""
        time_left = self._estimate(done)
        left = "" if done else f"; {self._time_left.in_words(time_left)}"
        self._told -= {trial.number for trial in self._trials if trial.status == "unfinished"}
        new = [t for t in self._trials if t.status != "unfinished" and t.number not in self._told]
        for trial in sorted(new, key=lambda trial: trial.end or 0.0):
            self._told.add(trial.number)
            how_far = f"{len(self._told)}/{self._planned} ended"
            line = f"{status_lines.ended(self._record, trial)}; {how_far}{left}"
            self._context.show(line)
        if done or self._begin() or self._clock() >= self._status_next:
            self._status_next = self._clock() + STATUS_EVERY_S
            self._context.show(self._status(done, time_left))
            if done:
                self.console.print(self._table(True, MOST_AT_END), soft_wrap=True)

    def _begin(self) -> bool:
        """Whether all that are to train now do so for the first time."""
        live = [trial for trial in self._record.live if not trial.epochs]
        begins = bool(self._running) and all(trial.number in self._running for trial in live)
        self._all_began, before = self._all_began or begins, self._all_began
        return self._all_began and not before

    def _status(self, done: bool, time_left: TimeLeft | None) -> str:
        """Lines on the whole sweep, in a log with the time left; on a terminal the bar has that."""
        record, config = self._record, self._context.config
        left = "" if done or self._is_drawn else self._time_left.in_words(time_left)
        if self._of_reruns:
            lines = status_lines.summary_of_reruns(record, left)
        else:
            beside_bar = self._is_drawn and not done
            lines = status_lines.summary(record, config, left, self._waits, beside_bar=beside_bar)
        waits = "" if done or self._running else self._context.places.waits
        return f"{lines}; {self._disk.in_words(is_last=done)}{f'; {waits}' if waits else ''}"

    def _waits(self, trial: TrialRow) -> bool:
        return trial.number not in self._running

    @property
    def _planned(self) -> int:
        if self._of_reruns:
            return len(self._trials) + len(self._record.reruns_to_come())
        return self._record.most_trials

    @property
    def _trials(self) -> Sequence[TrialRow]:
        if self._of_reruns:
            return [trial for trial in self._record.trials if trial.confirms is not None]
        return self._record.searched

    def _table(self, whole: bool, room: int) -> Table:
        """The trials, as wide as the screen: no number is ever cut. Titles fold first; in the end the
        hyperparameters that do not fit are left out, and counted below."""
        trials = self._rows(room)
        names = list(dict.fromkeys(name for trial in trials for name in self._record.varied(trial)))
        layouts = [(len(names), False), *((shown, True) for shown in range(len(names), -1, -1))]
        options = self.console.options.update(max_width=10_000)
        for shown, folds in layouts:
            table = self._drawn(trials, self._columns(names[:shown], whole), names[shown:], folds)
            if Measurement.get(self.console, options, table).maximum <= self._screen.width:
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
        best = self._record.front()
        for trial in trials:
            is_best = trial.number in best
            table.add_row(*(cell(trial) for _, cell in columns), style="bold" if is_best else None)
        hidden = len(self._trials) - len(trials)
        notes = [f"and {count(hidden, 'more trial')}"] if hidden > 0 else []
        if left_out:
            notes.append(f"+{count(len(left_out), 'column')}: report")
        if notes:
            table.caption, table.caption_justify = Text("; ".join(notes), style="dim"), "left"
        return table

    def _columns(self, names: Sequence[str], whole: bool) -> list[Column]:
        objective = self._record.objective

        def status(trial: TrialRow) -> Text:
            word = trial.status if whole else status_lines.progress(trial, self._waits)
            return Text(word, style=_COLOURS.get(word, ""))

        def last(name: str) -> Column:
            if name == objective.metric:
                return name, lambda trial: _four_digits(trial.last_score)
            return name, lambda trial: _four_digits(trial.last_metrics.get(name))

        def param(name: str) -> Column:
            return name, lambda trial: cell(self._record.varied(trial), name)

        columns: list[Column] = [("trial", lambda trial: str(trial.number))]
        if self._of_reruns:
            columns.append(("rerun of", lambda trial: str(trial.confirms)))
            columns.append(("seed", lambda trial: str(trial.seed)))
        columns.append(("status", status))
        if len(self._context.config.trainables) > 1:
            columns.append(("trainable", lambda trial: trial.trainable))
        if any(trial.micro_batches for trial in self._trials):
            columns.append(("micro_batch", lambda trial: str(trial.micro_batch or "")))
        if codes := self._record.codes():
            columns.append(("code", lambda trial: codes[trial.number]))
        columns.append(("epoch", lambda trial: str(max(trial.epochs, default=0))))
        columns += map(last, self._record.objectives.metrics)
        columns.append(("best", lambda trial: _four_digits(trial.best_score(objective))))
        return [*columns, *map(param, names)]

    def _rows(self, room: int) -> list[TrialRow]:
        """The best trial, those that train, then the others from best to worst, as many as the screen holds;
        with several objectives the front, then the others by the first one."""
        objective, leader = self._record.objective, self._record.best()
        of_front = self._record.front() if self._record.objectives.are_several else []
        places = {number: place for place, number in enumerate(of_front)}

        def rank(trial: TrialRow) -> tuple[bool, bool, float, bool, float]:
            score, place = trial.best_score(objective), places.get(trial.number, math.inf)
            is_last = score is None or trial.status in BAD
            by_score = -objective.sign * (score or 0.0)
            return trial is not leader, trial.status != "unfinished", place, is_last, by_score

        return sorted(self._trials, key=rank)[:room]


def _four_digits(value: float | None) -> str:
    """A metric, with the zeros at its end: so the points of a column stand below each other."""
    return "" if value is None else f"{value:#.4g}".rstrip(".")
