"""End the Ray of this PC that `sweeps up` has started: `sweeps down`

It ends at once where no sweep uses it, or else with the last one. Exit status: 0, it has ended; 1, sweeps use
it; 2, a mistake in what was asked; 130, Ctrl-C.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from sweeps.common import local_dirs
from sweeps.common.cli import json_output
from sweeps.common.cli import parser as cli_parser
from sweeps.common.cli.dispatch import status_of
from sweeps.ray_start import queued_sweeps
from sweeps.ray_start.ray_folder import HOLDER, RayFolder, listed, ray_folder_here, ray_folders
from sweeps.ray_start.shared_ray import LOOK_EVERY_S


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return status_of(lambda: down(parse(arguments)), "Ray on this PC ends once it is unused.")


def parse(arguments: Sequence[str] | None = None) -> bool:
    """Whether to wait for the sweeps that use it."""
    parser = cli_parser.Parser(
        prog="sweeps down",
        usage="%(prog)s [--wait] [--gpus N,N]",
        description="End the Ray of this PC that `sweeps up` has started, or say by which sweeps it is used.",
        examples=[""],
    )
    cli_parser.add(parser, "wait", bool, "Wait until the sweeps that use it have ended.", False)
    cli_parser.add_gpus(parser)
    values = parser.values_of(arguments, "; this command takes no name")
    local_dirs.use_gpus(values.gpus)
    return bool(values.wait)


def down(waits: bool) -> int:
    """Let Ray end once it is unused; the exit status.

    Raises:
        UserError: there is no folder of use for a Ray.
    """
    ray_folder = ray_folder_here()
    queued_sweeps.forget_killed()
    json_output.answer(has_ended=False, was_up=False, used_by=[])
    if ray_folder.state() is None:
        others = [line for each in ray_folders() if (line := _other(each))]
        print(f"No Ray of yours is up {'for this choice of GPUs and cores' if others else 'on this PC'}.")
        print("".join(f"{line}\n" for line in others), end="")
        return 0
    ray_folder.set_stays(False)
    json_output.answer(was_up=True, used_by=[user.name for user in ray_folder.users()])
    if users := ray_folder.users():
        print(
            f"Ray on this PC is used by {listed(users)}. It ends with the last of them.",
            flush=True,
        )
    while ray_folder.state() is not None:
        if not waits and ray_folder.is_used:
            return 1
        time.sleep(LOOK_EVERY_S)
    queued_sweeps.forget_killed()
    json_output.answer(has_ended=True)
    print("Ray on this PC has ended.")
    return 0


def _other(ray_folder: RayFolder) -> str:
    """How to end the Ray of another choice; "" where there is none."""
    if (state := ray_folder.state()) is None:
        return ""
    users = ray_folder.users()
    used = f"is used by {listed(users)}" if users else "is used by no sweep"
    return f"One for another choice {used}. To end it once it is unused: kill {state.pids[HOLDER]}"


if __name__ == "__main__":
    sys.exit(main())
