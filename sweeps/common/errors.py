"""Errors that a user meets; none is a defect of this program."""

from __future__ import annotations

import contextlib
import difflib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error, what caused it, and so on, each one once: an error may be its own cause."""
    found: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and not any(cause is each for each in found):
        found.append(cause)
        yield cause
        cause = cause.__cause__ or cause.__context__


_OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "ALLOC_FAILED", "RESOURCE_EXHAUSTED")
"""Words of PyTorch's CPU allocator, of torch.OutOfMemoryError, of cuBLAS and cuDNN, and of JAX."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error, or one of its causes, is that the GPU's or the PC's memory ran out."""
    return any(
        isinstance(cause, MemoryError)
        or type(cause).__name__ == "OutOfMemoryError"  # PyTorch's, which is not imported for this
        or (isinstance(cause, RuntimeError) and says_out_of_memory(str(cause)))
        for cause in causes(error)
    )


def says_out_of_memory(text: str) -> bool:
    """Whether the text of an error is that memory ran out."""
    return any(words in text for words in _OUT_OF_MEMORY)


def oom_kills() -> int:
    """Processes of this PC that the kernel has killed for want of memory since it was started."""
    try:
        counters = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    except OSError:
        return 0
    return int(counters.get("oom_kill", 0))


class ProgramFailed(RuntimeError):
    """The program of a trial has failed; the text is the whole reason."""


class CannotTrain(Exception):
    """The user's mistake, not a failure of the model."""


class CannotContinue(Exception):
    """Something that a command needs is not there: printed without a traceback, exit status 1."""


class RayLost(CannotContinue):
    """Ray on this PC has ended while a sweep needed it."""


class PCUnfit(Exception):
    """This PC can train no trial: its disk is full, say. The trial is not at fault, and a sweep on several
    PCs continues without this one. The text is the reason, without the name of the PC."""


class MetricNotLogged(CannotTrain):
    """The model ended an epoch without logging the metric of an objective."""

    @classmethod
    def from_logged(cls, metric: str, logged: Iterable[str], epoch: int, why: str = "") -> MetricNotLogged:
        """The error of an epoch, 1-based, with the reason, or with what it has logged instead."""
        names = sorted(logged)
        near = difflib.get_close_matches(metric, names, n=1)
        hint = f". Did you mean '{near[0]}'?" if near else ""
        when = f" in epoch {epoch}" if epoch > 1 else ""
        instead = f"logged: {', '.join(names) or 'nothing'}{hint}"
        return cls(f"metric '{metric}' was not logged{when}; {why or instead}")


class DiskIsFull(CannotContinue):
    """There is no space for an essential file."""


class UserError(Exception):
    """The user's mistake: printed without a traceback, exit status 2."""


def refuse(faults: Sequence[str]) -> None:
    """Raise a UserError of all faults, one a line, if there are any."""
    if faults:
        raise UserError("\n".join(faults))


@contextlib.contextmanager
def collecting(faults: list[str], where: str = "") -> Iterator[None]:
    """Add the lines of a UserError of the block to the faults, each behind `where`, and go on."""
    try:
        yield
    except UserError as error:
        faults += [f"{where}{line}" for line in str(error).splitlines()]


def innermost(error: BaseException) -> BaseException:
    """What an error wraps: the cause of its cause, and so on; an error that wraps none is its own."""
    seen = {id(error)}
    while True:
        group = error.exceptions if isinstance(error, BaseExceptionGroup) else (None,)
        inner = error.__cause__ or group[0]
        if isinstance(error, SystemExit) and not error.__suppress_context__:
            inner = error.__context__  # a program that ends itself, where it has caught an error
        if inner is None or id(inner) in seen:
            return error
        error = inner
        seen.add(id(error))


_ANOTHER = "During handling of the above exception, another exception occurred:"
"""Python's line between the tracebacks of two errors of which the second one does not wrap the first."""


