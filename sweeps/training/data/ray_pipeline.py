"""Raw files to parts by tasks of Ray, on all cores of this PC or of a cluster.

Each file is a task of its own: a decoder that crashes its process loses no other file. This process writes
what the workers send, so a cluster needs no shared folder. A part has the rows of one raw file, as Arrow
streams one after another, and is kept until all are prepared; one that exists is complete.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import sys
import time
import traceback
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sweeps.common import atomic_io
from sweeps.common.cli.terminal import Bar
from sweeps.common.errors import UserError, innermost, place_in
from sweeps.common.param_types import build_params
from sweeps.common.yaml_values import ParamValue
from sweeps.kinds import registry, source_files
from sweeps.kinds.trainable import Description
from sweeps.ray_start import ray_connection, ray_environment
from sweeps.training.data import shards
from sweeps.training.data.dataset import DataSet, Declared, UndeclaredHyperparameter
from sweeps.training.data.raw_files import Item
from sweeps.training.data.shards import Column

ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # This module reports each failed file once, by name.
    "RAY_DEDUP_LOGS_SKIP_REGEX": "A worker died or was killed|retries remaining",
}
BLOCK_BYTES = 64 * 2**20
"""Size of a block that a worker sends, at most (unless one row is larger)."""
SAY_AFTER_S = 10.0
"""How long the first core is waited for without a word."""


@dataclass(frozen=True)
class Fault:
    """Why a raw file can't be prepared."""

    reason: str
    is_mistake: bool = False
    """Whether the trainable is at fault, for every file alike."""


def run(data_set: DataSet, todo: Sequence[Item]) -> Generator[tuple[Item, str]]:
    """Prepare raw files into parts; yields each corrupt file with its reason.

    What fails on another PC, which may lack the file or a package, is tried again on this one.

    Raises:
        UserError: `prepare` reads a hyperparameter that PREPARE_PARAMS does not name.
    """
    import ray  # not above: a run whose data is prepared needs no Ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    anywhere: Any = ray.remote(num_cpus=1, max_retries=1)(prepare_file)
    this_pc = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    here = anywhere.options(scheduling_strategy=this_pc) if len(ray.nodes()) > 1 else anywhere
    waiting = iter(todo)
    running: dict[Any, tuple[Item, PartWriter, Any]] = {}

    def begin(item: Item, task: Any) -> None:
        blocks = task.remote(item, data_set.description, dict(data_set.hyperparameters), tells=not has_core)
        running[blocks] = item, PartWriter(data_set.part(item)), task

    rows, began, has_core = 0, time.monotonic(), False
    is_full = ray.available_resources().get("CPU", 0) < 1
    try:
        with Bar("Preparing", len(data_set.items), done=len(data_set.items) - len(todo)) as bar:
            # On each core a file is prepared, and the rows of another wait to be written.
            most = 2 * int(ray.cluster_resources().get("CPU", 1))
            while True:
                for item in itertools.islice(waiting, max(0, most - len(running))):
                    begin(item, anywhere)
                if not running:
                    return
                quiet_s = SAY_AFTER_S if is_full and not has_core else None
                ready, _ = ray.wait(list(running), num_returns=1, timeout=quiet_s)
                if not ready:
                    is_full = False  # it is said once
                    bar.say(
                        "No CPU core of this Ray is free: others hold all of them. The preparation goes on "
                        "as soon as one is free. Ctrl-C is safe: what is prepared is kept."
                    )
                    continue
                (blocks,), has_core = ready, True
                item, writer, task = running[blocks]
                found = _next_of(blocks)
                if isinstance(found, pa.Buffer):
                    rows += writer.add(found)
                    continue
                del running[blocks]
                if found is None:
                    writer.commit()
                else:
                    writer.discard()
                    if found.is_mistake:
                        raise UserError(f"{data_set.description.name}: {found.reason}")
                    if task is not here:
                        begin(item, here)
                        continue
                    yield item, found.reason
                bar.add(1, f"{rows:,} rows, {rows / (time.monotonic() - began):,.0f} rows/s")
    finally:
        for blocks, (_, writer, _) in running.items():
            ray.cancel(blocks)
            writer.discard()


def _next_of(blocks: Any) -> pa.Buffer | Fault | None:
    """The next block of a raw file, or why there is none; None behind the last one."""
    import ray

    try:
        found: pa.Buffer | Fault | None = ray.get(next(blocks))
    except StopIteration:  # Ray drops what is no more than was read before a process died, also a fault
        return Fault("its process died, and another one did not come as far")
    except ray.exceptions.RayError:
        return Fault("its process died twice: native code crashed, or memory ran out")
    return found


