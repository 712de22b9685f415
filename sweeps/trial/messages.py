"""What the process of a trial tells the driver: a message with each result of Tune, and whether it was saved.

Of a result Tune and its schedulers read that the trial is done, whether it is to be saved, and the report.
"""

from __future__ import annotations

import platform
import traceback
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ray.tune.result import DONE, SHOULD_CHECKPOINT

from sweeps.common.errors import CannotTrain, PCUnfit, is_out_of_memory, reason_of
from sweeps.common.formatting import GB, count
from sweeps.common.gpus import CONTEXT_GB, Card, GpuProcess
from sweeps.common.yaml_values import ParamValue
from sweeps.ray_cluster import nodes
from sweeps.storage.protocol import StorageError
from sweeps.training.report import REPORT, Report, RunHere

MESSAGE, SAVED = "message", "saved"
"""Keys of a result of Tune's. What is saved is known only after the step, and a trial that is done has no
next step to tell it: so it is a list, empty at first, that Tune sends along with the checkpoint."""
EARLIER_ERROR = "its GPU computed no more in it after an earlier error"
"""Why a process ended that could not begin a trial."""
NORMS = (
    "; its batch normalization sees fewer rows at a time, so its result differs from that of whole batches"
)


@dataclass(frozen=True)
class Finished:
    """The trial has trained all its epochs, or has ended by itself."""

    reason: str = ""


@dataclass(frozen=True)
class Diverged:
    """A metric that the trial is judged by is not finite."""

    reason: str


@dataclass(frozen=True)
class Left:
    """The trial has left its run, and has not ended."""

    position: str
    """Of its checkpoint; "" where there is nothing new to save."""


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The trial raised an error."""

    reason: str
    traceback: str
    is_user_error: bool = False


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """The memory of a GPU at the moment when a trial ran out of it."""

    card: Card
    pc: str
    node: str
    """Ray's id of the PC."""
    pid: int
    """Of the process that ran out of it."""
    own_bytes: int
    """That PyTorch had of it for that process."""
    asked_bytes: int
    """That it asked for in addition."""

    @property
    def free_bytes(self) -> int:
        """That nobody had."""
        return (self.card.memory_bytes or 0) - self.card.used_bytes

    @property
    def needed_bytes(self) -> float:
        """That the trial needs, as far as it has come, with what CUDA takes for its process."""
        return max(self.own_bytes + CONTEXT_GB * GB, self.card.held_bytes({self.pid})) + self.asked_bytes

    def room_bytes(self, own: Collection[int]) -> float:
        """That nobody but the sweep had; `own` as for `others`."""
        known = self.free_bytes + self.own_bytes + CONTEXT_GB * GB
        return max(self.card.room_bytes({self.pid, *own}), known)

    def others(self, own: Collection[int]) -> list[GpuProcess]:
        """The programs without which there would have been enough; [] where there are none.

        Args:
            own: process ids of the sweep on that PC.
        """
        found = self.card.neighbours({self.pid, *own}, self.own_bytes + CONTEXT_GB * GB)
        held = sum(each.used_bytes or 0 for each in found)
        return found if self.free_bytes < self.asked_bytes <= self.free_bytes + held else []

    def told(self, others: Sequence[GpuProcess]) -> str:
        """`GPU 0 of pc1 was used by user 1003 (pid 4711, python, 9.1 of 24 GB)`"""
        who = " and ".join(each.words(self.card.memory_bytes) for each in others)
        return f"GPU {self.card.index} of {self.pc} was used by {who}"


@dataclass(frozen=True, kw_only=True)
class OutOfMemory:
    """The trial ran out of memory."""

    reason: str
    """How it goes on, or why it can't."""
    traceback: str
    micro_batch: int | None = None
    """Rows with which it goes on; None: it is infeasible."""
    caution: str = ""
    """To be said once of a trial that goes on."""
    shortage: Shortage | None = None
    """None where it was not memory of a GPU, or no driver of NVIDIA's tells of it."""


@dataclass(frozen=True, kw_only=True)
class Unfit:
    """A PC can't train any trial."""

    reason: str
    pc: str
    """Its name; it may be that of another worker."""
    node: str
    """Ray's id of it."""


Failure = Failed | OutOfMemory | Unfit
TrialEnd = Finished | Diverged | Left | Failure


