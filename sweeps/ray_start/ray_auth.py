"""Authentication: whether a cluster requires Ray's token, and whether it accepts the one of this PC.

Ray runs whatever reaches its ports, which listen on all networks of a PC. Ray 2.60 requires a token where a
program starts it, but a program that joins a cluster must know the mode: with the wrong one it fails after
20 s, or gets no worker. Ray reads the mode when it is imported, so it is not imported here.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from pathlib import Path

from sweeps.common.errors import UserError

MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
TOKEN_MODE = "token"
OF_HOME = "~/.ray/auth_token"
RISK = (
    "Ray requires no token: anyone who reaches its ports can run code on your PCs. "
    f"Put the same {OF_HOME} on every PC, and start Ray with {MODE}=token"
)
COPY = f"Copy {OF_HOME} from the head to this PC (chmod 600), or name the file in {TOKEN_PATH}"
ANSWERS_S = 60.0
"""For `ray status`, which gives up after 50 s where another program listens."""


def refuse_imported() -> None:
    """Before a Ray of a process of its own is joined.

    Raises:
        UserError: this program has imported Ray without the mode, and would get no connection.
    """
    if "ray" in sys.modules and MODE not in os.environ:
        raise UserError(
            f"{MODE} must be set before Ray is imported, and this program has imported Ray. "
            f"Start it with {MODE}=token in its environment"
        )


def settle(address: str | None) -> None:
    """Prepare to start Ray here (no address) or to join a cluster.

    Raises:
        UserError: no cluster answers, or it does not accept the token of this PC.
    """
    if address is None:
        turn_on()  # here: a fork server of Ray knows it, too
        if is_on() and place() is None:
            _make()
        return
    os.environ[MODE] = _mode_of(address)


def turn_on() -> None:
    """Require a token of a Ray that is started here, as Ray would, unless the user has turned that off."""
    os.environ.setdefault(MODE, TOKEN_MODE)


def is_on() -> bool:
    """Whether Ray requires and sends a token in this process."""
    return os.environ.get(MODE, "").lower() == TOKEN_MODE


def _may_be_on() -> bool:
    return MODE not in os.environ or is_on()


def place() -> str | None:
    """Where the token of this PC is, as one would type it; None where there is none."""
    if os.environ.get(TOKEN):
        return f"${TOKEN}"
    if path := os.environ.get(TOKEN_PATH):
        return path
    return OF_HOME if Path(OF_HOME).expanduser().is_file() else None


def _mode_of(address: str) -> str:
    """The mode of a cluster: the one with which `ray status` succeeds."""
    given = os.environ.get(MODE)
    token = place() if _may_be_on() else None
    if (why := _failure(address, "disabled")) is None:
        return "disabled"
    if "AuthenticationError" not in why:
        last_line = why.strip().rpartition("\n")[2]
        raise UserError(f"--address {address}: no Ray cluster answers there ({last_line})")
    if token is None:
        remedy = COPY if _may_be_on() else f"Unset {MODE}, which is {given!r} here"
        raise UserError(f"--address {address}: the cluster requires a token, and none is sent. {remedy}")
    if _failure(address, "token") is not None:
        raise UserError(f"--address {address}: the cluster does not accept the token in {token}. {COPY}")
    return "token"


def _failure(address: str, mode: str) -> str | None:
    """What `ray status` says where it fails; in a process of its own, since none can change its mode."""
    try:
        status = subprocess.run(
            [sys.executable, "-m", "ray.scripts.scripts", "status", "--address", address],
            env={**os.environ, MODE: mode},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=ANSWERS_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {ANSWERS_S:.0f} s"
    return status.stdout if status.returncode else None


def _make() -> None:
    """Write a token that only this user can read; Ray's own would be readable for all users of this PC."""
    path = Path(OF_HOME).expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
    with contextlib.suppress(FileExistsError):  # another sweep has begun in the same second
        path.hardlink_to(made)
    made.unlink()
