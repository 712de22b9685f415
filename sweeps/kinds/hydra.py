"""A Hydra project as a trainable: `hydra:configs/train:trainer=cpu`, or by its program: `hydra:src/train.py`.

Hydra composes its settings; `hydra.utils.instantiate` builds the model, the data and the callbacks, where the
project's own program calls it. The hyperparameters are the paths of the settings, as in Hydra's overrides;
those that are computed from others, by `${...}` or by the program, follow them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from sweeps.common import project
from sweeps.common.errors import UserError, first_line
from sweeps.common.formatting import pip_install
from sweeps.kinds import settings_tree
from sweeps.kinds.configured_project import OF_TRAINER, Built, ConfiguredProject, of_fit, spec_of, why_owned
from sweeps.kinds.hydra_settings import (
    DATA,
    TARGET,
    compose_settings,
    find_programs,
    find_settings,
    path_from_project,
    plain,
    resolved,
    why_lost,
)
from sweeps.kinds.trainable import Description
from sweeps.kinds.trainer_options import FREE

NAME = "hydra"
NEEDS = "hydra"
BEST_FILE = "best.yaml"
NOT_SWEPT = ("hydra", "paths", "logger", "callbacks", "trainer", "seed", "ckpt_path", "defaults")
"""Sections that this program sets, that say where files are, or of which only a part is swept."""
OVERRIDE = re.compile(r"~|\+{0,2}[\w./@-]+=")
VARIABLE = re.compile(r"\$\{oc\.env:(\w+)")
OWN_RESOLVER = re.compile(r"\$\{(?!oc\.|hydra:|now:)[\w.]+:")
"""Of a project, since OmegaConf and Hydra have the others."""
ADVICE = "If your program provides it, give the program: --hydra src/train.py"
MISSING = "???"
"""The value of a setting that has none."""


def find(name: str) -> HydraProject:
    """The trainable of `hydra:CONFIG_DIR/NAME`, or of a program, behind which there may be overrides, each
    after a colon.

    Raises:
        UserError: the folder, a file or a package is missing, or Hydra can't compose the settings.
    """
    _, given, *parts = name.split(":")
    overrides = _overrides(parts)
    flag = f"--hydra {given}"
    if importlib.util.find_spec(NEEDS) is None:
        raise UserError(f"{flag}: hydra is not installed: {pip_install('hydra-core')}")
    found = _found(name, flag, given, overrides)
    if faults := [*found.faults_of_targets(), *found.faults_of_references()]:
        raise UserError("\n".join(f"{flag}: {fault}" for fault in faults))
    return found


def load(description: Description) -> HydraProject:
    """The same in another process, whose PC may not have the files and the environment."""
    content = json.loads(description.content)
    for name, value in content.pop("variables").items():
        os.environ.setdefault(name, value)
    return HydraProject(description.name, **content)


def _found(name: str, flag: str, given: str, overrides: Sequence[str]) -> HydraProject:
    """The project of a folder with settings, or of a program."""
    from sweeps.kinds import hydra_program

    place, composed = None, None
    if given.endswith(".py"):
        programs = [(project.folder() / Path(given).expanduser()).absolute()]
        if not programs[0].is_file():
            raise UserError(f"{flag}: no such file. Give a program, CONFIG_DIR or CONFIG_DIR/NAME")
    else:
        place = find_settings(flag, given)
        programs = find_programs(*place)

    def settings(path: str | None, primary: str | None) -> Any:
        nonlocal place, composed
        if place is None:
            place = find_settings(flag, str(programs[0].parent / (path or "") / (primary or "")))
        composed = compose_settings(flag, *place, overrides)
        return composed.copy()

    here, program, computed, why = str(project.folder()), "", {}, ""
    hydra_program.set_hydra_config(here)
    if len(programs) == 1:
        program = project.dotted(programs[0])
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                run = hydra_program.run(program, settings)
            computed = _changed(plain(composed), plain(run.config))
        except hydra_program.ProgramFailed as error:
            if place is None or given.endswith(".py"):
                raise UserError(f"{flag}: {error}") from None
            program, why = "", f"not run: {error}"
    elif programs:
        listed = [str(path_from_project(file)) for file in programs]
        why = f"not run, since there are several: {', '.join(listed)}; give one, as --hydra {listed[0]}"
    assert place is not None
    if composed is None:
        try:
            composed = compose_settings(flag, *place, overrides)
        except UserError as error:
            raise UserError(f"{error}. The program is {why}" if why else str(error)) from None
    file = place[0] / f"{place[1]}.yaml"
    return HydraProject(
        name,
        plain(composed),
        (str(path_from_project(file)),),
        program,
        computed,
        here,
        why,
    )


def _overrides(parts: Sequence[str]) -> list[str]:
    """The overrides behind the path, whose values may have colons themselves, as `url=s3://bucket`."""
    found: list[str] = []
    for part in parts:
        if found and not OVERRIDE.match(part):
            found[-1] += f":{part}"
        else:
            found.append(part)
    return found


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Path to value of what is another one, or new."""
    known = dict(settings_tree.leaves(before))
    return {path: value for path, value in settings_tree.leaves(after) if known.get(path, MISSING) != value}


