"""Notes and tags of the user on a sweep, and on its trials. They may also be written when it has ended."""

from __future__ import annotations

import os
from pathlib import Path

from sweeps.common.errors import UserError
from sweeps.common.formatting import count, shown_path
from sweeps.common.yaml_values import nearest
from sweeps.config.control_commands import Command
from sweeps.config.sweep_folder import JOURNAL
from sweeps.record import lock
from sweeps.record.journal import RecordLost, RecordUnreadable
from sweeps.record.record import Record


def annotate(record: Record, command: Command) -> str:
    """Write a note, or add or remove tags; what is answered.

    Args:
        record: that this process writes.
        command: one of ANNOTATING.

    Raises:
        UserError: there is no such trial or tag; nothing has changed then.
    """
    number = None if command.trial < 0 else command.trial
    typed = command.name if number is None else f"{command.name} {number}"
    if number is not None and number >= len(record.trials):
        begun = f"{count(len(record.trials), 'trial')} {'has' if len(record.trials) == 1 else 'have'} begun"
        raise UserError(f"{typed}: no such trial; {begun}, and the first is trial 0")
    what = "The sweep" if number is None else f"Trial {number}"
    if command.name == "note":
        record.annotate(number, note=command.note)
        return f"{what} has this note." if command.note else f"{what} has no note."
    had = [*(record.info if number is None else record.trials[number]).tags]
    if command.name == "tag":
        tags = list(dict.fromkeys([*had, *command.tags]))
    else:
        tags = [tag for tag in had if tag not in command.tags]
        for tag in command.tags:
            if tag not in had:
                listed = f" Tags: {', '.join(had)}" if had else " It has none"
                raise UserError(f"{typed} {tag}: no such tag.{nearest(tag, had)}{listed}")
    record.annotate(number, tags=tags)
    return f"{what} has the tags {', '.join(tags)}." if tags else f"{what} has no tag."


def annotate_ended(folder: Path, command: Command) -> str:
    """The same of a sweep that no process runs.

    The lock is held only to write: a large record is read for seconds, in which a resume may begin. The file
    keeps its time, by which the newest sweep is found.

    Raises:
        Taken: a process has begun to run it.
        UserError: the same, or the record can't be read or written.
    """
    journal = folder / JOURNAL
    try:
        while True:
            before = journal.stat()
            record = Record.read(folder)
            record.refuse_other_versions("annotate it")
            with lock.held(folder):
                now = journal.stat()
                if (now.st_ino, now.st_size) == (before.st_ino, before.st_size):
                    record.mend()
                    try:
                        return annotate(record, command)
                    finally:
                        os.utime(journal, ns=(now.st_atime_ns, now.st_mtime_ns))
    except (RecordUnreadable, RecordLost) as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"{shown_path(folder)}: {error.strerror or error}") from None
