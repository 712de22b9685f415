"""What Hydra does for a project: it composes its settings, builds its objects, and runs its own program.

What the program does before it is left has its effect: resolvers that it registers, stored configs, values
that it computes. Its `hydra.main` gets the settings from here, and writes no output folder. It is left at the
first object that it builds, or where it has built those of a trial, or would use its Trainer. Public
functions of Hydra and methods of Lightning are replaced meanwhile.
https://hydra.cc/docs/advanced/hydra-command-line-flags/
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from lightning.pytorch import Trainer, seed_everything
from omegaconf import OmegaConf, errors, open_dict, read_write

from sweeps.common import local_dirs, project
from sweeps.common.errors import causes, first_line, innermost
from sweeps.kinds.projects.project_program import ProgramRun

INSTANTIATE, REGISTER = hydra.utils.instantiate, OmegaConf.register_new_resolver
SHORT_OF = "before it instantiates anything"


class HydraRun(ProgramRun):
    """A run of a program, which finds its settings and the objects that it has built of their sections.

    Args:
        settings: gives the settings for the path and the name in its `hydra.main`.
        sections: of the settings, of which objects are to be built; none: only the settings are asked for.
    """

    def __init__(self, settings: Callable[[str | None, str | None], Any], sections: Sequence[str]) -> None:
        super().__init__()
        self._settings, self._sections = settings, sections
        self._config: Any = None
        self._built: dict[str, Any] = {}
        self._seed = os.environ.get("PL_GLOBAL_SEED") if sections else None

    def start(self, task: Callable[[Any], Any], path: str | None, name: str | None) -> Any:
        """Call the function that is decorated with `hydra.main`."""
        try:
            self._config = self._settings(path, name)
        except Exception as error:  # Hydra's, and whatever a resolver of the user's raises
            self.leave(error=error)
        return task(self._config)

    def instantiate(self, config: Any, arguments: Sequence[Any], options: dict[str, Any]) -> Any:
        """Build an object, or leave."""
        if not self._sections or self._config is None or config is self._config.get("trainer"):
            self.end()
        if self._seed is not None:  # the program may have seeded with that of its settings
            seed_everything(int(self._seed), workers=True, verbose=False)
            self._seed = None
        with _running(None):  # what it builds may build further objects
            try:
                found = instantiated(config, *arguments, **options)
            except Exception as error:  # whatever the class of the user's raises
                self.leave(error=error)
        self._built |= {name: found for name in self._sections if config is self._config.get(name)}
        if len(self._built) == len(self._sections):
            self.end()
        return found

    def end(self) -> None:
        """Leave the program with what there is by now."""
        self.leave((self._config, self._built))


_current: HydraRun | None = None


def run(
    module: str, settings: Callable[[str | None, str | None], Any], sections: Sequence[str] = ()
) -> tuple[Any, dict[str, Any]]:
    """Run a program; its settings by then, and section to object. The arguments are those of HydraRun.

    Raises:
        CannotTrain: it has ended by itself.
        Exception: of the settings, of the object that it builds, or of the program.
    """
    replaced: list[tuple[Any, str, Any]] = [
        (hydra, "main", _main),
        (importlib.import_module("hydra.main"), "main", _main),
        (hydra.utils, "instantiate", _instantiate),
        (hydra.utils, "call", _instantiate),
        (OmegaConf, "register_new_resolver", staticmethod(_register)),
        (Trainer, "__init__", lambda self, *_, **__: None),
        (Trainer, "fit", lambda *_, **__: None if _current is None else _current.end()),
    ]
    with _running(new := HydraRun(settings, sections)):
        found: tuple[Any, dict[str, Any]] = new.run(module, replaced, SHORT_OF)
    return found


def instantiated(config: Any, *arguments: Any, **options: Any) -> Any:
    """What a section builds. An error of the user's code is raised as it is, since its class may tell what to
    do, as that of a lack of memory; Hydra wraps it in one of its own."""
    try:
        return INSTANTIATE(config, *arguments, **options)
    except hydra.errors.InstantiationException as error:
        wrapped = innermost(error)
    raise wrapped


def own_options(folder: Path, name: str, overrides: Sequence[str]) -> Mapping[str, str]:
    """The option that settings have of each config group by themselves; none where they can't be composed."""
    try:
        config = compose_settings(folder, name, overrides, of_hydra=True)
    except Exception:  # Hydra's and OmegaConf's have several classes; one group must be given, say
        return {}
    return dict(config.hydra.runtime.choices)


