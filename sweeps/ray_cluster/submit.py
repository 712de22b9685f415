"""Submit a sweep to the head of a cluster, as a Ray job that does not need this terminal: `--submit`.

A folder with the settings and the code of the plug-ins is sent. The job runs `sweeps.run` in it. Imported
after `ray_environment.prepare_to_submit`.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import secrets
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from ray.job_submission import JobSubmissionClient

from sweeps.common import local_dirs
from sweeps.common.cli import json_output
from sweeps.common.errors import UserError, first_line
from sweeps.common.formatting import command
from sweeps.config import plugins
from sweeps.config.control_commands import WITHDRAWN
from sweeps.config.sweep_config import SweepConfig, flag, to_yaml
from sweeps.config.sweep_folder import SWEEP_FILE
from sweeps.kinds import registry, source_files
from sweeps.kinds.source_files import Source
from sweeps.kinds.trainable import Trainable
from sweeps.ray_start import ray_connection, ray_environment
from sweeps.ray_start.ray_folder import ray_folders

PLUG_INS = ("trainable", "search_space", "searcher", "scheduler", "loggers")
OTHER_PYTHON = (
    "error: python on the PATH of the head is not the one that Ray was installed for: "
    "start Ray there with its environment activated"
)
IMPORTS_RAY = f"python -c 'import ray' 2>/dev/null || {{ echo '{OTHER_PYTHON}'; exit 2; }}"
"""Ray 2.60 does not pass the path of its Python to a job."""
NOT_READY = "No available agent"
"""In the answer of a head, 10 s after the request, until the agent of a node has started."""
NO_JOB = "does not exist"
"""In the answer to a request about a job that was not submitted yet."""


def submit(config: SweepConfig) -> int:
    """Submit a sweep and show what it prints; the exit status, which is that of the sweep.

    Raises:
        UserError: no cluster answers or accepts the token, or a plug-in is not found or can't be sent.
    """
    address = str(config.address)
    if config.name is None and config.resume is None:
        config = replace(config, name=registry.new_name(config.trainables))
    trainables = [registry.find(name) for name in config.trainables]
    if alone := [each.name for each in trainables if each.kept_files()]:
        raise UserError(
            f"--submit: {alone[0]} is in the folder of its sweep, which the head does not have. Give "
            f"--address {address} without --submit"
        )
    code = source_files.to_send(_sources(config, trainables))
    client = _client(address, "--submit")
    name = config.name or PurePosixPath(str(config.resume)).name
    job = f"{name}-{secrets.token_hex(3)}"
    with tempfile.TemporaryDirectory() as folder:
        _pack(config, code, Path(folder), trainables)
        with ray_connection.quietly():
            hand_over(
                client,
                "--submit",
                entrypoint=_entrypoint(config),
                submission_id=job,
                runtime_env={"working_dir": folder, "excludes": ["__pycache__"]},
                metadata={"job_name": name},
            )
    print(_instructions(config, name, job, client.get_address()), flush=True)
    json_output.write("submitted", name=name, job=job, address=client.get_address())
    return _follow(client, job)


def control(address: str, folder: str, words: Sequence[str]) -> int:
    """Give a command to the sweep in a folder on the head, as a Ray job there; the exit status. Ctrl-C stops
    the job, which withdraws a command that was not taken up yet.

    Raises:
        UserError: no cluster answers or accepts the token.
    """
    flag, job = f"--address {address}", f"control-{secrets.token_hex(3)}"
    client = _client(address, flag)
    typed = f"{_on_the_head(folder)} {shlex.join([*words, *_json_flag()])}"
    try:
        with tempfile.TemporaryDirectory() as code, ray_connection.quietly():
            _copy(source_files.to_send([]), Path(code))
            hand_over(
                client,
                flag,
                entrypoint=f"{IMPORTS_RAY}; exec python -m sweeps.control {typed}",
                submission_id=job,
                runtime_env={"working_dir": code, "excludes": ["__pycache__"]},
                metadata={"job_name": f"control {folder}"},
            )
        try:  # not above: a full disk of this PC is no fault of the cluster
            status, said = _exit_status(client, job), _printed(client, job)
        except (RuntimeError, OSError) as error:
            return _not_answered(error)
        for line in said.splitlines():
            if not json_output.relay(line):
                print(line, file=sys.stderr if status else sys.stdout)
    except KeyboardInterrupt:
        return _withdraw(client, job)
    return status


def hand_over(client: JobSubmissionClient, flag: str, again_s: float = 2, **job: Any) -> None:
    """Submit a job. A head that has just started accepts none for some seconds, and is asked again.

    Args:
        client: of the head.
        flag: that was typed, for messages.
        again_s: seconds between two requests.
        job: as `JobSubmissionClient.submit_job` takes it.

    Raises:
        UserError: the job is refused.
    """
    ends = time.monotonic() + 60
    while True:
        try:
            client.submit_job(**job)
            return
        except (RuntimeError, ValueError, OSError) as error:
            if NOT_READY not in str(error) or time.monotonic() > ends:
                raise UserError(f"{flag}: {first_line(error)}") from None
        print("The head does not accept jobs yet: waiting ...", flush=True)
        time.sleep(again_s)


def _client(address: str, flag: str) -> JobSubmissionClient:
    try:
        client = JobSubmissionClient(address)
    except (RuntimeError, ValueError, OSError) as error:
        if "uthentication" in str(error):
            raise UserError(
                f"--address {address}: {first_line(error)} {ray_environment.COPY_TOKEN}"
            ) from None
        raise UserError(
            f"{flag}: Ray's dashboard, which accepts jobs, does not answer ({first_line(error)}). It "
            "listens on the head alone unless Ray is started there with --dashboard-host. Type the command "
            "on the head, or ssh -L 8265:127.0.0.1:8265 HEAD and give --address http://127.0.0.1:8265"
        ) from None
    # Of a head whose dashboard listens there alone, the address is that of a dashboard here, too.
    found = client.get_address().rstrip("/").removeprefix("http://").replace("localhost", "127.0.0.1")
    own = {state.dashboard_url: state.address for each in ray_folders() if (state := each.state())}
    is_auto = address == "auto" and len(ray_connection.heads_here()) == 1  # else that of a cluster, as noted
    if found in own and address != own[found] and not is_auto:
        raise UserError(
            f"{flag}: {found} is the dashboard of your own Ray on this PC, not that of a cluster. Type the "
            "command on the head, or ssh -L 8266:127.0.0.1:8265 HEAD and give --address "
            f"http://127.0.0.1:8266, or end that Ray first ({command('down')})"
        )
    return client


def _sources(config: SweepConfig, trainables: Sequence[Trainable]) -> list[Source]:
    """Of the plug-ins of a sweep; where a space is missing, the head says so."""
    spaces = zip(config.search_spaces or config.trainables, trainables, strict=True)
    others = [("logger", name) for name in config.logger_names]
    others += [(kind, name) for kind in ("searcher", "scheduler") if (name := getattr(config, kind))]
    files = [plugins.space_of(name, trainable, has_ranges=True) for name, trainable in spaces]
    return [
        *(source for trainable in trainables for source in trainable.sources()),
        *(file.source for file in files if file is not None),
        *(source_files.source_of(plugins.module_of(kind, name)) for kind, name in others),
    ]


def _pack(config: SweepConfig, code: Sequence[Path], folder: Path, trainables: Sequence[Trainable]) -> None:
    """Write the settings and the code, and the settings of projects in place of their own files.

    Raises:
        UserError: such a file is outside the project.
    """
    _copy(code, folder)
    for name, text in (entry for each in trainables for entry in each.settings_files().items()):
        if Path(name).is_absolute():
            raise UserError(f"--submit: {name} is not in the project's folder: move it there, to be sent")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if config.resume is None:
        (folder / SWEEP_FILE).write_text(to_yaml(config))


def _copy(code: Sequence[Path], folder: Path) -> None:
    """Write the code; the user's files replace ours of the same name."""
    for path in reversed(code):
        if path.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(path, folder / path.name, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copy(path, folder)


def _entrypoint(config: SweepConfig) -> str:
    """The command line of the job. A relative folder is below the head's home, not in Ray's copy of ours."""
    words = ["python", "-m", "sweeps.run", "--address", "auto"]
    folders = dict(local_dirs.typed)
    if config.resume is None:
        words += ["--config", SWEEP_FILE]
        words += ["--queue", "--priority", str(config.priority)] if config.queue else []
        words += ["--beside"] if config.beside else []
        folders["--results-dir"] = config.results_dir
    else:  # all that was typed beside it is checked on the head, where the settings of the sweep are
        left_out = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        left_out.add_argument("--submit", action="store_true")
        for name in ("--address", "--resume", *local_dirs.OF_THE_MACHINE):
            left_out.add_argument(name)
        words += left_out.parse_known_args(sys.argv[1:])[1]
        folders["--resume"] = config.resume
        words = [word for word in words if word != json_output.FLAG]
    words += _json_flag()
    where = " ".join(f"{name} {_on_the_head(folder)}" for name, folder in folders.items())
    # The driver sends the code on to the workers, as from any PC; Ray would else refuse a second copy.
    return f"{IMPORTS_RAY}; RAY_OVERRIDE_JOB_RUNTIME_ENV=1 exec {shlex.join(words)} {where}"


def _json_flag() -> list[str]:
    return [json_output.FLAG] if json_output.is_on() else []


def _on_the_head(path: str) -> str:
    """A path on the head, for its shell."""
    below = path.removeprefix("~/")
    return shlex.quote(path) if below.startswith("/") else f'"$HOME"/{shlex.quote(below)}'


def _instructions(config: SweepConfig, name: str, job: str, address: str) -> str:
    """Where the sweep is, and the commands that follow, stop, fetch and resume it."""
    folder = config.resume or f"{config.results_dir.rstrip('/')}/{name}"
    head = address.partition("://")[2].rpartition(":")[0]
    head = "HEAD" if head in ("127.0.0.1", "localhost") else head  # the near end of ssh -L, maybe
    ray = shlex.quote(str(Path(sys.executable).with_name("ray")))
    of_job = f"{ray} job {{}} --address {address} {job}"
    if ray_environment.requires_token():
        of_job = f"{ray_environment.AUTH_MODE}=token {of_job}"
    again = ["--submit", "--address", str(config.address), "--resume", folder]
    for plug_in in PLUG_INS:  # their code is sent again
        value = getattr(config, plug_in)
        if value != getattr(SweepConfig(), plug_in):
            again += [flag(plug_in), *(value if isinstance(value, list) else [str(value)])]
    lines = [
        ("Submitted", f"{name} as the Ray job {job}; it continues when this terminal or this PC is off"),
        ("Follow", of_job.format("logs --follow")),
        ("Stop", of_job.format("stop")),
        ("Steer", command("control", folder, "--address", str(config.address), "COMMAND")),
        ("Results", f"{folder} on the head (a relative path is below the home of the user that started Ray)"),
        ("Fetch", f"rsync -a {head}:{shlex.quote(folder.rstrip('/'))} ."),
        ("Resume", command("run", *again)),
    ]
    return "\n".join(f"{title:<10} {text}" for title, text in lines) + "\n"


def _withdraw(client: JobSubmissionClient, job: str) -> int:
    """Stop the job of a command, and say what has become of that; the exit status of Ctrl-C."""
    try:
        while not client.get_job_status(job).is_terminal():
            client.stop_job(job)  # once more for one that is just beginning
            time.sleep(0.5)
        said = _printed(client, job) or WITHDRAWN  # it had not begun
    except (RuntimeError, OSError) as error:
        said = WITHDRAWN
        if NO_JOB not in str(error):
            said = f"{first_line(error)}. The sweep's screen says whether it has taken the command up."
    print(f"\n{said}", file=sys.stderr)
    return 130


def _printed(client: JobSubmissionClient, job: str) -> str:
    """What a job has printed, without Ray's own lines."""
    return re.split(r"Running entrypoint for job .*\n", client.get_job_logs(job))[-1].strip()


def _follow(client: JobSubmissionClient, job: str) -> int:
    """Show what the job prints; its exit status, or 130 after Ctrl-C, which leaves it running."""
    try:
        asyncio.run(_show(client, job))
        return _exit_status(client, job)
    except KeyboardInterrupt:
        why = "No longer followed; the sweep continues on the head."
        print(f"\n{why}", file=sys.stderr)
        json_output.answer(error=why)
        return 130
    except (RuntimeError, OSError) as error:
        return _not_answered(error)


def _exit_status(client: JobSubmissionClient, job: str) -> int:
    """The exit status of a job, once it has ended; 1 where it has none, which is told."""
    while not (status := client.get_job_status(job)).is_terminal():
        time.sleep(0.2)
    info = client.get_job_info(job)
    if info.driver_exit_code is None:
        print(f"The job ended as {status}: {info.message}", file=sys.stderr)
        return 1
    return int(info.driver_exit_code)


def _not_answered(error: Exception) -> int:
    why = f"The cluster does not answer any more ({first_line(error)})."
    print(f"\n{why}", file=sys.stderr)
    json_output.answer(error=why)
    return 1


async def _show(client: JobSubmissionClient, job: str) -> None:
    rest = ""
    async for text in client.tail_job_logs(job):
        if not json_output.is_on():
            print(text, end="", flush=True)
            continue
        *lines, rest = (rest + text).split("\n")
        for line in lines:
            if not json_output.relay(line):
                print(line, flush=True)
