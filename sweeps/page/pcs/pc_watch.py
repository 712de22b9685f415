"""What the page *PCs* knows of them: the last report, and the commands that were typed for it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from sweeps.common import local_dirs
from sweeps.common.imports import module_command
from sweeps.page.typed_commands import TypedCommand, TypedCommands

RETRIES_S = 5.0
"""After which a reporter that has ended is started again: its Ray has ended, or another one has begun."""
FOLDER = "typed_for_pcs"
"""In the state folder of the user."""
KEPT_S = 6.0
"""In which nobody looks before it is ended: a page that is loaded anew joins no Ray anew."""
MOST_COMMANDS = 5
LONGEST_REPORT_BYTES = 16 * 2**20


class PcWatch:
    """The reports of the PCs, as long as somebody looks, and the commands."""

    def __init__(self) -> None:
        self.latest: dict[str, Any] | None = None
        """The last report of `pc_reporter`; None before the first one."""
        self.fault = ""
        """Why there is none."""
        self.typed = TypedCommands(local_dirs.state_dir() / FOLDER)
        """What the buttons have typed."""
        self._watchers = 0
        self._task: asyncio.Task[None] | None = None
        self._changes = 0

    @property
    def version(self) -> str:
        """Another one once something has changed."""
        printed = [f"{each.key}-{each.is_running}-{each.printed_bytes}" for each in self.commands]
        return "-".join([str(self._changes), *printed])

    @property
    def commands(self) -> list[TypedCommand]:
        """Those of this page, and those that still run; the newest first."""
        every = self.typed.every()
        return [each for each in every if each.status is not None or each.is_running][:MOST_COMMANDS]

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Ask the PCs as long as a page is open."""
        self._watchers += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            self._watchers -= 1
            asyncio.get_running_loop().call_later(KEPT_S, self.end_unwatched)

    def end_unwatched(self) -> None:
        """Ask the PCs no more, unless somebody looks."""
        if not self._watchers and self._task is not None:
            self._task.cancel()
            self.latest = None  # of then, not of now

    async def _follow(self) -> None:
        while True:
            process = await asyncio.create_subprocess_exec(
                *module_command("sweeps.page.pcs.pc_reporter"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=LONGEST_REPORT_BYTES,
                start_new_session=True,  # Ctrl-C is for the page; this one ends with its standard input
            )
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            errors = asyncio.create_task(process.stderr.read())
            try:
                async for line in process.stdout:
                    with contextlib.suppress(ValueError):  # a line of Ray's
                        self.latest, self.fault = json.loads(line), ""
                        self._changes += 1
                await process.wait()
                last = (await errors).decode("utf-8", "replace").strip().splitlines()[-1:]
                if process.returncode and last:
                    self.latest, self.fault = None, last[0]
                    self._changes += 1
            finally:
                errors.cancel()
                process.stdin.close()
            await asyncio.sleep(RETRIES_S)
