"""A Hydra project as a trainable: `hydra:configs/train:trainer=cpu`, or by its program: `hydra:src/train.py`.

Hydra composes its settings; `hydra.utils.instantiate` builds the model, the data and the callbacks, where the
project's own program calls it. The hyperparameters are the paths of the settings, as in Hydra's overrides;
those that are computed from others, by `${...}` or by the program, follow them.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeps.common import project
from sweeps.common.errors import CannotTrain, UserError, reason_of
from sweeps.common.yaml_values import is_number, nearest
from sweeps.kinds.projects import settings_tree
from sweeps.kinds.projects.configured_project import ConfiguredProject, ProjectSettings
from sweeps.kinds.projects.project_program import Built
from sweeps.kinds.trainer_options import FREE

OVERRIDE = re.compile(r"~|\+{0,2}[\w./@-]+=")
VARIABLE = re.compile(r"\$\{oc\.env:(\w+)")
TARGET = "_target_"
DATA = ("data", "datamodule", "data_module")
"""Names of the section of the data module, the first one that is there."""


def found_project(name: str, flag: str, given: str, overrides: Sequence[str]) -> HydraProject:
    """The project of a folder with settings, or of a program."""
    from sweeps.kinds.projects import hydra_program

    hydra_program.set_hydra_config(str(project.folder()))
    if given.endswith(".py"):
        if not (file := _in_project(given)).is_file():
            raise UserError(f"{flag}: no such file. Give a program, CONFIG_DIR or CONFIG_DIR/NAME")
        return _of_program(name, flag, file, overrides)
    place, why = _find_settings(flag, given), ""
    programs = find_programs(*place)
    if len(programs) == 1:
        try:
            return _of_program(name, flag, programs[0], overrides, place)
        except UserError as error:
            why = f"not run: {str(error).removeprefix(f'{flag}: ')}"
    elif programs:
        listed = project.within(map(str, programs))
        why = f"not run, since there are several: {', '.join(listed)}; give one, as --hydra {listed[0]}"
    tree = hydra_program.plain(_composed(flag, *place, overrides))
    return HydraProject(name, _settings(tree), [_primary_file(*place)], why_no_program=why)


def _of_program(
    name: str, flag: str, file: Path, overrides: Sequence[str], found: tuple[Path, str] | None = None
) -> HydraProject:
    """The project of a program, by default with the settings that it names itself."""
    from sweeps.kinds.projects import hydra_program

    files: list[str] = []
    tree: dict[str, Any] = {}

    def settings(path: str | None, primary: str | None) -> Any:
        nonlocal files, tree
        place = found or _find_settings(flag, str(file.parent / (path or "") / (primary or "")))
        config = _composed(flag, *place, overrides)
        files, tree = [_primary_file(*place)], hydra_program.plain(config)
        return config

    program = project.dotted(file)
    logging.disable(logging.INFO)  # "Seed set to 3" for each combination of options
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            config, _ = hydra_program.run(program, settings)
    except UserError:
        raise
    except CannotTrain as error:
        raise UserError(f"{flag}: {error}") from None
    except (Exception, SystemExit) as error:
        reason = f"{reason_of(error)}{project.is_elsewhere(error)}"
        why = f"python -m {program} ends {hydra_program.SHORT_OF}: {reason}"
        raise UserError(f"{flag}: {why}") from None
    finally:
        logging.disable(logging.NOTSET)
    before = dict(settings_tree.leaves(tree))
    after = settings_tree.leaves(hydra_program.plain(config))
    # Hydra's value of a setting that has none is "???".
    computed = {path: value for path, value in after if before.get(path, "???") != value}
    return HydraProject(name, _settings(tree, program, computed), files)


def _settings(
    tree: Mapping[str, Any], program: str = "", computed: Mapping[str, Any] | None = None
) -> ProjectSettings:
    used = VARIABLE.findall(json.dumps(tree))
    return ProjectSettings(
        program=program,
        tree=tree,
        computed=computed or {},
        folder=str(project.folder()),
        variables={name: os.environ[name] for name in used if name in os.environ},
    )


def find_programs(folder: Path, name: str) -> list[Path]:
    """The programs of the project with these settings in their `hydra.main`, or else with this folder."""
    here = project.folder()
    files = {
        file
        for place, pattern in ((folder.parent, "*.py"), (here, "*.py"), (here, "*/*.py"), (here, "*/*/*.py"))
        for file in place.glob(pattern)
        if file.is_file()  # and no link to nothing
        and file.is_relative_to(here)
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


def folders_of(given: str) -> list[Path]:
    """The folders of the settings that are meant by a folder or a program, as far as they are written out."""
    path = _in_project(given)
    if given.endswith(".py"):
        found = (
            [(path.parent / folder).resolve() for folder, _ in _settings_of(path)] if path.is_file() else []
        )
        return list(dict.fromkeys(found))
    return [path if path.is_dir() else path.parent]


def _in_project(given: str) -> Path:
    return (project.folder() / Path(given).expanduser()).absolute()


def _find_settings(flag: str, given: str) -> tuple[Path, str]:
    """The folder of the settings, absolute, and the name of the primary file."""
    path = _in_project(given)
    if path.is_dir():
        names = sorted(file.stem for file in path.glob("*.yaml"))
        found = [name for name in ("config", "train") if name in names] or (names if len(names) == 1 else [])
        if not found:
            listed = ", ".join(f"{given}/{name}" for name in names) or "none is there"
            raise UserError(f"{flag}: give the primary file too: {listed}")
        return path, found[0]
    path = path.with_suffix("") if path.suffix == ".yaml" else path
    if path.with_suffix(".yaml").is_file():
        return path.parent, path.name
    if not path.parent.is_dir():
        raise UserError(f"{flag}: no such folder: {path.parent}. Give CONFIG_DIR or CONFIG_DIR/NAME")
    names = [file.stem for file in path.parent.glob("*.yaml")]
    hint = nearest(path.name, names)
    raise UserError(
        f"{flag}: {path.parent} has no {path.name}.yaml.{hint} Files: {', '.join(names) or 'none'}"
    )


def _primary_file(folder: Path, name: str) -> str:
    return project.within([str(folder / f"{name}.yaml")])[0]


def _composed(flag: str, folder: Path, name: str, overrides: Sequence[str]) -> Any:
    """The settings.

    Raises:
        UserError: Hydra can't compose them, or a section is missing or no section.
    """
    from sweeps.kinds.projects import hydra_program

    try:
        config = hydra_program.compose_settings(folder, name, overrides)
    except Exception as error:  # Hydra's and OmegaConf's have several classes
        wrong = flag
        with contextlib.suppress(Exception):
            hydra_program.compose_settings(folder, name, ())
            wrong = f"--hydra-overrides {' '.join(overrides)}" if overrides else flag
        raise UserError(f"{wrong}: {type(error).__name__}: {' '.join(str(error).split())}") from None
    found = hydra_program.plain(config)
    sections = ("model", *DATA, "trainer", "callbacks")
    if faults := [n for n in sections if found.get(n) is not None and not isinstance(found[n], Mapping)]:
        raise UserError("\n".join(f"{flag}: {n} is {found[n]!r}, and must be a section" for n in faults))
    lacking = [
        part for part in (("model",), DATA) if not any(TARGET in (found.get(each) or {}) for each in part)
    ]
    if lacking:
        words = ", and none of ".join(", ".join(part) for part in lacking)
        raise UserError(
            f"{flag}: no section of {words} with a {TARGET}: it has {', '.join(map(str, found))}. Where "
            "yours have other names, sweep the program: --command 'python PROGRAM.py {args_no_hyphens}'"
        )
    return config


def parts_of(name: str) -> tuple[str, list[str]]:
    """The folder or the program of a name, and the overrides behind it, whose values may have colons
    themselves, as `url=s3://bucket`."""
    _, given, *parts = name.split(":")
    found: list[str] = []
    for part in parts:
        if found and not OVERRIDE.match(part):
            found[-1] += f":{part}"
        else:
            found.append(part)
    return given, found


class HydraProject(ConfiguredProject):
    """A project whose settings Hydra composes.

    Args:
        why_no_program: for the plan, where one was found.
    """

    kind = "hydra"
    class_key = TARGET
    callbacks_path = "callbacks"
    seed = "seed"
    not_swept = ("hydra", "paths", "logger", "callbacks", "defaults")
    best_file = "best.yaml"

    def __init__(
        self, name: str, settings: ProjectSettings, files: Sequence[str] = (), why_no_program: str = ""
    ) -> None:
        super().__init__(name, settings, files)
        self._why_no_program = why_no_program
        module, _, trainer = str(self.trainer.get(TARGET, "")).rpartition(".")
        self.own_trainer = "" if module.startswith(("lightning", "pytorch_lightning")) else trainer

    def check(self, values: Mapping[str, Any]) -> None:
        for path, value in values.items():
            own = self.hyperparameters.get(path)
            # A bound that is off may be infinite.
            if is_number(own) and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise ValueError(f"{path}: {value!r}: must be a number, as {own} in the settings")

    def build(self, tree: dict[str, Any]) -> Built:
        from sweeps.kinds.projects import hydra_program

        for name, value in self.settings.variables.items():
            os.environ.setdefault(name, value)
        config = hydra_program.config_of(tree)
        hydra_program.set_hydra_config(self.settings.folder)
        data = next(name for name in DATA if TARGET in (config.get(name) or {}))
        built: Mapping[str, Any] = {}
        if program := self.settings.program:
            config, built = hydra_program.run(program, lambda *_: config, ("model", data))
        made = [
            built[name] if name in built else hydra_program.instantiated(config[name])
            for name in (data, "model")
        ]
        of_trainer = {name: config.trainer[name] for name in FREE if name in self.trainer}
        callbacks = [hydra_program.instantiated(config.callbacks[name]) for name in self.taken_callbacks]
        return Built(made[1], made[0], {**of_trainer, "callbacks": callbacks})

    def words(self, folder: str) -> str:
        return f"your program with --config-dir {folder} --config-name {Path(self.best_file).stem}"

    def faults(self) -> Iterator[str]:
        """Of what a trial is built of: classes that can't be imported, and values that can't be computed."""
        from sweeps.kinds.projects import hydra_program

        built = {name: self.tree[name] for name in ("model", *DATA) if name in self.tree}
        for path, value in settings_tree.leaves({**built, "callbacks": self.taken_callbacks}):
            is_class = path.rpartition(".")[2] == TARGET and not settings_tree.is_reference(value)
            if is_class and (why := hydra_program.why_lost(str(value))):
                yield f"{path} {value}: {why}"
        paths = [*built, *(f"callbacks.{name}" for name in self.taken_callbacks)]
        paths += [f"trainer.{name}" for name in FREE if name in self.trainer]
        own = self.settings
        for path, why in hydra_program.unresolved(own.tree, own.computed, paths, bool(own.program)):
            advice = "If your program provides it, give the program: --hydra src/train.py"
            no_program = f"The program is {self._why_no_program}" if self._why_no_program else advice
            yield f"{path}: {why}. {no_program}"

    def notes(self) -> list[tuple[str, str]]:
        not_run = "not run; where yours computes settings, give it: --hydra src/train.py"
        said = f"{self.settings.program}: run in each trial until it has built the model and its data"
        said = said if self.settings.program else self._why_no_program or not_run
        return [("program", said), *super().notes()]

    def why_not(self, path: str) -> str:
        if why := super().why_not(path):
            group = path.replace(".", "/")
            found = [each.stem for folder in self._folders for each in folder.glob(f"{group}/*.yaml")]
            if choices := sorted(found):
                return f"a config group; fix it by --hydra-overrides {path}={choices[0]}"
            return why
        return ""

    @property
    def _folders(self) -> list[Path]:
        """Of its settings."""
        return [(project.folder() / file).parent for file in self.files]
