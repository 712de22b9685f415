"""What a single run is asked: which trainable, its hyperparameters, how to train it, what to keep of it."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import get_type_hints

import yaml

from sweeps.common import atomic_io, machine_folders, plugins
from sweeps.common.cli import param_flags
from sweeps.common.cli import parser as cli_parser
from sweeps.common.cli.command import TRAINABLE, Command
from sweeps.common.errors import UserError
from sweeps.common.objective import Mode
from sweeps.common.yaml_values import ParamValue, field_docs, load_yaml, nearest
from sweeps.training.config import FIT_SETTINGS, FitConfig, Precision, Strategy
from sweeps.training.distributed import launch

COMMAND = "python -m sweeps.fit"
SETTINGS_FILE = "fit.yaml"
"""In the folder of a run: what `--resume` goes on with."""
BEST = "best"
"""In the folder of a run that has ended: the weights of its best epoch."""


@dataclass(frozen=True, kw_only=True)
class SingleRun:
    """One run without a sweep."""

    trainable: str
    """What to train: a file of trainables/, or a dotted path such as my_project.model."""
    params: dict[str, ParamValue] = field(default_factory=dict)
    """Hyperparameters: name=value, several with a space between, or a file with them (best/params.yaml of a sweep or of
    a run, which also says how it was trained); flags win."""
    max_epochs: int = 27
    """Epochs to train."""
    metric: str | None = None
    """Metric by which the best epoch is chosen (default: METRIC of the trainable)."""
    mode: Mode | None = None
    """Whether a small or a large metric is good (default: MODE of the trainable)."""
    seed: int = 0
    """Seed of weights, shuffling and augmentation."""

    precision: Precision = "auto"
    """Arithmetic; auto: fp16 on a GPU, fp32 on a CPU."""
    strategy: Strategy = "auto"
    """How workers share the model; auto: single for one whose device holds it, else ZeRO stage 2."""
    devices: int | None = None
    """GPUs of each PC, or processes on one without (default: what torchrun or Slurm has started, else 1)."""
    num_nodes: int | None = None
    """PCs that train together, each started by torchrun or Slurm (default: as they have it, else 1)."""
    micro_batch: int | None = None
    """Rows that a worker computes at once (default: its share of the batch)."""
    find_batch_size: bool = False
    """Try first which micro-batch fits in memory, and train by the largest; the batch stays what it is."""
    compile: bool = False
    """Compile the model by torch.compile: a minute first, faster steps afterwards, on most GPUs."""
    threads: int | None = None
    """PyTorch threads of a worker (default: the PC's cores, shared out)."""

    profile: bool = False
    """Record a few steps: a trace, the ten dearest operations, and a picture of batches against steps."""
    memory_snapshot: bool = False
    """Record every allocation on the GPU, for https://pytorch.org/memory_viz."""
    steps_per_epoch: int | None = None
    """Steps of an epoch, and batches of validation at most (default: all)."""

    checkpoint_epochs: int | None = None
    """Epochs between checkpoints (default: as often as it costs under 2 % of the training)."""
    name: str | None = None
    """Name of the run's folder (default: fit-, the trainable and the time of day)."""
    results_dir: str = "results"
    """Folder that holds the folders of runs and sweeps."""
    data: str = ""
    """What it trains on, in words; no flag: it is found when the run begins."""
    test: bool = False
    """Score the best epoch on the test rows at the end: once, when nothing is left to choose."""

    def fit_config(self, module: ModuleType) -> FitConfig:
        """How to train it."""
        return FitConfig(
            max_epochs=self.max_epochs,
            metric=self.metric or module.METRIC,
            mode=self.mode or module.MODE,
            precision=self.precision,
            strategy=self.strategy,
            devices=self.devices or 1,
            num_nodes=self.num_nodes or 1,
            micro_batch=self.micro_batch,
            compile=self.compile,
            steps_per_epoch=self.steps_per_epoch,
            seed=self.seed,
            threads=self.threads or max(1, (os.cpu_count() or 1) // (self.devices or 1)),
        )

    @property
    def folder(self) -> Path:
        """Of the run."""
        return Path(self.results_dir).expanduser() / str(self.name)

    def to_yaml(self) -> str:
        """What `--resume` reads."""
        kept = {name: value for name, value in dataclasses.asdict(self).items() if name not in OF_THE_PLACE}
        return yaml.safe_dump(kept, sort_keys=False)


OF_THE_PLACE = ("name", "results_dir")
"""Follow from where the folder lies."""
GROUPS = {
    "What to train": ("params", "max_epochs", "metric", "mode", "seed"),
    "How": (
        *("precision", "strategy", "devices", "num_nodes"),
        *("micro_batch", "find_batch_size", "compile", "threads"),
    ),
    "A closer look": ("profile", "memory_snapshot", "steps_per_epoch"),
    "Output": ("checkpoint_epochs", "name", "results_dir", "test"),
}
SETTINGS = tuple(setting for names in GROUPS.values() for setting in names)
AT_LEAST_ONE = (
    *("max_epochs", "devices", "num_nodes", "micro_batch", "threads"),
    *("steps_per_epoch", "checkpoint_epochs"),
)


def parse(arguments: Sequence[str] | None = None) -> tuple[SingleRun, ModuleType, bool]:
    """The run that is asked for, its trainable, and whether it goes on with one that stopped.

    Raises:
        UserError: every fault found, one a line.
        SystemExit: after `--help` (status 0).
    """
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    resumed, tokens = cli_parser.take_all(
        tokens, "--resume", "the folder of a run, as in --resume results/NAME"
    )
    if resumed:
        return _resumed(resumed[-1], tokens)
    asked = _command().read(tokens)
    module = asked.module
    settings = {setting: asked.settings[setting] for setting in SETTINGS}
    params, faults = param_flags.checked(module.Params, asked.hyperparameters)
    settings["name"] = settings["name"] or asked.folder_name("fit")
    started = launch.found()
    for setting in ("devices", "num_nodes") if started else ():
        settings[setting] = settings[setting] or getattr(started, setting)
    run = SingleRun(**{**settings, "trainable": asked.trainable, "params": params})
    if faults := [*faults, *_faults(run)]:
        raise UserError("\n".join(faults))
    return run, module, False


def read(folder: Path) -> SingleRun:
    """The settings in a run's folder.

    Raises:
        OSError, yaml.YAMLError, TypeError: there are none that can be read.
    """
    content = load_yaml((folder / SETTINGS_FILE).read_text())
    return SingleRun(**content, name=folder.name, results_dir=str(folder.parent))


def _resumed(folder: str, tokens: Sequence[str]) -> tuple[SingleRun, ModuleType, bool]:
    path = Path(folder).expanduser().resolve()
    # The one setting that changes no result, and that a run which did not fit needs.
    rows, tokens = cli_parser.take_all(tokens, "--micro-batch", "a number of rows")
    for name, variable in machine_folders.OF_THE_MACHINE.items():
        values, tokens = cli_parser.take_all(tokens, name, "a folder")
        machine_folders.use_folder(variable, values[-1] if values else None)
    if tokens:
        raise UserError(f"{tokens[0]}: a run that goes on keeps its settings; --resume stands alone")
    if not all(number.isdecimal() and int(number) for number in rows):
        raise UserError(f"--micro-batch {rows[-1]}: must be a whole number, at least 1")
    try:
        run = read(path)
    except (OSError, yaml.YAMLError, TypeError) as error:
        known = [str(each.parent) for each in Path("results").glob(f"*/{SETTINGS_FILE}")]
        raise UserError(
            f"--resume {folder}: no run of {COMMAND} ({error}).{nearest(folder, known)}"
        ) from None
    if (path / BEST).is_dir():
        raise UserError(f"--resume {folder}: this run has ended; its weights are in {path / BEST}")
    if rows:
        run = dataclasses.replace(run, micro_batch=int(rows[-1]))
    module = plugins.find(TRAINABLE, run.trainable)
    params, faults = param_flags.checked(module.Params, run.params)
    if faults:
        changed = f"--resume {folder}: {run.trainable} has changed, and its hyperparameters in {SETTINGS_FILE} with it"
        raise UserError("\n".join([changed, *faults]))
    return dataclasses.replace(run, params=params), module, True


def _command() -> Command:
    hints = get_type_hints(SingleRun)
    return Command(
        name=COMMAND,
        does="Train one trial, without a sweep.",
        wants="what to train",
        settings={setting: hints[setting] for setting in SETTINGS},
        add=_add_settings,
        others=("--resume",),
        fit_settings=FIT_SETTINGS,
    )


def _add_settings(parser: cli_parser.Parser) -> None:
    hints, docs = get_type_hints(SingleRun), field_docs(SingleRun)
    for title, names in GROUPS.items():
        group = parser.add_argument_group(title)
        for setting in names:
            default = next(f.default for f in dataclasses.fields(SingleRun) if f.name == setting)
            metavar = "NAME=VALUE" if setting == "params" else None
            shown = None if setting == "params" else default
            cli_parser.add(group, setting, hints[setting], docs[setting], shown, metavar)
    group.add_argument("--resume", metavar="FOLDER", help="Go on with a run that stopped; stands alone.")


def _faults(run: SingleRun) -> list[str]:
    faults = [
        f"{cli_parser.flag(name)} {value}: must be at least 1"
        for name in AT_LEAST_ONE
        if (value := getattr(run, name)) is not None and value < 1
    ]
    if not 0 <= run.seed < 2**32:
        faults.append(f"--seed {run.seed}: from 0 to {2**32 - 1:,}")
    if launch.is_first() and (fault := atomic_io.place_fault(run.folder)):
        faults.append(f"--results-dir {run.results_dir}: {fault}")
    elif launch.is_first() and run.folder.exists():
        faults.append(f"--name {run.name}: {run.folder} is there already; --resume it, or give another name")
    return [*faults, *_faults_of_launch(run)]


def _faults_of_launch(run: SingleRun) -> list[str]:
    started, faults = launch.found(), []
    if started is None:
        if (run.num_nodes or 1) > 1 and "MASTER_ADDR" not in os.environ:
            faults.append(
                f"--num-nodes {run.num_nodes}: start the run on each PC by torchrun or Slurm (srun), which "
                "say how the workers find each other"
            )
        if (run.num_nodes or 1) > 1 and run.find_batch_size:
            faults.append(
                "--find-batch-size: its tries are runs of their own, of this PC; find it without "
                "--num-nodes, and give it as --micro-batch"
            )
        return faults
    for setting in ("devices", "num_nodes"):
        given, there = getattr(run, setting), getattr(started, setting)
        if given != there:
            faults.append(
                f"{cli_parser.flag(setting)} {given}: {started.by} has started {there}; leave it out"
            )
    if run.find_batch_size:
        faults.append(
            f"--find-batch-size: its tries are runs of their own, which {started.by} would have to start; "
            "find it on one PC without, and give it as --micro-batch"
        )
    return faults
