"""Parse flags and YAML files into a SweepConfig: of --config, or of a sweep to resume or refine."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeps.common import local_dirs, plugins, project
from sweeps.common.cli import json_output
from sweeps.common.cli import parser as cli_parser
from sweeps.common.errors import UserError, refuse
from sweeps.common.formatting import command, plain_name, shown_path
from sweeps.common.objective import split
from sweeps.common.settings import typed
from sweeps.common.yaml_values import hyperparameter, nearest, read_lines
from sweeps.config import plugins as config_plugins
from sweeps.config import wandb_sweep
from sweeps.config.sweep_config import (
    COMMAND_ONLY,
    YAML_KEYS,
    SweepConfig,
    flag,
    listed,
    one_or_several,
    to_yaml,
)
from sweeps.config.sweep_folder import (
    JOURNAL,
    SWEEP_FILE,
    control_command,
    is_foreign,
    newest_sweep,
    no_sweep,
    sweep_named,
)
from sweeps.config.validation import WAYS, check, refuse_other
from sweeps.kinds import registry
from sweeps.kinds.projects.lightning_cli import FIT

MOST_USED = (
    *("trainables", "-c", "--ranges", "--num-trials", "--max-concurrent", "--max-epochs"),
    *("--time-budget-hours", "--name", "--resume", "--refine", "--dry-run", "--json"),
)
"""The words of the short help, in its order."""
EXAMPLES = (
    "digits -n 24",
    "digits --ranges lr=1e-4..1e-1:log width=16,32",
    "my/cli.py -c config.yaml --ranges model.lr=1e-4..1e-1:log",
    "--resume",
)
PAIRS = ("params", "ranges", "freeze", "prior")
"""Settings with a `name: value` line for each hyperparameter."""
POINTS = ("tries",)
"""Settings with a list of such lines."""


def parse(arguments: Sequence[str] | None = None) -> SweepConfig:
    """A checked SweepConfig from flags and YAML files; flags have priority.

    Folders of this machine (`--data-dir`) go into the environment.

    Raises:
        UserError: every fault, one a line.
        SystemExit: after `--help` and `--print-config` (status 0).
    """
    tokens = sys.argv[1:] if arguments is None else arguments
    values = _parser("--help-all" in tokens).values_of(tokens)
    flags = {name: value for name, value in vars(values).items() if name in SweepConfig.settings()}
    if values.trainables:
        flags |= {"trainable": _given_by_position(values.trainables, flags)}
    local_dirs.use_typed(values.data_dir, values.prepared_dir)
    config = checked(flags, values.config, values.trainables, values.wandb_sweep)
    use_gpus(values.gpus, config)
    if values.print_config:
        json_output.answer(settings=config.flat())
        print(to_yaml(config), end="")
        raise SystemExit(0)
    return config


def use_gpus(named: str | None, config: SweepConfig) -> None:
    """Use the GPUs of --gpus alone, where it was given.

    Raises:
        UserError: there are no such GPUs, or the sweep joins a cluster.
    """
    if named is not None and config.address is not None:
        raise UserError(
            f"--gpus {named} can't be combined with --address: the numbers of GPUs differ from PC to PC. "
            f"Start Ray on each PC with those that it may use: CUDA_VISIBLE_DEVICES={named} ray start ..."
        )
    local_dirs.use_gpus(named)


def _frozen(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of --freeze as ranges of one value."""
    several = [
        f"--freeze {name}={value}: give one value; --ranges takes a range or choices"
        for name, value in values.items()
        if isinstance(value, str)
        and len(parts := re.split(r"\.\.|,", value)) > 1
        and isinstance(hyperparameter(parts[0]), int | float)  # or true, or false
    ]
    refuse(several)
    return {name: [value] for name, value in values.items()}


