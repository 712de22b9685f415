"""A sweep whose first trials all fail alike stops; one in which any other thing happened goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.driver.tune_callback import why_first_failures_stop
from sweeps.record.record import Record
from tests.conftest import propose
from tests.support.contexts import context_of
from tests.support.nodes import cluster_of

SAME = [f"RuntimeError: no file {number} at 0x7f{number}a" for number in range(4)]


def why(folder: Path, ends: list[tuple[Any, str]], slots: int = 1, **settings: Any) -> str:
    record = Record.create(folder, "s", "max", {"metric": "m"})
    for status, reason in ends:
        record.end(propose(record, {"lr": 0.1}).number, status, reason)
    propose(record, {"lr": 0.2})  # one that trains
    config = SweepConfig(gpus_per_trial=0, **settings)
    return why_first_failures_stop(context_of(folder, record, config, cluster_of((slots, 0))))


def failed(*reasons: str) -> list[tuple[Any, str]]:
    return [("failed", reason) for reason in reasons]


def test_the_same_error_of_the_first_trials_is_the_end(tmp_path: Path) -> None:
    found = why(tmp_path, failed(*SAME[:3]))
    assert found == f"the first 3 trials all failed: {SAME[2]}. Add --keep-going to train on"


def test_it_is_the_same_error_in_whatever_worker_it_shows_first(tmp_path: Path) -> None:
    reasons = (SAME[0], f"{SAME[1]} (in another worker, on pc2)", f"{SAME[2]} (in another worker, on spare)")
    assert why(tmp_path, failed(*reasons)).startswith("the first 3 trials all failed: ")


def test_those_that_do_not_fit_say_nothing_of_the_others(tmp_path: Path) -> None:
    infeasible: list[tuple[Any, str]] = [("infeasible", "out of memory")] * 3
    (tmp_path / "alone").mkdir()
    assert why(tmp_path / "alone", infeasible) == ""
    assert why(tmp_path, [*infeasible, *failed(*SAME[:3])]).startswith("the first 3 trials all failed: ")


@pytest.mark.parametrize(
    ("of_first", "of_failed", "is_to_stop"),
    [(39, 0, False), (2, 1, False), (1, 1, True), (0, 3, True)],
    ids=["it trains well", "it passed their last epoch", "it may fail where they did", "it has just begun"],
)
def test_a_trial_that_trains_further_than_those_that_failed_keeps_the_sweep(
    of_first: int, of_failed: int, is_to_stop: bool, tmp_path: Path
) -> None:
    record = Record.create(tmp_path, "s", "max", {"metric": "m"})
    for number in range(4):
        propose(record, {"lr": 0.1})
        for epoch in range(1, (of_failed if number else of_first) + 1):
            record.report(number, epoch, 0.9, {}, 1.0)
        if number:
            record.end(number, "failed", SAME[number])
    context = context_of(tmp_path, record, SweepConfig(gpus_per_trial=0))
    assert bool(why_first_failures_stop(context)) == is_to_stop


@pytest.mark.parametrize(
    ("ends", "settings"),
    [
        (failed(*SAME[:2]), {}),
        (failed(*SAME[:3]), {"slots": 4}),
        (failed(*SAME[:3]), {"keep_going": True}),
        (failed(*SAME[:2], "ValueError: lr"), {}),
        ([("finished", ""), *failed(*SAME)], {}),
        ([("diverged", "m was nan in epoch 1"), *failed(*SAME)], {}),
    ],
    ids=["too few", "more run at a time", "asked to go on", "another error", "one finished", "one diverged"],
)
def test_else_the_sweep_goes_on(
    ends: list[tuple[Any, str]], settings: dict[str, Any], tmp_path: Path
) -> None:
    assert why(tmp_path, ends, **settings) == ""
