"""Trials that went wrong, by cause and by where they lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.failure_regions import causes, dead_regions_of
from sweeps.analysis.figures import failures, why_blank
from sweeps.analysis.sweep import Sweep
from tests.support.kinds import add, begun, drawn


def test_diverged_trials_are_grouped_by_cause_and_by_where_they_lie(sweeps: dict[str, Sweep]) -> None:
    found = causes(sweeps["troubled"].record)
    assert [(cause.status, cause.reason, len(cause.trials)) for cause in found] == [
        ("diverged", "acc was nan in epoch N", 10),
        ("failed", "OSError: <no space>", 1),
    ]
    assert found[0].where == "10 of 10 have lr > 0.1 (and none of the 30 that ended well)"
    assert found[1].region is None, "of one trial nothing can be told"


def test_a_cause_lies_in_the_very_region_that_is_to_be_cut_off(tmp_path: Path) -> None:
    """Also where poor trials that ended well lie beside its limit, and it is one of two causes."""
    record = begun(tmp_path)
    with record.together():
        for number in range(40):
            params = {**drawn(number), "lr": 10 ** (-4 + number / 10)}
            wrong = "MemoryError" if number % 3 == 0 else "acc was nan"
            if number >= 28 and number != 31:
                add(record, params, 1, "failed" if wrong == "MemoryError" else "diverged", wrong)
            else:
                add(record, params, 3)
    sweep = analysis_sweep.load(tmp_path)
    (cut,) = {str(region) for region in dead_regions_of(sweep.record)}
    regions = [cause.region for cause in causes(sweep.record)]
    assert [str(region) for region in regions] == [cut] * 2


@pytest.mark.parametrize(
    ("bad", "why"), [(2, "2 failures: no region holds more of them than chance would put there."), (4, "")]
)
def test_few_failures_have_no_region(bad: int, why: str, tmp_path: Path) -> None:
    """The rate separates them, in both cases."""
    record = begun(tmp_path)
    with record.together():
        for number in range(24):
            params = {**drawn(number), "lr": 10 ** (-4 + number / 6)}
            add(record, params, 1, "failed" if number >= 24 - bad else "finished", "OSError: no")
    assert why_blank(failures(analysis_sweep.load(tmp_path))) == why


def test_trouble_anywhere_has_no_region(tmp_path: Path) -> None:
    record = begun(tmp_path)
    with record.together():
        for number in range(60):
            add(record, drawn(number), 1, "failed" if number % 4 == 0 else "finished", "OSError: no")
    (cause,) = causes(analysis_sweep.load(tmp_path).record)
    assert cause.region is None


def test_a_value_of_a_choice_can_be_the_region(tmp_path: Path) -> None:
    record = begun(tmp_path)
    with record.together():
        for number in range(40):
            params = drawn(number)
            if params["width"] == 16:
                add(record, params, 0, "failed", "MemoryError")
            else:
                add(record, params, 3)
    (cause,) = causes(analysis_sweep.load(tmp_path).record)
    assert str(cause.region) == "width = 16"