def reason_of(error: BaseException) -> str:
    """An exception as a reason of one line, its first, and the next where that ends in a colon: its innermost
    cause, also where its text is a traceback, as in the errors of other processes."""
    error = innermost(error)
    if isinstance(error, ProgramFailed):
        return str(error)
    try:
        text = str(error).strip()
    except Exception:  # a user's exception whose own __str__ raises
        text = "(its message can't be read)"
    lines = text.encode(errors="backslashreplace").decode().splitlines()
    if raised := raised_in(lines):
        name, colon, said = raised.partition(":")
        return f"{name.rpartition('.')[2]}{colon}{said}"[:500]
    return f"{type(error).__name__}: {first_said(lines)}"[:500] if lines else type(error).__name__


def first_said(lines: Sequence[str]) -> str:
    """The first line, with the next one where it ends in a colon."""
    first, *more = (line.strip() for line in lines[:2])
    return " ".join([first, *more]).strip() if first.endswith(":") else first


def raised_in(lines: Sequence[str]) -> str:
    """The `first_said` of the innermost error of a text with Python's tracebacks; "" without any."""
    begin = max((number for number, line in enumerate(lines, 1) if line.strip() == _ANOTHER), default=0)
    depth = math.inf  # of the frames
    for number, line in enumerate(lines[begin:], begin):
        indent = len(line) - len(line.lstrip())
        if depth == math.inf and line.startswith('File "', indent):
            depth = indent
        elif line.strip() and indent < depth < math.inf:
            return first_said(lines[number:])
    return ""


_FRAME = re.compile(r'( *)File "(.+)", line (\d+), in ')
"""The first line of a frame of a traceback."""
_PACKAGES = re.compile(r".*\b(?:site|dist)-packages/")
"""Where libraries are installed."""
_OWN = str(Path(__file__).parents[1])


def folded(traceback: str) -> str:
    """A traceback with a line in place of the frames of libraries, where it has some of the user's code."""
    lines: list[str] = []
    hidden: list[str] = []
    indent, is_hidden, has_own = "", False, False
    for line in [*traceback.splitlines(), ""]:
        frame = _FRAME.match(line)
        if frame is None and is_hidden and line.startswith(f"{indent}  "):
            continue
        if frame is not None:
            indent, is_hidden = frame[1], bool(library := _library_of(frame[2]))
            if library:
                hidden.append(library)
                continue
            has_own = True
        if hidden:
            names = ", ".join(dict.fromkeys(hidden))
            lines.append(f"{indent}... {len(hidden)} frame{'s' if len(hidden) > 1 else ''} of {names}")
            hidden = []
        is_hidden = False
        lines.append(line)
    return "\n".join(lines).rstrip() if has_own else traceback.rstrip()


def place_in(traceback: str) -> str:
    """` (model.py, line 8)`, the last line of the user's code in a traceback; "" without any."""
    own = [
        frame
        for line in traceback.splitlines()
        if (frame := _FRAME.match(line)) and not _library_of(frame[2])
    ]
    return f" ({Path(own[-1][2]).name}, line {own[-1][3]})" if own else ""


def _library_of(file: str) -> str:
    """The package of a file that is not the user's; "" of one that is."""
    if packages := _PACKAGES.match(file):
        return file[packages.end() :].partition("/")[0].removesuffix(".py")
    if file.startswith(f"{_OWN}/"):
        return "sweeps"
    return "Python" if file.startswith("<") or "/lib/python3." in file else ""


_IN_ANOTHER = " (in another worker, on "


def in_another_worker(pc: str) -> str:
    """What a reason says of the worker that is not the first one."""
    return f"{_IN_ANOTHER}{pc})"


def without_worker(reason: str) -> str:
    """A reason without what it says of its worker."""
    before, _, after = reason.partition(_IN_ANOTHER)
    return before + after.partition(")")[2]


def first_line(error: BaseException) -> str:
    """The first line of an exception's text; its type where it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
