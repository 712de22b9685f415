"""SweepConfig: the settings of a sweep, and the same as YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from sweeps.common import settings
from sweeps.common.objective import Mode, Objective, Objectives
from sweeps.common.settings import Settings, grouped, setting
from sweeps.common.yaml_values import ParamValue, dump_yaml
from sweeps.training.config import FitConfig


@dataclass(frozen=True, kw_only=True)
class SweepConfig(Settings):
    """The settings of a sweep: search, training, pruning, resources.

    A new field also needs a line in WITHOUT_EFFECT of plan/fingerprint.py, unless results depend on it.
    """

    OF_FIT: ClassVar = (
        *("max_epochs", "seed", "precision", "strategy", "compile", "epoch_steps"),
        *("check_val_every_n_epoch", "val_check_interval"),
    )

    name: str | None = setting(None, group="What to train")
    """Name of the sweep and of its folder (default: the trainable and the time)."""
    tags: str | list[str] | None = setting(None, metavar="TAG")
    """Words by which to find the sweep: a tag, or several (default: none). `sweeps control NAME tag` adds
    some later."""
    trainable: str | list[str] | None = None
    """Model to train: a name in the project, the path of a .py file, or a dotted path such as
    my_project.model. Several compete in one sweep (default: the project's only one)."""
    lightning_cli: str | None = setting(None, metavar="MODULE")
    """In place of a trainable: the module of your LightningCLI, as my_project.cli. Its hyperparameters are
    the paths of its settings, as model.init_args.lr (default: none)."""
    cli_config: str | list[str] | None = setting(None, metavar="FILE")
    """With a LightningCLI: the YAML file of its settings, or several; -c takes one at a time (default: its
    own defaults)."""
    hydra: str | None = setting(None, metavar="CONFIG_DIR[/NAME]|PROGRAM")
    """In place of a trainable: the folder of your Hydra settings, and the name of the primary file, as
    configs/train; or your program, as src/train.py. Its hyperparameters are the paths of its settings, as
    model.optimizer.lr (default: none)."""
    hydra_overrides: str | list[str] | None = setting(None, metavar="OVERRIDE")
    """With --hydra: fixed overrides, as experiment=mnist trainer=cpu (default: none)."""
    command: str | None = setting(None, metavar="COMMAND")
    """In place of a trainable: a command that trains, as "python train.py --lr {lr} --epochs {max_epochs}".
    Its hyperparameters are the names in braces, without max_epochs, seed, trial, checkpoint_dir and work_dir,
    which the trial gives (default: none)."""
    search_space: str | list[str] | None = None
    """Search space: a name in search_spaces/, the path of a .py file, or a dotted path, one for each
    trainable (default: the trainable's own)."""
    params: dict[str, ParamValue] = field(default_factory=dict)
    """Fixed hyperparameters: name=value, separated by spaces; with several trainables
    trainable.name=value for one of them."""
    ranges: dict[str, Any] = field(default_factory=dict)
    """Ranges in place of those of the search space, or added to it: name=LOW..HIGH, name=LOW..HIGH:log,
    name=LOW..HIGH:STEP, name=A,B,C, or name=A to fix it. They may be the whole space. With several trainables
    trainable.name=LOW..HIGH for one of them."""
    freeze: dict[str, ParamValue] = field(default_factory=dict)
    """Hyperparameters of the space to fix at a value: name=value, as a range of one value."""

    metric: str | list[str] | None = setting(None, group="Training")
    """Metric that decides which epoch and which trial is the best (default: METRIC of the trainable); two or
    three objectives as NAME:max NAME:min, the first one decides which epoch of a trial counts."""
    mode: Mode | None = None
    """Whether a small or a large metric is better (default: MODE of the trainable)."""
    constraint: str | list[str] | None = setting(None, metavar="METRIC<=X")
    """Bounds that a trial must keep to be one of the best, such as "params_m<=5" "latency_ms<20": of metrics
    that the model logs, or that static_metrics of the trainable knows before training (default: none)."""
    fit: FitConfig = setting(FitConfig(), group="Training")
    """The training of each trial. Its fields outside OF_FIT follow from the objectives and the resources."""

    preflight: bool = True
    """Train two steps of the largest trials before the first trial, to find what can't train, and what a
    trial takes."""

    searcher: str | None = setting(None, group="Search")
    """Searcher that proposes hyperparameters: a name in sweeps/searchers/, or a dotted path (default:
    gp, with several objectives tpe)."""
    num_trials: int | None = setting(None, least=1, most=1_000_000)
    """Number of trials (default: 24; with grid, the whole grid)."""

    target: float | None = None
    """Score that is enough: the search ends when a trial reaches it (default: none)."""
    patience: int | None = setting(None, least=1)
    """The search ends when so many trials in a row have ended without a better best score (default: none)."""
    max_gpu_hours: float | None = setting(None, above=0)
    """The search ends when its trials have trained for so many GPU hours (default: none)."""

    prior: dict[str, Any] = field(default_factory=dict)
    """Where you believe good values to be: name=VALUE, or name=VALUE:WIDTH with a factor on a log scale and a
    distance on others (default: the PRIOR of its file). Proposals begin near it, and the belief fades as
    trials come."""

    tries: list[dict[str, ParamValue]] = field(default_factory=list)
    """Hyperparameters of a trial of your own choosing, which is tried first, after the baseline: name=value,
    separated by spaces. Give the flag once for each such trial."""
    baseline: bool = True
    """Train the defaults of Params (of a project with settings in files: those in its files) as the first
    trial, one of --num-trials, to compare the others with."""

    scheduler: str | None = setting(None, group="Pruning")
    """Scheduler that prunes trials: a name in sweeps/schedulers/, or a dotted path (default: that of the
    searcher; halving, with bohb bohb)."""
    grace_epochs: int = setting(3, least=1)
    """First rung: epochs that a trial trains before it may be pruned."""
    reduction_factor: int = setting(3, least=2)
    """N: a trial continues beyond a rung if it is among the best 1/N of the trials that reached it; each rung
    is at N times the epochs of the one before."""

    confirm: int = setting(0, group="Confirmation", least=0, most=1_000)
    """Number of new seeds with which the best trials are rerun after the search; the mean of its reruns
    decides which trial is the best. 0: no reruns."""
    confirm_top: int = setting(3, least=1)
    """With --confirm: number of the best trials that are rerun."""

    workers_per_trial: int = setting(1, group="Resources", least=1)
    """Workers that train each trial together, each on its own GPU, on one or several PCs."""
    cpus_per_trial: int = setting(1, least=1)
    """CPU cores, and PyTorch threads, of each worker of a trial."""
    gpus_per_trial: float | None = setting(None, least=0)
    """GPUs of each worker of a trial; 0.5 puts two trials on one GPU (default: 1 where there is a GPU, else
    0)."""
    trials_per_gpu: int | Literal["auto"] | None = setting(None, least=1)
    """Trials that share a GPU, instead of --gpus-per-trial; auto: as many as fit in its memory, measured on
    the first trials (default: by --gpus-per-trial)."""
    gpu_memory_gb_per_trial: float | None = setting(None, least=0)
    """GPU memory that a trial needs, in GB; PCs with a smaller GPU get no trial (default: not checked)."""
    memory_gb_per_trial: float | None = setting(None, least=0)
    """Main memory that a trial needs, in GB; it limits the trials of a PC (default: not checked)."""
    max_concurrent: int | None = setting(None, least=1)
    """Largest number of trials at the same time (default: as many as the resources allow)."""
    share: float = setting(1.0, least=0.01, most=100)
    """Share of the PCs while other sweeps train there, compared with theirs: 2 counts twice as much as 1.
    What a sweep does not use goes to the others."""
    time_budget_hours: float | None = setting(None, above=0)
    """Hours after which the sweep stops; trials in training stay unfinished (default: no limit)."""
    queue: bool = False
    """Wait in the queue, and begin when no other sweep runs on this PC, or on the cluster of --address. The
    plan is checked at once; the wait counts for no limit."""
    priority: int = setting(0, least=-100, most=100)
    """With --queue: of the sweeps that wait, the one with the highest number begins first; of the same
    number the one that came first."""
    beside: bool = False
    """Train beside other people and programs on the GPUs (default: the sweep does not start on GPUs that
    others use)."""
    address: str | None = setting(None, metavar="HOST:PORT")
    """Ray cluster to join, as HOST:6379 or auto (default: start one on this PC)."""
    submit: bool = False
    """With --address: run the sweep on the head of the cluster, as a Ray job that continues when this
    terminal is closed."""
    data: Literal["copy", "shared"] = "copy"
    """With --address: how PCs get prepared data. copy: each PC copies it to its disk once; shared: all PCs
    read it from a shared folder."""

    max_failures: int = setting(0, group="Failures and checkpoints", least=0)
    """Retries of a trial that raised an error, before it counts as failed; over its whole life."""
    keep_going: bool = False
    """Train on where the first trials all fail with the same error."""
    epoch_timeout_minutes: float | None = setting(None, above=0)
    """Minutes in which a trial must report an epoch, its start and a wait for its data included; one that has
    not is ended as hung, and counts as failed (default: no limit, and a line tells of it)."""
    checkpoint_epochs: int | None = setting(None, least=1)
    """Epochs between checkpoints (default: as often as costs less than 2 % of the training time)."""
    stop_grace: float = setting(60.0, least=0)
    """Seconds that trials get, when the sweep stops early or `sweeps control` stops them, to save what they
    have trained. Each leaves at its next step where its data can continue there, as prepared data can; else
    at the end of its epoch."""
    keep_checkpoints: int | str = setting(1, least=1, metavar="N|SIZE")
    """Of the best trials that ended, how many keep their weights on disk; or a size, such as 20GB: the best
    ones keep them, as long as they fit in it together."""
    storage: str | None = setting(None, metavar="FOLDER|URL")
    """Checkpoint store: a folder that all PCs share, s3://bucket/prefix, or sftp://[user@]host[:port]/path
    (default: the sweep's own folder)."""
    min_free_gb: float = setting(1.0, least=0)
    """Disk space to leave free where the results are, in GB; below it the sweep pauses."""

    resume: str | None = setting(None, group="Resume", metavar="NAME", may_be_bare=True)
    """Sweep to resume: its name in results/, or its folder; without one the newest (default: start a new
    one)."""
    retry: int | str | list[str] | None = setting(None, metavar="TRIAL|STATUS")
    """With --resume: train trials again that did not end well: numbers of trials, or failed, diverged or
    infeasible (default: none)."""
    lr_schedule: Literal["restart", "anew", "keep"] | None = None
    """With --resume and more --max-epochs: what becomes of trials whose learning rate is scheduled for fewer.
    restart: they go on from their weights, with a schedule for the epochs that are left; anew: they train
    again from the start; keep: they go on with the schedule as it is (default: ask where it matters)."""
    force: bool = False
    """With --resume: continue although something has changed; the record holds the changes."""

    refine: str | list[str] | None = setting(None, group="The next sweep", metavar="NAME", may_be_bare=True)
    """Sweep to refine, or several: names in results/, or folders; without one the newest. The new sweep
    starts with its settings, adjusted ranges and its trials as prior knowledge. Of trials from elsewhere, a
    CSV of runs, or Optuna's FILE.db::STUDY or journal: ranges, and trials to repeat first (default: none)."""
    refine_keep: float = setting(0.2, above=0, most=1)
    """With --refine: share of the best trials from which the new ranges are computed."""

    results_dir: str = setting("results", group="Output", metavar="FOLDER")
    """Folder that holds the folders of the sweeps."""
    dashboard: bool = False
    """Start the page of all sweeps in the browser, too (by itself: sweeps dashboard)."""
    ray_dashboard: bool = True
    """Start Ray's dashboard, a page of nodes and logs (needs the extra `dashboard`)."""
    loggers: str | list[str] | None = None
    """Further loggers of epochs: tensorboard, mlflow, wandb, a dotted path, or several (default: none)."""
    notify_command: str | None = setting(None, metavar="COMMAND")
    """Shell command to run at every end of the sweep, or as --notify-on says; $SWEEP_TEXT says what has
    happened (default: none)."""
    notify_on: str | list[str] = setting("end", metavar="EVENT,EVENT")
    """With --notify-command: when it runs. best: a new best score; failed: a trial has failed; half: half of
    the trials or of the time is through; end: the sweep has ended."""
    dry_run: bool = False
    """Print the plan and stop."""

    typed: frozenset[str] = field(default=frozenset(), compare=False, metadata={"is_setting": False})
    """Of a resume, the names of the settings that its command gives; no setting itself."""

    def with_ranges(self, ranges: Mapping[str, Any]) -> SweepConfig:
        """The same with other ranges of some hyperparameters, for which nothing else is given any more."""
        has_models = len(self.trainables) > 1

        def is_kept(name: str) -> bool:
            return name not in ranges and not (has_models and name.rpartition(".")[2] in ranges)

        kept = {name: given for name, given in self.ranges.items() if name in ranges or is_kept(name)}
        params = {name: value for name, value in self.params.items() if is_kept(name)}
        return self.changed(ranges={**kept, **ranges}, params=params)

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
        """The metric that trials are judged by, or the first one of several, once the plan has set it."""
        return self.objectives.first

    @property
    def objectives(self) -> Objectives:
        """All metrics that trials are judged by, once the plan has set them."""
        return Objectives.parse(self.metrics, self.mode, self.constraints)

    @property
    def metrics(self) -> list[str]:
        """The metrics as a list; [] where none is set. Of several each has its mode."""
        return listed(self.metric)

    @property
    def constraints(self) -> list[str]:
        """The constraints as a list."""
        return listed(self.constraint)

    @property
    def trainables(self) -> list[str]:
        """The trainables as a list; [] where none is set."""
        return listed(self.trainable)

    @property
    def search_spaces(self) -> list[str]:
        """The search space of each trainable; [] where none is set."""
        return listed(self.search_space)

    @property
    def logger_names(self) -> list[str]:
        """The loggers as a list."""
        return listed(self.loggers)

    @property
    def notify_events(self) -> list[str]:
        """The events at which --notify-command runs."""
        return [event for words in listed(self.notify_on) for event in words.split(",") if event]

    @property
    def retried(self) -> list[str]:
        """The trials to be trained again, as they were typed."""
        return listed(str(self.retry) if isinstance(self.retry, int) else self.retry)

    @property
    def parents(self) -> list[str]:
        """Folders of the sweeps to refine."""
        return listed(self.refine)


def one_or_several(names: list[str]) -> str | list[str]:
    """A list of names, or the only one."""
    return names[0] if len(names) == 1 else names


def listed(value: str | list[str] | None) -> list[str]:
    """A list of names or none, of one or several."""
    return [] if value is None else [value] if isinstance(value, str) else value


COMMAND_ONLY = frozenset(
    {"resume", "retry", "force", "freeze", "lr_schedule", "dry_run", "submit", "queue", "priority", "beside"}
)
"""Settings of one command, not of the sweep: never in sweep.yaml."""


YAML_KEYS = {"ranges": "space"}
"""Settings that have another name in a file."""


def to_yaml(config: SweepConfig) -> str:
    """The config as YAML for `--config`: first what differs from the defaults, in short, then the rest under
    its titles, with the doc of each key above it."""
    values, defaults = config.flat(), SweepConfig().flat()
    kept = [each for each in SweepConfig.settings().values() if each.name not in COMMAND_ONLY]
    other = [each for each in kept if values[each.name] != defaults[each.name]]
    as_given = [each for each in kept if each not in other]
    titled = {"What differs from the defaults": other} if other else {}
    lines = []
    for title, group in {**titled, **grouped(as_given)}.items():
        lines.append(f"# == {title} ==")
        for each in group:
            named = {YAML_KEYS.get(each.name, each.name): values[each.name]}
            lines += [*([f"# {each.doc}"] if each in as_given else []), dump_yaml(named).rstrip()]
        lines.append("")
    return "\n".join(lines)


def flag(name: str) -> str:
    """The flag of a setting, in the form that changes its default."""
    others = {"ray_dashboard": "--no-ray-dashboard", "preflight": "--no-preflight"}
    others |= {"baseline": "--no-baseline", "tries": "--try"}
    return others.get(name) or settings.flag(name)
