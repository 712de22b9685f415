"""Run a sweep: `sweeps run --trainable fashion_cnn --num-trials 24`

All flags: `sweeps run --help`. Exit status: 0, a trial that did not fail has a score; 1, none has; 2, a
user's mistake; 130, Ctrl-C.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Sequence

from sweeps.common import imports, project, tested_versions
from sweeps.common.cli.dispatch import status_of
from sweeps.common.errors import UserError
from sweeps.common.imports import missing
from sweeps.config import cli, plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.ray_cluster import ray_environment
from sweeps.ray_start import ray_auth, ray_connection
from sweeps.trial import fork_server


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    try:
        return status_of(lambda: _run(plugins.named(cli.parse(arguments))))
    finally:
        gc.freeze()  # at its exit, Python would look through all objects once more: half a second


def _run(config: SweepConfig) -> int:
    """Run the sweep here, or submit it to the head of a cluster."""
    if config.submit:
        if fault := missing("aiohttp_cors", "dashboard"):
            raise UserError(f"--submit: {fault}")
        ray_environment.prepare_to_submit(str(config.address))
        from sweeps.ray_cluster import submit

        return submit.submit(config)
    for line in tested_versions.newer_than_tested():
        print(f"warning    {line}", flush=True)
    ray_environment.prepare_environment()  # before Ray is imported
    trains_here = config.address is None and not config.dry_run
    if trains_here:
        ray_auth.refuse_imported()
    if not config.dry_run:
        ray_connection.refuse_silent(config.address)
        ray_auth.settle(config.address)
        ray_connection.refuse_outside(config.address, or_else=", or add --submit")
    from sweeps.common.cli import terminal  # rich and tqdm, which `--help` does without

    forks = fork_server.started() if trains_here else contextlib.nullcontext()
    with forks as python:
        with terminal.step(f"Planning {', '.join(config.trainables)}"):
            with imports.fast(), project.behind():
                from sweeps import sweep
            plan = sweep.make_plan(config)
        return sweep.run(plan, python)


if __name__ == "__main__":
    sys.exit(main())
