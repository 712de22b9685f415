"""The reports of a program, from where it writes them: its output, a file of metrics, or event files."""

from __future__ import annotations

import contextlib
import itertools
import os
import struct
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeps.common.errors import CannotTrain
from sweeps.kinds.commands.printed_metrics import (
    EPOCH,
    Found,
    GrowingFile,
    Lines,
    OverwrittenError,
    Reports,
    metrics_in,
)
from sweeps.kinds.commands.program import EVENT_FILE, LOOK_EVERY_S, Program

METRICS = "SWEEPS_METRICS"
"""The variable with the path of a file, to which the program may append its metrics as JSON."""
OUTPUT, EVENTS = "output", "event files"
SOURCES = (METRICS, EVENTS, OUTPUT)
"""Where a program writes numbers; the first one that has a report counts."""
NEW_FILES_S = 1.0
"""How often new ones are looked for."""
HEAD_BYTES, CHECK_BYTES = 12, 4
"""Before a record its length with a checksum, behind it a checksum.
https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details"""


class ProgramReports:
    """The reports of a program, of one of its outputs. Which one is fixed: the first of `SOURCES` that has a
    report when the first report is there. Since a program may print a report before it writes it elsewhere,
    one that was printed waits for another look.

    Args:
        source: that is known from a checkpoint; "" where it is not.
        wanted: metrics of a report.
        ignored: names that are none.
        ahead: reports that are known from the checkpoint, and were not yet given.
    """

    def __init__(
        self, source: str, wanted: Sequence[str], ignored: Collection[str], ahead: Sequence[Found] = ()
    ) -> None:
        self.source = source
        self._reports = {each: Reports(wanted, ignored) for each in SOURCES}
        self._found: Iterator[Found | None] = iter(())
        self._ahead = deque(ahead)

    @property
    def names(self) -> dict[str, None]:
        """Of all metrics that were met."""
        return {name: None for each in self._reports.values() for name in each.names}

    def read(
        self, program: Program, metrics_file: Path, events: EventFiles, last_lines: deque[str]
    ) -> Iterator[Found]:
        """The reports, until the program has ended.

        Args:
            program: that runs.
            metrics_file: of its environment.
            events: that it writes.
            last_lines: gets the lines of its output.
        """
        self._found = self._looked(program, metrics_file, events, last_lines)
        while True:
            while self._ahead:
                yield self._ahead.popleft()
            for found in self._found:
                if found is not None:
                    yield found
                    break
            else:
                return

    def read_ahead(self) -> Sequence[Found]:
        """The reports that a program which is stopped has written, and that `read` will give next: a fast one
        has gone on before it was stopped."""
        while (found := next(self._found, None)) is not None:
            self._ahead.append(found)
        return tuple(self._ahead)

    def _looked(
        self, program: Program, metrics_file: Path, events: EventFiles, last_lines: deque[str]
    ) -> Iterator[Found | None]:
        """The reports, and None behind a look at which the program has written nothing."""
        output, file = Lines(), GrowingFile(metrics_file)
        waiting: list[Found] = []
        waits_until = 0.0
        for chunk in itertools.chain(program.output(), (None,)):
            is_end, has_waited = chunk is None, bool(waiting)
            lines = [*(output.end() if chunk is None else output.add(chunk))]
            last_lines.extend(line[:500] for line in lines if line.strip())
            # What was written to a file before a line was printed is there.
            numbers: dict[str, Iterator[Mapping[str, float]]] = {
                METRICS: _together(map(metrics_in, _appended(file, at_the_end=is_end))),
                EVENTS: _together(events.new(at_the_end=is_end or has_waited)),
                OUTPUT: map(metrics_in, lines),
            }
            if self.source:
                yield from self._add(self.source, numbers[self.source])
                if chunk == b"":
                    yield None
                continue
            for source in (METRICS, EVENTS):
                found = self._add(source, numbers[source])
                if (first := next(found, None)) is not None:
                    self.source = source
                    yield first
                    yield from found
                    break
            else:
                waiting += self._add(OUTPUT, numbers[OUTPUT])
                if waiting and not has_waited:
                    waits_until = time.monotonic() + LOOK_EVERY_S
                is_over = has_waited and (len(waiting) > 1 or time.monotonic() >= waits_until)
                if waiting and (is_end or is_over):
                    self.source = OUTPUT
                    yield from waiting
        for source in (self.source,) if self.source else SOURCES:
            for rest in self._reports[source].rest():
                self.source = source
                yield rest
            if self.source:
                break

    def _add(self, source: str, numbers: Iterator[Mapping[str, float]]) -> Iterator[Found]:
        for each in numbers:
            yield from self._reports[source].add(each, are_metrics=source != OUTPUT)


