"""What a trial takes of the PCs, on which PCs it may be placed, and how many run at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from ray.tune import PlacementGroupFactory
from ray.util.placement_group import PlacementGroup, placement_group

from sweeps.common.errors import UserError
from sweeps.common.formatting import GB, count
from sweeps.config.sweep_config import SweepConfig
from sweeps.ray_cluster.nodes import PC
from sweeps.ray_cluster.ray_internals import KeptHere

ROUNDED = 1e-9
NODE_ID = "ray.io/node-id"
"""Ray's label of a PC with its id."""


class ChosenPCs(Protocol):
    """Who chooses the PCs of each trial where several sweeps share them."""

    def choose(self, workers: int) -> Sequence[str] | None:
        """Ray's id of the PC for each worker of a trial that is placed now; None: any but those closed."""

    def note(self, group: PlacementGroup, chosen: Sequence[str] | None) -> None:
        """Note the placement group of that trial."""


class Place(KeptHere, PlacementGroupFactory):
    """The resources of a trial, never on the PCs whose ids `away` returns.

    Tune compares resources, and reuses a warm process only for equal ones: where they are is no part of that.
    """

    def __init__(
        self,
        bundles: Sequence[Mapping[str, float]],
        away: Callable[[], Collection[str]],
        chooser: ChosenPCs | None = None,
    ) -> None:
        super().__init__([dict(bundle) for bundle in bundles])
        self._away, self._chooser = away, chooser

    def to_placement_group(self) -> PlacementGroup:
        away, chosen = self._away(), None
        where = [_not_on(away)] * len(self.bundles) if away else None
        if self._chooser is not None and (chosen := self._chooser.choose(len(self.bundles))) is not None:
            where = [{NODE_ID: pc} for pc in chosen]
        group: PlacementGroup = placement_group(self.bundles, bundle_label_selector=where)
        if self._chooser is not None:
            self._chooser.note(group, chosen)
        return group


def _not_on(away: Collection[str]) -> dict[str, str]:
    """Ray's label selector for every PC but these."""
    return {NODE_ID: f"!in({','.join(sorted(away))})"}


def trial_resources(
    config: SweepConfig,
    gpus: float,
    away: Callable[[], Collection[str]] = frozenset,
    chooser: ChosenPCs | None = None,
) -> PlacementGroupFactory:
    """The resources of a trial: a bundle for each worker, placed all together or not at all. Of several
    workers each is a process, and that of the trial takes nothing.

    Args:
        config: of the sweep.
        gpus: for each worker; may be a share of one.
        away: Ray's ids of the PCs on which nothing may be placed now.
        chooser: of the PCs, where several sweeps share them.
    """
    bundle = {"CPU": float(config.cpus_per_trial), "GPU": gpus}
    if memory := _memory_bytes(config):
        bundle["memory"] = memory
    workers = config.workers_per_trial
    return Place([bundle] if workers == 1 else [{}, *[bundle] * workers], away, chooser)


def worker_resources(config: SweepConfig, gpus: float) -> dict[str, float]:
    """What each worker of a trial takes of a PC. A share of a GPU is one of as many equal ones as fit."""
    (worker, *_) = trial_resources(config, 1 / trials_on_gpu(gpus) if 0 < gpus < 1 else gpus).bundles
    return dict(worker)


def task_resources(config: SweepConfig, gpus: float, away: Collection[str] = ()) -> dict[str, Any]:
    """The resources of one worker, as the options of a Ray task that runs on no PC of `away`."""
    return {
        "num_cpus": config.cpus_per_trial,
        "num_gpus": gpus,
        "memory": _memory_bytes(config) or None,
        "label_selector": _not_on(away) if away else None,
    }


def slots(config: SweepConfig, pcs: Sequence[PC]) -> int:
    """Trials that run at a time: a worker is on one PC, a share of a GPU on one GPU, the workers of a trial
    wherever there is room.

    Raises:
        UserError: not even one fits.
    """
    gpus, workers = gpus_per_trial(config, pcs), config.workers_per_trial
    if workers > 1 and gpus not in (0, 1):
        raise UserError(
            f"--gpus-per-trial {gpus:g}: each of {workers} workers (--workers-per-trial) computes on one GPU "
            "of its own; give 1, or 0"
        )
    if config.gpu_memory_gb_per_trial and not gpus:
        raise UserError(
            f"--gpu-memory-gb-per-trial {config.gpu_memory_gb_per_trial:g}: no trial takes a GPU here"
        )
    if fitting := most(config, pcs, gpus):
        return fitting
    memory = config.memory_gb_per_trial
    here = "; ".join(_in_words(pc, with_memory=memory is not None) for pc in pcs)
    needs = f", {memory:g} GB (--memory-gb-per-trial)" if memory else ""
    takes = f"{count(config.cpus_per_trial, 'CPU')} and {count(gpus, 'GPU')}"
    if workers == 1:
        gpus_flag = "--gpus-per-trial" if config.trials_per_gpu is None else "--trials-per-gpu"
        raise UserError(
            f"a trial takes {takes} (--cpus-per-trial, {gpus_flag}){needs}; no PC has that: {here}"
        )
    raise UserError(
        f"--workers-per-trial {workers}: each takes {takes} (--cpus-per-trial, --gpus-per-trial){needs}; "
        f"there is room for {_room(config, pcs, gpus)}: {here}"
    )


def most(config: SweepConfig, pcs: Sequence[PC], gpus: float, closed: int = 0) -> int:
    """Trials that run at a time on these PCs, each with so many GPUs, where `closed` places get none; 0 where
    none fits."""
    fitting = max(0, _room(config, pcs, gpus) // config.workers_per_trial - closed)
    return min(fitting, config.max_concurrent or fitting)


def holds_a_worker(config: SweepConfig, pcs: Sequence[PC], gpus: float) -> bool:
    """Whether one of these PCs has room for a worker of a trial, with so many GPUs."""
    return _room(config, pcs, gpus) > 0


def gpus_per_trial(config: SweepConfig, pcs: Sequence[PC]) -> float:
    """GPUs that a trial takes: as asked for, else one where a PC has any. Where sharing is measured, of the
    first trials."""
    if config.gpus_per_trial is not None:
        return config.gpus_per_trial
    if config.trials_per_gpu == "auto":
        return 1.0
    if config.trials_per_gpu is not None:
        return 1 / config.trials_per_gpu
    return float(any(pc.gpus for pc in pcs))


def _room(config: SweepConfig, pcs: Sequence[PC], gpus: float) -> int:
    """Workers that fit on these PCs."""
    return sum(_fit_on(pc, config, gpus) for pc in pcs)


def _fit_on(pc: PC, config: SweepConfig, gpus: float) -> int:
    fitting = pc.cpus // config.cpus_per_trial
    if memory := config.memory_gb_per_trial:
        fitting = min(fitting, int(min(pc.memory_gb / memory, fitting)))
    if gpus == 0:
        return fitting
    return min(fitting, pc.gpus * trials_on_gpu(gpus) if gpus <= 1 else int(pc.gpus // gpus))


def trials_on_gpu(gpus: float) -> int:
    """Trials that share a GPU, where each takes so many; 1 where it takes whole ones."""
    return int(1 / gpus + ROUNDED) if 0 < gpus < 1 else 1


def _memory_bytes(config: SweepConfig) -> int:
    return int((config.memory_gb_per_trial or 0) * GB)


def _in_words(pc: PC, *, with_memory: bool) -> str:
    memory = f", {pc.memory_gb:.3g} GB" if with_memory else ""
    return f"{count(pc.cpus, 'CPU')}, {count(pc.gpus, 'GPU')}{memory}"
