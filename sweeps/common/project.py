"""The project of a command: a folder with `trainables/`, or with a model in a `.py` file.

It is the current folder, the folder of a given file, or the one that a record names.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path

import yaml

from sweeps.common.errors import UserError, innermost
from sweeps.common.formatting import shown_path
from sweeps.common.yaml_values import load_yaml

TRAINABLES, SEARCH_SPACES = "trainables", "search_spaces"
RESULTS = "results"
"""Folder of the folders of sweeps and of single runs, unless another one is given."""
JOURNAL = "record.journal"
"""The record, in the folder of a sweep."""
FIT_FILE = "fit.yaml"
"""The settings, in the folder of a single run."""
LADDER_FILE = "ladder.json"
"""The figures, in the folder of a ladder."""
KEY = "project"
"""Key of the project's folder in a record and in the settings of a single run."""
RAY_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Ray sets it in a job of a cluster (`ray._private.runtime_env.constants`); there is no public name."""
MOST_CHARACTERS = 200
"""Of a word that may be a file; systems take no name of more than 255 bytes."""
_chosen: Path | None = None
_results: Path | None = None


def folder() -> Path:
    """The project's folder, absolute."""
    return _chosen or Path.cwd()


def enter() -> None:
    """Put the project's folder on Python's path, where the command `sweeps` lacks it."""
    if str(folder()) not in sys.path:
        sys.path.insert(0, str(folder()))


def path_behind() -> list[str]:
    """Python's path with the folders of the project at its end, for programs of this package: a file of the
    project hides from its libraries the module of the same name, such as `click` or `platform`. Entries that
    are no text are left out, as Python does: programs append a Path."""
    return sorted((entry for entry in sys.path if isinstance(entry, str)), key=_is_own)


@contextlib.contextmanager
def behind() -> Iterator[None]:
    """Import this package's own libraries in a block before a file of the project can hide one of them."""
    before = list(sys.path)
    sys.path[:] = path_behind()
    try:
        yield
    finally:
        sys.path[:] = before


def hides(error: BaseException) -> str:
    """A sentence about the files of the project that have the name of a library's module, where an error may
    be that one of the two was imported in place of the other; "" where there is none."""
    others = [entry for entry in sys.path if not _is_own(entry)]
    found = {
        name: file
        for file in (*folder().glob("*.py"), *folder().glob("*/__init__.py"))
        if (name := file.parent.name if file.name == "__init__.py" else file.stem) in sys.modules
        and name.casefold() in str(error).casefold()
        and (name in sys.stdlib_module_names or PathFinder.find_spec(name, others) is not None)
    }
    return "".join(
        f". {shown_path(file)} has the name of a module that libraries import, and Python imports only one "
        f"of them by the name {name}: rename yours"
        for name, file in found.items()
    )


def is_elsewhere(error: BaseException) -> str:
    """A sentence about the folder of the project that has a module which is not found; "" where none has."""
    error = innermost(error)
    name = str(error.name) if isinstance(error, ModuleNotFoundError) else ""
    if not name.isidentifier():  # of a package that was found
        return ""
    here = folder()
    for file in sorted((*here.glob(f"[!.]*/{name}/__init__.py"), *here.glob(f"[!.]*/{name}.py"))):
        place = shown_path(here / file.relative_to(here).parts[0])
        return f". It is in {place}/: install your project, or set PYTHONPATH={place}"
    return ""


def _is_own(entry: str) -> bool:
    """Whether an entry of Python's path is a folder of the project, and not of an environment in it."""
    path = Path(entry).absolute()
    within = [each for each in (sys.prefix, sys.base_prefix) if Path(each).is_relative_to(folder())]
    return path.is_relative_to(folder()) and not any(map(path.is_relative_to, within))


def use(chosen: Path | None = None) -> None:
    """Use a project, by default the current folder, in this process and its children."""
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
    """Use the project of a sweep or of a single run, in whichever folder the command is typed.

    It is that of `of_results`; without a noted one the current folder.

    Args:
        results: folder of the sweep or of the run.
        trainables: their names.
        where: begins the message, as `--resume results/NAME`.

    Raises:
        UserError: the noted folder is missing, or another user's.
    """
    global _results
    _results = results
    found = of_results(results, trainables)
    if found is not None and not os.access(found, os.X_OK):
        raise UserError(
            f"{where}: the project's folder {found} is missing; it was moved or deleted, or is another "
            f"user's. Run the command in the folder that has {' and '.join(trainables)} now"
        )
    use(found)


