"""A trial that ran out of memory for another program's sake waits for room, and counts as nothing else.

There is no GPU here: NVIDIA's library is `tests/faulty/nvml/pynvml.py`, and memory is what the toy of
`tests/faulty/large.py` says. The other program, Ray, Tune and their processes are real.
"""

from __future__ import annotations

import dataclasses
import getpass
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sweeps.common.gpus import Card, GpuProcess
from sweeps.execution.faults.full_gpus import MOST_IN_A_ROW, FullGpus, Room
from sweeps.execution.trial_actors import TrialActor
from sweeps.record.record import Record
from sweeps.trial.messages import OutOfMemory, Shortage
from sweeps.trial.output import Introduction
from tests.conftest import ROOT, propose
from tests.support.contexts import said
from tests.support.heads import OPEN, Head, head
from tests.sweeps.execution.faults.test_requeue import Actor, Begun
from tests.sweeps.execution.faults.test_requeue import trial as tunes_trial
from tests.sweeps.ray_cluster.test_gpus import FAKE

GB = 10**9
OTHER = GpuProcess(4711, 9 * GB, user="1003", program="python", line=frozenset({4711}))
SIBLING = GpuProcess(50, 4 * GB, user="me", program="ray::trial", line=frozenset({50, 7}))
DESKTOP = GpuProcess(60, GB, draws=True, user="me", program="Xorg", line=frozenset({60}))
USED = "GPU 0 of pc1 was used by user 1003 (pid 4711, python, 9 of 24 GB)"


def shortage(
    own_gb: float = 10, asked_gb: float = 6, *processes: GpuProcess, used_gb: float = 20
) -> Shortage:
    """Of a trial that had so much of a GPU of 24 GB, and asked for so much more."""
    on_it = processes or (OTHER,)
    card = Card("RTX 3090", "580.65", 24 * GB, int(used_gb * GB), 0, "GPU-a", on_it)
    asked = {"own_bytes": int(own_gb * GB), "asked_bytes": int(asked_gb * GB)}
    return Shortage(card=card, pc="pc1", node="n1", pid=40, **asked)


@pytest.mark.parametrize(
    ("found", "others"),
    [
        (shortage(10, 6), [OTHER]),  # 4 GB are free, 9 more would be without the other
        (shortage(10, 13), [OTHER]),
        (shortage(10, 13.1), []),  # more than there would be
        (shortage(10, 3), []),  # less than is free: a limit of its own
        (shortage(10, 6, DESKTOP), []),
        (shortage(10, 6, SIBLING), []),
        (shortage(6, 6, SIBLING, OTHER), [OTHER]),
    ],
)
def test_others_are_to_blame_where_the_trial_would_have_fit_without_them(
    found: Shortage, others: list[GpuProcess]
) -> None:
    assert found.others(own=[7]) == others


def test_in_a_container_all_but_what_the_trial_had_is_of_others() -> None:
    seen = shortage(10, 6)
    hidden = dataclasses.replace(seen, card=dataclasses.replace(seen.card, shows_processes=False))
    assert [each.used_bytes for each in hidden.others([])] == [9.5 * GB]
    alone = dataclasses.replace(hidden, own_bytes=int(19.5 * GB))
    assert alone.others([]) == []


