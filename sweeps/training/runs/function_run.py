"""Train one trial by a function: one call of it, reported epoch by epoch."""

from __future__ import annotations

import math
import reprlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import greenlet
import numpy as np
import torch

from sweeps.common import atomic_io
from sweeps.common.errors import CannotTrain, MetricNotLogged
from sweeps.common.formatting import shortest
from sweeps.kinds import params_file
from sweeps.kinds.function import FunctionTrainable, Save
from sweeps.kinds.params_file import CHECKPOINT_FOLDER
from sweeps.training.batches import MicroBatch
from sweeps.training.config import FitConfig
from sweeps.training.report import ABOUT_FILE, Progress, Report
from sweeps.training.step_profiler import Meter
from sweeps.training.time_breakdown import PARTS
from sweeps.training.torch_state import seed_stream

STOP_GRACE_S = 60.0
"""Unless it is given."""
PARTS_PCT = frozenset(f"{part}_pct" for part in PARTS)
"""Costs that are not known of a function."""
OF_THIS_PROCESS = ("cpu_busy_pct", "memory_gb", "gpu_memory_gb")
"""Costs that say nothing of a training in other processes."""
_SAVED = object()
"""What the function hands back once its own loop has saved."""

_Answer = TypeVar("_Answer")


class TrialStopped(BaseException):
    """Ends the function where it reports an epoch behind which the trial does not go on. No Exception, so
    that a function that catches those ends, too."""


@dataclass
class FunctionTrial:
    """What the function gets: a `kinds.function.Trial`."""

    number: int
    seed: int
    max_epochs: int
    checkpoint: Path | None
    metrics: Sequence[str]
    threads: int
    stop_grace_s: float
    run: FunctionRun = field(repr=False)

    @property
    def epochs_done(self) -> int:
        """Epochs that were reported."""
        return self.run.progress.epochs

    @property
    def epochs(self) -> Iterator[int]:
        """The epochs that are left, each seeded by itself.

        Raises:
            CannotTrain: one had no report, or several.
        """
        while (done := self.run.progress.epochs) < self.max_epochs:
            seed_stream(self.seed, done)
            yield done + 1
            if (reports := self.run.progress.epochs - done) != 1:
                had = f"{reports} reports" if reports else "no report"
                raise CannotTrain(
                    f"epoch {done + 1} of trial.epochs had {had}: call trial.report once for each"
                )

    def report(self, metrics: Mapping[str, Any], save: Save | None = None) -> None:
        """Report an epoch that has ended."""
        self.run.report(metrics, save)


