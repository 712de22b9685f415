"""BOHB's model against Ray's TuneBOHB, and what is mended on the way."""

from __future__ import annotations

import logging
import math
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray import tune
from ray.tune.search.bohb import TuneBOHB

from sweeps.common.yaml_values import ParamValue
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.search.known_trials import KnownTrials
from sweeps.searchers import bohb
from sweeps.searchers.bohb import Columns, Model, results_at
from sweeps.space.domain import converted
from sweeps.space.flat import check, seeded_globals
from sweeps.space.numeric_range import Array
from tests.conftest import propose as suggest_trial

EPOCHS = 9


@dataclass(frozen=True, kw_only=True)
class Params:
    lr: float = 0.1
    width: int = 8
    activation: str = "relu"
    bias: bool = True
    dropout: float = 0.1


SPACE = {
    "lr": tune.loguniform(1e-3, 1.0),
    "width": tune.randint(1, 9),
    "activation": tune.choice(["relu", "gelu", "tanh"]),
}
DOMAINS = {name: converted(domain) for name, domain in SPACE.items()}


def new_record(folder: Path, mode: str = "max") -> Record:
    folder.mkdir(exist_ok=True)
    return Record.create(folder, "s", mode, {"metric": "m", "fixed": {}})


def try_out(record: Record, points: list[Mapping[str, ParamValue]], score: Any) -> None:
    for params in points:
        number = suggest_trial(record, params).number
        for epoch in (1, 3, EPOCHS):
            record.report(number, epoch, score(params), {}, 1.0)
        record.end(number, "finished")


def propose(record: Record, space: Mapping[str, Any], trials: int = 1, seed: int = 0) -> list[dict[str, Any]]:
    """Params of the next trials, none of which has an effect on the next."""
    config = SweepConfig.from_settings(max_epochs=EPOCHS, grace_epochs=1, seed=seed, num_trials=10_000)
    searcher = bohb.Searcher.build(config, check(space, Params, {}, bohb.Searcher.TAKES, "bohb"), record)
    searcher.slots = 10_000
    return [searcher.suggest("")["params"] for _ in range(trials)]


def points(space: Mapping[str, Any], count: int) -> list[Mapping[str, ParamValue]]:
    checked = check(space, Params, {}, bohb.Searcher.TAKES, "bohb")
    return [checked.draw((7, number)).params for number in range(count)]


def results_of(record: Record) -> list[tuple[Array, float]]:
    space = check(SPACE, Params, {}, bohb.Searcher.TAKES, "bohb")
    known = KnownTrials(SweepConfig.from_settings(max_epochs=EPOCHS), space, record)
    return results_at(known, record, EPOCHS)


def good_when(params: Mapping[str, Any]) -> float:
    return -abs(math.log10(params["lr"]) + 1.5) - 0.3 * (params["activation"] != "gelu")


def test_the_model_is_that_of_tune_bohb(tmp_path: Path) -> None:
    """The same trials are good and bad ones, with the same bandwidths but for the least; where every
    choice was made, also the same density."""
    pytest.importorskip("hpbandster", reason="needs the package hpbandster, as `make` installs it")
    logging.getLogger("ray.tune.search.bohb").setLevel(logging.ERROR)
    tried = points(SPACE, 40)
    record = new_record(tmp_path)
    try_out(record, tried, good_when)
    with warnings.catch_warnings(), seeded_globals(0):
        warnings.simplefilter("ignore")
        rays = TuneBOHB(metric="score", mode="max", seed=0, space=TuneBOHB.convert_search_space(SPACE))
        for number, params in enumerate(tried):
            rays.trial_to_params[str(number)] = dict(params)
            rays.bohber.new_result(
                rays.to_wrapper(
                    str(number), {"score": good_when(params), "hyperband_info": {"budget": EPOCHS}}
                )
            )
    columns = Columns.from_domains(DOMAINS)
    found = Model.fit(columns, results_of(record))
    assert found is not None
    names = list(rays.bohber.configspace.keys())
    order = [list(SPACE).index(name) for name in names]
    for ours, theirs in (
        (found.good, rays.bohber.kde_models[EPOCHS]["good"]),
        (found.bad, rays.bohber.kde_models[EPOCHS]["bad"]),
    ):
        assert np.allclose(ours.rows[:, order], theirs.data)
        assert np.allclose(
            ours.bandwidths, np.maximum(theirs.bw, columns.least_bandwidths[order])[np.argsort(order)]
        )
        theirs.bw = ours.bandwidths[order]
        # Of a choice that was not made, statsmodels says nothing that can be meant.
        made = {point[names.index("activation")] for point in theirs.data}
        if len(made) == 3:
            expected = [theirs.pdf(row[order]) for row in ours.rows]
            assert np.allclose(ours.at(ours.rows), expected)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["min", "max"])
