"""What a sweep shows, put together from its trials."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest

from sweeps.analysis.findings import findings
from sweeps.analysis.sweep import load
from tests.support import kinds
from tests.support.searched import peak, searched


def test_a_sweep_without_a_trial_shows_nothing(tmp_path: Path) -> None:
    found = findings(load(kinds.write("empty", tmp_path / "s")).record)
    assert (found.widen, found.fix, found.cut, found.rungs) == ((), (), (), ())
    assert (found.gain, found.more_trials_help, found.is_cut_short) == (None, None, False)


def test_where_the_best_lie_at_an_end_more_trials_in_the_same_space_do_not_help(tmp_path: Path) -> None:
    found = findings(searched(tmp_path, "s", peak(10.0), num_trials=60).record)
    assert {(edge.hyperparameter, edge.can_widen) for edge in found.widen} >= {("lr", True)}
    assert found.is_cut_short
    assert found.gain is not None
    assert found.more_trials_help is False
    gained = dataclasses.replace(found.gain, score=math.inf)
    assert dataclasses.replace(found, gain=gained).more_trials_help is False
    assert dataclasses.replace(found, gain=gained, widen=()).more_trials_help is True


def test_what_decides_the_range_is_not_called_without_influence(tmp_path: Path) -> None:
    found = findings(searched(tmp_path, "s", peak(10.0), num_trials=60).record)
    matter = {edge.hyperparameter for edge in found.widen} | {region.hyperparameter for region in found.cut}
    assert matter
    assert not matter & {name for name, _ in found.fix}


@pytest.mark.parametrize(("pruned", "grace_epochs"), [(2, 3), (0, None)])
def test_a_first_rung_that_foretells_nothing_makes_room_for_the_next_where_it_prunes(
    pruned: int, grace_epochs: int | None, tmp_path: Path
) -> None:
    """At the end the order is the other way round."""
    settings = {"max_epochs": 9, "grace_epochs": 1, "reduction_factor": 3}
    record = kinds.begun(tmp_path / "s", identity={"settings": settings})
    for number in range(10 + pruned):
        late = 0.5 - number / 20
        scores = {epoch: number / 20 if epoch < 3 else late for epoch in range(1, 10)}
        last, status = (9, "finished") if number < 10 else (1, "pruned")
        kinds.add(record, kinds.drawn(number), last, status, score=scores.__getitem__)
    found = findings(record)
    assert [(check.epoch, check.is_weak) for check in found.rungs] == [(1, True), (3, False)]
    assert found.grace_epochs == grace_epochs
