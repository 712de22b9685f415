"""The contract of every searcher, in a sweep played without Ray; what TPE models, and that it learns."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import pytest
from optuna.trial import TrialState
from ray import tune
from ray.tune.search import Searcher

from sweeps.common.errors import UserError
from sweeps.common.yaml_values import ParamValue
from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.plan.build import make_plan
from sweeps.record.record import Record
from sweeps.record.trials import EpochRow, Status, TrialRow
from sweeps.search import candidates
from sweeps.search.record_searcher import RecordSearcher
from sweeps.searchers import tpe
from sweeps.space.domain import converted
from sweeps.space.flat import FlatSpace, check
from sweeps.space.replay import optuna_point
from tests.conftest import propose

SEARCHERS = plugins.choices("searcher")
MODELS = ("tpe", "gp")
"""Searchers with a model, of any space; bohb: test_bohb.py."""

EPOCHS = 9
"""Epochs of a trial here; rungs at 1 and 3."""


@dataclass(frozen=True, kw_only=True)
class Params:
    lr: float = 0.1
    width: int = 8
    activation: str = "relu"


FINITE = {
    "lr": tune.quniform(0.1, 1.0, 0.1),
    "width": tune.randint(1, 21),
    "activation": tune.choice(["relu", "gelu"]),
}
SMALL = {"width": tune.choice([4, 8, 16]), "activation": tune.choice(["relu", "gelu"])}
CONTINUOUS = {"lr": tune.loguniform(1e-3, 1.0), "width": tune.qlograndint(8, 64, 8)}


def score_of(params: Mapping[str, Any]) -> float:
    return -abs(math.log10(params.get("lr", 0.1)) + 1) - abs(params.get("width", 8) - 12) / 20


class Play:
    """A sweep without Ray: trials are proposed, scored at each rung and ended, oldest first."""

    def __init__(
        self, name: str, folder: Path, space: Mapping[str, Any], *, seed: int = 0, num_trials: int = 60
    ) -> None:
        folder.mkdir(exist_ok=True)
        record = Record.create(folder, "s", "max", {"metric": "m", "fixed": {}})
        self._set(name, record, space, seed, num_trials)

    @classmethod
    def resumed(cls, name: str, folder: Path, space: Mapping[str, Any], **config: int) -> Play:
        """The same sweep in another process: all it knows is the record."""
        play = cls.__new__(cls)
        play._set(name, Record.read(folder), space, config.get("seed", 0), config.get("num_trials", 60))
        return play

    def _set(self, name: str, record: Record, space: Mapping[str, Any], seed: int, num_trials: int) -> None:
        module = plugins.find("searcher", name)
        config = SweepConfig.of(
            searcher=name, seed=seed, num_trials=num_trials, max_epochs=EPOCHS, grace_epochs=1
        )
        self.record = record
        self.searcher: RecordSearcher = module.build(
            config, check(space, Params, {}, module.TAKES, name), record
        )

    def propose(self) -> Any:
        return self.searcher.suggest(f"id-{len(self.record.trials)}")

    def end_oldest(self, score: Callable[[Mapping[str, Any]], float] = score_of) -> None:
        """The oldest live trial trains: two of three only to the first rung."""
        trial = self.record.live[0]
        pruned = trial.number % 3 > 0
        for epoch in (1,) if pruned else (1, 3, EPOCHS):
            self.record.report(trial.number, epoch, score(trial.params), {}, 1.0)
        self.record.end(trial.number, "pruned" if pruned else "finished")

    def run(self, trials: int, slots: int = 1) -> list[dict[str, ParamValue]]:
        """Params of so many more trials, `slots` of them at a time."""
        self.searcher.slots = slots
        proposed: list[dict[str, ParamValue]] = []
        while len(proposed) < trials:
            if (config := self.propose()) is None:
                self.end_oldest()
                continue
            assert config["params"] == self.record.trials[config["number"]].params
            proposed.append(config["params"])
        return proposed


def grid(space: Mapping[str, Any]) -> list[Mapping[str, ParamValue]]:
    return [point.params for point in check(space, Params, {}, frozenset({"finite"}), "grid").grid()]


def keys(points: Sequence[Mapping[str, ParamValue]]) -> set[tuple[tuple[str, ParamValue], ...]]:
    return {tuple(sorted(point.items())) for point in points}


@pytest.mark.parametrize("name", SEARCHERS)
@pytest.mark.parametrize("slots", [1, 4])
def test_the_same_seed_proposes_the_same_trials(name: str, slots: int, tmp_path: Path) -> None:
    first = Play(name, tmp_path / "a", FINITE, seed=3).run(12, slots)
    assert Play(name, tmp_path / "b", FINITE, seed=3).run(12, slots) == first


@pytest.mark.parametrize("name", SEARCHERS)
def test_another_seed_proposes_other_trials(name: str, tmp_path: Path) -> None:
    first = Play(name, tmp_path / "a", FINITE, seed=3).run(12)
    assert keys(Play(name, tmp_path / "b", FINITE, seed=4).run(12)) != keys(first)


@pytest.mark.parametrize("name", SEARCHERS)
@pytest.mark.parametrize("slots", [1, 4])
def test_no_trial_is_proposed_twice(name: str, slots: int, tmp_path: Path) -> None:
    proposed = Play(name, tmp_path, FINITE, num_trials=40).run(40, slots)
    assert len(keys(proposed)) == 40


@pytest.mark.parametrize("name", SEARCHERS)
@pytest.mark.parametrize("slots", [1, 3])
def test_a_small_space_ends_after_every_point_once(name: str, slots: int, tmp_path: Path) -> None:
    play = Play(name, tmp_path, SMALL, num_trials=100)
    proposed = play.run(6, slots)
    assert keys(proposed) == keys(grid(SMALL))
    play.end_oldest()
    assert play.propose() == Searcher.FINISHED
    assert len(play.record.trials) == 6


@pytest.mark.parametrize("name", SEARCHERS)
def test_nothing_is_proposed_while_all_slots_are_taken(name: str, tmp_path: Path) -> None:
    play = Play(name, tmp_path, FINITE)
    play.searcher.slots = 3
    assert [play.propose() is None for _ in range(5)] == [False, False, False, True, True]
    play.end_oldest()
    assert [play.propose() is None for _ in range(2)] == [False, True]
    assert [trial.number for trial in play.record.live] == [1, 2, 3]


@pytest.mark.parametrize("name", SEARCHERS)
def test_a_proposal_is_on_record_before_it_is_given_out(name: str, tmp_path: Path) -> None:
    play = Play(name, tmp_path, FINITE, seed=5)
    proposed = play.run(1)
    assert [(trial.params, trial.seed, trial.status) for trial in Record.read(tmp_path).trials] == [
        (proposed[0], 5, "unfinished")
    ]


@pytest.mark.parametrize("name", SEARCHERS)
def test_a_proposal_lies_inside_the_space_and_has_the_types_of_params(name: str, tmp_path: Path) -> None:
    for params in Play(name, tmp_path, FINITE, num_trials=40).run(40, slots=2):
        assert {key: type(value) for key, value in params.items()} == {
            "lr": float,
            "width": int,
            "activation": str,
        }
        assert all(value in (converted(FINITE[key]).values() or []) for key, value in params.items())


def taking(form: str) -> list[str]:
    return [name for name in SEARCHERS if form in plugins.find("searcher", name).TAKES]


@pytest.mark.parametrize("name", taking("continuous"))
def test_a_proposal_lies_inside_a_continuous_space_and_on_its_log_grid(name: str, tmp_path: Path) -> None:
    for params in Play(name, tmp_path, CONTINUOUS).run(40, slots=2):
        assert 1e-3 <= float(params["lr"]) <= 1.0
        assert type(params["lr"]) is float
        assert params["width"] in range(8, 65, 8)
        assert type(params["width"]) is int


@pytest.mark.parametrize("name", SEARCHERS)
@pytest.mark.parametrize("space", [FINITE, CONTINUOUS], ids=["finite", "continuous"])
def test_a_searcher_rebuilt_from_the_record_goes_on_as_one_that_was_not_interrupted(
    name: str, space: dict[str, Any], tmp_path: Path
) -> None:
    if space is CONTINUOUS and name not in taking("continuous"):
        pytest.skip(f"{name} takes no continuous hyperparameter")
    whole = Play(name, tmp_path / "whole", space, num_trials=20)
    whole.run(10, slots=3)
    shutil.copytree(tmp_path / "whole", tmp_path / "copy")
    resumed = Play.resumed(name, tmp_path / "copy", space, num_trials=20)
    assert [trial.number for trial in resumed.record.live] == [7, 8, 9]
    assert resumed.run(3, slots=3) == [trial.params for trial in whole.record.live]
    assert resumed.run(8, slots=3) == whole.run(8, slots=3)


@pytest.mark.parametrize("name", SEARCHERS)
def test_unfinished_trials_come_first_with_their_own_params_and_numbers(name: str, tmp_path: Path) -> None:
    Play(name, tmp_path, FINITE, seed=3).run(7, slots=4)
    resumed = Play.resumed(name, tmp_path, FINITE, seed=4)  # it would propose others
    resumed.record.end(4, "failed")  # how it ended came to light
    unfinished = {trial.number: trial.params for trial in Record.read(tmp_path).live}
    assert list(unfinished) == [3, 5, 6]
    resumed = Play.resumed(name, tmp_path, FINITE, seed=4)
    resumed.searcher.slots = 4
    given = [resumed.propose() for _ in range(4)]
    assert {config["number"]: config["params"] for config in given[:3]} == unfinished
    assert [config["number"] for config in given] == [3, 5, 6, 7]
    assert len(resumed.record.trials) == 8, "only the last one was new"


@pytest.mark.parametrize("name", SEARCHERS)
def test_unfinished_trials_that_wait_take_no_slots(name: str, tmp_path: Path) -> None:
    """Another run may have fewer slots than the one that was interrupted."""
    Play(name, tmp_path, FINITE).run(4, slots=4)
    resumed = Play.resumed(name, tmp_path, FINITE)
    resumed.searcher.slots = 2
    assert [resumed.propose() is None for _ in range(4)] == [False, False, True, True]
    resumed.end_oldest()
    assert resumed.propose()["number"] == 2
    assert resumed.propose() is None
    for number in (3, 4):  # the last one that waits, then a new one
        resumed.end_oldest()
        assert resumed.propose()["number"] == number


@pytest.mark.parametrize("name", SEARCHERS)
def test_no_point_of_an_unfinished_trial_is_proposed_again(name: str, tmp_path: Path) -> None:
    Play(name, tmp_path, SMALL, num_trials=6).run(3, slots=3)
    resumed = Play.resumed(name, tmp_path, SMALL, num_trials=6)
    assert len(keys(resumed.run(6, slots=6))) == 6
    assert len(resumed.record.trials) == 6


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize(("first", "then"), [(1, 6), (2, 4), (3, 5), (5, 6)])
def test_a_grid_for_more_trials_begins_with_those_it_has_and_tries_each_point_once(
    first: int, then: int, ended: bool, tmp_path: Path
) -> None:
    begun = Play("grid", tmp_path / "s", SMALL, seed=7, num_trials=first)
    before = begun.run(first, slots=first)
    assert begun.propose() is None
    while ended and begun.record.live:
        begun.end_oldest()
    resumed = Play.resumed("grid", tmp_path / "s", SMALL, seed=7, num_trials=then)
    resumed.run(then - first + (0 if ended else first), slots=6)
    params = [dict(trial.params) for trial in resumed.record.trials]
    assert params[:first] == before
    assert len(params) == len(keys(params)) == then
    at_once = Play("grid", tmp_path / "at_once", SMALL, seed=7, num_trials=then).run(then)
    assert keys(params) == keys(at_once), "as if so many had been asked for from the start"
    resumed.end_oldest()
    assert resumed.propose() == Searcher.FINISHED


def test_a_large_grid_for_many_more_trials_tries_what_it_would_have_from_the_start(tmp_path: Path) -> None:
    """400 points: Python samples few of many in another way than many of many."""
    Play("grid", tmp_path / "s", FINITE, num_trials=50).run(50, slots=50)
    resumed = Play.resumed("grid", tmp_path / "s", FINITE, num_trials=120).run(120, slots=120)
    at_once = Play("grid", tmp_path / "at_once", FINITE, num_trials=120).run(120, slots=120)
    assert keys(resumed) == keys(at_once)


@pytest.mark.parametrize("name", SEARCHERS)
def test_a_rebuilt_searcher_proposes_what_is_left_and_nothing_again(name: str, tmp_path: Path) -> None:
    before = Play(name, tmp_path, SMALL, num_trials=6).run(4, slots=2)
    resumed = Play.resumed(name, tmp_path, SMALL, num_trials=6)
    assert resumed.run(2, slots=2) == before[2:]
    assert len(keys(before + resumed.run(2, slots=2))) == 6
    resumed.end_oldest()
    assert resumed.propose() == Searcher.FINISHED


@pytest.mark.parametrize("name", SEARCHERS)
def test_a_searcher_works_with_schedulers_that_there_are(name: str) -> None:
    schedulers = plugins.find("searcher", name).SCHEDULERS
    assert schedulers
    assert set(schedulers) <= set(plugins.choices("scheduler"))


@pytest.fixture
def loner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A user's searcher that works without pruning only."""
    (tmp_path / "lone_package").mkdir()
    (tmp_path / "lone_package" / "__init__.py").touch()
    (tmp_path / "lone_package" / "loner.py").write_text(
        "from sweeps.searchers.random import TAKES, build\nSCHEDULERS = ('none',)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return "lone_package.loner"


def test_a_pair_that_does_not_work_is_refused_with_those_that_do(loner: str, tmp_path: Path) -> None:
    config = SweepConfig.of(
        trainable="digits_mlp", searcher=loner, scheduler="asha", results_dir=str(tmp_path)
    )
    with pytest.raises(UserError, match=r"lone_package\.loner does not work with --scheduler asha") as error:
        make_plan(config)
    for name in SEARCHERS:
        pairs = ", ".join(plugins.find("searcher", name).SCHEDULERS)
        assert f"{name} with {pairs}" in str(error.value)


def test_a_users_own_searcher_plans_with_the_scheduler_it_names(loner: str, tmp_path: Path) -> None:
    config = SweepConfig.of(
        trainable="digits_mlp", searcher=loner, scheduler="none", results_dir=str(tmp_path)
    )
    assert isinstance(make_plan(config).searcher, ModuleType)


def test_a_grid_too_large_to_list_is_refused() -> None:
    huge = {"width": tune.randint(0, 1000), "lr": tune.quniform(0.0, 1.0, 0.001)}
    with pytest.raises(UserError, match=r"1,001,000 points, at most 100,000; take coarser steps"):
        plugins.find("searcher", "grid").check(check(huge, Params, {}, frozenset({"finite"}), "grid"))


def test_a_grid_goes_through_the_last_hyperparameter_fastest(tmp_path: Path) -> None:
    proposed = Play("grid", tmp_path, SMALL, num_trials=6).run(6)
    assert [(point["width"], point["activation"]) for point in proposed] == [
        (width, activation) for width in (4, 8, 16) for activation in ("relu", "gelu")
    ]


def test_a_part_of_a_grid_is_tried_in_the_order_of_the_grid(tmp_path: Path) -> None:
    order = grid(FINITE)
    positions = [order.index(point) for point in Play("grid", tmp_path, FINITE, num_trials=12).run(12)]
    assert positions == sorted(positions)


def test_random_search_takes_a_sample_from_that_reads_another_hyperparameter(tmp_path: Path) -> None:
    space = {"width": tune.randint(1, 99), "lr": tune.sample_from(lambda config: config["width"] / 100)}
    for params in Play("random", tmp_path, space).run(5):
        assert params["lr"] == float(params["width"]) / 100


# What TPE models.

SPACE: FlatSpace = check({"width": tune.randint(1, 99)}, Params, {}, tpe.TAKES, "tpe")


def frozen(status: Status, scores: dict[int, float], fidelity: int) -> Any:
    trial = TrialRow(number=0, params={"width": 8}, seed=0, start=0.0, status=status)
    trial.epochs = {epoch: EpochRow(score, {}, 1.0, 0.0) for epoch, score in scores.items()}
    return tpe.frozen_trial(trial, fidelity, optuna_point(SPACE, trial.point))


@pytest.mark.parametrize("status", ["finished", "pruned", "failed", "unfinished"])
@pytest.mark.parametrize(("fidelity", "value"), [(3, 0.9), (9, 0.5)])
def test_a_trial_that_reached_the_fidelity_is_modelled_with_its_score_there_and_no_other(
    status: Status, fidelity: int, value: float
) -> None:
    trial = frozen(status, {3: 0.9, 9: 0.5, 27: 0.7}, fidelity)
    assert (trial.state, trial.value, trial.intermediate_values) == (TrialState.COMPLETE, value, {})


def test_a_pruned_trial_is_modelled_as_pruned_at_the_epoch_where_it_stopped() -> None:
    trial = frozen("pruned", {1: 0.1, 3: 0.2}, 9)
    assert (trial.state, trial.value, trial.last_step) == (TrialState.PRUNED, None, 3)
    assert trial.intermediate_values == {1: 0.1, 3: 0.2}


def test_a_failed_trial_is_modelled_as_a_failure() -> None:
    trial = frozen("failed", {1: 0.1}, 3)
    assert (trial.state, trial.value, trial.last_step) == (TrialState.FAIL, None, None)


@pytest.mark.parametrize("scores", [{}, {1: math.nan}, {1: 0.5, 3: math.nan}, {3: 0.5, 4: math.inf}])
def test_a_diverged_trial_is_the_worst_in_the_model_whatever_it_scored_before(
    scores: dict[int, float],
) -> None:
    trial = frozen("diverged", scores, 3)
    assert (trial.state, trial.value, trial.last_step) == (TrialState.PRUNED, None, None)


@pytest.mark.parametrize("scores", [{}, {1: 0.9}])
def test_a_trial_that_still_trains_is_modelled_as_running(scores: dict[int, float]) -> None:
    trial = frozen("unfinished", scores, 3)
    assert (trial.state, trial.value) == (TrialState.RUNNING, None)


def test_a_score_that_is_not_finite_is_never_modelled(tmp_path: Path) -> None:
    # The sweep was interrupted between the report and the end of a trial that diverged.
    trial = frozen("unfinished", {1: 0.5, 3: math.nan}, 3)
    assert trial.state == TrialState.RUNNING


def test_the_model_is_fitted_at_the_highest_rung_that_enough_trials_reached(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {})
    for number in range(6):
        propose(record, {})
        for epoch in (3, 9, 27)[: 3 - number // 2]:  # 6 reach epoch 3, 4 reach 9, 2 reach 27
            record.report(number, epoch, math.nan if (number, epoch) == (0, 27) else 0.5, {}, 1.0)
    fidelities = [27, 9, 3]
    found = {enough: candidates.model_fidelity(record, fidelities, enough) for enough in (1, 2, 4, 5, 6, 7)}
    assert found == {1: 27, 2: 9, 4: 9, 5: 3, 6: 3, 7: None}


@pytest.mark.parametrize(("epoch", "matters"), [(1, False), (3, True)])
def test_tpe_goes_by_the_highest_rung_that_enough_trials_reached_and_by_no_other(
    epoch: int, matters: bool, tmp_path: Path
) -> None:
    space = check(CONTINUOUS, Params, {}, tpe.TAKES, "tpe")

    def next_trial(sign: int) -> Any:
        """After eight trials that reached epoch 3, the scores of one rung with this sign."""
        play = Play("tpe", tmp_path / f"{sign}", CONTINUOUS)
        for number in range(8):
            params = space.draw((9, number)).params
            propose(play.record, params)
            for at in (1, 3):
                play.record.report(number, at, score_of(params) * (sign if at == epoch else 1), {}, 1.0)
            play.record.end(number, "pruned")
        return play.propose()["params"]

    assert (next_trial(1) != next_trial(-1)) is matters


def test_tpe_draws_at_random_until_it_has_a_model(tmp_path: Path) -> None:
    drawn = Play("random", tmp_path / "random", CONTINUOUS).run(3)
    assert Play("tpe", tmp_path / "tpe", CONTINUOUS).run(3) == drawn


CHANGED: dict[str, dict[str, Any]] = {
    "narrower": {"lr": tune.loguniform(0.1, 0.2), "width": tune.qlograndint(8, 64, 8)},
    "coarser": {"lr": tune.quniform(0.1, 1.0, 0.1), "width": tune.qrandint(16, 64, 16)},
    "a choice": {"lr": tune.choice([0.1, 0.2, 0.3]), "width": tune.choice([8, 16, 64])},
    "another hyperparameter": {**CONTINUOUS, "activation": tune.choice(["relu", "gelu"])},
    "one hyperparameter less": {"lr": tune.loguniform(1e-3, 1.0)},
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("change", CHANGED)
def test_a_model_goes_on_in_a_space_that_was_changed_without_the_trials_that_are_not_of_it(
    change: str, name: str, tmp_path: Path
) -> None:
    before = Play(name, tmp_path, CONTINUOUS).run(12)
    resumed = Play.resumed(name, tmp_path, CHANGED[change])
    assert resumed.run(1) == before[-1:]
    for params in resumed.run(6):
        assert list(params) == list(CHANGED[change])
        for hyperparameter, domain in CHANGED[change].items():
            values, value = converted(domain).values(), params[hyperparameter]
            assert value in values if values else domain.is_valid(value)


@pytest.mark.parametrize("name", MODELS)
def test_what_was_tried_outside_of_a_changed_space_teaches_a_model_nothing(name: str, tmp_path: Path) -> None:
    space = check(CONTINUOUS, Params, {}, tpe.TAKES, "tpe")

    def next_trial(width: int, sign: int) -> Any:
        """After eight trials with scores of this sign of some of them, those with this width."""
        play = Play(name, tmp_path / f"{width} {sign}", CONTINUOUS)
        for number in range(16):
            params = {**space.draw((9, number)).params, "width": width if number % 2 else 64}
            propose(play.record, params)
            score = score_of(params) * (sign if number % 2 else 1)
            play.record.report(number, 1, score, {}, 1.0)
            play.record.end(number, "pruned")
        return play.propose()["params"]

    assert next_trial(65, 1) == next_trial(65, -1)
    assert next_trial(8, 1) != next_trial(8, -1)


@pytest.mark.parametrize(
    ("name", "of"), [("tpe", median), ("gp", min)]
)  # gp looks elsewhere once it is there
@pytest.mark.parametrize("mode", ["max", "min"])
def test_a_model_comes_nearer_to_the_optimum_than_random_search(
    mode: str, name: str, of: Callable[[Iterable[float]], float], tmp_path: Path
) -> None:
    space = {"lr": tune.loguniform(1e-4, 1.0), "width": tune.randint(1, 101)}

    def distance(params: Mapping[str, Any]) -> float:
        return math.hypot((math.log10(params["lr"]) + 2) / 4, (params["width"] - 70) / 100)

    def distance_at_the_end(name: str, seed: int) -> float:
        module = plugins.find("searcher", name)
        folder = tmp_path / f"{name}{seed}"
        folder.mkdir()
        record = Record.create(folder, "s", mode, {})
        config = SweepConfig.of(searcher=name, seed=seed, max_epochs=1, grace_epochs=1)
        searcher = module.build(config, check(space, Params, {}, module.TAKES, name), record)
        for number in range(60):
            params = searcher.suggest(str(number))["params"]
            record.report(number, 1, distance(params) * (1 if mode == "min" else -1), {}, 1.0)
            record.end(number, "finished")
        return of(distance(trial.params) for trial in record.trials[-20:])

    for seed in (0, 1):
        assert distance_at_the_end(name, seed) < 0.5 * distance_at_the_end("random", seed)
