"""Which trials are ranked, and which are the best."""

from __future__ import annotations

from pathlib import Path

from optuna.distributions import FloatDistribution

from sweeps.analysis.sweep import load
from sweeps.analysis.top_trials import ranked
from sweeps.record.record import Record
from tests.conftest import propose
from tests.support.kinds import rerun
from tests.support.searched import by_hand

LR = FloatDistribution(0.001, 1.0, log=True)


def test_a_trial_that_broke_down_later_is_none_of_the_best(tmp_path: Path) -> None:
    """However good it was before that: ranges around it would ask for more of the same."""
    record = Record.create(tmp_path, "s", "max", {"metric": "acc", "max_epochs": 2})
    for place in range(12):
        number = propose(record, {"lr": 0.001 * 1.5**place}, {"lr": LR}).number
        record.report(number, 1, place, {"acc": place}, 0.1)
        record.end(number, "finished" if place < 9 else "failed" if place < 11 else "diverged", "broke")
    seen = ranked(load(tmp_path).record)
    assert [trial.number for trial in seen.best] == [8, 7, 6]
    assert [trial.number for trial in seen.bad] == [9, 10, 11]


def test_reruns_of_a_trial_are_no_trials_of_their_own(tmp_path: Path) -> None:
    params = [{"lr": 0.01 * (n + 1)} for n in range(5)]
    record = by_hand(tmp_path, [n / 10 for n in range(5)], {"lr": LR}, params).record
    for _ in range(5):
        rerun(record, 0, 0.9)
    assert [row.number for row in ranked(record).order] == [4, 3, 2, 1, 0]


def test_a_low_score_is_the_best_where_that_is_meant(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "min", {"metric": "loss"})
    for number in range(10):
        propose(record, {"lr": 0.01 * (number + 1)}, {"lr": LR})
        record.report(number, 1, float(number), {"loss": float(number)}, 0.1)
        record.end(number, "finished")
    assert [row.number for row in ranked(record).best] == [0, 1, 2]
