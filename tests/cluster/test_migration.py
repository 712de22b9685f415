"""PCs that leave a sweep, join it, and can't train: nothing is lost, and how long until work goes on."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.support.cluster_of_pcs import PYTHON, nodes
from tests.support.killing import check_whole
from tests.support.sweep_on_pcs import A_PLACE_FREE, EACH_EPOCH, Sweep

SCHEDULERS = {
    "none": ("random", 4, []),
    "asha": ("random", 4, [3]),
    "hyperband": ("random", 5, [3]),
    "bohb": ("bohb", 5, [3]),
}
"""To the searcher, how many trials, and the rungs."""


@pytest.mark.long
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_trials_of_a_pc_that_is_drained_go_on_elsewhere(
    scheduler: str, sweep_on: Callable[..., Sweep]
) -> None:
    searcher, trials, rungs = SCHEDULERS[scheduler]
    sweep = sweep_on(3, trials=trials, epoch_s=2)  # it leaves before the rung, where its trial may end
    sweep.start_on_all("--scheduler", scheduler, "--searcher", searcher, *A_PLACE_FREE)
    moving = sweep.wait_for_work_on(*sweep.others)
    leaver = sweep.pc_of(moving)
    began = time.time()
    said = leaver.run(PYTHON, "-m", "sweeps.pcs", "drain", timeout_s=90).stdout
    print(f"MEASURED drain ({scheduler}): {time.time() - began:.1f} s: {said}")
    running = [line.split() for line in leaver.run("ps", "-A", "-o", "stat=,comm=").stdout.splitlines()]
    alive = [name for state, name, *_ in running if not state.startswith("Z")]  # `ray start` buries it later
    assert [name for name in alive if name == "raylet" or name.startswith("ray::")] == []
    assert leaver.address not in nodes(sweep.head)
    sweep.wait_until_moved(moving, began, f"drain, {scheduler}")
    record = sweep.end()
    check_whole(record, trials, rungs, 9, brackets=scheduler in ("hyperband", "bohb"))
    assert sweep.trained_twice() == 0
    assert not any(trial.notices for trial in record.trials)


@pytest.mark.long
def test_an_epoch_that_takes_longer_than_a_drain_may_is_given_up(sweep_on: Callable[..., Sweep]) -> None:
    sweep = sweep_on(3, trials=2, epoch_s=8)
    sweep.start_on_all("--scheduler", "none", *EACH_EPOCH)
    moving = sweep.wait_for_work_on(*sweep.others)
    leaver = sweep.pc_of(moving)
    began = time.time()
    said = sweep.head.run(PYTHON, "-m", "sweeps.pcs", "drain", leaver.name, "--timeout-s", "1", timeout_s=90)
    assert f"{leaver.name} has left, after" in said.stdout
    print(f"MEASURED drain --timeout-s 1: {time.time() - began:.1f} s", flush=True)
    sweep.wait_until_moved(moving, began, "drain --timeout-s 1")
    check_whole(sweep.end(), 2, [], 9)
    assert (sweep.begun_twice(), sweep.trained_twice()) == (1, 0)
    for what in ("is about to leave", "has left"):
        assert f"{leaver.name} ({leaver.address}) {what}" in sweep.said.read_text()


@pytest.mark.long
def test_a_pc_that_joins_late_and_one_that_comes_back_get_trials(sweep_on: Callable[..., Sweep]) -> None:
    """The sweep begins on the head alone, whose trials it would take two minutes to train."""
    sweep = sweep_on(2, trials=28, epoch_s=0.5)
    (late,) = sweep.others
    sweep.set_up([])
    sweep.start("--scheduler", "none", "--searcher", "random")
    sweep.wait_for_work_on(sweep.head)
    were_there: list[int] = []
    for what in ("late", "back"):
        sweep.join(late)
        began = time.time()
        sweep.wait_for_work_on(late, but=were_there)
        print(f"MEASURED {what}: work after {time.time() - began:.1f} s", flush=True)
        if what == "late":
            said = sweep.head.run(PYTHON, "-m", "sweeps.pcs", "drain", late.name, timeout_s=90).stdout
            assert f"{late.name} has left, after" in said
            were_there = [trial.number for trial in sweep.on(late)]
    check_whole(sweep.end(), 28, [], 9)
    assert sweep.trained_twice() == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "covered", "size", "reason"),
    [
        ("full disk", "s/checkpoints", "4k", "the disk is full"),
        ("lost share", "", "1g", "is missing: all PCs must see that folder"),
    ],
)
def test_a_pc_that_can_write_no_checkpoint_is_left_out_by_name_and_its_trials_move(
    fault: str, covered: str, size: str, reason: str, sweep_on: Callable[..., Sweep]
) -> None:
    sweep = sweep_on(2, trials=4, epoch_s=0.5)
    sweep.start_on_all("--scheduler", "none", *EACH_EPOCH, "--keep-checkpoints", "4")
    (unfit,) = sweep.others
    moving = sweep.wait_for_work_on(unfit)
    began = time.time()
    unfit.run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(sweep.folder.parent / covered))
    sweep.wait_until_moved(moving, began, fault)
    record = sweep.end()
    check_whole(record, 4, [], 9)
    (notice,) = {line for trial in record.trials for line in trial.notices if "gets no more trials" in line}
    assert notice.startswith(f"{unfit.name} ({unfit.address}) gets no more trials in this run: no check")
    assert notice.endswith(reason)
    assert sweep.said.read_text().count("gets no more trials") == 1
    assert "lost its process" not in sweep.said.read_text()
    assert record.trials[moving.number].place["pc"] == sweep.head.name
