"""The log of a trial: its end, and what is printed while somebody looks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sweeps.config.sweep_folder import LOGS_FOLDER
from sweeps.record.trials import TrialRow

MOST_BYTES = 2**16
"""Of the end of a log that are shown at once."""
MOST_OF_LINE = 200
"""Characters of a log's last line that stand beside its trial."""
ANSI = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, and moves of the cursor
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles and links
    r"|\x1b[PX^_][^\x1b]*\x1b\\|\x1b[ -/]*[0-~]"
)
UNSEEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that turn the direction of a line, so that it reads as another one."""


@dataclass(frozen=True)
class LogPart:
    """A part of a log, as it is shown."""

    text: str
    ends_at: int
    """In bytes of the file: what is printed later is behind it."""
    left_out: int = 0
    """Bytes before it."""
    is_whole: bool = True
    """Whether it is the whole log, or its end; else what was printed since."""


def log_of(folder: Path, trial: TrialRow) -> Path | None:
    """The log of its last attempt that has one; no link to a file elsewhere is one."""
    root = folder.resolve()
    for attempt in (trial, *reversed(trial.attempts)):
        path = folder / LOGS_FOLDER / f"{attempt.name}.log"
        if path.is_file() and path.resolve().is_relative_to(root):
            return path
    return None


def end_of(path: Path, most_bytes: int = MOST_BYTES) -> LogPart:
    """The end of a log, from the beginning of a line."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            first = max(0, size - most_bytes)
            file.seek(first)
            content = file.read(most_bytes)
    except OSError:
        return LogPart("", 0)
    if first and (line_end := content.find(b"\n")) >= 0:
        first, content = first + line_end + 1, content[line_end + 1 :]
    return LogPart(shown(content), first + len(content), first)


def last_line(folder: Path, trial: TrialRow) -> str:
    """The last line that a trial has printed, or its begin; "" without one."""
    if (path := log_of(folder, trial)) is None:
        return ""
    lines = end_of(path, 2**12).text.split("\n")
    return next((line.strip()[:MOST_OF_LINE] for line in reversed(lines) if line.strip()), "")


def printed_since(path: Path, ends_at: int) -> LogPart | None:
    """What was added to a log since; its end as a whole where its middle was left out meanwhile, or much was
    printed; None where nothing was."""
    try:
        size = path.stat().st_size
    except OSError:
        return None
    if size == ends_at:
        return None
    if size < ends_at or size - ends_at > MOST_BYTES:
        return end_of(path)
    with path.open("rb") as file:
        file.seek(ends_at)
        content = file.read(size - ends_at)
    whole_lines = content[: content.rfind(b"\n") + 1]
    if not whole_lines:
        return None
    return LogPart(shown(whole_lines), ends_at + len(whole_lines), is_whole=False)


def shown(content: bytes) -> str:
    """The text of what a program has printed, as a terminal shows it, without colours: of a line that was
    written again, as bars of progress are, the last state."""
    text = content.decode("utf-8", "replace").replace("\r\n", "\n")
    text = UNSEEN.sub("", ANSI.sub("", text))
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
