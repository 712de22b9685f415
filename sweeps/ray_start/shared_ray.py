"""The Ray of this user on this PC, which all sweeps here share: find or start it, use it, let it end.

The first sweep starts it, in a process of its own (`ray_cluster/ray_holder.py`), and others join it.
What they know of each other is in its folder (`ray_folder.py`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Self

from sweeps.common import project
from sweeps.common.errors import CannotContinue, UserError
from sweeps.common.formatting import command
from sweeps.ray_start import ray_connection
from sweeps.ray_start.ray_folder import (
    HOLDER,
    RayFolder,
    State,
    User,
    listed,
    ray_folder_here,
    start_of,
    versions,
)

LOOK_EVERY_S = 0.05
ENDS_S = 60.0
"""After which a holder is left to end by itself."""


class SharedRay:
    """The use of it by this process: found at once, or started meanwhile; its end, where nobody else uses it.

    Args:
        name: of the sweep, as far as it is known.
        python: starts the processes of its trials (see `ray_connection.join_here`).
        dashboard: whether one that is started has Ray's dashboard.
        ray_folder: of it, by default that of this process.

    Raises:
        UserError: there is no folder of use, or the Ray that is there is of another version.
    """

    def __init__(
        self, name: str, python: str, *, dashboard: bool, ray_folder: RayFolder | None = None
    ) -> None:
        self.ray_folder, self.python = ray_folder or ray_folder_here(), python
        self._dashboard = dashboard
        self._user: tuple[int, Path] | None = None
        self._about = User(pid=os.getpid(), name=name)
        self._state: State | None = None
        self._holder: subprocess.Popen[bytes] | None = None
        self._answer = -1
        self.is_started = False
        """Whether this process has started it."""
        self._begin(wait=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        self._leave(waits=self._state is not None and not isinstance(error, UserError))

    def joined(self) -> State:
        """Wait until it is there.

        Raises:
            UserError: it is of another version.
            CannotContinue: it does not start.
        """
        while self._state is None:
            self._begin(wait=True)
            if self._answer >= 0:
                with os.fdopen(self._answer, "rb") as answer:
                    said = answer.read().decode(errors="replace")
                self._answer = -1
                if said != "ready":
                    log = self.ray_folder.folder / "holder.log"
                    raise CannotContinue(said or f"Ray does not start on this PC (its log is {log})")
            self._state = self.ray_folder.state()
            if self._state is None:  # it has ended since
                self._let_go()
        return self._state

    def name(self, name: str, folder: Path) -> None:
        """Say by which sweep it is used, now that this is known."""
        self._note(replace(self._about, name=name, folder=str(folder)))

    @property
    def came_s(self) -> float:
        """When this process began to use it, by its monotonic clock."""
        return self._about.begun / 1e9

    def note_claim(self, claim: str) -> None:
        """Say what places the sweep claims and has; "": none any more."""
        if claim != self._about.claim or not self._about.has_claimed:
            self._note(replace(self._about, has_claimed=True, claim=claim))

    def _note(self, about: User) -> None:
        self._about = about
        if self._user is not None:
            words = json.dumps(asdict(self._about)).encode()
            os.pwrite(self._user[0], words.ljust(os.fstat(self._user[0]).st_size), 0)

    @property
    def step(self) -> str:
        """What `joined` does, in words, for who waits."""
        if self.is_started:
            return "Starting Ray"
        # Where another process starts it, this one does if that one ends before.
        return (
            "Joining the Ray of this PC" if self._user is not None else "Starting or joining Ray on this PC"
        )

    def how(self) -> str:
        """How it was joined, in words; "" where this process has started it."""
        if self.is_started:
            return ""
        others = [user.name for user in self.ray_folder.users() if user.pid != os.getpid()]
        words = "joined the Ray of this PC" + (f", with {' and '.join(others)}" if others else "")
        if self._dashboard and self._state is not None and not self._state.dashboard_url:
            words += ", which was started without its dashboard"
        return words

    def _begin(self, *, wait: bool) -> None:
        """Find it, or begin to start it; nothing where another process starts it, and this does not wait."""
        if self._user is not None:
            return
        with self.ray_folder.locked(wait=wait) as lock:
            if lock is None:
                return
            state = self.ray_folder.state()
            if state is not None:
                refuse_other_versions(state, self.ray_folder)
            self._user = self.ray_folder.add_user(self._about)
            if state is None:
                self._holder, self._answer = start_holder(self.ray_folder, lock, dashboard=self._dashboard)
                self.is_started = True

    def _let_go(self) -> None:
        if self._user is not None:
            number, path = self._user
            self._user = None
            path.unlink(missing_ok=True)
            os.close(number)

    def _leave(self, *, waits: bool) -> None:
        """Use it no more. Where nobody else does, it ends; `waits`: until it has."""
        self._let_go()
        state = self.ray_folder.state()
        if state is not None:  # else it begins, and its holder sees whether for nobody
            until = time.monotonic() + (ENDS_S if waits else 0.0)
            pid, start = state.processes[HOLDER]
            while time.monotonic() < until and start_of(pid) == start:
                if self.ray_folder.stays or self.ray_folder.is_used:
                    break
                time.sleep(LOOK_EVERY_S)
            if self._holder is not None:
                self._holder.poll()


def start_holder(ray_folder: RayFolder, lock: int, *, dashboard: bool) -> tuple[subprocess.Popen[bytes], int]:
    """Start a Ray; its holder, and a pipe in which it says "ready", or why it is not.

    Args:
        ray_folder: its own.
        lock: of the folder, which the holder has until it is ready.
        dashboard: whether it has Ray's.
    """
    reads, writes = os.pipe()
    words = map(str, (ray_folder.folder, lock, writes, int(dashboard)))
    path = os.pathsep.join(map(os.path.abspath, project.path_behind()))
    try:
        with (ray_folder.folder / "holder.log").open("wb") as log:
            holder = subprocess.Popen(
                [sys.executable, "-P", "-m", "sweeps.ray_cluster.ray_holder", *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                env={**os.environ, "PYTHONPATH": path},
                pass_fds=[lock, writes],
                start_new_session=True,  # no signal of a terminal reaches it
            )  # fmt: skip
    except BaseException:
        os.close(reads)
        raise
    finally:
        os.close(writes)
    return holder, reads


def refuse_other_versions(state: State, ray_folder: RayFolder) -> None:
    """Check that this program can join a Ray.

    Raises:
        UserError: it is of another version.
    """
    mine = versions()
    different = [name for name in mine if mine[name] != state.versions.get(name)]
    if not different:
        return
    there = ", ".join(f"{name} {state.versions.get(name, 'unknown')}" for name in different)
    here = ", ".join(f"{name} {mine[name]}" for name in different)
    users = ray_folder.users()
    used = f"It is used by {listed(users)}: wait until it ends" if users else f"Type {command('down')}"
    raise UserError(
        f"the Ray of this PC runs with {there}, and this is {here}. {used}, or set "
        f"{ray_connection.RAY_TMPDIR} to another folder for a Ray of its own"
    )
