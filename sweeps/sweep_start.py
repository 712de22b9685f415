"""The start of a sweep in a process of its own: what comes before Ray is imported, and the plan."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from sweeps.common import imports, project
from sweeps.common.errors import UserError
from sweeps.common.imports import missing
from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.kinds import registry
from sweeps.ray_start import ray_connection, ray_environment, shared_ray
from sweeps.trial import fork_server

if TYPE_CHECKING:
    from sweeps.common.cli.terminal import Cell


def start(config: SweepConfig, cell: Cell | None = None) -> int:
    """Run a sweep here, or submit it to the head of a cluster; the exit status.

    Args:
        config: checked.
        cell: of a notebook, which shows it in place of the terminal.
    """
    config = plugins.named(config)
    if config.submit:
        if fault := missing("aiohttp_cors", "dashboard"):
            raise UserError(f"--submit: {fault}")
        ray_environment.prepare_to_submit(str(config.address))
        from sweeps.ray_cluster import submit

        return submit.submit(config)
    for line in imports.newer_than_tested():
        print(f"warning    {line}", flush=True)
    ray_environment.set_environment()  # before Ray is imported
    trains_here = config.address is None and not config.dry_run
    if trains_here:
        ray_environment.refuse_imported()
    if not config.dry_run:
        ray_environment.settle_token(config.address)
        ray_connection.refuse_outside(config.address, or_else=", or add --submit")
    from sweeps.common.cli import terminal  # rich and tqdm, which `--help` does without

    with contextlib.ExitStack() as stack:
        here = None
        if trains_here:
            python = stack.enter_context(fork_server.started())
            name = config.name or " and ".join(map(registry.shown_name, config.trainables))
            dashboard = config.ray_dashboard and not missing("aiohttp_cors", "dashboard")
            here = stack.enter_context(shared_ray.SharedRay(name, python, dashboard=dashboard))
        with terminal.step(f"Planning {', '.join(map(registry.shown_name, config.trainables))}"):
            with imports.fast(), project.behind():
                from sweeps import sweep
            plan = sweep.make_plan(config)
        return sweep.run(plan, here, cell)
