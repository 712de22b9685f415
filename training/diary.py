"""The folder of a single run: settings, epochs, checkpoints, the best weights; and what the screen says.

Of several workers the first one writes and speaks; checkpoints they write together.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import lightning.pytorch as pl
import torch
import yaml
from tqdm import tqdm

from training import checkpoints, durable
from training.checkpoints import Pace
from training.config import CannotTrain, FitConfig, is_better
from training.costs import PARTS, mean_costs, verdict
from training.epochs import Epoch
from training.launch import is_first
from training.single import BEST, SETTINGS_FILE, SingleRun, say
from training.trace import Trace
from training.trainer import WEIGHTS_FILE, Fit
from training.values import UserError
from training.words import command, count, duration, place, short

PROFILE, SNAPSHOT_FILE = "profile", "memory.pickle"
"""In a run's folder, where they were asked for: `--profile`, `--memory-snapshot`."""
EPOCHS_FILE = "epochs.jsonl"
"""A line per epoch: its metrics, its seconds and those of its parts."""


class Diary:
    """One run's folder, and its words on the screen.

    Entered, it finds where a stopped run was; left by Ctrl-C, it says how to go on.
    """

    def __init__(self, run: SingleRun, config: FitConfig, resumes: bool) -> None:
        self._run, self._config, self._resumes = run, config, resumes
        self._checkpoints = checkpoints.folder_of(run.folder, 0)
        self._pace = Pace(run.checkpoint_epochs)
        self._costs: list[tuple[float, Mapping[str, float]]] = []
        self._started = time.monotonic()
        self._best: tuple[float, int] = (math.nan, 0)
        self.checkpoint: Path | None = None
        """What a stopped run goes on from."""

    @property
    def best(self) -> Path:
        """The folder of the best epoch's weights."""
        return self._run.folder / BEST

    def __enter__(self) -> Diary:
        if self._resumes:
            self.checkpoint, faults = checkpoints.newest(self._checkpoints)
            for fault in faults:
                say(f"Notice     {fault}")
            self._read_epochs()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if isinstance(error, CannotTrain):
            raise UserError(str(error)) from None
        if error is None or not self._run.folder.exists():
            return
        if isinstance(error, KeyboardInterrupt | SystemExit):
            # Lightning turns Ctrl-C into the latter, once it has ended its own.
            say(f"\nGo on      {command('training.fit', '--resume', place(self._run.folder))}")
            raise KeyboardInterrupt from None

    @property
    def snapshot(self) -> Path | None:
        """Where the GPU's allocations are written to; None when they are not asked for."""
        return self._run.folder / SNAPSHOT_FILE if self._run.memory_snapshot and is_first() else None

    def watchers(self, training: Fit) -> list[pl.Callback]:
        """Those that take a closer look at the steps."""
        if not self._run.profile or not is_first():
            return []
        return [Trace(training.meter.step_times, self._run.folder / PROFILE, tqdm.write)]

    def begin(self, module: ModuleType, params: Any, training: Fit) -> None:
        """Say what is about to be trained; make the folder of a new run."""
        config, choice = self._config, training.choice
        on = f", from {training.epochs + 1} on" if training.epochs else ""
        lines = [
            ("run", place(self._run.folder)),
            ("data", module.describe_data(params) if hasattr(module, "describe_data") else "build_data's"),
            ("metric", f"{config.metric} ({config.mode})"),
            ("epochs", f"{config.max_epochs}{on}"),
            ("how", f"{choice.in_words}, {count(config.threads, 'thread')}"),
        ]
        say("\n".join(f"{name:<10} {text}" for name, text in lines) + "\n")
        if is_first() and not self._resumes:
            try:
                self._run.folder.mkdir(parents=True)
                durable.write(self._run.folder / SETTINGS_FILE, self._run.to_yaml())
            except OSError as error:
                raise UserError(f"{self._run.folder}: {error}") from None

    def note(self, epoch: Epoch, training: Fit) -> bool:
        """An epoch has ended: write it down, say it, save a checkpoint when one is due."""
        if is_better(epoch.score, self._best[0], self._config.mode):
            self._best = epoch.score, epoch.epoch
        self._costs.append((epoch.seconds, epoch.costs))
        self._pace.trained(epoch.seconds)
        if is_first():
            line = {"epoch": epoch.epoch, **epoch.metrics, "seconds": epoch.seconds, **epoch.costs}
            with (self._run.folder / EPOCHS_FILE).open("a") as file:
                file.write(json.dumps(line) + "\n")
            tqdm.write(self._in_words(epoch))  # above a progress bar, where there is one
            if epoch.notice:
                tqdm.write(f"Notice     {epoch.notice}")
            sys.stdout.flush()
        if epoch.epoch < self._config.max_epochs and training.agree(self._pace.is_due(epoch.epoch)):
            self._save(epoch.epoch, training)
        return True

    def keep_best(self, training: Fit) -> None:
        """Write the best epoch's weights, fp32 and whole, and the knobs that trained them."""
        if not is_first() or not training.best_weights:
            return
        part = self._run.folder / f".{BEST}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        torch.save(training.best_weights, part / WEIGHTS_FILE)
        about = {
            "trainable": self._run.trainable,
            "params": self._run.params,
            self._config.metric: self._best[0],
            "epoch": self._best[1],
        }
        durable.write(part / "params.yaml", yaml.safe_dump(about, sort_keys=False))
        shutil.rmtree(self.best, ignore_errors=True)
        part.rename(self.best)
        checkpoints.remove(self._checkpoints.parent)

    def say_end(self, scores: dict[str, float]) -> int:
        """What came of it; the exit status."""
        (score, epoch), costs = self._best, mean_costs(self._costs)
        if not epoch:
            say(f"\nNo epoch had a finite {self._config.metric}.")
            return 1
        say(f"\nBest       {self._config.metric} {short(score)} in epoch {epoch}")
        if scores:
            say("Test       " + ", ".join(f"{name} {short(value)}" for name, value in scores.items()))
        say(f"Time       {duration(time.monotonic() - self._started)}: {_where_time_went(costs)}")
        say(f"Verdict    {verdict(costs)}")
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

    def _save(self, epoch: int, training: Fit) -> None:
        began = time.perf_counter()
        if is_first():
            checkpoints.write(self._checkpoints, epoch, training.save)
        else:
            training.save(self._checkpoints)  # its part goes where the first worker's goes
        self._pace.cost(time.perf_counter() - began)

    def _read_epochs(self) -> None:
        """Keep the lines of the epochs that are in the checkpoint; those after it are trained again."""
        path = self._run.folder / EPOCHS_FILE
        done = 0 if self.checkpoint is None else checkpoints.epoch_of(self.checkpoint)
        lines = path.read_text().splitlines() if path.exists() else []
        kept = [line for line in lines[:done] if line]
        for epoch in map(json.loads, kept):
            if is_better(epoch[self._config.metric], self._best[0], self._config.mode):
                self._best = epoch[self._config.metric], epoch["epoch"]
        if is_first():
            durable.write(path, "".join(f"{line}\n" for line in kept))


def _where_time_went(costs: Mapping[str, float]) -> str:
    busy = "gpu_util_pct" if "gpu_util_pct" in costs else "cpu_busy_pct"
    shown = [*(f"{part}_pct" for part in PARTS), busy]
    words = {name: name.removesuffix("_pct").replace("_", " ").replace("cpu", "CPU") for name in shown}
    return ", ".join(f"{words[name]} {costs[name]:.0f} %" for name in shown if name in costs)
