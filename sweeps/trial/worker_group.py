"""A trial of several workers: the first one is Tune's own process of the trial, and leads the other members.

Tune places a trial as one group of N bundles, all at once or not at all, so that two trials never wait for
each other with half of their workers placed. The trial's process (trainable.py) is in the first bundle, and
starts an actor in each of the others, as warm as itself. All enter the same `Fit` together, and leave it at
each epoch's end: who waits for the scheduler, or for the next trial, waits in no collective operation.

Whoever finds that a worker is lost ends the first one's process: Tune then frees all bundles, which ends the
other workers, and asks for new ones; the trial goes on from its last checkpoint, as after any lost process.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray

from sweeps.cluster import broadcast
from sweeps.storage import folder_copy, folder_reader
from sweeps.storage.folder_copy import File
from sweeps.trial import checkpoint_copy
from sweeps.trial.failures import ElsewhereUnfit, WorkerFailed, error_of
from sweeps.trial.job import Job
from sweeps.trial.members import Members, answer_of, give_up

if TYPE_CHECKING:
    from sweeps.training.distributed.cluster_environment import Gang
    from sweeps.training.epoch_callback import Epoch
    from sweeps.training.fit_loop import Fit

LOST_S = 120
"""Seconds that Ray may take to find out that a PC has gone: 65 by default, 8 with ray_cluster.yaml."""
CHECKPOINT_WEIGHTS = 4
"""Times the weights, about, in a checkpoint: the last and the best ones, two moments of Adam."""


class WorkerGroup:
    """The workers of a trial, as the first one leads them; it alone where a trial has one worker.

    Args:
        job: what all trials have in common.
    """

    def __init__(self, job: Job) -> None:
        self._members = Members(job) if job.fit.workers > 1 else None
        self._gang: Gang | None = None
        self._checkpoint_bytes = 0
        self.is_out_of_step = False
        """Whether a save failed half-way: then they can't train on together."""

    def meet(self, config: Mapping[str, Any], checkpoint: Path | None) -> Gang | None:
        """Let the members begin a trial, as this worker does now; how Lightning knows the group.

        Args:
            config: of the trial.
            checkpoint: that it goes on from, in a folder of this PC.
        """
        if self._members is None:
            return None
        from sweeps.training.distributed.cluster_environment import Gang

        self.is_out_of_step = False
        self._gang = gang = Gang.opened(ray.util.get_node_ip_address(), len(self._members.actors) + 1)
        original = None
        if checkpoint is not None:
            original = checkpoint_copy.original_of(checkpoint)
            self._members.ask("clear")  # one worker's folder is another one's
            self._members.answers()
        seats = [gang.seat_of(1 + number) for number in range(len(self._members.actors))]
        self._members.ask("begin", *[(dict(config), seat, original, broadcast.here()) for seat in seats])
        return gang

    def are_ready(self) -> list[str]:
        """Wait until the members have begun; names of the PCs that they are on.

        Raises:
            WorkerFailed: one could not.
        """
        return [] if self._members is None else self._members.answers()

    def train(self, fit: Fit, on_epoch: Callable[[Epoch], bool]) -> None:
        """Run a fit on all workers, until `on_epoch` answers False for all of them.

        Raises:
            WorkerFailed: another worker failed.
            Exception: this one did.
        """
        members = self._members
        if members is None or self._gang is None:
            fit.run(on_epoch)
            return

        def each(epoch: Epoch) -> bool:
            members.answers()
            goes_on = on_epoch(epoch)
            members.ask("train" if goes_on else "end")
            return goes_on

        members.ask("train")
        self._gang.join(ray.util.get_node_ip_address())
        fit.run(each)
        members.answers()

    def save(self, fit: Fit, folder: Path) -> None:
        """Write a checkpoint, with the shards of all workers, into a folder of this PC."""
        if self._members is None:
            fit.save(folder)
            return
        # Where one of several workers fails in it the others wait there for ever: ask before.
        weights = sum(weight.nbytes for weight in fit.best_weights.values())
        needed = max(self._checkpoint_bytes, CHECKPOINT_WEIGHTS * weights)
        if shutil.disk_usage(folder).free < needed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        count = len(self._members.actors)
        self._members.ask("lacks_room", *[(folder, needed)] * count)
        for fault in filter(None, self._members.answers()):
            raise ElsewhereUnfit(fault)
        self.is_out_of_step = True
        self._members.ask("save", *[(folder,)] * count)
        fit.save(folder)
        for member, files in zip(self._members.actors, self._members.answers(), strict=True):
            _fetch(member, files, folder)
            member.clear.remote()
        self._checkpoint_bytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        self.is_out_of_step = False

    def why(self, failure: dict[str, Any], error: BaseException) -> dict[str, Any]:
        """What has failed a trial, where this worker's own error may be but the echo of another's.

        Args:
            failure: what is to be said of this worker's.
            error: which it is.
        """
        if isinstance(error, WorkerFailed):
            return error.failure
        if self._members is None or self._gang is None:
            return failure
        from sweeps.training.distributed.cluster_environment import says_that_another_is_lost as is_echo

        if not is_echo(failure["reason"]):
            return failure
        for cause in self._members.failures(LOST_S):
            if not is_echo(cause["reason"]):
                return cause
        give_up(f"the workers lost each other: {failure['reason']}")
        raise error

    def part(self) -> None:
        """End what the group is at of a trial."""
        if self._members is not None and self._gang is not None:
            self._gang.part()
            self._gang = None
            self._members.part()


def _fetch(member: Any, files: list[File], folder: Path) -> None:
    """Copy what a member has written on its PC.

    Raises:
        OSError: this PC can't write it.
        WorkerFailed: the member can't read it.
    """

    def piece(ref: Any) -> Any:
        failure, content = answer_of(ref)
        if failure is not None:
            raise error_of(failure)
        return content

    fetch = folder_reader.fetch_from(lambda: member, str(folder), "another worker's PC", piece)
    for file in files:
        if not (folder / file.name).exists() and not folder_copy.copy_file(file, folder, fetch):
            raise OSError(f"{file.name} arrived with another checksum than it should have")
