"""The scalars of event files, while they are written."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.proto.tensor_pb2 import TensorProto

from sweeps.kinds.commands.program_reports import EventFiles

FLOAT, STRING = 1, 7


def framed(step: int, **value: Any) -> bytes:
    """An event as a file has it; nobody reads the checksums."""
    event = Event(step=step, wall_time=1.0, summary=Summary(value=[Summary.Value(tag="acc", **value)]))
    content = event.SerializeToString()
    return struct.pack("<Q", len(content)) + b"sum." + content + b"sum."


def test_events_are_read_as_they_are_written(tmp_path: Path) -> None:
    found, file = EventFiles(tmp_path), tmp_path / "runs" / "a" / "events.out.tfevents.1.pc"
    assert [*found.new(at_the_end=True)] == []
    file.parent.mkdir(parents=True)
    first, second = framed(0, simple_value=0.5), framed(4, simple_value=0.75)
    file.write_bytes(first + second[:-5])
    assert [*found.new(at_the_end=True)] == [{"acc": 0.5, "epoch": 0}]
    with file.open("ab") as more:
        more.write(second[-5:])
    assert [*found.new()] == [{"acc": 0.75, "epoch": 4}]
    assert [*found.new()] == []


def test_one_that_the_program_removes_is_read_no_further(tmp_path: Path) -> None:
    found, removed = EventFiles(tmp_path), tmp_path / "events.out.tfevents.1.pc"
    removed.write_bytes(framed(0, simple_value=0.5))
    (tmp_path / "events.out.tfevents.2.pc").write_bytes(framed(1, simple_value=0.75))
    assert len([*found.new(at_the_end=True)]) == 2
    removed.unlink()
    with (tmp_path / "events.out.tfevents.2.pc").open("ab") as more:
        more.write(framed(2, simple_value=1.0))
    assert [*found.new(at_the_end=True)] == [{"acc": 1.0, "epoch": 2}]


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (TensorProto(dtype=FLOAT, float_val=[0.5]), [{"acc": 0.5, "epoch": 1}]),
        (TensorProto(dtype=FLOAT, tensor_content=struct.pack("<f", 0.25)), [{"acc": 0.25, "epoch": 1}]),
        (TensorProto(dtype=STRING, string_val=[b"0.5"]), []),
    ],
)
def test_scalars_of_tensorflow_are_tensors(
    tmp_path: Path, tensor: TensorProto, expected: list[dict[str, float]]
) -> None:
    found = EventFiles(tmp_path)
    (tmp_path / "events.out.tfevents.1.pc").write_bytes(framed(1, tensor=tensor))
    assert [*found.new(at_the_end=True)] == expected


def test_a_file_that_is_damaged_is_read_no_further(tmp_path: Path) -> None:
    found, damaged = EventFiles(tmp_path), framed(0, simple_value=0.5) + b"\xff" * 64  # of 2 ** 64 - 1 bytes
    (tmp_path / "events.out.tfevents.1.pc").write_bytes(damaged)
    assert [*found.new(at_the_end=True)] == [{"acc": 0.5, "epoch": 0}]
    assert [*found.new()] == []


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "events.out.tfevents.1.pc").write_bytes(framed(1, simple_value=0.5))
    (tmp_path / "work").mkdir()
    found = EventFiles(tmp_path / "work")
    (tmp_path / "work" / "old").symlink_to(tmp_path / "old")
    # Of an earlier run of the program in the project's folder itself.
    (tmp_path / "work" / "events.out.tfevents.1.pc").symlink_to(tmp_path / "old" / "events.out.tfevents.1.pc")
    assert [*found.new(at_the_end=True)] == []
