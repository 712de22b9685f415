"""A trainable that breaks its contract is told how."""

from __future__ import annotations

import pytest

from sweeps.config import plugins
from tests.sweeps.common.plug_in_files import TRAINABLE, Write, fault


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
    ],
)
def test_a_trainable_that_breaks_its_contract_is_told_how(
    old: str, new: str, expected: str, module: Write
) -> None:
    path = module(TRAINABLE.replace(old, new))
    assert fault("trainable", path) == f"--trainable {path}: {expected}"


PREPARED = """
PREPARE_PARAMS = ("lr",)
def raw_items(params): ...
def prepare(item, params): ...
def build_data(params, prepared): ...
"""


def test_a_trainable_may_have_its_data_prepared(module: Write) -> None:
    assert plugins.find("trainable", module(TRAINABLE + PREPARED)).PREPARE_PARAMS == ("lr",)


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
    assert plugins.find("trainable", module(TRAINABLE + own)).PREPARE_PARAMS == ("lr",)


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
