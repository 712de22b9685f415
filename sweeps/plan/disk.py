"""The disk space that the checkpoints of a sweep will take."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from sweeps.common.formatting import bytes_of, count, size
from sweeps.plan.plan import Plan
from sweeps.ray_cluster import placement, session
from sweeps.training import checkpoint_store


@dataclass(frozen=True)
class DiskUse:
    """Bytes on the disk."""

    most: float
    """At any time, at most."""
    end: float
    """When the sweep has ended."""


def checkpoint_use(
    checkpoint_bytes: float,
    keep: int | str,
    trials: int,
    running: int,
    waiting: int,
    reruns: int = 0,
    front: int = 1,
) -> DiskUse:
    """What the checkpoints of a sweep take at most.

    Args:
        checkpoint_bytes: size of one; with 1, the result is their number.
        keep: --keep-checkpoints, a number of trials or a size.
        trials: of the search.
        running: trials that train at a time. Each has its newest checkpoints and may be writing another.
        waiting: trials that wait at rungs, each with its newest checkpoints.
        reruns: confirmed trials, each with the checkpoint of its best rerun; at the end those of the front
            are left.
        front: the best trials, at most: one, or with several objectives any number.
    """
    running = min(running, trials)
    waiting = min(waiting, trials - running)
    of_live = running * (checkpoint_store.KEPT + 1) + waiting * checkpoint_store.KEPT
    best = front * checkpoint_bytes  # best/ holds its weights, which are a part of it
    kept = min(_kept_bytes(checkpoint_bytes, keep), trials * checkpoint_bytes)
    return DiskUse(
        kept + best + (of_live + reruns) * checkpoint_bytes,
        kept + best + min(reruns, front) * checkpoint_bytes,
    )


def describe(plan: Plan, checkpoint_bytes: float = 0) -> str:
    """What the checkpoints of a sweep will take, in words.

    Args:
        plan: of the sweep.
        checkpoint_bytes: size of the largest one; 0: it is not known yet.
    """
    keep = plan.config.keep_checkpoints
    if not checkpoint_bytes:
        return _in_checkpoints(plan, keep)
    use, few = _of(plan, checkpoint_bytes, keep), ""
    if plan.config.storage is None and (free := _free(plan.folder)) < use.most:
        few = f"; the disk has {size(free)} free"
    return (
        f"at most {size(use.most)} while it runs{_each(plan)}, {size(use.end)} when it has ended, "
        f"with checkpoints of {size(checkpoint_bytes)}{few}"
    )


def _in_checkpoints(plan: Plan, keep: int | str) -> str:
    """The number of checkpoints, of an unknown size."""
    unknown = "the size of one is not known yet"
    if isinstance(keep, int):
        use = _of(plan, 1, keep)
        most = f"at most {count(use.most, 'checkpoint')} while it runs{_each(plan)}"
        return f"{most}, {use.end:,.0f} when it has ended; {unknown}"
    others = _of(plan, 1, 0).most
    return (
        f"{keep} of kept checkpoints, and at most {others:,.0f} others while it runs{_each(plan)}; {unknown}"
    )


def _each(plan: Plan) -> str:
    """What comes on top for each trial that trains, where it is not known how many do."""
    if plan.config.address is None or plan.config.max_concurrent is not None:
        return ""
    return f" (and {checkpoint_store.KEPT + 1} more checkpoints for each trial that trains)"


def _of(plan: Plan, checkpoint_bytes: float, keep: int | str) -> DiskUse:
    config = plan.config
    running = config.max_concurrent or 0
    if config.address is None:
        running = placement.slots(config, [session.this_pc()])
    trials = config.num_trials or 0
    front, reruns = 1, config.confirm_top
    if config.objectives.are_several:  # all may be on the front, whose weights are kept
        front = reruns = trials
        keep = trials if isinstance(keep, int) and keep else keep
    reruns = reruns if config.confirm else 0
    waiting = plan.most_waiting(running)
    return checkpoint_use(checkpoint_bytes, keep, trials, running, waiting, reruns, front)


def _kept_bytes(checkpoint_bytes: float, keep: int | str) -> float:
    if isinstance(keep, int):
        return keep * checkpoint_bytes
    return max(bytes_of(keep) or 0, checkpoint_bytes)  # the best one is always kept


def _free(folder: Path) -> int:
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return shutil.disk_usage(there).free
