"""Build the Tuner and fit it: Tune runs the trials, the record hears of every epoch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ray import tune
from ray.tune import Callback, CheckpointConfig, FailureConfig, PlacementGroupFactory, RunConfig, Stopper
from ray.tune.experiment import Trial
from ray.tune.stopper import CombinedStopper

from sweeps.analysis.tables import write_tables
from sweeps.cluster import placement, session
from sweeps.cluster.membership import Membership
from sweeps.common.atomic_io import disk_is_full
from sweeps.common.errors import causes
from sweeps.config.sweep_config import SweepConfig
from sweeps.execution import data_delivery, null_filesystem
from sweeps.execution.console import RerunReporter, SweepReporter
from sweeps.execution.gpu_sharing import Sharing
from sweeps.execution.migration import Mover
from sweeps.execution.quarantine import Quarantine
from sweeps.execution.recorder import MOST_LOST_PROCESSES, RecordKeeper
from sweeps.execution.stopping import End, stops_on_signals
from sweeps.plan import confirmation
from sweeps.plan.plan import Plan
from sweeps.record.journal import RecordLost
from sweeps.record.record import Record
from sweeps.schedulers import none
from sweeps.search import rerun_searcher
from sweeps.search.base_searcher import RecordSearcher
from sweeps.storage.base import StorageError
from sweeps.storage.disk_guard import Disk
from sweeps.training.config import FitConfig
from sweeps.trial.job import Job
from sweeps.trial.trainable import SweepTrial

MOST_PENDING = 10_000
"""Trials that Tune may start at a time where their number grows: the searcher bounds them by its slots."""


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
        prepared=data_delivery.of_trials(plan),
    )


def fit(plan: Plan, record: Record, offered: session.Cluster) -> End:
    """Run the sweep, from where its record is, to its end, its time limit or Ctrl-C."""
    config = plan.config
    end = End(config.time_budget_hours, record.elapsed_s)
    disk = Disk(plan.folder, config.min_free_gb, placement.slots(config, offered.pcs))
    for trial in record.live:
        disk.measure(trial.number)
    ended = [trial for trial in record.searched if trial.status != "unfinished"]
    if len(ended) < (config.num_trials or 0):
        searcher = plan.searcher.build(config, plan.space, record)
        searcher.waits = plan.waits(record)
        reporter = SweepReporter(plan, record, disk)
        _run(plan, record, offered, Phase(searcher, plan.scheduler, reporter), end, disk)
    if end.outcome == "finished":
        for number in confirmation.give_up_others(record):
            plan.storage.remove(number)
        if record.is_to_be_confirmed:
            searcher = rerun_searcher.RerunSearcher(config, plan.space, record)
            reporter = RerunReporter(plan, record, disk)
            reporter.say(f"\nConfirming {confirmation.describe(config)}")
            _run(plan, record, offered, Phase(searcher, none, reporter), end, disk)
    if end.outcome == "finished":
        with contextlib.suppress(OSError):  # it takes room, and harms nobody
            plan.storage.tidy()
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


def _run(plan: Plan, record: Record, offered: session.Cluster, phase: Phase, end: End, disk: Disk) -> None:
    """One run of Tune, to its end; how it ended is in `end`."""
    searcher, reporter = phase.searcher, phase.reporter
    sharing = _sharing(plan.config, record, offered, phase)
    count = _counter(plan.config, offered, phase, sharing)
    count()
    if sharing is not None:
        sharing.changed = count
    watch = _watch(plan.config, record, offered, phase, count)
    searcher.may_begin_again = bool(watch or sharing)
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
        sharing,
    )
    tuner = _tuner(plan, record, offered, phase, keeper, watch, sharing)
    most_pending = MOST_PENDING if watch or sharing else searcher.slots
    with _max_pending(most_pending), stops_on_signals(end, reporter.say):
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

    membership: Membership
    mover: Mover
    quarantine: Quarantine


def _sharing(config: SweepConfig, record: Record, offered: session.Cluster, phase: Phase) -> Sharing | None:
    """None where it is settled how many trials share a GPU."""
    if config.trials_per_gpu != "auto":
        return None
    first = sum(pc.gpus for pc in offered.pcs)
    return Sharing(config, record, offered.card_bytes, first, _place_of(config, offered), phase.reporter.say)


def _counter(
    config: SweepConfig, offered: session.Cluster, phase: Phase, sharing: Sharing | None
) -> Callable[[], None]:
    """Tells the searcher how many trials fit now."""
    gpus = placement.gpus_per_trial(config, offered.pcs)

    def count() -> None:
        # Never 0: a Tune that has no trial waits ten minutes for the searcher, and its callbacks with it.
        pcs = offered.membership.pcs if offered.membership else offered.pcs
        phase.searcher.slots = max(1, placement.most(config, pcs, sharing.gpus if sharing else gpus))

    return count


def _place_of(config: SweepConfig, offered: session.Cluster) -> Callable[[float], PlacementGroupFactory]:
    """Resources of a trial that takes so many GPUs: never on a PC that is to be left."""
    membership = offered.membership
    away: Callable[[], Collection[str]] = frozenset if membership is None else lambda: membership.closed
    return lambda gpus: placement.of_trial(config, gpus, away)


def _watch(
    config: SweepConfig, record: Record, offered: session.Cluster, phase: Phase, count: Callable[[], None]
) -> Watch | None:
    """None on a PC by itself. Who is left out of the search is left out of the reruns."""
    membership = offered.membership
    if membership is None:
        return None
    gpus = placement.gpus_per_trial(config, offered.pcs)

    def holds_one(without: str) -> bool:
        return placement.most(config, membership.staying(without), gpus) > 0

    def say(number: int, text: str) -> None:
        phase.reporter.say(text)
        record.notice(number, text)
        count()

    def changed(news: Sequence[str]) -> None:
        for line in news:
            phase.reporter.say(line)
        count()
        if not placement.most(config, membership.pcs, gpus):
            phase.reporter.say("No trial fits on the PCs that are left: the sweep waits for more")

    mover = Mover(membership, changed)
    return Watch(membership, mover, Quarantine(membership, mover, holds_one, say))


def _tuner(
    plan: Plan,
    record: Record,
    offered: session.Cluster,
    phase: Phase,
    keeper: RecordKeeper,
    watch: Watch | None,
    sharing: Sharing | None,
) -> tune.Tuner:
    config = plan.config
    resources: Any = _place_of(config, offered)(placement.gpus_per_trial(config, offered.pcs))
    callbacks: list[Callback] = [keeper, *([watch.quarantine, watch.mover] if watch else [])]
    stop: Stopper = keeper.end
    if sharing is not None:
        resources = lambda of_trial: sharing.place(of_trial)  # noqa: E731  (a bound method can't be sent)
        callbacks.append(sharing)
        stop = CombinedStopper(keeper.end, sharing)
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
            storage_filesystem=null_filesystem.file_system(),
            stop=stop,
            callbacks=callbacks,
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
