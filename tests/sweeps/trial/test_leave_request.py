"""A process is told to leave its trial: by a signal, or by a message where no signal can reach it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import ray

from sweeps.trial import leave_request
from sweeps.trial.leave_request import Mailbox

pytestmark = pytest.mark.usefixtures("ray_session", "handlers_as_before")


@pytest.mark.parametrize("sent", [leave_request.SIGNAL, signal.SIGTERM])
def test_a_signal_is_noted_and_ends_no_process(sent: signal.Signals) -> None:
    leave_request.listen()
    assert not leave_request.is_asked()
    os.kill(os.getpid(), sent)
    assert leave_request.is_asked()
    leave_request.forget()
    assert not leave_request.is_asked()


def test_a_fork_of_the_users_code_ends_by_sigterm() -> None:
    leave_request.listen()
    worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    worker.start()
    worker.terminate()
    worker.join(60)
    assert worker.exitcode == -signal.SIGTERM
    assert not leave_request.is_asked()


def test_a_process_that_is_gone_is_no_fault() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    leave_request.send(process.pid)


def test_a_message_is_for_one_process_and_waits_for_it() -> None:
    mailbox = ray.remote(Mailbox).options(num_cpus=0).remote()
    ray.get([mailbox.ask.remote("mine"), mailbox.ask.remote("another")])
    others = set(threading.enumerate())
    leave_request.listen(mailbox, "mine")
    (listens,) = set(threading.enumerate()) - others
    _wait_until_asked()
    leave_request.forget()
    ray.get(mailbox.ask.remote("another"))
    time.sleep(0.2)
    assert not leave_request.is_asked()
    ray.get(mailbox.ask.remote("mine"))
    _wait_until_asked()
    ray.kill(
        mailbox
    )  # the shutdown of Ray may crash a process in which a thread waits: ray-project/ray#31145
    listens.join(30)
    assert not listens.is_alive()


def _wait_until_asked() -> None:
    ends_at = time.monotonic() + 30
    while not leave_request.is_asked():
        assert time.monotonic() < ends_at
        time.sleep(0.01)
