"""`--ranges`: part of a space, in the scale, steps and type of its hyperparameters."""

from __future__ import annotations

from typing import Any

import pytest
from ray import tune

from sweeps.common.errors import UserError
from sweeps.common.yaml_values import ParamValue
from sweeps.space import overrides
from sweeps.space.domain import Domain, Form, converted

ALL: frozenset[Form] = frozenset({"grid_search", "finite", "continuous"})
CONTINUOUS: frozenset[Form] = frozenset({"finite", "continuous"})


def applied(
    space: dict[str, Any], ranges: dict[str, Any], takes: frozenset[Form]
) -> tuple[dict[str, Domain], dict[str, ParamValue]]:
    """`applied`, where Params has a field of any type for each hyperparameter, and some of one type."""
    hints = {
        **dict.fromkeys(space, Any),
        "lr": float,
        "rows": int,
        "act": str,
        "bias": bool,
        "any": int | float,
    }
    domains = {name: converted(domain) for name, domain in space.items()}
    return overrides.applied(domains, ranges, takes, hints)


@pytest.mark.parametrize(
    ("domain", "given", "expected"),
    [
        (tune.uniform(0.0, 1.0), "0.2..0.5", tune.uniform(0.2, 0.5)),
        (tune.loguniform(1e-3, 1.0), "1e-4..0.1", tune.loguniform(1e-4, 0.1)),
        (tune.quniform(0.0, 0.5, 0.1), "0.1..0.3", tune.quniform(0.1, 0.3, 0.1)),
        (tune.qloguniform(0.01, 1.0, 0.01), "0.1..0.3", tune.qloguniform(0.1, 0.3, 0.01)),
        (tune.randint(1, 10), "2..5", tune.randint(2, 6)),
        (tune.lograndint(1, 100), "2..50", tune.lograndint(2, 51)),
        (tune.qrandint(8, 64, 8), "16..32", tune.qrandint(16, 32, 8)),
        (tune.choice([4, 6, 8]), "4,8", tune.choice([4, 8])),
        (tune.choice(["relu", "gelu", "tanh"]), "gelu,relu", tune.choice(["gelu", "relu"])),
        (tune.choice([True, False, "auto"]), [True, "auto"], tune.choice([True, "auto"])),
        (tune.choice(["a..b", "c", "d"]), ["a..b", "c"], tune.choice(["a..b", "c"])),
        (tune.grid_search([32, 64, 128]), "32,64", tune.choice([32, 64])),
        (tune.grid_search([0.001, 0.01, 0.1]), "0.01..1", tune.loguniform(0.01, 1)),
        (tune.grid_search([0.1, 0.2, 0.3]), "0.2..0.4", tune.uniform(0.2, 0.4)),
        (tune.choice([32, 64]), "32,128", tune.choice([32, 128])),
        (tune.choice([None, 0.1, 0.5]), "0.2..0.9", tune.uniform(0.2, 0.9)),
        (tune.choice([True]), "true,false", tune.choice([True, False])),
    ],
)
def test_a_range_keeps_scale_steps_and_type(domain: Any, given: Any, expected: Any) -> None:
    domains, fixed = applied({"x": domain}, {"x": given}, CONTINUOUS)
    assert domains["x"] == converted(expected)
    assert fixed == {}


@pytest.mark.parametrize(
    ("own", "hint", "given", "same"),
    [
        (tune.choice([(8, 8), (16,)]), tuple[int, ...], "[8, 8],[4]", tune.choice([[8, 8], [4]])),
        (tune.choice([1, 2]), float, "1,3", tune.choice([1, 3.0])),
        (tune.choice([1, 2]), float, "1,2", tune.choice([1, 2])),
        (tune.choice([1, 2, 3]), int, "1,2", tune.choice([1, 2])),
        (tune.uniform(0.0, 1.0), float, "0..1", tune.uniform(0.0, 1.0)),
        (tune.quniform(0.0, 4.0, 1.0), float, "0..2:1", tune.quniform(0, 2, 1)),
    ],
)
def test_the_same_values_are_the_same_domain_in_whatever_words(
    own: Any, hint: Any, given: str, same: Any
) -> None:
    domains, _ = overrides.applied({"x": converted(own, hint)}, {"x": given}, ALL, {"x": hint})
    assert domains["x"] == converted(same, hint)


def test_true_is_not_1_in_a_range() -> None:
    with pytest.raises(UserError, match=r"--ranges x=true,2: True: must be a whole number"):
        overrides.applied({"x": converted(tune.choice([0, 1, 2]), int)}, {"x": "true,2"}, ALL, {"x": int})


