"""PCs, cables and drivers that break while a sweep runs: nothing that was finished is lost.

Each sweep ends with all its trials accounted for; each fault says how long it took until work went on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cluster_of_pcs import nodes
from tests.support.killing import check_nothing_is_lost, check_whole
from tests.support.lab import wait_until
from tests.support.sweep_on_pcs import A_PLACE_FREE, EACH_EPOCH, Sweep

pytestmark = pytest.mark.long


def half_written(sweep: Sweep) -> list[Path]:
    """Checkpoints that are being written, or never will be whole."""
    return list((sweep.folder / "checkpoints").glob("trial_*/.epoch_*"))


@pytest.mark.parametrize("scheduler", ["none", "halving"])
def test_the_power_of_a_pc_is_cut_while_it_trains(scheduler: str, sweep_on: Callable[..., Sweep]) -> None:
    sweep = sweep_on(3, trials=6, epoch_s=2)
    sweep.start_on_all("--scheduler", scheduler, *EACH_EPOCH, *A_PLACE_FREE)
    lost = sweep.wait_for_work_on(*sweep.others)
    victim = sweep.pc_of(lost)
    before = sweep.trials_by_number()
    began = time.time()
    victim.power_cut()
    sweep.wait_until_moved(lost, began, f"power cut in training, {scheduler}")
    record = sweep.end()
    check_nothing_is_lost(sweep.folder, before)
    check_whole(record, 6, [3] if scheduler == "halving" else [], 9, halving=scheduler == "halving")
    report_trained_twice(sweep, at_most=1)
    assert f"{victim.name} ({victim.address}) is lost" in sweep.said.read_text()
    assert not any(trial.notices for trial in record.trials)


def test_a_pc_is_lost_while_three_sweeps_share_it(sweep_on: Callable[..., Sweep]) -> None:
    """Of three places two are left: each sweep has one in its turn, before any other sweep has ended."""
    first = sweep_on(2, trials=6, epoch_s=2)
    first.set_up(first.others, cpus=2)
    sweeps = [first, first.beside("second"), first.beside("third")]
    for seed, sweep in enumerate(sweeps):  # each has toys of its own in their diary
        sweep.start("--scheduler", "none", *EACH_EPOCH, "--seed", str(seed))
    (victim,) = first.others
    wait_until(lambda: all(any(each.epochs for each in sweep.live) for sweep in sweeps), "all to train", 400)
    wait_until(lambda: any(sweep.on(victim) for sweep in sweeps), "work on the PC", 100)
    before = [sweep.trials_by_number() for sweep in sweeps]
    victim.power_cut()
    lost = f"{victim.name} ({victim.address}) is lost"
    wait_until(lambda: all(lost in sweep.said.read_text() for sweep in sweeps), lost, 120)
    told = time.time()
    left = [sweep.trials_by_number() for sweep in sweeps]
    for sweep, then in zip(sweeps, left, strict=True):
        sweep.wait_for_a_new_epoch(then, told, f"power cut, {sweep.folder.name} of three sweeps")
        assert all(each.driver is not None and each.driver.poll() is None for each in sweeps)
    for sweep, then in zip(sweeps, before, strict=True):
        record = sweep.end()
        check_nothing_is_lost(sweep.folder, then)
        check_whole(record, 6, [], 9)
        assert not any(trial.notices for trial in record.trials)
        assert "Shares the PCs with sweeps " in sweep.said.read_text()
    report_trained_twice(first, at_most=1)


def test_the_power_of_a_pc_is_cut_while_it_writes_a_checkpoint(sweep_on: Callable[..., Sweep]) -> None:
    sweep = sweep_on(3, trials=4, epoch_s=1, save_s=2)
    sweep.start_on_all("--scheduler", "none", *EACH_EPOCH, *A_PLACE_FREE)
    lost = sweep.wait_for_work_on(*sweep.others)
    victim = sweep.pc_of(lost)
    folder = f"trial_{lost.number:04d}"
    wait_until(lambda: any(part.parent.name == folder for part in half_written(sweep)), "a checkpoint", 60)
    began = time.time()
    victim.power_cut()
    assert any(part.parent.name == folder for part in half_written(sweep)), "it was cut in the middle of one"
    sweep.wait_until_moved(lost, began, "power cut in a checkpoint")
    check_whole(sweep.end(), 4, [], 9)
    report_trained_twice(sweep, at_most=1)
    assert half_written(sweep) == []


def test_a_cable_that_is_out_for_5_s_costs_nothing_but_the_time(sweep_on: Callable[..., Sweep]) -> None:
    sweep = sweep_on(2, trials=4, epoch_s=2)
    sweep.start_on_all("--scheduler", "none", *EACH_EPOCH)
    (victim,) = sweep.others
    cut = sweep.wait_for_work_on(victim)
    before = sweep.trials_by_number()
    began = time.time()
    victim.unplug()
    time.sleep(5)
    victim.plug_in()
    sweep.wait_for_a_new_epoch(before, began, "cable out for 5 s", of=[cut.number])
    record = sweep.end()
    check_whole(record, 4, [], 9)
    report_trained_twice(sweep, at_most=0)
    assert record.trials[cut.number].place["pc"] == victim.name


def test_a_pc_whose_cable_is_out_for_2_minutes_works_again_when_it_is_back(
    sweep_on: Callable[..., Sweep],
) -> None:
    sweep = sweep_on(2, trials=56, epoch_s=0.5)
    sweep.start_on_all("--scheduler", "none", *EACH_EPOCH)
    (victim,) = sweep.others
    lost = sweep.wait_for_work_on(victim)
    began = time.time()
    victim.unplug()
    sweep.wait_until_moved(lost, began, "cable out for 120 s")
    time.sleep(max(0, began + 120 - time.time()))
    were_there = [trial.number for trial in sweep.on(victim)]
    victim.plug_in()
    restored = time.time()
    sweep.join(victim)
    sweep.wait_for_work_on(victim, but=were_there)
    print(f"MEASURED cable back after 120 s: it works after {time.time() - restored:.1f} s", flush=True)
    check_whole(sweep.end(), 56, [], 9)
    report_trained_twice(sweep, at_most=1)


@pytest.mark.parametrize("scheduler", ["asha", "hyperband"])
def test_a_driver_that_is_killed_goes_on_by_resume(scheduler: str, sweep_on: Callable[..., Sweep]) -> None:
    trials = 5
    sweep = sweep_on(2, trials=trials, epoch_s=1)
    sweep.start_on_all("--scheduler", scheduler, *EACH_EPOCH)
    sweep.wait_for_work_on(sweep.others[0])
    before = sweep.trials_by_number()
    began = time.time()
    sweep.kill_driver()
    sweep.start()
    sweep.wait_for_a_new_epoch(before, began, f"driver killed, --resume, {scheduler}")
    check_nothing_is_lost(sweep.folder, before)
    check_whole(sweep.end(), trials, [3], 9, brackets=scheduler == "hyperband")
    report_trained_twice(sweep, at_most=2)


def test_a_head_that_is_lost_goes_on_by_resume_when_it_is_back(sweep_on: Callable[..., Sweep]) -> None:
    sweep = sweep_on(3, trials=6, epoch_s=2)
    sweep.start_on_all("--scheduler", "asha", *EACH_EPOCH)
    sweep.wait_for_work_on(sweep.others[0])
    before = sweep.trials_by_number()
    began = time.time()
    sweep.head.power_cut()
    sweep.head.power_on()
    sweep.set_up(sweep.others)
    assert len(nodes(sweep.head)) == 3
    print(f"MEASURED head lost: all have joined it again after {time.time() - began:.1f} s", flush=True)
    sweep.start()
    sweep.wait_for_a_new_epoch(before, began, "head lost, --resume")
    check_nothing_is_lost(sweep.folder, before)
    check_whole(sweep.end(), 6, [3], 9)
    report_trained_twice(sweep, at_most=3)


def report_trained_twice(sweep: Sweep, at_most: int) -> None:
    """A trial loses no more than the epoch at hand: the one before it is in a checkpoint."""
    twice = sweep.trained_twice()
    print(f"MEASURED epochs trained twice: {twice}", flush=True)
    assert twice <= at_most
