"""The tutorial of the docs, walked by a reader: its files, and its commands, typed on two PCs of a lab."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from sweeps.config.sweep_folder import JOURNAL
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from tests.docs.pages import WALKED
from tests.support import lab, terminals
from tests.support.cluster_of_pcs import PYTHON, VENV
from tests.support.lab import PC, Lab, wait_until
from tests.support.terminals import Recording

NET = "192.168.1."
"""Of the PCs on the page, 11 and 12."""
PROJECT = "digits"
"""The reader's folder, in the home folder of the first PC."""
NOT_WALKED = {
    "pip install": "changes this environment",
    "sweeps --version": "tells of this environment",
    "ssh-keygen": "the lab has handed out keys",
    "ssh-copy-id": "the lab has handed out keys",
    "sweeps dashboard": "shows pages until Ctrl-C: tests/sweeps/test_dashboard.py ends it",
}
"""Beginnings of commands, each with the reason."""
WAIT_S = 900.0


def write_project(folder: Path) -> None:
    """The files of the page: a block begins with the name of its file."""
    folder.mkdir(parents=True, exist_ok=True)
    for block in WALKED.blocks("python"):
        if named := re.match(r"# (\w+\.py)\n", block):
            (folder / named[1]).write_text(block)


def commands() -> list[str]:
    """What the page says to type, in its order, without what is not walked."""
    typed = [command for command in WALKED.commands if command]
    return [command for command in typed if not command.startswith(tuple(NOT_WALKED))]


class Reader:
    """Who types the commands of the page, each once.

    Args:
        made: a lab of two PCs at least; the last two are those of the page.
        priority: of what is typed, as `nice` has it.
    """

    def __init__(self, made: Lab, priority: int = 0) -> None:
        self.first, self.second = made.pcs[-2:]
        self.recordings: dict[str, Recording] = {}
        """By command."""
        self.left = set(commands())
        """Those that are not typed yet."""
        self._priority = priority
        for pc in (self.first, self.second):
            pc.run("ip", "route", "add", "default", "dev", "eth0")
            pc.sshd("Subsystem=sftp internal-sftp")
        write_project(self.first.path(f"~/{PROJECT}"))

    def type(
        self, command: str, at: PC | None = None, keys: Mapping[str, str] | None = None, status: int = 0
    ) -> None:
        """Type the command of the page that begins so, in a terminal, and wait for its end.

        Raises:
            AssertionError: it ends otherwise.
        """
        found = next(each for each in commands() if each.startswith(command))
        self.left.discard(found)
        pc = at or self.first
        folder = lab.HOME / PROJECT if pc is self.first else lab.HOME
        typed = found.replace("/home/me", str(lab.HOME))
        line = f"echo {self._priority} > /proc/self/autogroup; cd {folder}; {typed}"
        path = f"{VENV / 'bin'}:{os.environ['PATH']}"
        own = ["setsid", "--wait"] if " ray start" in found else []  # it outlives this terminal
        inside = ["env", "--unset=TMPDIR", "--default-signal=INT", *own, "bash", "-c", line]
        words = [
            "env",
            "--ignore-signal=INT",
            *pc.words_for(inside, {"PATH": path}),
        ]  # Ctrl-C is for the command
        recording = terminals.record(words, rows=28, keys=keys, prompt=found)
        self.recordings[found] = recording
        assert recording.status == status, "\n".join(recording.lines())

    def folder(self, sweep: str) -> Path:
        """Of a sweep, as it is seen from outside the PC."""
        return self.first.path(f"~/{PROJECT}/results/{sweep}")

    def wait_for(
        self, sweep: str, what: str, holds: Callable[[list[TrialRow]], bool], terminal: Future[None]
    ) -> None:
        """Go on as soon as the trials of a sweep are so.

        Raises:
            AssertionError: they are not, or its command has failed in its terminal.
        """
        folder = self.folder(sweep)

        def is_so() -> bool:
            if terminal.done():
                terminal.result()
            return (folder / JOURNAL).is_file() and holds(Record.read(folder).trials)

        wait_until(is_so, what, timeout_s=WAIT_S)


def walk(reader: Reader, look: Callable[[str], None] = lambda name: None) -> None:
    """The page from its first command to its last.

    Args:
        reader: who walks it.
        look: called with the name of a sweep when the page looks at it while it runs.
    """
    with ThreadPoolExecutor(1) as other_terminal:

        def begin(command: str, **more: object) -> Future[None]:
            return other_terminal.submit(reader.type, command, **more)

        reader.type("sweeps fit tune_digits --test")
        reader.type("sweeps run tune_digits --dry-run")
        sweep = begin("sweeps run tune_digits --name first", keys={"(1 finished": "^C"}, status=130)
        reader.wait_for("first", "trials to end", lambda trials: _ended(trials) >= 8, sweep)
        look("first")
        sweep.result()
        reader.type("sweeps run --resume first")
        reader.type("sweeps report first")
        reader.type("sweeps run --refine first --dry-run")

        reader.type("rsync -a ~/.ray/auth_token")
        reader.type("RAY_AUTH_MODE=token ray start --head")
        sweep = begin("sweeps run --refine first --name second")
        reader.wait_for("second", "trials to end", lambda trials: _ended(trials) >= 2, sweep)
        reader.type("RAY_AUTH_MODE=token ray start --address", at=reader.second)
        reader.wait_for(
            "second", "work on the second PC", lambda trials: bool(_on(trials, reader.second)), sweep
        )
        reader.type("sweeps pcs status second")
        look("second")
        reader.wait_for("second", "trials to end", lambda trials: _ended(trials) >= 8, sweep)
        reader.type("sweeps pcs drain", at=reader.second)
        reader.type("sweeps pcs back", at=reader.second)
        reader.type("RAY_AUTH_MODE=token ray start --address", at=reader.second)
        sweep.result()

    reader.type("sweeps results")
    (loads,) = [block for block in WALKED.blocks("python") if "results.load" in block]
    reader.first.run("sh", "-c", f"cd ~/{PROJECT} && {PYTHON} -c '{loads}print(model)'")
    reader.type("sweeps fit tune_digits --params")
    for pc in (reader.second, reader.first):
        reader.type("ray stop", at=pc)


def _ended(trials: list[TrialRow]) -> int:
    return sum(trial.status in ("finished", "pruned") for trial in trials)


def _on(trials: list[TrialRow], pc: PC) -> list[TrialRow]:
    return [trial for trial in trials if trial.epochs and trial.place["pc"] == pc.name]
