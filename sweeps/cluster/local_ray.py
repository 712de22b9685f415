"""Ray on this PC, which already starts while a sweep is planned if that takes long."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import psutil
import ray

from sweeps.cluster.ray_environment import ENVIRONMENT
from sweeps.common import ray_connection
from sweeps.config.sweep_config import SweepConfig

LONG_PLAN_S = 0.5
"""A plan takes less, unless a model imports PyTorch; its mistakes are told before Ray has started."""


class LocalRay:
    """Starts Ray once it is wanted, or while a plan takes long, and ends it with the block.

    Ray starts in a thread, which then waits for its end: the processes that it has started end with the
    thread, not with the process that they come from (Linux: PR_SET_PDEATHSIG).

    Args:
        config: of the sweep.
        python: program by which Ray starts its processes, if that is not this Python.
    """

    def __init__(self, config: SweepConfig, python: Path | None) -> None:
        self._config, self._python = config, python
        self._is_wanted, self._is_over = threading.Event(), threading.Event()
        self._context: Future[Any] = Future()
        self._thread = threading.Thread(target=self._run, name="ray", daemon=True)

    def __enter__(self) -> LocalRay:
        self._before = signal.signal(signal.SIGTERM, _exit)  # so does Ray, if it starts in the main thread
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        signal.signal(signal.SIGTERM, self._before)

    def dashboard_url(self) -> str | None:
        """Of the dashboard of Ray, if it has one, as soon as Ray has started.

        Raises:
            RayNotStarted: it does not start.
        """
        self._is_wanted.set()
        return self._context.result().dashboard_url or None

    def close(self) -> None:
        """End Ray if it was started. After that it starts no more."""
        self._is_over.set()
        self._is_wanted.set()
        self._thread.join()

    def _run(self) -> None:
        self._is_wanted.wait(LONG_PLAN_S if self._may_be_early() else None)
        if self._is_over.is_set():
            return
        try:
            self._context.set_result(self._start())
        except BaseException as error:  # raised where Ray is wanted
            self._context.set_exception(error)
            return
        self._is_over.wait()
        _end_autoscaler()
        ray.shutdown()

    def _may_be_early(self) -> bool:
        """Whether a plan will want Ray, unless it shows a mistake. A resumed sweep may have ended."""
        config = self._config
        is_new = config.address is None and config.resume is None and not config.dry_run
        return is_new and not ray.is_initialized()

    def _start(self) -> Any:
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # each failure is in the record
        return ray_connection.init(
            ray, None, (), ENVIRONMENT,
            num_cpus=cpus(), dashboard=self._config.ray_dashboard, python=self._python,
        )  # fmt: skip


def _exit(number: int, _: Any) -> None:
    sys.exit(128 + number)


def cpus() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _end_autoscaler() -> None:
    """Ray gives each process that it has started here a second to end at SIGTERM, which its autoscaler does
    not do: every sweep would wait for that second. On one PC it has nothing to do. What is found of a fork is
    its launcher, with which it ends."""
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if any("/ray/autoscaler/" in word and word.endswith("/monitor.py") for word in child.cmdline()):
                child.kill()
