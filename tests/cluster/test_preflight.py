"""A preflight on PCs of a lab: one of them does it, and one that can't train ends no sweep."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.killing import check_whole
from tests.support.sweep_on_pcs import Sweep

pytestmark = pytest.mark.long


def lines_of(sweep: Sweep) -> list[str]:
    return [line for line in sweep.said.read_text().splitlines() if line.startswith("Preflight ")]


def test_one_pc_does_it(sweep_on: Callable[..., Sweep]) -> None:
    sweep = sweep_on(2, trials=2, epoch_s=3)
    sweep.start_on_all("--scheduler", "none", "--preflight")
    check_whole(sweep.end(), 2, [], 9)
    (told,) = lines_of(sweep)
    assert any(f"on the CPU of {pc.name}, about" in told for pc in (sweep.head, *sweep.others))


def test_one_that_can_train_nothing_is_left_out_and_the_sweep_goes_on(sweep_on: Callable[..., Sweep]) -> None:
    sweep = sweep_on(2, trials=2, epoch_s=1)
    (unfit,) = sweep.others
    unfit.run("touch", "/tmp/unfit")
    sweep.start_on_all("--scheduler", "none", "--preflight", trainable="tests.faulty.unfit")
    notice = f"{unfit.name} ({unfit.address}) gets no more trials in this run: the disk of /prepared is full"
    record = sweep.end()
    assert notice in sweep.said.read_text()
    check_whole(record, 2, [], 9)
    assert {trial.place["pc"] for trial in record.trials} == {sweep.head.name}
    assert all(f"on the CPU of {sweep.head.name}, about" in told for told in lines_of(sweep))
