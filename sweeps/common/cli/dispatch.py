"""How a command runs: its exit status, and its subcommands, as of `sweeps` and `sweeps pcs`."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sweeps.common import atomic_io, project
from sweeps.common.cli import json_output
from sweeps.common.cli.parser import listed
from sweeps.common.errors import CannotContinue, CannotTrain, UserError
from sweeps.common.formatting import command, fitted
from sweeps.common.yaml_values import nearest

NO_HOME = "Could not determine home directory."
"""Of `Path.expanduser`: of a user that this PC does not have, and where HOME is not set."""


def status_of(program: Callable[[], int], interrupted: str = "Interrupted.") -> int:
    """Run a program; its exit status: 2 for a user's mistake, 1 for what can't be done, 130 for Ctrl-C.

    Args:
        program: returns its exit status, or raises.
        interrupted: the message for Ctrl-C.
    """
    with json_output.last_line() as end:
        end["exit_status"] = _status_of(program, interrupted)
    return end["exit_status"]


def _status_of(program: Callable[[], int], interrupted: str) -> int:
    if sys.stdout is None:  # it was closed, as by `>&-`
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115  (for as long as the program runs)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # As of the standard error: names of files may be no UTF-8.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        _refuse_lost_folder()
        status = program()
        sys.stdout.flush()
        return status
    except (UserError, CannotTrain) as error:
        _complain(error)
        return 2
    except CannotContinue as error:
        _complain(error)
        return 1
    except RuntimeError as error:
        if str(error) != NO_HOME:
            raise
        _complain("a path begins with ~ and the name of no user of this PC, or HOME is not set")
        return 2
    except (ImportError, AttributeError) as error:
        if not (why := project.hides(error)):
            raise
        _complain(f"{type(error).__name__}: {error}{why}")
        return 2
    except OSError as error:
        # Another one, of a file, comes also where nobody reads the output any more; and of another pipe.
        fault = _fault_of_output()
        if error.filename is None and fault is not None and fault.errno == error.errno:
            # At its exit Python writes the rest.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if not isinstance(fault, BrokenPipeError):  # `| head` has ended
                _complain(f"the standard output can't be written: {fault.strerror}")
        elif error.errno in atomic_io.FULL:
            _complain(": ".join(map(str, filter(None, [error.filename, error.strerror]))))
        else:
            raise
        return 1
    except KeyboardInterrupt:
        print(interrupted, file=sys.stderr)
        json_output.answer(error=interrupted.strip())
        return 130


def _refuse_lost_folder() -> None:
    try:
        Path.cwd()
    except FileNotFoundError:
        raise CannotContinue("the current folder has been deleted or replaced; go to one with cd") from None


def _fault_of_output() -> OSError | None:
    """Why nothing can be printed, as on a full disk; None where a line can, or there is no such file."""
    try:
        os.write(sys.stdout.fileno(), b"\n")
    except OSError as error:
        return error
    return None


def _complain(error: object) -> None:
    json_output.answer(error=str(error))
    text = f"error: {error}"
    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else None
    print(fitted(text, width), file=sys.stderr, flush=True)


def dispatch(
    name: str,
    subcommands: Mapping[str, str],
    call: Callable[[str, list[str]], int],
    arguments: Sequence[str] | None,
) -> int:
    """Run the subcommand that the first word names; its exit status, 2 where there is none of this name.

    Args:
        name: of the command, "" for `sweeps` itself.
        subcommands: their names, each with a line for `--help`.
        call: runs a subcommand with the words behind its name; its exit status.
        arguments: what was typed; None: what the process was started with.
    """
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    return status_of(lambda: _run(command(*name.split()), subcommands, call, tokens))


def _run(
    program: str, subcommands: Mapping[str, str], call: Callable[[str, list[str]], int], tokens: list[str]
) -> int:
    json_output.turn_on_where_asked(tokens)
    chosen = tokens[0] if tokens else ""
    if chosen in ("-h", "--help"):
        print(f"usage: {program} COMMAND [flags]", "", listed(subcommands), "", sep="\n")
        print(f"The flags of a command: {program} COMMAND --help")
        return 0
    if chosen not in subcommands:
        fault = f"{chosen}: no such command.{nearest(chosen, subcommands)}" if chosen else "give a command."
        raise UserError(f"{fault} Choices: {', '.join(subcommands)}")
    return call(chosen, tokens[1:])
