"""Timeline of batches and steps: whether each batch is ready before the previous step ends."""

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
"""Seconds that the loader is run alone, at most."""
SHOWN = 24
"""Steps drawn one by one."""
WAITING, COMPUTING, AS_RUN = "#D55E00", "#0072B2", "#555555"
"""Okabe and Ito's colours, distinct also for colour-blind readers."""


class Step(NamedTuple):
    """Times of one step, in seconds of a clock."""

    asked: float
    """When the batch was requested."""
    began: float
    ended: float


@dataclass
class Timeline:
    """The first steps of an epoch, and the same batches prepared by themselves."""

    is_undisturbed: bool = False
    """Whether the trace's recording was over."""
    steps: list[Step] = field(default_factory=list)
    prepared: list[float] = field(default_factory=list)
    """Seconds after which each batch was ready when the loader ran alone."""

    def run_loader_alone(self, loader: Iterable[Any]) -> None:
        """Take as many batches as there are steps, without training."""
        start = time.perf_counter()
        for _ in itertools.islice(loader, len(self.steps)):
            self.prepared.append(time.perf_counter() - start)
            if self.prepared[-1] > LOADER_LIMIT_S:
                break

    @property
    def computed(self) -> npt.NDArray[np.float64]:
        """Seconds after which each step would have ended without waiting for data."""
        return np.cumsum([step.ended - step.began for step in self.steps])

    @property
    def in_words(self) -> str:
        """Rates of loader and training, and which one is slower."""
        if not self.prepared:
            return "no step was recorded"
        batches_s, steps_s = len(self.prepared) / self.prepared[-1], len(self.steps) / self.computed[-1]
        rates = [f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}" for rate in (batches_s, steps_s)]
        verdict = "training waits for data" if batches_s < steps_s else "batches are ready in time"
        return f"the loader prepares {rates[0]} batches/s, training uses {rates[1]}: {verdict}"

    def draw(self, folder: Path) -> Path:
        """Draw the figure into a folder; returns its path."""
        from matplotlib.figure import Figure  # heavy, and only `--profile` needs it

        figure = Figure(figsize=(9, 7), layout="constrained")
        above, below = figure.subplots(2, 1, height_ratios=[3, 1])
        figure.suptitle(self.in_words, fontsize=10)
        numbers = np.arange(1, len(self.steps) + 1)
        ran = np.array([step.ended for step in self.steps]) - (self.steps[0].asked if self.steps else 0)
        loaded = numbers[: len(self.prepared)]
        above.plot(self.prepared, loaded, color=WAITING, label="batches prepared, loader alone")
        above.plot(self.computed, numbers, color=COMPUTING, ls="--", label="steps, without waiting for data")
        above.plot(ran, numbers, color=AS_RUN, ls=":", label="steps, as they ran")
        above.set(xlabel="time [s]", ylabel="batches")
        above.legend()
        self._draw_steps(below)
        path = folder / TIMELINE_FILE
        figure.savefig(path, dpi=110)
        return path

    def _draw_steps(self, axes: Any) -> None:
        shown = self.steps[:SHOWN]
        first = shown[0].asked if shown else 0.0
        bars = {
            "waiting for data": (WAITING, [(s.asked - first, s.began - s.asked) for s in shown]),
            "computing": (COMPUTING, [(s.began - first, s.ended - s.began) for s in shown]),
        }
        for row, (color, spans) in enumerate(bars.values()):
            axes.broken_barh([(1000 * at, 1000 * long) for at, long in spans], (row - 0.4, 0.8), color=color)
        axes.set(xlabel=f"time [ms], first {len(shown)} steps", yticks=[0, 1], yticklabels=list(bars))
