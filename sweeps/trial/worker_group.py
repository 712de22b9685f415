"""The worker group of a trial, as its first worker leads it.

Tune places a trial as one group of N bundles, all at once or not at all, so that two trials never wait for
each other with half of their workers placed. The trial's process is in the first bundle, and starts a worker
(worker.py) for the trial in each other bundle. All workers enter the same `Fit` together, and leave it at
each epoch's end, or inside one where the first is asked to: none waits in a collective operation for the
scheduler.

When a worker is lost the first worker's process ends: Tune then frees all bundles, which ends the other
workers, and asks for new ones; the trial resumes from its last checkpoint, as after any lost process.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import math
import os
import shutil
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from sweeps.common.errors import PCUnfit, first_line
from sweeps.ray_cluster import broadcast
from sweeps.storage import folder_copy
from sweeps.storage.folder_copy import File
from sweeps.training.distributed.cluster_environment import WorkerGroupEnvironment, is_lost_connection
from sweeps.training.fit_loop import Fit
from sweeps.training.report import Position, Report
from sweeps.trial import output
from sweeps.trial.job import Job
from sweeps.trial.messages import Failure, WorkerFailed, give_up
from sweeps.trial.worker import Worker

COLLECTIVE = ("train", "save")
"""Methods of a worker with collective operations, in which each worker waits for the others."""
LOST_S = 120
"""Seconds in which Ray finds that a PC is lost: 65 by default, 8 with ray_cluster.yaml."""
END_S = 3
"""Seconds in which all workers may fail by an error that they have in common."""
STUCK_S = 300
"""Seconds until the next collective operation of the first worker. It fails there if the process of another
worker has ended."""
POLL_S = 1.0


class WorkerGroup:
    """The workers of a trial; the first worker alone where a trial has one worker."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._environment: WorkerGroupEnvironment | None = None
        self._workers: list[Any] = []
        """Actors, one in each bundle but the first."""
        self._introductions: list[Any] = []
        """Ray references to what `Worker.introduce` returns."""
        self._calls: list[Any] = []
        """Ray references to the answers that are still to be read."""
        self._waits = threading.Event()
        """Set while the first worker waits for the others, and hence is in no collective operation."""
        self._has_killed_one = False
        """Whether a worker that failed alone was killed: what fails here then only follows from it."""
        self._unread = ""
        """Printed by workers that have ended."""
        self._ending = threading.Lock()
        """Two threads may find a lost worker: the second one must not end this process while the first one
        reads its words."""
        self.is_out_of_step = False
        """Whether a save failed on some of the workers: they can't train on together."""

    def meet(self, config: Mapping[str, Any], checkpoint: Path | None) -> WorkerGroupEnvironment | None:
        """Let the other workers begin a trial while this one does; the group's environment for Lightning.

        Args:
            config: config of the trial.
            checkpoint: folder on this PC of the checkpoint to go on from.
        """
        if self._job.fit.workers == 1:
            return None
        self.is_out_of_step = self._has_killed_one = False
        self._start()
        address, workers = ray.util.get_node_ip_address(), self._job.fit.workers
        self._environment = WorkerGroupEnvironment.open(address, workers)
        self._call("begin", dict(config), self._environment.rendezvous, checkpoint)
        return self._environment

    def wait_until_ready(self) -> list[str]:
        """Wait until the others have begun; names of their PCs.

        Raises:
            WorkerFailed: one could not begin.
        """
        return self._results()

    def advance(self, fit: Fit) -> Report | Position | None:
        """Advance a training on all workers, as `Fit.advance` does.

        Raises:
            WorkerFailed: another worker failed.
            Exception: this worker failed.
        """
        if self._environment is None:
            return fit.advance()
        self._call("train", True)
        if not fit.is_training:
            self._environment.join(ray.util.get_node_ip_address())
        found = fit.advance()
        self._results()
        return found

    def close(self, fit: Fit) -> None:
        """Let Lightning end a training in order, on all workers."""
        if self._environment is None or not fit.is_training:
            fit.close()
            return
        self._call("train", False)
        fit.close()
        self._results()

    def save(self, fit: Fit, folder: Path) -> None:
        """Write a checkpoint, with the shards of all workers, into a folder of this PC."""
        if self._environment is None:
            fit.save(folder)
            return
        # If one worker fails while all save, the others wait for it for ever: check for room first.
        needed = fit.checkpoint_bytes
        if shutil.disk_usage(folder).free < needed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        self._call("check_room", folder, needed)
        self._results()
        self.is_out_of_step = True
        self._call("save", folder)
        fit.save(folder)
        places = [node for node, _ in ray.get(self._introductions)]
        for worker, node, files in zip(self._workers, places, self._results(), strict=True):
            self._fetch(node, files, folder)
            worker.clear.remote()
        self.is_out_of_step = False

    def why(self, failure: Failure, error: BaseException) -> Failure:
        """The failure that has ended a trial: another worker's, if this worker's only follows from it."""
        if isinstance(error, WorkerFailed):
            return error.failure
        if self._environment is None or not (self._has_killed_one or is_lost_connection(failure.reason)):
            return failure
        waiting, began = list(self._calls), time.monotonic()
        while waiting and time.monotonic() - began < LOST_S:
            done, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=POLL_S)
            for cause in filter(None, map(self._failure, done)):
                if not is_lost_connection(str(cause)):
                    return cause.failure
        give_up(f"the workers lost their connection: {failure.reason}")
        raise error

    def printed(self) -> str:
        """What the other workers printed since the last call, each line with the number of its worker."""
        before, self._unread = self._unread, ""
        return before + self._texts("printed")

    def leave(self) -> None:
        """End the trial on all workers, and the others' processes with it."""
        self._waits.set()
        if self._environment is not None:
            self._environment.leave()
            self._environment = None
        self._unread += self._texts("end")
        for worker in self._workers:
            ray.kill(worker)
        self._workers, self._introductions, self._calls = [], [], []

    def _start(self) -> None:
        group = ray.util.get_current_placement_group()
        assert group is not None, "Tune places each trial in a placement group"
        for rank in range(1, self._job.fit.workers):
            bundle = group.bundle_specs[rank]
            actor = ray.remote(Worker).options(
                num_cpus=bundle.get("CPU", 0),
                num_gpus=bundle.get("GPU", 0),
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, rank),
                max_restarts=0,
            )
            worker: Any = actor.remote(self._job, rank)
            self._introductions.append(worker.introduce.remote())
            self._workers.append(worker)

    def _call(self, name: str, *arguments: Any) -> None:
        """Start a method of each other worker, to run while this one does the same."""
        self._calls = [getattr(worker, name).remote(*arguments) for worker in self._workers]
        self._waits = threading.Event()
        if name in COLLECTIVE:
            running = dict(zip(self._calls, self._workers, strict=True))
            threading.Thread(target=self._watch, args=(running, self._waits), daemon=True).start()

    def _results(self) -> list[Any]:
        """Wait for the calls; what they return. The placement group may never be complete again after the
        loss of a PC: that ends this process.

        Raises:
            WorkerUnfit: the PC of a worker can't train.
            WorkerFailed: a worker failed.
        """
        self._waits.set()
        waiting = self._calls
        while waiting:
            _, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=POLL_S)
            group = ray.util.get_current_placement_group()
            if waiting and ray.util.placement_group_table(group).get("state") == "RESCHEDULING":
                give_up("a PC of its workers is lost")
        calls, self._calls = self._calls, []
        return self._values(calls)

    def _values(self, calls: Sequence[Any]) -> list[Any]:
        """What finished calls return.

        Raises:
            WorkerFailed: a worker failed.
        """
        for failure in [self._failure(ref) for ref in calls]:  # of all of them first: one may be lost
            if failure is not None:
                raise failure
        return list(ray.get(calls))

    def _failure(self, ref: Any) -> WorkerFailed | None:
        """Why a call has failed; the end of this process where its worker is lost."""
        try:
            ray.get(ref)
        except RayTaskError as error:
            if not isinstance(error.cause, WorkerFailed):
                raise
            return error.cause
        except RayActorError as error:
            with self._ending:
                print(self._last_words(), end="", file=sys.stderr)
                give_up(f"a worker is lost: {first_line(error)}")
        return None

    def _watch(self, running: dict[Any, Any], waits: threading.Event) -> None:
        """Kill a worker that has failed while this one may wait for it in a collective operation.

        gloo can't leave one (after `abort` of PyTorch 2.13 the other workers still wait); only the end of a
        process closes its connections, and so ends the wait. One in NCCL ends by `abort`, also while others
        run on: they may wait there for the one that was killed.
        """
        ends_at, why = math.inf, ""
        aborting: threading.Thread | None = None
        while (running or why) and not waits.wait(0 if running else POLL_S):
            done = ray.wait(list(running), timeout=POLL_S)[0] if running else []
            for ref in done:
                worker, failure = running.pop(ref), self._failure(ref)
                if failure is not None and not waits.wait(END_S):
                    self._has_killed_one = True
                    ends_at, why = time.monotonic() + STUCK_S, str(failure) or "it does not say why"
                    ray.kill(worker)
            if why and (aborting is None or not aborting.is_alive()):  # again: more groups may be formed
                aborting = threading.Thread(target=self._abort, daemon=True)  # which may hang
                aborting.start()
            if time.monotonic() > ends_at:
                give_up(f"a worker has failed, and this one has been stuck for {STUCK_S} s: {why}")

    def _abort(self) -> None:
        """End a wait of this process in NCCL, which the end of another process does not end."""
        if (environment := self._environment) is not None:
            environment.abort()

    def _texts(self, method: str) -> str:
        """The texts that a method of the other workers returns, each line with the number of its worker."""
        calls = [getattr(worker, method).remote() for worker in self._workers]
        if not calls:
            return ""
        known, _ = ray.wait(calls, num_returns=len(calls), timeout=END_S)  # one may be stuck
        texts = []
        for rank, ref in enumerate(calls, start=1):
            with contextlib.suppress(RayError):  # of one that was killed
                texts.append(output.marked(ray.get(ref) if ref in known else "", rank))
        return "".join(texts)

    def _last_words(self) -> str:
        """What the other workers printed that was not taken yet."""
        found = []
        for rank, ref in enumerate(self._introductions, start=1):
            with contextlib.suppress(RayError):  # one ended while it started
                words, _ = output.examine_on(*ray.get(ref, timeout=0))
                found.append(output.marked(words, rank))
        return "".join(found)

    def _fetch(self, node: str, files: Sequence[File], folder: Path) -> None:
        """Copy the files that a worker has written on its PC.

        Raises:
            OSError: this PC can't write them.
        """
        fetch = functools.partial(broadcast.read_file, node, "the PC of a worker")
        for file in files:
            if not (folder / file.name).exists():
                try:
                    folder_copy.copy_file(file, folder, folder, fetch)
                except PCUnfit as error:
                    give_up(f"a worker is lost: {error}")
