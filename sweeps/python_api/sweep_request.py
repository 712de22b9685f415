"""What Python code asks of a sweep, by keywords: `sweeps.run(train, space={...}, num_trials=24)`."""

from __future__ import annotations

import inspect
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.common import param_types
from sweeps.common.errors import UserError, collecting, refuse
from sweeps.common.settings import typed
from sweeps.common.yaml_values import nearest
from sweeps.config import cli
from sweeps.config.sweep_config import SweepConfig
from sweeps.kinds import pickled, source_files, used_objects
from sweeps.kinds.function import saves_in
from sweeps.kinds.lightning import takes
from sweeps.kinds.pickled import Pickled
from sweeps.kinds.trainable import params_of_names
from sweeps.kinds.used_objects import UsedObjects

FOLDERS = ("data_dir", "prepared_dir")
OF_THE_MACHINE = (*FOLDERS, "gpus")
"""Keywords that are no settings of a sweep."""
NO_KEYWORDS = ("trainable", "ranges", "submit")
"""Settings that have another name here, or none."""
_FLAG = re.compile(
    r"(\S*sweeps (?:run|fit|prepare|ladder|results|report|queue|control|dashboard|pcs)\b[^;\n]*)"
    r"|--gpus (none|\d+(?:,\d+)*|(?:GPU|MIG)-[\w-]+)\b"
    r"|--(no-)?([a-z][a-z-]*)"
)
"""A command, GPUs, or a flag."""
_RESUMES = re.compile(r"\S*sweeps run --resume (?:results/)?(\S+)( --retry failed)?( --force)?\s*")
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
_TWO_NUMBERS = re.compile(rf"({_NUMBER})\s*-\s*({_NUMBER})(:\S+)?", re.IGNORECASE)
FORMS = "give '1e-4..1e-1:log', a list of choices, one value or a domain of Ray Tune"


@dataclass(frozen=True)
class Request:
    """What the process of a sweep is to run."""

    settings: Mapping[str, Any]
    """By the names of SweepConfig and OF_THE_MACHINE."""
    pickled: Pickled | None
    """What it trains, where that is in no file."""
    in_cell: bool = False
    """Whether a cell of a notebook shows it."""
    python_path: str | None = None
    """$PYTHONPATH of the program."""


def request_of(trainable: Any, space: Mapping[str, Any], data: Any, given: Mapping[str, Any]) -> Request:
    """The request of a call.

    Raises:
        UserError: every fault that shows without the sweep's own checks, one a line.
    """
    settings, faults = _settings(given)
    if not isinstance(space, Mapping):
        faults.append("space: give a dict, such as {'lr': '1e-4..1e-1:log', 'width': [16, 32]}")
    refuse(faults)
    if space:
        settings["ranges"] = {name: _as_range(name, each) for name, each in space.items()}
    if trainable is None or isinstance(trainable, str | Path):
        if data is not None:
            raise UserError("data: it is given with a class of LightningModules")
        settings |= {} if trainable is None else {"trainable": str(trainable)}
        return Request(settings, None, python_path=os.environ.get("PYTHONPATH"))
    if not space and not settings.keys() & {"resume", "refine"}:
        raise UserError("space: give a range for each hyperparameter, such as {'lr': '1e-4..1e-1:log'}")
    params_of_names(space)  # refuses what is no name
    made = _pickled(trainable, data, [*space, *settings.get("params", {})])
    return Request({**settings, "trainable": made.name}, made, python_path=os.environ.get("PYTHONPATH"))


def as_keywords(text: str) -> str:
    """A message about flags, about keywords instead; other commands than to resume stay as they are typed."""
    known = SweepConfig.settings()

    def renamed(found: re.Match[str]) -> str:
        if found[1] and (resumes := _RESUMES.fullmatch(found[1])):
            more = (
                f"{', retry=' + repr('failed') if resumes[2] else ''}{', force=True' if resumes[3] else ''}"
            )
            return f"sweeps.run(..., resume={resumes[1]!r}{more})"
        if found[2]:
            return f'gpus="{found[2]}"'
        name = str(found[4]).replace("-", "_")
        name = {"ranges": "space", "try": "tries"}.get(name, name)
        if found[1] or name not in (*known, "space", *OF_THE_MACHINE):
            return found[0]
        is_switch = name in known and known[name].kind is bool
        return f"{name}={not found[3]}" if is_switch else name

    return _FLAG.sub(renamed, text)


