"""The rest of a search as it is played: who continues."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from sweeps.analysis.rest_of_sweep import chance_at_once, next_rank
from sweeps.common.objective import Losses
from sweeps.search.rungs import Arrivals


@pytest.mark.parametrize("before", [0, 1, 2, 5, 13])
def test_the_chance_to_continue_at_once_is_that_of_the_rule(before: int) -> None:
    source = Random(0)
    drawn: Sequence[Sequence[Losses]] = [
        [(0.0, source.random()) for _ in range(before + 1)] for _ in range(2_000)
    ]
    continued = sum(Arrivals(3, others).promotes(losses) for losses, *others in drawn)
    assert chance_at_once(before, 1 / 3) == pytest.approx(continued / len(drawn), abs=0.05)


def test_ranks_stay_spread_and_partly_the_same() -> None:
    source = Random(0)
    later = [next_rank(0.0, source) for _ in range(200)], [next_rank(1.0, source) for _ in range(200)]
    assert sum(later[0]) < sum(later[1]) / 4
    uniform = [next_rank(source.random(), source) for _ in range(2_000)]
    assert sum(rank < 0.1 for rank in uniform) / len(uniform) == pytest.approx(0.1, abs=0.03)
