"""Before a sweep starts on a cluster: make the data that its trials need complete on every PC."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ray

from sweeps.common.cli.progress import Bar
from sweeps.common.errors import PCUnfit, UserError
from sweeps.common.formatting import count, duration, size
from sweeps.common.param_types import build_params
from sweeps.common.yaml_values import ParamValue
from sweeps.kinds import registry
from sweeps.kinds.trainable import Description
from sweeps.plan.plan import Plan
from sweeps.ray_cluster import broadcast
from sweeps.ray_cluster.nodes import Node
from sweeps.ray_cluster.session import Cluster
from sweeps.storage import folder_reader
from sweeps.storage.data_source import READER, PreparedData, cluster_data, local_data
from sweeps.training.data import dataset
from sweeps.training.data.dataset import DataSet
from sweeps.training.data.preparation import ensure_prepared

READS = 8
"""Pieces that are read from the disk at a time, for all PCs."""
PROGRESS_EVERY_S = 0.5
Raw = tuple[Description, Mapping[str, ParamValue]]
"""A trainable whose data is not prepared, and its fixed hyperparameters."""


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


@contextlib.contextmanager
def deliver_data(plan: Plan, cluster: Cluster) -> Iterator[None]:
    """Prepare the data here, copy it to each PC that trains, and serve it to PCs that join later.

    Raises:
        CannotContinue: too many raw files are corrupt, or the disk is full; what was prepared is kept.
        UserError: the PCs that can't have the data, or that lack raw data, and why.
    """
    for data_set in (each for model in plan.models for each in model.prepared):
        ensure_prepared(data_set)
    if plan.config.address is None:
        yield
        return
    sources = list(data_of_trials(plan).values())
    there = [node for node in cluster.nodes() if node.offer.cpus >= plan.config.cpus_per_trial]
    raw = [
        (model.trainable.description, dict(model.space.fixed)) for model in plan.models if not model.prepared
    ]
    if sources:
        print(f"Looking for the prepared data on {count(len(there), 'PC')} ...", flush=True)
    lacking = _missing_bytes(there, sources, raw)
    if not sources or plan.config.data == "shared":
        yield
        return
    folders = [source.original.folder for source in sources]
    again = {"max_restarts": -1, "max_task_retries": -1}
    reader = folder_reader.start(folders, broadcast.here(), name=READER, max_concurrency=READS, **again)
    if lacking:
        _copy(reader, lacking, sources)
    yield
    del reader  # its process ends with it


def _missing_bytes(
    there: Sequence[Node], sources: Sequence[PreparedData], raw: Sequence[Raw]
) -> dict[Node, int]:
    """The bytes to copy to each PC that lacks some.

    Raises:
        UserError: the PCs that can't have the data.
    """
    answers = broadcast.ask(there, _look, sources, raw, timeout_s=None)
    if sources:
        _refuse({node: each.fault for node, each in answers.items() if each.is_there})
    found = {node: each.value for node, each in answers.items() if not each.fault}
    _refuse({node: fault for node, (_, fault) in found.items()})
    return {node: missing for node, (missing, _) in found.items() if missing}


def _look(sources: Sequence[PreparedData], raw: Sequence[Raw]) -> tuple[int, str]:
    """On a PC: the bytes that it lacks, and why it can't have them or has no raw data."""
    try:
        for description, fixed in raw:
            trainable = registry.load(description)
            dataset.describe_data(trainable, build_params(trainable.params_class, fixed))
        return sum(source.missing_bytes() for source in sources), ""
    except (PCUnfit, UserError) as error:
        return 0, str(error)


def _copy(reader: Any, lacking: Mapping[Node, int], sources: Sequence[PreparedData]) -> None:
    """Copy to all PCs that lack something, at the same time."""
    tasks = broadcast.begin(list(lacking), _fetch, sources)
    began = time.monotonic()
    waiting = list(tasks)
    done = 0
    with Bar("Copying data", sum(lacking.values()), unit="B") as bar:
        while waiting:
            _, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=PROGRESS_EVERY_S)
            got = ray.get(reader.got.remote())
            now = sum(got.values())
            rate = size(now / (time.monotonic() - began))
            shares = [f"{n.hostname} {100 * got.get(n.id, 0) // lacking[n]} %" for n in lacking]
            bar.add(now - done, f"{rate}/s, {', '.join(shares)}")
            done = now
    answers = broadcast.answers(tasks, None)
    _refuse({node: answer.fault or answer.value[2] for node, answer in answers.items() if answer.is_there})
    for node, answer in answers.items():
        if not answer.is_there:
            print(f"data       {node.name} has left meanwhile", flush=True)
            continue
        got_bytes, seconds, _ = answer.value
        rate = size(got_bytes / max(seconds, 1e-3))
        print(
            f"data       {size(got_bytes)} copied to {node.name} in {duration(seconds)}, {rate}/s", flush=True
        )


def _fetch(sources: Sequence[PreparedData]) -> tuple[int, float, str]:
    """On a PC: bytes that were copied to it, seconds, and why it can't have the others."""
    began, got, fault = time.monotonic(), 0, ""
    try:
        for source in sources:
            got += source.bring()
    except PCUnfit as error:
        fault = str(error)
    return got, time.monotonic() - began, fault


def _refuse(faults: Mapping[Node, str]) -> None:
    """Raise a UserError that lists the PCs with a fault."""
    found = {node.name: fault for node, fault in faults.items() if fault}
    if found:
        lines = "\n".join(f"  {pc}: {fault}" for pc, fault in sorted(found.items()))
        raise UserError(f"{count(len(found), 'PC')} of {len(faults)} can't have the data:\n{lines}")
