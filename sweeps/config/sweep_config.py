"""SweepConfig: everything that a sweep is, and the same as YAML. Flags and files: cli.py.

Imports nothing heavy, so that `--help` answers at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import yaml

from sweeps.common import settings
from sweeps.common.objective import Objective
from sweeps.common.settings import Settings, grouped, setting
from sweeps.common.yaml_values import FLOAT, ParamValue
from sweeps.training.config import FitConfig


class _Dumper(yaml.SafeDumper):
    """Quotes the text '1e-3', which would be read back as a number."""


_Dumper.add_implicit_resolver(*FLOAT)


@dataclass(frozen=True, kw_only=True)
class SweepConfig(Settings):
    """What is searched, how each trial is trained, what is pruned, and with what resources."""

    OF_FIT: ClassVar = ("max_epochs", "metric", "mode", "seed", "precision", "strategy", "compile")

    name: str | None = setting(None, group="What to train")
    """Name of the sweep and of its folder (default: the trainable and the time of day)."""
    trainable: str | list[str] | None = None
    """Model to train: a name in the project, the path of a .py file, a dotted path such as my_project.model,
    or several, which compete (default: the project's only one)."""
    search_space: str | list[str] | None = None
    """Search space: a name in search_spaces/, the path of a .py file, or a dotted path, one for each
    trainable (default: the trainable's own)."""
    params: dict[str, ParamValue] = field(default_factory=dict)
    """Fixed hyperparameters: name=value, several with a space between; of one of several trainables:
    trainable.name=value."""
    ranges: dict[str, Any] = field(default_factory=dict)
    """Ranges in place of those of the search space: name=LOW..HIGH, name=A,B of its choices, or name=A to fix
    it; of one of several trainables: trainable.name=LOW..HIGH."""

    fit: FitConfig = setting(FitConfig(), group="Training")
    """How each trial is trained. What OF_FIT leaves out of it follows from the resources of a trial."""

    searcher: str = setting("tpe", group="Search")
    """Searcher that proposes hyperparameters: a name in sweeps/searchers/, or a dotted path."""
    num_trials: int | None = setting(None, least=1, most=1_000_000)
    """Number of trials (default: 24; with grid, the whole grid)."""

    scheduler: str = setting("asha", group="Pruning")
    """Scheduler that prunes trials: a name in sweeps/schedulers/, or a dotted path."""
    grace_epochs: int = setting(3, least=1)
    """First rung: epochs that a trial trains before it may be pruned."""
    reduction_factor: int = setting(3, least=2)
    """N: at each rung a trial goes on while it is among the best 1/N of those that reached it; each rung
    comes N times as late as the one before."""

    confirm: int = setting(0, group="Confirmation", least=0, most=1_000)
    """New seeds with which the best trials are trained again after the search; their mean decides which
    trial is the best. 0: none."""
    confirm_top: int = setting(3, least=1)
    """With --confirm: how many of the best trials are trained again."""

    workers_per_trial: int = setting(1, group="Resources", least=1)
    """Workers that train each trial together, on as many GPUs, of one PC or of several."""
    cpus_per_trial: int = setting(1, least=1)
    """CPU cores, and PyTorch threads, of each worker of a trial."""
    gpus_per_trial: float | None = setting(None, least=0)
    """GPUs of each worker of a trial; 0.5 puts two trials on one GPU (default: 1 where there is a GPU, else
    0)."""
    trials_per_gpu: int | Literal["auto"] | None = setting(None, least=1)
    """Trials that share a GPU, in place of --gpus-per-trial; auto: as many as fit in its memory, measured on
    the first trials (default: by --gpus-per-trial)."""
    gpu_memory_gb_per_trial: float | None = setting(None, least=0)
    """GPU memory that a trial needs, in GB; PCs with a smaller GPU get no trial (default: not checked)."""
    memory_gb_per_trial: float | None = setting(None, least=0)
    """Main memory that a trial needs, in GB; a PC gets as many trials as it can hold (default: not
    checked)."""
    max_concurrent: int | None = setting(None, least=1)
    """Trials that run at the same time, at most (default: as many as the resources allow)."""
    time_budget_hours: float | None = setting(None, above=0)
    """Hours after which the sweep stops; trials that are still training stay unfinished (default: no
    limit)."""
    address: str | None = None
    """Ray cluster to join, as HOST:6379 or auto (default: start one on this PC)."""
    submit: bool = False
    """With --address: run the sweep on the head of the cluster, as a Ray job that goes on when this terminal
    is closed."""
    data: Literal["copy", "shared"] = "copy"
    """With --address: how PCs get prepared data. copy: each one copies it to its disk once; shared: all read
    it from a folder that they share."""

    max_failures: int = setting(0, group="Failures and checkpoints", least=0)
    """Retries of a trial that raised an error, before it counts as failed."""
    checkpoint_epochs: int | None = setting(None, least=1)
    """Epochs between checkpoints (default: as often as costs less than 2 % of the training time)."""
    keep_checkpoints: int = setting(1, least=1)
    """How many of the best finished trials keep their weights on disk."""
    storage: str | None = None
    """Checkpoint store: a folder that all PCs share, s3://bucket/prefix, or sftp://[user@]host[:port]/path
    (default: the sweep's own folder)."""
    min_free_gb: float = setting(1.0, least=0)
    """Disk space to leave free where the results lie, in GB; below it the sweep pauses."""

    resume: str | None = setting(None, group="Resume")
    """Sweep to resume, as results/NAME (default: start a new one)."""
    force: bool = False
    """With --resume: continue although something has changed; the record notes what."""

    refine: str | list[str] | None = setting(None, group="The next sweep")
    """Sweep to refine, as results/NAME, or several with a space between: the new sweep takes over its
    settings, adjusts its ranges and knows its trials (default: none)."""
    refine_keep: float = setting(0.2, above=0, most=1)
    """With --refine: share of the trials, the best ones, that the new ranges are drawn around."""

    results_dir: str = setting("results", group="Output")
    """Folder that holds the folders of the sweeps."""
    dashboard: bool = False
    """Show the sweep's trials in the browser while it runs (afterwards: sweeps dashboard)."""
    ray_dashboard: bool = True
    """Ray's dashboard in the browser: nodes and logs."""
    loggers: str | list[str] | None = None
    """Where epochs are logged too: tensorboard, mlflow, a dotted path, or several (default: none)."""
    notify_command: str | None = None
    """Shell command to run when the sweep ends, for whatever reason; $SWEEP_TEXT says how it ended (default:
    none)."""
    dry_run: bool = False
    """Print the plan and stop."""

    @property
    def max_epochs(self) -> int:
        """Epochs of a trial that is never pruned."""
        return self.fit.max_epochs

    @property
    def seed(self) -> int:
        """Of the proposals and of every trial."""
        return self.fit.seed

    @property
    def objective(self) -> Objective:
        """What trials are judged by, where the plan has settled it."""
        return self.fit.objective

    @property
    def trainables(self) -> list[str]:
        """What to train, also where it is one; [] where that is not settled."""
        return [] if self.trainable is None else _listed(self.trainable)

    @property
    def search_spaces(self) -> list[str]:
        """The search space of each trainable; [] where that is not settled."""
        return _listed(self.search_space)

    @property
    def logger_names(self) -> list[str]:
        """Where epochs are logged too."""
        return _listed(self.loggers)

    @property
    def parents(self) -> list[str]:
        """Folders of the sweeps to refine."""
        return _listed(self.refine)


def one_or_several(names: list[str]) -> str | list[str]:
    """A single name by itself, as it is mostly written."""
    return names[0] if len(names) == 1 else names


def _listed(value: str | list[str] | None) -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else value


OF_ONE_RUN = frozenset({"resume", "force", "dry_run", "submit"})
"""Settings of one call, not of the sweep: never in sweep.yaml."""


def to_yaml(config: SweepConfig) -> str:
    """The config as YAML that `--config` reads back, the meaning of each key above it."""
    values, lines = config.flat(), []
    for title, group in grouped(SweepConfig.settings().values()).items():
        kept = [each for each in group if each.name not in OF_ONE_RUN]
        lines += [f"# {title}"] if kept else []
        for each in kept:
            entry = yaml.dump({each.name: values[each.name]}, Dumper=_Dumper, sort_keys=False).rstrip()
            lines += [f"# {each.doc}", entry]
        lines += [""] if kept else []
    return "\n".join(lines)


def flag(name: str) -> str:
    """The flag of a setting: `num_trials` is `--num-trials`."""
    return "--no-ray-dashboard" if name == "ray_dashboard" else settings.flag(name)


def docs() -> dict[str, str]:
    """Setting to its meaning."""
    return {name: each.doc for name, each in SweepConfig.settings().items()}
