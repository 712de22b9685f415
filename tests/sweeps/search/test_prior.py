"""What the user believes: proposals begin there, and the belief fades, sooner where it misleads."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray import tune

from sweeps.analysis.sweep import Sweep
from sweeps.common.errors import UserError
from sweeps.common.yaml_values import dump_yaml, load_yaml
from sweeps.config.sweep_config import SweepConfig
from sweeps.plan.build import make_plan
from sweeps.plan.describe import describe
from sweeps.plan.plan import Plan
from sweeps.search.prior import beliefs
from sweeps.space.optuna_space import Encoding
from tests.support.searched import carried_out, peak, searched
from tests.sweeps.plan.planned import config

LR = {"lr": "0.5:1.2"}


def rates(sweep: Sweep) -> list[float]:
    return [float(trial.params["lr"]) for trial in sweep.record.searched]  # type: ignore[arg-type]


def near(sweep: Sweep) -> int:
    return sum(0.3 < rate < 0.8 for rate in rates(sweep))


@pytest.mark.parametrize("searcher", ["gp", "random", "tpe", "bohb"])
def test_proposals_begin_at_the_prior_and_stay_the_same_after_a_kill(searcher: str, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"searcher": searcher, "num_trials": 12, "prior": LR}
    asked |= {"scheduler": "bohb" if searcher == "bohb" else "asha"}
    whole = searched(tmp_path, "whole", peak(0.5), **asked)
    assert rates(whole)[0] == pytest.approx(0.5)
    assert near(whole) > near(searched(tmp_path, "without", peak(0.5), **{**asked, "prior": {}}))
    plan = make_plan(config(tmp_path, name="killed", baseline=False, max_epochs=9, **asked))
    carried_out(plan, peak(0.5), trials=5)
    resumed = make_plan(plan.config.changed(resume=str(plan.folder)))
    assert rates(carried_out(resumed, peak(0.5))) == rates(whole)


def test_a_misleading_prior_is_left_sooner_than_a_good_one(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"searcher": "gp", "num_trials": 30, "prior": LR}
    good, bad = (searched(tmp_path, f"at{lr}", peak(lr), **asked) for lr in (0.5, 0.002))
    assert near(bad) < near(good)
    assert near(bad) < 8


def test_a_prior_of_some_hyperparameters_leaves_the_others_to_the_searcher(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"searcher": "random", "num_trials": 6}
    own = searched(tmp_path, "own", peak(0.5), **asked)
    believed = searched(tmp_path, "believed", peak(0.5), prior={"lr": 0.5}, **asked)
    momenta = [[trial.params["momentum"] for trial in each.record.searched] for each in (own, believed)]
    assert momenta[0] == momenta[1]
    assert rates(own) != rates(believed)


def test_a_function_of_what_a_prior_moves_gets_the_moved_value(
    module: Callable[..., str], tmp_path: Path
) -> None:
    space = (
        "from ray import tune\nSPACE = {'lr': tune.loguniform(1e-3, 1.0), "
        "'momentum': tune.sample_from(lambda config: config['lr'] / 2)}\n"
    )
    asked: dict[str, Any] = {"num_trials": 8, "prior": {"lr": 0.1}, "search_space": module(space, "halved")}
    params = [trial.params for trial in searched(tmp_path, "s", peak(0.1), **asked).record.searched]
    assert len(params) == 8
    assert all(each["momentum"] == each["lr"] / 2 for each in params)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("prior", "fault"),
    [
        ({"lr": 5}, "--prior lr=5: must be 0.001 to 1, log scale; the nearest is 1"),
        ({"lr": "0.1:0.5"}, "--prior lr=0.1:0.5: the width of a log scale is a factor above 1, such as 2"),
        ({"momentum": "0.5:0"}, "--prior momentum=0.5:0: the width is a distance above 0"),
        ({"momentum": "much"}, "--prior momentum=much: must be a number, or VALUE:WIDTH, such as 1e-3:2"),
        ({"batch_size": 33}, "--prior batch_size=33: must be one of 32, 64"),
        ({"momentum": tune.uniform(0, 1)}, "--prior momentum=<ray.tune"),
        ({"hiden": 8}, "--prior hiden=8: no hyperparameter of this search space. Did you mean 'hidden'?"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_does(
    prior: Mapping[str, Any], fault: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as raised:
        make_plan(config(tmp_path, prior=prior, ranges={"batch_size": "32,64"}))
    assert str(raised.value).startswith(fault)


def test_one_between_two_steps_is_told(tmp_path: Path) -> None:
    plan = make_plan(config(tmp_path, prior={"hidden": 32.4}, ranges={"hidden": "8..64"}))
    told = "hidden near 32.4 (between two steps; the first trial has 32), within 5.6."
    assert told in " ".join(describe(plan).split())


def test_a_grid_takes_none(tmp_path: Path) -> None:
    grid = {"searcher": "grid", "search_space": "tests.faulty.digits_grid"}
    with pytest.raises(UserError, match="--prior: searcher grid tries all points; take another"):
        make_plan(config(tmp_path, prior={"lr": 0.1}, **grid))


def test_a_space_may_have_its_prior_and_flags_change_it(module: Callable[..., str], tmp_path: Path) -> None:
    ranges = "SPACE = {'lr': tune.loguniform(1e-3, 1.0), 'hidden': tune.randint(8, 65)}\n"
    text = f"from ray import tune\n{ranges}PRIOR = {{'lr': (0.1, 2), 'hidden': 32}}\n"
    of_file = config(tmp_path, search_space=module(text, "believed"))
    plan: Plan = make_plan(of_file)
    assert plan.config.prior == {"lr": [0.1, 2], "hidden": 32}
    said = " ".join(describe(plan).split())
    assert (
        "prior lr near 0.1, within a factor of 2; hidden near 32, within 5.6. Proposals begin there" in said
    )
    assert make_plan(of_file.changed(prior={"lr": 0.5})).config.prior == {"lr": 0.5, "hidden": 32}
    assert make_plan(of_file.changed(ranges={"hidden": 8})).config.prior == {"lr": [0.1, 2]}


def test_a_prior_of_a_file_outside_the_ranges_is_left_out_and_told(
    module: Callable[..., str], tmp_path: Path
) -> None:
    """Outside its own space it is refused, by the name of its file."""
    ranges = "SPACE = {'lr': tune.loguniform(1e-3, 1.0), 'hidden': tune.randint(8, 65)}\n"
    text = f"from ray import tune\n{ranges}PRIOR = {{'lr': 0.1, 'hidden': 32}}\n"
    plan = make_plan(config(tmp_path, search_space=module(text, "inside"), ranges={"lr": "0.2..0.5"}))
    assert plan.config.prior == {"hidden": 32}
    said = " ".join(describe(plan).split())
    assert re.search("prior left out: PRIOR of .*inside: lr=0.1: must be 0.2 to 0.5, log scale", said)
    faults = {"5.0": "5.0: must be 0.001 to 1", "tune.uniform(0, 1)": ".*: must be a number"}
    for wrong, fault in faults.items():
        name = module(text.replace("0.1", wrong), f"outside{len(wrong)}")
        with pytest.raises(UserError, match=f"^PRIOR of .*outside{len(wrong)}: lr={fault}"):
            make_plan(config(tmp_path, search_space=name))


def test_a_prior_counts_without_a_space_beside_it(module: Callable[..., str], tmp_path: Path) -> None:
    code = (
        "from dataclasses import dataclass\nMETRIC, MODE, PRIOR = 'acc', 'max', {'lr': 0.1}\n"
        "@dataclass\nclass Params:\n    lr: float = 0.5\n"
        "def train(params, trial):\n    pass\n"
    )
    plan = make_plan(config(tmp_path, trainable=module(code, "without"), ranges={"lr": "1e-3..1:log"}))
    assert plan.config.prior == {"lr": 0.1}


@pytest.mark.parametrize("given", ["0.1:2", (0.1, 2), [0.1, 2], (np.float64(0.1), np.int64(2))])
def test_a_value_and_its_width_are_given_as_text_or_as_two_numbers(given: Any, tmp_path: Path) -> None:
    plan = make_plan(config(tmp_path, prior={"lr": given, "hidden": np.int64(32)}))
    assert "lr near 0.1, within a factor of 2; hidden near 32" in " ".join(describe(plan).split())
    assert load_yaml(dump_yaml(plan.config.prior)) == plan.config.prior


def test_the_first_proposal_is_the_prior_though_the_defaults_lie_near_it(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"searcher": "random", "num_trials": 3, "baseline": True}
    found = searched(tmp_path, "defaults", peak(0.5), prior={"lr": 0.055}, **asked)
    assert rates(found)[:2] == [pytest.approx(0.05), pytest.approx(0.055)]


def test_it_is_a_setting_that_results_depend_on_and_none_is_no_change(tmp_path: Path) -> None:
    from sweeps.plan.fingerprint import settings

    plan = make_plan(config(tmp_path))
    assert "prior" not in settings(plan.config)
    assert settings(plan.config.changed(prior=LR))["prior"] == LR
    assert beliefs(LR, Encoding.from_space(plan.space))[0]["lr"].center == pytest.approx(0.9, abs=0.01)
    assert SweepConfig().prior == {}
