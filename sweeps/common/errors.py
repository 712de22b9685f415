"""Errors that a user meets: what was asked, a disk, data, a model or a PC is at fault, not the program."""

from __future__ import annotations

from collections.abc import Iterator


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error, what caused it, and so on."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


class CannotTrain(Exception):
    """What was asked can't be trained: the user's mistake, not a failure of the model."""


class CannotPrepare(Exception):
    """Data could not be prepared to the end: printed without a traceback, exit status 1."""


class PCUnfit(Exception):
    """This PC can't train, whichever trial: its disk is full, say. The trial has done nothing wrong, and a
    sweep over several PCs goes on without this one. The text says why, and need not name the PC."""


class MetricNotLogged(CannotTrain):
    """The model ended an epoch without logging the metric that it is to be judged by."""


class DiskIsFull(Exception):
    """What a run can't do without has no room: printed without a traceback, exit status 1."""


class UserError(Exception):
    """A mistake that the user can mend: printed without a traceback, exit status 2."""


def reason_of(error: BaseException) -> str:
    """An exception as a reason of one line."""
    try:
        text = str(error).strip()
    except Exception:  # a user's exception whose own __str__ raises
        text = "(its message can't be read)"
    lines = text.encode(errors="backslashreplace").decode().splitlines()
    return f"{type(error).__name__}: {lines[0]}"[:500] if lines else type(error).__name__


def first_line(error: BaseException) -> str:
    """What an exception says, in a line; its type where it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