def test_it_proposes_what_was_good(mode: str, tmp_path: Path) -> None:
    record = new_record(tmp_path, mode)
    sign = 1 if mode == "max" else -1
    try_out(record, points(SPACE, 40), lambda params: sign * good_when(params))
    proposed = propose(record, SPACE, 40)
    near = [abs(math.log10(params["lr"]) + 1.5) < 0.75 for params in proposed]
    assert sum(near) > 22, "half of the range is near: random search finds 20 of 40 there"
    assert sum(params["activation"] == "gelu" for params in proposed) > 18


def test_a_hyperparameter_on_which_all_good_trials_agree_is_still_varied(tmp_path: Path) -> None:
    tried = [{**params, "width": 4} for params in points(SPACE, 40)]
    record = new_record(tmp_path)
    try_out(record, tried, good_when)
    assert len({params["width"] for params in propose(record, SPACE, 40)}) >= 3


def test_steps_types_and_single_values_are_kept(tmp_path: Path) -> None:
    space = {
        "lr": tune.qloguniform(0.01, 1.0, 0.01),
        "width": tune.qrandint(8, 64, 8),
        "activation": tune.choice(["relu"]),
        "bias": tune.choice([True, False]),
        "dropout": tune.quniform(0.0, 0.5, 0.1),
    }
    record = new_record(tmp_path)
    try_out(record, points(space, 30), lambda params: params["lr"])
    for params in propose(record, space, 30):
        assert type(params["bias"]) is bool
        assert type(params["activation"]) is str
        assert (type(params["width"]), params["width"] % 8) == (int, 0)
        assert params["lr"] == pytest.approx(round(params["lr"], 2), abs=1e-12)
        assert params["dropout"] in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


def test_each_fidelity_is_modelled_by_itself(tmp_path: Path) -> None:
    """Twenty that look good at the first rung and five that say otherwise behind it: not enough of
    these, so the first rung counts; with ten more, it does not any longer."""

    def next_trials(reaching: int, sign: int, folder: Path) -> list[dict[str, Any]]:
        record = new_record(folder)
        for number, params in enumerate(points(SPACE, 30)):
            suggest_trial(record, params)
            record.report(number, 1, good_when(params) * sign, {}, 1.0)
            if number < reaching:
                record.report(number, 3, good_when(params), {}, 1.0)
            record.end(number, "pruned")
        return propose(record, SPACE, 5)

    few = [next_trials(5, sign, tmp_path / f"few{sign}") for sign in (1, -1)]
    many = [next_trials(15, sign, tmp_path / f"many{sign}") for sign in (1, -1)]
    assert few[0] != few[1]
    assert many[0] == many[1]


def test_a_trial_that_diverged_or_does_not_fit_is_a_bad_one_and_one_that_failed_is_none(
    tmp_path: Path,
) -> None:
    record = new_record(tmp_path)
    try_out(record, points(SPACE, 3), good_when)
    for status in ("diverged", "infeasible", "failed"):
        record.end(suggest_trial(record, points(SPACE, 5)[-1]).number, status)  # type: ignore[arg-type]
    assert [loss for _, loss in results_of(record)][3:] == [math.inf, math.inf]


def test_a_proposal_follows_from_the_record_alone(tmp_path: Path) -> None:
    record = new_record(tmp_path / "s")
    try_out(record, points(SPACE, 20), good_when)

    def next_trials(seed: int) -> list[dict[str, Any]]:
        copy = tmp_path / f"copy-{len(list(tmp_path.iterdir()))}"
        shutil.copytree(tmp_path / "s", copy)
        return propose(Record.read(copy), SPACE, 3, seed)

    np.random.seed(1)
    first = next_trials(seed=0)
    np.random.seed(2)
    state = np.random.get_state()[1].copy()  # type: ignore[union-attr]
    assert next_trials(seed=0) == first
    assert (np.random.get_state()[1] == state).all(), "the user's own random numbers are left alone"
    assert next_trials(seed=1) != first
