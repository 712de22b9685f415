"""A file of a LightningModule as a trainable; one that breaks its contract is told how."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from sweeps.common.errors import CannotTrain
from sweeps.common.objective import Objective
from sweeps.kinds import registry
from tests.support.trainables import as_trainable
from tests.sweeps.common.plug_in_files import TRAINABLE, Write, fault


def test_another_process_makes_it_again_of_its_description(module: Write) -> None:
    found = registry.find(module(TRAINABLE + "SPACE = {}\n"))
    there = registry.load(pickle.loads(pickle.dumps(found.description)))
    assert (there.name, there.objective) == (found.name, Objective("val_acc", "max"))
    assert there.params_class is found.params_class
    assert there.space is not None
    assert there.space.ranges == {}
    assert (there.preparation, there.build_raw_data, there.notes(), there.rest) == (None, None, (), "")


def test_static_metrics_are_numbers_by_name_and_none_where_there_is_no_function() -> None:
    assert with_metrics({"params_m": 2}).static_metrics(None) == {"params_m": 2.0}
    assert as_trainable(SimpleNamespace()).static_metrics(None) == {}


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (3.0, "must return a dict of numbers"),
        ({"params_m": "2"}, "params_m is '2', and must be a finite number"),
        ({"params_m": True}, "params_m is True"),
        ({"params_m": float("nan")}, "params_m is nan"),
    ],
)
def test_any_other_static_metrics_are_refused(found: Any, why: str) -> None:
    with pytest.raises(CannotTrain, match=why):
        with_metrics(found).static_metrics(None)


def with_metrics(found: Any) -> Any:
    return as_trainable(SimpleNamespace(static_metrics=lambda params: found))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "lr: float = 0.1",
            "lr: float\n    width: int",
            "hyperparameters of Params without a default: lr, width",
        ),
        (
            "@dataclass(frozen=True, kw_only=True)",
            "",
            "Params must be a dataclass, one field per hyperparameter",
        ),
        ('"max"', '"maximum"', "MODE 'maximum' must be min or max"),
        (
            '"val_acc"',
            "None",
            "METRIC None must be a text, the name of a metric; --metric takes several",
        ),
    ],
)
def test_a_trainable_that_breaks_its_contract_is_told_how(
    old: str, new: str, expected: str, module: Write
) -> None:
    path = module(TRAINABLE.replace(old, new))
    assert fault("trainable", path) == f"--trainable {path}: {expected}"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("def trian(params, trial): ...", ". It defines trian: did you mean 'train'?"),
        (
            TRAINABLE.replace("def build_model", "def build_modle"),
            ". It defines build_modle: did you mean 'build_model'?",
        ),
        (TRAINABLE.replace("def build_model", "def other"), "(params, trial))"),
        (
            TRAINABLE.replace("MODE", "OTHER") + "def train_epoch(): ...\ndef trains(): ...\n",
            "(params, trial))",
        ),
    ],
)
def test_a_misspelt_name_is_told_with_the_right_one(text: str, hint: str, module: Write) -> None:
    assert fault("trainable", module(text)).endswith(hint)


PREPARED = """
PREPARE_PARAMS = ("lr",)
def raw_items(params): ...
def prepare(item, params): ...
def build_data(params, prepared): ...
"""


def test_a_trainable_may_have_its_data_prepared(module: Write) -> None:
    assert registry.find(module(TRAINABLE + PREPARED)).prepare_params == ("lr",)


@pytest.mark.parametrize(
    "text",
    [
        "def build_data(params, folder, loader_workers=0): ...",
        "def build_data(*args): ...",
        "def build_data(params, *args, **kwargs): ...",
        "from functools import partial\nbuild_data = partial(lambda loader, params, prepared: None, 1)",
        "class build_data:\n    def __init__(self, params, prepared): ...",
        "build_data = dict.fromkeys",
    ],
)
def test_any_build_data_that_takes_params_and_folder_will_do(text: str, module: Write) -> None:
    own = PREPARED.replace("def build_data(params, prepared): ...", text)
    assert registry.find(module(TRAINABLE + own)).prepare_params == ("lr",)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("def raw_items(params): ...", "", "does not define raw_items"),
        ('PREPARE_PARAMS = ("lr",)', "", "does not define PREPARE_PARAMS"),
        ('("lr",)', '"lr"', "PREPARE_PARAMS 'lr' must be a tuple of names"),
        ('("lr",)', '("lrr",)', "PREPARE_PARAMS: lrr: no such hyperparameter of Params. Did you mean 'lr'?"),
        ("def prepare(item, params): ...", "prepare = 1", "prepare must be a function"),
        (
            "(params, prepared)",
            "(params)",
            "build_data must take two arguments, build_data(params, prepared): ",
        ),
        ("(params, prepared)", "(params, *, prepared)", "build_data must take two arguments, "),
        ("(params, prepared)", "(params, prepared, more)", "build_data must take two arguments, "),
        ("def build_data(params, prepared): ...", "build_data = 1", "build_data must take two arguments, "),
    ],
)
def test_half_a_preparation_is_told_what_it_lacks(old: str, new: str, expected: str, module: Write) -> None:
    assert expected in fault("trainable", module(TRAINABLE + PREPARED.replace(old, new)))


def test_build_data_may_return_loaders() -> None:
    found = as_trainable(SimpleNamespace(build_data=lambda params: ([1], [2])))
    data = found.build_data(SimpleNamespace(), None)
    assert (data.train_dataloader(), data.val_dataloader()) == ([1], [2])


def test_a_file_whose_model_has_the_loaders_is_told_what_build_data_returns(module: Write) -> None:
    own = TRAINABLE.replace("def build_data", "def build_other")
    assert "does not define build_data" in (found := fault("trainable", module(own)))
    assert "For a model with loaders of its own it returns None" in found
