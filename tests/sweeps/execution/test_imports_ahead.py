"""Imports while the first trials train."""

from __future__ import annotations

import sys

import pytest

from sweeps.execution.imports_ahead import ImportsAhead
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
