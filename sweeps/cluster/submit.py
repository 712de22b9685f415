"""Run a sweep on the head of a cluster, as a Ray job that outlives this terminal: `--submit`.

What travels is a folder: the settings, and the code that the plug-ins stand on. There the job is
`sweeps.run`.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from sweeps.common import gc_freeze, machine_folders, ray_auth, ray_connection, source_files
from sweeps.common.cli import parser
from sweeps.common.errors import UserError, first_line
from sweeps.common.formatting import command
from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig, flag, to_yaml
from sweeps.config.sweep_folder import CONFIG_FILE

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

PLUG_INS = ("trainable", "search_space", "searcher", "scheduler", "loggers")
NOT_RAYS = (
    "error: python on the PATH of the head is not the one that Ray was installed for: "
    "start Ray there with its environment activated"
)
PYTHON_IS_RAYS = f"python -c 'import ray' 2>/dev/null || {{ echo '{NOT_RAYS}'; exit 2; }}"
"""A job of Ray 2.60 is not told which Python Ray runs on."""
TAKES_NONE_YET = "No available agent"
"""Ray's head says so, after 10 s, until the agent of a node has come up."""
MOST_S = 60
OVERRIDES = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS")
"""Ray's job client would go there, whatever address it is given."""


def submit(config: SweepConfig) -> int:
    """Hand a sweep to the cluster and follow it; the exit status, which is that of the sweep.

    Raises:
        UserError: there is no cluster, it does not let us in, or a plug-in can't be found or sent.
    """
    address = str(config.address)
    if config.name is None and config.resume is None:
        named = "-".join(name.split(".")[-1] for name in config.trainables)
        config = replace(config, name=f"{named[:80]}-{time.strftime('%Y%m%d-%H%M%S')}")
    _settle(address)
    with gc_freeze.uncollected():
        code = source_files.to_send([plugins.find(kind, name) for kind, name in _plug_ins(config)])
    client = _client(address)
    name = config.name or PurePosixPath(str(config.resume)).name
    job = f"{name}-{secrets.token_hex(3)}"
    with tempfile.TemporaryDirectory() as folder:
        _pack(config, code, Path(folder))
        with ray_connection.quietly():
            hand_over(
                client,
                entrypoint=_entrypoint(config),
                submission_id=job,
                runtime_env={"working_dir": folder, "excludes": ["__pycache__"]},
                metadata={"job_name": name},
            )
    print(_how_to(config, name, job, client.get_address()), flush=True)
    return _follow(client, job)


def hand_over(client: JobSubmissionClient, again_s: float = 2, **job: Any) -> None:
    """Submit a job; a head that has just started takes none for some seconds, and is asked again.

    Args:
        client: of the head.
        again_s: seconds until it is asked again.
        job: as `JobSubmissionClient.submit_job` takes it.

    Raises:
        UserError: why it is not taken.
    """
    ends = time.monotonic() + MOST_S
    while True:
        try:
            client.submit_job(**job)
            return
        except (RuntimeError, ValueError, OSError) as error:
            if TAKES_NONE_YET not in str(error) or time.monotonic() > ends:
                raise UserError(f"--submit: {first_line(error)}") from None
        print("The head takes no jobs yet: waiting ...", flush=True)
        time.sleep(again_s)


def _settle(address: str) -> None:
    for name in OVERRIDES:
        os.environ.pop(name, None)
    if "://" not in address:
        ray_connection.refuse_silent(address)
        ray_auth.settle(address)
    elif ray_auth.place() is not None:
        os.environ.setdefault(ray_auth.MODE, "token")


def _client(address: str) -> JobSubmissionClient:
    from ray.job_submission import JobSubmissionClient

    try:
        return JobSubmissionClient(address)
    except (RuntimeError, ValueError, OSError) as error:
        if "uthentication" in str(error):
            raise UserError(f"--address {address}: {first_line(error)} {ray_auth.COPY}") from None
        raise UserError(
            f"--submit: Ray's dashboard, which takes jobs, is not reached ({first_line(error)}). It listens "
            "on the head alone unless that is started with --dashboard-host. Type the command there, or "
            "ssh -L 8265:127.0.0.1:8265 HEAD and give --address http://127.0.0.1:8265"
        ) from None


def _plug_ins(config: SweepConfig) -> Iterator[tuple[str, str]]:
    """Kind and name of each; a trainable without a space has its own, or the shipped one of its name."""
    yield from (("trainable", name) for name in config.trainables)
    spaces = config.search_spaces or [name for name in config.trainables if "." not in name]
    yield from (("search_space", name) for name in spaces)
    yield from (("searcher", config.searcher), ("scheduler", config.scheduler))
    yield from (("logger", name) for name in config.logger_names)


