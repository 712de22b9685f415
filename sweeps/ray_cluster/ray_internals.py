"""What Ray 2.60 does not document and this program uses all the same; no other module does.

Each function says which public one is missing. `tests/sweeps/ray_cluster/test_ray_internals.py` fails
where a Ray has changed one of them.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import ray
from ray import cloudpickle
from ray._private import state as ray_state
from ray._raylet import GcsClient  # type: ignore[attr-defined]  # compiled, without types
from ray.exceptions import RayError

from sweeps.common.errors import UserError

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

PREEMPTION = 2
"""`DRAIN_NODE_REASON_PREEMPTION`: accepted although the PC is busy. The other reason is for idle PCs."""


def draining_nodes() -> dict[str, float]:
    """Ray's ids of the PCs that are being drained, each with its deadline as `time.time` has it, 0 for none.

    A PC whose `ray start --block` was ended is among them. Nothing public lists them (ray-project/ray#42982).
    """
    return {node: deadline_ms / 1000 for node, deadline_ms in ray_state.state.get_draining_nodes().items()}


def drain_node(gcs_address: str, node: str, timeout_s: float) -> None:
    """Begin to drain a PC: it gets no new work, and Ray stops there once its work is done.

    Never the head: Ray accepts that too, and then no program can join. Nothing public asks for a drain (the
    command `ray drain-node`, which is hidden, makes this call).

    Raises:
        UserError: Ray refuses, or it does not answer.
    """
    deadline_ms = int((time.time() + timeout_s) * 1000)
    try:
        client = GcsClient(address=gcs_address)
        is_accepted, reason = client.drain_node(node, PREEMPTION, "asked to leave", deadline_ms)
    except RayError as error:
        raise UserError(f"the head does not answer: {str(error).strip().splitlines()[-1]}") from None
    if not is_accepted:
        raise UserError(f"Ray refuses to drain it: {reason}")


def is_in_cluster(gcs_address: str, node: str) -> bool:
    """Whether a PC is still in the cluster. `ray.nodes` asks for the same from a part of it alone, and Ray on
    this PC may be ending."""
    info: Any = GcsClient(address=gcs_address).get_all_node_info().get(ray.NodeID.from_hex(node))
    return info is not None and info.state == 0  # GcsNodeInfo.ALIVE


def ended_jobs() -> frozenset[str]:
    """Ray's ids of the jobs of this cluster that have ended, also those that were killed. The public
    `ray.util.state.list_jobs` asks the dashboard, which a Ray may lack."""
    return frozenset(job["JobID"] for job in ray_state.state.job_table() if job["IsDead"])


def variables_of_this_pc() -> Mapping[str, str]:
    """The environment with which Ray was started on this PC, for one of its tasks, whose own has changed
    variables (CUDA_VISIBLE_DEVICES); without Ray, that of this process."""
    raylet = os.environ.get("RAY_RAYLET_PID")  # services.py sets it; nothing public says it
    return os.environ if raylet is None else psutil.Process(int(raylet)).environ()


def actor_of(trial: Trial) -> Any:
    """The Ray actor of a trial of Tune, or None. It has no public name (Tune's own PBT goes by this one)."""
    return trial.temporary_state.ray_actor


def error_of(trial: Trial) -> Exception:
    """The last error of a trial of Tune, which pickles errors of tasks and actors, and keeps others as text.

    The public `Trial.get_pickled_error` looks for it in the storage, where Tune has not put it yet.
    """
    file, text = trial.pickled_error_file, trial.error_file
    if file is not None and Path(file).is_file():
        error: Exception = cloudpickle.loads(Path(file).read_bytes())
        return error
    lines = Path(text).read_text().split("\n") if text is not None and Path(text).is_file() else []
    said = [line for line in lines if line.strip()]
    return RuntimeError(said[-1] if said else "Tune has not kept its error")


_HERE: weakref.WeakValueDictionary[int, KeptHere] = weakref.WeakValueDictionary()


class KeptHere:
    """An object whose copy is the object itself, unpickled in this process, and None in another.

    Tune pickles its callbacks, searcher, stopper and resources along with each trial, and uses no copy.
    No setting of it turns that off.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        _HERE[id(self)] = self
        return _kept_here, (id(self),)


def _kept_here(key: int) -> KeptHere | None:
    return _HERE.get(key)
