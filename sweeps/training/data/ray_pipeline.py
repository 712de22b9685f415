"""Raw files to parts with Ray Data, on all cores of this PC or of a cluster.

Each file is a task of its own: a decoder that crashes its process loses no other file. This process writes
what the workers send, so a cluster needs no shared folder. A part is an Arrow file with the rows of one raw
file, kept until all are prepared; one that exists is complete.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sweeps.common import atomic_io, ray_auth, ray_connection
from sweeps.common.cli.progress import Bar
from sweeps.common.errors import CannotPrepare, UserError, first_line, innermost
from sweeps.common.param_types import build_params
from sweeps.common.yaml_values import ParamValue
from sweeps.kinds import registry, source_files
from sweeps.kinds.trainable import Description
from sweeps.training.data import shards
from sweeps.training.data.dataset import DataSet, Declared, UndeclaredHyperparameter
from sweeps.training.data.raw_files import Item
from sweeps.training.data.shards import Column

RETRIES = 1
"""Retries of a raw file whose process died."""
DIED = 16
"""Raw files whose process may die, whatever --max-bad-pct allows."""
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # This module reports each failed file once, by name.
    "RAY_DATA_LOG_LEVEL": "CRITICAL",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "A worker died or was killed|retries remaining|Task _map_task failed",
}
BLOCK_BYTES = 64 * 2**20
"""Size of a block that a worker sends, at most (unless one row is larger)."""
KINDS = "biuf"
"""NumPy's kinds of types that a column may have: booleans, integers and floats."""


def run(data_set: DataSet, todo: Sequence[Item], allowed: int) -> Generator[tuple[Item, str]]:
    """Prepare raw files into parts; yields each corrupt file with its reason.

    Raises:
        UserError: `prepare` reads a hyperparameter that PREPARE_PARAMS does not name.
        CannotPrepare: too many processes died.
    """
    waiting = {item.part: item for item in todo}
    writers: dict[str, PartWriter] = {}
    rows, began = 0, time.monotonic()
    done = len(data_set.items) - len(todo)
    try:
        with (
            Bar("Preparing", len(data_set.items), done=done) as bar,
            contextlib.closing(_messages(data_set, list(waiting.values()), allowed)) as messages,
        ):
            for message in messages:
                if message["mistake"]:
                    raise UserError(f"{data_set.description.name}: {message['mistake']}")
                part = str(message["part"])
                if part not in waiting:  # a retried worker sends its blocks again
                    continue
                if part not in writers:
                    writers[part] = PartWriter(data_set.part(waiting[part]))
                if fault := _fault(message, writers[part].blocks):
                    writers.pop(part).discard()
                    yield waiting[part], fault
                elif message["is_last"]:
                    writers.pop(part).commit()
                else:
                    writers[part].add(message["payload"])
                    rows += int(message["rows"])
                    continue
                del waiting[part]
                bar.add(1, f"{rows:,} rows, {rows / (time.monotonic() - began):,.0f} rows/s")
    finally:
        for writer in writers.values():
            writer.discard()
    for item in waiting.values():
        yield item, "its process died twice: native code crashed, or memory ran out"


def _fault(message: Mapping[str, Any], blocks: int) -> str:
    """Why a raw file can't be prepared, by its worker's message after `blocks` others; "" when it can."""
    if message["error"]:
        return str(message["error"])
    number = int(message["number"])  # a retried worker may yield other blocks than before
    return "" if number == blocks else f"blocks are missing: block {number:,} came after {blocks:,} others"


def worked(
    batch: Mapping[str, Any], description: Description, hyperparameters: Mapping[str, ParamValue]
) -> Iterator[dict[str, Any]]:
    """A message per block of one raw file and a last one, or its error; runs in a worker on any PC.

    Args:
        batch: one row with `part` and `path`.
        description: of the trainable.
        hyperparameters: PREPARE_PARAMS with their values.
    """
    path, number = Path(str(batch["path"][0])), 0

    def message(payload: bytes = b"", **facts: Any) -> dict[str, Any]:
        others = {"rows": 0, "is_last": False, "error": "", "mistake": "", **facts}
        columns = {"part": str(batch["part"][0]), "number": number, **others}
        payloads = pa.array([payload], pa.large_binary())
        return {**{name: [value] for name, value in columns.items()}, "payload": payloads}

    try:
        trainable = registry.load(description)
        assert trainable.preparation is not None
        given = build_params(trainable.params_class, hyperparameters)
        params = Declared(given, tuple(hyperparameters), "prepare")
        for block, rows in encoded(trainable.preparation.prepare(path, params)):
            yield message(block, rows=rows)
            number += 1
        yield message(is_last=True)
    except UndeclaredHyperparameter as error:  # for every file alike
        yield message(mistake=str(error))
    except (Exception, SystemExit) as error:  # it is the user's code, and the file may be anything
        own = error.__traceback__.tb_next if error.__traceback__ else None  # without this function
        yield message(error=reason_of(error.with_traceback(own), "prepare"))


