"""The order in which trials are handed out: those that go on, then new ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ray import tune

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.record.reruns import seeds
from sweeps.record.sweep_info import Steered
from sweeps.record.trials import Earlier, Ending, TrialRow
from sweeps.search.search_method import MOST_REFUSED, RecordSearcher, RerunSearcher
from sweeps.space.domain import converted
from sweeps.space.flat import FlatSpace
from sweeps.space.point import Point
from tests.conftest import propose
from tests.support.confirmed import ASKED, rerun, searched


@dataclass(frozen=True, kw_only=True)
class Params:
    lr: float = 0.1


def test_reruns_come_seed_by_seed_and_those_that_are_there_are_not_begun_again(tmp_path: Path) -> None:
    record = searched(tmp_path, 0.1, 0.9, 0.8)
    assert not record.is_to_be_confirmed
    record.note("confirm", ASKED)
    first, second = seeds(0, 2)
    assert record.reruns_to_come() == [(1, first), (2, first), (1, second), (2, second)]
    rerun(record, 2, first, 0.5)
    rerun(record, 1, first, 0.5, "unfinished")
    assert record.reruns_to_come() == [(1, second), (2, second)]
    nothing: Any = None  # the space: reruns are of points that there are
    handing = RerunSearcher(SweepConfig(), nothing, record)
    handing.slots = 2
    goes_on, new = handing.suggest("a"), handing.suggest("b")
    assert (goes_on["number"], new["seed"], new["params"]) == (4, second, {"slope": 0.11})
    assert handing.suggest("c") is None


def test_it_knows_that_a_space_without_new_points_has_no_work(tmp_path: Path) -> None:
    """Tune would fail: it takes no searcher that has nothing to propose."""
    record, config = (
        Record.create(tmp_path, "s", "max", {"metric": "m"}),
        SweepConfig.from_settings(num_trials=2),
    )
    nothing: Any = None
    record.note("planned", [2])
    searcher = RecordSearcher(record, nothing, lambda nth: iter(()), config)
    assert not searcher.has_work()
    assert record.planned_trials == [0]
    unfinished = propose(record, {"lr": 0.1}).number
    searcher = RecordSearcher(record, nothing, lambda nth: iter(()), config)
    assert searcher.has_work()
    assert searcher.suggest("a")["number"] == unfinished


def test_the_first_new_trial_is_begun_once(tmp_path: Path) -> None:
    record, config = (
        Record.create(tmp_path, "s", "max", {"metric": "m"}),
        SweepConfig.from_settings(num_trials=3),
    )
    space = FlatSpace({"lr": converted(tune.uniform(0.1, 0.3))}, {}, Params, "net")
    points = iter([Point("net", {"lr": lr}, {}) for lr in (0.1, 0.2, 0.3)])
    searcher = RecordSearcher(record, space, lambda nth: points, config)
    searcher.slots = 3
    assert searcher.has_work()
    assert [searcher.suggest(str(number))["number"] for number in range(3)] == [0, 1, 2]


def test_a_rerun_of_a_trial_that_ran_out_of_memory_begins_with_its_micro_batch(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {"metric": "m", "confirm": {"top": 2, "seeds": 1}})
    for number, score in enumerate((0.1, 0.9)):
        propose(record, {"lr": score})
        if number == 1:
            record.note_trial(number, micro_batches=[16, 8])
        record.report(number, 1, score, {}, 1.0)
        record.end(number, "finished")
    nothing: Any = None
    handing = RerunSearcher(SweepConfig(), nothing, record)
    handing.slots = 2
    assert [handing.suggest(name)["micro_batch"] for name in "ab"] == [8, None]
    assert record.trials[-2].micro_batches == [16, 8]


def test_user_points_come_first_and_displace_no_anchor(tmp_path: Path) -> None:
    space = FlatSpace({"lr": converted(tune.uniform(0.1, 0.9))}, {}, Params, "net")
    anchors = [TrialRow(-1, {"lr": lr}, 0, 0.0, trainable="net", origin="trial 3 of s") for lr in (0.7, 0.8)]
    record = Record.create(tmp_path, "s", "max", {"metric": "m"}, Earlier(anchors=anchors))
    record.plan_trials(4)
    for lr in (0.5, 0.7):
        point = {"trainable": "net", "params": {"lr": lr}, "fixed": {}}
        record.note_steered(Steered(["try", f"lr={lr}"], point=point))
    points = iter([Point("net", {"lr": 0.2}, {})])
    searcher = RecordSearcher(record, space, lambda nth: points, SweepConfig.from_settings(num_trials=4))
    searcher.slots = 4
    proposed = [searcher.suggest(str(number))["params"]["lr"] for number in range(4)]
    assert proposed == [0.5, 0.7, 0.8, 0.2]
    assert [trial.origin for trial in record.trials] == [
        *("chosen by the user", "chosen by the user", "trial 3 of s", "")
    ]


@pytest.mark.parametrize(("default", "as_optuna"), [(0.3, {"lr": 0.3}), (2.0, {})])
def test_the_defaults_come_first_also_from_outside_the_space_and_once(
    default: float, as_optuna: dict[str, float], tmp_path: Path
) -> None:
    space = FlatSpace({"lr": converted(tune.uniform(0.1, 0.9))}, {}, Params, "net")
    points = [{"trainable": "net", "params": {"lr": lr}, "fixed": {}} for lr in (default, 0.5)]
    record = Record.create(tmp_path, "s", "max", {"metric": "m", "baselines": points[:1]})
    record.plan_trials(3)
    record.note_steered(Steered(["try", "lr=0.5"], point=points[1]))
    config = SweepConfig.from_settings(num_trials=3)
    for read in (record, Record.read(tmp_path)):
        searcher = RecordSearcher(read, space, lambda nth: iter([Point("net", {"lr": 0.2}, {})]), config)
        searcher.slots = 3
        proposed = [searcher.suggest(str(number))["params"]["lr"] for number in range(3)]
        assert proposed == [default, 0.5, 0.2]
    first = record.trials[0]
    assert (first.origin, first.optuna.params, first.is_outside) == (
        "your defaults",
        as_optuna,
        not as_optuna,
    )


def test_one_that_the_user_stops_waits_for_no_other(tmp_path: Path) -> None:
    record, nothing = Record.create(tmp_path, "s", "max", {"metric": "m"}), None
    space: Any = nothing
    number = propose(record, {"lr": 0.1}).number
    searcher = RecordSearcher(record, space, lambda nth: iter(()), SweepConfig.from_settings(num_trials=1))
    searcher.waits = lambda trial: True
    assert searcher.suggest("a") is None
    record.note_steered(Steered(["stop", str(number)]))
    assert searcher.suggest("a")["number"] == number


def test_one_that_is_withdrawn_is_not_handed_out(tmp_path: Path) -> None:
    record, nothing = Record.create(tmp_path, "s", "max", {"metric": "m"}), None
    space: Any = nothing
    numbers = [propose(record, {"lr": lr}).number for lr in (0.1, 0.2)]
    searcher = RecordSearcher(record, space, lambda nth: iter(()), SweepConfig.from_settings(num_trials=2))
    assert searcher.withdraw(numbers[0])
    assert not searcher.withdraw(numbers[0])
    record.end(numbers[0], "stopped")
    assert searcher.suggest("a")["number"] == numbers[1]
    assert not searcher.withdraw(numbers[1])


def test_a_point_that_is_never_trained_is_a_trial_that_has_ended_and_the_next_one_begins(
    tmp_path: Path,
) -> None:
    record = Record.create(tmp_path, "s", "max", {"metric": "m"})
    record.plan_trials(5)
    space = FlatSpace({"lr": converted(tune.uniform(0.0, 1.0))}, {}, Params, "net")
    points = [Point("net", {"lr": number / 10}) for number in range(5)]
    searcher = RecordSearcher(
        record, space, lambda nth: iter(points[nth:]), SweepConfig.from_settings(num_trials=5)
    )
    large = Ending("infeasible", "too large", {"size": 9.0})
    searcher.refusal = lambda point: large if float(point.params["lr"]) > 0.15 else None
    searcher.slots = 9
    assert [searcher.suggest(str(n))["number"] for n in range(2)] == [0, 1]
    assert searcher.suggest("2") is None, "the others were refused; those that train may still need a process"
    assert [(t.status, t.reason, t.static_metrics) for t in record.trials[2:]] == [large] * 3
    record.end(0, "finished")
    record.end(1, "finished")
    assert searcher.suggest("3") == "FINISHED"


def refusing(folder: Path, most: int, is_refused: Callable[[int], bool]) -> tuple[Record, RecordSearcher]:
    """A search whose nth point is refused, or is not."""
    record = Record.create(folder, "s", "max", {"metric": "m"})
    record.plan_trials(most)
    space = FlatSpace({"lr": converted(tune.uniform(0.0, 1.0))}, {}, Params, "net")
    points = [Point("net", {"lr": number / most}) for number in range(most)]
    searcher = RecordSearcher(
        record, space, lambda nth: iter(points[nth:]), SweepConfig.from_settings(num_trials=most)
    )
    searcher.refusal = lambda p: (
        Ending("infeasible") if is_refused(round(float(p.params["lr"]) * most)) else None
    )
    searcher.slots = 2
    return record, searcher


def test_while_trials_train_some_points_at_a_time_are_refused(tmp_path: Path) -> None:
    """In between Tune has the results, and takes up commands."""
    record, searcher = refusing(tmp_path, 30, lambda nth: 0 < nth < 25)
    assert searcher.suggest("a")["number"] == 0
    for turn in (1, 2):
        assert searcher.suggest("b") is None
        assert len(record.trials) == 1 + turn * MOST_REFUSED
    assert searcher.suggest("b")["number"] == 25


def test_where_nothing_trains_the_next_that_trains_is_looked_for_up_to_the_end(tmp_path: Path) -> None:
    """Tune would wait for it, and do nothing else; so what there is to do is done in between."""
    record, searcher = refusing(tmp_path, 60, lambda nth: nth not in (25, 55))
    looks: list[int] = []
    searcher.is_to_end = lambda: bool(looks.append(len(record.trials)))
    assert searcher.has_work()
    assert looks == [10, 20]
    assert searcher.suggest("a")["number"] == 25
    record.end(25, "finished")
    looks.clear()
    assert searcher.suggest("b")["number"] == 55
    assert looks == [36, 46]


def test_the_search_ends_among_points_that_are_refused_where_it_must(tmp_path: Path) -> None:
    record, searcher = refusing(tmp_path, 60, lambda nth: nth != 25)
    searcher.is_to_end = lambda: len(record.trials) >= 20
    assert not searcher.has_work()
    assert len(record.trials) == 20
    assert searcher.suggest("a")["number"] == 25, "a resume goes on"
    assert searcher.suggest("b") is None, "one trains: Tune ends it first"
    record.end(25, "finished")
    assert searcher.suggest("c") == "FINISHED"
    assert len(record.trials) < 60


def test_a_trial_that_is_retried_while_the_last_points_are_refused_trains(tmp_path: Path) -> None:
    record, searcher = refusing(tmp_path, 1 + MOST_REFUSED, lambda nth: nth > 0)
    assert searcher.suggest("a")["number"] == 0
    record.end(0, "failed")

    def take_up_a_retry() -> bool:
        if not record.trials[0].attempt:
            record.open_again(0, 0, "retried")
        return False

    searcher.is_to_end = take_up_a_retry
    assert searcher.has_work()
    assert searcher.suggest("b")["number"] == 0
    assert searcher.suggest("c") is None, "it trains"
    record.end(0, "finished")
    assert searcher.suggest("d") == "FINISHED"


def test_a_retry_that_is_taken_up_is_not_lost_where_the_next_point_begins_anew(tmp_path: Path) -> None:
    record, searcher = refusing(tmp_path, 30, lambda nth: 0 < nth <= MOST_REFUSED)
    assert searcher.suggest("a")["number"] == 0
    record.end(0, "failed")
    searcher.is_to_end = lambda: record.open_again(0, 0, "retried").attempt == 0

    def begin_anew(trial: TrialRow) -> TrialRow:
        record.end(trial.number, "failed")
        return record.open_again(trial.number, 0, "anew")

    searcher.prepared = begin_anew
    assert [searcher.suggest(name)["number"] for name in "bc"] == [11, 0]
    assert searcher.suggest("d") is None, "both train"


def test_one_that_waits_for_others_does_not_keep_tune_from_the_end(tmp_path: Path) -> None:
    record, searcher = refusing(tmp_path, 60, lambda nth: nth > 0)
    searcher.waits = lambda trial: True
    searcher.is_to_end = lambda: True
    assert searcher.suggest("a")["number"] == 0
    assert searcher.suggest("b") == "FINISHED"
    assert len(record.trials) == 1 + MOST_REFUSED


def test_what_is_refused_at_once_is_synced_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, searcher = refusing(tmp_path, 30, lambda nth: True)
    synced: list[int] = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(file), sync(file)))  # it syncs all the same
    assert not searcher.has_work()
    assert len(record.trials) == 30
    assert len(synced) <= 4, "three times ten, and how many there are"


def test_without_a_slot_nothing_begins_and_the_search_may_end(tmp_path: Path) -> None:
    record, searcher = refusing(tmp_path, 9, lambda number: False)
    searcher.slots, asked = 0, list[str]()
    searcher.is_to_end = lambda: bool(asked.append("turn")) or len(asked) == 2
    assert (searcher.wanted, searcher.suggest("a")) == (9, None)
    assert searcher.suggest("a") == "FINISHED", "Tune waits here alone, and does nothing else"
    assert len(record.trials) == 0


def test_what_is_wanted_counts_trials_that_train_that_are_requeued_and_that_are_to_come(
    tmp_path: Path,
) -> None:
    _, searcher = refusing(tmp_path, 9, lambda number: False)
    trains, left = searcher.suggest("a"), searcher.suggest("b")
    assert searcher.wanted == 9
    searcher.requeue(left["number"])
    assert searcher.wanted == 9
    searcher.waits = lambda trial: trial.number == trains["number"]
    assert searcher.wanted == 8, "one that waits for others can't train"
