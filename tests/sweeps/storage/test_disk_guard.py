"""The disk under the results: a sweep pauses before it is full, says so once, and goes on by itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from sweeps.common.formatting import size
from sweeps.storage import disk_guard
from sweeps.storage.disk_guard import Disk, TimeShare

MB = 10**6


class FakeDisk:
    """Free space that changes while a sweep waits: the last of these stays."""

    def __init__(self, *free_mb: float) -> None:
        self._free: Iterator[float] = iter(free_mb)
        self._now = next(self._free)
        self.waited = 0

    def free(self, folder: Path) -> int:
        return int(self._now * MB)

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.waited += 1
        assert self.waited < 100, "waits for ever"
        self._now = next(self._free, self._now)


Waits = Callable[..., tuple[list[str], int]]


@pytest.fixture
def waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Waits:
    """`waits(0.5, 2.0)` is what was said, and how often the disk was looked at again, while these were
    free."""

    def wait(
        *free_mb: float, over_after: int = 99, checkpoint: int = 0, slots: int = 2
    ) -> tuple[list[str], int]:
        fake, said = FakeDisk(*free_mb), list[str]()
        monkeypatch.setattr(disk_guard.time, "sleep", fake.sleep)
        under = Disk(tmp_path, 0.001, slots, fake.free, lambda: checkpoint)
        under.wait(said.append, lambda: fake.waited >= over_after)
        return said, fake.waited

    return wait


@pytest.mark.parametrize("free_mb", [1.0, 50.0])
def test_with_space_nothing_waits_and_nothing_is_said(free_mb: float, waits: Waits) -> None:
    assert waits(free_mb) == ([], 0)


def test_a_pause_is_said_once_and_so_is_its_end(waits: Waits, tmp_path: Path) -> None:
    said, waited = waits(0.5, 0.6, 0.7, 0.9, 1.5)
    assert waited == 4
    assert said == [
        f"PAUSED: the disk of {tmp_path} has 500 kB free, and 1 MB is needed. Free some space and the sweep "
        "continues. Ctrl-C ends it; it can be resumed.",
        "Continuing: 1.5 MB free.",
    ]


def test_a_sweep_that_is_over_waits_no_longer_and_does_not_go_on(waits: Waits) -> None:
    said, waited = waits(0.5, over_after=3)
    assert waited == 3
    assert [line.split(":")[0] for line in said] == ["PAUSED"]


def test_a_sweep_that_is_over_already_does_not_even_say_so(waits: Waits) -> None:
    assert waits(0.5, over_after=0) == ([], 0)


def test_each_slot_may_be_about_to_write_the_largest_checkpoint(waits: Waits) -> None:
    assert waits(1.29, over_after=1, checkpoint=150_000)[1] == 1
    assert "1.3 MB is needed" in waits(1.29, over_after=1, checkpoint=150_000)[0][0]
    assert waits(1.31, checkpoint=150_000) == ([], 0)
    assert waits(1.31, over_after=1, checkpoint=150_000, slots=3)[1] == 1


def test_nothing_left_free_for_others_is_no_pause(tmp_path: Path) -> None:
    said: list[str] = []
    Disk(tmp_path, 0.0, 4, FakeDisk(0.0).free).wait(said.append, lambda: False)
    assert said == []


def test_the_real_disk_is_asked_where_no_other_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_guard.time, "sleep", lambda seconds: None)
    said: list[str] = []
    Disk(tmp_path, 0.0, 1).wait(said.append, lambda: False)
    assert said == []
    Disk(tmp_path, 1e9, 1).wait(said.append, lambda: bool(said))
    assert "1e+06 TB is needed" in said[0]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def test_what_is_taken_is_measured_now_and_then_and_what_is_free_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, fake = Clock(), FakeDisk(2.0, 1.5)
    monkeypatch.setattr(disk_guard, "TimeShare", functools.partial(TimeShare, clock=clock.monotonic))
    under = Disk(tmp_path, 1.0, 1, fake.free)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a").write_bytes(bytes(3000))
    (tmp_path / "b").write_bytes(bytes(1000))
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert under.in_words() == f"disk {size(4000 + len(str(tmp_path / 'nowhere')))} used, 2 MB free"
    (tmp_path / "b").write_bytes(bytes(900_000))
    fake.sleep(1)
    assert under.in_words().startswith("disk 4.0"), "a walk through many files is not for every second"
    assert under.in_words().endswith("used, 1.5 MB free")
    clock.now += 10
    assert under.in_words().startswith("disk 903 kB used")
    (tmp_path / "b").unlink()
    assert under.in_words(is_last=True).startswith("disk 3.0"), "the last line is true"


def test_a_walk_that_takes_long_is_made_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(disk_guard, "TimeShare", functools.partial(TimeShare, clock=clock.monotonic))
    walks = []

    def slow(folder: Path) -> int:
        walks.append(clock.now)
        clock.now += 2
        return 0

    monkeypatch.setattr(disk_guard, "_bytes_of", slow)
    under = Disk(tmp_path, 1.0, 1, FakeDisk(2.0).free)
    for _ in range(400):
        assert under.in_words()
        clock.now += 1
    assert [later - earlier for earlier, later in pairwise(walks)] == [202.0]


def test_files_that_go_meanwhile_count_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(bytes(1000))
    monkeypatch.setattr(disk_guard.os, "walk", lambda folder: [(str(folder), [], ["a", "gone"])])
    assert Disk(tmp_path, 1.0, 1, FakeDisk(2.0).free).in_words() == "disk 1 kB used, 2 MB free"
