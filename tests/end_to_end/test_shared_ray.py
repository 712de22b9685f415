"""Sweeps of one user on one PC share a Ray, which ends with the last of them, in whatever way they end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT, TOY
from tests.support.steered import RunningSweep, epochs, running

PATIENCE_S = 120.0
ENDLESS = (*TOY, "--scheduler", "none", "--num-trials", "2", "--max-epochs", "500", "--params", "epoch_s=0.2")
SMALL = ("--no-preflight", "--max-concurrent", "1")


@pytest.fixture
def folder_of_rays() -> Iterator[Path]:
    """Of these sweeps alone. At the end of a test no process is left, and none is said to use a Ray."""
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp", ignore_cleanup_errors=True) as made:
        yield Path(made)
        until(lambda: not below(Path(made)), "all processes to end")
        assert not [*Path(made).glob("sweeps-*/ray-*/users/*")]


@pytest.fixture
def variables(folder_of_rays: Path, tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """The environment of a sweep by its name, with a diary of its own."""

    def of(name: str) -> dict[str, str]:
        (diary := tmp_path / f"diary-of-{name}").mkdir(exist_ok=True)
        return {**os.environ, "RAY_TMPDIR": str(folder_of_rays), "TOY_ATTEMPTS": str(diary), "COLUMNS": "120"}

    return of


def until(holds: Callable[[], bool], what: str) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < ends, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.1)


def below(folder: Path) -> list[psutil.Process]:
    """The processes whose Ray is in a folder, but for Ray's agents, which look for its head for long."""
    found = []
    for each in psutil.process_iter():
        try:
            if each.environ().get("RAY_TMPDIR") == str(folder) and "Agent" not in each.name():
                found.append(each)
        except psutil.Error:
            continue
    return found


def only(name: str, folder: Path) -> psutil.Process:
    """The one process of this name there, the holder by its module."""
    (found,) = [each for each in below(folder) if each.name() == name or name in " ".join(each.cmdline())]
    return found


def trains(sweep: RunningSweep, more: int = 1) -> None:
    """Wait until it has trained some epochs more."""
    trained = epochs(sweep.record(), 0) if (sweep.folder / "record.journal").is_file() else 0
    sweep.wait_until("it trains", lambda record: epochs(record, 0) >= trained + more)


@pytest.mark.long
def test_two_sweeps_that_begin_in_the_same_second_share_one_ray_and_one_that_is_killed_harms_nobody(
    variables: Callable[[str], dict[str, str]], folder_of_rays: Path, tmp_path: Path
) -> None:
    with (
        running(tmp_path / "one", variables("one"), *ENDLESS, *SMALL) as one,
        running(tmp_path / "two", variables("two"), *ENDLESS, *SMALL) as two,
    ):
        trains(one)
        trains(two)
        only("raylet", folder_of_rays)
        first, second = (one, two) if "Starting Ray" in one.printed else (two, one)
        assert f"joined the Ray of this PC, with {first.folder.name}" in second.printed
        # Each has its own environment, whichever has started Ray.
        for sweep in (one, two):
            assert (tmp_path / f"diary-of-{sweep.folder.name}" / "epochs").is_file()
        first.kill()
        trains(second, 5)
        of_first = f"diary-of-{first.folder.name}"
        left = [each for each in below(folder_of_rays) if each.environ()["TOY_ATTEMPTS"].endswith(of_first)]
        names = {each.name() for each in left if each.name().startswith("ray::")}
        assert names <= {"ray::PlaceDivider"}, "that of the Ray, which has the variables of its holder"
        first.start()  # it joins the Ray that it had started
        first.wait_for("joined the Ray of this PC")
        trains(first)
        second.interrupt()
        assert second.wait() == 130
        trains(first, 5)
        first.interrupt()
        assert first.wait() == 130
        assert not below(folder_of_rays), "it has ended with the last sweep, in order"


