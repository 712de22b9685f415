"""PCs on which no process of a trial starts are left out; the sweep ends only where no other is left."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import ray

from sweeps.ray_cluster import nodes
from tests.support.killing import check_whole
from tests.support.lab import PC, wait_until
from tests.support.sweep_on_pcs import EACH_EPOCH, Sweep

pytestmark = pytest.mark.long

RAYS_WORKERS = Path(ray.__file__).parent / "_private" / "workers"
FAULTS = {
    "full disk": ("/tmp/ray/session_latest/logs", "OSError: [Errno 28] No space left on device"),
    "broken Python": (str(RAYS_WORKERS), ""),
}
"""To the folder that an empty, full disk covers, and the reason that is told."""


def break_starts(pc: PC, fault: str) -> None:
    """Let no further process start there, and end all that train or wait for work."""
    covered, _ = FAULTS[fault]
    pc.run("sh", "-c", f'mount -t tmpfs -o size=4k tmpfs "$(readlink -f {covered})"')
    listed = pc.run("ps", "-A", "-o", "pid=,args=").stdout.splitlines()
    named = (line.split(maxsplit=1) for line in listed)
    workers = [pid for pid, name in named if name.startswith("ray::") and "Agent" not in name]
    pc.run("kill", "-9", *workers, check=False)  # one may have ended since


def test_it_is_left_out_by_name_and_its_trials_go_on_elsewhere(
    sweep_on: Callable[..., Sweep],
) -> None:
    trials, fault = 4, "full disk"
    sweep = sweep_on(2, trials=trials, epoch_s=2.5)
    sweep.start_on_all("--scheduler", "none", *EACH_EPOCH)
    (unfit,) = sweep.others
    moving = sweep.wait_for_work_on(unfit)
    began = time.time()
    break_starts(unfit, fault)
    sweep.wait_until_moved(moving, began, f"no process starts: {fault}")
    record = sweep.end()
    check_whole(record, trials, [], 9)
    (notice,) = {line for trial in record.trials for line in trial.notices if "gets no more trials" in line}
    _, reason = FAULTS[fault]
    no_start = "no process of a trial starts there"
    assert notice.startswith(f"{unfit.name} ({unfit.address}) gets no more trials in this run: {no_start}: ")
    assert reason in notice or nodes.ENDED_AT_ONCE in notice
    assert notice in sweep.said.read_text()


def test_one_that_can_start_nothing_when_the_sweep_begins_is_left_out(sweep_on: Callable[..., Sweep]) -> None:
    sweep = sweep_on(2, trials=2, epoch_s=0.5)
    sweep.set_up(sweep.others)
    (unfit,) = sweep.others
    break_starts(unfit, "full disk")
    sweep.start("--scheduler", "none", *EACH_EPOCH)
    record = sweep.end()
    check_whole(record, 2, [], 9)
    assert {trial.place["pc"] for trial in record.trials} == {sweep.head.name}
    _, reason = FAULTS["full disk"]
    out = f"{unfit.name} ({unfit.address}) gets no more trials in this run"
    no_start = f"{out}: no process of a trial starts there: "
    said = sweep.said.read_text()
    assert f"{no_start}{reason}" in said or f"{no_start}{nodes.ENDED_AT_ONCE}" in said, said


def test_a_pc_that_is_lost_before_a_process_starts_costs_no_trial(sweep_on: Callable[..., Sweep]) -> None:
    """Ray has given the trial its place there, and the process is still to start."""
    sweep = sweep_on(2, trials=2, epoch_s=6)  # the head is not free before the loss is noticed
    sweep.start_on_all("--scheduler", "none", *EACH_EPOCH)
    (victim,) = sweep.others
    moving = sweep.wait_for_work_on(victim)
    break_starts(victim, "broken Python")
    wait_until(lambda: f"Trial {moving.number} lost its process" in sweep.said.read_text(), "its loss", 60)
    time.sleep(5)  # the trial has its place there again
    began = time.time()
    victim.power_cut()
    lost = f"{victim.name} ({victim.address}) is lost"
    wait_until(lambda: lost in sweep.said.read_text(), "the loss to be told", 60)
    assert sweep.trials_by_number()[moving.number].place["pc"] == victim.name, "it waits for a place"
    sweep.wait_until_moved(moving, began, "PC lost before a process started")
    check_whole(sweep.end(), 2, [], 9)
