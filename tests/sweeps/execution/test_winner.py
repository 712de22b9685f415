"""The best model, scored once on the test rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.config.sweep_config import SweepConfig
from sweeps.execution import summary, winner
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from tests.support.confirmed import searched
from tests.support.drivers import driver_of


def test_each_winner_is_scored_on_the_test_rows_once_and_how_many_were_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored = []

    def test(driver: object, run: TrialRow, weights: object) -> dict[str, float]:
        scored.append(run.number)
        return {"test_acc": run.number / 10}

    monkeypatch.setattr(winner, "_test", test)
    record = searched(tmp_path, 0.1, 0.9, 0.8)
    for number, often in (
        (1, "scored once"),
        (2, "scored 2 times, for trials 1, 2"),
        (1, "scored 2 times, for"),
    ):
        run = record.trials[number]
        scores = winner._scores(driver_of(tmp_path, record, SweepConfig()), run, tmp_path)
        assert (scores, record.about["test"]) == (
            {"test_acc": number / 10},
            {"trial": number, "test_acc": number / 10},
        )
        assert summary._how_often(record).startswith(often)
        record = Record.read(tmp_path)
    assert scored == [1, 2]
