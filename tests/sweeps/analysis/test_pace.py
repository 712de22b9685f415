"""How long epochs take, by a record whose clock is set."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sweeps.analysis.pace import Pace, ranks
from sweeps.record import sweep_info
from sweeps.record.ranking import RankedTrials
from sweeps.record.trials import EpochRow, TrialRow


class Written(RankedTrials):
    """Trials by hand: start, and of each epoch its report, its seconds and its score."""

    def __init__(
        self, *trials: tuple[float, Sequence[tuple[float, float, float]]], runs: Sequence[float]
    ) -> None:
        runs_of = [{"started": began} for began in runs]
        super().__init__(sweep_info.parse({"metric": "acc", "mode": "max", "runs": runs_of}))
        for number, (start, epochs) in enumerate(trials):
            rows = {n: EpochRow(score, {}, s, at) for n, (at, s, score) in enumerate(epochs, start=1)}
            trial = TrialRow(number, {}, 0, start, epochs=rows)
            self._list(trial)
            for epoch in rows:
                self._rank_epoch(trial, epoch)


def pace_of(record: RankedTrials, pauses: Sequence[int] = ()) -> Pace:
    found = Pace.of(record, {}, pauses)
    assert found is not None
    return found


def test_a_new_process_is_told_from_a_warm_one() -> None:
    first = (100.0, [(130.0, 10.0, 0.1), (140.0, 10.0, 0.2)])
    second = (141.0, [(152.0, 10.0, 0.1)])
    pace = pace_of(Written(first, second, runs=[100.0]))
    assert (pace.launch_s, pace.begin_s, pace.is_launched) == (20.0, 1.0, True)


def test_the_first_epoch_is_no_measure_of_the_others() -> None:
    slow_first = (0.0, [(30.0, 30.0, 0.1), (40.0, 10.0, 0.2), (50.0, 10.0, 0.2)])
    only_one = (0.0, [(30.0, 30.0, 0.1)])
    pace = pace_of(Written(slow_first, only_one, runs=[0.0]))
    assert pace.first_epoch_s == 20.0
    assert pace.of_trial == {0: 10.0, 1: 10.0}


@pytest.mark.parametrize(("pauses", "seconds"), [((), 11.0), ((1,), 10.0)])
def test_between_two_epochs_the_clock_counts_unless_the_trial_was_paused(
    pauses: Sequence[int], seconds: float
) -> None:
    record = Written((0.0, [(10.0, 10.0, 0.1), (21.0, 10.0, 0.2)]), runs=[0.0])
    assert pace_of(record, pauses).of_trial == {0: seconds}


def test_a_long_gap_is_no_training() -> None:
    record = Written((0.0, [(10.0, 10.0, 0.1), (500.0, 10.0, 0.2)]), runs=[0.0])
    assert pace_of(record).of_trial == {0: 10.0}


def test_a_run_that_has_reported_nothing_must_still_start_its_processes() -> None:
    trial = (100.0, [(130.0, 10.0, 0.1)])
    assert pace_of(Written(trial, runs=[100.0])).is_launched
    assert not pace_of(Written(trial, runs=[100.0, 200.0])).is_launched


def test_a_rank_is_that_at_the_last_rung_with_at_least_three() -> None:
    scores = ((0.1, 0.9), (0.5, 0.5), (0.9, 0.1), (0.7,))
    record = Written(
        *((0.0, [(float(n), 1.0, score) for n, score in enumerate(each, 1)]) for each in scores), runs=[0.0]
    )
    assert ranks(record, [1]) == {2: 0.125, 3: 0.375, 1: 0.625, 0: 0.875}
    assert ranks(record, [1, 2])[0] == 0.5 / 3
    assert ranks(record, [3]) == {}
