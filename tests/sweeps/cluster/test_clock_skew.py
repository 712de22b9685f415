"""The clock of another PC, as far as it can be told from here."""

from __future__ import annotations

import pytest

from sweeps.cluster.clock_skew import MAX_SKEW_S, fault, skew


@pytest.mark.parametrize(
    ("clock", "seconds"), [(100.0, 0.0), (102.0, 0.0), (104.0, 0.0), (109.0, 5.0), (70.0, -30.0)]
)
def test_a_clock_is_off_by_what_the_time_of_the_question_does_not_explain(
    clock: float, seconds: float
) -> None:
    assert skew(clock, (100.0, 104.0)) == seconds


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (MAX_SKEW_S, ""),
        (-MAX_SKEW_S, ""),
        (90.0, "1 min 30 s ahead of this PC"),
        (-3.0, "3 s behind this PC"),
    ],
)
def test_one_that_is_off_too_far_is_said_in_words(seconds: float, words: str) -> None:
    assert fault(seconds) == words
