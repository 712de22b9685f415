"""What Ray reads of the environment when it is imported: its settings, and whether it requires a token.

Ray itself is not imported here. Settings of Tune are documented at
https://docs.ray.io/en/latest/tune/api/env.html. For the others, a comment names the page, or the thread or
the source where there is none.

Ray runs whatever reaches its ports, which listen on all networks of a PC. Ray 2.60 requires a token where a
program starts it, but a program that joins a cluster must know the mode: with the wrong one it fails after
20 s, or gets no worker.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from sweeps.common.errors import UserError
from sweeps.ray_start import ray_connection

ENVIRONMENT = {
    # Without it Tune ignores a progress reporter, hence ours (ray#38202).
    "RAY_AIR_NEW_OUTPUT": "0",
    # The record replaces Tune's JSON, CSV and TensorBoard loggers; the last one imports torch.
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    # execution/driver/tuner.py handles Ctrl-C: Tune's handler prints advice that does not hold here.
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    # Tune's own snapshots are not used: the record is the truth. Write them as rarely as Tune lets us.
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",
    # Relative paths of a trainable mean the folder where the command was typed (on the PCs of a cluster
    # an empty one, see `runtime_env`).
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    # https://docs.ray.io/en/latest/cluster/usage-stats.html
    "RAY_USAGE_STATS_ENABLED": "0",
    # Tune gives its processes an environment of their own, so that none of those is taken that Ray would
    # start for each core before (src/ray/common/ray_config_def.h).
    "RAY_prestart_worker_first_driver": "0",
    # A trial that takes no GPU must see none. Since 2.60 Ray hides them only on request (ray#54868,
    # ray#62492).
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
    # Ray's paragraphs about a process that was lost: the sweep says in a line which one, where and why.
    # https://docs.ray.io/en/latest/ray-observability/user-guides/configure-logging.html
    "RAY_DEDUP_LOGS_SKIP_REGEX": "(A worker died or was killed|Raylet is terminated)",
}
OF_JOB_CLIENT = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS")
"""Ray's job client prefers these to the address that it is called with."""
AUTH_MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
TOKEN_MODE = "token"
OF_HOME = "~/.ray/auth_token"
NO_TOKEN_RISK = (
    "Ray requires no token: anyone who reaches its ports can run code on your PCs. "
    f"Put the same {OF_HOME} on every PC, and start Ray with {AUTH_MODE}=token"
)
COPY_TOKEN = f"Copy {OF_HOME} from the head to this PC (chmod 600), or name the file in {TOKEN_PATH}"
ANSWERS_S = 60.0
"""For `ray status`, which gives up after 50 s where another program listens."""


def set_environment(settings: Mapping[str, str] = ENVIRONMENT) -> None:
    """Set what Ray reads when it is imported, by default for a process that runs a sweep; a value that the
    user set stays."""
    for name, value in settings.items():
        os.environ.setdefault(name, value)


def prepare_to_look() -> None:
    """For a process that joins a cluster to look at it."""
    set_environment({"RAY_USAGE_STATS_ENABLED": "0"})
    if token_place() is not None:  # Ray 2.60 sends it by itself to `auto` alone
        set_environment({AUTH_MODE: "token"})


def prepare_to_submit(address: str) -> None:
    """For a process that submits a job to a cluster.

    Raises:
        UserError: no cluster answers, or it does not accept the token.
    """
    for name in OF_JOB_CLIENT:
        os.environ.pop(name, None)
    if "://" not in address:
        settle_token(address)
    elif token_place() is not None:
        set_environment({AUTH_MODE: "token"})


def refuse_imported() -> None:
    """Before a Ray of a process of its own is joined.

    Raises:
        UserError: this program has imported Ray without the mode, and would get no connection.
    """
    if "ray" in sys.modules and AUTH_MODE not in os.environ:
        raise UserError(
            f"{AUTH_MODE} must be set before Ray is imported, and this program has imported Ray. "
            f"Start it with {AUTH_MODE}=token in its environment"
        )


def settle_token(address: str | None) -> None:
    """Find out whether Ray that is started here (no address) or a cluster requires a token.

    Raises:
        UserError: no cluster answers, or it does not accept the token of this PC.
    """
    if address is None:
        require_token()  # here: a fork server of Ray knows it, too
        if requires_token() and token_place() is None:
            _make()
        return
    ray_connection.refuse_silent(address)
    os.environ[AUTH_MODE] = _mode_of(address)


def require_token() -> None:
    """Require a token of a Ray that is started here, as Ray would, unless the user has turned that off."""
    os.environ.setdefault(AUTH_MODE, TOKEN_MODE)


def requires_token() -> bool:
    """Whether Ray requires and sends a token in this process."""
    return os.environ.get(AUTH_MODE, "").lower() == TOKEN_MODE


def token_place() -> str | None:
    """Where the token of this PC is, as one would type it; None where there is none."""
    if os.environ.get(TOKEN):
        return f"${TOKEN}"
    if path := os.environ.get(TOKEN_PATH):
        return path
    return OF_HOME if Path(OF_HOME).expanduser().is_file() else None


def _mode_of(address: str) -> str:
    """The mode of a cluster: the one with which `ray status` succeeds."""
    given = os.environ.get(AUTH_MODE)
    may_send = given is None or requires_token()
    token = token_place() if may_send else None
    if (why := _failure(address, "disabled")) is None:
        return "disabled"
    if "AuthenticationError" not in why:
        last_line = why.strip().rpartition("\n")[2]
        raise UserError(f"--address {address}: no Ray cluster answers there ({last_line})")
    if token is None:
        remedy = COPY_TOKEN if may_send else f"Unset {AUTH_MODE}, which is {given!r} here"
        raise UserError(f"--address {address}: the cluster requires a token, and none is sent. {remedy}")
    if _failure(address, "token") is not None:
        raise UserError(
            f"--address {address}: the cluster does not accept the token in {token}. {COPY_TOKEN}"
        )
    return "token"


def _failure(address: str, mode: str) -> str | None:
    """What `ray status` says where it fails; in a process of its own, since none can change its mode."""
    try:
        status = subprocess.run(
            [sys.executable, "-m", "ray.scripts.scripts", "status", "--address", address],
            env={**os.environ, AUTH_MODE: mode},
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
    """Write a token that only this user can read; Ray's own would be readable for all users of this PC.

    Raises:
        UserError: it can't be written.
    """
    path = Path(OF_HOME).expanduser()
    made = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
        with contextlib.suppress(FileExistsError):  # another sweep has begun in the same second
            path.hardlink_to(made)
    except OSError as error:
        raise UserError(
            f"{path}: the token that Ray requires can't be written ({error.strerror}). Set HOME to a folder "
            f"of your own with some space, or {TOKEN_PATH} to a file that holds a token"
        ) from None
    finally:
        with contextlib.suppress(OSError):  # it was not made
            made.unlink()
