"""Every kind of `ray.tune` domain: what it holds, what Optuna calls it, what is drawn from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from ray import tune

from sweeps.space.domain import Domain, converted, of_range
from sweeps.space.numeric_range import clean

FINITE: dict[str, tuple[Any, list[Any]]] = {
    "choice": (tune.choice(["a", "b"]), ["a", "b"]),
    "grid_search": (tune.grid_search([4, 8]), [4, 8]),
    "quniform": (tune.quniform(0.0, 0.5, 0.1), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]),
    "quniform below zero": (tune.quniform(-0.5, 0.5, 0.25), [-0.5, -0.25, 0.0, 0.25, 0.5]),
    "qloguniform": (tune.qloguniform(0.5, 2.0, 0.5), [0.5, 1.0, 1.5, 2.0]),
    "randint": (tune.randint(2, 5), [2, 3, 4]),
    "qrandint": (tune.qrandint(8, 32, 8), [8, 16, 24, 32]),
    "qrandint between the steps": (tune.qrandint(10, 50, 20), [20, 40]),
    # Ray includes the upper bound of a quantized range, but not where the step is 1.
    "qrandint by one": (tune.qrandint(1, 4), [1, 2, 3]),
    "qlograndint by one": (tune.qlograndint(1, 4, 1), [1, 2, 3]),
    "lograndint": (tune.lograndint(1, 5), [1, 2, 3, 4]),
    "qlograndint": (tune.qlograndint(8, 32, 8), [8, 16, 24, 32]),
}
ENDLESS: dict[str, Any] = {
    "uniform": tune.uniform(0.0, 1.0),
    "loguniform": tune.loguniform(1e-3, 1.0),
    "randn": tune.randn(0.0, 1.0),
    "qrandn": tune.qrandn(0.0, 1.0, 0.5),
    "sample_from": tune.sample_from(lambda config: 1),
}
FORMS = {
    **dict.fromkeys(FINITE, "finite"),
    "grid_search": "grid_search",
    "uniform": "continuous",
    "loguniform": "continuous",
    "randn": "normal",
    "qrandn": "normal",
    "sample_from": "sample_from",
}
EVERY = {**{kind: domain for kind, (domain, _) in FINITE.items()}, **ENDLESS}
DOMAINS: dict[str, Domain] = {kind: converted(domain) for kind, domain in EVERY.items()}


def distribution_of(domain: Domain) -> BaseDistribution:
    """That Optuna has after it was asked."""
    trial = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0)).ask()
    domain.suggest(trial, "x")
    return trial.distributions["x"]


QUANTIZED = [kind for kind in FINITE if DOMAINS[kind].step is not None]


@pytest.mark.parametrize("kind", EVERY)
def test_a_domain_has_one_form(kind: str) -> None:
    assert DOMAINS[kind].form == FORMS[kind]


@pytest.mark.parametrize("kind", FINITE)
def test_a_finite_domain_lists_its_values_in_order_without_rounding_dust(kind: str) -> None:
    values, listed = FINITE[kind][1], DOMAINS[kind].values() or []
    assert listed == values
    assert [type(value) for value in listed] == [type(value) for value in values]
    assert DOMAINS[kind].size() == len(values)


@pytest.mark.parametrize("kind", ENDLESS)
def test_an_endless_domain_lists_no_values(kind: str) -> None:
    assert DOMAINS[kind].values() is None
    assert DOMAINS[kind].size() == float("inf")


@pytest.mark.parametrize("kind", [kind for kind in FINITE if kind != "grid_search"])
def test_the_values_listed_are_those_that_ray_draws(kind: str) -> None:
    domain, values = FINITE[kind]
    generator = np.random.default_rng(0)
    drawn = {clean(domain.sample(random_state=generator), DOMAINS[kind].step) for _ in range(400)}
    assert drawn == set(values)


@pytest.mark.parametrize(
    ("domain", "bounds"),
    [
        (tune.uniform(0.0, 1.0), (0.0, 1.0)),
        (tune.loguniform(1e-3, 1.0), (1e-3, 1.0)),
        (tune.quniform(0.2, 0.8, 0.2), (0.2, 0.8)),
        (tune.randint(2, 5), (2, 4)),
        (tune.lograndint(2, 5), (2, 4)),
        (tune.qrandint(10, 50, 20), (20, 40)),
        (tune.qlograndint(8, 32, 8), (8, 32)),
    ],
)
def test_bounds_are_the_first_and_the_last_value(domain: Any, bounds: tuple[float, float]) -> None:
    found = converted(domain).range
    assert found is not None
    assert (found.low, found.high) == pytest.approx(bounds)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("choice", CategoricalDistribution(["a", "b"])),
        ("grid_search", CategoricalDistribution([4, 8])),
        ("uniform", FloatDistribution(0.0, 1.0)),
        ("loguniform", FloatDistribution(1e-3, 1.0, log=True)),
        ("quniform", FloatDistribution(0.0, 0.5, step=0.1)),
        ("qloguniform", FloatDistribution(0.5, 2.0, log=True)),
        ("randint", IntDistribution(2, 4)),
        ("qrandint", IntDistribution(8, 32, step=8)),
        ("lograndint", IntDistribution(1, 4, log=True)),
        ("qlograndint", IntDistribution(8, 32, log=True)),
        ("randn", None),
        ("qrandn", None),
        ("sample_from", None),
    ],
)
def test_optuna_has_the_same_word_or_none(kind: str, expected: Any) -> None:
    domain = DOMAINS[kind]
    assert domain.is_of_optuna == (expected is not None)
    assert expected is None or distribution_of(domain) == expected


@pytest.mark.parametrize("kind", QUANTIZED)
def test_the_nearest_value_lies_on_a_step_and_inside(kind: str) -> None:
    values, found = FINITE[kind][1], DOMAINS[kind].range
    assert found is not None
    assert found.step is not None
    assert [found.nearest(value + 0.3 * found.step) for value in values] == values
    assert found.nearest(values[0] - 10 * found.step) == values[0]
    assert found.nearest(values[-1] + 10 * found.step) == values[-1]


@pytest.mark.parametrize(("kind", "value"), [("uniform", 0.123), ("loguniform", 0.0123)])
def test_a_value_of_a_continuous_range_is_its_own_nearest(kind: str, value: float) -> None:
    found = DOMAINS[kind].range
    assert found is not None
    assert found.nearest(value) == value


@pytest.mark.parametrize("kind", [kind for kind in EVERY if DOMAINS[kind].is_of_optuna])
def test_a_suggested_value_is_one_of_the_domain(kind: str) -> None:
    domain, study = DOMAINS[kind], optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(20):
        value = domain.suggest(study.ask(), "x")
        assert distribution_of(domain)._contains(distribution_of(domain).to_internal_repr(value))
        assert domain.values() is None or value in (domain.values() or [])


@pytest.mark.parametrize("kind", [kind for kind in FINITE if DOMAINS[kind].range] + ["uniform", "loguniform"])
def test_a_range_made_of_a_domain_becomes_the_same_domain_again(kind: str) -> None:
    found = DOMAINS[kind].range
    assert found is not None
    assert of_range(found).range == found
    assert str(of_range(found)) == str(DOMAINS[kind])


@pytest.mark.parametrize("value", [0.1, None, "lr", {"grid_search": 3}, {"choice": [1]}])
def test_what_is_no_domain_of_ray_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=r"is not a ray\.tune domain"):
        converted(value)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("choice", "one of a, b"),
        ("grid_search", "grid of 4, 8"),
        ("uniform", "0 to 1"),
        ("loguniform", "0.001 to 1, log scale"),
        ("quniform", "0 to 0.5 in steps of 0.1"),
        ("randint", "2 to 4, whole numbers"),
        ("qlograndint", "8 to 32 in steps of 8, log scale"),
        ("randn", "normal"),
        ("sample_from", "sample_from"),
    ],
)
def test_the_plan_has_words_for_a_domain(kind: str, words: str) -> None:
    assert str(DOMAINS[kind]) == words


@pytest.mark.parametrize("step", [0.1, 0.05, 0.25, 0.2, 0.015625, 0.3333333333])
def test_every_value_of_a_quantized_range_is_one_that_optuna_can_be_told(step: float) -> None:
    """Uncleaned, 3 * 0.1 is 0.30000000000000004: above the first value, and the last one is lost."""
    for first in range(1, 51):
        domain = converted(tune.quniform(first * step, (first + 6) * step, step))
        values, found = domain.values(), domain.range
        assert found is not None
        assert values is not None
        assert len(values) == 7
        for value in values:
            assert distribution_of(domain)._contains(value), (first, value)
            assert found.nearest(value) == value


@pytest.mark.parametrize("steps", [3, 55_713_807, 99_999_999])
def test_a_value_of_many_steps_is_one_that_optuna_can_be_told(steps: int) -> None:
    distribution = distribution_of(converted(tune.quniform(0.0, 1.0, 1e-8)))
    assert distribution._contains(clean(steps * 1e-8, 1e-8))
