"""Tune's loop: the search, then the reruns that confirm its best trials. Every epoch is recorded."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune import Callback, CheckpointConfig, FailureConfig, RunConfig, Stopper
from ray.tune.experiment import Trial
from ray.tune.progress_reporter import TrialProgressCallback

from sweeps.common import project
from sweeps.common.atomic_io import disk_is_full
from sweeps.common.cli import stop_signals
from sweeps.common.errors import causes
from sweeps.common.formatting import count, duration
from sweeps.execution.driver import queue_turn, tune_state_stub
from sweeps.execution.driver.gpu_sharing import Sharing
from sweeps.execution.driver.shared_places import SharedPlaces
from sweeps.execution.driver.tune_callback import TuneCallback
from sweeps.execution.driver.user_commands import StoppedTrials, UserCommands
from sweeps.execution.faults.away_pcs import AwayPCs
from sweeps.execution.faults.full_gpus import FullGpus
from sweeps.execution.faults.hung_trials import HungTrials
from sweeps.execution.faults.requeue import Requeue
from sweeps.execution.output import notify, status_lines
from sweeps.execution.output.console import SweepReporter
from sweeps.execution.output.folder_files import write_tables
from sweeps.execution.preflight import Preflight
from sweeps.execution.run_context import RunContext, job_of
from sweeps.execution.trial_actors import TrialActors
from sweeps.plan import run_start
from sweeps.plan.describe import describe_confirmation
from sweeps.ray_cluster.ray_internals import KeptHere
from sweeps.record.journal import RecordLost
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome
from sweeps.schedulers import none
from sweeps.search.record_scheduler import PruningMethod
from sweeps.search.search_method import RecordSearcher, RerunSearcher
from sweeps.storage.protocol import StorageError
from sweeps.trial.trainable import SweepTrial

MOST_TOLD = 10
"""Trials that were refused and are told of one by one."""


class SilentProgress(KeptHere, TrialProgressCallback):
    """In place of Tune's own one, which prints a line for each trial that ends without a result."""

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Print nothing: the console does."""

    def log_result(self, trial: Trial, result: dict[str, Any], error: bool = False) -> None:
        """The same."""


class Leaving(KeptHere, Stopper):
    """Ends Tune's loop. Where a sweep stops early or pauses, what trains is saved first: every trial is asked
    to leave at its next step.

    A trial that has left stays unfinished in the record, with the position of its checkpoint. One that has
    not left within `--stop-grace` continues from the checkpoint before; a pause waits for all.
    """

    def __init__(
        self, context: RunContext, processes: TrialActors, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._context, self._processes, self._clock = context, processes, clock
        self._because, self._ends_at = Outcome.RUNNING, 0.0
        self._epochs = context.config.max_epochs
        """To which the processes of this loop train."""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        """Whether the sweep must end now."""
        end = self._context.end
        if end.is_running and self._context.is_due:
            end.outcome = Outcome.OUT_OF_TIME
        elif end.is_running and self._context.config.max_epochs != self._epochs:
            end.stop(Outcome.PAUSED)  # a `go` came before all had left; `wait_for_go` goes on at once
        return not self._some_have_to_leave() if end.can_save else not end.is_running

    def _some_have_to_leave(self) -> bool:
        """Ask the trials in training to leave, in each turn from the stop on; whether some still have to."""
        training, record, end = self._processes.training(), self._context.record, self._context.end
        if not record.is_held or end.outcome != self._because:
            grace_s = math.inf if end.outcome is Outcome.PAUSED else self._context.config.stop_grace
            self._because, self._ends_at, record.is_held = end.outcome, self._clock() + grace_s, True
            if end.outcome is Outcome.LOST:
                self._context.say(f"Stopping: {end.error}")
            if training:
                at_most = "" if math.isinf(grace_s) else f", for at most {duration(grace_s)}"
                trials = count(len(training), "trial")
                what = f"Waiting for the next report of {trials}"
                if self._context.plan.saves:
                    what = f"Saving what {trials} trained"
                self._context.say(f"{what}{at_most} ...")
        if not training or self._clock() >= self._ends_at:
            return False
        self._processes.ask_to_leave(training)
        return True


@contextlib.contextmanager
def stops_on_signals(
    context: RunContext, clock: Callable[[], float] = time.monotonic
) -> Iterator[Sequence[int]]:
    """End the sweep in order at the first signal, and at once at the second interrupt.

    Yields:
        The first signal, once it has come.
    """

    def stop() -> None:
        context.end.stop(Outcome.INTERRUPTED)
        if context.record.info.waits_since is not None:
            context.say("Leaving the queue. Nothing trains, and all results so far are recorded.")
            return
        interrupt = "Press Ctrl-C" if context.cell is None else "Interrupt the cell"
        unsaved = ", without saving: a resume then repeats the running epochs" if context.plan.saves else ""
        context.say(f"Stopping. All results so far are recorded. {interrupt} again to stop at once{unsaved}.")

    with stop_signals.handled(stop, clock) as come:
        yield come


def fit(context: RunContext) -> None:
    """Run the sweep, from where its record is, to its end, its time limit or Ctrl-C."""
    with (
        contextlib.closing(UserCommands(context)) as commands,
        stops_on_signals(context) as signals,
        queue_turn.noted(context, signals),
    ):
        commands.turn = queue_turn.turn_of(context)
        while commands.wait_for_go() and _has_search(context.record) and _search(context, commands):
            continue
        if context.end.is_running:
            _confirm(context, commands)
    if context.end.is_running:
        context.end.outcome = Outcome.FINISHED
    if context.end.outcome is Outcome.FINISHED:
        with contextlib.suppress(OSError):  # what is left takes room, and does no harm
            context.plan.storage.tidy()
    if why := write_tables(context.record, context.plan.folder):
        context.say(why)


def _has_search(record: Record) -> bool:
    """Whether trials are to come or unfinished."""
    ended = sum(trial.status != "unfinished" for trial in record.searched)
    return ended < record.most_trials


def _search(context: RunContext, commands: UserCommands) -> bool:
    """Train the trials of the search, up to a pause; whether it may be continued."""
    plan, record = context.plan, context.record
    searcher = plan.searcher.build(plan.config, plan.space, record)
    searcher.waits, searcher.refusal = functools.partial(plan.waits, record), plan.refusal
    searcher.prepared = functools.partial(run_start.prepared, plan, record)
    searcher.is_to_end, commands.searcher = commands.is_to_end, searcher
    begun = len(record.searched)
    if not searcher.has_work():
        if not context.is_due:
            _say_why_none_trains(context, begun)
        elif context.end.is_running:
            context.end.stop(Outcome.OUT_OF_TIME)
        return context.end.outcome is Outcome.PAUSED
    _run(context, commands, searcher, plan.scheduler)
    return context.end.outcome is Outcome.PAUSED or _has_search(record)  # more came after the last one


def _say_why_none_trains(context: RunContext, begun: int) -> None:
    """Tell why no trial of the search is left to train, where so many had begun before."""
    refused = context.record.searched[begun:]
    for trial in refused[:MOST_TOLD]:
        context.say(status_lines.ended(context.record, trial))
    if (more := len(refused) - MOST_TOLD) > 0:
        context.say(f"and {more:,} more, whose reasons are in the report and the results")
    context.tell_unmet()
    if refused:
        why = "All trials that were to come miss a constraint before they are trained"
    else:
        why = "Every point of the search space was tried before"
    context.say(f"{why}: no trial is left to train.")


def _confirm(context: RunContext, commands: UserCommands) -> None:
    """Rerun the best trials of the search with new seeds, where that was asked for. Reruns are trials of the
    record, but not of the search: rungs, searchers and leaders ignore them."""
    for number in context.record.give_up_reruns():
        with contextlib.suppress(StorageError):  # they take room, and a resume removes them
            context.plan.storage.remove(number)
    while commands.wait_for_go() and context.record.is_to_be_confirmed:
        context.say(f"\nConfirmation: {describe_confirmation(context.config)}")
        searcher = RerunSearcher(context.config, context.plan.space, context.record)
        searcher.prepared = functools.partial(run_start.prepared, context.plan, context.record)
        _run(context, commands, searcher, none.Scheduler, of_reruns=True)
        if context.end.outcome is not Outcome.PAUSED:
            break


def _run(
    context: RunContext,
    commands: UserCommands,
    searcher: RecordSearcher,
    scheduler: type[PruningMethod],
    *,
    of_reruns: bool = False,
) -> None:
    """One run of Tune, to its end; its outcome is in `context.end`."""
    processes = TrialActors(has_mailbox=not context.cluster.is_alone)
    reporter = SweepReporter(context, lambda: searcher.slots, of_reruns=of_reruns)
    sharing: Sharing | None = None

    def gpus() -> float:
        return context.gpus_per_trial if sharing is None else sharing.gpus

    full_gpus = FullGpus(context, searcher, processes)
    for_others = searcher.waits
    searcher.waits = lambda trial: full_gpus.is_waiting(trial.number) or for_others(trial)

    places = SharedPlaces(context, searcher, processes, gpus, full_gpus.closed_places)

    def is_to_end() -> bool:
        places.renew()
        if full_gpus.wait() or not searcher.slots:
            reporter.redraw()
        return commands.is_to_end()

    searcher.is_to_end = is_to_end
    if context.config.trials_per_gpu == "auto":
        sharing = Sharing(context, processes, places)
    away_pcs = AwayPCs(context, processes)
    requeue = Requeue(context, searcher, processes, away_pcs)
    tune_callback = TuneCallback(context, searcher, scheduler, requeue, full_gpus, sharing)
    alerts = notify.Alerts(context)
    callbacks: list[Callback] = [
        SilentProgress(),
        processes,
        places,
        Preflight(context, processes, full_gpus),
        tune_callback,
        away_pcs,
        full_gpus,
        StoppedTrials(commands, context, searcher, processes),
        HungTrials(context, processes),
        alerts,
        *([sharing] if sharing else []),
    ]
    tuner = _tuner(
        context, searcher, scheduler, callbacks, Leaving(context, processes), reporter, places, sharing
    )
    # Trials that Tune may start at a time, in place of one: the searcher bounds them by its slots.
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = "10000"
    try:
        with (
            contextlib.closing(alerts),
            contextlib.closing(tune_callback),
            project.behind(),
        ):  # Tune imports more of Ray, and W&B
            places.wait_for_place(is_to_end)
            if not context.is_due:
                tuner.fit()
            elif context.end.is_running:
                context.end.stop(Outcome.OUT_OF_TIME)
    except Exception as error:  # Tune wraps what a callback raises
        if context.is_due and not places.has_placed:
            return  # Tune fails where it had no trial: the sweep was to end before it got a place
        if (why := _why_lost(error, context.plan.folder)) is None:
            raise
        context.end.stop(Outcome.LOST, why)
    finally:
        reporter.close()
        if context.end.outcome is Outcome.PAUSED:
            context.places.withdraw()


def _tuner(
    context: RunContext,
    searcher: RecordSearcher,
    scheduler: type[PruningMethod],
    callbacks: Sequence[Callback],
    stopper: Stopper,
    reporter: SweepReporter,
    places: SharedPlaces,
    sharing: Sharing | None,
) -> tune.Tuner:
    config = context.config
    resources: Any = context.resources(context.gpus_per_trial, places)
    if sharing is not None:
        resources = lambda of_trial: sharing.place(of_trial)  # noqa: E731  (a bound method can't be sent)
    for_tune = scheduler.build(config, context.record)
    for_tune.slots, for_tune.to_give_up = places.slots, places.to_give_up
    return tune.Tuner(
        tune.with_resources(tune.with_parameters(SweepTrial, job=job_of(context.plan)), resources),
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            scheduler=for_tune,
            num_samples=-1,  # the searcher counts: Tune ends idle processes once it has all trials
            reuse_actors=True,
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=RunConfig(
            name=str(config.name),
            storage_path="/",
            storage_filesystem=tune_state_stub.file_system(),
            stop=stopper,
            callbacks=list(callbacks),
            progress_reporter=reporter,
            failure_config=FailureConfig(max_failures=0),  # the callback requeues
            # The callback decides which trial is saved at its end; a failed one has nothing to save. Tune's
            # own checkpoint folders are empty; to bound their number, Tune would write its whole state again
            # and again.
            checkpoint_config=CheckpointConfig(checkpoint_at_end=False),
            verbose=1,
        ),
    )


def _why_lost(error: BaseException, folder: Path) -> str | None:
    """Why nothing can be written any more; None for any other kind of error."""
    if not os.access(folder, os.F_OK):  # `is_dir` raises where a share does not answer
        return f"{folder} is gone"
    for cause in causes(error):
        if isinstance(cause, RecordLost | StorageError):
            return str(cause)
        if isinstance(cause, OSError) and str(cause.filename or "").startswith(str(folder)):
            return f"{cause.filename} can't be written: {cause.strerror}"
    return f"the disk of {folder} is full" if disk_is_full(error, folder) else None


def _trial_name(trial: Trial) -> str:
    return f"trial_{trial.config['number']:04d}"
