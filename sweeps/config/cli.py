"""Flags and YAML to a SweepConfig; how flags are made and answered is `sweeps.common.cli.parser`'s."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from sweeps.common import machine_folders
from sweeps.common.cli import parser as cli_parser
from sweeps.common.errors import UserError
from sweeps.config.sweep_config import GROUPS, SweepConfig, docs, flag, one_or_several, to_yaml
from sweeps.config.validation import check
from sweeps.config.yaml_files import of_its_own, read_yaml, refuse_other, settings_of

COMMAND = "python -m sweeps.run"
OTHER_FLAGS = (
    *("--config", "--print-config"),
    *("--no-dashboard", "--ray-dashboard", "--no-dry-run", "--no-force", "--no-submit"),
)
SEVERAL = ("trainable", "search_space", "refine", "loggers")
"""Settings that are a name, or several with a space between."""


def parse(arguments: Sequence[str] | None = None) -> SweepConfig:
    """Flags and YAML (`--config`, or that of `--resume`) to a checked SweepConfig; flags win.

    What is of this machine, not of the sweep (`--data-dir`), goes into the environment.

    Raises:
        UserError: every fault found, one a line.
        SystemExit: after `--help` and `--print-config` (status 0).
    """
    tokens, params = cli_parser.take_params(list(sys.argv[1:] if arguments is None else arguments))
    tokens, ranges = cli_parser.take_params(tokens, "--ranges", "lr=0.01..0.1 width=16,32")
    tokens = _join_several(tokens)
    cli_parser.refuse_unknown(
        tokens, {*map(flag, docs()), *machine_folders.OF_THE_MACHINE, *OTHER_FLAGS}, COMMAND
    )
    files, tokens = cli_parser.take_all(tokens, "--config", "a file, as in --config sweep.yaml")
    resumed, tokens = cli_parser.take_all(
        tokens, "--resume", "the folder of a sweep, as in --resume results/NAME"
    )
    if resumed:
        _refuse_beside_resume(resumed[-1], tokens, files)
        is_here = not any(map(_is("--submit"), tokens))
        files = [settings_of(resumed[-1])] if is_here else []
    contents = [read_yaml(path, "--resume" if resumed else "--config") for path in files]
    # The files first: jsonargparse lets the later one win, file or flag.
    tokens = [*(f"--config={path}" for path in files), *tokens]
    if parents := _parents(tokens):
        of_parents, settings = _of_parents(parents, _results_dir(tokens, contents))
        tokens, contents = [*of_parents, *tokens], [settings, *contents]
    for content in reversed(contents):
        params = {**content.get("params", {}), **params}
        ranges = {**content.get("ranges", {}), **ranges}
    values = _parser().values_of(tokens, get_type_hints(SweepConfig))
    machine_folders.use_machine(values)
    given = {name: values[name] for name in docs()}
    several = {name: one_or_several(given[name]) for name in SEVERAL if isinstance(given[name], list)}
    config = SweepConfig(**{**given, **several, "params": params, "ranges": ranges})
    if resumed:
        config = _resumed(config, resumed[-1], contents)
    _check(config, tokens)
    if values.print_config:
        print(to_yaml(config), end="")
        raise SystemExit(0)
    return config


def _resumed(config: SweepConfig, sweep: str, contents: Sequence[Mapping[str, Any]]) -> SweepConfig:
    """The settings of a sweep to go on with, whose folder may have been moved since.

    Args:
        config: as it is asked for.
        sweep: the folder.
        contents: the sweep's own settings; () of one that lies on the head of a cluster.
    """
    if not contents:
        return dataclasses.replace(config, resume=sweep)
    refuse_other(vars(config), contents[0])
    folder = Path(sweep).expanduser().resolve()
    return dataclasses.replace(config, resume=str(folder), name=folder.name, results_dir=str(folder.parent))


def _check(config: SweepConfig, tokens: Sequence[str]) -> None:
    faults = check(config)
    if not config.confirm and any(map(_is("--confirm-top"), tokens)):
        faults.append("--confirm-top: only with --confirm")
    if faults:
        raise UserError("\n".join(faults))


def _parser() -> cli_parser.Parser:
    parser = cli_parser.Parser(
        prog=COMMAND,
        usage="%(prog)s [--config sweep.yaml] [flags]",
        description="Train many trials of one model or of several, prune the poor ones, record them all.",
    )
    parser.add_argument(
        "--config", action="config", metavar="FILE", help="YAML file of these settings; flags win."
    )
    parser.add_argument("--print-config", action="store_true", help="Print all settings as YAML and stop.")
    for title, names in GROUPS.items():
        group = parser.add_argument_group(title)
        for name in names:
            _add_flag(group, name)
    cli_parser.add_machine(parser)
    return parser


def _add_flag(group: Any, name: str) -> None:
    metavar = "NAME=VALUE" if name in ("params", "ranges") else "NAME ..." if name in SEVERAL else None
    cli_parser.add(
        group, name, get_type_hints(SweepConfig)[name], docs()[name], getattr(SweepConfig(), name), metavar
    )


def _refuse_beside_resume(sweep: str, tokens: Sequence[str], files: Sequence[str]) -> None:
    """What a sweep that goes on has of its own, or can't become."""
    given = {name for name in ("--name", "--results-dir", "--refine") if any(map(_is(name), tokens))}
    if "--refine" in given:
        raise UserError("--refine: begins a new sweep; not with --resume")
    if given:
        raise UserError(f"{min(given)}: a resumed sweep keeps its name and its folder")
    if files:
        raise UserError(f"--resume {sweep}: it has its own settings; no --config beside it")


def _is(name: str) -> Callable[[str], bool]:
    return lambda token: cli_parser.is_flag(token, name)


def _parents(tokens: Sequence[str]) -> list[str]:
    """What --refine is given on the command line."""
    given = [token.partition("=")[2] for token in filter(_is("--refine"), tokens)]
    if not given:
        return []
    return list(json.loads(given[-1])) if given[-1].startswith("[") else [given[-1]]


def _results_dir(tokens: Sequence[str], contents: Sequence[Mapping[str, Any]]) -> str | None:
    """The one that was asked for, by flag or in a file."""
    asked, _ = cli_parser.take_all(tokens, "--results-dir", "a folder, as in --results-dir results")
    in_files = [str(content["results_dir"]) for content in contents if "results_dir" in content]
    return next(reversed([*in_files, *asked]), None)


def _of_parents(parents: Sequence[str], results_dir: str | None) -> tuple[list[str], Mapping[str, Any]]:
    """Flags and settings that a sweep takes over from those that it refines."""
    paths = [settings_of(parent, "--refine") for parent in parents]
    contents = [read_yaml(path, "--refine") for path in paths]
    tokens = [f"--config={paths[0]}", *of_its_own(paths[0], contents, results_dir)]
    return tokens, {**contents[0], "ranges": {}}


def _join_several(tokens: Sequence[str]) -> list[str]:
    """`--trainable a b` as the list that jsonargparse takes."""
    joined: list[str] = []
    rest = list(tokens)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name not in map(flag, SEVERAL):
            joined.append(name + equals + value)
            continue
        values = [value] if equals else []
        while rest and not rest[0].startswith("--"):
            values.append(rest.pop(0))
        if not values:
            raise UserError(f"{name}: give a name, or several with a space between")
        joined.append(f"{name}={values[0] if len(values) == 1 else json.dumps(values)}")
    return joined
