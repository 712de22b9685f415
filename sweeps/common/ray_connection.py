"""How Ray is started or joined, by a sweep and by a preparation alike. Ray itself is not imported here."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from sweeps.common.errors import UserError, first_line
from sweeps.common.yaml_values import DATA_DIR_VARIABLE


def set_environment(settings: dict[str, str]) -> None:
    """Set what Ray reads when it is imported; a value that the user set stays."""
    for name, value in settings.items():
        os.environ.setdefault(name, value)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Ray's own words stay in its logs; its processes, started here, outlive a terminal that closes.

    A terminal that closes tells all processes below it: Ray's would be gone before we have stopped.
    """
    logging.getLogger("ray").setLevel(logging.ERROR)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def runtime_env(code: Sequence[Path], empty: str, variables: Iterable[str]) -> dict[str, Any]:
    """What the processes of a cluster get of this one.

    Args:
        code: packages and single files that they lack.
        empty: an empty folder.
        variables: of the environment, that are passed on; with them the folder of the raw data.
    """
    names = [*variables, DATA_DIR_VARIABLE]
    passed_on = {name: os.environ[name] for name in names if os.environ.get(name)}
    if not code:
        return {"env_vars": passed_on}
    return {
        "env_vars": passed_on,
        # Packages, not the working folder: that often holds the data and the results, too.
        "py_modules": [str(path) for path in code],
        "excludes": ["__pycache__"],
        # Without one, workers look first in a folder of theirs that is called as ours is here: what lies
        # there may be an older copy.
        "working_dir": empty,
    }


def why_not(error: Exception) -> str:
    """Why a cluster could not be joined."""
    is_of_the_network = isinstance(error, ConnectionError | TimeoutError)
    is_of_a_file = isinstance(error, OSError | UnicodeError) and not is_of_the_network
    if is_of_a_file or type(error).__name__ == "RuntimeEnvSetupError":
        return f"the code can't be sent ({first_line(error)})"
    return f"no Ray cluster answers there ({first_line(error)})"


def refuse_silent(address: str | None) -> None:
    """Ray tries for minutes to reach a host that does not answer: ask the port first.

    Raises:
        UserError: it does not.
    """
    host, _, port = (address or "").rpartition(":")
    if not host or not port.isdigit() or "://" in host:
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise UserError(f"--address {address}: no Ray cluster answers there ({error})") from None


def refuse_outside(address: str | None, or_else: str = "") -> None:
    """A program of Ray's needs a Ray on its own PC, and without one tries for a minute and a half.

    Args:
        address: of the cluster; None: none is joined.
        or_else: what else a user may do.

    Raises:
        UserError: no Ray runs on this PC.
    """
    if address is None or "://" in address:
        return
    if not any(process.info["name"] == "raylet" for process in psutil.process_iter(["name"])):
        raise UserError(
            f"--address {address}: this PC is not one of that cluster, no Ray runs on it: type the command "
            f"on one of its PCs, or let this one join (ray start --address={address}){or_else}"
        )