def checked(
    flags: Mapping[str, Any],
    files: Sequence[str] = (),
    words: Sequence[str] = (),
    of_wandb: str | None = None,
) -> SweepConfig:
    """A checked SweepConfig.

    Args:
        flags: setting to value, in its type.
        files: YAML files; flags have priority.
        words: trainables that no flag names.
        of_wandb: a sweep's file of W&B.

    Raises:
        UserError: every fault, one a line.
    """
    flags = dict(flags)
    if frozen := flags.get("freeze"):
        flags["ranges"] = {**flags.get("ranges", {}), **_frozen(frozen)}
    if "resume" in flags and flags["resume"] is None and not flags.get("submit"):
        flags |= {"resume": str(newest_sweep())}
    if "refine" in flags:
        if "" in (asked := listed(flags["refine"])):
            raise UserError("--refine: give the name of a sweep, as in --refine NAME")
        named = [each if is_foreign(each) else str(_sweep_of(each)) for each in asked]
        flags |= {"refine": named or [str(newest_sweep())]}
    contents = _contents(flags, files)
    if of_wandb is not None:
        contents = [_of_wandb(of_wandb, flags, contents), *contents]
    given: dict[str, Any] = {}
    for content in [*contents, flags]:
        if _names_trainable(content) and _names_trainable(given):  # the last one alone counts
            given |= dict.fromkeys(WAYS)
        merged = {name: {**given.get(name, {}), **content.get(name, {})} for name in PAIRS}
        if "resume" not in flags:  # of a resume, `with_ranges` does it
            _replace_other(merged["params"], content.get("ranges", {}), content.get("params", {}))
            _replace_other(merged["ranges"], content.get("params", {}), content.get("ranges", {}))
        given |= {**content, **merged}
    given = dict(_with_recognized(given, words))
    config = SweepConfig.from_settings(
        **{
            name: one_or_several(value) if isinstance(value, list) and name not in POINTS else value
            for name, value in given.items()
        }
    )
    if (resumed := config.resume) is not None and contents:
        if _names_trainable(flags):  # maybe in other words than the sweep has it
            config = config_plugins.named(config.changed(resume=None)).changed(resume=resumed)
        if split(" ".join(config.metrics)) == (contents[0].get("metric"), contents[0].get("mode")):
            config = config.changed(metric=contents[0]["metric"])
        refuse_other(config.flat(), contents[0])
        folder = sweep_named(resumed).resolve()  # it may have been moved
        config = config.changed(resume=str(folder), name=folder.name, results_dir=str(folder.parent))
        config = config.changed(typed=frozenset(flags))
        config = config.with_ranges(flags.get("ranges", {}))
    refuse(check(config, flags))
    return config


def _names_trainable(settings: Mapping[str, Any]) -> bool:
    """Whether they say what is trained."""
    return any(settings.get(way) is not None for way in WAYS)


def _replace_other(before: dict[str, Any], now: Mapping[str, Any], both: Mapping[str, Any]) -> None:
    """Drop fixed values of hyperparameters that later settings give a range, or ranges of those that these
    fix; not where they give both, which is refused."""
    for name in now:
        if name not in both:
            before.pop(name, None)


def _sweep_of(given: str) -> Path:
    """The folder of a sweep to refine, also where its record is given."""
    path = Path(given)
    return path.parent if path.name == JOURNAL and project.is_file(path) else sweep_named(given)


def _of_wandb(
    path: str, flags: Mapping[str, Any], contents: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any]:
    """The settings of a file of W&B's; what has no counterpart in them is told."""
    if "resume" in flags or "refine" in flags:
        raise UserError("--wandb-sweep starts a sweep; --resume and --refine go on from one of this program")
    if other := next((w for w in WAYS if any(each.get(w) is not None for each in (flags, *contents))), None):
        raise UserError(f"--wandb-sweep has a program, and {flag(other)} names another training; give one")
    found, lines = wandb_sweep.read(path)
    epochs = (each["max_epochs"] for each in (flags, *contents, found) if "max_epochs" in each)
    if (most := next(epochs, None)) is None:
        metric = " ".join(name.rpartition(":")[0] for name in found.get("metric", ())) or "its metric"
        raise UserError(
            f"--wandb-sweep {path}: it does not say how often a run reports {metric}. Give --max-epochs N: a "
            "trial ends when it has reported so often"
        )
    lines.append(
        f"{path}: a trial ends when it has reported {most} times, or before; --max-epochs changes it"
    )
    print("\n".join(lines), file=sys.stderr, flush=True)  # --print-config writes YAML
    return found


def _given_by_position(words: Sequence[str], flags: Mapping[str, Any]) -> list[str]:
    """The trainables of the words that belong to no flag."""
    if pairs := [word for word in words if "=" in word]:
        raise UserError(f"{pairs[0]}: not a flag. A fixed hyperparameter is --params {pairs[0]}")
    if "trainable" in flags:
        raise UserError(f"{' '.join(words)}: --trainable names what is trained already")
    return [*words]


