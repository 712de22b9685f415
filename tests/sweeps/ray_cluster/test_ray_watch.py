"""A Ray on this PC: it starts whatever the folders are, and a sweep is interrupted where it ends."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sweeps import sweep
from sweeps.common.errors import RayLost
from sweeps.execution import storage_and_data
from sweeps.execution.output import notify
from sweeps.execution.run_context import RunContext
from sweeps.ray_cluster import cluster, session
from sweeps.ray_cluster.cluster import RayWatch
from tests.conftest import ROOT, TOY


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    flags = [
        *TOY,
        "--num-trials",
        "1",
    ]
    mine = {name: value for name, value in os.environ.items() if name != "RAY_TMPDIR" or not variables}
    return subprocess.run(
        [sys.executable, "-P", "-m", "sweeps", "run", *flags, "--max-epochs", "1", "--name", "s", *words],
        cwd=folder,
        env={**mine, "PYTHONPATH": str(ROOT), "TOY_ATTEMPTS": str(folder), **variables},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_neither_long_paths_of_temporary_files_nor_files_that_hide_modules_of_libraries_are_a_hindrance(
    tmp_path: Path,
) -> None:
    """The path is too long for the sockets of Ray and of its dashboard. Ray imports these modules while it
    starts, PyTorch two of them, and Tune the first by W&B."""
    (long := tmp_path / "a_scratch_folder_of_a_job").mkdir()
    for name in ("click", "resource", "platform", "types", "queue", "nt"):
        (tmp_path / f"{name}.py").write_text("VALUE = 1")
    done = run(tmp_path, TMPDIR=str(long))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_file_that_hides_a_module_from_the_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "lightning.py").write_text("VALUE = 1")
    done = run(tmp_path, "--no-ray-dashboard")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --trainable tests.faulty.toy: can't be imported: ")
    assert done.stderr.endswith("lightning.py has the name of a module that libraries import, and Python "
                                "imports only one of them by the name lightning: rename yours\n")  # fmt: skip


@pytest.mark.parametrize("opens", [True, False], ids=["here", "a kernel without such descriptors"])
def test_a_signal_from_outside_does_not_end_a_sweep(opens: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(pid: int) -> int:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if not opens:
        monkeypatch.setattr(os, "pidfd_open", refuses)
    watch = RayWatch({"raylet": os.getppid()})
    with watch.needed(lambda: None):
        signal.raise_signal(cluster.LOST_SIGNAL)
    assert watch.lost == ""


@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_the_end_of_a_process_of_ray_interrupts_what_needs_it(name: str) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        watch = RayWatch({name: process.pid})

        def needs_it() -> None:
            with watch.needed(lambda: None):
                process.kill()
                time.sleep(60)

        with pytest.raises(RayLost, match=f"its process {name} is gone"):
            needs_it()
    assert name in watch.lost


def test_it_is_watched_while_data_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes hours, and much memory."""
    with subprocess.Popen(["sleep", "60"]) as process:
        cluster = SimpleNamespace(is_alone=True, watch=RayWatch({"raylet": process.pid}))
        context = SimpleNamespace(announced=contextlib.nullcontext)

        def prepare(_: object) -> None:
            process.kill()
            time.sleep(10)

        monkeypatch.setattr(notify, "at_the_end", lambda *_: contextlib.nullcontext())
        monkeypatch.setattr(session, "connect", lambda *_: contextlib.nullcontext(cluster))
        monkeypatch.setattr(sweep, "following", lambda *_: contextlib.nullcontext())
        monkeypatch.setattr(RunContext, "from_plan", lambda *_: context)
        monkeypatch.setattr(storage_and_data, "deliver_data", prepare)
        config = SimpleNamespace(dashboard=False, logger_names=())
        record: Any = None
        plan: Any = SimpleNamespace(config=config, folder=Path())
        with pytest.raises(RayLost, match="its process raylet is gone"):
            sweep._run_trials(plan, record, [], None, None)


def test_what_nothing_interrupts_has_its_last_words(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time\nfrom sweeps.ray_cluster import cluster\n"
        "cluster.INTERRUPTS_S = 0.5\ncluster.LOST_SIGNAL = cluster.signal.SIGWINCH\n"
        "process = subprocess.Popen(['sleep', '60'])\nwatch = cluster.RayWatch({'raylet': process.pid})\n"
        "with watch.needed(lambda: print(watch.lost, flush=True)):\n"
        "    cluster.signal.pthread_sigmask(cluster.signal.SIG_BLOCK, [cluster.LOST_SIGNAL])\n"
        "    process.kill()\n    time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    assert "its process raylet is gone" in done.stdout
