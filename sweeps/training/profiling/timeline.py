"""Batches prepared against steps run: whether they arrive before the step before them has ended."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

TIMELINE_FILE = "timeline.png"
LOADER_LIMIT_S = 20.0
"""As long at most the loader is run by itself; what is missing then is drawn as slow as the rest."""
SHOWN = 24
"""Steps whose waiting and computing are drawn one by one."""
WAITING, COMPUTING, AS_RUN = "#D55E00", "#0072B2", "#555555"
"""Okabe and Ito's colours, which all eyes tell apart."""


class Step(NamedTuple):
    """One step, in seconds of a clock."""

    asked: float
    """For the batch."""
    began: float
    ended: float


@dataclass
class Timeline:
    """The first steps of an epoch, and the same batches prepared by themselves."""

    is_undisturbed: bool = False
    """Whether nothing else was recorded meanwhile."""
    steps: list[Step] = field(default_factory=list)
    prepared: list[float] = field(default_factory=list)
    """After how many seconds each batch was there, when nothing else ran."""

    def began(self, asked: float, began: float) -> None:
        """A batch was asked for, and is there."""
        self._open = asked, began

    def ended(self, at: float) -> None:
        """The step on it has ended."""
        self.steps.append(Step(*self._open, at))

    def run_loader_alone(self, loader: Iterable[Any]) -> None:
        """Take as many batches as there are steps, without training."""
        start = time.perf_counter()
        for _ in itertools.islice(loader, len(self.steps)):
            self.prepared.append(time.perf_counter() - start)
            if self.prepared[-1] > LOADER_LIMIT_S:
                break

    @property
    def computed(self) -> npt.NDArray[np.float64]:
        """After how many seconds each step would have ended, had all batches been there."""
        return np.cumsum([step.ended - step.began for step in self.steps])

    @property
    def in_words(self) -> str:
        """Who waits for whom."""
        if not self.prepared:
            return "no step to draw"
        batches_s, steps_s = len(self.prepared) / self.prepared[-1], len(self.steps) / self.computed[-1]
        rates = f"the loader prepares {batches_s:,.3g} batches/s, the steps use {steps_s:,.3g}"
        if batches_s < steps_s:
            return f"{rates}: batches arrive later than steps end"
        return f"{rates}: batches arrive in time"

    def draw(self, folder: Path) -> Path:
        """Write the picture into a folder; its path."""
        from matplotlib.figure import Figure  # a tenth of a second, and only here

        figure = Figure(figsize=(9, 7), layout="constrained")
        above, below = figure.subplots(2, 1, height_ratios=[3, 1])
        figure.suptitle(self.in_words, fontsize=10)
        numbers = np.arange(1, len(self.steps) + 1)
        ran = np.array([step.ended for step in self.steps]) - (self.steps[0].asked if self.steps else 0)
        above.plot(
            self.prepared,
            numbers[: len(self.prepared)],
            color=WAITING,
            label="batches prepared (the loader alone)",
        )
        above.plot(self.computed, numbers, color=COMPUTING, ls="--", label="steps computed (without waiting)")
        above.plot(ran, numbers, color=AS_RUN, ls=":", label="steps as they ran")
        above.set(xlabel="seconds", ylabel="batches")
        above.legend()
        self._draw_each(below)
        path = folder / TIMELINE_FILE
        figure.savefig(path, dpi=110)
        return path

    def _draw_each(self, axes: Any) -> None:
        shown = self.steps[:SHOWN]
        first = shown[0].asked if shown else 0.0
        bars = {
            "waits for its batch": (WAITING, [(s.asked - first, s.began - s.asked) for s in shown]),
            "computes": (COMPUTING, [(s.began - first, s.ended - s.began) for s in shown]),
        }
        for row, (color, spans) in enumerate(bars.values()):
            axes.broken_barh([(1000 * at, 1000 * long) for at, long in spans], (row - 0.4, 0.8), color=color)
        axes.set(xlabel=f"milliseconds, the first {len(shown)} steps", yticks=[0, 1], yticklabels=list(bars))