class Waits(Begun):
    """A sweep whose only trial runs out of memory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        before_the_first_look = -1.0  # there is no Ray to ask
        self.full_gpus = FullGpus(self.context, self.searcher, self.processes, lambda: before_the_first_look)
        self.searcher.waits = lambda trial: self.full_gpus.is_waiting(trial.number)
        self.trial = tunes_trial()
        self.trial.temporary_state.ray_actor = Actor()
        self.processes.on_trial_start(0, [], self.trial)
        process = self.processes.actor_of(self.trial)
        assert process is not None
        process.own = Introduction(node="n1", pid=40, gpus=("0",))

    def runs_out(self, found: Shortage | None = None) -> bool:
        end = OutOfMemory(reason="no", traceback="", shortage=found or shortage())
        is_taken = self.full_gpus.take(self.trial, end)
        self.trial.temporary_state.ray_actor = None
        return is_taken

    def trains_beside(self, number: int, gpu: str) -> TrialActor:
        """Another process of this PC, which trains a trial on a GPU."""
        trial = tunes_trial()
        trial.config["number"], trial.temporary_state.ray_actor = number, Actor()
        self.processes.on_trial_start(0, [], trial)
        process = self.processes.actor_of(trial)
        assert process is not None
        process.own = Introduction(node="n1", pid=41, gpus=(gpu,))
        return process

    def has_room(self, *others: GpuProcess, **rooms_gb: float) -> None:
        """What the PCs answer: the room of each GPU, on which these programs are, or the one of before."""
        pids = frozenset(each.pid for each in others or (OTHER,))
        self.full_gpus._release({("n1", f"GPU-{gpu}"): Room(gb * GB, pids) for gpu, gb in rooms_gb.items()})


def test_such_a_trial_is_proposed_again_when_there_is_room(tmp_path: Path) -> None:
    sweep = Waits(tmp_path)
    assert sweep.runs_out()
    assert sweep.next is None
    sweep.has_room(a=15)  # of the 16.5 that it needs
    assert sweep.next is None
    sweep.has_room(a=24)
    assert sweep.next == 0
    (trial,) = sweep.context.record.trials
    assert (trial.status, trial.micro_batches, trial.failures) == ("unfinished", [], 0)
    assert trial.notices == [f"{USED} when it ran out of memory: it is tried again when there is room"]
    assert said(sweep.context) == [f"Trial 0: {trial.notices[0]}"]
    assert sweep.runs_out()
    assert len(said(sweep.context)) == 1, "it is told once"


def test_a_trial_needs_what_the_driver_says_of_its_process_and_what_it_asked_for() -> None:
    """PyTorch does not know all that its process holds: with what it knows, there seemed to be room."""
    mine = GpuProcess(40, int(14.7 * GB), line=frozenset({40}))
    other = dataclasses.replace(OTHER, used_bytes=int(9.1 * GB))
    found = shortage(13.9, 0.25, mine, other, used_gb=23.8)
    assert found.needed_bytes == pytest.approx(14.95 * GB)
    assert found.room_bytes([]) == pytest.approx(14.9 * GB)


def test_one_that_ran_out_twice_is_tried_there_only_where_others_leave_more(tmp_path: Path) -> None:
    """It needs more than is known of it: it would run out every few seconds."""
    sweep = Waits(tmp_path)
    found = shortage(10, 4.2)
    assert (found.needed_bytes, found.room_bytes([])) == (14.7 * GB, 14.5 * GB)
    assert sweep.runs_out(found)
    sweep.has_room(a=14.8)
    assert sweep.next == 0, "its need alone decides at first"
    assert sweep.runs_out(found)
    sweep.has_room(a=14.8)
    assert sweep.next is None
    sweep.has_room(a=15.2)
    assert sweep.next == 0
    assert sweep.runs_out(found)
    sweep.has_room(a=15.2)
    assert sweep.next is None
    another = dataclasses.replace(OTHER, pid=4712)
    sweep.has_room(another, a=14.8)
    assert sweep.next == 0, "the program has ended"


def test_one_that_is_too_large_by_itself_is_left_to_others(tmp_path: Path) -> None:
    sweep = Waits(tmp_path)
    assert not sweep.runs_out(shortage(10, 14))
    assert not sweep.runs_out(shortage(10, 3))
    assert said(sweep.context) == []


def test_another_gpu_is_tried_and_the_full_one_closed(tmp_path: Path) -> None:
    """Tune would give the trial to the process that it kept there."""
    sweep = Waits(tmp_path)
    sweep.runs_out()
    sweep.has_room(a=15, b=24)
    assert sweep.next == 0
    assert sweep.full_gpus.closed_places(1.0) == 1
    sweep.has_room(a=24, b=24)
    assert sweep.full_gpus.closed_places(1.0) == 0


def test_a_gpu_on_which_one_after_another_runs_out_is_closed(tmp_path: Path) -> None:
    sweep = Waits(tmp_path)
    for number in range(1, MOST_IN_A_ROW):
        assert sweep.runs_out()
        assert sweep.full_gpus.closed_places(1.0) == 0
        propose(sweep.context.record, {"lr": 0.1 + number})
        sweep.trial.config["number"] = number
    assert sweep.runs_out()
    assert sweep.full_gpus.closed_places(1.0) == 1
    sweep.has_room(a=24)
    assert sweep.full_gpus.closed_places(1.0) == 0


def test_all_places_on_a_gpu_that_trials_share_are_closed_but_those_where_one_trains(tmp_path: Path) -> None:
    """Of two GPUs with two trials each."""
    sweep, half = Waits(tmp_path), 0.5
    sibling, elsewhere = sweep.trains_beside(1, "0"), sweep.trains_beside(2, "1")
    sweep.runs_out()
    sweep.has_room(a=15, b=24)
    assert sweep.next == 0, "on the other GPU"
    assert sweep.full_gpus.closed_places(half) == 1
    sibling.trial.temporary_state.ray_actor = None
    elsewhere.trial.temporary_state.ray_actor = None
    assert sweep.full_gpus.closed_places(half) == 2
    sweep.trains_beside(0, "1")
    sweep.full_gpus._asked = {}
    sweep.full_gpus.look()
    assert sweep.full_gpus.closed_places(half) == 0, "it has its place, and smaller ones may fit"


def test_trials_that_run_out_on_one_gpu_in_different_processes_close_it(tmp_path: Path) -> None:
    sweep, half = Waits(tmp_path), 0.5
    assert sweep.runs_out()
    assert sweep.full_gpus.closed_places(half) == 0
    propose(sweep.context.record, {"lr": 0.2})
    sibling = sweep.trains_beside(1, "0")
    end = OutOfMemory(reason="no", traceback="", shortage=shortage())
    assert sweep.full_gpus.take(sibling.trial, end)
    sibling.trial.temporary_state.ray_actor = None
    assert sweep.full_gpus.closed_places(half) == 2
    sweep.trains_beside(0, "1")
    assert sweep.full_gpus.closed_places(half) == 2, "until there is room"
    sweep.has_room(a=24)
    assert sweep.full_gpus.closed_places(half) == 0


def test_it_tells_why_nothing_trains_where_the_last_places_are_closed(tmp_path: Path) -> None:
    sweep = Waits(tmp_path)
    sweep.runs_out()
    sweep.has_room(a=15, b=24)
    process = sweep.processes.last_of(sweep.trial)
    assert process is not None
    process.is_gone, sweep.trial.temporary_state.ray_actor = True, None
    assert not sweep.full_gpus.wait(), "the trial has a place elsewhere"
    sweep.searcher.slots = 0
    assert sweep.full_gpus.wait()
    assert said(sweep.context)[1:] == [f"Nothing trains: the sweep waits for memory of a GPU. {USED}"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Head]:
    """With a GPU of 8 GB that is not there."""
    (tmp_path / "gpus").write_text("Card of a test, 570.86, 7630\n")
    settings = {
        **OPEN,
        "GPUS": str(tmp_path / "gpus"),
        "GPU_PROCESSES": str(tmp_path / "processes"),
        "PYTHONPATH": f"{ROOT / 'tests' / 'faulty' / 'card'}:{FAKE}:{ROOT}",
        "TOY_ATTEMPTS": str(tmp_path),
    }
    with head(settings, offers=("--num-cpus=2", "--num-gpus=1")) as started:
        yield started


def started(cluster: Head, folder: Path, large: str, *more: str) -> subprocess.Popen[str]:
    """A sweep of the toys 0.1 to 0.3, of which one takes 6 GB of the GPU, and the others 1 GB."""
    words = (
        *("--no-baseline", "--trainable", "tests.faulty.large", "--precision", "32"),
        *("--ranges", "slope=0.1,0.2,0.3", "--params", f"large_slope={large}"),
        *("--searcher", "grid", "--scheduler", "none", "--max-epochs", "2", "--min-free-gb", "0"),
        *("--no-preflight", "--name", "s", "--results-dir", str(folder), *(more or ["--beside"])),
    )
    return subprocess.Popen(
        [sys.executable, "-m", "sweeps.run", "--address", cluster.address, *words],
        cwd=ROOT,
        env={**os.environ, **OPEN, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def until(sweep: subprocess.Popen[str], words: str) -> str:
    """What it prints up to a line with these words."""
    said = ""
    assert sweep.stdout is not None
    while words not in said:
        line = sweep.stdout.readline()
        assert line, said
        said += line
    return said


@pytest.mark.slow
def test_the_others_train_and_it_trains_when_the_program_has_ended(cluster: Head, tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as other:
        (tmp_path / "processes").write_text(f"0, C, {other.pid}, 3000\n")
        sweep = started(cluster, tmp_path, "0.2")
        said = until(sweep, "Nothing trains: trial 1 waits for memory of a GPU. GPU 0 of ")
        record = Record.read(tmp_path / "s")
        assert [trial.status for trial in record.trials] == ["finished", "unfinished", "finished"]
        waits = listed(cluster)
        assert (waits["status"], waits["place"], waits["waits_for"]) == ("waiting", None, [])
        assert f"was used by user {getpass.getuser()} (pid {other.pid}, sleep" in waits["waits_on"]
        assert waits["since"] < waits["waits_since"] < time.time()
        other.kill()
    rest, _ = sweep.communicate(timeout=120)
    assert sweep.returncode == 0, said + rest
    record = Record.read(tmp_path / "s")
    assert {trial.status for trial in record.trials} == {"finished"}
    assert len(record.trials[1].notices) == 1
    assert said.count("when it ran out of memory") == 1
    assert (tmp_path / "ran_out").read_text().split() == ["0.2"], "it is not tried before there is room"


@pytest.mark.long
def test_the_queue_of_a_cluster_waits_for_a_gpu_and_measures_what_is_free_then(
    cluster: Head, tmp_path: Path
) -> None:
    """The GPU is full when the sweep is planned, and two trials share it when the turn has come."""
    with subprocess.Popen(["sleep", "600"]) as other:
        (tmp_path / "processes").write_text(f"0, C, {other.pid}, 7000\n")
        words = ("--trials-per-gpu", "auto", "--cpus-per-trial", "1")
        sweep = started(cluster, tmp_path, "0.9", *words, "--queue")
        until(sweep, f"GPU 0 is used by user {getpass.getuser()} (pid {other.pid}, sleep")
        waits = listed(cluster)
        assert (waits["status"], waits["trials"], waits["waits_for"]) == ("waiting", {}, [])
        assert f"(pid {other.pid}, sleep, 7.34 of 8 GB)" in waits["waits_on"]
        other.kill()
    said, _ = sweep.communicate(timeout=120)
    assert sweep.returncode == 0, said
    assert "of the 8 GB free on a GPU" in said


def listed(cluster: Head) -> dict[str, Any]:
    """The only sweep, as `sweeps queue` has it."""
    done = subprocess.run(
        [sys.executable, "-m", "sweeps", "queue", "--address", cluster.address, "--json"],
        cwd=ROOT, env={**os.environ, **OPEN}, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    (found,) = json.loads(done.stdout)["sweeps"]
    return dict(found)


@pytest.mark.long
def test_ctrl_c_ends_a_sweep_that_waits_for_memory(cluster: Head, tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as other:
        (tmp_path / "processes").write_text(f"0, C, {other.pid}, 7200\n")  # no trial fits
        sweep = started(cluster, tmp_path, "0.2")
        until(sweep, "Nothing trains: trials 0, 1 wait for memory of a GPU.")
        sweep.send_signal(signal.SIGINT)
        said, _ = sweep.communicate(timeout=120)
        other.kill()
    assert sweep.returncode == 130, said
    record = Record.read(tmp_path / "s")
    assert [trial.status for trial in record.trials] == ["unfinished"] * 2, "no third one is tried"
    assert len((tmp_path / "ran_out").read_text().split()) == 2
