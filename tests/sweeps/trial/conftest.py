"""A Ray session, signal handlers that are put back, and a PC of the first worker that no other one sees."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
import ray

from sweeps.ray_cluster import broadcast
from sweeps.ray_start import ray_connection
from sweeps.trial import leave_request
from tests.conftest import ROOT
from tests.sweeps.trial.first_pc import FirstPC


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


@pytest.fixture(scope="module")
def first_pc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FirstPC]:
    root = tmp_path_factory.mktemp("first_pc")
    with pytest.MonkeyPatch.context() as there:
        there.setenv("PYTHONPATH", str(ROOT))
        there.chdir(root)
        ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield FirstPC(broadcast.here(), root)
    ray_connection.shut_down(ray)
