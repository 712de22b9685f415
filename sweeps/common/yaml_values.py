"""Read values of flags and YAML files, and suggest the nearest spelling of a wrong one."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeGuard

import yaml

from sweeps.common.errors import UserError

ParamValue = bool | int | float | str | None
"""A value of a hyperparameter as a sweep holds it."""
_PLAIN = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
    ("null", r"null|Null|NULL|~|", ["n", "N", "~", ""]),
    ("merge", "<<", "<"),
)
"""What is no text, as in YAML 1.2: YAML 1.1 reads `1:30` as 90, `010` as 8, `no` as false, a date as no text,
and `1e-3` as text (yaml/pyyaml#173)."""


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012 (PyYAML's own, of instances: this class begins without any)


class _LinesLoader(_Loader):
    """Refuses a key that is given twice, of which PyYAML takes the last one without a word; of `<<` all."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        keys = [(key.tag, key.value) for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for place, key in enumerate(keys):
            if key in keys[:place] and key[0] != "tag:yaml.org,2002:merge":
                mark = node.value[place][0].start_mark
                raise yaml.composer.ComposerError(None, None, f"{key[1]} is given twice", mark)
        return node


class _Dumper(yaml.SafeDumper):
    """Quotes all text that is none in YAML 1.2 or in YAML 1.1."""


for _tag, _form, _first in _PLAIN:
    for _of in (_Loader, _Dumper):
        _of.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_form})$"), list(_first))
_Loader.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value))


def load_yaml(text: str, loader: type[yaml.SafeLoader] = _Loader) -> Any:
    """The content of a YAML text.

    Raises:
        yaml.YAMLError: it is not YAML.
        UserError: its lists are nested too deep.
    """
    try:
        return yaml.load(text, loader)
    except RecursionError:
        raise UserError(f"{text[:20]}...: nested too deep") from None
    except (ValueError, TypeError, LookupError, AttributeError):  # of PyYAML's constructors, and not its own
        raise yaml.constructor.ConstructorError(None, None, "a value does not fit its tag (!!...)") from None


def read_lines(path: str | Path, where: str) -> Mapping[Any, Any]:
    """The keys and values of a YAML file.

    Args:
        path: as the user gave it.
        where: begins each message.

    Raises:
        UserError: it can't be read, or holds something else.
    """
    try:
        content = load_yaml(Path(path).expanduser().read_text(), _LinesLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{where}: can't be read ({getattr(error, 'strerror', None) or error})") from None
    except yaml.YAMLError as error:
        raise UserError(f"{where}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, Mapping):
        raise UserError(f"{where}: must hold 'name: value' lines")
    return content


def dump_yaml(content: Any) -> str:
    """A YAML text, as `load_yaml` and YAML 1.1 read it."""
    return str(yaml.dump(content, Dumper=_Dumper, sort_keys=False))


def hyperparameter(text: str) -> Any:
    """A value read as YAML; what is not YAML is text. Text without quotes keeps its # and its lines."""
    try:
        found = load_yaml(text) if text else ""
    except yaml.YAMLError:
        return text
    bare = text.strip()
    is_cut = (found is None or isinstance(found, str)) and bool(re.search(r"(?:^|\s)#|\n", bare))
    return text if is_cut and bare[0] not in "'\"|>!" else found


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a finite number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def nearest(word: str, choices: Iterable[str]) -> str:
    """` Did you mean 'x'?`, or "" when no choice is near."""
    found = closest(word, choices)
    return f" Did you mean '{found}'?" if found else ""


def closest(word: str, choices: Iterable[str]) -> str | None:
    """The choice nearest to a word; None when none is near."""
    return next(iter(difflib.get_close_matches(word, list(choices), n=1, cutoff=0.6)), None)
