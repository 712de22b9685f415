"""Trains one trial after another in a warm process."""

from __future__ import annotations

import math
import os
import time
import traceback
from typing import Any

import ray
from lightning.pytorch.utilities.exceptions import SIGTERMException
from threadpoolctl import threadpool_limits

from sweeps.common.errors import MetricNotLogged, reason_of
from sweeps.common.formatting import GB
from sweeps.common.gpus import CONTEXT_GB
from sweeps.kinds import registry
from sweeps.kinds.trainable import Trainable
from sweeps.record.trials import why_diverged
from sweeps.training import torch_state
from sweeps.training.checkpoints import checkpoint_store
from sweeps.training.report import CheckpointUnusable, Position, Progress, Report, Run, RunHere
from sweeps.trial import leave_request, output
from sweeps.trial.job import Job
from sweeps.trial.messages import (
    EARLIER_ERROR,
    Diverged,
    Failed,
    Failure,
    Finished,
    Left,
    LeftEarly,
    Message,
    NotSaved,
    Saved,
    TrialEnd,
    Unfit,
    failure_of,
)
from sweeps.trial.run import Host, build_run, with_shortage
from sweeps.trial.worker_group import WorkerGroup


class TrialRunner:
    """The trials of one process, which outlives a trial that raises: its exception becomes its message.

    Whenever a trial begins (also after a retry, a lost process or a resumed sweep) it resumes from its newest
    whole checkpoint, and reports the last epoch of that again: the scheduler's decision on it may be lost.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        threadpool_limits(job.fit.threads or 1, "blas")  # NumPy's: of a fork it has been one
        self._trainables: dict[str, tuple[Trainable, torch_state.Settings, int]] = {}
        """By name those of earlier trials, each with the settings of PyTorch as its import left them, and the
        folder to which that has gone: each trial begins there, wherever the one before has gone."""
        self._bare, self._folder = torch_state.Settings(), os.open(".", os.O_PATH)
        if job.is_bound_to_share:
            share = ray.get_runtime_context().get_assigned_resources().get("GPU", 1.0)
            torch_state.keep_to_share(share, int(CONTEXT_GB * GB))
        self.hosts = [Host.here()]
        """Of all workers; of several they are known when a trial has begun."""
        self._run: Run | None = None
        self._here: RunHere | None = None
        """The run where it has one worker, which is this process."""
        self._before = Progress()
        """Of the run, when it began."""
        self._epochs: int | None = None
        """That the run has trained; None where it has not been advanced."""
        self._copied: list[str] = []
        """Data that was copied to this PC, until a trial has told it."""
        self.is_broken = False
        """Whether the GPU computes no more in this process: after an error in a kernel (of a label out of
        range, say) each call of CUDA fails."""

    def begin(self, config: dict[str, Any]) -> None:
        """End the trial before, and take over the one of this config of `SweepTrial`."""
        self.end()
        leave_request.forget()
        output.take()  # of the trial before
        if self.is_broken:
            output.give_up(EARLIER_ERROR)
        self._config, self._number = config, config["number"]
        self._params = {**config["fixed"], **config["params"]}
        self._pace = checkpoint_store.Pace(self._job.checkpoint_epochs)
        self._notices: list[str] = []
        self._unusable: list[str] = []
        """Why checkpoints were removed before it began."""
        self._failures = config.get("failures", 0)
        """How often it raised, in earlier processes and runs of the sweep too."""
        self._has_ended = False
        self._save_began: float | None = None
        self._save_error: Exception | None = None

    def step(self) -> Message:
        """Train and validate one epoch."""
        if self._save_began is not None:  # until now, since Tune copies a checkpoint
            self._pace.cost(time.perf_counter() - self._save_began)
            self._save_began = None
        while True:
            failure: Failure | Left | None = None
            try:
                if (unsaved := self._save_error) is not None:
                    self._save_error = None
                    raise unsaved
                return self._told(self._next_epoch())
            except CheckpointUnusable as error:  # no failure: it has removed that checkpoint
                self._unusable.append(str(error))
            except KeyboardInterrupt:
                raise
            except (SIGTERMException, LeftEarly):  # SIGTERM came while the training began; it took one step
                failure = Left("")
            except BaseException as error:  # sys.exit and worse: the user's code must not end a warm process
                failure = with_shortage(failure_of(error, self._here), error)
                if leave_request.is_terminated() and isinstance(failure, Failed):
                    failure = Left("")
                self._failures += isinstance(failure, Failed) and not failure.is_user_error
            # Behind the except: until there the traceback holds the model, and its memory.
            self._abandon_run()
            if failure is None:
                continue
            is_last = self._failures > self._job.max_failures
            if is_last or not isinstance(failure, Failed) or failure.is_user_error:
                return self._message(end=failure)
            again = f"failure {self._failures} of at most {self._job.max_failures}, it is retried"
            if self.is_broken:
                again += " in another process: the GPU computes no more in this process"
            self._notices.append(f"{failure.reason} ({again})")
            if self.is_broken:
                return self._message(end=Left(""))

    @property
    def checkpoint_bytes(self) -> int:
        """About what a checkpoint of the trial takes; 0 where that is not known."""
        return self._run.checkpoint_bytes if self._run is not None else 0

    def save(self) -> Saved | NotSaved | None:
        """Write what a resume needs into the storage; None where nothing is new."""
        assert self._run is not None, "Tune saves after a step"
        if self._epochs is None or not self._run.can_be_saved:
            return None
        self._save_began = time.perf_counter()
        # Not the last one that was reported: after a retry some are trained again.
        epoch, is_last, fill = self._epochs, self._has_ended, self._run.save
        try:
            return Saved(self._job.storage.write(self._number, epoch, fill, self._params, is_last=is_last))
        except Exception as error:  # of the storage, or of a hook of the user's, which the next step raises
            fault = failure_of(error)
            if isinstance(fault, Unfit):  # the checkpoint before is kept, and the trial trains on
                self._save_error = None if self._run.can_go_on else error
                self._notices.append(f"no checkpoint of epoch {epoch}: {fault.reason}")
                return NotSaved(reason=fault.reason, node=fault.node)
            self._save_error = error
            traceback.print_exc()
            return NotSaved(reason=reason_of(error), is_of_storage=False)

    def end(self) -> None:
        """Let Lightning end an unfinished `fit()` in order: hooks, teardown, worker processes."""
        if self._run is not None:
            try:
                self._run.close()
            except (Exception, SystemExit):  # the trial has ended; how it closes is not its result
                traceback.print_exc()
        self._abandon_run()

    def _next_epoch(self) -> Report | Position | None:
        """The next epoch (after a retry some are trained and reported again), the position where the run was
        left, or None when the training ended by itself."""
        if self._run is None:
            self._begin_run()
            if (known := self._before.last_report(self._job.fit.objective.metric)) is not None:
                return known
        if self._before.has_ended:
            return None
        assert self._run is not None
        try:
            found = self._run.advance()
        except CheckpointUnusable:
            self._job.storage.remove(self._number, self._before.epochs)
            raise
        if found is not None:
            self._epochs = found.epoch - 1 if isinstance(found, Position) else found.epoch
        return found

    def _begin_run(self) -> None:
        """Begin the training of the trial, on all its workers, from its newest checkpoint."""
        checkpoint, faults = self._job.storage.newest(self._number, self._params)
        faults, self._unusable = [*self._unusable, *faults], []
        if faults:
            epoch = checkpoint_store.epoch_of(checkpoint) if checkpoint else None
            then = "starts again from epoch 1" if epoch is None else f"resumes after epoch {epoch}"
            self._notices.append(f"{'; '.join(faults)}: the trial {then}")
        self._before, self._epochs = Progress.read(checkpoint), None
        if self._job.fit.workers == 1:
            trainable, say = self._trainable(self._config["trainable"]), self._copied.append
            self._run = self._here = build_run(self._job, self._config, trainable, checkpoint, say)
        else:
            self._run = group = WorkerGroup(self._job)
            self.hosts = group.hosts
            self._copied += group.begin(self._config, checkpoint)

    def _trainable(self, name: str) -> Trainable:
        """The trainable of a name. Imported for the first trial of it, not when the process begins: a
        trainable that can't be imported is a failed trial with a reason, not a lost process."""
        if name not in self._trainables:
            self._bare.restore()
            os.fchdir(self._folder)
            torch_state.seed_again(0)  # what its import draws must not differ from process to process
            loaded = registry.load(self._job.trainables[name])
            self._trainables[name] = loaded, torch_state.Settings(), os.open(".", os.O_PATH)
        trainable, settings, folder = self._trainables[name]
        settings.restore()
        os.fchdir(folder)
        return trainable

    def _told(self, found: Report | Position | None) -> Message:
        """The message of an epoch, of a position where the run was left, or of a training that has ended."""
        if isinstance(found, Position):
            return self._message(end=Left(str(found)), is_to_save=True)
        if found is None and leave_request.is_terminated():
            return self._message(end=Left(""))
        if found is None:  # by EarlyStopping, for example
            if not (epochs := self._epochs or self._before.epochs):
                raise RuntimeError("training ended before its first epoch: check that the data has a batch")
            return self._message(end=Finished(f"ended by itself after epoch {epochs}"))
        judged = self._judged(found)
        self._pace.trained(found.seconds)
        if found.notice:
            self._notices.append(f"epoch {found.epoch}: {found.notice}")
        bad = [name for name, value in judged.items() if not math.isfinite(value)]
        end: TrialEnd | None = None
        if bad:
            end = Diverged(why_diverged(bad[0], found.epoch, judged[bad[0]]))
        elif found.epoch >= self._job.fit.max_epochs:
            end = Finished()
        elif leave_request.is_asked():
            end = Left(f"the end of epoch {found.epoch}")
        is_to_save = isinstance(end, Left) or (end is None and self._pace.is_due(found.epoch))
        return self._message(found, end, is_to_save=is_to_save)

    def _judged(self, report: Report) -> dict[str, float]:
        found = {self._job.fit.objective.metric: report.score}
        for name in self._job.other_metrics:
            if name not in report.metrics:
                raise MetricNotLogged.from_logged(name, report.metrics, report.epoch)
            found[name] = report.metrics[name]
        return found

    def _message(
        self, report: Report | None = None, end: TrialEnd | None = None, *, is_to_save: bool = False
    ) -> Message:
        """A message, with what there is to tell besides."""
        self._has_ended = end is not None and not isinstance(end, Left)
        if "steps" not in self._config:  # else it is no trial, and its notices are told nowhere
            self._notices, self._copied = [*self._copied, *self._notices], []
        notices, self._notices = tuple(self._notices), []
        first, *others = self.hosts
        return Message(
            report=report,
            end=end,
            is_to_save=is_to_save,
            place={"pc": first.pc, "pid": os.getpid(), "gpu": first.in_words}
            | ({"others": [each.pc for each in others]} if others else {}),
            failures=self._failures,
            has_test=self._run is None or not self._run.why_no_test,
            notices=notices,
            output=output.take(),
        )

    def _abandon_run(self) -> None:
        if self._run is not None:
            self._run.release()
        self._run = self._here = None
        self.is_broken = not torch_state.free_memory()
