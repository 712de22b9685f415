"""Commands that the page has typed: each in a process of its own, which goes on when the page is closed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from sweeps.common import local_dirs
from sweeps.common.formatting import command
from sweeps.common.imports import module_command
from sweeps.ray_start.ray_folder import start_of

FOLDER = "started"
"""In the state folder of the user: what the commands print, each in a file."""
MOST_KEPT = 50
"""Commands that have ended."""
CHECK_S = 40.0
"""In which `--dry-run` must have planned."""
MOST_BYTES = 2**16
"""Of what it prints that are shown."""
KEY = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")


@dataclass(frozen=True)
class TypedCommand:
    """A command that the page has typed."""

    key: str
    """In addresses; when it was started, and a number."""
    words: tuple[str, ...]
    """Behind `sweeps`."""
    name: str
    """Of the sweep; "" where it is about none."""
    folder: Path
    """In which it was typed."""
    pid: int
    """Of its process."""
    began: int
    """When that began, in the kernel's ticks: another one may get its id."""
    log: Path
    status: int | None = None
    """Exit status; None while it runs, and where another page has typed it."""

    @property
    def printed_bytes(self) -> int:
        """Size of its log."""
        with contextlib.suppress(OSError):
            return self.log.stat().st_size
        return 0

    @property
    def shown(self) -> str:
        """As it is typed."""
        return command(*self.words)

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return 0 < self.began == start_of(self.pid)


class TypedCommands:
    """The commands that the pages of this user have typed; a page that is started again finds them."""

    def __init__(self) -> None:
        self._folder = local_dirs.state_dir() / FOLDER
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, words: Sequence[str], name: str = "", cwd: Path | None = None) -> TypedCommand:
        """Start `sweeps WORDS` in a session of its own, about a sweep of this name, in the folder of its
        project or of the page.

        Raises:
            OSError: its log can't be written, or the command is too long.
        """
        cwd = cwd or Path.cwd()
        key = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._forget_old()
        log = self._folder / f"{key}.log"
        with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as printed:  # noqa: PTH123
            try:
                process = subprocess.Popen(
                    module_command("sweeps", *words),
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=subprocess.STDOUT,
                    cwd=cwd,
                    start_new_session=True,
                )
            except OSError:
                log.unlink()
                raise
        self._processes[key] = process
        began = start_of(process.pid)
        note = {"words": [*words], "name": name, "folder": str(cwd), "pid": process.pid, "began": began}
        (self._folder / f"{key}.json").write_text(json.dumps(note))
        return self._noted(key, note)

    def every(self) -> list[TypedCommand]:
        """All that are known, the newest first."""
        keys = sorted((path.stem for path in self._folder.glob("*.json")), reverse=True)
        return [found for key in keys if (found := self.get(key)) is not None]

    def get(self, key: str) -> TypedCommand | None:
        """One of them; None where there is none of this key."""
        for process in self._processes.values():
            process.poll()  # none stays a zombie
        if not KEY.fullmatch(key):
            return None
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            return self._noted(key, json.loads((self._folder / f"{key}.json").read_text()))
        return None

    def _noted(self, key: str, note: Mapping[str, Any]) -> TypedCommand:
        return TypedCommand(
            key,
            tuple(note["words"]),
            str(note["name"]),
            Path(note["folder"]),
            int(note["pid"]),
            int(note["began"]),
            self._folder / f"{key}.log",
            self._processes[key].returncode if key in self._processes else None,
        )

    def _forget_old(self) -> None:
        """Remove what was typed long ago, but not the log of a sweep that still runs."""
        for old in [each for each in self.every() if not each.is_running][MOST_KEPT - 1 :]:
            (self._folder / f"{old.key}.json").unlink(missing_ok=True)
            old.log.unlink(missing_ok=True)
            self._processes.pop(old.key, None)


async def dry_run(words: Sequence[str], cwd: Path) -> tuple[int | None, str]:
    """The exit status of a command with `--dry-run`, and what it prints; None where it took too long. Its
    process ends with the task that waits for it.

    Raises:
        OSError: the command is too long.
    """
    process = await asyncio.create_subprocess_exec(
        *module_command("sweeps", *words, "--dry-run"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=cwd,
        start_new_session=True,
    )
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), CHECK_S)
    except TimeoutError:
        return None, f"The plan was not made in {CHECK_S:g} s. The start does not need it."
    finally:
        if process.returncode is None:  # with all that it has started
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, printed[-MOST_BYTES:].decode("utf-8", "replace")


TYPED = web.AppKey("typed", TypedCommands)
