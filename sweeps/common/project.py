"""The project of a command: a folder that holds `trainables/`, or a model in a `.py` file.

It is the current folder, the one of a file that was typed, or the one that a record names.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from sweeps.common.errors import UserError
from sweeps.common.formatting import place
from sweeps.common.yaml_values import load_yaml

TRAINABLES, SEARCH_SPACES = "trainables", "search_spaces"
JOURNAL = "record.journal"
"""In the folder of a sweep: its record."""
SETTINGS_FILE = "fit.yaml"
"""In the folder of a single run: what `--resume` goes on with."""
KEY = "project"
"""Under this key a record, and the settings of a single run, name the folder of their project."""
HEAD_LINES = 32
"""Of a journal: more than what is said of a sweep before its first trial."""
_chosen: Path | None = None


def folder() -> Path:
    """The project's folder, absolute."""
    return _chosen or Path.cwd()


def enter() -> None:
    """Let Python import from the project's folder first; the command `sweeps` does not do so by itself."""
    if str(folder()) not in sys.path:
        sys.path.insert(0, str(folder()))


def use(chosen: Path | None = None) -> None:
    """Take the plug-ins of a project from now on, in this process and in those that it starts.

    Args:
        chosen: the project's folder; None: the current one.
    """
    global _chosen
    before = _chosen
    _chosen = None if chosen is None or chosen.resolve() == Path.cwd() else chosen.resolve()
    if before != _chosen:
        inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        entries = [*([str(_chosen)] if _chosen else []), *(path for path in inherited if path != str(before))]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, entries))
        sys.path[:] = [path for path in sys.path if path != str(before)]
    enter()


def use_noted(results: Path, trainables: Sequence[str], where: str) -> None:
    """Use the project of a sweep or of a single run, wherever the command is typed.

    A project may have been moved or copied with its results: a folder above them that holds the trainables
    comes first, then the noted one, then the current one. Where none is noted, it is the current one.

    Args:
        results: folder of the sweep or of the run.
        trainables: as they were named.
        where: begins the message, as `--resume results/NAME`.

    Raises:
        UserError: the noted folder is missing.
    """
    if (noted := noted_in(results)) is None:
        return use()
    places = [*results.resolve().parents, Path(noted), Path.cwd()]
    found = next((each for each in places if all(file_in(each, name) for name in trainables)), Path(noted))
    if not found.is_dir():
        raise UserError(
            f"{where}: the project's folder {noted} is missing; it was moved or deleted. "
            "Type the command in the folder that holds the project now"
        )
    return use(found)


def noted_in(results: Path) -> str | None:
    """The project's folder, as the record of a sweep or the settings of a single run name it.

    None where there is neither, or where it began before projects were noted. Reads the first lines alone.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError, yaml.YAMLError):
        if (results / SETTINGS_FILE).is_file():
            return load_yaml((results / SETTINGS_FILE).read_text()).get(KEY) or None
        with (results / JOURNAL).open() as journal:
            said = [json.loads(line).get("user_attr", {}) for line in itertools.islice(journal, HEAD_LINES)]
        return next((str(each[KEY]) for each in said if KEY in each), None)
    return None


def to_note() -> str | None:
    """The project's folder, for a record; None in a job on a cluster, which has a copy of it for its time."""
    return None if "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ else str(folder())


def file_in(project: Path, name: str) -> Path | None:
    """The file of a trainable in a project's folder, by its name or its dotted path."""
    plain = [] if "." in name else [project / TRAINABLES / f"{name}.py"]
    below = project.joinpath(*name.split("."))
    files = [*plain, below.with_name(f"{below.name}.py"), below / "__init__.py"]
    return next((file for file in files if file.is_file()), None)


def dotted(file: Path) -> str:
    """The dotted path of a file; one from outside the project is imported from its own project."""
    inside = _parts(file, folder())
    if inside is not None:
        return ".".join(inside)
    root = file.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    use(root)
    parts = _parts(file, root)
    if parts is None:
        raise UserError(
            f"{place(file)}: Python imports no file of this name; use letters, digits and _ only, "
            f"as in {file.stem.replace('-', '_').replace(' ', '_')}.py"
        )
    return ".".join(parts)


def _parts(file: Path, root: Path) -> tuple[str, ...] | None:
    """Names of a file's packages and of its module below a folder; None where Python can't import it."""
    if not file.is_relative_to(root):
        return None
    parts = file.relative_to(root).with_suffix("").parts
    return parts if all(part.isidentifier() for part in parts) else None
