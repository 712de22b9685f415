"""GPUs are chosen by `--gpus`, and it is told who else uses them.

There is no GPU here: NVIDIA's library is `tests/faulty/nvml/pynvml.py`, which lists those of a file, with the
real processes of another one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sweeps.common import gpus
from sweeps.common.errors import UserError
from sweeps.common.gpus import GpuProcess, choose, listed
from tests.sweeps.ray_cluster.test_gpus import SLICED, THREE, fake_nvml

Holds = Callable[..., int]
"""Has a process hold memory of a GPU: its place, kinds (C, G), MiB, user; returns the process id."""


@pytest.fixture(autouse=True)
def three_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a PC with three GPUs."""
    (tmp_path / "gpus").write_text(THREE)
    monkeypatch.setenv("GPUS", str(tmp_path / "gpus"))
    for name in (gpus.VISIBLE, gpus.ORDER):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())


@pytest.fixture
def holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Holds]:
    file, started = tmp_path / "processes", list[subprocess.Popen[bytes]]()
    monkeypatch.setenv("GPU_PROCESSES", str(file))

    def hold(place: int, kinds: str, mib: int | str, user: int | None = None) -> int:
        if user is not None and os.getuid() != 0:
            pytest.skip("another user's process is started by root")
        started.append(process := subprocess.Popen(["sleep", "60"], user=user))
        with file.open("a") as lines:
            lines.write(f"{place}, {kinds}, {process.pid}, {mib}\n")
        return process.pid

    yield hold
    for each in started:
        each.kill()
        each.wait()


@pytest.mark.parametrize(
    ("text", "before", "shown"),
    [
        ("0,2", None, "0,2"),  # by their place in the PC, not by speed as CUDA counts by default
        ("2, 0", None, "2,0"),
        ("GPU-cc", None, "2"),
        ("gpu-bb2,0", None, "1,0"),
        ("1", "GPU-bb2,GPU-aa1", "1"),
    ],
)
def test_gpus_are_chosen_by_number_or_uuid(
    text: str, before: str | None, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if before is not None:
        monkeypatch.setenv(gpus.VISIBLE, before)
    chosen = choose(text)
    assert chosen == {"CUDA_VISIBLE_DEVICES": shown, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    names = {card.index: card.uuid for card in listed({})}
    assert [card.uuid for card in listed(chosen)] == [names[int(number)] for number in shown.split(",")]
    for name, value in chosen.items():  # a process that this one starts reads the same words again
        monkeypatch.setenv(name, value)
    assert choose(text) == chosen


def test_none_hides_all() -> None:
    assert listed(choose("none")) == []


def test_a_slice_of_a_gpu_is_chosen_by_its_uuid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpus").write_text(SLICED)
    assert choose("MIG-f6")[gpus.VISIBLE] == "MIG-f6"
    assert [card.name for card in listed(choose("MIG-f6"))] == ["MIG 2g.12gb"]


@pytest.mark.parametrize(
    ("text", "before", "fault"),
    [
        ("5", None, "--gpus 5: there is no such GPU"),
        ("0,0", None, "--gpus 0,0: GPU 0 is given twice"),
        ("0,,1", None, "--gpus 0,,1: give numbers or UUIDs with one comma between two, as in 0,2"),
        ("GPU-", None, "--gpus GPU-: it is the beginning of 3 UUIDs; give more of one"),
        ("0", "GPU-bb2", "--gpus 0: CUDA_VISIBLE_DEVICES=GPU-bb2 hides it"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(
    text: str, before: str | None, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if before is not None:
        monkeypatch.setenv(gpus.VISIBLE, before)
    with pytest.raises(UserError) as told:
        choose(text)
    first, *others = str(told.value).splitlines()
    assert first == fault
    assert "  1  RTX 3090 of 25.8 GB  GPU-bb2" in others


def test_without_a_gpu_it_is_said_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "gpus").unlink()
    with pytest.raises(UserError, match="NVIDIA's driver lists no GPU on this PC"):
        choose("0")


def test_it_is_told_who_uses_a_gpu(holds: Holds) -> None:
    notebook, own = holds(1, "C", 8700, user=1003), holds(1, "C", 4000)
    holds(1, "G", 900)  # a desktop
    holds(1, "C", 300)  # CUDA's own memory alone
    game = holds(0, "CG", 2100)
    slow, fast = (card for card in sorted(listed({}), key=lambda card: card.index) if card.index < 2)
    assert [each.pid for each in slow.neighbours([own])] == [game]
    (other,) = fast.neighbours([own])
    assert other.words(fast.memory_bytes) == f"user 1003 (pid {notebook}, sleep, 9.12 of 25.8 GB)"
    assert [each.pid for each in fast.neighbours([os.getpid()])] == [], "all that it has started is its own"
    assert fast.room_bytes([own]) == (24576 - 1800 - 8700 - 900 - 300) * 2**20
    assert fast.held_bytes([own]) == 4000 * 2**20


def test_a_program_whose_memory_is_not_told_is_in_the_way_if_it_computes(holds: Holds) -> None:
    holds(2, "G", "N/A")
    computes = holds(2, "C", "N/A", user=1003)
    (other,) = next(card for card in listed({}) if card.index == 2).neighbours()
    assert other.words(None) == f"user 1003 (pid {computes}, sleep, memory not known)"


def test_in_a_container_all_that_is_used_beside_ones_own_is_of_others(
    holds: Holds, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The driver's process ids are those outside of it."""
    monkeypatch.setattr(gpus, "FIRST_PID_NAMESPACE", 1)
    holds(0, "C", 9000)
    (tmp_path / "gpus").write_text("RTX 3090, 580.65, 24576, 300\n")
    (card,) = listed({})
    assert card.neighbours() == [GpuProcess(0, 9300 * 2**20)]
    assert card.neighbours()[0].words(card.memory_bytes) == (
        "programs that can't be seen from here (9.75 of 25.8 GB)"
    )
    assert card.neighbours(own_bytes=9e9) == []