def compose_settings(folder: Path, name: str, overrides: Sequence[str], *, of_hydra: bool = False) -> Any:
    """The settings that Hydra composes of a folder and the name of the primary file, also its own."""
    GlobalHydra.instance().clear()
    with hydra.initialize_config_dir(str(folder), version_base=None):
        return hydra.compose(name, [*overrides], return_hydra_config=of_hydra)


def config_of(tree: Mapping[str, Any]) -> Any:
    """Settings as Hydra has them."""
    return OmegaConf.create(dict(tree))


def unresolved(
    tree: Mapping[str, Any], computed: Mapping[str, Any], paths: Sequence[str], has_program: bool
) -> Iterator[tuple[str, str]]:
    """Settings at paths whose values can't be computed, each with the reason.

    Args:
        tree: settings.
        computed: what the program sets, by path.
        paths: to look at.
        has_program: whether a program may set more when it has built the data.
    """
    config = config_of(tree)
    for path, value in computed.items():
        OmegaConf.update(config, path, value)
    for path in paths:
        try:
            section = OmegaConf.select(config, path)
            if OmegaConf.is_config(section):
                OmegaConf.to_container(section, resolve=True)
        except errors.OmegaConfBaseException as error:
            if not has_program or isinstance(error, errors.UnsupportedInterpolationType):
                yield str(error.full_key), first_line(error)


def plain(config: Any) -> dict[str, Any]:
    """Settings with lists and dicts in place of OmegaConf's, whose references to others are not resolved."""
    found: Any = OmegaConf.to_container(config, resolve=False, enum_to_str=True)
    return dict(found)


def why_lost(target: str) -> str:
    """Why a class or function can't be imported; "" where it can."""
    logging.disable(logging.ERROR)  # Hydra would log the error, too
    try:
        hydra.utils.get_object(target)
    except Exception as error:  # whatever the module raises
        first = next((each for each in causes(error) if isinstance(each, ImportError)), error)
        return " ".join(str(first).split()) + project.is_elsewhere(first)
    finally:
        logging.disable(logging.NOTSET)
    return ""


def set_hydra_config(folder: str) -> None:
    """Give values to references such as `${hydra:runtime.cwd}`. The output folder is one for all trials.

    Args:
        folder: in which the command was typed.
    """
    output = local_dirs.cache_dir() / "hydra"
    output.mkdir(parents=True, exist_ok=True)
    GlobalHydra.instance().clear()
    with hydra.initialize(config_path=None, version_base=None):
        config = hydra.compose(return_hydra_config=True)
    with read_write(config.hydra.runtime), open_dict(config.hydra.runtime):
        config.hydra.runtime.cwd, config.hydra.runtime.output_dir = folder, str(output)
    HydraConfig.instance().set_config(config)


@contextlib.contextmanager
def _running(new: HydraRun | None) -> Iterator[None]:
    global _current
    before, _current = _current, new
    try:
        yield
    finally:
        _current = before


def _main(config_path: str | None = None, config_name: str | None = None, version_base: object = None) -> Any:
    """In the place of `hydra.main`."""

    def decorate(task: Callable[[Any], Any]) -> Callable[..., Any]:
        @functools.wraps(task)
        def decorated(config: Any = None) -> Any:
            if _current is None or config is not None:
                return task(config)
            return _current.start(task, config_path, config_name)

        return decorated

    return decorate


def _instantiate(config: Any, *arguments: Any, **options: Any) -> Any:
    """In the place of `hydra.utils.instantiate`, also later, in modules that the program has imported."""
    if _current is None:
        return INSTANTIATE(config, *arguments, **options)
    return _current.instantiate(config, arguments, options)


def _register(name: str, resolver: Any, *, replace: bool = False, use_cache: bool = False) -> None:
    """In the place of `OmegaConf.register_new_resolver`: this process may run the program again."""
    REGISTER(name, resolver, replace=True, use_cache=use_cache)
