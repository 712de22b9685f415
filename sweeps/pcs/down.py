"""`sweeps pcs down [ray_cluster.yaml]`: end Ray on every PC of the cluster file.

`ray down` ends the head alone, says "No nodes remaining", and the workers run on until they have missed the
head for a minute (teardown_cluster in Ray's autoscaler/_private/commands.py: `ray stop` is for the head, and
the provider `local` ends no PC).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sweeps.common.cli import parser as cli_parser
from sweeps.common.formatting import count
from sweeps.pcs import cluster_file, ssh
from sweeps.pcs.cluster_file import PYTHON, ClusterFile

STOP = f"{Path(PYTHON).parent}/ray stop"
"""Ends the Rays of this user, in order and, after a while, by force."""


def run(arguments: Sequence[str]) -> int:
    """The command; its exit status.

    Raises:
        UserError: the cluster file is wrong.
        SystemExit: after `--help` (status 0).
    """
    file = parse(arguments)
    # The launcher's first: its autoscaler, on the head, would start workers again that have gone.
    launcher = Path(sys.executable).with_name("ray")
    subprocess.run([str(launcher), "down", "-y", str(file.path)], check=False, capture_output=True)
    faults = [line for line in ssh.on_each(file.pcs, lambda address: _stop(file, address)).values() if line]
    print("\n".join(faults) or f"Ray has ended on {count(len(file.pcs), 'PC')}.")
    return 1 if faults else 0


def parse(arguments: Sequence[str]) -> ClusterFile:
    """The cluster file.

    Raises:
        UserError: what is wrong.
        SystemExit: after `--help` (status 0).
    """
    command = "sweeps pcs down"
    parser = cli_parser.Parser(
        prog=command,
        usage=f"%(prog)s [{cluster_file.DEFAULT}]",
        description="End Ray on every PC of a cluster file, and with it all that runs there.",
    )
    parser.add_argument("file", type=str, nargs="?", default=cluster_file.DEFAULT, help="The cluster file.")
    values = parser.values_of(arguments, "; give one cluster file")
    return cluster_file.read(Path(values.file).expanduser())


def _stop(file: ClusterFile, address: str) -> str:
    """What went wrong; "" when Ray has ended there."""
    try:
        answer = ssh.run(file, address, STOP)
    except ssh.CannotReach as error:
        return f"{address}: {error.reason}; {error.remedy}"
    if answer.status == 0:
        return ""
    said = (answer.errors or answer.output).strip().splitlines()
    return f"{address}: {STOP}: {next(reversed(said), f'exit status {answer.status}')}"