def _with_recognized(given: Mapping[str, Any], words: Sequence[str]) -> Mapping[str, Any]:
    """The settings, with the program of a LightningCLI as such where the words that belong to no flag name
    one. What a flag or a file names as a trainable is one.

    Raises:
        UserError: files of its settings were given, but no such program.
    """
    modules = {word: module for word in words if (module := registry.cli_module(word))}
    if modules and [*words[1:]] == [FIT]:  # as its own program is called
        words = words[:1]
    files = given.get("cli_config") or []
    if modules and len(words) > 1:
        raise UserError(f"{' '.join(words)}: {next(iter(modules))} is a LightningCLI, which is swept alone")
    if modules:
        return {**given, "trainable": None, "lightning_cli": modules[words[0]]}
    if files and given.get("lightning_cli") is None:
        typed_as = f"-c {files if isinstance(files, str) else files[0]}"
        if not words:
            example = command("run", "my/cli.py", *typed_as.split())
            raise UserError(f"{typed_as}: give the program of the LightningCLI, too, as in {example}")
        if len(words) == 1:
            plugins.existing_path(registry.TRAINABLE_FILES, words[0])
        raise UserError(
            f"{typed_as}: {' '.join(words)} makes no LightningCLI, whose settings it would be. Settings of "
            "the sweep are given with --config"
        )
    return given


def _parser(shows_all: bool) -> cli_parser.Parser:
    parser = cli_parser.Parser(
        prog="sweeps run",
        usage="%(prog)s [TRAINABLE ...] [flags]",
        description="Train many trials of one or several models, prune the poor ones, record all.",
        examples=EXAMPLES,
    )
    parser.add_argument("--help-all", action="help", help="Show all flags and exit.")
    settings = [*SweepConfig.settings().values()]
    title = settings[0].group if shows_all else "Used most"
    if not shows_all:
        settings = [dataclasses.replace(each, group=title) for each in settings]
        places = {name: place for place, name in enumerate(MOST_USED)}
        settings.sort(key=lambda each: places.get(flag(each.name), len(places)))
    first = parser.add_argument_group(title)
    first.add_argument(
        "trainables",
        nargs="*",
        metavar="TRAINABLE",
        help="Model to train: a name in the project, the path of a .py file, a dotted path, or the program "
        "of a LightningCLI.",
    )
    first.add_argument(
        "-c",
        action="append",
        dest="cli_config",
        default=argparse.SUPPRESS,
        metavar="FILE",
        help="File of settings of a LightningCLI, as its own program takes it (--cli-config).",
    )
    cli_parser.add_settings(parser, settings, {title: first})
    files = parser.add_argument_group("Settings in files")
    files.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="FILE",
        help="YAML file with any of these settings, as the sweep.yaml of a sweep; flags have priority.",
    )
    files.add_argument(
        "--wandb-sweep",
        metavar="FILE",
        help="A sweep's YAML file of Weights & Biases, which is run here, without an account.",
    )
    files.add_argument("--print-config", action="store_true", help="Print all settings as YAML and stop.")
    cli_parser.add_machine(parser)
    if not shows_all:
        parser.show_only(MOST_USED)
        parser.epilog = f"All flags: {command('run', '--help-all')}"
    return parser


def _contents(flags: Mapping[str, Any], files: Sequence[str]) -> list[Mapping[str, Any]]:
    """Settings of files, the last has priority: those of --resume, or of --refine and --config."""
    project.use()
    if "resume" in flags:
        sweep = flags["resume"] or ""
        _refuse_beside_resume(sweep, flags, files)
        if flags.get("submit"):  # the sweep is on the head
            return []
        path = _settings_of_sweep(sweep, "--resume")
        content = read_yaml(path, "--resume")
        _use_project_of(path, content, f"--resume {sweep}")
        return [content]
    contents: list[Mapping[str, Any]] = [read_yaml(path, "--config") for path in files]
    for file, settings in zip(files, contents, strict=True):
        if project.noted_in(Path(file).parent) is not None:  # the settings of an earlier sweep
            _use_project_of(file, settings, f"--config {file}")
    if parents := [each for each in flags.get("refine", ()) if not is_foreign(each)]:
        asked = [flags, *reversed(contents)]
        results_dir = next((one["results_dir"] for one in asked if "results_dir" in one), None)
        return [_of_parents(parents, results_dir), *contents]
    return contents


def _refuse_beside_resume(sweep: str, flags: Mapping[str, Any], files: Sequence[str]) -> None:
    """Refuse flags that a resume can't have."""
    if not sweep:
        raise UserError("--resume: give the name of a sweep, as in --resume NAME")
    if "refine" in flags:
        raise UserError("--refine can't be combined with --resume: it starts a new sweep")
    if given := sorted(flag(name) for name in ("name", "results_dir") if name in flags):
        raise UserError(f"{given[0]}: a resumed sweep keeps its name and its folder")
    if "tags" in flags:
        more = control_command(sweep_named(sweep), "tag", *flags["tags"])
        raise UserError(f"--tags: a resumed sweep keeps its own; to add some: {more}")
    if "baseline" in flags:
        raise UserError("--no-baseline: it is for a new sweep, which begins with its defaults or without")
    if files:
        raise UserError("--config can't be combined with --resume: a resumed sweep keeps its settings")


