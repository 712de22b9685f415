"""The context of the process that runs a sweep, from its first trial to its last, and how it ends."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass, field
from functools import cached_property

from ray.tune import Callback, PlacementGroupFactory
from rich.console import Console

from sweeps.common.cli import json_output, terminal
from sweeps.common.formatting import fitted
from sweeps.common.yaml_values import ParamValue
from sweeps.config.sweep_config import SweepConfig
from sweeps.plan.plan import Plan
from sweeps.ray_cluster import placement
from sweeps.ray_cluster.cluster import Cluster
from sweeps.ray_cluster.placement import ChosenPCs
from sweeps.ray_cluster.places.place_claims import PlaceClaims
from sweeps.ray_cluster.ray_internals import KeptHere
from sweeps.record import constraints
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome
from sweeps.storage.data_source import PreparedData, cluster_data, local_data
from sweeps.storage.disk_guard import Disk
from sweeps.training.data.dataset import DataSet
from sweeps.trial.job import Job

SAVING = (Outcome.PAUSED, Outcome.INTERRUPTED, Outcome.OUT_OF_TIME)
"""Outcomes before which the trials save what they have trained."""


@dataclass(eq=False)
class RunEnd:
    """Whether and why a run of a sweep ends."""

    outcome: Outcome = Outcome.RUNNING
    error: str = ""
    """A user's mistake that showed only in training, or why the outcome is lost."""
    has_begun: bool = False
    status: int = 1
    """Exit status."""
    _can_save: bool = False

    def stop(self, outcome: Outcome, error: str = "", *, can_save: bool = False) -> None:
        """Stop all trials at the next turn of Tune's loop, or once they have saved what they have trained.

        Args:
            outcome: of the run.
            error: why, where the outcome is error or lost.
            can_save: whether trials can save although the outcome is lost. These ones always may: paused,
                interrupted, out of time.
        """
        self.outcome, self.error, self._can_save = outcome, error, can_save

    @property
    def is_open(self) -> bool:
        """Whether commands are taken: it runs, or is paused."""
        return self.outcome in (Outcome.RUNNING, Outcome.PAUSED)

    @property
    def is_running(self) -> bool:
        """Whether trials begin and train: nothing has stopped the sweep."""
        return self.outcome is Outcome.RUNNING

    @property
    def can_save(self) -> bool:
        """Whether trials save what they have trained before the sweep ends."""
        return self._can_save or self.outcome in SAVING


@dataclass(eq=False)
class RunContext:
    """The context of a sweep that runs; its plan may be steered."""

    plan: Plan
    record: Record
    cluster: Cluster
    disk: Disk
    console: Console = field(default_factory=terminal.console)
    end: RunEnd = field(default_factory=RunEnd)
    cell: terminal.Cell | None = None
    """Of a notebook, which shows the sweep in place of the terminal."""
    _is_unmet_told: bool = False

    @classmethod
    def from_plan(
        cls, plan: Plan, record: Record, cluster: Cluster, end: RunEnd, cell: terminal.Cell | None = None
    ) -> RunContext:
        """The context of a run that begins now."""
        config = plan.config
        disk = Disk(
            plan.folder,
            config.min_free_gb,
            placement.slots(config, cluster.pcs_at_start),
            checkpoint_bytes=lambda: record.checkpoint_bytes if config.storage is None else 0,
        )
        return cls(plan, record, cluster, disk, end=end, cell=cell)

    @property
    def config(self) -> SweepConfig:
        return self.plan.config

    @property
    def left_s(self) -> float | None:
        """Seconds until --time-budget-hours ends the sweep; None without a limit."""
        hours = self.config.time_budget_hours
        return None if hours is None else max(0.0, hours * 3600 - self.record.elapsed_s)

    @property
    def is_due(self) -> bool:
        """Whether the sweep is to end or to pause, maybe once its trials have left."""
        return not self.end.is_running or self.left_s == 0

    def say(self, text: str) -> None:
        """Print a line that stays, above the table; with --json it is an event, too."""
        json_output.write("notice", id=None, text=text.strip())
        self.show(text)

    def show(self, text: str) -> None:
        """Print a line that no event of its own is to tell. Neither a closed pipe or terminal ends the sweep,
        nor a Ctrl-C amid the write of another line, whose buffer is in use: the next one then prints both."""
        with contextlib.suppress(OSError, RuntimeError):
            shown = fitted(text, self.console.width if self.console.is_terminal else None)
            self.console.print(shown, markup=False, emoji=False, highlight=False, soft_wrap=True)

    def tell_unmet(self) -> None:
        """Tell, once, where the first trials have all missed the constraints."""
        if not self._is_unmet_told and (news := constraints.unmet(self.record)):
            self._is_unmet_told = True
            self.say(news)

    @cached_property
    def places(self) -> PlaceClaims:
        """The claims to places, which other sweeps share."""
        return PlaceClaims(self.plan.folder, is_on_this_pc=self.cluster.is_alone, here=self.cluster.here)

    def announced(self) -> contextlib.AbstractContextManager[None]:
        """Tell the sweeps of the queue of a cluster that this one is there, for a block in which it prepares;
        on one PC they see it."""
        if self.cluster.is_alone:
            return contextlib.nullcontext()
        worker = placement.worker_resources(self.config, self.gpus_per_trial)
        return self.places.announced(self.config, worker)

    @cached_property
    def gpus_per_trial(self) -> float:
        """GPUs that a trial takes, unless it is measured how many trials share one."""
        return placement.gpus_per_trial(self.config, self.cluster.pcs_at_start)

    def slots(self, gpus: float) -> int:
        """Trials that fit now, each with so many GPUs.

        Never 0: where Tune has no trial it waits ten minutes for the searcher, and its callbacks with it.
        """
        return max(1, placement.most(self.config, self.cluster.pcs, gpus))

    def leave_out(self, node: str, reason: str) -> str:
        """Place nothing more on the PC of this id; the line that says so. "" where it is the head, or the
        others have no room for a trial."""
        if not placement.most(self.config, self.cluster.staying(node), self.gpus_per_trial):
            return ""
        return self.cluster.leave_out(node, reason)

    def resources(self, gpus: float, chooser: ChosenPCs | None = None) -> PlacementGroupFactory:
        """The resources of a trial with so many GPUs, never on a PC where nothing may begin, and where others
        share the PCs on those that are chosen."""
        return placement.trial_resources(self.config, gpus, lambda: self.cluster.closed, chooser)


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
        sweep=str(config.name),
        fit=fit,
        stop_grace_s=config.stop_grace,
        other_metrics=tuple(config.objectives.others),
        max_failures=config.max_failures,
        checkpoint_epochs=config.checkpoint_epochs,
        is_bound_to_share=config.trials_per_gpu == "auto",
        prepared=data_of_trials(plan),
    )