def _settings(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The keywords that fit, in the types of their settings, and the faults of the others."""
    known = {name: each for name, each in SweepConfig.settings().items() if name not in NO_KEYWORDS}
    found, faults = dict[str, Any](), list[str]()
    for name, value in given.items():
        if value is None:
            continue
        if name in OF_THE_MACHINE:
            found[name] = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        elif name not in known:
            keywords = [*known, *OF_THE_MACHINE, "space", "data"]
            hint = " Give space." if name == "ranges" else nearest(name, keywords)
            faults.append(f"{name}: no such keyword of sweeps.run.{hint}")
        elif name in (*cli.PAIRS, *cli.POINTS):
            is_point = name in cli.PAIRS
            points = value if isinstance(value, list | tuple) and not is_point else [value]
            if not all(isinstance(point, Mapping) for point in points):
                example = "{'width': 16}" if is_point else "[{'lr': 0.1, 'width': 16}]"
                faults.append(f"{name}: give values by name, such as {example}")
                continue
            with collecting(faults):
                made = [{n: _plain(f"{name}: {n}", each) for n, each in point.items()} for point in points]
                found[name] = made[0] if is_point else made
        else:
            with collecting(faults):
                plain = str(value) if isinstance(value, Path) else value
                plain = list(map(str, plain)) if isinstance(plain, list | tuple) else plain
                found[name] = typed(name, known[name].kind, plain)
    return found, faults


def _as_range(name: str, given: Any) -> Any:
    """A range as a text, choices as a list, or one value; of a domain of Ray Tune, too.

    Raises:
        UserError: the domain has no such form, or no sweep holds such a value.
    """
    if isinstance(given, str) and (two := _TWO_NUMBERS.fullmatch(given.strip())):
        raise UserError(f"space: {name}: {given!r}: for a range give '{two[1]}..{two[2]}{two[3] or ''}'")
    if isinstance(given, tuple) and len(given) == 2 and float in map(type, given):
        low, high = given
        raise UserError(
            f"space: {name}: {given}: for a range give '{low}..{high}', for two choices [{low}, {high}]"
        )
    if isinstance(given, set | frozenset):
        given = sorted(given, key=lambda each: (str(type(each)), each))
    given = _as_list(given)
    if given is None or isinstance(given, str | int | float | list) or getattr(given, "shape", None) == ():
        return _plain(f"space: {name}", given)
    from sweeps.space import overrides  # with Ray, whose domain the caller has made
    from sweeps.space.domain import converted

    try:
        domain = converted(given)
    except (TypeError, ValueError) as error:
        raise UserError(f"space: {name}: {error}; {FORMS}") from None
    if domain.choices is not None:
        return domain.choices
    if domain.range is None:
        raise UserError(
            f"space: {name}: {domain.form_name} has no end. Give a range or choices; a space with it is a "
            "file, given as search_space"
        )
    return overrides.text_of(domain.range, overrides.unmarked(None, Any, domain.range.low, domain.range.high))


def _plain(where: str, given: Any) -> Any:
    """A value as YAML has it: a number of NumPy as that of Python, a sequence as a list.

    Raises:
        UserError: no sweep holds such a value, as of a function.
    """
    try:
        return param_types.plain(_as_list(given))
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None


def _as_list(given: Any) -> Any:
    """A sequence or an array of NumPy as a list; anything else as it is."""
    if isinstance(given, list | tuple | range):
        return list(map(_as_list, given))
    is_array = "numpy" in sys.modules and isinstance(given, sys.modules["numpy"].ndarray)
    return given.tolist() if is_array else given


def _pickled(trainable: Any, data: Any, names: Sequence[str]) -> Pickled:
    """A function or a class of LightningModules, with all that it uses of its program."""
    is_class = isinstance(trainable, type)
    bases = (trainable if is_class else type(trainable)).__mro__
    is_of_lightning = any(base.__name__ == "LightningModule" for base in bases)
    is_module = is_class and is_of_lightning
    if not is_module and (is_class or is_of_lightning or not takes(trainable, 2)):
        raise UserError(
            f"{_name_of(trainable)}: give a function train(params, trial), a class of LightningModules, or "
            "the name or the file of a trainable"
        )
    if data is not None and not is_module:
        raise UserError("data: it is given with a class of LightningModules; a function makes its own")
    objects = {"train": trainable} if data is None else {"train": trainable, "data": data}
    called = {name: each for name, each in objects.items() if is_module and callable(each)}
    used = UsedObjects.by(**{_name_of(each): each for each in objects.values()})
    return Pickled(
        name=f"{pickled.PREFIX}:{_name_of(trainable)}",
        is_function=not is_module,
        content=used_objects.pickled(objects, used, _dumps()),
        texts=used.texts,
        modules=used.modules,
        paths=[str(Path(entry).absolute()) for entry in sys.path if not _is_of_python(entry)],
        saves=is_module or any(map(saves_in, _sources(used))),
        names=tuple(dict.fromkeys(names)),
        arguments={name: pickled.arguments_of(each) for name, each in called.items()},
        data=_in_words(data),
    )


def _dumps() -> Callable[[Any], bytes]:
    """Ray's own way to pickle by value. Its import in a notebook would tell of widgets that nothing here
    uses."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from ray import cloudpickle
    finally:
        logging.disable(before)
    dumps: Callable[[Any], bytes] = cloudpickle.dumps
    return dumps


def _sources(used: UsedObjects) -> list[str | bytes]:
    return [*used.texts.values(), *(path.read_bytes() for path in source_files.files(used.modules).values())]


def _is_of_python(entry: str) -> bool:
    path = Path(entry).absolute()
    return any(path.is_relative_to(place) for place in (sys.prefix, sys.base_prefix))


def _name_of(each: Any) -> str:
    """The name of a function or a class; of any other object that of its class."""
    named = each if inspect.isroutine(each) or isinstance(each, type) else type(each)
    return str(named.__name__)


def _in_words(data: Any) -> str:
    if data is None or isinstance(data, list | tuple):
        return "" if data is None else f"{len(data)} loaders"
    is_function = callable(data) and not isinstance(data, type)
    return f"as {_name_of(data)} returns it" if is_function else _name_of(data)
