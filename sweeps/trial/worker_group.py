"""A trial of several workers: the first one is Tune's own process of the trial, the others are led by it.

Tune places a trial as one group of N bundles, all at once or not at all, so that two trials never wait for
each other with half of their workers placed. The trial's process (trial.py) stands in the first bundle, and
starts an actor in each of the others, as warm as itself. All enter the same `Fit` together, and leave it at
each epoch's end: who waits for the scheduler, or for the next trial, waits in no collective operation.

Whoever finds that a worker is lost ends the first one's process: Tune then frees all bundles, which ends the
other workers, and asks for new ones; the trial goes on from its last checkpoint, as after any lost process.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayActorError
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from sweeps.common.errors import first_line
from sweeps.training import checkpoint_store
from sweeps.trial.failures import ElsewhereUnfit, WorkerFailed, error_of
from sweeps.trial.member import Member, Said, files_in

if TYPE_CHECKING:
    from sweeps.training.distributed.cluster_environment import Gang
    from sweeps.training.epoch_callback import Epoch
    from sweeps.training.fit_loop import Fit
    from sweeps.trial.job import Job

LOST = 70
"""Exit status of a first worker whose trial lost another one."""
TOGETHER = ("train", "save", "end")
"""What all workers do by collective operations, in which one waits for the others."""
ENDS_S = 3
"""That workers may take to fail together, by an error that all of them have."""
STUCK_S = 300
"""That the first one may take to hear of it when a worker's process has ended: until its next collective
operation. (gloo says so there at once, NCCL never does.)"""
LOST_S = 120
"""That Ray may take to find out that a PC has gone: 65 s unless told otherwise, 8 s by ray_cluster.yaml."""
LOOK_S = 1.0
CHUNK_BYTES = 64 * 2**20
CHECKPOINT_WEIGHTS = 4
"""Times the weights, about, in a checkpoint: the last and the best ones, two moments of Adam."""


class WorkerGroup:
    """The other workers of a trial, as the first one sees them; none where a trial has one worker.

    Args:
        job: what all trials have in common.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._members: list[Any] = []
        self._asked: list[Any] = []
        """What the members are at."""
        self._ended = False
        """Whether one of them was ended, since it failed alone."""
        self._left = threading.Event()
        """Set when the first worker waits for what they are at, hence in no collective operation."""
        self._gang: Gang | None = None
        self._checkpoint_bytes = 0
        self.is_out_of_step = False
        """Whether a save failed half-way: then they can't train on together."""
        if job.fit.workers > 1:
            self._start()

    def meet(self, config: Mapping[str, Any], checkpoint: Path | None) -> Gang | None:
        """Let them begin a trial, as this worker does now; the gang of this one.

        Args:
            config: of the trial.
            checkpoint: that it goes on from, in a folder of this PC.
        """
        if not self._members:
            return None
        from sweeps.training.distributed.cluster_environment import Gang

        self.is_out_of_step = False
        self._gang = gang = Gang.opened(ray.util.get_node_ip_address(), len(self._members) + 1)
        if checkpoint is not None:
            self._hand_out(checkpoint)
        seats = [gang.seat_of(rank) for rank in self._ranks]
        self._ask("begin", *[(dict(config), seat, checkpoint) for seat in seats])
        return gang

    def are_ready(self) -> list[str]:
        """Wait until they have begun; names of the PCs that they are on.

        Raises:
            WorkerFailed: one could not.
        """
        return self._answers()

    def train(self, fit: Fit, on_epoch: Callable[[Epoch], bool]) -> None:
        """Run a fit on all workers, until `on_epoch` answers False for all of them.

        Raises:
            WorkerFailed: one of the others failed.
            Exception: this one did.
        """
        if self._gang is None:
            fit.run(on_epoch)
            return

        def each(epoch: Epoch) -> bool:
            self._answers()
            goes_on = on_epoch(epoch)
            self._ask("train" if goes_on else "end")
            return goes_on

        self._ask("train")
        self._gang.join(ray.util.get_node_ip_address())
        fit.run(each)
        self._answers()

    def save(self, fit: Fit, folder: Path) -> None:
        """Write a checkpoint, with the shards of all workers, into a folder of this PC."""
        if not self._members:
            fit.save(folder)
            return
        # Where one of several workers fails in it the others wait there for ever: ask before.
        weights = sum(weight.nbytes for weight in fit.best_weights.values())
        needed = max(self._checkpoint_bytes, CHECKPOINT_WEIGHTS * weights)
        if shutil.disk_usage(folder).free < needed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        self._ask("lacks_room", *[(folder, needed)] * len(self._members))
        for fault in filter(None, self._answers()):
            raise ElsewhereUnfit(fault)
        self.is_out_of_step = True
        self._ask("save", *[(folder,)] * len(self._members))
        fit.save(folder)
        for member, files in zip(self._members, self._answers(), strict=True):
            for name, size in files.items():
                if not (folder / name).exists():
                    _fetch(member, name, size, folder / name)
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
        if self._gang is None:
            return failure
        from sweeps.training.distributed.cluster_environment import says_that_another_is_lost as is_echo

        if not is_echo(failure["reason"]):
            return failure
        waiting, began = list(self._asked), time.monotonic()
        while waiting and time.monotonic() - began < LOST_S:
            answered, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=LOOK_S)
            for ref in answered:
                cause, _ = _said(ref)
                if cause is not None and not is_echo(cause["reason"]):
                    return dict(cause)
        give_up(f"the workers lost each other: {failure['reason']}")
        raise error

    def part(self) -> None:
        """End what they are at of a trial. They stay warm for the next one, if they are at nothing."""
        if self._gang is None:
            return
        self._gang.part()
        self._gang = None
        self._left.set()
        asked, self._asked = self._asked, []
        late = _patiently(asked, ENDS_S)
        if not late and not self._ended:
            for member in self._members:
                member.part.remote()
            return
        for member in self._members:
            ray.kill(member)
        self._members, self._ended = [], False
        self._start()

    @property
    def _ranks(self) -> range:
        return range(1, len(self._members) + 1)

    def _start(self) -> None:
        """Begin an actor in each bundle but the first, where this process is."""
        group = ray.util.get_current_placement_group()
        assert group is not None, "Tune places a trial by a group"
        for rank in range(1, self._job.fit.workers):
            bundle = dict(group.bundle_specs[rank])
            place = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank)
            taken = {"num_cpus": bundle.get("CPU", 0), "num_gpus": bundle.get("GPU", 0)}
            actor = ray.remote(Member).options(scheduling_strategy=place, max_restarts=0, **taken)
            self._members.append(actor.remote(self._job))

    def _ask(self, name: str, *arguments: Sequence[Any]) -> None:
        """Let each do something while this worker does the same."""
        given = arguments or [()] * len(self._members)
        self._asked = [
            getattr(member, name).remote(*each) for member, each in zip(self._members, given, strict=True)
        ]
        self._left = threading.Event()
        if name not in TOGETHER:
            return
        at_work = list(zip(self._asked, self._members, strict=True))
        threading.Thread(target=self._watch, args=(at_work, self._left), daemon=True).start()

    def _watch(self, at_work: Sequence[tuple[Any, Any]], left: threading.Event) -> None:
        """See the end of another worker, while this one may be in a collective operation and wait for it.

        gloo has no means to leave one (`abort` of PyTorch 2.13 leaves the others waiting): it is the end of a
        process that closes its connections, of which they hear.
        """
        waiting, ends_at = dict(at_work), float("inf")
        while not left.wait(0 if waiting else LOOK_S):
            done = ray.wait(list(waiting), timeout=LOOK_S)[0] if waiting else []
            for ref in done:
                member, failure = waiting.pop(ref), _said(ref)[0]
                if failure is not None and not left.wait(ENDS_S):
                    ends_at, self._ended = time.monotonic() + STUCK_S, True
                    ray.kill(member)
            if time.monotonic() > ends_at:
                give_up("a worker failed, and this one does not hear of it")

    def _answers(self) -> list[Any]:
        """What came of it.

        Raises:
            ElsewhereUnfit: the PC of one can't train.
            WorkerFailed: one failed.
        """
        self._left.set()
        _patiently(self._asked, None)
        asked, self._asked = self._asked, []
        said = [_said(ref) for ref in asked]
        failures = [failure for failure, _ in said if failure is not None]
        if failures:
            raise error_of(failures[0])
        return [value for _, value in said]

    def _hand_out(self, checkpoint: Path) -> None:
        """Give a checkpoint to one worker of each PC that doesn't see it."""
        manifest = (checkpoint / checkpoint_store.MANIFEST).read_text()
        self._ask("clear")  # one worker's folder is another one's
        self._answers()
        self._ask("lacks", *[(checkpoint, manifest)] * len(self._members))
        lacking = [member for member, lacks in zip(self._members, self._answers(), strict=True) if lacks]
        for name, size in files_in(checkpoint).items() if lacking else ():
            with (checkpoint / name).open("rb") as content:
                for _ in range(0, max(size, 1), CHUNK_BYTES):
                    chunk = ray.put(content.read(CHUNK_BYTES))
                    self._asked = [member.take.remote(checkpoint, name, chunk) for member in lacking]
                    self._answers()
        self._ask("has", *[(checkpoint, manifest)] * len(self._members))
        self._answers()


def give_up(why: str) -> None:
    """End this process, the first worker's: all that is left of its gang goes with it."""
    print(f"trial ends here, to begin again elsewhere: {why}", file=sys.stderr, flush=True)
    os._exit(LOST)


def _patiently(asked: Sequence[Any], most_s: float | None) -> list[Any]:
    """Those that are not there within that time. A group of which a PC was lost may never be whole again."""
    group = ray.util.get_current_placement_group()
    waiting, began = list(asked), time.monotonic()
    while waiting and (most_s is None or time.monotonic() - began < most_s):
        _, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=LOOK_S)
        if waiting and ray.util.placement_group_table(group)["state"] == "RESCHEDULING":
            give_up("a PC of its workers is lost")
    return waiting


def _said(ref: Any) -> Said:
    try:
        said: Said = ray.get(ref)
    except RayActorError as error:
        give_up(f"a worker is lost: {first_line(error)}")
        raise
    return said


def _fetch(member: Any, name: str, size: int, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as content:
        for offset in range(0, size, CHUNK_BYTES):
            content.write(_said(member.read.remote(name, offset, CHUNK_BYTES))[1])
