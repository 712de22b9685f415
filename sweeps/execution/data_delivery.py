"""Before a sweep starts on a cluster: the data that its trials need is made whole on every PC."""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ray

from sweeps.cluster import broadcast
from sweeps.cluster.nodes import Node
from sweeps.cluster.session import Cluster
from sweeps.common import plugins
from sweeps.common.errors import PCUnfit, UserError
from sweeps.common.formatting import count, duration, size
from sweeps.common.progress import Bar
from sweeps.common.yaml_values import ParamValue
from sweeps.plan.plan import Plan
from sweeps.storage import data_source, datasets, folder_reader
from sweeps.storage.data_source import READER, CopiedData, DataSource, LocalData, SharedData
from sweeps.training.data import dataset

READS = 8
"""Pieces that are read from the disk at a time, for all PCs."""
LOOK_S = 0.5
"""Between two looks at how far the PCs are."""
Raw = tuple[str, str, Mapping[str, ParamValue]]
"""A trainable whose data is not prepared: its name, its module path, hyperparameters that stand still."""


def of_trials(plan: Plan) -> dict[tuple[str, tuple[ParamValue, ...]], DataSource]:
    """Trainable and values of its PREPARE_PARAMS to how a PC comes by the data."""
    sets = datasets.by_hyperparameters({model.name: model.prepared for model in plan.models})
    if plan.config.address is None:
        return {key: LocalData(each.folder) for key, each in sets.items()}
    pc = platform.node()
    if plan.config.data == "copy":
        return {key: data_source.copied(each, pc) for key, each in sets.items()}
    return {key: SharedData(data_source.original_of(each), pc) for key, each in sets.items()}


@contextlib.contextmanager
def prepared(plan: Plan, cluster: Cluster) -> Iterator[None]:
    """Prepare what is not prepared yet, and make it whole on each PC on which trials may stand; then hand it
    out to those that join.

    Raises:
        CannotPrepare: too many raw files are corrupt, or the disk is full; what was prepared is kept.
        UserError: PCs that can't have it, or that lack raw data which is not prepared, and why.
    """
    datasets.prepare([each for model in plan.models for each in model.prepared])
    if plan.config.address is None:
        yield
        return
    sources = list(of_trials(plan).values())
    there = [node for node in cluster.nodes() if node.offer.cpus >= plan.config.cpus_per_trial]
    raw = [
        (model.name, model.module.__name__, dict(model.space.fixed))
        for model in plan.models
        if not model.prepared
    ]
    if sources:
        print(f"Looking for the prepared data on {count(len(there), 'PC')} ...", flush=True)
    lacking = _looked(there, sources, raw)
    if not sources or plan.config.data == "shared":
        yield
        return
    reader = _start_reader(sources)
    if lacking:
        _copy(reader, lacking, sources)
    yield
    del reader  # with which its process ends


def _looked(there: Sequence[Node], sources: Sequence[DataSource], raw: Sequence[Raw]) -> dict[Node, int]:
    """PCs to the bytes that they lack.

    Raises:
        UserError: PCs that can't have them.
    """
    answers = broadcast.answers(broadcast.begin(there, _look, sources, raw), None)
    if sources:
        _refuse({node: each.fault for node, each in answers.items() if each.is_there})
    said = {node: each.said for node, each in answers.items() if not each.fault}
    _refuse({node: fault for node, (_, fault) in said.items()})
    return {node: missing for node, (missing, _) in said.items() if missing}


def _look(sources: Sequence[DataSource], raw: Sequence[Raw]) -> tuple[int, str]:
    """On a PC: the bytes that it lacks, and why it can't have them or can't train on its own data."""
    try:
        for name, path, fixed in raw:
            module = plugins.load(path)
            dataset.describe_data(name, module, module.Params(**fixed))
        missing = 0
        for source in sources:
            if isinstance(source, CopiedData):
                missing += source.missing_bytes()
            else:
                source.here(print)
    except (PCUnfit, UserError) as error:
        return 0, str(error)
    return missing, ""


def _start_reader(sources: Sequence[DataSource]) -> Any:
    folders = [source.original.folder for source in sources if isinstance(source, CopiedData)]
    again = {"max_restarts": -1, "max_task_retries": -1}
    return folder_reader.start(folders, broadcast.here(), name=READER, max_concurrency=READS, **again)


def _copy(reader: Any, lacking: Mapping[Node, int], sources: Sequence[DataSource]) -> None:
    """To all PCs that lack something, at the same time."""
    asked = broadcast.begin(list(lacking), _bring, sources)
    began = time.monotonic()
    waiting = list(asked)
    done = 0
    with Bar("Copying data", sum(lacking.values()), unit="B") as bar:
        while waiting:
            _, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=LOOK_S)
            got = ray.get(reader.got.remote())
            now = sum(got.values())
            rate = size(now / (time.monotonic() - began))
            shares = [f"{n.hostname} {100 * got.get(n.id, 0) // lacking[n]} %" for n in lacking]
            bar.add(now - done, f"{rate}/s, {', '.join(shares)}")
            done = now
    answers = broadcast.answers(asked, None)
    _refuse({node: answer.fault or answer.said[2] for node, answer in answers.items() if answer.is_there})
    for node, answer in answers.items():
        if not answer.is_there:
            print(f"data       {node.name} has left meanwhile", flush=True)
            continue
        got_bytes, seconds, _ = answer.said
        rate = size(got_bytes / max(seconds, 1e-3))
        print(
            f"data       {size(got_bytes)} copied to {node.name} in {duration(seconds)}, {rate}/s", flush=True
        )


def _bring(sources: Sequence[DataSource]) -> tuple[int, float, str]:
    """On a PC: bytes that were copied to it, seconds, and why it can't have the others."""
    began, got = time.monotonic(), 0
    try:
        for source in sources:
            if isinstance(source, CopiedData):
                got += source.bring()
    except PCUnfit as error:
        return got, time.monotonic() - began, str(error)
    return got, time.monotonic() - began, ""


def _refuse(faults: Mapping[Node, str]) -> None:
    """The one place where PCs that can't have the data are refused."""
    found = {node.name: fault for node, fault in faults.items() if fault}
    if found:
        lines = "\n".join(f"  {pc}: {fault}" for pc, fault in sorted(found.items()))
        raise UserError(f"{count(len(found), 'PC')} of {len(faults)} can't have the data:\n{lines}")
