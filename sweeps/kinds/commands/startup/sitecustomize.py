"""Lets `wandb.log` and `trackio.log` write their numbers to the file `$SWEEPS_METRICS`, too.

Python imports this file at its start in the program of a trial, since its folder is the first one of
PYTHONPATH: https://docs.python.org/3/library/site.html#module-sitecustomize
It wraps the public method `Run.log` of both libraries when the program imports them, and then gives way to
the environment's own file of this name. It uses the standard library alone, of any Python from 3.7 on.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

NAME = "sitecustomize"
LIBRARIES = ("wandb", "trackio")
METRICS = os.environ.get("SWEEPS_METRICS", "")


class Finder:
    """Finds the libraries, and has their `Run.log` wrapped behind their import."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in LIBRARIES:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        found = (finder.find_spec(name, path, target) for finder in others)
        spec = next((each for each in found if each is not None), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                wrap(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def wrap(library: Any) -> None:
    """Wrap `Run.log` of a library. Older releases of W&B have the class in a module of its own alone."""
    inner = sys.modules.get(f"{library.__name__}.sdk.wandb_run")
    run = getattr(library, "Run", None) or getattr(inner, "Run", None)
    log = getattr(run, "log", None)
    if run is None or log is None:
        return

    def noting(self: Any, *arguments: Any, **named: Any) -> Any:
        found = log(self, *arguments, **named)
        note(*arguments, **named)
        return found

    noting.__doc__, noting.__name__, noting.__qualname__ = log.__doc__, log.__name__, log.__qualname__
    run.log = noting


def note(data: Any = None, step: Any = None, *_: Any, **named: Any) -> None:
    """Append the numbers of a call to the file of metrics. The call has done its own work: nothing of this
    is an error of the program."""
    try:
        found = numbers(named.get("metrics") if data is None else data, "")
        if found and step is not None:
            found.setdefault("epoch", float(step))
        if found:
            with open(METRICS, "ab", buffering=0) as file:  # noqa: PTH123
                file.write(json.dumps(found).encode() + b"\n")
    except Exception:  # of the program's own objects, or a full disk: without its report the trial says why
        pass


def numbers(data: Any, prefix: str) -> dict[str, float]:
    """Name to number of what is logged; those of an inner dict behind its name and a point."""
    found = {}
    for name, value in data.items():
        if isinstance(value, dict):
            found.update(numbers(value, f"{prefix}{name}."))
        elif not isinstance(value, (str, bytes, bool)):
            try:
                found[f"{prefix}{name}"] = float(value)
            except Exception:  # whatever `float` raises of a picture, a table or a tensor of any library
                continue
    return found


def import_own() -> None:
    """Import the environment's own file of this name."""
    here = os.path.realpath(os.path.dirname(__file__))  # noqa: PTH120
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != here]
    spec = PathFinder.find_spec(NAME)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules[NAME] = module
        spec.loader.exec_module(module)


if METRICS:
    sys.meta_path.insert(0, Finder())
    import_own()
