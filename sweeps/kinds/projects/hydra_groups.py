"""A Hydra project, of which config groups may be swept: `hydra:configs/train:model=cnn,mlp`.

Each combination of their options is composed by itself, so that whatever an option changes elsewhere counts.
An option may have settings that others lack: these are hyperparameters of its trials alone.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, Self

from sweeps.common import project
from sweeps.common.errors import CannotTrain, UserError, refuse
from sweeps.common.imports import missing
from sweeps.common.objective import Objective
from sweeps.common.param_types import shown
from sweeps.common.yaml_values import nearest
from sweeps.kinds.projects import hydra, settings_tree
from sweeps.kinds.projects.configured_project import ProjectSettings
from sweeps.kinds.projects.hydra import HydraProject
from sweeps.kinds.projects.project_program import Built
from sweeps.kinds.trainable import Description

MOST_COMBINATIONS = 100
"""Of options: each is composed, and the project's own program run with it."""
GROUP = re.compile(r"([\w./-]+)=([\w./-]+(?:,[\w./-]+)+)")
"""A group with several options, which Hydra itself takes with --multirun only."""


class HydraGroups(HydraProject):
    """A Hydra project with each combination of the options of some config groups, or of none.

    Args:
        name: as it was given to the command.
        groups: name, as in --ranges, to options.
        projects: of each combination, in the order of `itertools.product`.
    """

    def __init__(
        self, name: str, groups: Mapping[str, Sequence[str]], projects: Sequence[HydraProject]
    ) -> None:
        self.groups = groups
        self._projects = dict(zip(itertools.product(*groups.values()), projects, strict=True))
        super().__init__(name, projects[0].settings, projects[0].files)
        settings = [asdict(each.settings) for each in projects]
        content = settings_tree.to_json({"groups": groups, "projects": settings})
        self.description = Description(self.kind, name, content)

    @classmethod
    def find(cls, name: str) -> Self:
        """The trainable of a name, of which an override may have several options.

        Raises:
            UserError: an option does not exist, or what `HydraProject.find` says.
        """
        given, overrides = hydra.parts_of(name)
        found = {each: match for each in overrides if (match := GROUP.fullmatch(each))}
        flag = f"--hydra {given}"
        if fault := missing("hydra", "projects"):
            raise UserError(f"{flag}: {fault}")
        groups = {match[1].replace("/", "."): match[2].split(",") for match in found.values()}
        refuse(list(_faults_of_options(given, groups)))
        if (number := math.prod(map(len, groups.values()))) > MOST_COMBINATIONS:
            raise UserError(
                f"--ranges {' '.join(groups)}: {number:,} combinations of options, at most "
                f"{MOST_COMBINATIONS}; give fewer, or fix a group by --hydra-overrides"
            )
        rest = [each for each in overrides if each not in found]
        faults, projects = list[str](), list[HydraProject]()
        for options in itertools.product(*groups.values()):
            chosen = dict(zip(groups, options, strict=True))
            found_here = _composed(name, flag, given, rest, chosen)
            which = " ".join([flag, *(f"{group}={each}" for group, each in chosen.items())])
            faults += [f"{which}: {fault}" for fault in found_here.faults()]
            projects.append(found_here)
        refuse(faults)
        return cls(name, groups, projects)

    @classmethod
    def load(cls, description: Description) -> Self:
        content = settings_tree.of_json(description.content)
        projects = [HydraProject(description.name, ProjectSettings(**each)) for each in content["projects"]]
        return cls(description.name, content["groups"], projects)

    @cached_property
    def hyperparameters(self) -> dict[str, Any]:
        """The groups, and the paths of all combinations; one that may be lacking has no default."""
        found = {path: each for project in self._all for path, each in project.hyperparameters.items()}
        first = {group: options[0] for group, options in self.groups.items()}
        return first | {path: None if path in self.may_lack else value for path, value in found.items()}

    @cached_property
    def may_lack(self) -> Collection[str]:  # type: ignore[override]  # it follows from the combinations
        """Paths that some combination lacks, or has with another value."""
        first, *others = [project.hyperparameters for project in self._all]
        paths = {path for each in (first, *others) for path in each}
        lacking = object()
        return {
            path
            for path in paths
            if any(each.get(path, lacking) != first.get(path, lacking) for each in others)
        }

    def defaults(self) -> dict[str, Any]:
        """With the options that the project has by itself.

        Raises:
            CannotTrain: they are not among those of the groups.
        """
        from sweeps.kinds.projects import hydra_program

        fixed = [each for each in hydra.parts_of(self.name)[1] if not GROUP.fullmatch(each)]
        primary = project.folder() / self.files[0]
        own = hydra_program.own_options(primary.parent, primary.stem, fixed)
        chosen = {group: own.get(group.replace(".", "/")) for group in self.groups}
        for group, option in chosen.items():
            if option not in self.groups[group]:
                raise CannotTrain(
                    f"the project by itself has no option of {group}"
                    if option is None
                    else f"the project by itself has {group}={option}, which is no option of this sweep"
                )
        return {**chosen, **self._with(chosen).defaults()}

    def hyperparameters_with(self, chosen: Mapping[str, Any]) -> Collection[str]:
        return {*self.groups, *self._with(chosen).hyperparameters}

    def check(self, values: Mapping[str, Any]) -> None:
        for group, options in self.groups.items():
            if str(value := values.get(group, options[0])) not in options:
                listed = f"{nearest(shown(value), options)} Options: {', '.join(options)}"
                raise ValueError(f"{group}: {shown(value)} is no option of this sweep.{listed}")
        self._with(values).check(values)

    def build_with(self, values: Mapping[str, Any]) -> Built:
        project = self._with(values)
        return project.build_with(_values_of(project, values))

    def export(self, values: Mapping[str, Any], fit: Mapping[str, Any], folder: str) -> dict[str, str]:
        project = self._with(values)
        return project.export(_values_of(project, values), fit, folder)

    def fit_settings(self, params: Any) -> dict[str, Any]:
        return self._with(vars(params)).fit_settings(params)

    def notes(self) -> list[tuple[str, str]]:
        """Those of the first combination, then what differs with others, each once."""
        found = dict.fromkeys(self._all[0].notes())
        for options, other in self._projects.items():
            chosen = " ".join(f"{group}={each}" for group, each in zip(self.groups, options, strict=True))
            new = [note for note in other.notes() if note not in found]
            found |= {note: found.get(note) or chosen for note in new}
        return [(title, f"with {words}: {line}" if words else line) for (title, line), words in found.items()]

    def why_not(self, path: str) -> str:
        if path in self.hyperparameters:
            return ""
        if "." not in path and path not in self.tree:
            known = [each.name for folder in self._folders for each in folder.iterdir() if each.is_dir()]
            if hint := nearest(path, known):
                return f"no such hyperparameter or config group.{hint}"
        return self._all[0].why_not(path)

    def sources(self) -> list[tuple[str, Any]]:
        return list(dict.fromkeys(source for project in self._all for source in project.sources()))

    def settings_files(self) -> dict[str, str]:
        files = [project.settings_files() for project in self._all]
        return {name: "---\n".join(each[name] for each in files) for name in files[0]}

    def _monitored(self) -> Objective | None:
        """What all combinations monitor; None where they differ: the user says which metric is compared."""
        first, *others = [project.objective for project in self._all]
        return first if all(each == first for each in others) else None

    @property
    def _all(self) -> list[HydraProject]:
        return list(self._projects.values())

    def _with(self, values: Mapping[str, Any]) -> HydraProject:
        """The project with the options among some values, else the first ones."""
        chosen = (values.get(group, options[0]) for group, options in self.groups.items())
        return self._projects[tuple(map(str, chosen))]


