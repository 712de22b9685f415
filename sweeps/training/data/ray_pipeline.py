"""Raw files to parts with Ray Data, on all cores of this PC or of a cluster.

Each file is a task of its own: a decoder that crashes its process loses no other file. This process writes
what the workers send, so a cluster needs no shared folder.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from sweeps.common import ray_auth, ray_connection
from sweeps.common.errors import CannotPrepare, UserError, first_line
from sweeps.common.param_types import build_params
from sweeps.common.progress import Bar
from sweeps.common.yaml_values import ParamValue
from sweeps.kinds import registry, source_files
from sweeps.kinds.trainable import Description
from sweeps.training.data import staging
from sweeps.training.data.dataset import DataSet, Declared, UndeclaredHyperparameter
from sweeps.training.data.raw_files import Item
from sweeps.training.data.staging import PartWriter

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
        for block, rows in staging.encoded(trainable.preparation.prepare(path, params)):
            yield message(block, rows=rows)
            number += 1
        yield message(is_last=True)
    except UndeclaredHyperparameter as error:  # for every file alike
        yield message(mistake=str(error))
    except (Exception, SystemExit) as error:  # it is the user's code, and the file may be anything
        own = error.__traceback__.tb_next if error.__traceback__ else None  # without this function
        yield message(error=staging.reason_of(error.with_traceback(own), "prepare"))


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
    local: dict[str, Any] = {} if address else {"num_cpus": len(os.sched_getaffinity(0)), "dashboard": False}
    ray_connection.init(ray, address, code, ENVIRONMENT, **local)
    try:
        yield
    finally:
        ray_connection.shut_down(ray)
        signal.signal(signal.SIGTERM, before)  # Ray leaves its own handler
