"""Plug-ins of a user."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.common.errors import UserError
from sweeps.config import plugins
from sweeps.kinds import registry

Write = Callable[[str], str]


TRAINABLE = """
from dataclasses import dataclass
METRIC, MODE = "val_acc", "max"
@dataclass(frozen=True, kw_only=True)
class Params:
    lr: float = 0.1
def build_model(params): ...
def build_data(params): ...
"""


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def fault(kind: str, name: str) -> str:
    with pytest.raises(UserError) as raised:
        registry.find(name) if kind == "trainable" else plugins.module_of(kind, name)
    return str(raised.value)
