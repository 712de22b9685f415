"""TensorBoard, `tensorboard/trial_0003/`: metrics by epoch, and hyperparameters for its HParams tab.

Each byte of a file follows from the record: a file that a killed driver left is a prefix of the whole one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from sweeps.common.objective import Objective
from sweeps.loggers import RunWriter, epochs_with_best
from sweeps.record import sweep_info
from sweeps.record.trials import ENDED_WELL, TrialRow

FOLDER = "tensorboard"


class Logger(RunWriter):
    """Writes an event file for each trial."""

    NEEDS: ClassVar[tuple[str, str]] = ("tensorboardX", "tensorboardX")

    def __init__(self, folder: Path, objective: Objective) -> None:
        self._folder, self._objective = folder, objective
        self._epochs: dict[str, int] = {}
        """Name of a trial to the number of epochs in its file."""

    @classmethod
    def build(cls, folder: Path, about: Mapping[str, Any]) -> Logger:
        return cls(folder / FOLDER, sweep_info.parse(about).objective)

    def write(self, trial: TrialRow, is_on: bool) -> None:
        """Append what the file lacks."""
        path = self._folder / trial.name / f"events.out.tfevents.{int(trial.start)}.sweep"
        path.parent.mkdir(parents=True, exist_ok=True)
        known = self._epochs.pop(trial.name, None)  # read again if writing fails
        new = b"".join(map(_framed, _events(trial, self._objective, known)))
        if known is None and path.exists():
            there = path.read_bytes()
            if new.startswith(there):
                new = new[len(there) :]
            else:
                path.unlink()
        with path.open("ab") as file:
            file.write(new)
        if trial.status == "unfinished":
            self._epochs[trial.name] = len(trial.epochs)


def _events(trial: TrialRow, objective: Objective, known: int | None) -> Iterator[Any]:
    """Those of a trial; the first `known` epochs and the start are left out if given."""
    from tensorboardX import summary  # with PyTorch
    from tensorboardX.proto.api_pb2 import Status
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.plugin_hparams_pb2 import SessionEndInfo, SessionStartInfo
    from tensorboardX.proto.summary_pb2 import Summary

    if known is None:
        yield Event(wall_time=trial.start, file_version="brain.Event:2")
        begin = SessionStartInfo(start_time_secs=trial.start, group_name=trial.name)
        more = {"trainable": trial.trainable, "seed": trial.seed}
        for name, value in {**trial.fixed, **trial.params, **more}.items():
            if value is None:  # TensorBoard shows an empty cell, and reads no null
                continue
            kind = {bool: "bool_value", str: "string_value"}.get(type(value), "number_value")
            setattr(begin.hparams[name], kind, value)
        yield Event(wall_time=trial.start, summary=_hparams("session_start_info", session_start_info=begin))
    for count, (epoch, row, scalars) in enumerate(epochs_with_best(trial, objective), start=1):
        if count > (known or 0):
            values = [Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()]
            yield Event(wall_time=row.time, step=epoch, summary=Summary(value=values))
    if trial.status != "unfinished":
        moment = trial.end or trial.start
        text = f"{trial.status}  {trial.reason}".strip()
        yield Event(wall_time=moment, summary=summary.text("status", text))
        status = Status.Value("STATUS_SUCCESS" if trial.status in ENDED_WELL else "STATUS_FAILURE")
        end = SessionEndInfo(status=status, end_time_secs=moment)
        yield Event(wall_time=moment, summary=_hparams("session_end_info", session_end_info=end))


def _hparams(tag: str, **content: Any) -> Any:
    """A summary as TensorBoard's hparams plugin reads it (tensorboard/plugins/hparams/metadata.py)."""
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData
    from tensorboardX.proto.summary_pb2 import Summary, SummaryMetadata

    packed = HParamsPluginData(version=0, **content).SerializeToString(deterministic=True)
    plugin = SummaryMetadata.PluginData(plugin_name="hparams", content=packed)
    value = Summary.Value(tag=f"_hparams_/{tag}", metadata=SummaryMetadata(plugin_data=plugin))
    return Summary(value=[value])


def _framed(event: Any) -> bytes:
    """Length and content, each with its checksum (tensorflow/core/lib/io/record_writer.h)."""
    from tensorboardX.record_writer import masked_crc32c

    content = event.SerializeToString(deterministic=True)
    length = struct.pack("<Q", len(content))
    checksums = (struct.pack("<I", masked_crc32c(part)) for part in (length, content))
    return length + next(checksums) + bytes(content) + next(checksums)
