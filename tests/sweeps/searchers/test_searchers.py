"""The contract of every searcher, in a sweep played without Ray."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from ray import cloudpickle, tune
from ray.tune.search import Searcher

from sweeps.common.errors import UserError
from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.plan.build import make_plan
from sweeps.record.record import Record
from sweeps.searchers import tpe
from sweeps.space.domain import converted
from sweeps.space.flat import check
from tests.conftest import propose
from tests.sweeps.searchers.play import CONTINUOUS, EPOCHS, FINITE, SMALL, Params, Play, grid, keys, score_of

SEARCHERS = plugins.choices("searcher")
MODELS = ("tpe", "gp", "nsga2")
"""Searchers with a model, of any space; bohb: test_bohb.py."""


@pytest.mark.parametrize("name", SEARCHERS)
@pytest.mark.parametrize("slots", [1, 4])
def test_the_same_seed_proposes_the_same_trials(name: str, slots: int, tmp_path: Path) -> None:
    first = Play(name, tmp_path / "a", FINITE, seed=3).run(12, slots)
    assert Play(name, tmp_path / "b", FINITE, seed=3).run(12, slots) == first


@pytest.mark.parametrize("name", SEARCHERS)
def test_tune_can_pickle_it_before_and_after_its_first_proposals(name: str, tmp_path: Path) -> None:
    play = Play(name, tmp_path, FINITE)
    assert cloudpickle.dumps(play.searcher)
    play.run(2)
    assert cloudpickle.dumps(play.searcher)


@pytest.mark.parametrize("name", SEARCHERS)
def test_another_seed_proposes_other_trials(name: str, tmp_path: Path) -> None:
    first = Play(name, tmp_path / "a", FINITE, seed=3).run(12)
    assert keys(Play(name, tmp_path / "b", FINITE, seed=4).run(12)) != keys(first)


@pytest.mark.parametrize("name", SEARCHERS)
@pytest.mark.parametrize("slots", [1, 4])
def test_proposals_differ_lie_inside_the_space_and_have_the_types_of_params(
    name: str, slots: int, tmp_path: Path
) -> None:
    proposed = Play(name, tmp_path, FINITE, num_trials=40).run(40, slots)
    assert len(keys(proposed)) == 40
    for params in proposed:
        assert {key: type(value) for key, value in params.items()} == {
            "lr": float,
            "width": int,
            "activation": str,
        }
        assert all(value in (converted(FINITE[key]).values() or []) for key, value in params.items())


@pytest.mark.parametrize("name", SEARCHERS)
@pytest.mark.parametrize("slots", [1, 3])
def test_a_small_space_ends_after_every_point_once(name: str, slots: int, tmp_path: Path) -> None:
    play = Play(name, tmp_path, SMALL, num_trials=100)
    proposed = play.run(6, slots)
    assert keys(proposed) == keys(grid(SMALL))
    while play.record.live:
        assert play.propose() is None, "a trial that trains may still lose its process"
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
def test_in_other_ranges_it_goes_on_as_one_that_is_rebuilt_from_the_record(name: str, tmp_path: Path) -> None:
    narrow = {**FINITE, "lr": tune.quniform(0.1, 0.3, 0.1), "activation": tune.choice(["gelu"])}
    play = Play(name, tmp_path / "a", FINITE)
    play.run(20)
    while play.record.live:
        play.end_oldest()
    again = shutil.copytree(tmp_path / "a", tmp_path / "b")
    module = plugins.find("searcher", name)
    config = SweepConfig.from_settings(num_trials=60, max_epochs=EPOCHS, grace_epochs=1)
    play.searcher.search_on(module(config, check(narrow, Params, {}, module.TAKES, name), play.record))
    proposed = play.run(6)
    assert keys(proposed) <= keys(grid(narrow))
    assert not keys(proposed) & keys([trial.params for trial in play.record.trials[:20]])
    assert Play.resumed(name, again, narrow).run(6) == proposed


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


@pytest.mark.parametrize("name", SEARCHERS)
def test_a_rebuilt_searcher_proposes_what_is_left_and_nothing_again(name: str, tmp_path: Path) -> None:
    before = Play(name, tmp_path, SMALL, num_trials=6).run(4, slots=2)
    resumed = Play.resumed(name, tmp_path, SMALL, num_trials=6)
    assert resumed.run(2, slots=2) == before[2:]
    assert len(keys(before + resumed.run(2, slots=2))) == 6
    while resumed.record.live:
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
        "from sweeps.searchers import random\n\n\n"
        "class Searcher(random.Searcher):\n    SCHEDULERS = ('none',)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return "lone_package.loner"


def test_a_pair_that_does_not_work_is_refused_with_those_that_do(loner: str, tmp_path: Path) -> None:
    config = SweepConfig.from_settings(
        trainable="digits_mlp", searcher=loner, scheduler="asha", results_dir=str(tmp_path)
    )
    with pytest.raises(UserError, match=r"lone_package\.loner does not work with --scheduler asha") as error:
        make_plan(config)
    for name in SEARCHERS:
        pairs = ", ".join(plugins.find("searcher", name).SCHEDULERS)
        assert f"{name} with {pairs}" in str(error.value)


def test_a_users_own_searcher_plans_with_the_scheduler_it_names(loner: str, tmp_path: Path) -> None:
    config = SweepConfig.from_settings(
        trainable="digits_mlp", searcher=loner, scheduler="none", results_dir=str(tmp_path)
    )
    assert make_plan(config).searcher.__module__ == loner


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
    space = check(CONTINUOUS, Params, {}, tpe.Searcher.TAKES, "tpe")

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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "of"), [("tpe", median), ("gp", min)]
)  # gp looks elsewhere once it is there
def test_a_model_comes_nearer_to_the_optimum_than_random_search(
    name: str, of: Callable[[Iterable[float]], float], tmp_path: Path
) -> None:
    """The smaller the better; other tests of both maximize."""
    space = {"lr": tune.loguniform(1e-4, 1.0), "width": tune.randint(1, 101)}

    def distance(params: Mapping[str, Any]) -> float:
        return math.hypot((math.log10(params["lr"]) + 2) / 4, (params["width"] - 70) / 100)

    def distance_at_the_end(name: str, seed: int) -> float:
        module = plugins.find("searcher", name)
        folder = tmp_path / f"{name}{seed}"
        folder.mkdir()
        record = Record.create(folder, "s", "min", {})
        config = SweepConfig.from_settings(searcher=name, seed=seed, max_epochs=1, grace_epochs=1)
        searcher = module.build(config, check(space, Params, {}, module.TAKES, name), record)
        for number in range(60):
            params = searcher.suggest(str(number))["params"]
            record.report(number, 1, distance(params), {}, 1.0)
            record.end(number, "finished")
        return of(distance(trial.params) for trial in record.trials[-20:])

    for seed in (0, 1):
        assert distance_at_the_end(name, seed) < 0.5 * distance_at_the_end("random", seed)
