"""The figures at the top of a report."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.report.sections import Tile, summary
from sweeps.analysis.sweep import Sweep
from sweeps.record.record import Record
from sweeps.record.trials import BAD, DEFAULTS, Status
from tests.support.kinds import add, begun, drawn, rerun
from tests.support.weighed import FRONT, weighed


def tiles_of(folder: Path) -> dict[str, Tile]:
    return {tile.label: tile for tile in summary(analysis_sweep.load(folder).record)}


@pytest.mark.parametrize(("mode", "gain"), [("max", "+0.25"), ("min", "-0.25")])
def test_four_figures_tell_what_came_of_a_sweep(
    mode: Literal["max", "min"], gain: str, tmp_path: Path
) -> None:
    record = Record.create(tmp_path, "s", mode, {"metric": "acc", "max_epochs": 9})
    sign = record.objective.sign
    add(record, {"lr": 0.1}, 9, score=lambda epoch: sign * 0.5, origin=DEFAULTS)
    add(record, {"lr": 0.2}, 9, score=lambda epoch: sign * (0.75 if epoch == 4 else 0.6))
    add(record, {"lr": 0.3}, 3, "pruned", score=lambda epoch: sign * 0.4)
    add(record, {"lr": 0.4}, 0, "failed", "OSError: no space")
    tiles = tiles_of(tmp_path)
    assert list(tiles) == ["Best acc", "Gain over your defaults", "Trials ended", "Saved by pruning"]
    assert tiles["Best acc"][1:] == (f"{sign * 0.75:g}", "trial 1, epoch 4")
    assert tiles["Gain over your defaults"][1:] == (gain, f"they had {sign * 0.5:g} (trial 0)")
    assert tiles["Trials ended"][1:] == ("4 of 4", "21 epochs, 1 pruned, 1 failed")
    assert tiles["Saved by pruning"].value == "22 %"
    assert tiles["Saved by pruning"].note.startswith("6 of 27 epochs, 6 s of CPU time")


def test_where_nothing_is_known_the_time_takes_its_place(sweeps: dict[str, Sweep]) -> None:
    best, *others = summary(sweeps["empty"].record)
    assert best[1:] == ("none", "no trial ended well")
    assert [tile.label for tile in others] == ["Time", "Trials ended"]


def test_defaults_that_are_the_best_gain_nothing(tmp_path: Path) -> None:
    add(begun(tmp_path), {"lr": 0.1}, 2, origin=DEFAULTS)
    assert tiles_of(tmp_path)["Gain over your defaults"].value == "none"


@pytest.mark.parametrize("status", [*BAD, "unfinished"])
def test_defaults_whose_score_does_not_count_are_not_compared_with(status: Status, tmp_path: Path) -> None:
    record = begun(tmp_path, constraints=["acc<=0.8"] if status == "unfinished" else [])
    add(record, {"lr": 0.9}, 2, status, "no good", score=lambda epoch: 0.9, origin=DEFAULTS)
    add(record, {"lr": 0.1}, 2, score=lambda epoch: 0.5)
    assert list(tiles_of(tmp_path))[:2] == ["Best acc", "Time"]


def test_a_confirmed_trial_is_told_by_its_mean_and_a_front_by_its_knee(tmp_path: Path) -> None:
    record = begun(tmp_path / "confirmed", confirm={"top": 1, "seeds": 2})
    add(record, drawn(0), 1)
    for score in (0.6, 0.7):
        rerun(record, 0, score)
    assert tiles_of(tmp_path / "confirmed")["Best acc"][1:] == ("0.65", "trial 0, mean of 2 new seeds")
    weighed(tmp_path / "front", FRONT)
    assert tiles_of(tmp_path / "front")["Best acc"].note == "trial 1, the knee of 3 trials: size_m 2"
