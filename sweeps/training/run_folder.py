"""The folder of a single run: settings, epochs, checkpoints and the best weights; and the run's output.

Of several workers the first one writes and prints. All of them write a checkpoint together.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

import lightning.pytorch as pl
import torch
from tqdm import tqdm

from sweeps.common import atomic_io, params_file
from sweeps.common.cli import parser
from sweeps.common.errors import CannotTrain, DiskIsFull, UserError
from sweeps.common.formatting import command, count, duration, place, short, size
from sweeps.training import checkpoint_store, weights
from sweeps.training.checkpoint_store import Pace
from sweeps.training.config import FitConfig
from sweeps.training.distributed.launch import is_first, say
from sweeps.training.epoch_callback import Epoch
from sweeps.training.fit_loop import Fit
from sweeps.training.profiling.time_breakdown import mean_costs, verdict, where_time_went
from sweeps.training.profiling.torch_trace import Trace
from sweeps.training.run_settings import BEST, SETTINGS_FILE, SingleRun

PROFILE, SNAPSHOT_FILE = "profile", "memory.pickle"
"""In a run's folder, where they were asked for: `--profile`, `--memory-snapshot`."""
EPOCHS_FILE = "epochs.jsonl"
"""A line per epoch: its metrics, its seconds and those of its parts."""

CHECKPOINT_WEIGHTS = 4
"""Times the weights, about, in a checkpoint: the last and the best ones, two moments of Adam."""


