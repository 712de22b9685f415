"""A command of the user to a sweep: its process is asked; where there is none, how the sweep goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from sweeps.common.errors import UserError
from sweeps.common.formatting import shown_path
from sweeps.config import control_commands
from sweeps.config.sweep_folder import no_sweep, resume_command
from sweeps.record import control_requests, lock, status
from sweeps.record.annotations import annotate_ended
from sweeps.record.control_requests import Answer
from sweeps.record.record import Record

KEPT = (
    "The sweep is starting or busy. It keeps the command, and will take it up; its screen says what it did."
)


class NoProcess(UserError):
    """No process runs the sweep."""

    def __init__(self, why: str, folder: Path, flags: Sequence[str]) -> None:
        super().__init__(why + resume_command(folder, *flags))
        self.why = why
        self.flags = tuple(flags)
        """Of a resume with which it would go on."""


def steer(folder: Path, words: Sequence[str]) -> Answer:
    """Ask a sweep to do what a command says; what it answers.

    Args:
        folder: of the sweep.
        words: of the command, which `control_commands.parse` takes.

    Raises:
        NoProcess: no process runs it, and how it goes on.
        UserError: there is no sweep, or it can't be steered now.
        KeyboardInterrupt: its text says what has become of the command.
    """
    while True:
        try:
            return control_requests.ask(folder.resolve(), words) or Answer(KEPT)
        except control_requests.NotRunning:
            if (command := control_commands.parse(words)).name in control_commands.ANNOTATING:
                with contextlib.suppress(lock.Taken):  # a resume has begun, or another note is written
                    return Answer(annotate_ended(folder, command))
                continue
            if (why := how_to_go_on(folder, words)) is not None:
                raise why from None
        except control_requests.NotTaken:
            raise UserError(
                f"{shown_path(folder)}: the sweep takes no command now: its trials have all ended, or its "
                "screen says why it can't be steered"
            ) from None
        except FileNotFoundError:  # its start has failed meanwhile
            raise UserError(no_sweep(folder) or f"{shown_path(folder)}: its files are gone") from None


def how_to_go_on(folder: Path, words: Sequence[str] = ()) -> NoProcess | None:
    """Why no process runs a sweep, and the command to go on; None where one has begun to since.

    Args:
        folder: of the sweep.
        words: of a command that is to be done; (): to go on as it was.
    """
    record = Record.read(folder)
    if status.is_running(record):
        return None
    shown, how, can_go_on = shown_path(folder), status.status(record), status.can_go_on(record)
    flags = status.flags_for(record, words, has_ended=not can_go_on)
    why = f"{shown}: no process runs this sweep; it is {how}. "
    if flags or can_go_on:
        why += "A resume does that: " if flags else "Resume it: "
    else:
        why = f"{shown}: the sweep is {how}. For more trials: "
        flags = ["--num-trials", str(2 * len(record.searched))]
    found = NoProcess(why, folder, [*status.flags_of_resume(record), *flags])
    # A process that has begun meanwhile has made the one or the other untrue.
    return None if lock.is_held(folder) else found