class HydraProject(ConfiguredProject):
    """A project whose settings Hydra composes.

    Args:
        name: as it was given to the command.
        tree: settings, whose references to others are not resolved.
        files: the primary file; () in another process, which checks no values.
        program: module of the project's own program; "" where none is run.
        computed: settings that it has set before it instantiates anything, by path.
        folder: in which the command was typed.
        why_no_program: for the plan.
    """

    class_key = TARGET
    what = "the settings"

    def __init__(
        self,
        name: str,
        tree: Mapping[str, Any],
        files: tuple[str, ...] = (),
        program: str = "",
        computed: Mapping[str, Any] | None = None,
        folder: str = "",
        why_no_program: str = "",
    ) -> None:
        self._program, self._computed, self._folder = program, computed or {}, folder
        self._why_no_program = why_no_program
        super().__init__(NAME, name, tree, files)

    @property
    def content(self) -> Mapping[str, Any]:
        used = VARIABLE.findall(json.dumps(self.tree))
        return {
            "tree": self.tree,
            "program": self._program,
            "computed": self._computed,
            "folder": self._folder,
            "variables": {name: os.environ[name] for name in used if name in os.environ},
        }

    @cached_property
    def hyperparameters(self) -> dict[str, Any]:
        kept = {key: value for key, value in self.tree.items() if key not in NOT_SWEPT and value is not None}
        of_trainer = {name: self.trainer[name] for name in OF_TRAINER if name in self.trainer}
        callbacks = {
            name: each for name, each in self._callbacks().items() if not why_owned(str(each[TARGET]))
        }
        found = settings_tree.leaves({**kept, "trainer": of_trainer, "callbacks": callbacks})
        return {
            path: value
            for path, value in found
            if not settings_tree.is_reference(value) and path not in self._computed
        }

    @property
    def callbacks(self) -> Sequence[tuple[str, Mapping[str, Any]]]:
        return [(str(each[TARGET]), each) for each in self._callbacks().values()]

    @property
    def own_trainer(self) -> str:
        module, _, name = str(self.trainer.get(TARGET, "")).rpartition(".")
        return "" if module.startswith(("lightning", "pytorch_lightning")) else name

    def check(self, values: Mapping[str, Any]) -> None:
        for path, value in values.items():
            own = self.hyperparameters.get(path)
            is_number = isinstance(own, int | float) and not isinstance(own, bool)
            if is_number and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise ValueError(f"{path}: {value!r}: must be a number, as {own} in the settings")

    def build(self, values: Mapping[str, Any]) -> Built:
        from omegaconf import OmegaConf

        from sweeps.kinds import hydra_program

        config: Any = OmegaConf.create(settings_tree.with_values(self.tree, {}, values))
        hydra_program.set_hydra_config(self._folder)
        data = next(name for name in DATA if TARGET in (config.get(name) or {}))
        built: Mapping[str, Any] = {}
        if self._program:
            try:
                run = hydra_program.run(self._program, lambda *_: config, ("model", data))
                config, built = run.config, run.built
            except hydra_program.ProgramFailed as error:  # it may need files that only the driver's PC has
                if self._needs_program:
                    raise
                print(f"{error}. Its settings need nothing of it.", flush=True)
        made = [
            built[name] if name in built else hydra_program.instantiated(config[name])
            for name in (data, "model")
        ]
        of_trainer = resolved({name: config.trainer[name] for name in FREE if name in self.trainer})
        kept = [name for name, each in self._callbacks().items() if not why_owned(str(each[TARGET]))]
        callbacks = [hydra_program.instantiated(config.callbacks[name]) for name in kept]
        return Built(made[1], made[0], {**of_trainer, "callbacks": callbacks})

    @property
    def _needs_program(self) -> bool:
        """Whether the settings are not complete without what the program does."""
        is_missing = any(value == MISSING for _, value in settings_tree.leaves(self.tree))
        return bool(self._computed or OWN_RESOLVER.search(json.dumps(self.tree))) or is_missing

    def export(self, values: Mapping[str, Any], fit: Mapping[str, Any], folder: str) -> dict[str, str]:
        tree = settings_tree.with_values(self.tree, {}, values)
        tree["trainer"] = {**(tree.get("trainer") or {}), **of_fit(tree, fit)}
        tree |= {"seed": fit["seed"]} if "seed" in tree else {}
        words = f"your program with --config-dir {folder} --config-name {Path(BEST_FILE).stem}"
        return {BEST_FILE: f"# Train it again: {words}\n{yaml.safe_dump(tree, sort_keys=False)}"}

    def modules(self) -> Iterator[str]:
        if self._program:
            yield self._program
        for path, value in settings_tree.leaves(self.tree):
            parts = str(value).split(".")
            if path.rpartition(".")[2] == TARGET:  # a class, or a method of one
                yield from (name for end in (1, 2) if spec_of(name := ".".join(parts[:-end])) is not None)

    def faults_of_targets(self) -> Iterator[str]:
        """Classes of what a trial is built of that can't be imported, with the reason."""
        built = {name: self.tree[name] for name in ("model", *DATA) if name in self.tree}
        built |= {
            "callbacks": {n: each for n, each in self._callbacks().items() if not why_owned(each[TARGET])}
        }
        for path, value in settings_tree.leaves(built):
            is_class = path.rpartition(".")[2] == TARGET and not settings_tree.is_reference(value)
            if is_class and (why := why_lost(str(value))):
                yield f"{path} {value}: {why}"

    def faults_of_references(self) -> Iterator[str]:
        """Settings of what a trial is built of whose values can't be computed, with the reason."""
        from omegaconf import OmegaConf, errors

        config: Any = OmegaConf.create(dict(self.tree))
        for path, value in self._computed.items():
            OmegaConf.update(config, path, value)
        callbacks = [f"callbacks.{n}" for n, each in self._callbacks().items() if not why_owned(each[TARGET])]
        trainer = [f"trainer.{name}" for name in FREE if name in self.trainer]
        for path in ("model", *(name for name in DATA if name in self.tree), *callbacks, *trainer):
            try:
                section = OmegaConf.select(config, path)
                if OmegaConf.is_config(section):
                    OmegaConf.to_container(section, resolve=True)
            except errors.OmegaConfBaseException as error:
                is_later = self._program and not isinstance(error, errors.UnsupportedInterpolationType)
                if not is_later:  # else the program may set it when it has built the data
                    why = f"The program is {self._why_no_program}" if self._why_no_program else ""
                    yield f"{error.full_key}: {first_line(error)}. {why or ADVICE}"

    def notes(self) -> list[tuple[str, str]]:
        said = f"{self._program}: run in each trial until it has built the model and its data"
        given = said if self._program else self._why_no_program
        return [*([("program", given)] if given else []), *super().notes()]

    def why_not_here(self, path: str, value: Any) -> str:
        if path in self._computed:
            return f"{self._program} sets it"
        if path in ("seed", "ckpt_path"):
            return f"the sweep sets it{': give --seed' if path == 'seed' else ''}"
        if choices := self._choices(path):
            each = f"--hydra-overrides {path}={choices[0]}"
            return f"a config group can't be swept; give each choice a sweep of its own, as {each}"
        first, _, rest = path.partition(".")
        callback = self._callbacks().get(rest.partition(".")[0]) if first == "callbacks" else None
        return (
            "it can't be taken, in place of this callback" if callback and why_owned(callback[TARGET]) else ""
        )

    def _choices(self, path: str) -> list[str]:
        """The files of a config group beside the primary file; [] where there is no such group."""
        group = path.replace(".", "/")
        return sorted(
            file.stem
            for primary in self.files
            for file in (project.folder() / primary).parent.joinpath(group).glob("*.yaml")
        )

    def _callbacks(self) -> dict[str, Mapping[str, Any]]:
        given = self.tree.get("callbacks") or {}
        return {name: each for name, each in given.items() if isinstance(each, Mapping) and TARGET in each}
