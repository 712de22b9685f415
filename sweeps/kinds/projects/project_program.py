"""A run of a project's own program up to a point, in this process."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from sweeps.common.errors import CannotTrain


class Built(NamedTuple):
    """What a project has built for a trial."""

    model: Any
    data: Any
    """None where the model has its own loaders."""
    trainer: Mapping[str, Any]
    """Arguments of Lightning's Trainer, as the project would make it."""


class _Left(BaseException):
    """Leaves the program of a project, which may catch an Exception."""


class ProgramRun:
    """A run of a project's program in this process, until it is left with what was to be found out."""

    def __init__(self) -> None:
        self._is_left = False
        self._found: Any = None
        self._error: Exception | None = None

    def leave(self, found: Any = None, error: Exception | None = None) -> NoReturn:
        """Leave the program with what was found, or with an error, which the program might catch."""
        self._is_left, self._found, self._error = True, found, error
        raise _Left

    def run(self, module: str, replaced: Sequence[tuple[Any, str, Any]], short_of: str) -> Any:
        """Run a program, as `python -m` does, until it is left; what was found.

        The words of this command are hidden from it, and it may change the folder.

        Args:
            module: of the program.
            replaced: owner, name and new value of what is another one meanwhile.
            short_of: for the message, what it did not do.

        Raises:
            CannotTrain: it has ended by itself.
            Exception: that with which it was left, or that it has raised.
        """
        replaced = [*replaced, (sys, "argv", sys.argv[:1])]
        before = [(owner, name, vars(owner)[name]) for owner, name, _ in replaced]
        folder = Path.cwd()
        try:
            for owner, name, value in replaced:
                setattr(owner, name, value)
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except BaseException as error:  # sys.exit and worse
            if not self._is_left or isinstance(error, KeyboardInterrupt):
                raise
        finally:
            os.chdir(folder)
            for owner, name, value in before:
                setattr(owner, name, value)
        if self._error is not None:
            raise self._error
        if not self._is_left:
            raise CannotTrain(f"python -m {module} ends {short_of}")
        return self._found