def test_a_grid_stays_one_where_it_can() -> None:
    domains, _ = applied({"x": tune.grid_search([1, 2, 3])}, {"x": [1, 2]}, ALL)
    assert domains["x"] == converted(tune.grid_search([1, 2]))


def test_whole_numbers_end_where_they_are_said_to() -> None:
    domains, _ = applied({"x": tune.randint(1, 10)}, {"x": "2..5"}, ALL)
    assert domains["x"].values() == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("domain", "given", "value"),
    [
        (tune.uniform(0.0, 1.0), 0.5, 0.5),
        (tune.uniform(0.0, 1.0), "0.5..0.5", 0.5),
        (tune.randint(1, 10), 3, 3),
        (tune.choice([4, 6]), "4", 4),
        (tune.choice(["a", "b"]), "a", "a"),
        (tune.grid_search([0.1, 0.2]), 0.1, 0.1),
    ],
)
def test_one_value_fixes_a_hyperparameter(domain: Any, given: Any, value: Any) -> None:
    domains, fixed = applied({"x": domain, "y": tune.uniform(0, 1)}, {"x": given}, CONTINUOUS)
    assert list(domains) == ["y"]
    assert repr(fixed) == repr({"x": value})


@pytest.mark.parametrize(
    ("domain", "given", "expected"),
    [
        (tune.uniform(0.0, 1.0), "0.5..0.2", "--ranges x=0.5..0.2: bounds reversed"),
        (tune.uniform(0.0, 1.0), "a..b", "must be two numbers, LOW..HIGH"),
        (tune.loguniform(0.1, 1.0), "0..1", "log scale: LOW must be above 0"),
        (tune.randint(1, 10), 3.7, "--ranges x=3.7: must be a whole number"),
        (tune.randint(1, 10), "2.5..4", "must be whole numbers; wrong: 2.5"),
        (tune.qrandint(8, 64, 8), "8..20", "must be multiples of 8, the space's step; wrong: 20"),
        (
            tune.quniform(0.0, 0.5, 0.1),
            "0.15..0.3",
            "must be multiples of 0.1, the space's step; wrong: 0.15",
        ),
        (
            tune.choice(["relu", "gelu"]),
            "relu,glu",
            "--ranges x=relu,glu: glu is not one of its choices: relu, gelu. Did you mean 'gelu'?",
        ),
        (
            tune.uniform(0.0, 1.0),
            "0..1:lgo",
            ":lgo is no scale. Did you mean 'log'? Give :log, :linear or :STEP",
        ),
        (tune.uniform(0.0, 1.0), "0..1:log", "log scale: LOW must be above 0"),
        (tune.uniform(0.0, 1.0), "0..1:0", "STEP 0: must be above 0"),
        (tune.randint(1, 10), "3..9:2.5", "must be multiples of 2.5; wrong: 3, 9; the nearest is 2.5, 10"),
        (
            tune.randint(1, 10),
            "8..1048577:8",
            "must be multiples of 8; wrong: 1048577; the nearest is 1048576",
        ),
        (tune.randint(1, 10), "2..7:2", "must be multiples of 2; wrong: 7; the nearest is 8"),
        (tune.uniform(0.0, 1.0), "1e-4..", "must be two numbers, LOW..HIGH"),
        (tune.uniform(0.0, 1.0), "high", "must be LOW..HIGH"),
        (tune.sample_from(lambda spec: 1), "0..1", "tune.sample_from has no range to replace"),
        (tune.randn(0, 1), "0..1", "tune.randn has no range"),
    ],
)
def test_a_range_that_does_not_fit_is_refused(domain: Any, given: Any, expected: str) -> None:
    with pytest.raises(UserError, match="--ranges x") as raised:
        applied({"x": domain}, {"x": given}, ALL)
    assert expected in str(raised.value)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("lr", "1e-4..1e-1:log", tune.loguniform(1e-4, 1e-1)),
        ("lr", "0..1", tune.uniform(0, 1)),
        ("lr", "0.1..0.5:0.1", tune.quniform(0.1, 0.5, 0.1)),
        ("lr", "0.1,1", tune.choice([0.1, 1.0])),
        ("rows", "8..64", tune.randint(8, 65)),
        ("rows", "8..64:8", tune.qrandint(8, 64, 8)),
        ("rows", "1..1000:log", tune.lograndint(1, 1001)),
        ("rows", "8..64:8:log", tune.qlograndint(8, 64, 8)),
        ("rows", "32,64,128", tune.choice([32, 64, 128])),
        ("act", "relu,gelu", tune.choice(["relu", "gelu"])),
        ("act", "../a,../b", tune.choice(["../a", "../b"])),
        ("bias", "true,false", tune.choice([True, False])),
        ("any", "1..4", tune.randint(1, 5)),
        ("any", "1.0..4", tune.uniform(1.0, 4)),
        ("any", "1..4:0.5", tune.quniform(1, 4, 0.5)),
    ],
)
def test_a_hyperparameter_that_the_space_lacks_is_added(name: str, given: str, expected: Any) -> None:
    domains, fixed = applied({}, {name: given}, ALL)
    assert domains == {name: converted(expected)}
    assert fixed == {}


