"""The one fact in an error of jsonargparse, which tells every type that it has tried.

The text is read by its lines, since the exception has no other content. Where a later jsonargparse writes it
in another way, it is kept as it is.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Mapping
from typing import Any, NamedTuple

from sweeps.common.yaml_values import nearest
from sweeps.training import trainer_options
from sweeps.training.adapters import settings_tree
from sweeps.training.adapters.settings_tree import ARGUMENTS, CLASS

KEY = re.compile(r'Parser key "(?P<key>[^"]+)":\n(?P<inner>.*)', re.DOTALL)
CLASS_FAULT = re.compile(r"Problem with given class_path '(?P<name>[^']+)':\n(?P<inner>.*)", re.DOTALL)
UNION = re.compile(
    r"Does not validate against any of the Union subtypes\nSubtypes: .*?\nErrors:\n(?P<errors>.*)\n"
    r"Given value type: .*?\nGiven value: (?P<value>.*)",
    re.DOTALL,
)
IS_NONE = re.compile(r"Expected (a )?<class 'NoneType'>")
UNKNOWN = re.compile(r"Option '(?P<name>[^']+)' is not accepted")
UNKNOWN_OF_TRAINER = re.compile(r".* does not accept option 'trainer\.(?P<name>[^'.]+)'")
NO_ATTRIBUTE = re.compile(r"module '(?P<module>[^']+)' has no attribute '(?P<name>[^']+)'")


class _Fact(NamedTuple):
    path: str
    class_path: str
    """Of the object that has the setting; "" where none is known."""
    text: str


def in_a_line(error: BaseException, tree: Mapping[str, Any] | None = None) -> str:
    """Path and innermost fact of an error, with the nearest spelling of an unknown name.

    Args:
        error: of jsonargparse, or of a type of the user's.
        tree: settings that were refused, in which items of lists are found.
    """
    fact = _innermost(_Fact("", "", str(error)), tree or {})
    if fact is None:
        return " ".join(str(error).split()) or type(error).__name__
    said = " ".join(fact.text.split()) or type(error).__name__
    hint = _hint(fact, said)
    return f"{fact.path}{': ' if fact.path else ''}{said}{f'.{hint}' if hint else ''}"


def _innermost(fact: _Fact, tree: Mapping[str, Any]) -> _Fact | None:
    """None where the text has another structure."""
    text = fact.text.strip("\n")
    if found := KEY.fullmatch(text):
        path = f"{fact.path}.{found['key']}" if fact.path else found["key"]
        return _innermost(_Fact(path, fact.class_path, textwrap.dedent(found["inner"])), tree)
    if found := CLASS_FAULT.fullmatch(text):
        inner = textwrap.dedent(found["inner"])
        path = f"{fact.path}{_number(tree, fact.path, found['name'])}"
        is_of_class = not (KEY.match(inner) or UNKNOWN.match(inner))
        path = f"{path}.{CLASS if is_of_class else ARGUMENTS}"
        return _innermost(_Fact(path, found["name"], inner), tree)
    if found := UNION.fullmatch(text):
        chosen = _of_union(textwrap.dedent(found["errors"]), found["value"])
        return None if chosen is None else _innermost(fact._replace(text=chosen), tree)
    return fact


def _of_union(errors: str, value: str) -> str | None:
    """The errors of the types that were meant, as one; None where it is not clear which these are."""
    if not errors.startswith("- "):
        return None
    each = [textwrap.dedent(f"  {error}") for error in re.split(r"^- ", errors, flags=re.MULTILINE)[1:]]
    meant = [error.strip("\n") for error in each if not IS_NONE.fullmatch(error.strip())]
    of_class = [error for error in meant if CLASS_FAULT.match(error)]
    if len(of_class or meant) == 1:
        (error,) = of_class or meant
        is_short = re.fullmatch(r"Expected a? ?<class '[^']+'>", error)
        return f"{error}. Got value: {value}" if is_short else error
    if meant and all(re.fullmatch(r"Expected [^\n]*", error) for error in meant):
        types = " or ".join(error.removeprefix("Expected ") for error in meant)
        return f"Expected {types}. Got value: {value}"
    return None


def _number(tree: Mapping[str, Any], path: str, class_path: str) -> str:
    """The place of a class in a list, as `.0`; "" where there is no list, or where several have the class."""
    try:
        items = settings_tree.value_at(tree, path)
    except KeyError:
        return ""
    listed = items if isinstance(items, list) else []
    places = [
        n for n, item in enumerate(listed) if isinstance(item, Mapping) and item.get(CLASS) == class_path
    ]
    return f".{places[0]}" if len(places) == 1 else ""


def _hint(fact: _Fact, said: str) -> str:
    if found := UNKNOWN_OF_TRAINER.fullmatch(said):
        return nearest(found["name"], (*trainer_options.FREE, *trainer_options.OWNED))
    if found := UNKNOWN.fullmatch(said):
        return nearest(found["name"], _arguments(fact.class_path))
    if found := NO_ATTRIBUTE.fullmatch(said):
        return nearest(found["name"], _names_in(found["module"]))
    return ""


def _arguments(class_path: str) -> list[str]:
    module, _, name = class_path.rpartition(".")
    try:
        return list(inspect.signature(getattr(importlib.import_module(module), name)).parameters)
    except (ImportError, AttributeError, ValueError, TypeError):
        return []


def _names_in(module: str) -> list[str]:
    try:
        found = importlib.import_module(module)
    except ImportError:
        return []
    inner = [each.name for each in pkgutil.iter_modules(getattr(found, "__path__", []))]
    return [name for name in (*dir(found), *inner) if not name.startswith("_")]
