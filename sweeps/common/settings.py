"""Settings: dataclass fields with their type, doc, bounds and group, from which flags and files are made."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import io
import math
import operator
import textwrap
import tokenize
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from types import NoneType
from typing import Any, ClassVar, Self, get_type_hints

from sweeps.common import param_types
from sweeps.common.errors import UserError
from sweeps.common.param_types import literals, members, requirement, type_fault
from sweeps.common.yaml_values import hyperparameter


def setting(
    default: Any = dataclasses.MISSING,
    *,
    group: str | None = None,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    metavar: str = "",
    may_be_bare: bool = False,
) -> Any:
    """A field of settings.

    Args:
        default: of the field.
        group: title in `--help` of this field and of those below it, up to the next title.
        least: smallest value.
        above: exclusive lower bound.
        most: largest value.
        metavar: name of the value in `--help`, by default by its type.
        may_be_bare: whether its flag may be typed without a value.
    """
    metadata = {"group": group, "least": least, "above": above, "most": most, "metavar": metavar}
    metadata |= {"may_be_bare": may_be_bare}
    return dataclasses.field(default=default, metadata=metadata)


def flag(name: str) -> str:
    """The flag of a setting: `num_trials` is `--num-trials`."""
    return "--" + name.replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting, for flags and files."""

    name: str
    kind: Any
    """Its type."""
    default: Any
    """`dataclasses.MISSING` where it must be given."""
    doc: str
    metavar: str = ""
    group: str = ""
    least: float | None = None
    above: float | None = None
    most: float | None = None
    may_be_bare: bool = False
    """Whether its flag may be typed without a value."""

    def fault(self, value: Any) -> str | None:
        """The error for a value out of bounds; None within."""
        if value is None or isinstance(value, str):
            return None
        bounds = [
            (self.least, "at least {:g}", self.least is None or value >= self.least),
            (self.above, "above {:g}", self.above is None or value > self.above),
            (self.most, "at most {:,}", self.most is None or value <= self.most),
        ]
        if all(holds for _, _, holds in bounds):
            return None
        wanted = " and ".join(words.format(bound) for bound, words, _ in bounds if bound is not None)
        shown = f"{value:g}" if isinstance(value, float) else value
        return f"{flag(self.name)} {shown}: must be {wanted}"


class Settings:
    """A frozen dataclass of settings. It may hold another one as `fit`, whose fields in OF_FIT are settings
    of this one too, so that flags and files are flat."""

    OF_FIT: ClassVar[tuple[str, ...]] = ()
    fit: Any

    @classmethod
    def settings(cls) -> dict[str, Setting]:
        """Name to setting, in the order of the fields; those of `fit` are at its position."""
        of: Any = cls  # mypy does not take a class for hashable
        return _settings_of(of)

    @classmethod
    def from_settings(cls, **settings: Any) -> Self:
        """Settings by their names; the others have their defaults."""
        of_fit = {name: settings.pop(name) for name in cls.OF_FIT if name in settings}
        return cls(**{**settings, "fit": dataclasses.replace(cls.fit, **of_fit)})

    def changed(self, **settings: Any) -> Self:
        """The same with other values."""
        of_fit = {name: settings.pop(name) for name in self.OF_FIT if name in settings}
        return type(self)(**{**vars(self), "fit": dataclasses.replace(self.fit, **of_fit), **settings})

    def flat(self) -> dict[str, Any]:
        """All values by name."""
        return {name: getattr(self.fit if name in self.OF_FIT else self, name) for name in self.settings()}

    def given(self) -> list[str]:
        """Names of those that do not have their default."""
        values = self.flat()
        return [name for name, each in self.settings().items() if values[name] != each.default]

    def out_of_bounds(self) -> list[str]:
        """The error for each value out of bounds."""
        values, settings = self.flat(), self.settings().values()
        return [fault for each in settings if (fault := each.fault(values[each.name])) is not None]


@functools.cache
def _settings_of(of: Any) -> dict[str, Setting]:
    hints, docs, defaults, group = get_type_hints(of), field_docs(of), param_types.defaults_of(of), ""
    found: dict[str, Setting] = {}
    for each in dataclasses.fields(of):
        if not each.metadata.get("is_setting", True):
            continue
        group = each.metadata.get("group") or group
        if each.name == "fit":
            held = _settings_of(hints["fit"])
            found |= {
                name: dataclasses.replace(held[name], group=group, default=getattr(each.default, name))
                for name in of.OF_FIT
            }
            continue
        found[each.name] = Setting(
            name=each.name,
            kind=hints[each.name],
            default=defaults[each.name],
            doc=docs[each.name],
            **{**each.metadata, "group": group},
        )
    return found


def grouped(settings: Iterable[Setting]) -> dict[str, list[Setting]]:
    """Title to the settings below it."""
    found: dict[str, list[Setting]] = {}
    for each in settings:
        found.setdefault(each.group, []).append(each)
    return found


def typed(where: str, kind: Any, value: Any) -> Any:
    """A value of a flag or a file in the type of its setting.

    Args:
        where: begins the message.
        kind: the type; Any for a hyperparameter, whose type is checked later.
        value: of YAML, or the text of a flag.

    Raises:
        UserError: it does not fit, and what would.
    """
    kinds = members(kind)
    if kind is Any:
        return hyperparameter(value)
    if isinstance(value, list) and list[str] in kinds:
        return [typed(where, str, each) for each in value]
    if value in (None, "null") and NoneType in kinds:
        return None
    if str(value) in literals(kind):  # YAML has a number for `precision: 32`
        return str(value)
    others = [each for each in kinds if each not in (NoneType, list[str])]
    wanted: Any = functools.reduce(operator.or_, others)
    read = hyperparameter(value) if isinstance(value, str) else value
    for found in [value if isinstance(read, str) else read, value]:  # text stays as it is given
        if not type_fault(found, wanted) and (isinstance(found, str) or math.isfinite(found)):
            return param_types.typed(found, wanted)
    raise UserError(f"{where} {value}: {requirement(value, wanted)}")


def field_docs(config_class: type) -> dict[str, str]:
    """Field name to the docstring under it, else the comment behind it, or ""; of inherited fields, too."""
    found: dict[str, str] = {}
    for each in reversed(config_class.__mro__):
        with suppress(OSError, TypeError):  # a class that no file holds
            found |= _own_docs(each)
    return found


def _own_docs(config_class: type) -> dict[str, str]:
    source = textwrap.dedent(inspect.getsource(config_class))
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {each.start[0]: each.string.lstrip("# ") for each in tokens if each.type == tokenize.COMMENT}
    found = {}
    for statement, following in zip(body.body, [*body.body[1:], ast.Pass()], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            doc = following.value if isinstance(following, ast.Expr) else None
            text = (
                str(doc.value)
                if isinstance(doc, ast.Constant)
                else comments.get(statement.end_lineno or 0, "")
            )
            found[statement.target.id] = " ".join(text.split())
    return found
