"""Trials that went wrong, by cause."""

from __future__ import annotations

from sweeps.analysis.failure_causes import causes_of
from sweeps.analysis.sweep import Sweep
from sweeps.record.trials import TrialRow


def test_trials_that_went_wrong_are_grouped_by_cause(sweeps: dict[str, Sweep]) -> None:
    found = causes_of(sweeps["troubled"].record.trials)
    assert [(cause.status, cause.reason, len(cause.trials)) for cause in found] == [
        ("diverged", "acc was nan in epoch N", 10),
        ("failed", "OSError: <no space>", 1),
    ]


def test_an_error_is_one_cause_in_whatever_worker_it_shows_first() -> None:
    reasons = ("OSError: no file", "OSError: no file (in another worker, on pc2)")
    trials = tuple(TrialRow(n, {}, 0, 0.0, status="failed", reason=each) for n, each in enumerate(reasons))
    (cause,) = causes_of(trials)
    assert (cause.reason, cause.trials) == ("OSError: no file", trials)
