"""Settings of a single run: the trainable, its hyperparameters, training, profiling and output."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import yaml

from sweeps.common import atomic_io, local_dirs, param_types, project
from sweeps.common.cli import json_output
from sweeps.common.cli import parser as cli_parser
from sweeps.common.errors import UserError, refuse
from sweeps.common.imports import missing
from sweeps.common.project import FIT_FILE
from sweeps.common.settings import Settings, flag, setting
from sweeps.common.yaml_values import ParamValue, dump_yaml, load_yaml, nearest
from sweeps.kinds import registry
from sweeps.kinds.command import TRAINABLE, Command
from sweeps.kinds.params_file import BEST
from sweeps.kinds.trainable import Trainable
from sweeps.training.config import FIT_SETTINGS, FitConfig, own_settings
from sweeps.training.distributed import launch


@dataclass(frozen=True, kw_only=True)
class SingleRun(Settings):
    """One run without a sweep."""

    OF_FIT: ClassVar = FIT_SETTINGS

    trainable: str
    """Model to train: a name in trainables/, or a dotted path such as my_project.model."""
    params: dict[str, ParamValue] = field(default_factory=dict)
    """Given hyperparameters; the others have their defaults."""

    fit: FitConfig = setting(FitConfig(threads=None), group="Training")
    """How it is trained."""
    find_batch_size: bool = False
    """First find the largest micro-batch that fits in memory, then train with it; the effective batch stays
    the same."""

    profile: bool = setting(False, group="Profiling")
    """Record a few steps: a trace, the ten most expensive operations, and a plot of batch waits and steps."""
    memory_snapshot: bool = False
    """Record every allocation on the GPU, to be opened at https://pytorch.org/memory_viz."""

    checkpoint_epochs: int | None = setting(None, least=1, group="Output")
    """Epochs between checkpoints (default: as often as costs less than 2 % of the training time)."""
    name: str | None = None
    """Name of the run's folder (default: fit-, the trainable and the time of day)."""
    results_dir: str = setting(project.RESULTS, metavar="FOLDER")
    """Folder that holds the folders of runs and sweeps."""
    data: str = ""
    """Description of the data; set when the run begins."""
    project: str = ""
    """Folder of the project; set when the run begins."""
    test: bool = False
    """Score the best epoch on the test rows at the end."""

    resume: str | None = setting(None, group="Resume", metavar="NAME", may_be_bare=True)
    """Run to resume: its name in results/, or its folder; without one the newest. It keeps its settings
    (default: a new run)."""

    def fit_config(self, trainable: Trainable) -> FitConfig:
        """`fit`, with the trainable's own settings and this PC's threads filled in."""
        own = trainable.objective
        return dataclasses.replace(
            self.fit,
            metric=self.fit.metric or (own.metric if own else None),
            mode=self.fit.mode or (own.mode if own else "max"),
            **own_settings(
                self.fit, trainable, param_types.build_params(trainable.params_class, self.params)
            ),
            threads=self.fit.threads or max(1, (os.cpu_count() or 1) // self.fit.devices),
        )

    @property
    def folder(self) -> Path:
        return Path(self.results_dir).expanduser() / str(self.name)

    def to_yaml(self) -> str:
        """What `--resume` reads."""
        kept = {name: value for name, value in self.flat().items() if name not in OF_THE_PLACE}
        return dump_yaml(kept)


OF_THE_PLACE = ("name", "results_dir", "resume")
"""Given by the folder's path."""
FLAGS = {
    name: each
    for name, each in SingleRun.settings().items()
    if name not in ("trainable", "params", "data", "project")
}
"""Settings with a flag: not the first argument, hyperparameters and what the run sets itself."""
COMMAND = Command(
    name="fit",
    does="Train one trial, without a sweep.",
    examples=("--max-epochs 9", "--params first", "--params lr=0.1 --name tried"),
    settings=FLAGS,
    fit_settings=FIT_SETTINGS,
)


def parse(arguments: Sequence[str] | None = None) -> tuple[SingleRun, Trainable]:
    """The requested run and its trainable.

    Raises:
        UserError: every fault found, one a line.
        SystemExit: after `--help` (status 0).
    """
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    json_output.turn_on_where_asked(tokens)
    if "--resume" in {token.partition("=")[0] for token in tokens}:
        return _resumed(tokens)
    asked = COMMAND.read(tokens)
    trainable, faults = asked.trainable, asked.faults
    name = asked.folder_name("fit", is_first=launch.is_first())
    settings = {**asked.settings, "name": name}
    if started := launch.find_launch():
        settings = {"devices": started.devices, "num_nodes": started.num_nodes, **settings}
    run = SingleRun.from_settings(
        **settings, trainable=trainable.name, params=asked.params, project=project.to_note() or ""
    )
    if not (run.fit.metric or trainable.objective):
        faults.append(f"--metric: give the metric by which epochs are compared: {run.trainable} names none")
    faults += [
        f"{flag(name)}: give it: {trainable.called} has no default for it."
        f"{nearest(name, trainable.own_names)}"
        for name in trainable.without_default
        if name not in run.params
    ]
    refuse([*faults, *trainable.faults_of_settings(run.given()), *_faults(run)])
    return run, trainable


def read(folder: Path) -> SingleRun:
    """The settings in a run's folder.

    Raises:
        OSError, yaml.YAMLError, TypeError: they are missing or can't be read.
    """
    content = dict(**load_yaml((folder / FIT_FILE).read_text()))
    given = {name: value for name, value in content.items() if value is not None}
    return SingleRun.from_settings(**given, name=folder.name, results_dir=str(folder.parent))


def _resumed(tokens: Sequence[str]) -> tuple[SingleRun, Trainable]:
    parser = cli_parser.Parser("sweeps fit", "%(prog)s --resume [NAME] [flags]", "Resume a run.")
    # The one setting that changes no result, and that a run without enough memory needs.
    cli_parser.add_settings(parser, [FLAGS["resume"], FLAGS["micro_batch"]])
    cli_parser.add_machine(parser)
    names = (token.partition("=")[0] for token in tokens if token.startswith("--"))
    if others := [name for name in names if name not in parser.flags]:
        raise UserError(f"{others[0]}: a resumed run keeps its settings; give --resume without it")
    values = parser.values_of(tokens, "; a resumed run keeps its settings")
    local_dirs.use_typed(values.data_dir, values.prepared_dir)
    local_dirs.use_gpus(values.gpus)
    if (folder := values.resume) is None:
        if (newest := project.newest_in_results(FIT_FILE)) is None:
            raise UserError(f"--resume: no run of sweeps fit in {project.RESULTS}/ here: give its folder")
        folder = str(newest)
    path = project.in_results(folder, FIT_FILE).resolve()
    try:
        run = read(path)
    except (OSError, yaml.YAMLError, TypeError) as error:
        known = [str(each.parent) for each in Path(project.RESULTS).glob(f"*/{FIT_FILE}")]
        why = f"{FIT_FILE} is missing" if isinstance(error, FileNotFoundError) else str(error)
        hint = nearest(folder, known) or nearest(folder, [Path(each).name for each in known])
        raise UserError(f"--resume {folder}: no run of sweeps fit: {why}.{hint}") from None
    if (path / BEST).is_dir():
        raise UserError(f"--resume {folder}: this run has finished; its weights are in {path / BEST}")
    if "micro_batch" in values:
        run = run.changed(micro_batch=values.micro_batch)
        refuse(run.out_of_bounds())
    project.use_noted(path, [run.trainable], f"--resume {folder}")
    trainable = registry.find(run.trainable, TRAINABLE)
    params, faults = param_types.checked(trainable.params_class, run.params)
    changed = f"--resume {folder}: {run.trainable} has changed and no longer fits {FIT_FILE}"
    refuse([changed, *faults] if faults else [])
    return run.changed(params=params, resume=folder), trainable


def _faults(run: SingleRun) -> list[str]:
    faults, started = run.out_of_bounds(), launch.find_launch()
    if run.profile and (fault := missing("matplotlib", "plots")):
        faults.append(f"--profile: {fault}")
    if run.fit.strategy.startswith("deepspeed") and (fault := missing("deepspeed", "deepspeed")):
        faults.append(f"--strategy {run.fit.strategy}: {fault}")
    if launch.is_first() and (fault := atomic_io.place_fault(run.folder)):
        faults.append(f"--results-dir {run.results_dir}: {fault}")
    elif launch.is_first() and run.folder.exists():
        faults.append(f"--name {run.name}: {run.folder} exists already; --resume it, or give another name")
    if started is not None:
        for name in ("devices", "num_nodes"):
            given, there = getattr(run.fit, name), getattr(started, name)
            if given != there:
                faults.append(f"{flag(name)} {given}: {started.by} has started {there}; omit {flag(name)}")
    elif run.fit.num_nodes > 1 and "MASTER_ADDR" not in os.environ:
        faults.append(
            f"--num-nodes {run.fit.num_nodes}: start the run on each PC by torchrun or Slurm (srun), so that "
            "the workers find each other"
        )
    if run.find_batch_size and (started is not None or run.fit.num_nodes > 1):
        faults.append(
            "--find-batch-size: it starts the workers of its tries itself, on one PC. Run it without "
            "torchrun, Slurm and --num-nodes, then give the result as --micro-batch"
        )
    return faults