def _together(numbers: Iterator[Mapping[str, float]]) -> Iterator[Mapping[str, float]]:
    """Those that follow each other and name the same epoch together: the metric need not be the last that is
    written, and what comes behind it is not of the next report. A step may be named with each, too."""
    known: dict[str, float] = {}
    for found in numbers:
        is_other = any(name in known and known[name] != value for name, value in found.items())
        if EPOCH not in found or EPOCH not in known or is_other:
            yield known
            known = {}
        known.update(found)
    yield known


def _appended(file: GrowingFile, *, at_the_end: bool) -> Iterator[str]:
    """Raises: CannotTrain, where a program has overwritten its reports."""
    try:
        yield from file.new(at_the_end=at_the_end)
    except OverwrittenError:
        raise CannotTrain(
            f'${METRICS} was overwritten, and reports were lost: append to ${METRICS} (mode "a")'
        ) from None


class EventFiles:
    """What is written to event files below a folder from now on; links are not followed.

    Args:
        folder: in which a program writes, and has those of its checkpoint.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._looked_at = folder, 0.0
        self._read = {file: file.stat().st_size for file in self._files()}
        """Bytes of each file that were read."""

    def new(self, *, at_the_end: bool = False) -> Iterator[dict[str, float]]:
        """Tag to value of each event since the last call, and its step as the epoch."""
        if at_the_end or time.monotonic() >= self._looked_at + NEW_FILES_S:
            self._looked_at = time.monotonic()
            self._read = dict.fromkeys(self._files(), 0) | self._read
        for file in self._read:
            with contextlib.suppress(FileNotFoundError):  # the program has removed it
                yield from self._new_of(file)

    def _files(self) -> Iterator[Path]:
        for folder, _, names in os.walk(self._folder):
            files = (Path(folder, name) for name in sorted(names) if EVENT_FILE in name)
            yield from (file for file in files if not file.is_symlink())

    def _new_of(self, path: Path) -> Iterator[dict[str, float]]:
        if path.stat().st_size < self._read[path] + HEAD_BYTES:
            return
        from tensorboardX.proto.event_pb2 import Event  # with PyTorch, where a program writes such a file

        with path.open("rb") as file:
            file.seek(self._read[path])
            while len(head := file.read(HEAD_BYTES)) == HEAD_BYTES:
                (length,) = struct.unpack("<Q", head[:8])
                if file.tell() + length + CHECK_BYTES > path.stat().st_size:
                    return  # it is being written, or is damaged
                content = file.read(length + CHECK_BYTES)
                self._read[path] = file.tell()
                event = Event.FromString(content[:length])
                found = {each.tag: _number(each) for each in event.summary.value}
                if values := {tag: value for tag, value in found.items() if value is not None}:
                    yield {**values, EPOCH: float(event.step)}


def _number(value: Any) -> float | None:
    """A scalar, as PyTorch and as TensorFlow 2 write it; None of anything else."""
    if value.HasField("simple_value"):
        return float(value.simple_value)
    tensor = value.tensor if value.HasField("tensor") else None
    if tensor is None or tensor.tensor_shape.dim:
        return None
    for listed in (tensor.float_val, tensor.double_val):
        if listed:
            return float(listed[0])
    size = {1: "<f", 2: "<d"}.get(tensor.dtype)  # DT_FLOAT, DT_DOUBLE
    return float(struct.unpack(size, tensor.tensor_content)[0]) if size and tensor.tensor_content else None
