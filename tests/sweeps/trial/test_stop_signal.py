"""A process is told to leave its trial: by a signal, or by a message where no signal can reach it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import ray

from sweeps.trial import stop_signal
from sweeps.trial.stop_signal import Mailbox

pytestmark = pytest.mark.usefixtures("ray_session", "handlers_as_before")


@pytest.mark.parametrize("sent", [stop_signal.SIGNAL, signal.SIGTERM])
def test_a_signal_is_noted_and_ends_no_process(sent: signal.Signals) -> None:
    stop_signal.listen()
    assert not stop_signal.is_asked()
    os.kill(os.getpid(), sent)
    assert stop_signal.is_asked()
    stop_signal.forget()
    assert not stop_signal.is_asked()


def test_a_process_that_is_gone_is_no_fault() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    stop_signal.send(process.pid)


def test_a_message_is_for_one_process_and_waits_for_it() -> None:
    mailbox = ray.remote(Mailbox).options(num_cpus=0).remote()
    ray.get([mailbox.ask.remote("mine"), mailbox.ask.remote("another")])
    others = set(threading.enumerate())
    stop_signal.listen(mailbox, "mine")
    (listens,) = set(threading.enumerate()) - others
    _wait_until_asked()
    stop_signal.forget()
    ray.get(mailbox.ask.remote("another"))
    time.sleep(0.2)
    assert not stop_signal.is_asked()
    ray.get(mailbox.ask.remote("mine"))
    _wait_until_asked()
    ray.kill(
        mailbox
    )  # the shutdown of Ray may crash a process in which a thread waits: ray-project/ray#31145
    listens.join(30)
    assert not listens.is_alive()


def _wait_until_asked() -> None:
    ends_at = time.monotonic() + 30
    while not stop_signal.is_asked():
        assert time.monotonic() < ends_at
        time.sleep(0.01)
