"""The context of a sweep that runs, over a record of a test."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from rich.console import Console

from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.faults.away_pcs import AwayPCs
from sweeps.execution.faults.requeue import Requeue
from sweeps.execution.run_context import RunContext
from sweeps.execution.trial_actors import TrialActors
from sweeps.plan.models import Model
from sweeps.plan.plan import Plan
from sweeps.ray_cluster.cluster import Cluster
from sweeps.record.record import Record
from sweeps.schedulers import none
from sweeps.search.search_method import RecordSearcher
from sweeps.searchers import random
from sweeps.storage.disk_guard import Disk
from tests.support.nodes import cluster_of

ALONE = cluster_of((1, 0))


def context_of(
    folder: Path,
    record: Record,
    config: SweepConfig,
    cluster: Cluster = ALONE,
    width: int = 1000,
    models: tuple[Model, ...] = (),
) -> RunContext:
    """A context whose words are kept, for `said`."""
    no_space: Any = None
    plan = Plan(config, models, random.Searcher, none.Scheduler, no_space, folder)
    console = Console(file=io.StringIO(), width=width)
    return RunContext(plan, record, cluster, Disk(folder, 0.0, 1), console)


def requeue_of(context: RunContext, searcher: RecordSearcher, processes: TrialActors) -> Requeue:
    """What requeues the trials of a context."""
    return Requeue(context, searcher, processes, AwayPCs(context, processes))


def said(context: RunContext) -> list[str]:
    """The lines that it has said."""
    assert isinstance(context.console.file, io.StringIO)
    return context.console.file.getvalue().splitlines()
