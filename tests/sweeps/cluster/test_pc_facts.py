"""Versions that the result of a trial depends on, and the clock of another PC as far as it can be told."""

from __future__ import annotations

import platform
from importlib.metadata import version

import pytest

from sweeps.cluster.pc_facts import MAX_SKEW_S, PACKAGES, clock_fault, clock_skew_s, versions


def test_python_comes_first_and_then_each_package_with_its_own_version() -> None:
    found = versions()
    assert list(found) == ["python", *PACKAGES]
    assert (found["python"], found["ray"]) == (platform.python_version(), version("ray"))


def test_a_package_of_a_searcher_that_is_missing_is_said_to_be() -> None:
    found = versions(["no-such-package", "pytest"])
    assert (found["no-such-package"], found["pytest"]) == ("not installed", version("pytest"))


@pytest.mark.parametrize(
    ("clock", "seconds"), [(100.0, 0.0), (102.0, 0.0), (104.0, 0.0), (109.0, 5.0), (70.0, -30.0)]
)
def test_a_clock_is_off_by_what_the_time_of_the_question_does_not_explain(
    clock: float, seconds: float
) -> None:
    assert clock_skew_s(clock, (100.0, 104.0)) == seconds


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
    assert clock_fault(seconds) == words
