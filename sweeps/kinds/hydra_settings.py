"""The settings of a Hydra project: where they and its programs are, and what Hydra composes of them."""

from __future__ import annotations

import ast
import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeps.common import project
from sweeps.common.errors import UserError, causes
from sweeps.common.yaml_values import nearest

TARGET = "_target_"
DATA = ("data", "datamodule", "data_module")
"""Names of the section of the data module, the first one that is there."""
DEFAULT_NAMES = ("config", "train")


def find_settings(flag: str, given: str) -> tuple[Path, str]:
    """The folder of the settings, absolute, and the name of the primary file."""
    path = (project.folder() / Path(given).expanduser()).absolute()
    if path.is_dir():
        names = sorted(file.stem for file in path.glob("*.yaml"))
        found = [name for name in DEFAULT_NAMES if name in names] or (names if len(names) == 1 else [])
        if not found:
            listed = ", ".join(f"{given}/{name}" for name in names) or "none is there"
            raise UserError(f"{flag}: give the primary file too: {listed}")
        return path, found[0]
    path = path.with_suffix("") if path.suffix == ".yaml" else path
    if path.with_suffix(".yaml").is_file():
        return path.parent, path.name
    names = [file.stem for file in path.parent.glob("*.yaml")]
    if not path.parent.is_dir():
        raise UserError(f"{flag}: no such folder: {path.parent}. Give CONFIG_DIR or CONFIG_DIR/NAME")
    hint = nearest(path.name, names)
    raise UserError(
        f"{flag}: {path.parent} has no {path.name}.yaml.{hint} Files: {', '.join(names) or 'none'}"
    )


def compose_settings(flag: str, folder: Path, name: str, overrides: Sequence[str]) -> Any:
    """The settings."""
    import hydra
    from hydra.core.global_hydra import GlobalHydra

    def compose(given: Sequence[str]) -> Any:
        GlobalHydra.instance().clear()
        with hydra.initialize_config_dir(str(folder), version_base=None):
            return hydra.compose(name, [*given])

    try:
        config = compose(overrides)
    except Exception as error:  # Hydra's and OmegaConf's have several classes
        wrong = flag
        with contextlib.suppress(Exception):
            compose(())
            wrong = f"--hydra-overrides {' '.join(overrides)}" if overrides else flag
        raise UserError(f"{wrong}: {type(error).__name__}: {' '.join(str(error).split())}") from None
    found = plain(config)
    sections = ("model", *DATA, "trainer", "callbacks")
    if faults := [n for n in sections if found.get(n) is not None and not isinstance(found[n], Mapping)]:
        raise UserError("\n".join(f"{flag}: {n} is {found[n]!r}, and must be a section" for n in faults))
    lacking = [
        part for part in (("model",), DATA) if not any(TARGET in (found.get(each) or {}) for each in part)
    ]
    if lacking:
        words = ", and none of ".join(", ".join(part) for part in lacking)
        raise UserError(f"{flag}: no section of {words} with a {TARGET}: it has {', '.join(map(str, found))}")
    return config


def find_programs(folder: Path, name: str) -> list[Path]:
    """The programs of the project with these settings in their `hydra.main`, or else with this folder."""
    here = project.folder()
    files = {
        file
        for place, pattern in ((folder.parent, "*.py"), (here, "*.py"), (here, "*/*.py"), (here, "*/*/*.py"))
        for file in place.glob(pattern)
        if file.is_relative_to(here)
        and all(part.isidentifier() for part in file.relative_to(here).with_suffix("").parts)
    }
    found = {
        file: own
        for file in sorted(files)
        for path, own in _settings_of(file)
        if (file.parent / path).resolve() == folder.resolve()
    }
    return [file for file, own in found.items() if own == name] or list(found)


def _settings_of(file: Path) -> Iterator[tuple[str, str]]:
    """The folder and the name in each `hydra.main` of a program, as far as they are written out."""
    text = file.read_text(errors="replace")
    with contextlib.suppress(SyntaxError):
        for node in ast.walk(ast.parse(text) if "hydra" in text else ast.Module([], [])):
            for call in getattr(node, "decorator_list", ()):
                if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("main"):
                    given = dict(zip(("config_path", "config_name"), call.args, strict=False))
                    given |= {str(each.arg): each.value for each in call.keywords}
                    texts = {key: each.value for key, each in given.items() if isinstance(each, ast.Constant)}
                    if isinstance(path := texts.get("config_path"), str):
                        yield path, str(texts.get("config_name")).removesuffix(".yaml")


def plain(config: Any) -> dict[str, Any]:
    """Settings with lists and dicts in place of OmegaConf's, whose references to others are not resolved."""
    from omegaconf import OmegaConf

    found: Any = OmegaConf.to_container(config, resolve=False, enum_to_str=True)
    return dict(found)


def resolved(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values with lists and dicts in place of OmegaConf's."""
    from omegaconf import OmegaConf

    found: Any = OmegaConf.to_container(OmegaConf.create(dict(values)), resolve=True)
    return dict(found)


def why_lost(target: str) -> str:
    """Why a class or function can't be imported; "" where it can."""
    import hydra

    logging.disable(logging.ERROR)  # Hydra would log the error, too
    try:
        hydra.utils.get_object(target)
    except Exception as error:  # whatever the module raises
        first = next((each for each in causes(error) if isinstance(each, ImportError)), error)
        return " ".join(str(first).split())
    finally:
        logging.disable(logging.NOTSET)
    return ""


def path_from_project(path: Path) -> Path:
    here = project.folder()
    return path.relative_to(here) if path.is_relative_to(here) else path
