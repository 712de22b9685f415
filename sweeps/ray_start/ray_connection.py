"""Start or join Ray, for a sweep and for a preparation alike. Ray itself is not imported here."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import socket
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from sweeps.common import local_dirs, project
from sweeps.common.atomic_io import disk_is_full
from sweeps.common.cli import stop_signals
from sweeps.common.errors import CannotContinue, UserError, first_line
from sweeps.common.imports import without_garbage_collection
from sweeps.common.local_dirs import DATA_DIR_VARIABLE

RAY_TMPDIR = "RAY_TMPDIR"
"""Ray's own variable for the place of its temporary files."""
LONGEST_FOR_SOCKETS = 32
"""Bytes of a path below which Ray may put its sockets. The kernel takes 107, and the longest one adds 75:
`/ray/session_2026-01-31_23-59-59_123456_1234567/sockets/dash_TaskEventsHead`."""
LIMITS = (
    resource.RLIMIT_AS, resource.RLIMIT_CORE, resource.RLIMIT_CPU, resource.RLIMIT_DATA,
    resource.RLIMIT_FSIZE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC,
    resource.RLIMIT_STACK,
)  # fmt: skip
"""Of a process, which its children inherit."""
RAY_FOLDER = "ray"
"""Of a Ray on this PC, in its folder of temporary files: there Ray puts it by default, too."""
OF_HEAD = "--gcs-address="
"""Word of the command of a raylet."""
SHUT_DOWN_S = 5.0
"""That Ctrl-C waits for; it takes half a second where nothing hangs."""


_starts_apart = False


def _leave_group() -> None:
    if _starts_apart:
        os.setpgrp()


os.register_at_fork(after_in_child=_leave_group)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Keep Ray's messages in its logs, and its processes out of this one's process group.

    A terminal that closes, `timeout` and batch systems send their signal to the whole group: Ray's processes
    would end before the sweep has stopped. They end with this process in any case (Ray sets its
    PR_SET_PDEATHSIG).
    """
    global _starts_apart
    logging.getLogger("ray").setLevel(logging.ERROR)
    _starts_apart = True
    try:
        yield
    finally:
        _starts_apart = False


def cpus() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))


def start(ray: Any, *, dashboard: bool) -> Any:
    """Start a Ray on this PC; returns Ray's context. Ray is imported after `ray_environment`.

    Raises:
        UserError: no folder of this PC is of use for a Ray.
        CannotContinue: it does not start.
    """
    folder = folder_for_sockets()
    rays_own = {
        "TMPDIR": str(folder),  # its dashboard has sockets there
        "PYTHONPATH": os.pathsep.join(project.path_behind()),
        "PYTHONSAFEPATH": "1",  # else its dashboard imports from the current folder
    }
    # Ray writes locks into $TMPDIR, and takes an empty one for the current folder.
    unset = {"TMPDIR": tempfile.gettempdir()}
    of_workers = {name: os.environ.get(name) or unset.get(name, "") for name in rays_own}
    # Where this is a job of a cluster, it is none of the Ray that it starts.
    with _refusal_told(ray, None), quietly(), _environment({**rays_own, project.RAY_JOB: None}):
        return ray.init(
            address="local",  # without an address Ray joins the cluster that was last started on this PC
            runtime_env={"env_vars": of_workers, "config": {"eager_install": False}},
            num_cpus=cpus(),
            include_dashboard=dashboard,
            _temp_dir=str(folder / RAY_FOLDER),
            log_to_driver=False,
            logging_level=logging.ERROR,
        )


def join_here(ray: Any, address: str, python: str, sweep: str = "") -> Any:
    """Join the Ray of this PC that another process has started; returns Ray's context.

    Args:
        ray: the module, imported after `ray_environment`.
        address: of it.
        python: command that starts its workers, but for the name of a file with what is of this process.
        sweep: its name, for Ray's pages.

    Raises:
        CannotContinue: it does not answer.
    """
    starts = f"{python} {facts_of_this_process()}"
    with _refusal_told(ray, None), quietly(), _environment({project.RAY_JOB: None}):
        return _joined(ray, address, {"py_executable": starts, "config": {"eager_install": False}}, sweep)


def facts_of_this_process() -> str:
    """What a child has of its parent, for the processes that Ray starts in place of this one: the name of a
    file in memory that ends with this process, and which only this user can read."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    facts = {
        # Ray writes locks into $TMPDIR, and takes an empty one for the current folder.
        "environment": {**os.environ, "TMPDIR": os.environ.get("TMPDIR") or tempfile.gettempdir()},
        "folder": str(Path.cwd()),
        "umask": int(status["Umask"], 8),
        "limits": [(limit, *resource.getrlimit(limit)) for limit in LIMITS],
        "niceness": os.nice(0),
    }
    number = os.memfd_create("sweeps")
    os.write(number, json.dumps(facts).encode())
    return f"/proc/{os.getpid()}/fd/{number}"


