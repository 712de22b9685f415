"""What every PC needs before a sweep starts: the storage of its checkpoints, and the data of its trials."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping, Sequence

import ray

from sweeps.common.cli.terminal import Bar
from sweeps.common.errors import PCUnfit, UserError
from sweeps.common.formatting import count, duration, size
from sweeps.common.param_types import build_params
from sweeps.common.yaml_values import ParamValue
from sweeps.execution.faults.away_pcs import NOTHING_STARTS
from sweeps.execution.run_context import RunContext, data_of_trials
from sweeps.kinds import registry
from sweeps.kinds.trainable import Description
from sweeps.plan.plan import Plan
from sweeps.ray_cluster import nodes
from sweeps.ray_cluster.nodes import Node
from sweeps.record.record import Record
from sweeps.storage.data_source import PreparedData
from sweeps.storage.open import Folder
from sweeps.storage.protocol import Storage, StorageError, new_name
from sweeps.training.data.preparation import ensure_prepared

PROGRESS_EVERY_S = 2.0
Raw = tuple[Description, Mapping[str, ParamValue]]
"""A trainable whose data is not prepared, and its fixed hyperparameters."""


def check_storage_here(plan: Plan, record: Record) -> None:
    """Make the sweep's folder in its storage, and check it from here, before anything starts. One that has
    had checkpoints is not made again: below a share that is not mounted it would be empty.

    Raises:
        UserError: it can't be written or read, is gone, or has the checkpoints of another sweep of that name.
    """
    storage = plan.storage
    try:
        if isinstance(storage, Folder) and record.checkpoint_bytes and not storage.root.is_dir():
            raise UserError(
                f"{_setting(plan)}: {storage.where}, with the checkpoints of this sweep, is not there. Mount "
                "the share that it is on; or make that folder, to go on without them"
            )
        storage.make()
        fault = _fault(storage, "")
        taken = [] if fault or plan.config.resume is not None else storage.numbers()
    except OSError as error:
        fault, taken = str(error), []
    if fault:
        raise UserError(f"{_setting(plan)}: {platform.node()} can't use this storage: {fault}")
    if taken:
        raise UserError(
            f"--name {plan.config.name}: {storage.where} has checkpoints of {count(len(taken), 'trial')} "
            "already, of another sweep of that name; give another name, or remove them"
        )


def check_storage(context: RunContext) -> None:
    """Check that each PC that trains can write checkpoints and read those of others, all at the same time.
    One that does not answer is left out.

    Raises:
        UserError: the PCs that can't use it, and why.
    """
    plan = context.plan
    storage, name = plan.storage, new_name()
    try:
        storage.write_note(name)
    except OSError as error:
        raise UserError(f"{_setting(plan)}: {platform.node()} can't use this storage: {error}") from None
    answers = nodes.ask(context.cluster.nodes(), _fault, storage, name)
    faults = {}
    for node, each in answers.items():
        if not each.is_there:
            continue
        if each.fault and (notice := context.leave_out(node.id, f"{NOTHING_STARTS}: {each.fault}")):
            print(notice, flush=True)
        else:
            faults[node.name] = each.fault or each.value
    try:
        storage.remove_note(name)
    except OSError as error:
        faults[platform.node()] = str(error)
    _refuse(faults, f"{_setting(plan)}: ", "use this storage")


def _fault(storage: Storage, theirs: str) -> str:
    """What is wrong with a storage, seen from the PC that this runs on, where another PC wrote a small file
    of the name `theirs` ("": none did); "" where nothing is."""
    mine = new_name()
    try:
        if theirs:
            storage.read_note(theirs)
        storage.write_note(mine)
        read = storage.read_note(mine)
        storage.remove_note(mine)
    except FileNotFoundError:
        return (
            f"a file that the first PC wrote to {storage.where} is not there: all PCs must see that folder; "
            "share it, or give --storage sftp://host/path or s3://bucket/prefix"
        )
    except StorageError as error:
        return str(error)
    except OSError as error:
        return f"{storage.where}: {error.strerror or error}"
    if read == mine:
        return ""
    return f"{storage.where}: a file that was written there has other content when read back"


def _setting(plan: Plan) -> str:
    given = plan.config.storage
    return f"--results-dir {plan.config.results_dir}" if given is None else f"--storage {given}"


def deliver_data(context: RunContext) -> None:
    """Prepare the data here, and copy it to each PC that trains.

    Raises:
        CannotContinue: too many raw files are corrupt, or the disk is full; what was prepared is kept.
        UserError: the PCs that can't have the data, or that lack raw data, and why.
    """
    plan = context.plan
    for data_set in (each for model in plan.models for each in model.prepared):
        ensure_prepared(data_set)
    if context.cluster.is_alone:
        return
    sources = list(data_of_trials(plan).values())
    there = [node for node in context.cluster.nodes() if node.offer.cpus >= plan.config.cpus_per_trial]
    raw = [
        (model.trainable.description, dict(model.space.fixed)) for model in plan.models if not model.prepared
    ]
    if sources:
        print(f"Looking for the prepared data on {count(len(there), 'PC')} ...", flush=True)
    answers = nodes.ask(there, _look, sources, raw, timeout_s=None)
    if sources:
        _refuse({node.name: each.fault for node, each in answers.items() if each.is_there})
    found = {node: each.value for node, each in answers.items() if not each.fault}
    _refuse({node.name: fault for node, (_, fault) in found.items()})
    if lacking := {node: missing for node, (missing, _) in found.items() if missing}:
        _copy(lacking, sources)


def _look(sources: Sequence[PreparedData], raw: Sequence[Raw]) -> tuple[int, str]:
    """On a PC: the bytes that it lacks, and why it can't have them or has no raw data."""
    try:
        for description, fixed in raw:
            trainable = registry.load(description)
            trainable.describe_data(build_params(trainable.params_class, fixed))
        return sum(source.missing_bytes() for source in sources), ""
    except (PCUnfit, UserError) as error:
        return 0, str(error)