@dataclass(frozen=True, kw_only=True)
class Message:
    """What a process tells of its trial after a step."""

    report: Report | None = None
    """Of an epoch that has ended."""
    end: TrialEnd | None = None
    """None: the trial goes on here."""
    is_to_save: bool = False
    place: Mapping[str, Any] = field(default_factory=dict)
    """pc, pid and gpu; {} where the process has not begun the trial."""
    failures: int | None = None
    """How often the trial has raised, in earlier processes too; None where the process has not begun it."""
    has_test: bool = True
    """Whether the model can be scored on test rows."""
    notices: tuple[str, ...] = ()
    """For the user."""
    output: str = ""
    """What was printed since the message before."""

    def to_result(self) -> dict[str, Any]:
        """A result as Tune takes it, with an empty list for what is saved."""
        is_done = self.end is not None
        to_save = {SHOULD_CHECKPOINT: True} if self.is_to_save else {}
        return {MESSAGE: self, REPORT: self.report, SAVED: [], DONE: is_done, **to_save}


@dataclass(frozen=True)
class Saved:
    """A checkpoint was written."""

    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class NotSaved:
    """A checkpoint could not be written."""

    reason: str
    is_of_storage: bool = True
    """Whether the trial is not at fault."""
    node: str = ""
    """Ray's id of the PC with a fault of the storage."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A point, and whether and how its first steps train on a device."""

    trainable: str
    params: Mapping[str, ParamValue]
    """Swept hyperparameters."""
    pc: str
    device: str
    """Name of the GPU; "" on a CPU."""
    device_gb: float = 0.0
    """Memory of the GPU; 0 on a CPU."""
    end: TrialEnd | None = None
    """How it ended before its time."""
    memory_gb: float = 0.0
    """At its peak: of the GPU, else of the process."""
    epoch_s: float | None = None
    """Seconds that an epoch may take; None where the data does not say how many batches it has."""
    checkpoint_bytes: int = 0
    """0 where that is not known."""
    is_last: bool = False
    """Whether its process can try no further point: the GPU computes no more in it."""

    @property
    def is_broken(self) -> bool:
        """Whether it raised an error."""
        return isinstance(self.end, Failed)


def message_of(result: Mapping[str, Any] | None) -> Message:
    """The message of a result; an empty one of a trial without any."""
    message: Message = (result or {}).get(MESSAGE, Message())
    return message


def saved_of(checkpoint: Any) -> Saved | NotSaved | None:
    """What a checkpoint of Tune's says; None where nothing was to be saved."""
    saved: list[Saved | NotSaved] = [] if checkpoint is None else checkpoint.metrics.get(SAVED, [])
    return saved[0] if saved else None


def drop_recorded(result: dict[str, Any]) -> None:
    """Take out of a result what is in the record by then: Tune keeps it as long as the sweep runs."""
    result.pop(REPORT, None)
    result[MESSAGE] = replace(message_of(result), notices=(), output="")


class WorkerFailed(Exception):
    """A worker of several has failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure

    def __str__(self) -> str:
        return self.failure.reason


class LeftEarly(Exception):
    """A worker of several was sent SIGTERM while its training began, or together with what it had started.
    (Lightning's own error is a SystemExit, with which Ray would end the worker.)"""


def failure_of(error: BaseException, run: RunHere | None = None, worker: str = "") -> Failure:
    """How a trial failed that raised an error; of a fault of the PC or the storage it is not to blame.

    Args:
        error: that was raised.
        run: the training; None where it could not be built.
        worker: `in_another_worker`; "" in the first one.
    """
    if isinstance(error, WorkerFailed):
        return error.failure
    if isinstance(error, StorageError | PCUnfit):
        return unfit(error)
    text = "".join(traceback.format_exception(error))
    if isinstance(error, CannotTrain):
        return Failed(reason=f"{error}{worker}", traceback=text, is_user_error=True)
    if is_out_of_memory(error):
        return remedied(OutOfMemory(reason=reason_of(error), traceback=text), run, worker)
    return Failed(reason=f"{reason_of(error)}{worker}", traceback=text)


def unfit(error: Exception) -> Unfit:
    """Why this PC can't train any trial."""
    return Unfit(reason=str(error), pc=platform.node(), node=nodes.here())


def remedied(failure: OutOfMemory, run: RunHere | None, worker: str = "") -> OutOfMemory:
    """How a trial that ran out of memory goes on, or why it can't."""
    what = f"out of memory{worker}"
    if run is None:
        return replace(failure, reason=f"{what}: the model and its data can't be built")
    try:
        found = run.smaller_batch()
    except CannotTrain as error:
        return replace(failure, reason=f"{what}: {error}")
    rows, whole = count(found.rows, "row"), found.share * run.config.workers
    reason = (
        f"{what}: it goes on with micro-batches of {rows}, {found.accumulation} for each "
        f"step, so that its batch is {count(whole, 'row')} as before"
    )
    caution = NORMS if run.depends_on_batch else ""
    return replace(failure, reason=reason, micro_batch=found.rows, caution=caution)