class FunctionRun:
    """A `RunHere` by a function, in a greenlet on the thread that advances it.

    Args:
        config: how to train it; a function takes the epochs, the objective, the seed and the threads of it.
        checkpoint: a folder written by `save`, to resume from; None to start.
        other_metrics: that each report must have, beside that of the objective.
        stop_grace_s: seconds that processes of the training have to end in order.
    """

    strategy_in_words = ""
    checkpoint_bytes = best_bytes = 0
    depends_on_batch = False

    def __init__(
        self,
        trainable: FunctionTrainable,
        params: Any,
        config: FitConfig,
        checkpoint: Path | None = None,
        *,
        number: int = 0,
        other_metrics: Sequence[str] = (),
        stop_grace_s: float = STOP_GRACE_S,
    ) -> None:
        self.params, self.config, self.progress = params, config, Progress.read(checkpoint)
        self._called, self._meter = trainable.called, Meter(config.threads or 1)
        self.why_no_test = f"a {trainable.description.kind} has no test"
        self._unknown = PARTS_PCT.union(OF_THIS_PROCESS if trainable.trains_elsewhere else ())
        self._save: Save | None = None
        folder = None if checkpoint is None else checkpoint / CHECKPOINT_FOLDER
        trial = FunctionTrial(
            number,
            config.seed,
            config.max_epochs,
            folder,
            (config.objective.metric, *other_metrics),
            config.threads or 1,
            stop_grace_s,
            self,
        )
        self._call = partial(trainable.train, params, trial)
        self._greenlet: greenlet.greenlet | None = None

    @property
    def can_go_on(self) -> bool:
        """Not after an error while its own loop saved."""
        return self._greenlet is None or not self._greenlet.dead

    @property
    def can_be_saved(self) -> bool:
        return self._save is not None

    def advance(self) -> Report | None:
        """Call the function, or let its last report return, up to its next report; None where it has ended.

        Raises:
            MetricNotLogged: a report lacks the metric.
            CannotTrain: a report is none, or there was none.
            Exception: any error of the function.
        """
        if self._greenlet is None:
            torch.set_num_threads(self.config.threads or 1)
            seed_stream(self.config.seed, self.progress.epochs)
            self._greenlet = greenlet.greenlet(lambda _: self._train())
        self._meter.begin()
        found: Report | None = self._greenlet.switch(True)
        if found is None and not self.progress.epochs:
            raise CannotTrain(f"{self._called} has ended without a report: call trial.report for each epoch")
        return found

    def report(self, metrics: Mapping[str, Any], save: Save | None = None) -> None:
        """Hand an epoch to the caller of `advance`; it returns where the trial goes on.

        Raises:
            TrialStopped: it does not, or it has reported all its epochs before.
            CannotTrain: it is called in another thread.
        """
        caller = greenlet.getcurrent().parent
        if caller is None:
            raise CannotTrain("trial.report: call it in the thread that runs train")
        if self.progress.epochs >= self.config.max_epochs:
            raise TrialStopped
        epoch, metric = self.progress.epochs + 1, self.config.objective.metric
        known = _numbers(metrics)
        if save is not None and not callable(save):
            raise CannotTrain(f"trial.report: save must be a function of a folder, not {reprlib.repr(save)}")
        if metric not in known:
            raise MetricNotLogged.from_logged(metric, known, epoch)
        score, best = shortest(known[metric]), self.progress.score
        if math.isnan(best) or self.config.objective.is_better(score, best):
            best = score
        self.progress = replace(self.progress, epochs=epoch, metrics=known, score=best)
        self._save = save
        seconds, costs = self._meter.end()
        costs = {name: cost for name, cost in costs.items() if name not in self._unknown}
        if not caller.switch(Report.from_metrics(epoch, metric, known, seconds, costs)):
            raise TrialStopped

    def go_on_to_save(self) -> bool:
        """For a `save`, where only the loop of a library can save: let the last report return, until that
        loop has saved and calls `has_saved`. False where the function has ended.

        Raises:
            CannotTrain: it has come to its next report, or to its end, and saved nothing.
        """
        if self._greenlet is None or self._greenlet.dead:
            return False
        if self._greenlet.switch(True) is not _SAVED:
            raise CannotTrain(f"{self._called} was asked for a checkpoint, and has written none")
        return True

    def has_saved(self) -> None:
        """Return to the caller of `go_on_to_save`; TrialStopped where the trial does not go on."""
        caller = greenlet.getcurrent().parent
        assert caller is not None, "it is called by the function"
        if not caller.switch(_SAVED):
            raise TrialStopped

    def save(self, folder: Path) -> None:
        assert self._save is not None, "it had no save"
        self.progress.write(folder)
        (folder / CHECKPOINT_FOLDER).mkdir()
        self._save(folder / CHECKPOINT_FOLDER)

    def close(self) -> None:
        """End the function where it has reported last, then `release` the run. One that has reported all its
        epochs comes to its end."""
        try:
            if self._greenlet is not None and not self._greenlet.dead:
                self._greenlet.switch(self.progress.epochs >= self.config.max_epochs)
        finally:
            self.release()

    def release(self) -> None:
        """Drop the training as it is; its last report can still be saved."""
        self._greenlet = None

    def keep_best(self, folder: Path, about: str, newest: Path | None = None) -> bool:
        """Write params.yaml into a new folder, with a checkpoint of the last report, or the newest one where
        that had no `save`."""
        with atomic_io.atomic_write(folder) as part:
            part.mkdir()
            if self.can_be_saved:
                self.save(part)
                (part / ABOUT_FILE).unlink()
            elif newest is not None:
                shutil.copytree(newest / CHECKPOINT_FOLDER, part / CHECKPOINT_FOLDER)
            (part / params_file.FILE).write_text(about, encoding="utf-8")
        return True

    def agree(self, answer: _Answer) -> _Answer:
        return answer  # a function has one worker

    def smaller_batch(self) -> MicroBatch:
        raise CannotTrain(f"the batches of {self._called} are its own")

    def _train(self) -> None:
        with suppress(TrialStopped):
            self._call()


def _numbers(metrics: object) -> dict[str, float]:
    """What was reported, by name; CannotTrain where it is no number."""
    if not isinstance(metrics, Mapping):
        wanted = "metrics must be a dict such as {'val_acc': 0.9}"
        raise CannotTrain(f"trial.report: {wanted}, not {reprlib.repr(metrics)}")
    found = {}
    for name, value in metrics.items():
        try:
            number = value.item() if hasattr(value, "detach") else value  # PyTorch warns of a gradient
            if np.iscomplexobj(number):  # NumPy would drop the imaginary part
                raise TypeError
            found[str(name)] = float(number)
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            # The last of a tensor of several. Of one number it is a fault of the GPU, which shows here.
            if isinstance(error, RuntimeError) and math.prod(getattr(value, "shape", ())) == 1:
                raise
            why = f"{name} must be a number, not {reprlib.repr(value)}"
            raise CannotTrain(f"trial.report: {why}") from None
    return found
