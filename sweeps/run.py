"""Run a sweep: `python -m sweeps.run --trainable fashion_cnn --num-trials 24`

All flags: `python -m sweeps.run --help`. Exit status: 0, the sweep ended with at least one trial that
did; 1, no trial finished; 2, a mistake in what was asked; 130, Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.common.errors import CannotPrepare, UserError
from sweeps.config import cli
from sweeps.config.sweep_config import SweepConfig
from sweeps.storage.base import StorageError

if TYPE_CHECKING:
    from sweeps.cluster.session import Cluster
    from sweeps.execution.stopping import End
    from sweeps.plan.plan import Plan
    from sweeps.record.record import Record


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    try:
        return sweep(cli.parse(arguments))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (CannotPrepare, StorageError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `| head`: the reader has gone, and the interpreter must not say so again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130


def sweep(config: SweepConfig) -> int:
    """Plan, run, crown the winner, say what came of it; or have that done on the head of a cluster."""
    if config.submit:
        from sweeps.cluster import submit

        return submit.submit(config)
    from sweeps.cluster import ray_environment
    from sweeps.common import gc_freeze, ray_auth, ray_connection

    ray_environment.prepare_environment()
    if not config.dry_run:  # before Ray is imported, hence before the plan
        ray_connection.refuse_silent(config.address)
        ray_auth.settle(config.address)
        ray_connection.refuse_outside(config.address, or_else=", or add --submit")
    print(f"Planning {', '.join(config.trainables)} ...", flush=True)
    with gc_freeze.uncollected():
        from sweeps.plan import build as planning
        from sweeps.plan import describe

        plan = planning.make_plan(config)
        from sweeps.common import source_files
        from sweeps.execution import preflight
        from sweeps.plan import folder, resume

    code = source_files.to_send(model.module for model in plan.models) if config.address else []
    print(describe.describe(plan), flush=True)
    if config.resume is None and config.dry_run:
        return 0
    with folder.opened(plan) as record:
        preflight.on_this_pc(plan)
        if config.resume is not None:
            standing = resume.look(plan, record)
            print(standing.text, flush=True)
            if standing.is_finished or config.dry_run:
                return 0
        return _run(plan, record, code)


def _run(plan: Plan, record: Record, code: Sequence[Path]) -> int:
    """All that is planned, on Ray; the exit status."""
    address = plan.config.address
    print("\nStarting Ray ..." if address is None else f"\nJoining {address} ...", flush=True)
    from sweeps.common import gc_freeze

    with gc_freeze.uncollected():
        from sweeps.analysis import dashboard as analysis_dashboard
        from sweeps.cluster import environment, session
        from sweeps.execution import data_delivery, notify, preflight, summary, tuner
        from sweeps.loggers._follower import following
        from sweeps.plan import resume
    with (
        notify.at_the_end(plan, record) as notice,
        analysis_dashboard.beside(plan.folder, plan.config.dashboard),
        session.connect(plan.config, code) as offered,
        following(plan.config.logger_names, plan.folder, record),
        contextlib.ExitStack() as last,
    ):
        print(offered.describe(), flush=True)
        if address is not None:
            preflight.on_every_pc(plan, offered.nodes())
        last.enter_context(data_delivery.prepared(plan, offered))
        environment.note(plan.folder, offered, in_cluster=address is not None)
        resume.begin_run(plan, record)
        notice.begin()
        end = tuner.fit(plan, record, offered)
        test_scores = _crown(plan, record, offered, end)
        resume.end_run(record, end.outcome)
        notice.status = summary.say(plan, record, end, test_scores)
        notice.outcome = end.outcome
        return notice.status


def _crown(plan: Plan, record: Record, offered: Cluster, end: End) -> dict[str, float]:
    """Score the winner and keep its weights; a run that is interrupted there has ended, too."""
    from sweeps.execution import winner
    from sweeps.plan import resume

    try:
        return winner.crown(plan, record, offered, end)
    except KeyboardInterrupt:
        resume.end_run(record, "interrupted")
        raise


if __name__ == "__main__":
    sys.exit(main())
