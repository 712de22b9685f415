"""A Ray session, and signal handlers that are put back."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
import ray

from sweeps.ray_start import ray_connection
from sweeps.trial import leave_request


@pytest.fixture(scope="module")
def ray_session() -> Iterator[None]:
    """A trial asks Ray for its address and GPUs."""
    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray_connection.shut_down(ray)


@pytest.fixture
def handlers_as_before() -> Iterator[None]:
    """The signal handlers of this process, and whether it is to leave its run, are the same afterwards."""
    before = {each: signal.getsignal(each) for each in (leave_request.SIGNAL, signal.SIGTERM)}
    leave_request.forget()
    yield
    for each, handler in before.items():
        signal.signal(each, handler)
    leave_request.forget()
