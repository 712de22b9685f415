"""TensorBoard's event files, `tensorboard/trial_0003/`: metrics by epoch, and hyperparameters for its
HParams tab.

A file is made of the record alone, times too, and only grows: what a dying driver left of it is the beginning
of what it shall be, in whichever byte it ends.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sweeps.common.objective import Objective
from sweeps.record import sweep_info
from sweeps.record.trials import TrialRow

NEEDS = ("tensorboardX", "tensorboardX")
FOLDER = "tensorboard"
STATUSES = {"finished": "STATUS_SUCCESS", "pruned": "STATUS_SUCCESS"}


def build(folder: Path, about: Mapping[str, Any]) -> EventFiles:
    """The logger."""
    return EventFiles(folder / FOLDER, sweep_info.parse(about).objective)


class EventFiles:
    """A folder of event files, one a trial."""

    def __init__(self, folder: Path, objective: Objective) -> None:
        self._folder, self._objective = folder, objective
        self._epochs: dict[int, int] = {}
        """Trial to its epochs that are in its file."""

    def write(self, trial: TrialRow, is_on: bool) -> None:
        """Append what is new; of a trial not seen before, all that its file lacks."""
        path = self._folder / f"trial_{trial.number:04d}" / f"events.out.tfevents.{int(trial.start)}.sweep"
        path.parent.mkdir(parents=True, exist_ok=True)
        known = self._epochs.pop(trial.number, None)  # not known any more, should writing fail
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
            self._epochs[trial.number] = len(trial.epochs)


def _events(trial: TrialRow, objective: Objective, known: int | None) -> Iterator[Any]:
    """TensorBoard's events of a trial, without the first epochs where these are known."""
    from tensorboardX.proto.api_pb2 import Status
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.plugin_hparams_pb2 import SessionEndInfo, SessionStartInfo
    from tensorboardX.proto.summary_pb2 import Summary

    if known is None:
        yield Event(wall_time=trial.start, file_version="brain.Event:2")
        begin = SessionStartInfo(start_time_secs=trial.start, group_name=f"trial_{trial.number:04d}")
        for name, value in _hyperparameters(trial).items():
            kind = {bool: "bool_value", str: "string_value"}.get(type(value), "number_value")
            setattr(begin.hparams[name], kind, value)
        yield Event(wall_time=trial.start, summary=_hparams("session_start_info", session_start_info=begin))
    best: float | None = None
    for count, (epoch, row) in enumerate(sorted(trial.epochs.items()), start=1):
        if objective.is_better(row.score, best):
            best = row.score
        if count > (known or 0):
            scalars = {**row.metrics, **({} if best is None else {"best": best})}
            values = [Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()]
            yield Event(wall_time=row.time, step=epoch, summary=Summary(value=values))
    if trial.status != "unfinished":
        moment = trial.end or trial.start
        yield Event(wall_time=moment, summary=_text("status", f"{trial.status}  {trial.reason}".strip()))
        status = Status.Value(STATUSES.get(trial.status, "STATUS_FAILURE"))
        end = SessionEndInfo(status=status, end_time_secs=moment)
        yield Event(wall_time=moment, summary=_hparams("session_end_info", session_end_info=end))


def _hyperparameters(trial: TrialRow) -> dict[str, Any]:
    return {**trial.fixed, **trial.params, "trainable": trial.trainable, "seed": trial.seed}


def _hparams(tag: str, **content: Any) -> Any:
    """A summary as TensorBoard's hparams plugin reads it (tensorboard/plugins/hparams/metadata.py)."""
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData
    from tensorboardX.proto.summary_pb2 import Summary, SummaryMetadata

    packed = HParamsPluginData(version=0, **content).SerializeToString(deterministic=True)
    plugin = SummaryMetadata.PluginData(plugin_name="hparams", content=packed)
    value = Summary.Value(tag=f"_hparams_/{tag}", metadata=SummaryMetadata(plugin_data=plugin))
    return Summary(value=[value])


def _text(tag: str, text: str) -> Any:
    from tensorboardX import summary

    return summary.text(tag, text)


def _framed(event: Any) -> bytes:
    """An event as it stands in a file (tensorflow/core/lib/io/record_writer.h): length and content, each
    with its checksum."""
    from tensorboardX.record_writer import masked_crc32c

    content = event.SerializeToString(deterministic=True)
    length = struct.pack("<Q", len(content))
    checksums = (struct.pack("<I", masked_crc32c(part)) for part in (length, content))
    return length + next(checksums) + bytes(content) + next(checksums)