def join(ray: Any, address: str, code: Sequence[Path], variables: Iterable[str], sweep: str = "") -> Any:
    """Join the cluster at an address; returns Ray's context.

    Args:
        ray: the module, imported after `ray_environment`.
        address: of the cluster.
        code: packages and single files that its PCs lack.
        variables: of the environment, to pass on to them in addition to the folder of the raw data.
        sweep: its name, for Ray's pages.

    Raises:
        UserError: no cluster answers at the address, or it does not take the code.
    """
    with _refusal_told(ray, address), quietly(), tempfile.TemporaryDirectory() as empty:
        return _joined(ray, address, _runtime_env(code, empty, variables), sweep)


def _joined(ray: Any, address: str, runtime_env: dict[str, Any], sweep: str) -> Any:
    """Ray's page of jobs names the job of a sweep as it does one that was submitted."""
    return ray.init(
        address=address,
        runtime_env=runtime_env,
        job_config=ray.job_config.JobConfig(metadata={"job_name": sweep} if sweep else {}),
        log_to_driver=False,
        logging_level=logging.ERROR,
    )


def shut_down(ray: Any) -> None:
    """`ray.shutdown()`, with Ctrl-C held back and Python's garbage collector off.

    One that is left in the middle is taken up again at the exit of Python, when Ray's own processes have
    ended: then Ray ends this one with exit status 1.

    Python collects in whatever thread makes objects. One that lets go of an object of Ray in this half second
    ends the process: exit status 1, without a traceback ("The core worker has already been shutdown" in
    src/ray/core_worker/core_worker_process.cc; for threads see ray-project/ray#31145). A thread that calls
    `gc.collect` itself is not held back.
    """
    with without_garbage_collection(), stop_signals.held_back(SHUT_DOWN_S):
        ray.shutdown()


