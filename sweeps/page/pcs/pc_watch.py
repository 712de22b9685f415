"""What the page *PCs* knows of them: the last report, and the commands that were typed for it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweeps.common.formatting import command
from sweeps.common.imports import module_command

RETRIES_S = 5.0
"""After which a reporter that has ended is started again: its Ray has ended, or another one has begun."""
MOST_COMMANDS = 5
MOST_LINES = 50
LONGEST_REPORT_BYTES = 16 * 2**20


@dataclass
class TypedCommand:
    """A command that a button has typed."""

    words: Sequence[str]
    """Behind `sweeps`."""
    lines: list[str] = field(default_factory=list)
    """That it has printed."""
    status: int | None = None
    """Exit status; None while it runs."""

    @property
    def shown(self) -> str:
        """As it is typed."""
        return command(*self.words)


class PcWatch:
    """The reports of the PCs, as long as somebody looks, and the commands."""

    def __init__(self) -> None:
        self.latest: dict[str, Any] | None = None
        """The last report of `pc_reporter`; None before the first one."""
        self.fault = ""
        """Why there is none."""
        self.commands: list[TypedCommand] = []
        """The newest first."""
        self._watchers = 0
        self._task: asyncio.Task[None] | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._changes = 0

    @property
    def version(self) -> str:
        """Another one once something has changed."""
        return str(self._changes)

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
            if not self._watchers:
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

    def type(self, *words: str) -> TypedCommand:
        """Type a command, which goes on by itself; its lines follow."""
        typed = TypedCommand(words)
        self.commands = [typed, *self.commands][:MOST_COMMANDS]
        self._changes += 1
        task = asyncio.create_task(self._run(typed))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return typed

    async def _run(self, typed: TypedCommand) -> None:
        process = await asyncio.create_subprocess_exec(
            *module_command("sweeps", *typed.words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdout is not None
        async for line in process.stdout:
            typed.lines = [*typed.lines, line.decode("utf-8", "replace").rstrip()][-MOST_LINES:]
            self._changes += 1
        typed.status = await process.wait()
        self._changes += 1
