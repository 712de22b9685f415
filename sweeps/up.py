"""Start the Ray of this PC so that it stays: `sweeps up`, and `sweeps down` to end it

Sweeps join it by themselves, and start faster. Without it the first sweep starts one, which ends with the
last. Exit status: 0; 1, Ray does not start, or (`--foreground`) has ended by itself; 2, a mistake in what was
asked; 130, Ctrl-C while it starts.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from sweeps.common import local_dirs
from sweeps.common.cli import json_output
from sweeps.common.cli import parser as cli_parser
from sweeps.common.cli.dispatch import status_of
from sweeps.common.formatting import command
from sweeps.common.imports import missing
from sweeps.ray_start import queued_sweeps, ray_environment
from sweeps.ray_start.ray_folder import RayFolder, listed
from sweeps.ray_start.shared_ray import SharedRay

LOOK_EVERY_S = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return status_of(lambda: up(*parse(arguments)))


def parse(arguments: Sequence[str] | None = None) -> tuple[bool, bool]:
    """Whether to stay until it ends, and whether it has Ray's dashboard."""
    parser = cli_parser.Parser(
        prog="sweeps up",
        usage="%(prog)s [--foreground] [--no-ray-dashboard] [--gpus N,N]",
        description="Start Ray on this PC so that it stays, also when no sweep uses it. Sweeps join it.",
        examples=[""],
    )
    stays = "Return when Ray has ended; at SIGTERM or Ctrl-C it ends once it is unused. For systemd."
    cli_parser.add(parser, "foreground", bool, stays, False)
    cli_parser.add(parser, "ray_dashboard", bool, "Ray's own dashboard.", True)
    cli_parser.add_gpus(parser)
    values = parser.values_of(arguments, "; this command takes no name")
    local_dirs.use_gpus(values.gpus)
    return values.foreground, values.ray_dashboard


def up(stays_here: bool, dashboard: bool) -> int:
    """Start Ray where there is none, and let it stay; the exit status.

    Raises:
        UserError: the Ray that is there is of another version, or no folder is of use for one.
        CannotContinue: it does not start.
    """
    ray_environment.set_environment()
    ray_environment.settle_token(None)
    dashboard = dashboard and not missing("aiohttp_cors", "dashboard")
    with SharedRay("sweeps up", "", dashboard=dashboard, ray_folder=RayFolder()) as here:
        was_up, state = here.ray_folder.stays, here.joined()
        here.ray_folder.set_stays(True)
        queued_sweeps.keep([user.folder for user in here.ray_folder.users()])
    is_asked = threading.Event()

    def end(*_: object) -> None:
        here.ray_folder.set_stays(False)
        is_asked.set()

    if stays_here:
        signal.signal(signal.SIGTERM, end)  # who is told that Ray is up may send it at once
    page = f"; its dashboard: http://{state.dashboard_url}" if state.dashboard_url else ""
    how = "was up already" if was_up else "was started by a sweep, and stays now"
    how = "has started" if here.is_started else how
    print(f"Ray on this PC {how}{page}. Sweeps join it by themselves.")
    about = {"address": state.address, "dashboard_url": state.dashboard_url or None}
    json_output.write("ray_up", is_started=here.is_started, was_up=was_up, **about)
    json_output.answer(**about)
    print(f"To end it: {command('down')}", flush=True)
    started = _start_interrupted()
    if not stays_here:
        return 0
    signal.signal(signal.SIGINT, end)
    return _wait(here.ray_folder, started, is_asked)


def _start_interrupted() -> list[subprocess.Popen[bytes]]:
    """Start the sweeps of the queue again that a reboot has interrupted, one after another."""
    started = []
    for note in queued_sweeps.interrupted():
        folder = Path(note.folder)
        print(f"{folder.name} was in the queue before the reboot: it is resumed ...", flush=True)
        try:
            process = queued_sweeps.start_again(note)
        except OSError as error:  # a share does not answer: its note stays for the next time
            print(f"{folder.name} can't be resumed now: {error}", flush=True)
            continue
        if process is not None:
            started.append(process)
        how = "could not be resumed" if process is None else "is in the queue again"
        print(f"{folder.name} {how}; what it prints is in {folder / queued_sweeps.LOG}", flush=True)
    return started


def _wait(
    ray_folder: RayFolder, started: Sequence[subprocess.Popen[bytes]], is_asked: threading.Event
) -> int:
    """Wait until it has ended, and once that is asked for, end the sweeps that were started again; the exit
    status."""
    while ray_folder.state() is not None:
        is_asked.wait(LOOK_EVERY_S)
        if is_asked.is_set():
            is_asked.clear()
            for sweep in started:
                if sweep.poll() is None:
                    sweep.terminate()  # in order
            if users := ray_folder.users():
                print(f"Ray ends once it is unused. It is used by {listed(users)}", flush=True)
    if ray_folder.has_ended_in_order:
        print("Ray on this PC has ended.")
        return 0
    print("Ray on this PC has ended by itself: one of its processes is gone.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