def _pack(config: SweepConfig, code: Sequence[Path], folder: Path) -> None:
    """The settings and the code, ours below the user's."""
    for path in reversed(code):
        if path.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(path, folder / path.name, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copy(path, folder)
    if config.resume is None:
        (folder / CONFIG_FILE).write_text(to_yaml(config))


def _entrypoint(config: SweepConfig) -> str:
    """What the head's shell runs. A relative folder lies below its home, not below Ray's copy of ours."""
    words = ["python", "-m", "sweeps.run", "--address", "auto"]
    folders = parser.machine_typed()
    if config.resume is None:
        words += ["--config", CONFIG_FILE]
        folders["--results-dir"] = config.results_dir
    else:
        words += _beside_resume()
        folders["--resume"] = config.resume
    where = " ".join(f"{name} {_on_the_head(folder)}" for name, folder in folders.items())
    # The driver sends the code on to the workers, as from any PC; Ray would else refuse a second copy.
    return f"{PYTHON_IS_RAYS}; RAY_OVERRIDE_JOB_RUNTIME_ENV=1 exec {shlex.join(words)} {where}"


def _on_the_head(path: str) -> str:
    """A path there, for its shell."""
    below = path.removeprefix("~/")
    return shlex.quote(path) if below.startswith("/") else f'"$HOME"/{shlex.quote(below)}'


def _beside_resume() -> list[str]:
    """All that was typed beside it, for the head to answer: the sweep's own settings are there."""
    words = [word for word in sys.argv[1:] if not parser.is_flag(word, "--submit")]
    for name in ("--address", "--resume", *machine_folders.OF_THE_MACHINE):
        _, words = parser.take_all(words, name, "a value")
    return words


def _plug_in_words(config: SweepConfig) -> list[str]:
    """Its plug-ins, as they are typed beside --resume: their code travels."""
    words = []
    for name in PLUG_INS:
        value = getattr(config, name)
        if value != getattr(SweepConfig(), name):
            words += [flag(name), *(value if isinstance(value, list) else [str(value)])]
    return words


def _how_to(config: SweepConfig, name: str, job: str, address: str) -> str:
    """Where it is, and how to follow, stop, fetch and go on with it."""
    lies = config.resume or f"{config.results_dir.rstrip('/')}/{name}"
    head = address.partition("://")[2].rpartition(":")[0]
    head = "HEAD" if head in ("127.0.0.1", "localhost") else head  # the near end of ssh -L, maybe
    of_job = (
        f"{shlex.join([str(Path(sys.executable).with_name('ray')), 'job'])} {{}} --address {address} {job}"
    )
    if ray_auth.is_on():
        of_job = f"{ray_auth.MODE}=token {of_job}"
    again = ("--submit", "--address", str(config.address), "--resume", lies, *_plug_in_words(config))
    lines = [
        ("Submitted", f"{name} as the Ray job {job}; it runs on when this terminal or this PC is off"),
        ("Follow", of_job.format("logs --follow")),
        ("Stop", of_job.format("stop")),
        ("Results", f"{lies} on the head (a relative path lies below the home of who started Ray there)"),
        ("Fetch", f"rsync -a {head}:{shlex.quote(lies.rstrip('/'))} ."),
        ("Go on", command("run", *again)),
    ]
    return "\n".join(f"{title:<10} {text}" for title, text in lines) + "\n"


def _follow(client: JobSubmissionClient, job: str) -> int:
    """Show what the job says to its end; its exit status, or 130 after Ctrl-C, which leaves it alone."""
    try:
        asyncio.run(_show(client, job))
        while not (status := client.get_job_status(job)).is_terminal():
            time.sleep(0.5)
        code = client.get_job_info(job).driver_exit_code
    except KeyboardInterrupt:
        print("\nNo longer followed; the sweep runs on.", file=sys.stderr)
        return 130
    except (RuntimeError, OSError) as error:
        print(f"\nThe cluster is not reached any more ({first_line(error)}).", file=sys.stderr)
        return 1
    if code is not None:
        return int(code)
    print(f"The job ended as {status}: {client.get_job_info(job).message}", file=sys.stderr)
    return 1


async def _show(client: JobSubmissionClient, job: str) -> None:
    async for text in client.tail_job_logs(job):
        print(text, end="", flush=True)
