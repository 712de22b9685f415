"""The worker processes of PyTorch's loaders do not hear the signals that stop a run.

A terminal and a job scheduler send a signal to all processes of a command. The run hears it and saves its
state; without its loaders' workers it would fail before. They end with the run. Light: a worker that is not a
fork imports this.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import multiprocessing
import signal
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from typing import Any

import torch
from torch.utils.data import DataLoader

from sweeps.common.cli.stop_signals import STOPS

_workers: weakref.WeakSet[BaseProcess] = weakref.WeakSet()
"""Those that this process has started."""


def ignore_stops() -> None:
    """Let the workers of all loaders ignore `STOPS`, whenever a loader starts them; call it once."""
    make = DataLoader.__iter__

    def iterate(loader: DataLoader[Any]) -> Any:
        if not loader.num_workers:
            return make(loader)
        others, users_init = set(multiprocessing.active_children()), loader.worker_init_fn
        loader.worker_init_fn = _Init(users_init)
        try:
            with _blocked(loader.multiprocessing_context or torch.multiprocessing.get_context()):
                return make(loader)
        finally:
            loader.worker_init_fn = users_init
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate = worker.kill  # type: ignore[method-assign]  # it ignores SIGTERM
                _workers.add(worker)

    # A loader is started anywhere, also by the user's code: only its class sees all of them.
    DataLoader.__iter__ = iterate  # type: ignore[method-assign]
    atexit.register(_end_workers)


@dataclass(frozen=True)
class _Init:
    """The `worker_init_fn` of a worker, which PyTorch calls when it has set its own handler of SIGTERM."""

    users: Callable[[int], object] | None

    def __call__(self, worker: int) -> None:
        gc.freeze()  # what is collected in a fork, and was made before, may miss its threads and abort
        for name in (signal.SIGINT, signal.SIGHUP):
            signal.signal(name, signal.SIG_IGN)
        # A program that the worker starts inherits what is ignored, but no handler: it can be terminated.
        signal.signal(signal.SIGTERM, lambda *_: None)
        atexit.register(signal.pthread_sigmask, signal.SIG_BLOCK, STOPS)  # then Python resets the handler
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        if self.users is not None:
            self.users(worker)


@contextlib.contextmanager
def _blocked(context: Any) -> Iterator[None]:
    """Block `STOPS` in this thread: processes that it starts inherit that; for this one they wait."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        if context.get_start_method() != "fork":
            resource_tracker.ensure_running()  # where it starts the tracker, it unblocks signals
            signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_workers() -> None:
    """Kill the workers that are left at the end of this process: else it would wait for ever."""
    left = [worker for worker in _workers if worker.is_alive()]
    if left:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # PyTorch's handler raises where a worker was killed
    for worker in left:
        worker.kill()
