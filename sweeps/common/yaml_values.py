"""Values as people type them, in flags and in YAML, and the answer to one that is wrong.

Imports nothing heavy, so that `--help` answers at once.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import re
import textwrap
from collections.abc import Iterable
from typing import Any

import yaml

from sweeps.common.errors import UserError

DATA_DIR_VARIABLE = "SWEEPS_DATA_DIR"
"""Where a trainable finds its data: of a machine, hence a variable and never a line of settings."""
PREPARED_DIR_VARIABLE = "SWEEPS_PREPARED_DIR"
"""Where prepared data is kept, likewise."""

ParamValue = bool | int | float | str
"""A value of a hyperparameter, as it stands in Params, in a space and in the record."""


FLOAT = (
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)
"""YAML 1.1 calls `1e-3` a text; people mean a number (yaml/pyyaml#173)."""


class _Loader(yaml.SafeLoader):
    """Knows more numbers than YAML 1.1 does."""


_Loader.add_implicit_resolver(*FLOAT)


def load_yaml(text: str) -> Any:
    """What a text of YAML holds.

    Raises:
        yaml.YAMLError: it is none.
    """
    return yaml.load(text, _Loader)


def hyperparameter(where: str, text: str) -> ParamValue:
    """A value as YAML would have it."""
    try:
        value = load_yaml(text) if text else ""
    except yaml.YAMLError:
        return text
    if not isinstance(value, bool | int | float | str):
        raise UserError(f"{where}: must be a number, true, false or text")
    return value


def nearest(word: str, choices: Iterable[str]) -> str:
    """` Did you mean 'x'?`, or nothing when no choice is near."""
    found = closest(word, choices)
    return f" Did you mean '{found}'?" if found else ""


def closest(word: str, choices: Iterable[str]) -> str | None:
    """The choice that a misspelt word may mean; None when none is near."""
    return next(iter(difflib.get_close_matches(word, list(choices), n=1, cutoff=0.6)), None)


def field_docs(config_class: type) -> dict[str, str]:
    """Field name to the docstring that stands under it ("" where there is none)."""
    body = ast.parse(textwrap.dedent(inspect.getsource(config_class))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for statement, following in zip(body.body, [*body.body[1:], ast.Pass()], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            is_doc = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            text = str(following.value.value) if is_doc else ""  # type: ignore[attr-defined]
            found[statement.target.id] = " ".join(text.split())
    return found