def of_results(results: Path, trainables: Sequence[str]) -> Path | None:
    """The project of a sweep or of a single run; None where none is noted.

    It is the first folder that has the trainables: one above the results (a project may be moved or copied
    with them), the noted one, the current one. Where none has them it is the noted one, which may be missing.
    """
    if (noted := noted_in(results)) is None:
        return None
    places = [*results.resolve().parents, Path(noted), Path.cwd()]
    # That of another user may be one in which this user can't even look for a file.
    open_ones = (each for each in places if os.access(each, os.X_OK))
    return next((each for each in open_ones if all(file_in(each, name) for name in trainables)), Path(noted))


def results_used() -> Path | None:
    """The folder of the sweep or of the single run whose project was noted and is used."""
    return _results


def noted_in(results: Path) -> str | None:
    """The project's folder in the record of a sweep or the settings of a single run; None without one."""
    with contextlib.suppress(OSError, ValueError, AttributeError, yaml.YAMLError):
        if (results / FIT_FILE).is_file():
            return load_yaml((results / FIT_FILE).read_text()).get(KEY) or None
        with (results / JOURNAL).open() as journal:  # its first lines hold all attributes of the sweep
            # One by one: one behind it may be in writing, or was when its process was killed.
            head = (json.loads(line).get("user_attr", {}) for line in itertools.islice(journal, 32))
            return next((str(each[KEY]) for each in head if KEY in each), None)
    return None


def in_results(given: str, file: str) -> Path:
    """The folder of this path that has the file, else the one of this name in results/ that has it, else the
    one of the two that is there. A folder beside results/ that has another purpose hides none.

    Raises:
        UserError: this user may not look there, or the name is too long.
    """
    folder, named = Path(given).expanduser(), Path(RESULTS, given)
    try:
        is_missing = not is_file(folder / file)
        is_named = is_file(named / file) or (named.is_dir() and not folder.exists())
    except OSError as error:
        raise UserError(f"{given}: {error.strerror}") from None
    return named if given and is_missing and is_named else folder


def is_file(path: Path) -> bool:
    """Whether a file is there, or in a folder that only others may read: what reads it says so."""
    return is_closed(path) or path.is_file()


def is_closed(path: Path) -> bool:
    """Whether this user may not even see whether a file is there."""
    try:
        path.stat()
    except PermissionError:
        return True
    except OSError:
        pass
    return False


def newest_in_results(file: str) -> Path | None:
    """The folder in results/ whose file of this name has changed last; None where there is none."""
    newest = max(Path(RESULTS).glob(f"[!.]*/{file}"), key=lambda path: path.stat().st_mtime, default=None)
    return None if newest is None else newest.parent


def to_note() -> str | None:
    """The project's folder, for a record; None in a Ray job, which has a temporary copy."""
    return None if RAY_JOB in os.environ else str(folder())


def within(places: Iterable[str]) -> list[str]:
    """Files and folders relative to the project's folder where they are in it."""
    paths = [Path(path).expanduser().absolute() for path in places]
    here = folder()
    return [str(path.relative_to(here) if path.is_relative_to(here) else path) for path in paths]


def file_in(project: Path, name: str) -> Path | None:
    """The file of a trainable in a project's folder, by its name, its dotted path, or behind a prefix; of a
    command the first file that it names."""
    name = name.split(":")[1] if ":" in name else name
    if " " in name:
        words = [word for word in name.split() if word[0] != "/" and len(word) <= MOST_CHARACTERS]
        return next((project / word for word in words if (project / word).is_file()), None)
    return module_file(name, [*([] if "." in name else [project / TRAINABLES]), project])


def module_file(name: str, places: Iterable[Path]) -> Path | None:
    """The file of a module in the first of some folders that has it; None in none. It is not imported."""
    below = [place.joinpath(*name.split(".")) for place in places]
    files = (file for each in below for file in (each / "__init__.py", each.with_name(f"{each.name}.py")))
    return next((file for file in files if file.is_file()), None)


def dotted(file: Path) -> str:
    """The dotted path of a file; for one outside the project, its own project is used."""
    parts = _parts(file, folder())
    if parts is None:
        root = file.parent
        while (root / "__init__.py").is_file():
            root = root.parent
        use(root)
        parts = _parts(file, root)
    if parts is None:
        stem = re.sub(r"\W", "_", file.stem)
        raise UserError(
            f"{shown_path(file)}: Python imports no file of this name; use letters, digits and _ only, and "
            f"no digit first, as in {stem if stem.isidentifier() else f'model_{stem}'}.py"
        )
    return ".".join(parts)


def _parts(file: Path, root: Path) -> tuple[str, ...] | None:
    """A file's packages and module below a folder; None where Python can't import it from there."""
    if not file.is_relative_to(root):
        return None
    parts = file.relative_to(root).with_suffix("").parts
    return parts if all(part.isidentifier() for part in parts) else None
