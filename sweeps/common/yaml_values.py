"""Read values of flags and YAML files, and suggest the nearest spelling of a wrong one."""

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

ParamValue = bool | int | float | str
"""A value of a hyperparameter."""
FLOAT = (
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)
"""YAML 1.1 reads `1e-3` as text; people mean a number (yaml/pyyaml#173)."""


class _Loader(yaml.SafeLoader):
    """Reads `1e-3` as a number."""


_Loader.add_implicit_resolver(*FLOAT)


def load_yaml(text: str) -> Any:
    """The content of a YAML text.

    Raises:
        yaml.YAMLError: it is not YAML.
    """
    return yaml.load(text, _Loader)


def hyperparameter(where: str, text: str) -> ParamValue:
    """A value read as YAML; `where` begins the message about a wrong one."""
    try:
        value = load_yaml(text) if text else ""
    except yaml.YAMLError:
        return text
    if not isinstance(value, bool | int | float | str):
        raise UserError(f"{where}: must be a number, true, false or text")
    return value


def nearest(word: str, choices: Iterable[str]) -> str:
    """` Did you mean 'x'?`, or "" when no choice is near."""
    found = closest(word, choices)
    return f" Did you mean '{found}'?" if found else ""


def closest(word: str, choices: Iterable[str]) -> str | None:
    """The choice nearest to a word; None when none is near."""
    return next(iter(difflib.get_close_matches(word, list(choices), n=1, cutoff=0.6)), None)


def field_docs(config_class: type) -> dict[str, str]:
    """Field name to the docstring under it, or ""."""
    body = ast.parse(textwrap.dedent(inspect.getsource(config_class))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for statement, following in zip(body.body, [*body.body[1:], ast.Pass()], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            is_doc = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            text = str(following.value.value) if is_doc else ""  # type: ignore[attr-defined]
            found[statement.target.id] = " ".join(text.split())
    return found
