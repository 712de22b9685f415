"""The worker group of a trial, as the process of the trial leads it.

Tune places a trial as one group of N bundles, all at once or not at all, so that two trials never wait for
each other with half of their workers placed. The trial's process takes nothing of them, is on the PC of the
first one, and starts a worker (worker.py) in each of them for one trial. All workers enter the same `Fit`
together, and leave it at each epoch's end, or inside one where the first is asked to: none waits in a
collective operation for the scheduler.

Where a worker has failed alone, the others may wait for it in a collective operation for ever, which only the
end of their processes ends. When one is lost the trial's process ends: Tune then frees all bundles, and asks
for new ones; the trial resumes from its last checkpoint, as after any lost process.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import math
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from sweeps.common.errors import PCUnfit, first_line
from sweeps.ray_cluster import nodes
from sweeps.storage import data_source
from sweeps.storage.data_source import File
from sweeps.training.distributed import cluster_environment, launch
from sweeps.training.report import Position, Report
from sweeps.trial import leave_request, output
from sweeps.trial.job import Job
from sweeps.trial.messages import WorkerFailed
from sweeps.trial.run import Host
from sweeps.trial.worker import Worker

LOST_S = 120
"""Seconds in which Ray finds that a PC is lost: 65 by default, 8 with ray_cluster.yaml."""
END_S = 3
"""Seconds in which all workers may fail by an error that they have in common, or tell what they printed."""
POLL_S = 1.0


class WorkerGroup:
    """A Run by the workers of a trial, which are all there once this object is."""

    can_be_saved = True

    def __init__(self, job: Job) -> None:
        self.why_no_test, self.can_go_on = "", True
        self._address = ray.util.get_node_ip_address()
        self._store = cluster_environment.open_store(self._address)
        self._group = ray.util.get_current_placement_group()
        assert self._group is not None, "Tune places each trial in a placement group"
        self._workers: list[Any] = []
        """Actors, one in each bundle."""
        for rank, bundle in enumerate(self._group.bundle_specs):
            actor = ray.remote(Worker).options(
                num_cpus=bundle.get("CPU", 0),
                num_gpus=bundle.get("GPU", 0),
                scheduling_strategy=PlacementGroupSchedulingStrategy(self._group, rank),
                max_restarts=0,
            )
            self._workers.append(actor.remote(job, rank))
        self._introductions: list[output.Introduction] = []
        introduced = self._call("introduce")
        self._introductions = [introduction for introduction, _ in introduced]
        self.hosts: list[Host] = [host for _, host in introduced]

    def begin(self, config: Mapping[str, Any], checkpoint: Path | None) -> list[str]:
        """Let the workers begin a trial; what was copied to their PCs.

        Args:
            checkpoint: folder on this PC of the checkpoint to go on from.

        Raises:
            WorkerFailed: one could not begin.
        """
        begun = self._call("begin", dict(config), self._address, self._store.port, checkpoint)
        self.why_no_test = begun[0][0]
        return [text for _, copied in begun for text in copied]

    @property
    def checkpoint_bytes(self) -> int:
        """About what `save` writes, on all workers together; 0 where that is not known."""
        return int(self._call("checkpoint_bytes")[0])

    def advance(self) -> Report | Position | None:
        """Advance the training on all workers, as `Fit.advance` does.

        Raises:
            WorkerFailed: a worker failed.
        """
        found: Report | Position | None = self._call("advance")[0]
        self._take("printed")
        return found

    def save(self, folder: Path) -> None:
        """Write a checkpoint, with the shards of all workers, into a folder of this PC."""
        # If one worker fails while all save, the others wait for it for ever: check for room first.
        needed = self.checkpoint_bytes
        if shutil.disk_usage(folder).free < needed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        self._call("check_room", folder, needed)
        self.can_go_on = False
        written = self._call("save", folder)
        for worker, introduction, files in zip(self._workers, self._introductions, written, strict=True):
            _fetch(introduction.node, files, folder)
            worker.clear.remote()
        self.can_go_on = True

    def close(self) -> None:
        """Let Lightning end the training in order on all workers, if all go on, then end their processes."""
        if self._workers and self.can_go_on:
            self._call("close")
        self.release()

    def release(self) -> None:
        """End the processes of the workers."""
        self._take("end")
        for worker in self._workers:
            ray.kill(worker)
        self._workers, self._introductions, self._store = [], [], None

    def _call(self, method: str, *arguments: Any) -> list[Any]:
        """What a method of each worker returns, which all run at the same time.

        Raises:
            WorkerFailed: a worker failed; the first one, and not one that only lost its connection to it.
        """
        calls = [getattr(worker, method).remote(*arguments) for worker in self._workers]
        waiting, failures, until = calls, dict[int, WorkerFailed](), math.inf
        while waiting and time.monotonic() < until:
            done, waiting = ray.wait(waiting, timeout=POLL_S)
            for ref in done:
                rank = calls.index(ref)
                if (failure := self._failure(ref, rank)) is not None:
                    failures[rank] = failure
            if failures:
                until = min(until, time.monotonic() + (END_S if _causes(failures) else LOST_S))
            if leave_request.is_asked() and self._introductions:
                leave_request.send(self._introductions[0].pid)
            # It may never be complete again after the loss of a PC.
            if waiting and ray.util.placement_group_table(self._group).get("state") == "RESCHEDULING":
                output.give_up("a PC of its workers is lost")
        if not failures:
            return list(ray.get(calls))
        if not (causes := _causes(failures)):
            output.give_up(f"the workers lost their connection: {next(iter(failures.values()))}")
        raise causes[0]

    def _failure(self, ref: Any, rank: int) -> WorkerFailed | None:
        """Why a call has failed; the end of this process where its worker is lost."""
        try:
            ray.get(ref)
        except RayTaskError as error:
            if not isinstance(error.cause, WorkerFailed):
                raise error.cause from None
            return error.cause
        except RayError as error:
            why = first_line(error)
            for number, each in enumerate(self._introductions):
                loss = output.how_ended(each)
                output.add(output.marked(loss.last_words, number))
                why = loss.why if number == rank else why
            output.give_up(f"a worker is lost: {why}")
        return None

    def _take(self, method: str) -> None:
        """Add the texts that a method of the workers returns, marked, to what this process has printed."""
        calls = [getattr(worker, method).remote() for worker in self._workers]
        known = ray.wait(calls, num_returns=len(calls), timeout=END_S)[0] if calls else []  # one may be stuck
        for rank, ref in enumerate(calls):
            with contextlib.suppress(RayError):  # of one that was killed
                output.add(output.marked(ray.get(ref) if ref in known else "", rank))


def _causes(failures: Mapping[int, WorkerFailed]) -> list[WorkerFailed]:
    """The failures by rank, without those that only follow from the end of another worker."""
    found = (failures[rank] for rank in sorted(failures))
    return [each for each in found if not launch.is_lost_connection(str(each))]


def _fetch(node: str, files: Sequence[File], folder: Path) -> None:
    """Copy the files that a worker has written on its PC.

    Raises:
        OSError: this PC can't write them.
    """
    fetch = functools.partial(nodes.read_file, node, "the PC of a worker")
    for file in files:
        if not (folder / file.name).exists():
            try:
                data_source.copy_file(file, folder, folder, fetch)
            except PCUnfit as error:
                output.give_up(f"a worker is lost: {error}")
