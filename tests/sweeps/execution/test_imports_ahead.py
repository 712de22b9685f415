"""Imports while the first trials train."""

from __future__ import annotations

import sys

import pytest

from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.driver.imports_ahead import OF_MODELS, ImportsAhead, of_sweep
from tests.sweeps.common.plug_in_files import Write


def test_modules_are_imported_once_from_the_first_result_on(
    module: Write, capfd: pytest.CaptureFixture[str]
) -> None:
    broken, sound = module("1 / 0", "broken"), module("print('imported', flush=True)", "sound")
    ahead = ImportsAhead((broken, "not.there", sound))
    assert ahead.thread is None
    ahead.on_trial_result()
    first = ahead.thread
    ahead.on_trial_result()
    assert ahead.thread is first is not None
    first.join()
    assert sound in sys.modules
    assert capfd.readouterr() == ("imported\n", "")


@pytest.mark.parametrize(
    ("searcher", "constraint", "are_needed"),
    [
        ("gp", None, True),
        ("tpe", None, False),
        ("tpe", ["size_m<=5"], True),
        ("random", ["size_m<=5"], False),
    ],
)
def test_what_proposals_need_is_imported_where_they_are_modelled(
    searcher: str, constraint: list[str] | None, are_needed: bool
) -> None:
    config = SweepConfig.of(searcher=searcher, constraint=constraint)
    assert (set(OF_MODELS) <= set(of_sweep(config))) is are_needed
