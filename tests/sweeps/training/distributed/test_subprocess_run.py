"""Trainings in processes of their own: they end, all of them, and why they failed is known."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sweeps.common.errors import CannotTrain
from sweeps.training.distributed import launch
from sweeps.training.distributed.launch import OUT_OF_MEMORY, TIMED_OUT, Ended
from tests.conftest import ROOT
from tests.support.steered import is_alive

# A first worker that ends while another one stays, as one does that waits for it.
LEAVES_ONE = """
import subprocess, sys
stays = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(stays.pid, flush=True)
"""


def run_python(code: str, timeout_s: float = 60) -> Ended:
    return launch.run([sys.executable, "-c", code], timeout_s)


def test_what_a_process_has_started_ends_with_it_and_holds_nobody_up() -> None:
    ended = run_python(LEAVES_ONE + "sys.exit(3)")
    assert (ended.status, ended.timed_out) == (3, False)
    stays = int(ended.output)
    for _ in range(600):  # killed, and on its way
        if not is_alive(stays):
            return
        time.sleep(0.05)
    pytest.fail(f"process {stays} is still there")


@pytest.mark.slow
def test_a_process_that_waits_for_ever_is_ended() -> None:
    ended = launch.run(["sh", "-c", "echo here; exec sleep 600"], timeout_s=2)  # Python may start in more
    assert ended == Ended(-signal.SIGKILL, "here\n", timed_out=True)


WAITS = """
import signal, sys
from sweeps.training.distributed import launch as children
from sweeps.common.cli.dispatch import status_of

def program():
    children.run([sys.executable, "-c", CHILD], 600)
    return 0

CHILD = "import os, pathlib, time; pathlib.Path('child').write_text(f'{os.getpid()} '); time.sleep(60)"
status = status_of(program)
handlers = [signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGHUP)]
print("as before" if set(handlers) == {signal.SIG_DFL} else handlers)
sys.exit(status)
"""


@pytest.mark.slow
@pytest.mark.parametrize("stops", [[signal.SIGTERM], [signal.SIGHUP], [signal.SIGTERM, signal.SIGHUP]])
def test_what_stops_a_process_stops_its_child_too(stops: list[signal.Signals], tmp_path: Path) -> None:
    waits = subprocess.Popen(
        [sys.executable, "-c", WAITS],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # whatever started pytest
    )
    child = tmp_path / "child"
    while not child.exists() or not child.read_text().endswith(" "):
        assert waits.poll() is None, waits.communicate()
        time.sleep(0.05)
    for each in (signal.SIGSTOP, *stops, signal.SIGCONT):  # all come before the first one is answered
        waits.send_signal(each)
    output, errors = waits.communicate(timeout=60)
    assert (waits.returncode, output, errors) == (130, "as before\n", "Interrupted.\n")
    assert not is_alive(int(child.read_text()))


def test_a_child_that_a_stop_meets_as_it_starts_is_stopped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Stopped(subprocess.Popen[bytes]):
        def __init__(self, *words: Any, **more: Any) -> None:
            super().__init__(*words, **more)
            started.append(self)
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(subprocess, "Popen", Stopped)
    with pytest.raises(KeyboardInterrupt):
        run_python("import time; time.sleep(600)")
    try:
        assert started[0].poll() == -signal.SIGKILL
    finally:
        started[0].kill()
        started[0].wait()


def test_a_stop_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        asks = f"import os, signal; os.kill({os.getpid()}, signal.SIGHUP)"
        assert run_python(asks).status == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_run_of_its_own_does_not_take_itself_for_a_worker_of_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_this_one = {
        **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "RANK": "1", "LOCAL_RANK": "1"},
        **{"NODE_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"},
        **{"SLURM_NTASKS": "2", "SLURM_PROCID": "1"},
    }
    for name, value in of_this_one.items():
        monkeypatch.setenv(name, value)
    asks = (
        "import os; from sweeps.training.distributed import launch; "
        "print(launch.find_launch(), launch.is_first(), *os.environ)"
    )
    started_by, is_first, *left = run_python(asks).output.split()
    assert (started_by, is_first) == ("None", "True")
    assert set(left) & of_this_one.keys() == {"SLURM_PROCID"}, "which says nothing by itself"
    assert "PATH" in left


def leave(folder: Path, error: Exception, worker: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker fails."""
    monkeypatch.setenv("LOCAL_RANK", str(worker))
    with pytest.raises(type(error)), launch.report_failure(folder):
        raise error
    file = max(folder.iterdir(), key=lambda file: file.name)
    os.utime(file, ns=(0, len(list(folder.iterdir()))))  # one after the other, on any disk


@pytest.mark.parametrize(
    ("function", "argument", "expected"),
    [
        (len, "four", (4, "")),
        (sys.exit, 0, (None, "the program has ended itself")),
        (sys.exit, 3, (None, "exit status 3")),
    ],
)
def test_a_function_that_ends_its_process_is_a_failure(
    function: Callable[[Any], Any], argument: Any, expected: tuple[int | None, str]
) -> None:
    result, why = launch.call(60, function, argument)
    assert (result, why[: len(expected[1])]) == expected


KILLED, FAILED, DONE = Ended(-signal.SIGKILL, "", False), Ended(1, "", False), Ended(0, "", False)
BUG = ValueError("rows of another shape")
LOST = RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:5")


@pytest.mark.parametrize(
    ("ended", "errors", "reason"),
    [
        (DONE, [], ""),
        (FAILED, [MemoryError()], OUT_OF_MEMORY),
        (KILLED, [], OUT_OF_MEMORY),
        (KILLED, [BUG], "ValueError: rows of another shape"),  # of the other worker
        (FAILED, [LOST, BUG], "ValueError: rows of another shape"),
        (FAILED, [BUG, MemoryError()], OUT_OF_MEMORY),
        (FAILED, [LOST], OUT_OF_MEMORY),  # the other was killed
        (DONE, [LOST], ""),  # one was later than the other to end
        (FAILED, [CannotTrain("batch_size 3: no")], "batch_size 3: no"),
        (Ended(-signal.SIGKILL, "", True), [], TIMED_OUT),
        (Ended(-signal.SIGKILL, "", True), [MemoryError()], OUT_OF_MEMORY),
        (Ended(-signal.SIGSEGV, "Fatal error", False), [], "Fatal error"),
        (Ended(5, "", False), [], "exit status 5"),
    ],
)
def test_a_failure_is_told_by_what_the_workers_have_left(
    ended: Ended, errors: list[Exception], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for worker, error in enumerate(errors):
        leave(tmp_path, error, worker, monkeypatch)
    assert launch.failure_of(ended, tmp_path).endswith(reason)
    assert bool(launch.failure_of(ended, tmp_path)) == bool(reason)
