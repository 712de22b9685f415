"""Sweeps that run on the Ray of a PC at the same time: each has its share, and a fault of one is its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from sweeps.common import atomic_io
from sweeps.record.record import Record
from tests import ROOT
from tests.conftest import RAYS_FOLDER, fill_up
from tests.support.steered import MOST_S, RunningSweep, epochs, running

TOY = (
    "--no-baseline",
    *("--trainable", "tests.faulty.toy", "--search-space", "tests.faulty.slopes", "--params", "epoch_s=0.3"),
    *("--searcher", "random", "--scheduler", "none", "--no-preflight"),
)
LONG = (*TOY, "--num-trials", "6", "--max-epochs", "2000")
CLOCK = ROOT / "tests" / "faulty" / "clock"
ON_ALL = ("--cpus-per-trial", "2")
"""A trial takes both cores."""


@pytest.fixture(autouse=True)
def two_cores() -> Iterator[None]:
    """All sweeps have two cores of this PC, which they inherit."""
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        pytest.skip("the shares are of two cores")
    os.sched_setaffinity(0, sorted(cores)[:2])
    yield
    os.sched_setaffinity(0, cores)


def training(sweep: RunningSweep) -> int:
    """Trials that train at a time, by those that report while one of them reports five epochs."""
    before = {trial.number: len(trial.epochs) for trial in sweep.record().trials}

    def gained(record: Record) -> dict[int, int]:
        return {trial.number: len(trial.epochs) - before.get(trial.number, 0) for trial in record.trials}

    after = sweep.wait_until("five epochs", lambda record: max(gained(record).values(), default=0) >= 5)
    return sum(more >= 2 for more in gained(after).values())


def wait_for_training(sweep: RunningSweep, trials: int) -> None:
    """Wait until so many train at a time."""
    ends = time.monotonic() + MOST_S
    while (found := training(sweep)) != trials:
        assert time.monotonic() < ends, f"{found} train, and not {trials}\n{sweep.printed}"


@pytest.fixture
def pair(environment: dict[str, str], tmp_path: Path) -> Iterator[tuple[RunningSweep, RunningSweep]]:
    """Two sweeps that share two CPUs."""
    with running(tmp_path / "first", environment, *LONG) as first:
        first.wait_until("two trials train", lambda record: epochs(record, 1) > 1)
        with running(tmp_path / "second", environment, *LONG) as second:
            second.wait_until("a trial trains", lambda record: epochs(record, 0) > 0)
            first.wait_for("Shares the PCs with sweep second.")
            yield first, second


def test_a_second_sweep_gets_half_and_all_once_the_first_is_killed(
    pair: tuple[RunningSweep, RunningSweep],
) -> None:
    first, second = pair
    wait_for_training(first, 1)
    wait_for_training(second, 1)
    (divider,) = dividers()
    left = next(trial for trial in first.record().trials if trial.left)
    assert (left.status, left.notices, left.failures) == ("unfinished", [], 0)
    first.kill()
    killed = time.monotonic()
    second.wait_for("No other sweep trains on the PCs any more.")
    assert time.monotonic() - killed < 60
    wait_for_training(second, 2)
    assert [each.pid for each in dividers()] == [divider.pid], "it outlives the sweep that has started it"


@pytest.mark.long
def test_the_divider_is_killed_and_begins_anew(pair: tuple[RunningSweep, RunningSweep]) -> None:
    first, second = pair
    wait_for_training(first, 1)
    (divider,) = dividers()
    divider.kill()
    first.wait_until("another divider", lambda record: any(each.pid != divider.pid for each in dividers()))
    wait_for_training(first, 1)
    wait_for_training(second, 1)
    second.interrupt()
    second.wait()
    wait_for_training(first, 2)


@pytest.mark.long
def test_a_sweep_without_a_place_takes_commands_and_ends_and_gets_one_in_turn(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with running(tmp_path / "first", environment, *LONG, *ON_ALL) as first:
        first.wait_until("it has the PC", lambda record: epochs(record, 0) > 1)
        with running(tmp_path / "second", environment, *LONG, *ON_ALL) as second:
            second.wait_for("Waits for its share: sweep first trains.")
            second.interrupt()
            assert second.wait() == 130
            second.start()
            second.wait_until("it has the PC in its turn", lambda record: epochs(record, 0) > 1)
            first.does("pause")
            first.does("go")
            first.interrupt()
            assert first.wait() == 130, "in Tune's loop, too"
            check_contiguous(first.record())
            had = epochs(second.record(), 0)
            second.wait_until("it trains on", lambda record: epochs(record, 0) > had + 5)


@pytest.mark.long
def test_a_sweep_without_a_place_pauses_and_goes_on(environment: dict[str, str], tmp_path: Path) -> None:
    with running(tmp_path / "first", environment, *LONG, *ON_ALL) as first:
        first.wait_until("it has the PC", lambda record: epochs(record, 0) > 1)
        with running(tmp_path / "second", environment, *LONG, *ON_ALL) as second:
            second.wait_for("Waits for its share: sweep first trains.")
            second.does("pause")
            first.wait_for("No other sweep trains on the PCs any more.")
            second.does("go")
            second.wait_until("it has the PC in its turn", lambda record: epochs(record, 0) > 1)
            first.wait_until("it shares again", lambda record: told_of_second(first) == 2)
            had = epochs(first.record(), 0)
            first.wait_until("it has the PC in its turn", lambda record: epochs(record, 0) > had + 5)
            assert told_of_second(first) == 2, "once for each change"
            first.interrupt()
            assert first.wait() == 130
            second.interrupt()
            assert second.wait() == 130
            check_contiguous(first.record())
            check_contiguous(second.record())


def told_of_second(first: RunningSweep) -> int:
    return first.printed.count("Shares the PCs with sweep second.")


@pytest.mark.long
def test_a_full_disk_of_one_sweep_does_not_hold_the_other_up(
    environment: dict[str, str], tmp_path: Path, disk_of_100_mb: Path
) -> None:
    with running(disk_of_100_mb / "full", environment, *LONG, "--min-free-gb", "0.02") as full:
        full.wait_until("it trains", lambda record: epochs(record, 0) > 0)
        with running(tmp_path / "other", environment, *LONG) as other:
            other.wait_until("it trains", lambda record: epochs(record, 0) > 0)
            fill_up(disk_of_100_mb, leave=10 * 10**6)
            full.wait_for("PAUSED: the disk of")
            had = epochs(other.record(), 0)
            other.wait_until("it trains on", lambda record: epochs(record, 0) > had + 5)


@pytest.mark.long
def test_a_clock_that_jumps_changes_no_share(environment: dict[str, str], tmp_path: Path) -> None:
    """The clock of the second one: its claims, the time that it still takes, and its time limit."""
    ahead_s = tmp_path / "ahead_s"
    path = os.pathsep.join(filter(None, (str(CLOCK), environment.get("PYTHONPATH"))))
    jumps = {**environment, "PYTHONPATH": path, "CLOCK_AHEAD_S": str(ahead_s)}
    ahead_s.write_text("0")
    with running(tmp_path / "first", environment, *LONG) as first:
        first.wait_until("two trials train", lambda record: epochs(record, 1) > 1)
        limit = ("--time-budget-hours", "1")
        with running(tmp_path / "second", jumps, *LONG, *limit) as second:
            second.wait_until("a trial trains", lambda record: epochs(record, 0) > 0)
            for jump_s in (0, 7200, -7200):
                atomic_io.write(ahead_s, str(jump_s))
                wait_for_training(first, 1)
                wait_for_training(second, 1)
                there = listed(environment)
                assert [(each["name"], each["status"]) for each in there] == [
                    ("first", "running"),
                    ("second", "running"),
                ]
                assert all(-1 < time.time() - each["since"] < 1800 for each in there), there
                assert all(each["left_s"] is None or each["left_s"] >= 0 for each in there), there
            newest = second.record()
            assert newest.elapsed_s < 1800
            assert {trial.failures for trial in newest.trials} == {0}
            check_contiguous(newest)
            assert "No other sweep trains" not in first.printed + second.printed
            second.interrupt()
            assert second.wait() == 130


def listed(environment: dict[str, str]) -> list[dict[str, Any]]:
    """`sweeps queue --json`"""
    words = [sys.executable, "-m", "sweeps", "queue", "--json"]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=MOST_S)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout)["sweeps"])


def check_contiguous(record: Record) -> None:
    """No epoch is missing."""
    for trial in record.trials:
        assert [*trial.epochs] == [*range(1, len(trial.epochs) + 1)]


def dividers() -> list[psutil.Process]:
    """The processes that divide the places of a Ray of this process's tests."""
    found = []
    for each in psutil.process_iter(["cmdline"]):
        title = next(iter(each.info["cmdline"] or ()), "")  # Ray pads it, and adds the method in a call
        if title.startswith("ray::PlaceDivider"):
            with contextlib.suppress(psutil.Error):
                if each.environ().get(RAYS_FOLDER) == os.environ[RAYS_FOLDER]:
                    found.append(each)
    return found
