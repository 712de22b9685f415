"""The folder of a single run (settings, epochs, checkpoints, best weights), and the run's output.

The first worker writes and prints; all workers write a checkpoint together.
"""

from __future__ import annotations

import fcntl
import json
import math
import shutil
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tqdm import tqdm

from sweeps.common import atomic_io, local_dirs
from sweeps.common.cli import json_output
from sweeps.common.errors import CannotTrain, DiskIsFull, UserError, causes
from sweeps.common.formatting import command, duration, short, shown_path, size
from sweeps.common.param_types import readable
from sweeps.common.project import FIT_FILE
from sweeps.kinds import params_file
from sweeps.kinds.params_file import BEST
from sweeps.training.checkpoints import checkpoint_store
from sweeps.training.checkpoints.checkpoint_store import Pace
from sweeps.training.config import FitConfig
from sweeps.training.distributed.launch import is_first, say
from sweeps.training.report import Position, Report, RunHere
from sweeps.training.single_run.run_settings import SingleRun
from sweeps.training.time_breakdown import mean_costs, verdict, where_time_went

SNAPSHOT_FILE = "memory.pickle"
"""Written by `--memory-snapshot`."""
EPOCHS_FILE = "epochs.jsonl"
"""A line per epoch: metrics, seconds, time breakdown."""


