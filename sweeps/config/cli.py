"""Parse flags and YAML files into a SweepConfig."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeps.common import local_dirs, project
from sweeps.common.cli import parser as cli_parser
from sweeps.common.errors import UserError, refuse
from sweeps.config.sweep_config import SweepConfig, flag, one_or_several, to_yaml
from sweeps.config.validation import check
from sweeps.config.yaml_files import (
    PAIRS,
    POINTS,
    read_yaml,
    refuse_other,
    settings_of_refined,
    settings_of_sweep,
)

COMMAND = "sweeps run"


def parse(arguments: Sequence[str] | None = None) -> SweepConfig:
    """A checked SweepConfig from flags and YAML files; flags have priority.

    Folders of this machine (`--data-dir`) go into the environment.

    Raises:
        UserError: every fault, one a line.
        SystemExit: after `--help` and `--print-config` (status 0).
    """
    values = _parser().values_of(arguments)
    typed = {name: value for name, value in vars(values).items() if name in SweepConfig.settings()}
    contents = _contents(typed, values.config)
    given: dict[str, Any] = {}
    for content in [*contents, typed]:
        merged = {name: {**given.get(name, {}), **content.get(name, {})} for name in PAIRS}
        given |= {**content, **merged}
    local_dirs.use_typed(values.data_dir, values.prepared_dir)
    config = SweepConfig.from_settings(
        **{
            name: one_or_several(value) if isinstance(value, list) and name not in POINTS else value
            for name, value in given.items()
        }
    )
    if config.resume is not None and contents:
        refuse_other(config.flat(), contents[0])
        folder = Path(config.resume).expanduser().resolve()  # it may have been moved
        config = config.changed(resume=str(folder), name=folder.name, results_dir=str(folder.parent))
    refuse(check(config, typed))
    if values.print_config:
        print(to_yaml(config), end="")
        raise SystemExit(0)
    return config


def _contents(typed: Mapping[str, Any], files: Sequence[str]) -> list[Mapping[str, Any]]:
    """Settings of files, the last has priority: those of --resume, or of --refine and --config."""
    project.use()
    sweep = typed.get("resume")
    if sweep is not None:
        _refuse_beside_resume(sweep, typed, files)
        if typed.get("submit"):  # the sweep is on the head
            return []
        path = settings_of_sweep(sweep, "--resume")
        content = read_yaml(path, "--resume")
        _use_project_of(path, content, f"--resume {sweep}")
        return [content]
    contents: list[Mapping[str, Any]] = [read_yaml(path, "--config") for path in files]
    for file, settings in zip(files, contents, strict=True):
        if project.noted_in(Path(file).parent) is not None:  # the settings of an earlier sweep
            _use_project_of(file, settings, f"--config {file}")
    if parents := typed.get("refine"):
        asked = [typed, *reversed(contents)]
        results_dir = next((one["results_dir"] for one in asked if "results_dir" in one), None)
        return [_of_parents(parents, results_dir), *contents]
    return contents


def _parser() -> cli_parser.Parser:
    parser = cli_parser.Parser(
        prog=COMMAND,
        usage="%(prog)s [--config sweep.yaml] [flags]",
        description="Train many trials of one or several models, prune the poor ones, and record them all.",
    )
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="FILE",
        help="YAML file with any of these settings; flags have priority.",
    )
    parser.add_argument("--print-config", action="store_true", help="Print all settings as YAML and stop.")
    cli_parser.add_settings(parser, SweepConfig.settings().values())
    cli_parser.add_machine(parser)
    return parser


def _refuse_beside_resume(sweep: str, typed: Mapping[str, Any], files: Sequence[str]) -> None:
    """Refuse flags that a resume can't have."""
    if not sweep:
        raise UserError("--resume: give the folder of a sweep, as in --resume results/NAME")
    if "refine" in typed:
        raise UserError("--refine can't be combined with --resume: it starts a new sweep")
    if given := sorted(flag(name) for name in ("name", "results_dir") if name in typed):
        raise UserError(f"{given[0]}: a resumed sweep keeps its name and its folder")
    if files:
        raise UserError("--config can't be combined with --resume: a resumed sweep keeps its settings")


def _use_project_of(settings: str, content: Mapping[str, Any], where: str) -> None:
    """Use the project of a sweep, in whichever folder the command is typed."""
    named = content.get("trainable", [])
    project.use_noted(Path(settings).parent, [named] if isinstance(named, str) else named, where)


def _of_parents(parents: Sequence[str], results_dir: str | None) -> Mapping[str, Any]:
    """Settings that a sweep takes from those that it refines."""
    paths = [settings_of_sweep(parent, "--refine") for parent in parents]
    contents = [read_yaml(path, "--refine") for path in paths]
    _use_project_of(paths[0], contents[0], f"--refine {parents[0]}")
    return {**contents[0], "ranges": {}, "tries": [], **settings_of_refined(paths[0], contents, results_dir)}
