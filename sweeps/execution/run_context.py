"""The context of the process that runs a sweep, from its first trial to its last."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass, field
from functools import cached_property

from ray.tune import Callback, PlacementGroupFactory
from rich.console import Console

from sweeps.common.cli import terminal
from sweeps.common.yaml_values import ParamValue
from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.run_end import RunEnd
from sweeps.plan.plan import Plan
from sweeps.ray_cluster import placement
from sweeps.ray_cluster.session import Cluster
from sweeps.ray_start.kept_here import KeptHere
from sweeps.record.constraints import FirstTrials
from sweeps.record.record import Record
from sweeps.storage.data_source import PreparedData, cluster_data, local_data
from sweeps.storage.disk_guard import Disk
from sweeps.training.data.dataset import DataSet
from sweeps.trial.job import Job


@dataclass(eq=False)
class RunContext:
    """The context of a sweep that runs; its plan may be steered."""

    plan: Plan
    record: Record
    cluster: Cluster
    end: RunEnd
    disk: Disk
    console: Console = field(default_factory=terminal.console)

    @classmethod
    def from_plan(cls, plan: Plan, record: Record, cluster: Cluster) -> RunContext:
        """The context of a run that begins now."""
        config = plan.config
        disk = Disk(
            plan.folder,
            config.min_free_gb,
            placement.slots(config, cluster.pcs),
            checkpoint_bytes=lambda: record.checkpoint_bytes if config.storage is None else 0,
        )
        end = RunEnd(config.time_budget_hours, lambda: record.elapsed_s)
        return cls(plan, record, cluster, end, disk)

    @property
    def config(self) -> SweepConfig:
        return self.plan.config

    def say(self, text: str) -> None:
        """Print a line that stays, above the table; a closed pipe or terminal ends no sweep."""
        with contextlib.suppress(OSError):
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def tell_unmet(self) -> None:
        """Tell, once, where the first trials have all missed the constraints."""
        if news := self._first_trials.news():
            self.say(news)

    @cached_property
    def _first_trials(self) -> FirstTrials:
        return FirstTrials(self.record)

    @cached_property
    def gpus_per_trial(self) -> float:
        """GPUs that a trial takes, unless it is measured how many trials share one."""
        return placement.gpus_per_trial(self.config, self.cluster.pcs)

    def slots(self, gpus: float) -> int:
        """Trials that fit now, each with so many GPUs.

        Never 0: where Tune has no trial it waits ten minutes for the searcher, and its callbacks with it.
        """
        return max(1, placement.most(self.config, self.cluster.pcs_now, gpus))

    def resources(self, gpus: float) -> PlacementGroupFactory:
        """The resources of a trial with so many GPUs, never on a PC where nothing may begin."""
        return placement.trial_resources(self.config, gpus, lambda: self.cluster.closed)


class DriverCallback(KeptHere, Callback):
    """A callback of Tune in the process of the sweep."""


def data_of_trials(plan: Plan) -> dict[tuple[str, tuple[ParamValue, ...]], PreparedData]:
    """How a PC gets the data, by trainable and values of its PREPARE_PARAMS."""

    def source(data_set: DataSet) -> PreparedData:
        if plan.config.address is None:
            return local_data(data_set)
        return cluster_data(data_set, is_copied=plan.config.data == "copy")

    return {
        (model.name, tuple(each.hyperparameters.values())): source(each)
        for model in plan.models
        for each in model.prepared
    }


def job_of(plan: Plan) -> Job:
    """What all trials of a sweep share."""
    config = plan.config
    fit = dataclasses.replace(
        config.fit,
        metric=config.objective.metric,
        mode=config.objective.mode,
        num_nodes=config.workers_per_trial,
        threads=config.cpus_per_trial,
    )
    return Job(
        trainables={model.name: model.trainable.description for model in plan.models},
        storage=plan.storage,
        fit=fit,
        other_metrics=tuple(config.objectives.others),
        max_failures=config.max_failures,
        checkpoint_epochs=config.checkpoint_epochs,
        is_bound_to_share=config.trials_per_gpu == "auto",
        prepared=data_of_trials(plan),
    )