def _copy(lacking: Mapping[Node, int], sources: Sequence[PreparedData]) -> None:
    """Copy to all PCs that lack something, at the same time."""
    tasks = nodes.begin(list(lacking), _fetch, sources)
    began = time.monotonic()
    waiting, left, done = list(tasks), dict(lacking), 0
    with Bar("Copying data", sum(lacking.values()), unit="B") as bar:
        while waiting:
            asked = [tasks[one] for one in waiting]  # one that ends in this turn is asked a last time
            _, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=PROGRESS_EVERY_S)
            looks = nodes.ask(asked, _look, sources, [], timeout_s=PROGRESS_EVERY_S)
            left |= {node: each.value[0] for node, each in looks.items() if each.value and not each.value[1]}
            now = sum(lacking[node] - left[node] for node in left)
            shares = [f"{node.hostname} {100 - 100 * left[node] // lacking[node]} %" for node in left]
            bar.add(max(0, now - done), f"{size(now / (time.monotonic() - began))}/s, {', '.join(shares)}")
            done = max(now, done)
    answers = nodes.answers(tasks, None)
    _refuse({node.name: each.fault or each.value[2] for node, each in answers.items() if each.is_there})
    for node, answer in answers.items():
        if not answer.is_there:
            print(f"data       {node.name} has left meanwhile", flush=True)
            continue
        got_bytes, seconds, _ = answer.value
        rate, took = size(got_bytes / max(seconds, 1e-3)), duration(seconds)
        print(f"data       {size(got_bytes)} copied to {node.name} in {took}, {rate}/s", flush=True)


def _fetch(sources: Sequence[PreparedData]) -> tuple[int, float, str]:
    """On a PC: bytes that were copied to it, seconds, and why it can't have the others."""
    began, got, fault = time.monotonic(), 0, ""
    try:
        for source in sources:
            got += source.bring()
    except PCUnfit as error:
        fault = str(error)
    return got, time.monotonic() - began, fault


def _refuse(faults: Mapping[str, str], setting: str = "", what: str = "have the data") -> None:
    """Raise a UserError that lists the PCs with a fault, if there are any."""
    if found := {pc: fault for pc, fault in faults.items() if fault}:
        lines = "\n".join(f"  {pc}: {fault}" for pc, fault in sorted(found.items()))
        raise UserError(f"{setting}{count(len(found), 'PC')} of {len(faults)} can't {what}:\n{lines}")
