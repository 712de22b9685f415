"""The brackets of Hyperband: their sizes and who is in them."""

from __future__ import annotations

from pathlib import Path

from sweeps.config.sweep_config import SweepConfig
from sweeps.search import brackets
from tests.support.confirmed import add, rerun, searched


def test_the_brackets_of_a_band_have_the_sizes_of_the_paper() -> None:
    config = SweepConfig.of(max_epochs=81, grace_epochs=1, reduction_factor=3)
    assert [size for size, _ in brackets.band(config)] == [81, 34, 15, 8, 5]
    assert [judged for _, judged in brackets.band(config)] == [(1, 3, 9, 27), (3, 9, 27), (9, 27), (27,), ()]


def test_no_rung_is_lost_to_truncated_logarithms() -> None:
    """Ray loses one of 243 / 3 and of 1000 / 10."""
    for max_epochs, factor in ((243, 3), (1000, 10)):
        config = SweepConfig.of(max_epochs=max_epochs, grace_epochs=1, reduction_factor=factor)
        widest = brackets.band(config)[0][1]
        assert [factor**power for power in range(len(widest))] == list(widest)
        assert widest[-1] * factor == max_epochs


def test_brackets_are_filled_as_if_nothing_had_been_rerun(tmp_path: Path) -> None:
    config = SweepConfig.of(num_trials=10, max_epochs=3, grace_epochs=1, reduction_factor=3)
    decided = []
    for place, seen in (("without", 0), ("with", 2)):
        (tmp_path / place).mkdir()
        record = searched(tmp_path / place, 0.1, 0.2, 0.3, 0.4, 0.5)
        record.note("planned", [5, 10])
        for number in record.leaders(9)[:seen]:
            rerun(record, number, 11, 9.0)
        added = [add(record, score).number for score in (0.2, 0.9, 0.8, 0.1, 0.1)]
        assert added[0] == 5 + seen
        decided.append([brackets.decision(config, record, number, 1) for number in added])
    assert decided[0] == decided[1]
    assert "STOP" in decided[0]
