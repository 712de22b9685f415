"""Commands whose first word is a trainable: `sweeps fit fashion_cnn --lr 0.1`."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.common import local_dirs, param_types, project
from sweeps.common.cli import json_output
from sweeps.common.cli import parser as cli_parser
from sweeps.common.errors import UserError, collecting, refuse
from sweeps.common.formatting import command
from sweeps.common.settings import Setting, field_docs, flag, typed
from sweeps.common.yaml_values import ParamValue, nearest
from sweeps.kinds import params_file, registry
from sweeps.kinds.params_file import Recipe
from sweeps.kinds.projects.lightning_cli import FIT
from sweeps.kinds.trainable import Trainable
from sweeps.ray_start import ray_environment

TRAINABLE = "trainable"
"""The first word, for messages."""
PARAMS_HELP = """Hyperparameters as name=value, separated by spaces; or the name of a sweep or of a run in
results/, for those of its best trial and the settings of its training; or a YAML file of them, such as its
best/params.yaml. Flags win."""

HYPERPARAMETER_PREFIX = "params."
"""Before the name of a hyperparameter that its own flag gives."""


@dataclass(frozen=True)
class Typed:
    """The parsed words of a command; the combination of its own flags is not checked yet."""

    trainable: Trainable
    params: dict[str, ParamValue]
    """Hyperparameters of the command line and of `--params FILE`, checked; the command line has priority."""
    faults: list[str]
    """Of hyperparameters that were given and don't fit."""
    settings: dict[str, Any]
    """The command's own flags that were typed, or that files set."""

    def folder_name(self, of: str, *, is_first: bool = True) -> str:
        """The name of the folder, by default as fit-fashion_cnn-20260131-235959."""
        if "name" in self.settings:
            return str(self.settings["name"])
        return registry.new_name([self.trainable.name], f"{of}-", is_first=is_first)


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command that takes a trainable, then its own flags and one for each hyperparameter."""

    name: str
    """Its subcommand, as `fit`."""
    does: str
    """For --help."""
    settings: Mapping[str, Setting]
    """Name to setting, of its own flags."""
    is_of_raw_data: bool = False
    """Whether it takes only trainables whose raw data is prepared, and the hyperparameters of that alone."""
    examples: Sequence[str]
    """For --help: words behind the trainable."""
    fit_settings: Collection[str]
    """Names that `fit` of a `--params FILE` may hold; flags of this command take their values."""

    def read(self, arguments: Sequence[str] | None) -> Typed:
        """Parse the words of the command line.

        Raises:
            UserError: there is no such flag or trainable, or a value has a wrong type.
            SystemExit: after `--help` (status 0).
        """
        tokens = list(sys.argv[1:] if arguments is None else arguments)
        json_output.turn_on_where_asked(tokens)  # the trainable is looked for before the flags are parsed
        first = next((n for n in range(0, len(tokens), 2) if tokens[n] != "-c"), len(tokens))
        is_typed = first < len(tokens) and not tokens[first].startswith("-")
        typed_name = tokens.pop(first) if is_typed else None
        if typed_name is None and {"-h", "--help"} & set(tokens):
            self._parser(None, None).values_of(tokens)
        project.use()
        ahead = _values_ahead(tokens)
        named = _use_project_of_files(ahead.params)
        if typed_name is not None:
            name = registry.cli_name(typed_name, ahead.cli_files) or registry.name_of(typed_name)
            if registry.is_project(name) and tokens[first : first + 1] == [FIT]:  # as its program is called
                del tokens[first]
        else:
            name = named or registry.only(self._choices(), TRAINABLE)
        ray_environment.require_token()  # before the trainable imports Ray: its data may be prepared by Ray
        if not self.is_of_raw_data:  # which has no such flag
            # Before it asks CUDA, which then knows them for good.
            local_dirs.use_gpus(ahead.gpus)
        trainable = registry.find(name, TRAINABLE)
        if self.is_of_raw_data and trainable.preparation is None:
            known = self._choices()
            raise UserError(
                f"{name}: its data needs no preparation: it does not define prepare.{nearest(name, known)} "
                f"Trainables that define it: {', '.join(known) or 'none here'}"
            )
        several = command("run", "--trainable", "NAME", "NAME")
        hint = f"; this command takes one trainable. For several: {several}"
        values = self._parser(name, trainable).values_of(tokens, hint)
        if (files := ahead.cli_files) and not registry.is_project(name):
            raise UserError(f"-c {files[0]}: {name} makes no LightningCLI, whose settings it would be")
        recipes = [params_file.read(path, self.fit_settings) for path in getattr(values, "files", [])]
        pairs = getattr(values, "params", {})
        own = {
            key.removeprefix(HYPERPARAMETER_PREFIX): v
            for key, v in vars(values).items()
            if key.startswith(HYPERPARAMETER_PREFIX)
        }
        _refuse_types(trainable, own)
        for recipe in recipes:
            _refuse_other(recipe, trainable)
        local_dirs.use_typed(values.data_dir, values.prepared_dir)
        of_files = {n: value for recipe in recipes for n, value in recipe.params.items()}
        params, faults = self._checked(trainable, of_files, pairs | own)
        settings = {n: value for n, value in vars(values).items() if n in self.settings}
        return Typed(trainable, params, faults, self._fit_settings(recipes) | settings)

    def _checked(
        self,
        trainable: Trainable,
        of_files: Mapping[str, ParamValue],
        typed: Mapping[str, ParamValue],
    ) -> tuple[dict[str, ParamValue], list[str]]:
        """The given hyperparameters that fit, and the faults of the others."""
        given = {**of_files, **typed}
        if not self.is_of_raw_data:
            return param_types.checked(trainable.params_class, given)
        known = trainable.prepare_params
        # The file of a sweep's winner has all hyperparameters.
        given = {name: value for name, value in given.items() if name in known}
        params, faults = param_types.checked(trainable.params_class, given)
        faults += [
            f"--params {name}: prepared rows do not depend on it.{nearest(name, known)} "
            f"Hyperparameters that they depend on: {', '.join(known) or 'none'}"
            for name in typed
            if name not in known
        ]
        return params, faults

    def _choices(self) -> list[str]:
        """Trainables of the project that it takes."""
        return [name for name in registry.choices() if not self.is_of_raw_data or _has_preparation(name)]

    def _fit_settings(self, recipes: Sequence[Recipe]) -> dict[str, Any]:
        """Settings of the training in the files of `--params`."""
        found, faults = dict[str, Any](), list[str]()
        for recipe in recipes:
            for name, value in recipe.fit.items():
                if name in self.settings and value is not None:
                    with collecting(faults):
                        kind = self.settings[name].kind
                        found[name] = typed(f"--params {recipe.path}: fit.{name}", kind, value)
        refuse(faults)
        return found

    def _parser(self, name: str | None, trainable: Trainable | None) -> cli_parser.Parser:
        """The command's flags, and one for each hyperparameter; one with the name of another flag is set by
        --params."""
        shown, about = name or "NAME", ""
        if name is None:
            known = self._choices()
            shown = known[0] if known else shown
            whose = (
                "a trainable that defines prepare" if self.is_of_raw_data else "a trainable of the project"
            )
            about = f" NAME: {whose} ({', '.join(known) or 'none here'}), the path of a .py file, or a dotted"
            about += " path."
        parser = cli_parser.Parser(
            prog=f"sweeps {self.name}",
            usage=f"%(prog)s {name or 'NAME'} [flags]",
            description=self.does + about,
            examples=[f"{shown} {example}" for example in self.examples],
        )
        that = " that rows depend on" if self.is_of_raw_data else ""
        group = parser.add_argument_group(f"Hyperparameters of {name or 'NAME'}{that}")
        cli_parser.add_pairs(group, "params", PARAMS_HELP, file_of=params_file.named)
        if not self.is_of_raw_data:
            _add_files_of_cli(parser)
        cli_parser.add_settings(parser, self.settings.values())
        cli_parser.add_machine(parser, gpus=not self.is_of_raw_data)
        if trainable is not None:
            self._add_hyperparameters(group, parser.flags, trainable)
        return parser

    def _add_hyperparameters(self, group: Any, taken: Collection[str], trainable: Trainable) -> None:
        of = trainable.params_class
        names = trainable.prepare_params if self.is_of_raw_data else param_types.hints_of(of)
        docs, defaults = field_docs(of), param_types.defaults_of(of) | param_types.fixed_defaults(of)
        for each in names:
            if each.isidentifier() and flag(each) not in taken:
                doc = docs.get(each) or "A hyperparameter."
                added = cli_parser.add(group, each, Any, doc, defaults.get(each), "VALUE")
                added.dest, added.default = HYPERPARAMETER_PREFIX + each, argparse.SUPPRESS


def _add_files_of_cli(parser: argparse.ArgumentParser) -> None:
    help_ = "With the program of a LightningCLI as NAME: a file of its settings, as it takes it itself."
    parser.add_argument("-c", action="append", dest="cli_files", default=[], metavar="FILE", help=help_)


def _values_ahead(tokens: Sequence[str]) -> argparse.Namespace:
    """The flags that decide which trainable it is, and on which GPUs its file may look: -c, --gpus and the
    words of --params. The other flags are known with the trainable."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    _add_files_of_cli(parser)
    cli_parser.add_gpus(parser)
    parser.add_argument("--params", nargs="+", action="extend", default=[])
    words = []
    for token in tokens:
        words += token.split("=", 1) if token.startswith("--params=") else [token]
    with contextlib.suppress(argparse.ArgumentError):  # which is told by the whole parser
        return parser.parse_known_args(words)[0]
    return parser.parse_args([])


