"""A tree of settings: its leaves by their paths, and the tree with other values."""

from __future__ import annotations

import dataclasses
from typing import Any, get_type_hints

import pytest

from sweeps.kinds.projects import settings_tree

TREE = {
    "model": {"class_path": "a.A", "init_args": {"lr": 0.1, "sizes": [8, 16], "drop": None, "bias": True}},
    "callbacks": [{"patience": 3}],
    "empty": [],
}
LEAVES = {
    "model.class_path": "a.A",
    "model.init_args.lr": 0.1,
    "model.init_args.sizes.0": 8,
    "model.init_args.sizes.1": 16,
    "model.init_args.drop": None,
    "model.init_args.bias": True,
    "callbacks.0.patience": 3,
}


def test_a_leaf_has_its_path_also_through_a_list() -> None:
    assert dict(settings_tree.leaves(TREE)) == LEAVES


def test_other_values_leave_the_tree_as_it_is() -> None:
    values = {"model.init_args.sizes.1": 32, "callbacks.0.patience": 5, "model.init_args.lr": 0.1}
    found = settings_tree.with_values(TREE, {}, values)
    assert dict(settings_tree.leaves(found)) == LEAVES | values
    assert dict(settings_tree.leaves(TREE)) == LEAVES


def test_another_class_has_the_arguments_that_were_given_and_no_defaults_of_the_former() -> None:
    given = {"model": {"class_path": "a.A", "init_args": {"lr": 0.1}}}
    values = {"model.class_path": "b.B", "model.init_args.lr": 0.5, "model.init_args.bias": True}
    found = settings_tree.with_values(TREE, given, values)
    assert found["model"] == {"class_path": "b.B", "init_args": {"lr": 0.5}}


@pytest.mark.parametrize("path", ["model.lr", "callbacks.1.patience", "callbacks.x", "model.init_args.lr.x"])
def test_a_path_that_is_not_there_is_none(path: str) -> None:
    with pytest.raises(KeyError):
        settings_tree.value_at(TREE, path)


def test_later_settings_have_priority() -> None:
    assert settings_tree.merged({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"c": 3}, "d": [2]}) == {
        "a": {"b": 1, "c": 3},
        "d": [2],
    }


def test_params_have_a_field_for_each_path() -> None:
    seen: list[Any] = []
    params = settings_tree.params_class(LEAVES, seen.append)
    assert {field.name: field.default for field in dataclasses.fields(params)} == LEAVES
    assert get_type_hints(params)["model.init_args.lr"] is float
    assert get_type_hints(params)["callbacks.0.patience"] is Any
    values = {"model.init_args.lr": 0.5}
    found = params(**values)
    assert {name: getattr(found, name) for name in LEAVES} == LEAVES | values
    assert seen == [values]
    with pytest.raises(TypeError, match=r"no such hyperparameter: model\.lr"):
        params(**{"model.lr": 1})


def test_a_number_that_was_whole_is_whole_again() -> None:
    found = settings_tree.with_whole_numbers(
        {"a": [1.0, 2.0], "b": 1.5, "c": 3.0}, {"a": [1, 2.0], "b": 1, "d": 0}
    )
    assert repr(found) == repr({"a": [1, 2.0], "b": 1.5, "c": 3.0})