class RunFolder:
    """The folder and the output of one run.

    On entry it finds the checkpoint of an interrupted run; after Ctrl-C it prints how to resume. A new run
    refused before the end of its first epoch leaves no folder, so that its name can be used again.
    """

    def __init__(self, run: SingleRun, config: FitConfig) -> None:
        self._run, self._config = run, config
        self._checkpoints = checkpoint_store.folder_of(run.folder, 0)
        self._is_mine = False
        """Whether this process has created the folder."""
        self._pace = Pace(run.checkpoint_epochs)
        self._costs: list[tuple[float, Mapping[str, float]]] = []
        self._started = time.monotonic()
        self._best: tuple[float, int] = (math.nan, 0)
        self.checkpoint: Path | None = None
        """From which an interrupted run resumes."""
        self.has_left = False
        """Whether the run was left, to be resumed."""
        self._can_be_saved = True
        self._position = ""  # inside an epoch
        self._held: BinaryIO | None = None
        """The file by which other processes know that this one runs it."""

    @property
    def best(self) -> Path:
        """The folder of the best epoch's weights."""
        return self._run.folder / BEST

    def __enter__(self) -> RunFolder:
        if self._run.resume is not None:
            self._hold()
            self.checkpoint, faults = checkpoint_store.newest(self._checkpoints)
            for fault in faults:
                say(f"Notice     {fault}")
            self._read_epochs()
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        if self._held is not None:
            self._held.close()
        if isinstance(error, CannotTrain | UserError):
            if self._is_mine and not self._epochs.exists():
                shutil.rmtree(self._run.folder, ignore_errors=True)
            raise UserError(str(error)) from None
        if error is None or not self._run.folder.exists():
            return
        # Lightning turns Ctrl-C into SystemExit after it has ended its workers. Where Ctrl-C has come while
        # loaders were starting, Lightning's own end fails.
        if isinstance(error, KeyboardInterrupt | SystemExit) or isinstance(
            error.__context__, KeyboardInterrupt
        ):
            if self.best.is_dir():  # its checkpoints are gone
                weights = shown_path(self.best)
                say(f"\nStopped    the run has finished, without its test\nWeights    {weights}")
                raise KeyboardInterrupt from None
            say(f"\nStopped    {self._resumes_after}\nResume     {self._resume_command}")
            json_output.answer(resume=self._resume_command)
            raise KeyboardInterrupt from None

    def begin(self, training: RunHere, kept_files: Mapping[str, bytes] = {}) -> None:
        """Print what is trained; create the folder of a new run, with files by which its trainable is
        found."""
        config = self._config
        begin = f", resumed at epoch {epochs + 1}" if (epochs := training.progress.epochs) else ""
        lines = [
            ("run", shown_path(self._run.folder)),
            *([("data", self._run.data)] if self._run.data else []),
            ("metric", f"{config.metric} ({config.mode})"),
            ("epochs", f"{config.max_epochs}{begin}"),
            *([("an epoch", words)] if (words := config.epoch_in_words) else []),
            *([("strategy", training.strategy_in_words)] if training.strategy_in_words else []),
        ]
        say("\n".join(f"{name:<10} {text}" for name, text in lines) + "\n")
        json_output.answer(
            folder=str(self._run.folder), metric=config.metric, mode=config.mode, best_score=None,
            best_epoch=None, best_folder=None, test={}, resume=None,
        )  # fmt: skip
        if is_first() and self._run.resume is None:
            try:
                self._run.folder.mkdir(parents=True)
                self._is_mine = True
                atomic_io.sync(self._run.folder.parent)
                for name, content in kept_files.items():
                    atomic_io.write(self._run.folder / name, content)
                atomic_io.write(self._run.folder / FIT_FILE, self._run.to_yaml())
                self._hold()
            except OSError as error:
                raise UserError(f"{self._run.folder}: {error}") from None

    def _hold(self) -> None:
        """Be the one process that runs it, as long as this process lives.

        Raises:
            UserError: another one does.
        """
        if not is_first():
            return
        try:  # no `flock`: a fork inherits it, and loaders' workers may outlive a process that is killed
            self._held = (self._run.folder / FIT_FILE).open("r+b")
            fcntl.lockf(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"--resume {self._run.resume}: another process trains this run now") from None
        except OSError:  # a file system without locks, or a folder that can't be written, which is told later
            return

    def note(self, found: Report | Position, training: RunHere, is_asked_to_leave: bool) -> bool:
        """Record and print an epoch that has ended; save a checkpoint when one is due, and where the run is
        left. Returns whether it trains on."""
        if isinstance(found, Position):
            self.has_left = True
            if self._save(training.progress.epochs, training):
                self._position = str(found)
            return False
        self._note_epoch(found)
        if found.epoch >= self._config.max_epochs:
            return True
        self.has_left = training.agree(is_asked_to_leave)
        self._can_be_saved = training.can_be_saved
        if training.can_be_saved and (self.has_left or training.agree(self._pace.is_due(found.epoch))):
            self._save(found.epoch, training)
        return not self.has_left

    def _note_epoch(self, epoch: Report) -> None:
        """Record and print an epoch."""
        if self._config.objective.is_better(epoch.score, self._best[0]):
            self._best = epoch.score, epoch.epoch
        self._costs.append((epoch.seconds, epoch.costs))
        self._pace.trained(epoch.seconds)
        if not is_first():
            return
        own = {"epoch": epoch.epoch, "seconds": epoch.seconds, **epoch.costs}
        line = {
            f"{name}_logged" if name in own else name: value for name, value in epoch.metrics.items()
        } | own
        text = json.dumps(json_output.plain(line)) + "\n"
        with self._room_for(f"the line of epoch {epoch.epoch} ({size(len(text))})"):
            atomic_io.append(self._epochs, text)
        metrics = ", ".join(f"{name} {short(value)}" for name, value in sorted(epoch.metrics.items()))
        json_output.write(
            "report", epoch=epoch.epoch, score=epoch.score, metrics=epoch.metrics, seconds=epoch.seconds,
            costs=epoch.costs,
        )  # fmt: skip
        mark = " *" if self._best[1] == epoch.epoch else ""
        # Above a progress bar, if there is one.
        tqdm.write(
            f"epoch {epoch.epoch:>3}/{self._config.max_epochs}  {metrics}  {epoch.seconds:.2f} s{mark}"
        )
        if epoch.notice:
            tqdm.write(f"Notice     {epoch.notice}")
        sys.stdout.flush()

    def keep_best(self, training: RunHere) -> None:
        """Write the best epoch's whole fp32 weights and their hyperparameters; then remove the checkpoints.

        Raises:
            DiskIsFull: there is no room for them.
        """
        (score, epoch), run = self._best, self._run
        if not is_first() or not epoch:
            return
        head = [f"{self._config.metric} {score} in epoch {epoch}"]
        found = {"score": score, "epoch": epoch}
        params = readable(type(training.params), run.params)
        about = params_file.write(run.trainable, params, self._config.settings(), found, head)
        shown = f" ({size(training.best_bytes)})" if training.best_bytes else ""
        with self._room_for(f"the weights of epoch {epoch}{shown}"):
            is_kept = training.keep_best(self.best, about, checkpoint_store.newest(self._checkpoints)[0])
        if is_kept:
            checkpoint_store.remove(self._checkpoints.parent)

    def say_end(self, test: Mapping[str, float] | str, *, is_prepared: bool) -> int:
        """Print the result; return the exit status.

        Args:
            test: scores on the test rows, or why there are none; {} without a test.
            is_prepared: whether it trained on prepared data.
        """
        (score, epoch), costs = self._best, mean_costs(self._costs)
        json_output.answer(test=test if isinstance(test, Mapping) else {})
        if epoch:
            json_output.answer(best_score=score, best_epoch=epoch, best_folder=str(self.best))
        if not epoch:
            say(f"\nNo epoch had a finite {self._config.metric}.")
            return 1
        say(f"\nBest       {self._config.metric} {short(score)} in epoch {epoch}")
        if isinstance(test, str):
            say(f"Test       not scored: {test}")
        elif test:
            say("Test       " + ", ".join(f"{name} {short(value)}" for name, value in test.items()))
        where = where_time_went(costs)
        say(f"Time       {duration(time.monotonic() - self._started)}{f': {where}' if where else ''}")
        if found := verdict(costs, is_prepared=is_prepared):
            say(f"Verdict    {found}")
        if self._run.memory_snapshot:
            file = shown_path(self._run.folder / SNAPSHOT_FILE)
            say(f"Memory     {file} (open in https://pytorch.org/memory_viz)")
        title = "Weights" if params_file.files_of_weights(self.best) else "Settings"
        say(f"{title:<10} {shown_path(self.best)}")
        return 0

    def _save(self, epoch: int, training: RunHere) -> bool:
        """Save a checkpoint; on a full disk skip it. Returns whether it was saved."""
        began = time.perf_counter()
        # If one of several workers failed to save, the others would wait for ever: they agree before.
        fits = self._config.workers == 1 or training.agree(
            is_first() and atomic_io.free_bytes(self._run.folder) > training.checkpoint_bytes
        )
        if fits:
            try:
                with self._room_for(f"the checkpoint of epoch {epoch}"):
                    if is_first():
                        if self._epochs.exists():  # a resume reads its lines up to the checkpoint's epoch
                            atomic_io.sync(self._epochs)
                        checkpoint_store.write(self._checkpoints, epoch, training.save)
                    else:
                        training.save(self._checkpoints)  # into the first worker's folder
            except DiskIsFull:
                if self._config.workers > 1:
                    raise
                fits = False
        if not fits and is_first():
            tqdm.write(f"Notice     no checkpoint of epoch {epoch}: the disk is full")
        self._pace.cost(time.perf_counter() - began)
        return fits

    @contextmanager
    def _room_for(self, what: str) -> Iterator[None]:
        """Tell of what is written in the block where there is no room for it.

        Raises:
            DiskIsFull: there is none.
        """
        try:
            yield
        except Exception as error:
            if not atomic_io.disk_is_full(error, self._run.folder):
                raise
            for each in causes(error):  # their frames hold files open that were removed
                traceback.clear_frames(each.__traceback__)
            left, folder = size(atomic_io.free_bytes(self._run.folder)), shown_path(self._run.folder)
            raise DiskIsFull(
                f"{folder}: the disk is full: {left} left, and no room for {what}. Free some space; "
                f"{self._resumes_after}:\n  {self._resume_command}"
            ) from None

    @property
    def _resumes_after(self) -> str:
        if self._position:
            return f"the run resumes at {self._position}"
        for newest in checkpoint_store.all_of(self._checkpoints):
            return f"the run resumes after epoch {checkpoint_store.epoch_of(newest)}"
        if not self._can_be_saved:
            return "the run starts again: its last report had no save"
        return "the run starts again: it has no checkpoint yet (--checkpoint-epochs 1 saves one each epoch)"

    @property
    def _resume_command(self) -> str:
        return command("fit", "--resume", shown_path(self._run.folder), *local_dirs.typed_again())

    @property
    def _epochs(self) -> Path:
        return self._run.folder / EPOCHS_FILE

    def _read_epochs(self) -> None:
        """Keep the lines of the checkpoint's epochs; later epochs are trained again."""
        done = 0 if self.checkpoint is None else checkpoint_store.epoch_of(self.checkpoint)
        lines = self._epochs.read_text().splitlines() if self._epochs.exists() else []
        kept = [line for line in lines[:done] if line]
        for epoch in map(json.loads, kept):
            score = epoch.get(f"{self._config.metric}_logged", epoch[self._config.metric])
            if self._config.objective.is_better(score, self._best[0]):
                self._best = score, epoch["epoch"]
        if is_first():
            text = "".join(f"{line}\n" for line in kept)
            with self._room_for(f"its epochs ({size(len(text))})"):
                atomic_io.write(self._epochs, text)
