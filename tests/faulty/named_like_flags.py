"""A trainable with hyperparameters that are named as flags are."""

from dataclasses import dataclass
from typing import Any

METRIC, MODE = "val_acc", "max"


@dataclass(frozen=True, kw_only=True)
class Inherited:
    lr: float = 0.1
    """Learning rate."""


@dataclass(frozen=True, kw_only=True)
class Params(Inherited):
    params: int = 1
    no_test: int = 1
    no_compile: int = 1
    help: int = 1
    resume: int = 1
    data_dir: str = ""


def build_model(params: Params) -> Any: ...
def build_data(params: Params) -> Any: ...
