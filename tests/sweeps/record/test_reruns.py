"""Reruns of the best trials, and which of these trials they show to be the best."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from sweeps.record.record import Record
from sweeps.record.reruns import seeds
from sweeps.record.trials import Status
from tests.support.confirmed import ASKED, confirmed, rerun, searched
from tests.support.weighed import FRONT, report, weighed


def test_seeds_are_new_distinct_and_more_of_them_begin_with_the_same() -> None:
    assert seeds(0, 3) == seeds(0, 5)[:3]
    assert len({0, *seeds(0, 100)}) == 101
    assert not set(seeds(0, 20)) & set(seeds(1, 20))
    assert all(0 <= seed < 2**32 for seed in seeds(7, 20))


def test_the_mean_over_new_seeds_chooses_not_the_luckiest_score(tmp_path: Path) -> None:
    record = confirmed(tmp_path)
    first, second = record.confirmed()
    assert (first.number, second.number) == (2, 1)
    assert first.mean == pytest.approx(0.7)
    assert first.std == pytest.approx(statistics.stdev((0.75, 0.65)))
    assert record.best() is record.trials[2]


def test_a_small_score_is_good_where_that_was_asked_for(tmp_path: Path) -> None:
    record = searched(tmp_path, 0.1, 0.2, mode="min")
    record.note("confirm", {"top": 2, "seeds": 1})
    rerun(record, 0, 1, 0.5)
    rerun(record, 1, 1, 0.3)
    assert [trial.number for trial in record.confirmed()] == [1, 0]


def test_until_the_last_rerun_has_ended_the_winner_is_that_of_the_search(tmp_path: Path) -> None:
    record = searched(tmp_path, 0.1, 0.9, 0.8)
    record.note("confirm", ASKED)
    for number in (1, 2):
        rerun(record, number, seeds(0, 2)[0], 1.0 - number / 10)
    rerun(record, 1, seeds(0, 2)[1], 0.2)
    last = rerun(record, 2, seeds(0, 2)[1], 0.9, "unfinished")
    assert not record.confirmed()
    assert record.best() is record.trials[1]
    record.end(last.number, "finished")
    assert record.best() is record.trials[2]


@pytest.mark.parametrize("status", ["failed", "diverged"])
def test_a_trial_that_fails_with_a_new_seed_ranks_below_those_that_do_not(
    status: Status, tmp_path: Path
) -> None:
    record = searched(tmp_path, 0.1, 0.9, 0.8)
    record.note("confirm", ASKED)
    first, second = seeds(0, 2)
    rerun(record, 1, first, 0.95)
    rerun(record, 1, second, 0.95, status)
    rerun(record, 2, first, 0.3)
    rerun(record, 2, second, 0.3)
    assert [(trial.number, trial.failures, trial.scores) for trial in record.confirmed()] == [
        (2, 0, (0.3, 0.3)),
        (1, 1, (0.95,)),
    ]


def test_where_no_rerun_ends_well_the_winner_of_the_search_stands(tmp_path: Path) -> None:
    record = searched(tmp_path, 0.9)
    record.note("confirm", {"top": 3, "seeds": 1})
    rerun(record, 0, seeds(0, 1)[0], 0.5, "failed")
    assert [trial.scores for trial in record.confirmed()] == [()]
    assert record.best() is record.trials[0]
    assert not record.is_to_be_confirmed


def test_all_of_it_reads_back(tmp_path: Path) -> None:
    record, again = confirmed(tmp_path), Record.read(tmp_path)
    assert [(t.confirms, t.seed) for t in again.trials] == [(t.confirms, t.seed) for t in record.trials]
    assert again.confirmed() == record.confirmed()


def test_reruns_of_a_front_decide_by_the_means_of_all_objectives(tmp_path: Path) -> None:
    record = weighed(tmp_path, FRONT)
    record.note("confirm", {"top": 1, "seeds": 2})
    assert sorted({number for number, _ in record.reruns_to_come()}) == [0, 1, 2], (
        "whatever --confirm-top says"
    )
    means = {0: (0.80, 5.0), 1: (0.82, 2.0), 2: (0.55, 1.0)}
    for number, seed in record.reruns_to_come():
        again = record.begin(record.trials[number].point, record.trials[number].optuna, seed, number)
        accuracy, size = means[number]
        report(record, again.number, 1, (accuracy + (0.01 if seed == seeds(0, 1)[0] else -0.01), size))
        record.end(again.number, "finished")
    for seen in (record, Record.read(tmp_path)):
        assert seen.front_values() == {n: pytest.approx(means[n]) for n in (1, 2)}
        assert seen.front()[0] == 1, "of two, that with the best first objective"
        assert [trial.number for trial in seen.confirmed()] == [1, 2, 0]


def test_a_trial_of_the_front_that_fails_with_a_new_seed_is_no_longer_on_it(tmp_path: Path) -> None:
    record = weighed(tmp_path, FRONT)
    record.note("confirm", {"top": 1, "seeds": 1})
    for number, seed in record.reruns_to_come():
        again = record.begin(record.trials[number].point, record.trials[number].optuna, seed, number)
        report(record, again.number, 1, FRONT[number])
        record.end(again.number, "failed" if number == 1 else "finished")
    assert sorted(record.front()) == [0, 2]
