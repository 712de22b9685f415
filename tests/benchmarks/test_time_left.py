"""How the time left is measured: recorded sweeps, looks at them, and what is made of these."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import _recorded, time_left
from benchmarks._recorded import Past, Recorded, Trial
from benchmarks.time_left import Look
from sweeps.record.record import Record
from tests.conftest import propose

SETTINGS = {
    "searcher": "random", "scheduler": "none", "max_epochs": 2, "grace_epochs": 3, "reduction_factor": 3,
    "num_trials": 3, "seed": 0,
}  # fmt: skip
SWEEP = Recorded(
    name="s",
    kind="real",
    settings=SETTINGS,
    slots=1,
    total_s=70.0,
    trials=[
        Trial(0.0, 30.0, "finished", 0, [(20.0, 10.0, 0.5), (30.0, 10.0, 0.6)]),
        Trial(30.0, 40.0, "diverged", 0, [(40.0, 10.0, float("nan"))]),
        Trial(40.0, 60.0, "finished", 0, [(50.0, 10.0, 0.5), (60.0, 10.0, 0.7)]),
    ],
)


@pytest.mark.parametrize(
    ("moment", "epochs", "live"),
    [(10.0, [0], [0]), (25.0, [1], [0]), (30.0, [2, 0], [1]), (45.0, [2, 1, 0], [2]), (70.0, [2, 1, 2], [])],
)
def test_a_past_record_holds_what_had_been_reported(
    moment: float, epochs: list[int], live: list[int]
) -> None:
    past = Past(SWEEP, moment)
    assert [len(trial.epochs) for trial in past.trials] == epochs
    assert [trial.number for trial in past.live] == live


def test_looks_tell_the_time_left_and_the_truth() -> None:
    looks = time_left.look_at(SWEEP)
    assert [(look.share, look.truth_s) for look in looks] == [(10, 63.0), (25, 52.5), (50, 35.0), (75, 17.5)]
    first, *others = looks
    assert first.best_s is None, "before the first epoch"
    assert not first.is_held
    assert all(look.best_s is not None and look.low_s <= look.best_s <= look.high_s for look in others[1:])


def test_sweeps_are_kept_in_a_file(tmp_path: Path) -> None:
    sound = Recorded(**{**vars(SWEEP), "trials": SWEEP.trials[:1], "confirm": (1, 2)})
    _recorded.save([sound], tmp_path / "sweeps.json.gz")
    (there,) = _recorded.load(tmp_path / "sweeps.json.gz")
    assert Past(there, 25.0).trials[0].epochs == Past(sound, 25.0).trials[0].epochs
    assert (there.confirm, there.total_s, there.settings) == ((1, 2), 70.0, SETTINGS)


def test_a_sweep_that_has_not_ended_is_no_recorded_one(tmp_path: Path) -> None:
    about = {"metric": "acc", "identity": {"settings": SETTINGS}, "runs": [{"started": 0.0}], "planned": [1]}
    record = Record.create(tmp_path, "s", "max", about)
    propose(record, {})
    record.report(0, 1, 0.5, {}, 1.0)
    with pytest.raises(ValueError, match="only a sweep that ran at a stretch and has ended can be replayed"):
        _recorded.of_folder(tmp_path, 1)
    record.end(0, "finished")
    record.note("outcome", "finished")
    there = _recorded.of_folder(tmp_path, 1)
    assert there.settings == {**SETTINGS, "num_trials": 1}
    assert [len(trial.epochs) for trial in there.trials] == [1]


def test_the_goals_are_by_the_looks_with_a_range() -> None:
    def look(truth_s: float, best_s: float | None) -> list[Look]:
        return [
            Look("real", "none", share, truth_s, best_s, 80.0, 120.0)
            if best_s
            else Look("real", "none", share, truth_s, None)
            for share in time_left.SHARES
        ]

    looks = [*look(100.0, 110.0), *look(110.0, 110.0), *look(200.0, 100.0), *look(100.0, None)]
    rows = time_left.summary("all", looks)
    assert [(row["looks"], row["without_range"]) for row in rows] == [(4, 1)] * 4
    assert "67 %          10 %" in time_left.describe(rows)
    lines = [goal.line() for goal in time_left.goals(rows)]
    assert lines == [f"error_{share} 0.10 (goal <= 0.5) met" for share in (25, 50, 75)]
