"""Ray on this PC, which starts while a sweep is planned if that takes long. Ray is not imported with this."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sweeps.common import machine_folders, project, ray_connection
from sweeps.common.errors import RayLost, RayNotStarted
from sweeps.config.sweep_config import SweepConfig

SPILLED = "ray_spilled_objects*"
"""What Ray has moved from memory to its folder: a Ray that is ended at once leaves it there."""
HEAD = Path(__file__).with_name("ray_head.py")
LOST_SIGNAL = signal.SIGUSR2
"""To this process by itself, when Ray has ended. (Tune handles SIGUSR1.)"""
INTERRUPTS_S = 10.0
"""After which the main thread is in a call of Ray's that waits for a process that is gone."""
OF_START = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
"""Variables that Ray reads when it starts, to count the GPUs."""


class LocalRay:
    """A Ray that starts in the block, in a process of its own, and ends with it.

    Never in this process: Ray forks to start its programs, while the user's module is imported here. A fork
    in the midst of a product of matrices hangs (OpenBLAS ends its threads before each fork).

    Args:
        config: of the sweep. None is started for a dry run, or where the sweep joins a cluster.
        python: program by which Ray starts its processes, if that is not this Python.
    """

    def __init__(self, config: SweepConfig, python: Path | None) -> None:
        self._config, self._python = config, python
        self._head: subprocess.Popen[str] | None = None
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 (its reader is another method)
        """What the process that starts Ray prints of its errors."""
        self._place: tuple[object, ...] = ()
        self._is_joined = False
        self._folder: Path | None = None
        self._needed: dict[str, int] = {}
        """Ray's processes without which it can't be, and their ids."""
        self.lost = ""
        """Why this Ray has ended while it was needed; "" where it has not."""

    def __enter__(self) -> LocalRay:
        if self._config.address is None and not self._config.dry_run:
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def join(self) -> Any:
        """Wait until Ray has started, and join it; Ray's context.

        Where the user's module has hidden GPUs or changed the folder meanwhile, another Ray is started. What
        else it sets in the environment it sets again where its trials run.

        Raises:
            RayNotStarted: it does not start.
        """
        import ray  # it reads the environment when it is imported

        self._settle()
        context = ray_connection.join(ray, self._address(), self._python)
        self._is_joined = True
        return context

    @contextlib.contextmanager
    def needed(self, last_words: Callable[[], None]) -> Iterator[None]:
        """Interrupt a block of the main thread, as Ctrl-C does, when one of Ray's own processes ends.

        Ray would let the block wait, and end this whole process after some seconds, without a word. Where it
        has ended it is shut down with the block.

        Args:
            last_words: called in another thread where the block is in a call of Ray's that nothing
                interrupts; then this process ends with status 1.

        Raises:
            RayLost: it has ended, and the block has not dealt with that (see `lost`).
        """
        woken, wake = os.pipe()
        before = signal.signal(LOST_SIGNAL, self._interrupt)
        self._is_interrupted = threading.Event()
        words = (woken, threading.get_ident(), last_words)
        watch = threading.Thread(target=self._watch, args=words, daemon=True)
        watch.start()
        try:
            yield
        except BaseException:
            if self.lost:
                raise RayLost(self.lost) from None
            raise
        finally:
            self._needed = {}
            os.close(wake)
            watch.join()
            os.close(woken)
            signal.signal(LOST_SIGNAL, before)
            if self.lost:
                self.close()

    def _watch(self, woken: int, main_thread: int, last_words: Callable[[], None]) -> None:
        """Wait for the end of one of Ray's processes, or of the block that needs them."""
        watched: dict[int, str] = {}
        gone = ""
        try:
            for name, pid in self._needed.items():
                try:
                    watched[os.pidfd_open(pid)] = name
                except ProcessLookupError:
                    gone = name
            if not gone:
                gone = watched.get(select.select([woken, *watched], [], [])[0][0], "")
        except OSError:  # an old kernel, or a sandbox, opens none: the sweep goes on without this watch
            return
        finally:
            for descriptor in watched:
                os.close(descriptor)
        if gone:
            why = f"its process {gone} is gone: the kernel ends one where memory runs out"
            self.lost = f"Ray on this PC has ended ({why})"
            signal.pthread_kill(main_thread, LOST_SIGNAL)
            if not self._is_interrupted.wait(INTERRUPTS_S):
                try:
                    last_words()
                finally:
                    os._exit(1)  # with which all that it has started ends

    def _interrupt(self, *_: Any) -> None:
        if not self.lost:  # it came from outside
            return
        self._is_interrupted.set()
        if self._needed:
            raise KeyboardInterrupt  # the only exception that a wait of Ray's lets through

    def _settle(self) -> None:
        """Start another Ray where this one has begun under other conditions, or has ended."""
        if self._place != _place() or (self._head is not None and self._head.poll() is not None):
            self._end()
            self._start()

    def close(self) -> None:
        """End Ray, at once: all that a sweep needs is on the disk."""
        try:
            if self._is_joined:
                import ray

                ray_connection.shut_down(ray)
                self._is_joined = False
        finally:
            self._end()

    def _start(self) -> None:
        self._place = _place()
        program = [sys.executable] if self._python is None else ["sh", str(self._python)]
        settings = {
            "num_cpus": cpus(), "dashboard": self._config.ray_dashboard,
            "python": None if self._python is None else str(self._python),
            "PYTHONPATH": os.environ.get("PYTHONPATH"),
        }  # fmt: skip
        variables = {"PYTHONPATH": os.pathsep.join(project.path_behind())}
        variables |= {"TMPDIR": str(machine_folders.for_sockets())}  # Ray's dashboard has sockets there, too
        self._head = subprocess.Popen(
            [*program, "-P", str(HEAD), json.dumps(settings)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._printed, text=True,
            env={**os.environ, **variables},
            process_group=0,  # Ctrl-C is for the sweep, which ends its trials first
        )  # fmt: skip

    def _address(self) -> str:
        assert self._head is not None
        assert self._head.stdin is not None
        assert self._head.stdout is not None
        with contextlib.suppress(OSError):  # it has ended
            os.write(self._head.stdin.fileno(), b"\n")
        line = self._head.stdout.readline()
        reply = json.loads(line) if line else {}
        if "address" in reply:
            self._folder, self._needed = Path(reply["folder"]), reply["needed"]
            return str(reply["address"])
        raise RayNotStarted(reply.get("error") or ray_connection.not_started(self._why_ended()))

    def _why_ended(self) -> str:
        """Why the process that starts Ray has ended: the last line that it printed."""
        assert self._head is not None
        ended = f"its process ended with status {self._head.wait()}"
        self._printed.seek(0)
        *_, last = [b"", *self._printed.read().strip().splitlines()]
        return f"{ended}: {last.decode(errors='replace')}" if last else ended

    def _end(self) -> None:
        """End the process that holds Ray, and all of Ray's with it."""
        if self._head is not None:
            with self._head as head:
                head.kill()
            self._head = None
        if self._folder is not None:
            for spilled in self._folder.glob(SPILLED):
                shutil.rmtree(spilled, ignore_errors=True)
            self._folder = None


def cpus() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _place() -> tuple[object, ...]:
    return (Path.cwd(), cpus(), *(os.environ.get(name) for name in OF_START))
