"""Sweeps wait for each other (`--queue`), whatever becomes of those before them and of their Ray.

Each test goes on where the one before has left the sweeps.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from sweeps.record import status
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome
from tests import ROOT
from tests.support.steered import MOST_S, RunningSweep, epochs, running

TOY = (
    "--no-baseline",
    *("--trainable", "tests.faulty.toy", "--search-space", "tests.faulty.slopes", "--max-epochs", "4000"),
    *("--searcher", "random", "--scheduler", "none", "--params", "epoch_s=0.2", "--max-concurrent", "1"),
    *("--num-trials", "2", "--queue"),
)


class Queue:
    """Sweeps on one Ray."""

    def __init__(self, folder: Path, environment: dict[str, str], stack: ExitStack) -> None:
        self.folder, self.environment, self._stack = folder, environment, stack
        self.sweeps: dict[str, RunningSweep] = {}

    def start(self, name: str, *more: str) -> RunningSweep:
        sweep = self._stack.enter_context(running(self.folder / name, self.environment, *TOY, *more))
        self.sweeps[name] = sweep
        return sweep

    def listed(self) -> list[dict[str, Any]]:
        """`sweeps queue --json`"""
        words = [sys.executable, "-m", "sweeps", "queue", "--json"]
        done = subprocess.run(
            words, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=MOST_S, check=True
        )
        found: list[dict[str, Any]] = json.loads(done.stdout)["sweeps"]
        return found

    def order(self) -> list[tuple[str, str]]:
        """Name and status of each sweep."""
        return [(each["name"], each["status"]) for each in self.listed()]

    def becomes(self, *expected: tuple[str, str]) -> None:
        """Wait until these are there, in this order."""
        ends = time.monotonic() + MOST_S
        while (found := self.order()) != [*expected] and time.monotonic() < ends:
            time.sleep(0.5)
        assert found == [*expected]


@pytest.fixture(scope="module")
def queue(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queue]:
    folder = tmp_path_factory.mktemp("queue")
    with ExitStack() as stack:
        yield Queue(folder, {**environment, "XDG_STATE_HOME": str(folder / "state")}, stack)


def waits(record: Record) -> bool:
    """Whether it waits, in its last run, and not in one that was killed."""
    since, runs = record.info.waits_since, record.info.runs
    is_of_last = since is not None and bool(runs) and since >= (runs[-1].started or 0.0)
    return is_of_last and status.status(record) is Outcome.WAITING


def again(sweep: RunningSweep) -> None:
    """Resume it, into the queue."""
    begun = len(sweep.record().info.runs)
    sweep.start("--queue")
    sweep.wait_until("it waits again", lambda record: len(record.info.runs) > begun and waits(record))


def trains(number: int = 0) -> Callable[[Record], bool]:
    return lambda record: epochs(record, number) > 0


def has_begun(sweep: RunningSweep) -> bool:
    """Whether it trains; its folder is there before its record."""
    with suppress(FileNotFoundError):
        return trains()(sweep.record())
    return False


def test_nobody_is_in_a_queue_where_no_sweep_runs(queue: Queue) -> None:
    words = [sys.executable, "-m", "sweeps", "queue"]
    done = subprocess.run(words, cwd=ROOT, env=queue.environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "No sweep runs on this PC.\n"), done.stderr
    assert queue.listed() == []


def test_of_two_that_start_in_the_same_second_one_waits(queue: Queue) -> None:
    both = queue.start("a"), queue.start("b")
    ends = time.monotonic() + MOST_S
    while not (training := [each for each in both if has_begun(each)]):
        assert time.monotonic() < ends, both[0].printed + both[1].printed
        time.sleep(0.2)
    (first,), (second,) = training, [each for each in both if each not in training]
    queue.sweeps |= {"first": first, "second": second}
    second.wait_for(f"Waits in the queue: {first.folder.name} runs")
    queue.becomes((first.folder.name, "running"), (second.folder.name, "waiting"))
    ends = time.monotonic() + MOST_S
    while (listed := queue.listed())[0]["left_s"] is None:
        assert time.monotonic() < ends, "it tells no time left"
        time.sleep(0.5)
    runs, waiting = listed
    assert (runs["place"], waiting["place"], waiting["waits_for"]) == (None, 1, [first.folder.name])
    assert sum(runs["trials"].values()) == 1
    assert waiting["trials"] == {}
    assert runs["left_s"] > 10


def test_one_that_waits_takes_commands(queue: Queue) -> None:
    second = queue.sweeps["second"]
    assert second.does("set", "num-trials=3").startswith("3 trials in all")
    assert second.refuses("finish") == "finish: no trial has begun; Ctrl-C ends the sweep"
    assert second.record().elapsed_s < 20


def test_a_higher_priority_begins_before(queue: Queue) -> None:
    third = queue.start("third", "--priority", "5")
    third.wait_until("it waits", waits)
    first, second = (queue.sweeps[name].folder.name for name in ("first", "second"))
    queue.becomes((first, "running"), ("third", "waiting"), (second, "waiting"))
    ends = time.monotonic() + MOST_S  # it says so itself, at its next look at the queue
    while (waits_for := queue.listed()[2]["waits_for"]) != [first, "third"] and time.monotonic() < ends:
        time.sleep(0.5)
    assert waits_for == [first, "third"]


def test_ctrl_c_leaves_the_queue_and_a_resume_comes_back(queue: Queue) -> None:
    third = queue.sweeps["third"]
    third.interrupt()
    assert third.wait() == 130
    assert "sweeps run --resume" in third.printed
    assert status.status(third.record()) is Outcome.INTERRUPTED
    assert third.record().trials == []
    first, second = (queue.sweeps[name].folder.name for name in ("first", "second"))
    queue.becomes((first, "running"), (second, "waiting"))
    again(third)


def test_one_that_is_killed_while_it_waits_is_gone_and_a_resume_comes_back(queue: Queue) -> None:
    third = queue.sweeps["third"]
    third.kill()
    first, second = (queue.sweeps[name].folder.name for name in ("first", "second"))
    queue.becomes((first, "running"), (second, "waiting"))
    assert status.can_go_on(third.record())
    again(third)


def test_the_next_one_begins_when_the_first_is_killed(queue: Queue) -> None:
    queue.sweeps["first"].kill()
    second = queue.sweeps["second"]
    second.wait_until("it trains", trains())
    assert waits(queue.sweeps["third"].record())
    queue.becomes((second.folder.name, "running"), ("third", "waiting"))


def test_a_pause_gives_the_turn_to_the_next_one(queue: Queue) -> None:
    second, third = queue.sweeps["second"], queue.sweeps["third"]
    second.does("pause")
    third.wait_until("it trains", trains())
    second.does("go")
    second.wait_until("it waits", waits)
    third.interrupt()
    assert third.wait() == 130
    begun = len(second.record().trials[0].epochs)
    second.wait_until("it goes on", lambda record: epochs(record, 0) > begun)


def test_one_that_waits_ends_with_its_ray_and_can_be_resumed_and_interrupted(queue: Queue) -> None:
    second, third = queue.sweeps["second"], queue.sweeps["third"]
    again(third)
    ray = Path(queue.environment["RAY_TMPDIR"])
    (gcs,) = [
        each
        for each in psutil.process_iter(["name", "cmdline"])
        if each.info["name"] == "gcs_server" and str(ray) in " ".join(each.info["cmdline"] or ())
    ]
    gcs.kill()
    assert (second.wait(), third.wait()) == (1, 1)
    for sweep in (second, third):
        assert status.status(sweep.record()) is Outcome.INTERRUPTED
        assert status.can_go_on(sweep.record())
    before = len(third.printed)
    third.start("--queue")
    trained = epochs(third.record(), 0)
    third.wait_until("it goes on", lambda record: epochs(record, 0) > trained)
    os.killpg(third.pid, signal.SIGINT)  # as a terminal does: to the processes of its trials, too
    assert third.wait() == 130
    said = third.printed[before:]
    assert "The sweep was interrupted; " in said
    assert "Traceback" not in said
    rows = pq.read_table(third.folder / "trials.parquet").to_pylist()
    assert [row["status"] for row in rows] == [trial.status for trial in third.record().trials]
    assert "unfinished" in {row["status"] for row in rows}


@pytest.mark.long
def test_one_that_came_first_and_is_slow_to_start_is_waited_for(queue: Queue) -> None:
    model = queue.folder / "slow_toy.py"
    model.write_text("import time\n\nfrom tests.faulty.toy import *\n\ntime.sleep(20)\n")
    words = [word for word in TOY if word != "--queue"]
    words[words.index("tests.faulty.toy")] = str(model)
    with running(queue.folder / "slow", queue.environment, *words) as slow:
        time.sleep(2)
        quick = queue.start("quick")
        quick.wait_for("started before it, still prepares")
        slow.wait_until("it trains", trains())
        quick.wait_for("Waits in the queue: slow runs")
        assert quick.record().trials == []
        slow.interrupt()
        quick.wait_until("it trains", trains())
    quick.interrupt()
    assert quick.wait() == 130


def end_all(queue: Queue) -> None:
    """Ctrl-C for all sweeps, the last one of the queue first, and the end of their Ray."""
    for each in reversed(queue.listed()):
        psutil.Process(each["pid"]).send_signal(signal.SIGINT)
    words = [sys.executable, "-m", "sweeps", "down", "--wait"]
    subprocess.run(words, cwd=ROOT, env=queue.environment, capture_output=True, timeout=MOST_S)


@pytest.mark.long
def test_the_queue_of_a_ray_that_stays_is_there_after_a_reboot(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """A power cut, as far as it can be had: all is killed, and the notes are of another boot."""
    environment = {**environment, "XDG_STATE_HOME": str(tmp_path / "state")}

    def sweeps(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "sweeps", *words],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=MOST_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    sweeps("up", "--no-ray-dashboard")
    with ExitStack() as stack:
        lab = Queue(tmp_path, environment, stack)
        first = lab.start("first")
        first.wait_until("it trains", trains())
        second = lab.start("second")
        second.wait_until("it waits", waits)
        for sweep in (second, first):
            sweep.kill()
        notes = sorted((tmp_path / "state" / "sweeps" / "queue").rglob("*.json"))
        for note in notes:
            note.write_text(json.dumps({**json.loads(note.read_text()), "boot": "the one before"}))
        sweeps("down")
        stack.callback(end_all, lab)  # what `sweeps up` starts is no child of this process
        trained = epochs(first.record(), 0)
        said = sweeps("up", "--no-ray-dashboard")
        assert [line.split()[0] for line in said.splitlines() if "is in the queue again" in line] == [
            "first",
            "second",
        ]
        # `sweeps up` has started them, and not this process, which would see that its own have ended.
        lab.becomes(("first", "running"), ("second", "waiting"))
        ends = time.monotonic() + MOST_S
        while epochs(first.record(), 0) <= trained and time.monotonic() < ends:
            time.sleep(0.5)
        assert epochs(first.record(), 0) > trained
        assert len(second.record().info.runs) == 2
        end_all(lab)
    assert list((tmp_path / "state" / "sweeps" / "queue").rglob("*.json")) == []