@pytest.mark.long
@pytest.mark.parametrize("name", ["ray_holder", "gcs_server"])
def test_the_end_of_a_shared_ray_is_told_by_each_sweep_and_each_can_be_resumed(
    name: str, variables: Callable[[str], dict[str, str]], folder_of_rays: Path, tmp_path: Path
) -> None:
    with (
        running(tmp_path / "one", variables("one"), *ENDLESS, *SMALL) as one,
        running(tmp_path / "two", variables("two"), *ENDLESS, *SMALL) as two,
    ):
        trains(one)
        trains(two)
        only(name, folder_of_rays).kill()
        for sweep in (one, two):
            assert sweep.wait() == 1
            assert "The sweep stopped: Ray on this PC has ended (its process " in sweep.printed
            assert sweep.record().info.outcome == "lost"
        until(lambda: not below(folder_of_rays), "all of it to end")
        one.start()
        trains(one)
        one.interrupt()
        assert one.wait() == 130


@pytest.mark.long
def test_a_sweep_that_an_end_of_ray_in_order_has_ended_can_be_resumed(
    variables: Callable[[str], dict[str, str]], folder_of_rays: Path, tmp_path: Path
) -> None:
    """As with `ray stop`: Ray ends the processes of its users, often before they can say why."""
    with running(tmp_path / "one", variables("one"), *ENDLESS, *SMALL) as one:
        trains(one)
        only("raylet", folder_of_rays).terminate()
        assert one.wait() == 1
        until(lambda: not below(folder_of_rays), "all of it to end")
        one.start()
        trains(one)
        one.interrupt()
        assert one.wait() == 130


def command(name: str, environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sweeps", name, *words],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip


def test_a_ray_that_is_up_stays_for_the_next_sweep_and_ends_once_it_is_unused(
    variables: Callable[[str], dict[str, str]], folder_of_rays: Path, tmp_path: Path
) -> None:
    mine = variables("one")
    up = command("up", mine, "--no-ray-dashboard")
    assert (up.returncode, up.stdout.splitlines()[0]) == (
        0,
        "Ray on this PC has started. Sweeps join it by themselves.",
    ), up.stderr
    assert command("up", mine).stdout.startswith("Ray on this PC was up already.")
    raylet = only("raylet", folder_of_rays)
    with running(tmp_path / "one", mine, *ENDLESS, *SMALL) as one:
        trains(one)
        assert "; joined the Ray of this PC" in one.printed
        down = command("down", mine)
        assert down.returncode == 1
        assert f"is used by one (process {one.pid}, in {tmp_path / 'one'})" in down.stdout
        waits = subprocess.Popen(
            [sys.executable, "-m", "sweeps", "down", "--wait"], env=mine, cwd=ROOT, stdout=subprocess.DEVNULL
        )
        assert raylet.is_running()
        trains(one)
        one.interrupt()
        assert one.wait() == 130
        assert waits.wait(PATIENCE_S) == 0
    assert not raylet.is_running()
    assert command("down", mine).stdout == "No Ray of yours is up on this PC.\n"


@pytest.mark.long
def test_a_ray_whose_folder_was_removed_ends_and_its_sweeps_can_be_resumed(
    variables: Callable[[str], dict[str, str]], folder_of_rays: Path, tmp_path: Path
) -> None:
    with running(tmp_path / "one", variables("one"), *ENDLESS, *SMALL) as one:
        trains(one)
        (place,) = folder_of_rays.glob("sweeps-*/ray-*")
        shutil.rmtree(place)
        (place / "users").mkdir(parents=True)  # as another sweep does, which finds none
        assert one.wait() == 1
        until(lambda: not below(folder_of_rays), "all of it to end")
        one.start()
        trains(one)
        one.interrupt()
        assert one.wait() == 130


@pytest.mark.long
def test_in_the_foreground_it_ends_in_order_with_a_signal_and_says_where_it_was_lost(
    variables: Callable[[str], dict[str, str]], folder_of_rays: Path
) -> None:
    words = [sys.executable, "-m", "sweeps", "up", "--foreground", "--no-ray-dashboard"]
    for end, status in ((signal.SIGTERM, 0), (signal.SIGKILL, 1)):
        with subprocess.Popen(
            words, env=variables("up"), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as up:
            assert up.stdout is not None
            assert up.stdout.readline() == "Ray on this PC has started. Sweeps join it by themselves.\n"
            if end == signal.SIGTERM:
                up.send_signal(end)
            else:
                only("raylet", folder_of_rays).send_signal(end)
            said, failed = up.communicate(timeout=PATIENCE_S)
            assert up.returncode == status
            assert "has ended" in (failed if status else said)
        until(lambda: not below(folder_of_rays), "all of it to end")
