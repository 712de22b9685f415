"""SweepConfig: everything that a sweep is, and the same as YAML. Flags and files: flags.py.

Imports nothing heavy, so that `--help` answers at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import yaml

from sweeps.common.objective import Mode, Objective
from sweeps.common.yaml_values import FLOAT, ParamValue, field_docs
from sweeps.training.config import Precision, Strategy


class _Dumper(yaml.SafeDumper):
    """Quotes the text '1e-3', which would be read back as a number."""


_Dumper.add_implicit_resolver(*FLOAT)


@dataclass(frozen=True, kw_only=True)
class SweepConfig:
    """What is searched, what is pruned, and with what resources."""

    name: str | None = None
    """Name of the sweep and of its folder (default: the trainable and the time of day)."""
    trainable: str | list[str] = "fashion_cnn"
    """What to train: a file of trainables/, or a dotted path such as my_project.model; several compete."""
    search_space: str | list[str] | None = None
    """What to try: a file of search_spaces/ or a dotted path, one a trainable (default: as the trainable)."""
    params: dict[str, ParamValue] = field(default_factory=dict)
    """Hyperparameters that stand still: name=value, several with a space between; of one of several trainables:
    trainable.name=value."""
    ranges: dict[str, Any] = field(default_factory=dict)
    """Ranges in place of those of the space: name=LOW..HIGH, or name=A,B of its choices, or name=A to hold it
    still; of one of several trainables: trainable.name=LOW..HIGH."""
    precision: Precision = "auto"
    """Arithmetic of the training; auto: fp16 on a GPU, fp32 on a CPU."""
    strategy: Strategy = "auto"
    """How a trial holds its model; auto: plainly where a device can, else ZeRO stage 2 with offload."""
    compile: bool = False
    """Compile each model by torch.compile, once for all trials that differ in no shape."""

    searcher: str = "tpe"
    """Who proposes params: a file of sweeps/searchers/, or a dotted path."""
    num_trials: int | None = None
    """Trials in all (default: 24; with grid, the whole grid)."""
    metric: str | None = None
    """Metric to judge by (default: METRIC of the trainable)."""
    mode: Mode | None = None
    """Whether a small or a large metric is good (default: MODE of the trainable)."""
    seed: int = 0
    """Seed of the proposals and of every trial."""

    scheduler: str = "asha"
    """Who prunes: a file of sweeps/schedulers/, or a dotted path."""
    max_epochs: int = 27
    """Epochs of a trial that is never pruned."""
    grace_epochs: int = 3
    """The first rung: epochs that every trial may train before it is judged."""
    reduction_factor: int = 3
    """One trial of so many goes on at each rung; the next rung is so many times later."""

    workers_per_trial: int = 1
    """Workers that train each trial together, on as many GPUs, of one PC or of several."""
    cpus_per_trial: int = 1
    """CPU cores, and PyTorch threads, of a trial; of several workers each has so many."""
    gpus_per_trial: float | None = None
    """GPUs of a trial; 0.5 puts two trials on one; of several workers each has so many, 1 at most (default: 1
    where there is a GPU, else 0)."""
    trials_per_gpu: int | Literal["auto"] | None = None
    """Trials that share a GPU, in place of --gpus-per-trial; auto: as many as its memory holds, by what the
    first trials took (default: as --gpus-per-trial says)."""
    gpu_memory_gb_per_trial: float | None = None
    """GPU memory that a trial needs, in GB; PCs with a smaller card get none (default: not looked at)."""
    memory_gb_per_trial: float | None = None
    """Main memory that a trial needs, in GB; a PC gets as many as it holds (default: not looked at)."""
    max_concurrent: int | None = None
    """Trials at a time (default: as many as the resources hold)."""
    time_budget_hours: float | None = None
    """Hours after which no trial trains on; those that train then stay unfinished (default: no limit)."""
    address: str | None = None
    """Ray cluster to join, as HOST:6379 or auto (default: start one on this PC)."""
    submit: bool = False
    """With --address: run the sweep on the head of the cluster, as a Ray job that outlives this terminal."""

    data: Literal["copy", "shared"] = "copy"
    """With --address: how prepared data reaches the PCs: copied to the disk of each, once, or read where it
    lies, in a folder that all share."""

    confirm: int = 0
    """New seeds with which the best trials are trained again when the search has ended; their mean says which
    is the best. 0: none."""
    confirm_top: int = 3
    """How many of the best trials --confirm trains again."""

    max_failures: int = 0
    """Times that a trial which raised is tried again before it counts as failed."""
    checkpoint_epochs: int | None = None
    """Epochs between checkpoints (default: as often as it costs under 2 % of the training)."""
    keep_checkpoints: int = 1
    """Of how many trials that ended the weights stay on disk, the best ones."""
    storage: str | None = None
    """Where checkpoints go: a folder that all PCs see, s3://bucket/prefix, or sftp://[user@]host[:port]/path
    (default: the sweep's own folder)."""
    min_free_gb: float = 1.0
    """Space to leave free on the disk of the results, in GB; below it the sweep pauses."""

    resume: str | None = None
    """Folder of a sweep to go on with, as results/NAME (default: start a new one)."""
    force: bool = False
    """With --resume: go on although something changed; what changed is noted in the record."""

    refine: str | list[str] | None = None
    """Sweep to learn from, as results/NAME, or several with a space between: its settings, its ranges made
    narrower or wider, its trials known (default: none)."""
    refine_keep: float = 0.2
    """With --refine: share of the trials, the best ones, that the new ranges lie around."""

    results_dir: str = "results"
    """Folder that holds the folders of the sweeps."""
    dashboard: bool = False
    """The sweep's trials in the browser while it runs (afterwards: python -m sweeps.dashboard)."""
    ray_dashboard: bool = True
    """Ray's dashboard in the browser: its nodes and logs."""
    loggers: str | list[str] | None = None
    """Where epochs are written too: tensorboard, mlflow, a dotted path, or several (default: none)."""
    notify_command: str | None = None
    """Shell command to run when the sweep has ended, however it did; told of it by $SWEEP_TEXT and others
    (default: none)."""
    dry_run: bool = False
    """Print the plan and stop there."""

    @property
    def objective(self) -> Objective:
        """What trials are judged by, where the plan has settled it."""
        return Objective(str(self.metric), self.mode or "max")

    @property
    def trainables(self) -> list[str]:
        """What to train, also where it is one."""
        return _listed(self.trainable)

    @property
    def search_spaces(self) -> list[str]:
        """What to try of each; [] where that is not settled."""
        return [] if self.search_space is None else _listed(self.search_space)

    @property
    def logger_names(self) -> list[str]:
        """Where epochs are written too."""
        return [] if self.loggers is None else _listed(self.loggers)

    @property
    def parents(self) -> list[str]:
        """Folders of the sweeps to learn from."""
        return [] if self.refine is None else _listed(self.refine)


def one_or_several(names: list[str]) -> str | list[str]:
    """A single name by itself, as it is mostly written."""
    return names[0] if len(names) == 1 else names


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


GROUPS: dict[str, tuple[str, ...]] = {
    "What to train": (
        "name",
        "trainable",
        "search_space",
        "params",
        "ranges",
        "precision",
        "strategy",
        "compile",
    ),
    "Search": ("searcher", "num_trials", "metric", "mode", "seed"),
    "Pruning": ("scheduler", "max_epochs", "grace_epochs", "reduction_factor"),
    "Confirmation": ("confirm", "confirm_top"),
    "Resources": (
        "workers_per_trial",
        "cpus_per_trial",
        "gpus_per_trial",
        "trials_per_gpu",
        "gpu_memory_gb_per_trial",
        "memory_gb_per_trial",
        "max_concurrent",
        "time_budget_hours",
        "address",
        "submit",
        "data",
    ),
    "Failures and checkpoints": (
        "max_failures",
        "checkpoint_epochs",
        "keep_checkpoints",
        "storage",
        "min_free_gb",
    ),
    "Going on after a stop": ("resume", "force"),
    "The next sweep": ("refine", "refine_keep"),
    "Output": ("results_dir", "dashboard", "ray_dashboard", "loggers", "notify_command", "dry_run"),
}

OF_ONE_RUN = frozenset({"resume", "force", "dry_run", "submit"})
"""Settings of one call, not of the sweep: never in sweep.yaml."""

MOST = {"seed": 2**32 - 1, "num_trials": 1_000_000, "confirm": 1_000}
MINIMUM: dict[str, float] = {
    "num_trials": 1,
    "seed": 0,
    "max_epochs": 1,
    "grace_epochs": 1,
    "reduction_factor": 2,
    "confirm": 0,
    "confirm_top": 1,
    "workers_per_trial": 1,
    "cpus_per_trial": 1,
    "gpus_per_trial": 0,
    "trials_per_gpu": 1,
    "gpu_memory_gb_per_trial": 0,
    "memory_gb_per_trial": 0,
    "max_concurrent": 1,
    "max_failures": 0,
    "checkpoint_epochs": 1,
    "keep_checkpoints": 1,
    "min_free_gb": 0,
}


def to_yaml(config: SweepConfig) -> str:
    """The config as YAML that `--config` reads back, the meaning of each key beside it."""
    lines = []
    for title, names in GROUPS.items():
        kept = [name for name in names if name not in OF_ONE_RUN]
        lines += [f"# {title}"] if kept else []
        for name in kept:
            entry = yaml.dump({name: getattr(config, name)}, Dumper=_Dumper, sort_keys=False).rstrip()
            lines += [f"# {docs()[name]}", entry]
        lines += [""] if kept else []
    return "\n".join(lines)


def flag(name: str) -> str:
    """The flag of a field: `num_trials` is `--num-trials`."""
    return "--no-ray-dashboard" if name == "ray_dashboard" else "--" + name.replace("_", "-")


@cache
def docs() -> dict[str, str]:
    """The doc line under each field of SweepConfig."""
    return field_docs(SweepConfig)
