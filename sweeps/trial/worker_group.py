"""The worker group of a trial, as its first worker leads it.

Tune places a trial as one group of N bundles, all at once or not at all, so that two trials never wait for
each other with half of their workers placed. The trial's process is in the first bundle, and starts an actor
(member.py), which stays as warm as itself, in each other bundle. All workers enter the same `Fit` together,
and leave it at each epoch's end, or inside one where the first is asked to: none waits in a collective
operation for the scheduler or the next trial.

When a worker is lost the first worker's process ends: Tune then frees all bundles, which ends the other
workers, and asks for new ones; the trial resumes from its last checkpoint, as after any lost process.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import ray

from sweeps.cluster import broadcast
from sweeps.storage import folder_copy, folder_reader
from sweeps.storage.folder_copy import File
from sweeps.training.distributed.cluster_environment import WorkerGroupEnvironment, is_lost_connection
from sweeps.training.epoch_callback import OnEpoch
from sweeps.training.epoch_position import Position
from sweeps.training.fit_loop import Fit
from sweeps.training.report import Report
from sweeps.trial import checkpoint_copy
from sweeps.trial.job import Job
from sweeps.trial.listening import Listening
from sweeps.trial.members import Members, answer_of, value_of
from sweeps.trial.messages import Failure, WorkerFailed, WorkerUnfit, give_up

LOST_S = 120
"""Seconds in which Ray finds that a PC is lost: 65 by default, 8 with ray_cluster.yaml."""
CHECKPOINT_WEIGHTS = 4
"""Size of a checkpoint in sizes of the weights: the last and the best ones, two moments of Adam."""


class WorkerGroup:
    """The workers of a trial; the first worker alone where a trial has one worker."""

    def __init__(self, job: Job) -> None:
        self._members = Members(job, self._abort) if job.fit.workers > 1 else None
        self._environment: WorkerGroupEnvironment | None = None
        self._checkpoint_bytes = 0
        self.is_out_of_step = False
        """Whether a save failed on some of the workers: they can't train on together."""

    def meet(self, config: Mapping[str, Any], checkpoint: Path | None) -> WorkerGroupEnvironment | None:
        """Let the members begin a trial while this worker does; the group's environment for Lightning.

        Args:
            config: config of the trial.
            checkpoint: folder on this PC of the checkpoint to go on from.
        """
        if self._members is None:
            return None
        self.is_out_of_step = False
        workers = len(self._members.actors) + 1
        self._environment = WorkerGroupEnvironment.open(ray.util.get_node_ip_address(), workers)
        original = None
        if checkpoint is not None:
            original = checkpoint_copy.original_of(checkpoint)
            self._members.call("clear")  # before any begins: workers of one PC share a folder
            self._members.results()
        rendezvous = self._environment.rendezvous
        self._members.call("begin", dict(config), rendezvous, original, broadcast.here())
        return self._environment

    def wait_until_ready(self) -> list[str]:
        """Wait until the members have begun; names of their PCs.

        Raises:
            WorkerFailed: a member could not begin.
        """
        return [] if self._members is None else self._members.results()

    def train(self, fit: Fit, on_epoch: OnEpoch, *callbacks: pl.Callback) -> None:
        """Run a fit on all workers, as `Fit.run` has it; the callbacks are those of this worker.

        Raises:
            WorkerFailed: another worker failed.
            Exception: this worker failed.
        """
        members = self._members
        if members is None or self._environment is None:
            fit.run(on_epoch, Listening(), *callbacks)
            return

        def each(found: Report | Position) -> bool:
            members.results()
            trains_on = on_epoch(found)
            members.call("train", trains_on)
            return trains_on

        members.call("train", True)
        self._environment.join(ray.util.get_node_ip_address())
        fit.run(each, Listening(), *callbacks)
        members.results()

    def save(self, fit: Fit, folder: Path) -> None:
        """Write a checkpoint, with the shards of all workers, into a folder of this PC."""
        if self._members is None:
            fit.save(folder)
            return
        # If one worker fails while all save, the others wait for it for ever: check for room first.
        needed = max(self._checkpoint_bytes, CHECKPOINT_WEIGHTS * fit.best.size_bytes)
        if shutil.disk_usage(folder).free < needed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        self._members.call("lack_of_room", folder, needed)
        for failure in filter(None, self._members.results()):
            raise WorkerUnfit(failure)
        self.is_out_of_step = True
        self._members.call("save", folder)
        fit.save(folder)
        for member, files in zip(self._members.actors, self._members.results(), strict=True):
            _fetch(member, files, folder)
            member.clear.remote()
        self._checkpoint_bytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        self.is_out_of_step = False

    def why(self, failure: Failure, error: BaseException) -> Failure:
        """The failure that has ended a trial: another worker's, if this worker's only follows from it."""
        if isinstance(error, WorkerFailed):
            return error.failure
        if self._members is None or self._environment is None:
            return failure
        if not self._members.has_killed_one and not is_lost_connection(failure.reason):
            return failure
        for cause in self._members.failures(LOST_S):
            if not is_lost_connection(cause.reason):
                return cause
        give_up(f"the workers lost their connection: {failure.reason}")
        raise error

    def printed(self) -> str:
        """What the other workers printed since the last call, each line with the number of its worker."""
        return "" if self._members is None else self._members.printed()

    def end(self) -> None:
        """End the other workers' processes with this one."""
        if self._members is not None:
            self._members.end()

    def leave(self) -> None:
        """End the trial on all workers."""
        if self._members is not None and self._environment is not None:
            self._environment.leave()
            self._environment = None
            self._members.leave()

    def _abort(self) -> None:
        if (environment := self._environment) is not None:
            environment.abort()


def _fetch(member: Any, files: list[File], folder: Path) -> None:
    """Copy the files that a member has written on its PC.

    Raises:
        OSError: this PC can't write them.
        WorkerFailed: the member can't read them.
    """
    fetch = folder_reader.fetch_from(
        lambda: member, str(folder), "another worker's PC", lambda ref: value_of(answer_of(ref))
    )
    for file in files:
        if not (folder / file.name).exists():
            folder_copy.copy_file(file, folder, fetch)