class RunFolder:
    """The folder of one run, and what it prints.

    On entry it finds the checkpoint of a stopped run; after Ctrl-C it prints how to resume. A new run that is
    refused before the end of its first epoch leaves no folder, so that its name can be used again.
    """

    def __init__(self, run: SingleRun, config: FitConfig, resumes: bool) -> None:
        self._run, self._config, self._resumes = run, config, resumes
        self._checkpoints = checkpoint_store.folder_of(run.folder, 0)
        self._is_mine = False
        """Whether this process has made the folder."""
        self._pace = Pace(run.checkpoint_epochs)
        self._costs: list[tuple[float, Mapping[str, float]]] = []
        self._started = time.monotonic()
        self._best: tuple[float, int] = (math.nan, 0)
        self.checkpoint: Path | None = None
        """From which a stopped run resumes."""

    @property
    def best(self) -> Path:
        """The folder of the best epoch's weights."""
        return self._run.folder / BEST

    def __enter__(self) -> RunFolder:
        if self._resumes:
            self.checkpoint, faults = checkpoint_store.newest(self._checkpoints)
            for fault in faults:
                say(f"Notice     {fault}")
            self._read_epochs()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if isinstance(error, CannotTrain | UserError):
            if self._is_mine and not self._epochs.exists():
                shutil.rmtree(self._run.folder, ignore_errors=True)
            raise UserError(str(error)) from None
        if error is None or not self._run.folder.exists():
            return
        if isinstance(error, KeyboardInterrupt | SystemExit):
            # Lightning turns Ctrl-C into SystemExit after it has ended its workers.
            say(f"\nStopped    {self._where_it_goes_on}\nGo on      {self._how_to_go_on}")
            raise KeyboardInterrupt from None

    @property
    def snapshot(self) -> Path | None:
        """Where the GPU's allocations are written to; None when they are not asked for."""
        return self._run.folder / SNAPSHOT_FILE if self._run.memory_snapshot and is_first() else None

    def watchers(self, training: Fit) -> list[pl.Callback]:
        """Callbacks of `--profile`."""
        if not self._run.profile or not is_first():
            return []
        return [Trace(training.meter.step_times, self._run.folder / PROFILE, tqdm.write)]

    def begin(self, training: Fit) -> None:
        """Say what is about to be trained; make the folder of a new run."""
        config, choice = self._config, training.choice
        on = f", from {training.epochs + 1} on" if training.epochs else ""
        lines = [
            ("run", place(self._run.folder)),
            ("data", self._run.data),
            ("metric", f"{config.metric} ({config.mode})"),
            ("epochs", f"{config.max_epochs}{on}"),
            ("how", f"{choice.in_words}, {count(config.threads or 1, 'thread')}"),
        ]
        say("\n".join(f"{name:<10} {text}" for name, text in lines) + "\n")
        if is_first() and not self._resumes:
            try:
                self._run.folder.mkdir(parents=True)
                self._is_mine = True
                atomic_io.sync(self._run.folder.parent)
                atomic_io.write(self._run.folder / SETTINGS_FILE, self._run.to_yaml())
            except OSError as error:
                raise UserError(f"{self._run.folder}: {error}") from None

    def note(self, epoch: Epoch, training: Fit) -> bool:
        """Record and print an epoch that has ended; save a checkpoint when one is due."""
        if self._config.objective.is_better(epoch.score, self._best[0]):
            self._best = epoch.score, epoch.epoch
        self._costs.append((epoch.seconds, epoch.costs))
        self._pace.trained(epoch.seconds)
        no_room = self._write_line(epoch) if is_first() else None
        # If one of several workers ended alone, the others would wait for it: all end.
        if self._config.workers > 1 and training.agree(no_room is not None):
            raise no_room or DiskIsFull("the first worker has no room for an epoch's line")
        if no_room:
            raise no_room
        if epoch.epoch < self._config.max_epochs and training.agree(self._pace.is_due(epoch.epoch)):
            self._save(epoch.epoch, training)
        return True

    def keep_best(self, training: Fit) -> None:
        """Write the best epoch's weights, fp32 and whole, and the hyperparameters that trained them.

        Checkpoints go when these are on the disk.

        Raises:
            DiskIsFull: there is no room for them.
        """
        best = training.best_weights
        if not is_first() or not best:
            return
        what = f"the weights of epoch {self._best[1]}"
        self._write(what, _bytes_of(best), lambda: weights.keep(self.best, best, self._about_best()))
        checkpoint_store.remove(self._checkpoints.parent)

    def say_end(self, scores: dict[str, float], *, is_prepared: bool) -> int:
        """Print the result; return the exit status.

        Args:
            scores: of the test, where there was one.
            is_prepared: it trained on prepared data.
        """
        (score, epoch), costs = self._best, mean_costs(self._costs)
        if not epoch:
            say(f"\nNo epoch had a finite {self._config.metric}.")
            return 1
        say(f"\nBest       {self._config.metric} {short(score)} in epoch {epoch}")
        if scores:
            say("Test       " + ", ".join(f"{name} {short(value)}" for name, value in scores.items()))
        say(f"Time       {duration(time.monotonic() - self._started)}: {where_time_went(costs)}")
        say(f"Verdict    {verdict(costs, is_prepared=is_prepared)}")
        if self._run.memory_snapshot:
            say(
                f"Memory     {place(self._run.folder / SNAPSHOT_FILE)} (open in https://pytorch.org/memory_viz)"
            )
        say(f"Weights    {place(self.best)}")
        return 0

    def _in_words(self, epoch: Epoch) -> str:
        metrics = ", ".join(f"{name} {short(value)}" for name, value in sorted(epoch.metrics.items()))
        mark = " *" if self._best[1] == epoch.epoch else ""
        return f"epoch {epoch.epoch:>3}/{self._config.max_epochs}  {metrics}  {epoch.seconds:.2f} s{mark}"

    def _write_line(self, epoch: Epoch) -> DiskIsFull | None:
        """Record and print an epoch; the error if the disk is full."""
        line = {"epoch": epoch.epoch, **epoch.metrics, "seconds": epoch.seconds, **epoch.costs}
        text = json.dumps(line) + "\n"
        try:
            self._write(
                f"the line of epoch {epoch.epoch}", len(text), lambda: atomic_io.append(self._epochs, text)
            )
        except DiskIsFull as error:
            return error
        tqdm.write(self._in_words(epoch))  # above a progress bar, where there is one
        if epoch.notice:
            tqdm.write(f"Notice     {epoch.notice}")
        sys.stdout.flush()
        return None

    def _save(self, epoch: int, training: Fit) -> None:
        """Save a checkpoint; on a full disk leave it out and train on."""
        began, is_shared = time.perf_counter(), self._config.workers > 1
        # If one of several workers failed to save, the others would wait for ever: they agree before.
        fits = not is_shared or training.agree(is_first() and self._has_room(training))
        if fits and not self._fits(lambda: self._write_checkpoint(epoch, training)):
            if is_shared:
                raise self._no_room(f"the checkpoint of epoch {epoch}")
            fits = False
        if not fits and is_first():
            tqdm.write(f"Notice     no checkpoint of epoch {epoch}: the disk is full")
        self._pace.cost(time.perf_counter() - began)

    def _write_checkpoint(self, epoch: int, training: Fit) -> None:
        if is_first():
            checkpoint_store.write(self._checkpoints, epoch, training.save)
        else:
            training.save(self._checkpoints)  # its part goes where the first worker's goes

    def _has_room(self, training: Fit) -> bool:
        """Whether a checkpoint will fit, judged by the size of the last one, or of the weights."""
        needed = CHECKPOINT_WEIGHTS * _bytes_of(training.best_weights)
        for newest in checkpoint_store.all_of(self._checkpoints)[:1]:
            needed = sum(file.stat().st_size for file in newest.rglob("*") if file.is_file())
        return shutil.disk_usage(self._run.folder).free > needed

    def _write(self, what: str, size_bytes: int, write: Callable[[], object]) -> None:
        """Write what the run needs; on a full disk remove all checkpoints but the newest whole one for it."""
        if self._fits(write):
            return
        whole, _ = checkpoint_store.newest(self._checkpoints)
        for other in checkpoint_store.all_of(self._checkpoints):
            if other != whole:
                checkpoint_store.remove(other)
        if not self._fits(write):
            raise self._no_room(f"{what} ({size(size_bytes)})")

    def _fits(self, write: Callable[[], object]) -> bool:
        """Write; whether there was room."""
        try:
            write()
        except Exception as error:
            if not atomic_io.disk_is_full(error, self._run.folder):
                raise
            return False
        return True

    def _no_room(self, what: str) -> DiskIsFull:
        left = size(shutil.disk_usage(self._run.folder).free)
        return DiskIsFull(
            f"{place(self._run.folder)}: the disk is full: {left} left, and no room for {what}. Free some "
            f"space; {self._where_it_goes_on}:\n  {self._how_to_go_on}"
        )

    @property
    def _where_it_goes_on(self) -> str:
        there = checkpoint_store.all_of(self._checkpoints)
        if there:
            return f"the run goes on after epoch {checkpoint_store.epoch_of(there[0])}"
        return "the run starts again, as it has no checkpoint yet (--checkpoint-epochs 1: one each epoch)"

    @property
    def _how_to_go_on(self) -> str:
        return command("fit", "--resume", place(self._run.folder), *parser.machine_given())

    @property
    def _epochs(self) -> Path:
        return self._run.folder / EPOCHS_FILE

    def _about_best(self) -> str:
        (score, epoch), config = self._best, self._config
        head = [f"{config.metric} {score} in epoch {epoch}"]
        found = {"score": score, "epoch": epoch}
        return params_file.write(self._run.trainable, self._run.params, config.settings(), found, head)

    def _read_epochs(self) -> None:
        """Keep the lines of the epochs that are in the checkpoint; those after it are trained again."""
        path = self._epochs
        done = 0 if self.checkpoint is None else checkpoint_store.epoch_of(self.checkpoint)
        lines = path.read_text().splitlines() if path.exists() else []
        kept = [line for line in lines[:done] if line]
        for epoch in map(json.loads, kept):
            if self._config.objective.is_better(epoch[self._config.metric], self._best[0]):
                self._best = epoch[self._config.metric], epoch["epoch"]
        if is_first():
            text = "".join(f"{line}\n" for line in kept)
            self._write("its epochs", len(text), lambda: atomic_io.write(path, text))


def _bytes_of(state: Mapping[str, torch.Tensor]) -> int:
    return sum(weight.nbytes for weight in state.values())
