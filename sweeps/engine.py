"""Build the Tuner and fit it: Tune runs the trials, the record hears of every epoch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from ray import tune
from ray.tune import CheckpointConfig, FailureConfig, RunConfig
from ray.tune.experiment import Trial

from sweeps import cluster, confirm, names_only, nodes, placement, supplying
from sweeps.config import SweepConfig
from sweeps.disk import Disk
from sweeps.journal import RecordLost
from sweeps.keeper import MOST_LOST_PROCESSES, RecordKeeper
from sweeps.moving import Mover
from sweeps.plan import Plan
from sweeps.progress import RerunReporter, SweepReporter
from sweeps.quarantine import Quarantine
from sweeps.record import Record
from sweeps.roster import Roster
from sweeps.schedulers import none
from sweeps.searchers._searcher import RecordSearcher
from sweeps.stopping import End, stops_on_signals
from sweeps.storage import StorageError
from sweeps.tables import write_tables
from sweeps.trial import Job, SweepTrial
from training.checkpoints import causes, disk_is_full
from training.config import FitConfig

MOST_PENDING = 10_000
"""Trials that Tune may start at a time on a cluster, which grows: the searcher bounds them by its slots."""


def job_of(plan: Plan) -> Job:
    """What every trial of the sweep has in common."""
    config = plan.config
    fit = FitConfig(
        max_epochs=config.max_epochs,
        metric=str(config.metric),
        mode=config.mode or "max",
        precision=config.precision,
        strategy=config.strategy,
        num_nodes=config.workers_per_trial,
        compile=config.compile,
        seed=config.seed,
        threads=config.cpus_per_trial,
    )
    return Job(
        trainables={model.name: model.module.__name__ for model in plan.models},
        storage=plan.storage,
        fit=fit,
        max_failures=config.max_failures,
        checkpoint_epochs=config.checkpoint_epochs,
        prepared=supplying.of_trials(plan),
    )


def fit(plan: Plan, record: Record, offered: cluster.Cluster) -> End:
    """Run the sweep, from where its record is, to its end, its time limit or Ctrl-C."""
    config = plan.config
    end = End(config.time_budget_hours, record.elapsed_s)
    roster = _roster(config, offered)
    disk = Disk(plan.folder, config.min_free_gb, placement.slots(config, offered.pcs))
    for trial in record.live:
        disk.measure(trial.number)
    ended = [trial for trial in record.searched if trial.status != "unfinished"]
    if len(ended) < (config.num_trials or 0):
        searcher = plan.searcher.build(config, plan.space, record)
        searcher.waits = plan.waits(record)
        reporter = SweepReporter(plan, record, disk)
        _run(plan, record, offered, Phase(searcher, plan.scheduler, reporter, roster), end, disk)
    if end.outcome == "finished":
        for number in confirm.give_up_others(record):
            plan.storage.remove(number)
        if record.is_to_be_confirmed:
            searcher = confirm.RerunSearcher(config, plan.space, record)
            reporter = RerunReporter(plan, record, disk)
            reporter.say(f"\nConfirming {confirm.describe(config)}")
            _run(plan, record, offered, Phase(searcher, none, reporter, roster), end, disk)
    try:
        write_tables(record, plan.folder)
    except OSError as error:
        print(f"The tables can't be written: {error}", flush=True)
    return end


@dataclass(frozen=True)
class Phase:
    """A part of a sweep that is one run of Tune: the search, or the reruns of its best."""

    searcher: RecordSearcher
    scheduler: ModuleType
    reporter: SweepReporter
    roster: Roster | None
    """Who is left out of the search is left out of the reruns."""


def _roster(config: SweepConfig, offered: cluster.Cluster) -> Roster | None:
    """None on a PC by itself: it is all there is."""
    if config.address is None:
        return None
    return Roster(nodes.living, {node.address: why for node, why in offered.too_small.items()})


def _run(plan: Plan, record: Record, offered: cluster.Cluster, phase: Phase, end: End, disk: Disk) -> None:
    """One run of Tune, to its end; how it ended is in `end`."""
    searcher, reporter = phase.searcher, phase.reporter
    searcher.slots = placement.slots(plan.config, offered.pcs)
    watch = None if phase.roster is None else _watch(plan.config, record, offered, phase, phase.roster)
    ends_at = getattr(phase.scheduler, "ends_at", None)
    keeper = RecordKeeper(
        plan.config,
        record,
        plan.folder,
        plan.storage,
        end,
        disk,
        reporter.say,
        ends_at,
        searcher.begin_again,
        watch.quarantine if watch else None,
    )
    tuner = _tuner(plan, record, offered, phase, keeper, watch)
    with _max_pending(searcher.slots if watch is None else MOST_PENDING), stops_on_signals(end, reporter.say):
        try:
            with contextlib.closing(keeper):
                tuner.fit()
        except Exception as error:  # Tune wraps what a callback raises
            if (why := _why_lost(error, plan.folder)) is None:
                raise
            end.stop("lost", why)
        finally:
            reporter.close()


@dataclass(frozen=True)
class Watch:
    """Who looks after the PCs of a cluster."""

    roster: Roster
    mover: Mover
    quarantine: Quarantine


def _watch(
    config: SweepConfig, record: Record, offered: cluster.Cluster, phase: Phase, roster: Roster
) -> Watch:
    gpus = placement.gpus_per_trial(config, offered.pcs)

    def count() -> None:
        # Never 0: a Tune that has no trial waits ten minutes for the searcher, and its callbacks with it.
        phase.searcher.slots = max(1, placement.most(config, roster.pcs, gpus))

    def holds_one(without: str) -> bool:
        return placement.most(config, roster.staying(without), gpus) > 0

    def say(number: int, text: str) -> None:
        phase.reporter.say(text)
        record.notice(number, text)

    count()
    phase.searcher.is_of_cluster = True
    mover = Mover(roster, count)
    return Watch(roster, mover, Quarantine(roster, mover, holds_one, say))


def _tuner(
    plan: Plan,
    record: Record,
    offered: cluster.Cluster,
    phase: Phase,
    keeper: RecordKeeper,
    watch: Watch | None,
) -> tune.Tuner:
    config = plan.config
    resources = placement.of_trial(config, offered.pcs, (lambda: watch.roster.away) if watch else frozenset)
    return tune.Tuner(
        tune.with_resources(tune.with_parameters(SweepTrial, job=job_of(plan)), resources),
        tune_config=tune.TuneConfig(
            search_alg=phase.searcher,
            scheduler=phase.scheduler.build(config, record),
            num_samples=-1,  # the searcher counts: Tune ends idle processes once it has all trials
            reuse_actors=True,
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=RunConfig(
            name=str(config.name),
            storage_path="/",
            storage_filesystem=names_only.file_system(),
            stop=keeper.end,
            callbacks=[keeper, watch.quarantine, watch.mover] if watch else [keeper],
            progress_reporter=phase.reporter,
            failure_config=FailureConfig(max_failures=MOST_LOST_PROCESSES),
            # The keeper says who saves at the end; a trial that failed has nothing to save. Tune's own
            # folders of them are empty: to bound their number, Tune would write its whole state again
            # and again.
            checkpoint_config=CheckpointConfig(checkpoint_at_end=False),
            verbose=1,
        ),
    )


def _why_lost(error: BaseException, folder: Path) -> str | None:
    """Why nothing can be written any more; None when it is another kind of error."""
    if not folder.is_dir():
        return f"{folder} is gone"
    for cause in causes(error):
        if isinstance(cause, RecordLost | StorageError):
            return str(cause)
        if isinstance(cause, OSError) and str(cause.filename or "").startswith(str(folder)):
            return f"{cause.filename} can't be written: {cause.strerror}"
    return f"the disk of {folder} is full" if disk_is_full(error, folder) else None


def _trial_name(trial: Trial) -> str:
    return f"trial_{trial.config['number']:04d}"


@contextlib.contextmanager
def _max_pending(slots: int) -> Iterator[None]:
    """Start all processes at once: Tune starts those of a searcher one after the other."""
    name = "TUNE_MAX_PENDING_TRIALS_PG"
    before = os.environ.get(name)
    os.environ[name] = str(slots)
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