def _use_project_of_files(words: Sequence[str]) -> str:
    """Use the project of the sweep or run in whose folder a file of `--params` lies; its trainable, "" of no
    file."""
    named = ""
    if strays := [word for word in words if "=" not in word and not params_file.named(word)]:
        best = Path(project.RESULTS).glob(f"*/{params_file.BEST}/{params_file.FILE}")
        near = nearest(strays[0], [path.parts[1] for path in best])
        raise UserError(
            f"--params {strays[0]}: no sweep or run in {project.RESULTS}/ with a best trial, no file, and no "
            f"name=value.{near}"
        )
    for file in filter(None, map(params_file.named, words)):
        folder, named = Path(file).expanduser().resolve().parent.parent, params_file.trainable_of(file)
        if named and project.noted_in(folder) is not None:
            project.use_noted(folder, [named], f"--params {file}")
    return named


def _has_preparation(name: str) -> bool:
    try:
        return registry.find(name).preparation is not None
    except UserError:  # it breaks the contract of trainables
        return False


def _refuse_types(trainable: Trainable, own: Mapping[str, ParamValue]) -> None:
    """Raises: UserError, with the flags of hyperparameters whose values have a wrong type."""
    hints = param_types.hints_of(trainable.params_class)
    faults = {name: param_types.given_fault(value, hints[name]) for name, value in own.items()}
    if any(faults.values()):
        shown = {name: param_types.shown(value) for name, value in own.items()}
        raise UserError("\n".join(f"{flag(n)} {shown[n]}: {fault}" for n, fault in faults.items() if fault))


def _refuse_other(recipe: Recipe, trainable: Trainable) -> None:
    """Refuse a file of another trainable, whose hyperparameters have other meanings."""
    if recipe.trainable in ("", trainable.name):
        return
    try:
        other = registry.find(recipe.trainable).description
        is_same = dataclasses.replace(other, name=trainable.name) == trainable.description
    except UserError:
        is_same = False
    if not is_same:
        raise UserError(
            f"--params {recipe.path}: a file of trainable {recipe.trainable}, not of {trainable.name}"
        )
