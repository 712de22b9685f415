"""What rungs predicted, and what more trials may gain."""

from __future__ import annotations

from pathlib import Path

import pytest
from optuna.distributions import FloatDistribution

from sweeps.analysis.forecast import RungCheck, gain
from sweeps.analysis.top_trials import ranked
from tests.support.searched import by_hand

LR = FloatDistribution(0.001, 1.0, log=True)


@pytest.mark.parametrize(
    ("correlation", "trials", "is_weak"), [(0.2, 9, False), (-0.5, 9, True), (0.2, 200, True)]
)
def test_few_survivors_whose_ranks_agree_little_do_not_blame_pruning(
    correlation: float, trials: int, is_weak: bool
) -> None:
    """Of 9, a correlation of 0.2 may as well be one of 0.7."""
    assert RungCheck(1, 27, trials, correlation, 1, 3 * trials).is_weak is is_weak


def test_the_gain_is_what_the_second_half_brought_in_any_order(tmp_path: Path) -> None:
    params = [{"lr": 0.01 * (n + 1)} for n in range(8)]
    sweep = by_hand(tmp_path, [0.8, 0.1, 0.5, 0.3, 0.2, 0.7, 0.4, 0.6], {"lr": LR}, params)
    found = gain(ranked(sweep.record))
    assert found is not None
    # The mean best of 4 of 1..8 is 4 * 9 / 5.
    assert found.score == pytest.approx(0.8 - 0.72)
    assert (found.epoch, found.trials) == (1, 8)
