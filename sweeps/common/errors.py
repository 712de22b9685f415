"""Errors that a user meets; none is a defect of this program."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error, what caused it, and so on."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


_OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "ALLOC_FAILED")
"""Words of PyTorch's CPU allocator, of torch.OutOfMemoryError, and of cuBLAS and cuDNN."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error, or one of its causes, is that the GPU's or the PC's memory ran out."""
    return any(
        isinstance(cause, MemoryError)
        or type(cause).__name__ == "OutOfMemoryError"  # PyTorch's, which is not imported for this
        or (isinstance(cause, RuntimeError) and any(words in str(cause) for words in _OUT_OF_MEMORY))
        for cause in causes(error)
    )


class CannotTrain(Exception):
    """The user's mistake, not a failure of the model."""


class CannotPrepare(Exception):
    """Data could not be prepared: printed without a traceback, exit status 1."""


class RayNotStarted(Exception):
    """Ray does not start on this PC: printed without a traceback, exit status 1."""


class PCUnfit(Exception):
    """This PC can train no trial: its disk is full, say. The trial is not at fault, and a sweep on several
    PCs continues without this one. The text is the reason, without the name of the PC."""


class MetricNotLogged(CannotTrain):
    """The model ended an epoch without logging the metric of an objective."""

    @classmethod
    def of(cls, metric: str, logged: Iterable[str], epoch: int, why: str = "") -> MetricNotLogged:
        """The error of an epoch, 1-based, with the reason, or with what it has logged instead."""
        names = sorted(logged)
        near = difflib.get_close_matches(metric, names, n=1)
        hint = f". Did you mean '{near[0]}'?" if near else ""
        when = f" in epoch {epoch}" if epoch > 1 else ""
        instead = f"logged: {', '.join(names) or 'nothing'}{hint}"
        return cls(f"metric '{metric}' was not logged{when}; {why or instead}")


class DiskIsFull(Exception):
    """There is no space for an essential file: printed without a traceback, exit status 1."""


class UserError(Exception):
    """The user's mistake: printed without a traceback, exit status 2."""


def reason_of(error: BaseException) -> str:
    """An exception as a reason of one line."""
    try:
        text = str(error).strip()
    except Exception:  # a user's exception whose own __str__ raises
        text = "(its message can't be read)"
    lines = text.encode(errors="backslashreplace").decode().splitlines()
    return f"{type(error).__name__}: {lines[0]}"[:500] if lines else type(error).__name__


def first_line(error: BaseException) -> str:
    """The first line of an exception's text; its type where it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
