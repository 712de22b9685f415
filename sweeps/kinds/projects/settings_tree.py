"""A tree of settings, as a YAML file has it: its leaves as hyperparameters, and the tree with other values.

A leaf is named by its path, `model.init_args.lr` or `trainer.callbacks.0.init_args.patience`.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

CLASS = "class_path"
ARGUMENTS = "init_args"
_PAIRS = "(pairs)"
"""The only key, in JSON, of a mapping with a key that is no text."""


def leaves(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Path and value of each number, text, true, false and null of a tree."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from leaves(value, (*path, str(key)))
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            yield from leaves(value, (*path, str(number)))
    elif path and (tree is None or isinstance(tree, bool | int | float | str)):
        yield ".".join(path), tree


def with_values(
    tree: Mapping[str, Any], given: Mapping[str, Any], values: Mapping[str, Any]
) -> dict[str, Any]:
    """A copy of a tree with other values at some paths.

    Args:
        tree: with all defaults.
        given: the same without defaults: where a class is another one, it gets these arguments alone.
        values: by path.

    Raises:
        KeyError: there is no such path.
    """
    found: dict[str, Any] = copy.deepcopy(dict(tree))
    changed = {name: value for name, value in values.items() if value_at(tree, name) != value}
    classes = [name for name in changed if name.rpartition(".")[2] == CLASS]
    for name in sorted(classes, key=len):
        node = name.rpartition(".")[0]
        parent = value_at(found, node)
        parent[CLASS] = changed.pop(name)
        parent[ARGUMENTS] = copy.deepcopy(value_or_none(given, f"{node}.{ARGUMENTS}") or {})
    for name, value in changed.items():
        node, _, key = name.rpartition(".")
        parent = value_at(found, node) if node else found
        place: Any = int(key) if isinstance(parent, list) else key
        parent[place] = value
    return found


def merged(tree: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Two trees as one; values of the later one have priority."""
    found = dict(tree)
    for key, value in later.items():
        before = found.get(key)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        found[key] = merged(before, value) if both else value  # type: ignore[arg-type]
    return found


def with_other_leaves(tree: Any, other: Any, choose: Callable[[Any, Any], Any]) -> Any:
    """A tree with other leaves.

    Args:
        tree: of settings.
        other: a tree of the same form, in part.
        choose: gets a leaf, or a part that has another form there, and what is there; what is to be there.
    """
    if isinstance(tree, Mapping) and isinstance(other, Mapping | None):
        return {key: with_other_leaves(value, (other or {}).get(key), choose) for key, value in tree.items()}
    if isinstance(tree, list) and (other is None or (isinstance(other, list) and len(other) == len(tree))):
        return [
            with_other_leaves(*pair, choose) for pair in zip(tree, other or [None] * len(tree), strict=True)
        ]
    return choose(tree, other)


def with_whole_numbers(tree: Any, before: Any) -> Any:
    """A tree in which a whole number is one again where it was before.

    Python's typing may have `Union[float, int]` in place of `Union[int, float]`, whichever was asked for
    first in a process (konradhalas/dacite#294 has the same cause), and jsonargparse makes 1.0 of 1 by it. But
    of Lightning's `limit_val_batches`, 1 is a batch, and 1.0 is all of them.
    """

    def choose(value: Any, own: Any) -> Any:
        return own if isinstance(value, float) and type(own) is int and value == own else value

    return with_other_leaves(tree, before, choose)


def is_reference(value: Any) -> bool:
    """Whether a value is computed from others, as `${data.classes}`."""
    return isinstance(value, str) and "${" in value


def resolved(tree: Mapping[str, Any]) -> dict[str, Any]:
    """A tree with the values of all references."""
    if not any(is_reference(value) for _, value in leaves(tree)):
        return dict(tree)
    from omegaconf import OmegaConf  # of the extra `projects`

    found: Any = OmegaConf.to_container(OmegaConf.create(dict(tree)), resolve=True)
    return dict(found)


def value_at(tree: Any, path: str) -> Any:
    """The value at a path.

    Raises:
        KeyError: there is none.
    """
    for key in path.split("."):
        try:
            tree = tree[int(key)] if isinstance(tree, list) else tree[key]
        except (IndexError, TypeError, ValueError):
            raise KeyError(path) from None
    return tree


def has(tree: Any, path: str) -> bool:
    """Whether a path leads to a value; not to one below a key that is no text, or has a dot."""
    try:
        value_at(tree, path)
    except KeyError:
        return False
    return True


def value_or_none(tree: Any, path: str) -> Any:
    """The value at a path; None where there is none."""
    try:
        return value_at(tree, path)
    except KeyError:
        return None


def to_json(content: Any) -> str:
    """Settings as a text, in which the keys of a mapping stay numbers."""

    def plain(part: Any) -> Any:
        if isinstance(part, Mapping):
            pairs = {key: plain(value) for key, value in part.items()}
            is_plain = all(isinstance(key, str) for key in pairs)
            return pairs if is_plain else {_PAIRS: [*pairs.items()]}
        return [*map(plain, part)] if isinstance(part, list | tuple) else part

    return json.dumps(plain(content))


def of_json(text: str) -> Any:
    """The settings of such a text."""
    return json.loads(text, object_hook=lambda pairs: dict(pairs.get(_PAIRS, pairs)))


def params_class(
    defaults: Mapping[str, Any],
    check: Callable[[Mapping[str, Any]], object],
    may_lack: Collection[str] = (),
    hint: Any = None,
) -> type:
    """Params with a field for each path; the parser of the project checks most types.

    Args:
        defaults: path to value.
        check: gets the given values, and raises a ValueError where they don't fit.
        may_lack: paths that an instance has only where they are given.
        hint: the type of each field; None: what its default tells.
    """

    def init(self: Any, **values: Any) -> None:
        if unknown := [name for name in values if name not in defaults]:
            raise TypeError(f"no such hyperparameter: {', '.join(unknown)}")
        for name, default in defaults.items():
            if name in values or name not in may_lack:
                object.__setattr__(self, name, values.get(name, default))
        check(values)

    # An int may be the default of a float, null and text that of anything.
    told = {name: type(value) if isinstance(value, bool | float) else Any for name, value in defaults.items()}
    hints = told if hint is None else dict.fromkeys(defaults, hint)
    body = {
        "__annotations__": hints,
        "__init__": init,
        "__doc__": "Hyperparameters by their paths.",
        **defaults,
    }
    return dataclasses.dataclass(init=False, repr=False, eq=False, frozen=True)(type("Params", (), body))
