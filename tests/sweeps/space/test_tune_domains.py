"""Every kind of `ray.tune` domain: what it holds, what Optuna calls it, what is drawn from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from ray import tune

from sweeps.space import tune_domains

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
QUANTIZED = [kind for kind, domain in EVERY.items() if tune_domains.step_of(domain) is not None]


@pytest.mark.parametrize("kind", EVERY)
def test_a_domain_has_one_form(kind: str) -> None:
    assert tune_domains.form(EVERY[kind]) == FORMS[kind]


@pytest.mark.parametrize("kind", FINITE)
def test_a_finite_domain_lists_its_values_in_order_without_rounding_dust(kind: str) -> None:
    domain, values = FINITE[kind]
    assert tune_domains.values_of(domain) == values
    assert [type(value) for value in tune_domains.values_of(domain) or []] == [
        type(value) for value in values
    ]


@pytest.mark.parametrize("kind", ENDLESS)
def test_an_endless_domain_lists_no_values(kind: str) -> None:
    assert tune_domains.values_of(ENDLESS[kind]) is None


@pytest.mark.parametrize("kind", [kind for kind in FINITE if kind != "grid_search"])
def test_the_values_listed_are_those_that_ray_draws(kind: str) -> None:
    domain, values = FINITE[kind]
    generator = np.random.default_rng(0)
    drawn = {
        tune_domains.clean(domain.sample(random_state=generator), tune_domains.step_of(domain))
        for _ in range(400)
    }
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
    assert tune_domains.bounds(domain) == pytest.approx(bounds)


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
    assert tune_domains.distribution(EVERY[kind]) == expected


@pytest.mark.parametrize("kind", [kind for kind in QUANTIZED if FORMS[kind] == "finite"])
def test_on_grid_gives_the_nearest_value_and_stays_inside(kind: str) -> None:
    domain, values = FINITE[kind]
    step = tune_domains.step_of(domain)
    assert step is not None
    assert [tune_domains.on_grid(domain, value + 0.3 * step) for value in values] == values
    assert tune_domains.on_grid(domain, values[0] - 10 * step) == values[0]
    assert tune_domains.on_grid(domain, values[-1] + 10 * step) == values[-1]


@pytest.mark.parametrize(("kind", "value"), [("choice", "b"), ("uniform", 0.123), ("loguniform", 0.0123)])
def test_on_grid_leaves_alone_what_has_no_grid(kind: str, value: Any) -> None:
    assert tune_domains.on_grid(EVERY[kind], value) == value


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("choice", "one of a, b"),
        ("grid_search", "grid of 4, 8"),
        ("uniform", "0 to 1"),
        ("loguniform", "0.001 to 1, log scale"),
        ("quniform", "0 to 0.5 in steps of 0.1"),
        ("randint", "2 to 4"),
        ("qlograndint", "8 to 32 in steps of 8, log scale"),
        ("randn", "normal"),
        ("sample_from", "sample_from"),
    ],
)
def test_the_plan_has_words_for_a_domain(kind: str, words: str) -> None:
    assert tune_domains.describe(EVERY[kind]) == words


@pytest.mark.parametrize("step", [0.1, 0.05, 0.25, 0.2])
def test_every_value_of_a_quantized_range_is_one_that_optuna_can_be_told(step: float) -> None:
    """Uncleaned, 3 * 0.1 is 0.30000000000000004: above the first value, and the last one is lost."""
    for first in range(1, 51):
        domain = tune.quniform(first * step, (first + 6) * step, step)
        values = tune_domains.values_of(domain)
        word = tune_domains.distribution(domain)
        assert values is not None
        assert word is not None
        assert len(values) == 7
        for value in values:
            assert word._contains(value), (first, value)
            assert tune_domains.on_grid(domain, value) == value