def with_groups(
    name: str, ranges: Mapping[str, Any], *, has_begun: bool = False
) -> tuple[str, dict[str, Any]]:
    """The name of a trainable with the config groups among ranges, and the ranges without fixed groups.

    Raises:
        UserError: a group has a range in place of options, or options that a sweep that has begun lacks.
    """
    given, overrides = hydra.parts_of(name)
    kept = dict[str, Any]()
    for typed, value in ranges.items():
        if not (known := _options_of(given, typed)):
            kept[typed] = value
            continue
        group = typed.replace("/", ".")
        options = list(map(str, value)) if isinstance(value, list) else str(value).split(",")
        if not re.fullmatch(r"[^.,=]+", "".join(options)):
            raise UserError(
                f"--ranges {group}={value}: {group} is a config group, of which options can be given: "
                f"{', '.join(known)}"
            )
        names = [each.partition("=")[0].replace("/", ".") for each in overrides]
        before = next((each for each, of in zip(overrides, names, strict=True) if of == group), "")
        had = [each for each in before.partition("=")[2].split(",") if each]
        new = [option for option in options if option not in had]
        if new and has_begun:
            began = f"the sweep began with {', '.join(had)}" if had else f"the sweep has no range of {group}"
            raise UserError(
                f"--ranges {group}={','.join(options)}: {began}, and a resume takes no new option. To try "
                f"{' and '.join(new)}, start a new sweep with --ranges {group}={','.join([*had, *new])}"
            )
        if new:
            overrides = [*(each for each in overrides if each != before), f"{group}={','.join(options)}"]
        if not new or len(options) > 1:
            kept[group] = value
    return ":".join((HydraGroups.kind, given, *overrides)), kept


def _composed(
    name: str, flag: str, given: str, overrides: Sequence[str], chosen: Mapping[str, str]
) -> HydraProject:
    """The project with an option of each group, also of one that is not in its defaults."""
    options = [f"{group.replace('.', '/')}='{option}'" for group, option in chosen.items()]
    try:
        return hydra.found_project(name, flag, given, [*overrides, *options])
    except UserError as error:
        plain = [each.replace("'", "") for each in options]  # quoted: Hydra takes no number as an option
        added = [
            f"+{each}" if f"use +{as_said}" in str(error) else each
            for each, as_said in zip(options, plain, strict=True)
        ]
        if added == [*options]:
            raise
    return hydra.found_project(name, flag, given, [*overrides, *added])


def _faults_of_options(given: str, groups: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for group, options in groups.items():
        known = _options_of(given, group)
        for option in options:
            if known and option not in known:
                yield (
                    f"--ranges {group}={','.join(options)}: the config group {group} has no {option}."
                    f"{nearest(option, known)} Options: {', '.join(known)}"
                )
        if len(set(options)) < len(options):
            yield f"--ranges {group}={','.join(options)}: an option is given twice"


def _options_of(given: str, group: str) -> list[str]:
    """The options of a config group by its files; [] of anything else."""
    folders = [folder / group.replace(".", "/") for folder in hydra.folders_of(given)]
    return sorted({file.stem for folder in folders for file in folder.glob("*.yaml")})


def _values_of(project: HydraProject, values: Mapping[str, Any]) -> dict[str, Any]:
    return {path: value for path, value in values.items() if path in project.hyperparameters}