@contextlib.contextmanager
def _environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables of the environment in a block, or remove those that are None."""
    before = {name: os.environ.get(name) for name in variables}

    def change(values: Mapping[str, str | None]) -> None:
        for name, value in values.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    change(variables)
    try:
        yield
    finally:
        change(before)


@contextlib.contextmanager
def _refusal_told(ray: Any, address: str | None) -> Iterator[None]:
    """Turn the errors of Ray into those that the user meets."""
    try:
        yield
    except Exception as error:  # a Ray that takes too long to start raises this very class
        shut_down(ray)  # it may have been connected already
        if isinstance(error, UnicodeEncodeError):  # of the command line, which it notes
            shown = ascii(error.object[max(0, error.start - 20) : error.end])
            raise UserError(f"{shown}: Ray takes names in UTF-8 alone; rename what has another one") from None
        if address is None:
            raise CannotContinue(
                f"Ray does not start on this PC ({first_line(error)}). Is this PC very busy, or /dev/shm "
                f"full? Ray's logs are in {folder_for_sockets() / RAY_FOLDER}/session_latest/logs"
            ) from None
        if not isinstance(error, (OSError, ValueError, RuntimeError, ray.exceptions.RuntimeEnvSetupError)):
            raise
        raise UserError(f"--address {address}: {why_not(error)}") from None
    except BaseException:  # Ctrl-C: at the exit, Ray would look for a Ray that has been ended since
        shut_down(ray)
        raise


def _runtime_env(code: Sequence[Path], empty: str, variables: Iterable[str]) -> dict[str, Any]:
    names = [*variables, DATA_DIR_VARIABLE]
    passed_on = {name: os.environ[name] for name in names if os.environ.get(name)}
    if not code:
        return {"env_vars": passed_on}
    return {
        "env_vars": passed_on,
        # Packages, not the working folder: that often holds the data and the results, too.
        "py_modules": [str(path) for path in code],
        "excludes": ["__pycache__"],
        # Without one, workers search first the folder of the same path on their PC, which may hold an older
        # copy.
        "working_dir": empty,
    }


def why_not(error: Exception) -> str:
    """Why a cluster could not be joined."""
    if str(error).startswith("Version mismatch: "):  # Ray's, of several lines
        return f"{' '.join(str(error).split())}. Type the command with the cluster's Python and Ray"
    is_of_the_network = isinstance(error, ConnectionError | TimeoutError)
    is_of_a_file = isinstance(error, OSError | UnicodeError) and not is_of_the_network
    if is_of_a_file or type(error).__name__ == "RuntimeEnvSetupError":
        return f"the code can't be sent ({first_line(error)})"
    return f"no Ray cluster answers there ({first_line(error)})"


def refuse_silent(address: str | None) -> None:
    """Try the port first: Ray tries for minutes to reach a host that does not answer. Of several Rays on this
    PC, of which `ray start` has noted none in the default folder, it would take any for `auto`.

    Raises:
        UserError: the port does not answer, or `auto` may be several.
    """
    if address == "auto" and os.environ.get("RAY_ADDRESS", "") in ("", "auto"):
        noted = Path(os.environ.get(RAY_TMPDIR) or tempfile.gettempdir(), RAY_FOLDER, "ray_current_cluster")
        if len(heads := heads_here()) > 1 and not noted.is_file():
            several = f"{len(heads)} Rays run on this PC, at {' and '.join(heads)}"
            raise UserError(f"--address auto: {several}: give that of the cluster in place of auto")
    host, _, port = (address or "").rpartition(":")
    if not host or not port.isdigit() or "://" in host:
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, UnicodeError) as error:  # the last of a name with two dots in a row, say
        raise UserError(f"--address {address}: no Ray cluster answers there ({error})") from None


def refuse_outside(address: str | None, or_else: str = "") -> None:
    """A program can join a cluster only with a Ray of that on its PC; without it Ray tries for a minute and a
    half. The message ends with what else the user can do.

    Raises:
        UserError: no Ray of the cluster runs on this PC.
    """
    if address is None or "://" in address:
        return
    port = address.rpartition(":")[2]
    of_it = f":{port}" if port.isdigit() else ""  # that of the sweeps of this PC has another port
    if any(head.endswith(of_it) for head in heads_here()):
        return
    raise UserError(
        f"--address {address}: this PC is not part of that cluster, since no Ray of it runs here. Type the "
        f"command on a PC of the cluster, or let this one join (ray start --address={address}){or_else}"
    )


def heads_here() -> list[str]:
    """The address of the head of each Ray on this PC, whoever has started it."""
    every = (each.info for each in psutil.process_iter(["name", "cmdline"]))
    words = (word for each in every if each["name"] == "raylet" for word in each["cmdline"] or ())
    return list(dict.fromkeys(word.removeprefix(OF_HEAD) for word in words if word.startswith(OF_HEAD)))


def folder_for_sockets() -> Path:
    """The folder in which Ray and the fork servers have their temporary files and sockets.

    It is `$RAY_TMPDIR` if that is set, or else the folder of temporary files (`$TMPDIR`, `/tmp`). Where that
    is of no use, as the long one of a job of a batch system, it is a folder of this user in `/tmp`.

    Raises:
        UserError: no folder is of use; the text says which one to set.
    """
    named = os.environ.get(RAY_TMPDIR)
    try:
        folder = Path(named or tempfile.gettempdir())
        fault = _socket_fault(folder)
        if fault and not named:
            folder = local_dirs.folder_of_user()
            fault = _socket_fault(folder)
    except OSError as error:
        folder, fault = Path("/tmp"), error.strerror or str(error)
    if fault:
        raise UserError(
            f"{f'{RAY_TMPDIR}=' if named else ''}{folder}: {fault}. Set {RAY_TMPDIR} to a folder with some "
            f"space and a path of at most {LONGEST_FOR_SOCKETS} bytes"
        )
    return folder


def _socket_fault(folder: Path) -> str:
    """Why sockets can't be in a folder; "" where they can."""
    if (length := len(os.fsencode(folder))) > LONGEST_FOR_SOCKETS:
        return f"the path has {length} bytes, too many for the sockets of Ray"
    if not folder.is_absolute():
        return "must be an absolute path"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"written")
    except OSError as error:
        return f"no file can be written ({error.strerror})"
    return "its disk is full" if disk_is_full(OSError(), folder) else ""