def prepare_file(
    item: Item, description: Description, hyperparameters: Mapping[str, ParamValue], *, tells: bool = False
) -> Iterator[pa.Buffer | Fault | None]:
    """The blocks of one raw file and None, or its fault; runs in a worker on any PC. One that `tells` begins
    with an empty block: it has a core."""
    if tells:
        yield pa.py_buffer(b"")
    try:
        if not item.is_as_listed():
            yield Fault("it has changed since the raw files were listed")
            return
        trainable = registry.load(description)
        assert trainable.preparation is not None
        given = build_params(trainable.params_class, hyperparameters)
        params = Declared(given, tuple(hyperparameters), "prepare")
        yield from encode_blocks(trainable.preparation.prepare(item.path, params))
        yield None
    except UndeclaredHyperparameter as error:
        yield Fault(str(error), is_mistake=True)
    except (Exception, SystemExit) as error:  # it is the user's code, and the file may be anything
        cause = innermost(error)
        said = " ".join(str(cause).split())
        if not isinstance(cause, BadRows):
            kind, place = type(cause).__name__, place_in("".join(traceback.format_exception(error)))
            said = (f"{kind}: {said}"[:300] if said else kind) + place
        yield Fault(said)


@contextlib.contextmanager
def connected(data_set: DataSet, address: str | None) -> Iterator[None]:
    """Connect to Ray: the cluster already joined, else the one at the address, else a new one on this PC."""
    if "ray" in sys.modules and sys.modules["ray"].is_initialized():
        yield
        return
    ray_environment.set_environment(ENVIRONMENT)
    ray_environment.settle_token(address)
    ray_connection.refuse_outside(address)
    import ray  # not above: it reads ENVIRONMENT at its import

    code = source_files.to_send(registry.load(data_set.description).sources()) if address else []
    before = signal.getsignal(signal.SIGTERM)
    if address:
        ray_connection.join(ray, address, code, ENVIRONMENT)
    else:
        ray_connection.start(ray, dashboard=False)
    try:
        yield
    finally:
        ray_connection.shut_down(ray)
        signal.signal(signal.SIGTERM, before)  # Ray leaves its own handler


class BadRows(ValueError):
    """`prepare` yielded something else than a block of rows."""


def encode_blocks(blocks: Iterable[Any]) -> Iterator[pa.Buffer]:
    """The blocks of one raw file for `PartWriter`.

    Raises:
        BadRows: a block is not one of rows, or there is no row.
        Exception: any error of `prepare`.
    """
    columns: dict[str, Column] | None = None
    has_rows = False
    for block in blocks:
        rows = _arrays(block)
        columns = columns or shards.columns_of(rows)
        try:
            table = shards.to_table(rows, columns)
        except ValueError as error:
            raise BadRows(str(error)) from None
        step = max(1, BLOCK_BYTES // max(1, sum(column.row_bytes for column in columns.values())))
        for first in range(0, table.num_rows, step):
            piece = table.slice(first, step)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(piece)
            yield sink.getvalue()
            has_rows = True
    if not has_rows:
        raise BadRows("prepare yields no row")


class PartWriter:
    """Writes one part, block by block."""

    def __init__(self, path: Path) -> None:
        self._path, self._part = path, atomic_io.part_of(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._part.open("wb")

    def add(self, block: pa.Buffer) -> int:
        """Append a block of `encode_blocks`; the number of its rows."""
        self._file.write(block)
        return sum(batch.num_rows for batch in pa.ipc.open_stream(block)) if block.size else 0

    def commit(self) -> None:
        """Rename the complete part to its final name."""
        self._file.close()
        atomic_io.put(self._part, self._path)

    def discard(self) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)


def open_part(path: Path) -> list[pa.RecordBatch]:
    """The blocks of rows of a part, memory-mapped."""
    with pa.memory_map(str(path)) as opened:
        content = pa.BufferReader(opened.read_buffer())
    found: list[pa.RecordBatch] = []
    while content.tell() < content.size():
        found += pa.ipc.open_stream(content)
    return found


def _arrays(block: Any) -> dict[str, np.ndarray[Any, Any]]:
    if not isinstance(block, Mapping) or not block:
        raise BadRows(f"prepare yields {type(block).__name__}, not column -> array [rows, ...]")
    arrays = {str(name): np.asarray(values) for name, values in block.items()}
    for name, values in arrays.items():
        if values.dtype.kind not in "biuf" or not values.dtype.isnative:  # booleans, integers, floats
            raise BadRows(
                f"column {name} has type {values.dtype}: it must hold numbers in this PC's byte order"
            )
        if values.ndim == 0:
            raise BadRows(f"column {name} is one value, not an array [rows, ...]")
    return arrays