@pytest.mark.parametrize(
    ("domain", "given", "expected"),
    [
        (tune.uniform(0.0, 1.0), "0.1..1:log", tune.loguniform(0.1, 1)),
        (tune.loguniform(0.1, 1.0), "0.0..1:linear", tune.uniform(0.0, 1)),
        (tune.quniform(0.0, 1.0, 0.5), "0.1..1:0.1", tune.quniform(0.1, 1.0, 0.1)),
        (tune.loguniform(0.1, 1.0), "0.1,0.2", tune.choice([0.1, 0.2])),
        (tune.choice([4, 6, 8]), "4..8", tune.randint(4, 9)),
    ],
)
def test_a_scale_and_steps_replace_those_of_the_space(domain: Any, given: str, expected: Any) -> None:
    domains, _ = applied({"x": domain}, {"x": given}, ALL)
    assert domains["x"] == converted(expected)


@pytest.mark.parametrize("space", [{}, {"lr": tune.uniform(0, 1)}, {"lr": tune.qloguniform(0.5, 8, 0.5)}])
@pytest.mark.parametrize("given", ["0.5..2", "0.5..2:log", "0.5..2:linear", "0.5..2:0.5", "0.5..2:log:0.5"])
def test_a_range_as_text_is_that_range(space: dict[str, Any], given: str) -> None:
    found = applied(space, {"lr": given}, ALL)[0]["lr"].range
    assert found is not None
    own = overrides.unmarked(converted(space["lr"]) if space else None, float, 0.5, 2)
    assert applied(space, {"lr": overrides.text_of(found, own)}, ALL)[0]["lr"].range == found


def test_one_value_fixes_a_hyperparameter_that_the_space_lacks() -> None:
    domains, fixed = applied({"x": tune.uniform(0, 1)}, {"rows": 1500}, ALL)
    assert list(domains) == ["x"]
    assert fixed == {"rows": 1500}


def test_a_fixed_value_has_the_type_of_params() -> None:
    with pytest.raises(UserError, match="--ranges rows=many: must be a whole number"):
        applied({"x": tune.uniform(0, 1)}, {"rows": "many"}, ALL)
    with pytest.raises(UserError, match=r"--ranges rows=2\.\.8:1\.5: STEP 1.5: must be a whole number"):
        applied({"x": tune.uniform(0, 1)}, {"rows": "2..8:1.5"}, ALL)


def test_one_hyperparameter_at_least_is_tried() -> None:
    with pytest.raises(UserError, match="every hyperparameter is fixed"):
        applied({"x": tune.uniform(0, 1)}, {"x": 0.5}, ALL)


def test_all_that_does_not_fit_is_said_at_once() -> None:
    with pytest.raises(UserError) as raised:
        applied({"lr": tune.uniform(0, 1)}, {"lrr": 1, "lr": "1..0"}, ALL)
    assert [line.split()[1] for line in str(raised.value).splitlines()] == ["lrr:", "lr=1..0:"]


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ({"rows": "null,4"}, "--ranges rows=null,4: None: must be a whole number"),
        ({"rows": [None, 4]}, "--ranges rows=null,4: None: must be a whole number"),
        ({"rows": "[1, 2],4"}, "--ranges rows=[1, 2],4: [1, 2]: must be a whole number"),
        ({"lr": {"low": 0}}, '--ranges lr={"low": 0}: must be a number; a range is given as LOW..HIGH, '),
    ],
)
def test_a_value_of_another_type_is_named_with_its_hyperparameter(
    ranges: dict[str, Any], expected: str
) -> None:
    with pytest.raises(UserError) as raised:
        applied({}, ranges, ALL)
    assert str(raised.value).startswith(expected)
