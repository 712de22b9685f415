"""Raw files to parts on Ray Data, on all cores of this PC or of a cluster. No other room here knows Ray.

A file is a task of its own, so that one which ends its process (a decoder's native code may) takes no other
with it. This process writes what the workers send: a cluster need not share a folder with it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from sweeps.common import plugins, ray_auth, ray_connection, source_files
from sweeps.common.errors import CannotPrepare, UserError, first_line
from sweeps.common.progress import Bar
from sweeps.common.yaml_values import ParamValue
from sweeps.training.data import staging
from sweeps.training.data.dataset import DataSet, Declared, UndeclaredHyperparameter
from sweeps.training.data.raw_files import Item
from sweeps.training.data.staging import PartWriter

RETRIES = 1
"""Times that a raw file whose process died is tried again."""
DIED = 16
"""Files whose process died, before it ends for that reason alone."""
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # What goes wrong with a file is said once, by us, with its name.
    "RAY_DATA_LOG_LEVEL": "CRITICAL",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "A worker died or was killed|retries remaining|Task _map_task failed",
}


def run(data_set: DataSet, todo: Sequence[Item], allowed: int) -> Generator[tuple[Item, str]]:
    """Prepare raw files into parts; those that are corrupt, and why.

    Raises:
        UserError: `prepare` is at fault, not a file: it reads a hyperparameter that the data is not known by.
        CannotPrepare: process after process dies.
    """
    by_part = {item.part: item for item in todo}
    ended: set[str] = set()
    writers: dict[str, PartWriter] = {}
    rows, began = 0, time.monotonic()
    done = len(data_set.items) - len(todo)
    try:
        with (
            Bar("Preparing", len(data_set.items), done=done) as bar,
            contextlib.closing(_messages(data_set, list(by_part.values()), allowed)) as messages,
        ):
            for message in messages:
                if message["mistake"]:
                    raise UserError(f"{data_set.trainable}: {message['mistake']}")
                part = str(message["part"])
                if part in ended:
                    continue
                if part not in writers:
                    writers[part] = PartWriter(data_set.part(by_part[part]))
                if fault := _fault(message, writers[part].blocks):
                    writers.pop(part).discard()
                    yield by_part[part], fault
                elif message["is_last"]:
                    writers.pop(part).commit()
                else:
                    writers[part].add(message["payload"])
                    rows += int(message["rows"])
                    continue
                ended.add(part)
                bar.add(1, f"{rows:,} rows, {rows / (time.monotonic() - began):,.0f} rows/s")
    finally:
        for writer in writers.values():
            writer.discard()
    for part, item in by_part.items():
        if part not in ended:
            yield item, "its process died twice: native code crashed, or the memory did not suffice"


def _fault(message: Mapping[str, Any], blocks: int) -> str:
    """Why a raw file can't be prepared; "" when nothing is wrong with it.

    Args:
        message: of its worker.
        blocks: that came before it. A worker that died is tried again, and then may give others.
    """
    if message["error"]:
        return str(message["error"])
    number = int(message["number"])
    return "" if number == blocks else f"its blocks are not all here: {number:,} came after {blocks:,} others"


def worked(
    batch: Mapping[str, Any], module: str, hyperparameters: Mapping[str, ParamValue]
) -> Iterator[dict[str, Any]]:
    """One raw file to its blocks, and a last message without one; where it is corrupt, why. On any PC.

    Args:
        batch: one row, of `part` and `path`.
        module: the trainable's module path.
        hyperparameters: those that prepared rows depend on.
    """
    part, path = str(batch["part"][0]), Path(str(batch["path"][0]))
    number = 0
    try:
        trainable = plugins.load(module)
        params = Declared(trainable.Params(**hyperparameters), tuple(hyperparameters), "prepare")
        for block, rows in staging.encoded(trainable.prepare(path, params)):
            yield _message(part, number, rows=rows, payload=block)
            number += 1
        yield _message(part, number, is_last=True)
    except UndeclaredHyperparameter as error:  # whatever the file
        yield _message(part, number, mistake=str(error))
    except (Exception, SystemExit) as error:  # it is the user's code, and the file may be anything
        own = error.__traceback__.tb_next if error.__traceback__ else None  # without this function
        yield _message(part, number, error=staging.reason_of(error.with_traceback(own), "prepare"))


def _message(
    part: str,
    number: int,
    *,
    rows: int = 0,
    is_last: bool = False,
    error: str = "",
    mistake: str = "",
    payload: bytes = b"",
) -> dict[str, Any]:
    return {
        "part": [part],
        "number": [number],
        "rows": [rows],
        "is_last": [is_last],
        "error": [error],
        "mistake": [mistake],
        "payload": pa.array([payload], pa.large_binary()),
    }


def _messages(data_set: DataSet, items: Sequence[Item], allowed: int) -> Generator[dict[str, Any]]:
    """What the workers send, as it comes: see `worked`. A file whose process dies is not heard of."""
    import ray.data
    from ray.exceptions import RayError

    worker: Any = worked
    batch: Any
    rows = [{"part": item.part, "path": str(item.path)} for item in items]
    most = max(allowed, DIED)
    with contextlib.ExitStack() as stack:
        # `max_retries` has no other way into Ray Data 2.60, which tries for ever without it; a copy of the
        # context warns of itself.
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", category=DeprecationWarning)
        context = ray.data.DataContext.get_current().copy()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        context.max_errored_blocks = most
        stack.enter_context(ray.data.DataContext.current(context))
        # A task for each file: one that ends its process takes no other file with it.
        blocks = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
            worker,
            fn_kwargs={"module": data_set.module, "hyperparameters": dict(data_set.hyperparameters)},
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
    except RayError as error:
        raise CannotPrepare(
            f"the processes of more than {most:,} raw files died, which is no fault of "
            f"files: does the code of prepare crash, or the memory not suffice? Ray says: {first_line(error)}"
        ) from None


@contextlib.contextmanager
def connected(data_set: DataSet, address: str | None) -> Iterator[None]:
    """A Ray to run on: the one that this process has joined, else that at the address, else our own."""
    if "ray" in sys.modules and sys.modules["ray"].is_initialized():
        yield
        return
    ray_connection.set_environment(ENVIRONMENT)
    ray_connection.refuse_silent(address)
    ray_auth.settle(address)
    ray_connection.refuse_outside(address)
    import ray

    code = source_files.to_send([plugins.load(data_set.module)]) if address else []
    before = signal.getsignal(signal.SIGTERM)
    try:
        with ray_connection.quietly(), tempfile.TemporaryDirectory() as empty:
            ray.init(
                address=address or "local",
                runtime_env=ray_connection.runtime_env(code, empty, ENVIRONMENT) if address else None,
                num_cpus=None if address else len(os.sched_getaffinity(0)),
                include_dashboard=None if address else False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except (OSError, ValueError, RuntimeError, ray.exceptions.RuntimeEnvSetupError) as error:
        ray.shutdown()
        if address is None:
            raise
        raise UserError(f"--address {address}: {ray_connection.why_not(error)}") from None
    try:
        yield
    finally:
        ray.shutdown()
        signal.signal(signal.SIGTERM, before)  # Ray has put its own there, and leaves it