def _use_project_of(settings: str, content: Mapping[str, Any], where: str) -> None:
    """Use the project of a sweep, in whichever folder the command is typed."""
    named = content.get("trainable", [])
    project.use_noted(Path(settings).parent, [named] if isinstance(named, str) else named, where)


def _of_parents(parents: Sequence[str], results_dir: str | None) -> Mapping[str, Any]:
    """The settings of the first sweep to refine, with another name, folder and seed, and without a grid."""
    paths = [_settings_of_sweep(parent, "--refine") for parent in parents]
    contents = [read_yaml(path, "--refine") for path in paths]
    _use_project_of(paths[0], contents[0], f"--refine {parents[0]}")
    folder = Path(paths[0]).resolve().parent
    where = folder.parent if results_dir is None else Path(results_dir).expanduser()
    stem = plain_name(re.sub(r"-refined(-\d+)?$", "", folder.name), 80) or "sweep"
    names = ((n, f"{stem}-refined{'' if n == 1 else f'-{n}'}") for n in itertools.count(1))
    number, name = next((n, name) for n, name in names if not (where / name).exists())
    seed = (max(int(content.get("seed", 0)) for content in contents) + number) % 2**32
    own = {"name": name, "results_dir": str(shown_path(where)), "seed": seed, "ranges": {}}
    own |= {"tries": [], "prior": {}, "tags": None}
    own |= {"target": None}  # the trials of the earlier sweep may have reached it
    return {**contents[0], **own, **({"searcher": None} if contents[0].get("searcher") == "grid" else {})}


def _settings_of_sweep(sweep: str, flag: str) -> str:
    """The sweep.yaml of a sweep to resume or to refine."""
    folder = sweep_named(sweep)
    if project.is_closed(folder / JOURNAL):
        raise UserError(f"{flag} {no_sweep(folder)}")
    settings, is_recorded = folder / SWEEP_FILE, (folder / JOURNAL).is_file()
    if settings.is_file() and is_recorded:
        return str(settings)
    if is_recorded:
        what = (
            f"{SWEEP_FILE} is missing. Restore it from a copy; most of its settings are in {JOURNAL} under "
            "`identity.settings`"
        )
    elif settings.is_file():
        what = f"{JOURNAL} is missing, so its trials are lost. Start a new sweep: --config {settings}"
    else:
        raise UserError(f"{flag} {no_sweep(folder)}")
    raise UserError(f"{flag} {sweep}: {what}")


def read_yaml(path: str, name: str) -> dict[str, Any]:
    """The settings in a file, in their types.

    Args:
        path: of the file.
        name: the flag, for messages.

    Raises:
        UserError: the file can't be read, or settings in it are wrong, one a line.
    """
    settings = SweepConfig.settings()
    faults: list[str] = []
    values: dict[str, Any] = {}
    named = {typed_as: setting for setting, typed_as in YAML_KEYS.items()}
    values_of_file = read_lines(path, f"{name} {path}")
    for typed_key, value in values_of_file.items():
        key = named.get(typed_key, typed_key)
        if key not in settings or typed_key in YAML_KEYS:
            known = [*(name for name in settings if name not in YAML_KEYS), *named]
            faults.append(f"{path}: {typed_key}: no such key.{nearest(str(typed_key), known)}")
        elif key in COMMAND_ONLY:
            faults.append(f"{path}: {key}: can't be set in a file: use the flag {flag(key)}")
        elif key in (*PAIRS, *POINTS):
            values[key] = [value] if key in POINTS and not isinstance(value, list) else value
            hint = "; the name of a search space is given as search_space" if key == "ranges" else ""
            faults += [
                f"{path}: {typed_key} {each}: must be 'name: value' lines{hint}"
                for each in (values[key] if key in POINTS else [value])
                if not isinstance(each, Mapping) or not all(isinstance(name, str) for name in each)
            ]
        else:
            try:
                values[key] = typed(f"{path}: {key}", settings[key].kind, value)
            except UserError as error:
                faults.append(f"{error}{', as in val_acc:max' if key == 'metric' else ''}")
    if faults and name == "--config" and {"model", "trainer"} & values_of_file.keys():
        faults.append(f"If these are the settings of a LightningCLI, give them with -c {path}")
    if faults and name == "--resume":
        faults.append("Another version of sweeps may have made this sweep: to resume it, use that version.")
    refuse(faults)
    return values
