"""The output of a command with `--json`: lines of JSON on the standard output. Text for people goes to the
standard error.

Each line is an object with an `event` and its `time`. The last one is the event `end` with the exit status,
the error where there is one, and the answer of the command. docs/output.schema.json describes them all.
Without `--json` nothing here does anything, so a command calls it without asking.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import io
import json
import math
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

FLAG = "--json"
HELP = "Print lines of JSON, for programs: the last one has the exit status. Text goes to the standard error."
_HELP_FLAGS = {"-h", "--help", "--help-all"}


class _ForPeople(io.TextIOWrapper):
    """The standard error as the standard output of a command: lines as in a file, which no table redraws."""

    def isatty(self) -> bool:
        return False


class _Output:
    """Where the lines go, and what the last one says.

    Args:
        has_lines: whether this process prints them; of several workers of a run only the first one does.
    """

    def __init__(self, has_lines: bool) -> None:
        self.answer: dict[str, Any] = {}
        self._lock = threading.RLock()  # a handler of a signal may come amid a line of the same thread
        self._waiting = collections.deque[str]()
        self._is_writing = False
        self._before, self._kept = sys.stdout, -1
        sys.stdout.flush()
        try:
            of_stdout, of_stderr = sys.stdout.fileno(), sys.stderr.fileno()
        except (OSError, ValueError, AttributeError):  # a stream of a test or a notebook, without a file
            self._lines, sys.stdout = sys.stdout, sys.stderr
        else:
            self._kept = os.dup(of_stdout)
            # A byte of a path that is no UTF-8, say: JSON has the same escapes.
            self._lines = os.fdopen(os.dup(of_stdout), "w", encoding="utf-8", errors="backslashreplace")
            os.dup2(of_stderr, of_stdout)  # for programs that this one starts
            of_people = os.fdopen(os.dup(of_stderr), "wb")
            sys.stdout = _ForPeople(of_people, errors="backslashreplace", line_buffering=True)
        if not has_lines:
            self._lines = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")

    def write(self, event: str, fields: Mapping[str, Any]) -> None:
        """Write a line. Nobody may read it any more, which ends no sweep."""
        reasons: dict[str, str] = {}
        line = _plain({"event": event, "time": time.time(), **fields}, "", reasons)
        if reasons:
            line["not_finite"] = reasons
        self.relay(json.dumps(line, ensure_ascii=False))

    def relay(self, line: str) -> None:
        """Write a line as it is. One of a handler that comes amid another line is written behind that."""
        self._waiting.append(line)
        with self._lock:
            if self._is_writing:
                return
            self._is_writing = True
            try:
                while self._waiting:
                    self._print(self._waiting.popleft())
            finally:
                self._is_writing = False

    def _print(self, line: str) -> None:
        with contextlib.suppress(OSError):
            if not self._lines.closed:
                print(line, file=self._lines, flush=True)

    def close(self) -> None:
        """Give the standard output back."""
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        if self._kept >= 0:
            os.dup2(self._kept, self._before.fileno())
            os.close(self._kept)
            with contextlib.suppress(OSError):
                self._lines.close()
        sys.stdout = self._before


_output: _Output | None = None
_has_lines = True
_depth = 0


def turn_on_where_asked(tokens: Sequence[str]) -> None:
    """Print JSON from now on, where the words of a command line ask for it, and not for help."""
    global _output
    if _output is None and FLAG in tokens and not _HELP_FLAGS & {*tokens}:
        _output = _Output(_has_lines)


def leave_lines_to_first() -> None:
    """Print none in this process, which is a further worker of a run."""
    global _has_lines
    _has_lines = False


def is_on() -> bool:
    """Whether the command prints JSON."""
    return _output is not None


def write(event: str, **fields: Any) -> None:
    """Write a line about what happens."""
    if _output is not None:
        _output.write(event, fields)


def answer(**fields: Any) -> None:
    """Add to the last line, whenever that comes."""
    if _output is not None:
        _output.answer |= fields


def relay(line: str) -> bool:
    """Write a line of the same command on another PC, where it is one of JSON; whether it was. Its last line
    becomes a part of this one's."""
    if _output is None or not line.startswith('{"event": '):
        return False
    try:
        fields = json.loads(line)
    except ValueError:
        return False
    if fields.pop("event") == "end":
        _output.answer |= {name: each for name, each in fields.items() if name not in ("time", "exit_status")}
    else:
        _output.relay(line)
    return True


@contextlib.contextmanager
def last_line() -> Iterator[dict[str, int]]:
    """Write the last line at the end of a block, also after an error. A block within another one is a part of
    its command.

    Yields:
        A dict that takes the `exit_status`; without one it is 1.
    """
    global _output, _depth
    end = {"exit_status": 1}
    _depth += 1
    try:
        yield end
    except SystemExit as ended:
        end["exit_status"] = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        raise
    except BaseException as error:
        answer(error=f"{type(error).__name__}: {error}")
        raise
    finally:
        _depth -= 1
        if _output is not None and not _depth:
            _output.write("end", {**end, **_output.answer})
            _output.close()
            _output = None


def plain(value: Any) -> Any:
    """A value for a file of JSON: null for numbers that are not finite, of which JSON has none."""
    return _plain(value, "", {})


def _plain(value: Any, where: str, reasons: dict[str, str]) -> Any:
    """A value as JSON has it: null for numbers that are not finite, each with the reason by its place."""
    if isinstance(value, float) and not math.isfinite(value):
        reasons[where] = "nan" if math.isnan(value) else "infinity" if value > 0 else "-infinity"
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = vars(value)
    if isinstance(value, datetime):
        return value.isoformat()
    inside = f"{where}." if where else ""
    if isinstance(value, Mapping):
        return {str(name): _plain(each, f"{inside}{name}", reasons) for name, each in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        return [_plain(each, f"{inside}{number}", reasons) for number, each in enumerate(value)]
    return str(value)