def _messages(data_set: DataSet, items: Sequence[Item], allowed: int) -> Generator[dict[str, Any]]:
    """Messages of `worked` as they arrive; a file whose process died sends no last one."""
    import ray.data  # not above: a run whose data is prepared needs no Ray

    worker: Any = worked
    batch: Any
    rows = [{"part": item.part, "path": str(item.path)} for item in items]
    most = max(allowed, DIED)
    with contextlib.ExitStack() as stack:
        # Ray Data 2.60 retries for ever without `max_retries`; a copied context warns of its own.
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", category=DeprecationWarning)
        context = ray.data.DataContext.get_current().copy()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        context.max_errored_blocks = most
        stack.enter_context(ray.data.DataContext.current(context))
        blocks = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
            worker,
            fn_kwargs={
                "description": data_set.description,
                "hyperparameters": dict(data_set.hyperparameters),
            },
            batch_size=1,
            batch_format="numpy",
            num_cpus=1,
            max_retries=RETRIES,
        )
    try:
        for batch in blocks.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
            payloads = batch.column("payload")
            for number, message in enumerate(batch.drop_columns(["payload"]).to_pylist()):
                yield {**message, "payload": payloads[number].as_buffer()}
    except ray.exceptions.RayError as error:
        raise CannotPrepare(
            f"the processes of more than {most:,} raw files died. Check whether prepare crashes or runs out "
            f"of memory. Ray's error: {first_line(error)}"
        ) from None


@contextlib.contextmanager
def connected(data_set: DataSet, address: str | None) -> Iterator[None]:
    """Connect to Ray: the cluster already joined, else the one at the address, else a new one on this PC."""
    if "ray" in sys.modules and sys.modules["ray"].is_initialized():
        yield
        return
    ray_connection.set_environment(ENVIRONMENT)
    ray_connection.refuse_silent(address)
    ray_auth.settle(address)
    ray_connection.refuse_outside(address)
    import ray  # not above: it reads ENVIRONMENT at its import

    code = source_files.to_send(registry.load(data_set.description).sources()) if address else []
    before = signal.getsignal(signal.SIGTERM)
    if address:
        ray_connection.join(ray, address, code, ENVIRONMENT)
    else:
        ray_connection.start(ray, len(os.sched_getaffinity(0)), dashboard=False)
    try:
        yield
    finally:
        ray_connection.shut_down(ray)
        signal.signal(signal.SIGTERM, before)  # Ray leaves its own handler


class BadRows(ValueError):
    """`prepare` yielded something else than a block of rows."""


def encoded(blocks: Iterable[Any]) -> Iterator[tuple[bytes, int]]:
    """The blocks of one raw file as bytes for `PartWriter`, each with its number of rows.

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
            yield sink.getvalue().to_pybytes(), piece.num_rows
            has_rows = True
    if not has_rows:
        raise BadRows("prepare yields no row")


class PartWriter:
    """Writes one part, block by block."""

    def __init__(self, path: Path) -> None:
        self._path, self._part = path, atomic_io.part_of(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._part.open("wb")
        self._writer: Any = None
        self.rows = self.blocks = 0

    def add(self, block: Any) -> None:
        """Append a block of `encoded`: bytes, or an Arrow buffer."""
        with pa.ipc.open_stream(block) as stream:
            self._writer = self._writer or pa.ipc.new_file(self._file, stream.schema)
            for batch in stream:
                self._writer.write_batch(batch)
                self.rows += batch.num_rows
        self.blocks += 1

    def commit(self) -> None:
        """Rename the complete part to its final name."""
        self._writer.close()
        self._file.close()
        atomic_io.put(self._part, self._path)

    def discard(self) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)


def reason_of(error: BaseException, function: str) -> str:
    """Why a raw file could not be prepared: the error, and its line in the user's `function`."""
    cause = innermost(error)
    text = " ".join(str(cause).split())
    if isinstance(cause, BadRows):
        return text
    said = f"{type(cause).__name__}: {text}" if text else type(cause).__name__
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    own = [frame for frame in frames if frame.name == function] or frames
    return f"{said[:300]} ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else said[:300]


def _arrays(block: Any) -> dict[str, np.ndarray[Any, Any]]:
    if not isinstance(block, Mapping) or not block:
        raise BadRows(f"prepare yields {type(block).__name__}, not column -> array [rows, ...]")
    arrays = {str(name): np.asarray(values) for name, values in block.items()}
    for name, values in arrays.items():
        if values.dtype.kind not in KINDS or not values.dtype.isnative:
            raise BadRows(
                f"column {name} has type {values.dtype}: it must hold numbers in this PC's byte order"
            )
        if values.ndim == 0:
            raise BadRows(f"column {name} is one value, not an array [rows, ...]")
    return arrays
