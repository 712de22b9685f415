"""The whole sweep: plan, record, cluster, trials, winner, report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sweeps.common.cli.terminal import Cell, lenient, say
from sweeps.common.errors import RayLost
from sweeps.common.formatting import command
from sweeps.execution import storage_and_data
from sweeps.execution.driver import tuner
from sweeps.execution.output import event_lines, notify, summary, winner
from sweeps.execution.output.folder_files import write_tables
from sweeps.execution.output.page_process import PageProcess
from sweeps.execution.run_context import RunContext, RunEnd
from sweeps.kinds import source_files
from sweeps.loggers._follower import catch_up, following
from sweeps.plan import describe, folder, more_epochs, run_start
from sweeps.plan.build import make_plan
from sweeps.plan.plan import Plan
from sweeps.ray_cluster import environment, session
from sweeps.ray_start.shared_ray import SharedRay
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome

__all__ = ["make_plan", "run"]


def run(plan: Plan, here: SharedRay | None, cell: Cell | None = None) -> int:
    """Run what is planned and report on it; the exit status.

    Args:
        plan: of the sweep.
        here: the Ray of this PC; None where a cluster is joined, or nothing is trained.
        cell: of a notebook, which shows it in place of the terminal.
    """
    config = plan.config
    sources = [source for model in plan.models for source in model.trainable.sources()]
    code = source_files.to_send(sources) if config.address else []
    if config.resume is None:
        _tell_plan(plan)
        if config.dry_run:
            _tell_queue(plan)
            return 0
    with folder.opened(plan) as record:
        storage_and_data.check_storage_here(plan, record)
        if config.resume is not None:
            plan = more_epochs.with_noted(plan, record)
            _tell_plan(plan)
            state = run_start.check_resume(plan, record)
            say(state.text)
            if state.is_finished and not config.dry_run:
                _complete(plan, record)
            if state.is_finished:
                summary.answer_end(record, Outcome.FINISHED)
            if state.is_finished or config.dry_run:
                if not state.is_finished:
                    _tell_queue(plan)
                return 0
        event_lines.follow(record)
        with lenient():  # trials are worth more than what is printed of them
            return _run_trials(plan, record, code, here, cell)


def _tell_plan(plan: Plan) -> None:
    say(describe.describe(plan))
    event_lines.write_plan(plan)


def _tell_queue(plan: Plan) -> None:
    """Say, of a sweep that is only planned, how it would wait."""
    if plan.config.queue:
        where = "on this PC" if plan.config.address is None else "on the cluster"
        say(f"queue      it would wait for the sweeps that are {where}; {command('queue')} lists them")


def _complete(plan: Plan, record: Record) -> None:
    """Write again what a kill at the end of a finished sweep may have left out or as it was before."""
    if why := write_tables(record, plan.folder):
        say(why)
    summary.write_report(record)
    catch_up(plan.config.logger_names, plan.folder)


def _run_trials(
    plan: Plan, record: Record, code: Sequence[Path], here: SharedRay | None, cell: Cell | None
) -> int:
    """Run all that is planned on Ray; the exit status."""
    config = plan.config
    print()
    end = RunEnd()
    page = PageProcess(plan.folder.parent) if config.dashboard else None
    with (
        notify.at_the_end(plan, record, end),
        session.connect(config, plan.folder, code, here) as cluster,
        following(config.logger_names, plan.folder),
    ):
        if page is not None:
            say(page.describe())
        context = RunContext.from_plan(plan, record, cluster, end, cell)
        if not cluster.is_alone:
            context.places.refuse_other_version(str(config.address))
        test_scores: dict[str, float] = {}
        try:
            with cluster.watch.needed(lambda: _last_words(context)):
                with context.announced():
                    if not cluster.is_alone:
                        storage_and_data.check_storage(context)
                    storage_and_data.deliver_data(context)
                environment.note(plan.folder, cluster)
                run_start.begin_run(plan, record)
                end.has_begun = True
                tuner.fit(context)
                test_scores = winner.keep(context)
                context.places.withdraw()
        except RayLost as lost:
            if not end.has_begun:
                raise
            end.stop(Outcome.LOST, str(lost))
        return _tell_end(context, test_scores)


def _tell_end(context: RunContext, test_scores: dict[str, float]) -> int:
    """Record and print how a run ended; the exit status."""
    record, end = context.record, context.end
    record.end_run(end.outcome)
    summary.print_result(context, test_scores)
    if context.cluster.watch.lost and (why := write_tables(record, record.folder)):
        say(why)
    if end.outcome is not Outcome.LOST or context.cluster.watch.lost:
        summary.write_report(record)
    end.status = summary.print_next_step(context)
    return end.status


def _last_words(context: RunContext) -> None:
    """End a run whose Ray has ended, while a call of Ray's that never returns holds it."""
    context.end.stop(Outcome.LOST, context.cluster.watch.lost)
    _tell_end(context, {})
    notify.send_notice(context.plan, context.record, context.end.outcome, context.end.status)
