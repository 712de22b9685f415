"""Run a program on a PC by the system's `ssh`, with the user's keys and known hosts, without questions."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from sweeps.pcs.cluster_file import ClusterFile

CONNECT_S = 10
OF_SSH = 255
"""Exit status of `ssh` where `ssh` itself failed."""
Result = TypeVar("Result")
WHY = (
    ("HOST IDENTIFICATION HAS CHANGED", "its host key has changed",
     "if it was reinstalled: ssh-keygen -R {address}, then ssh {user}@{address}; "
     "if not, another machine answers"),
    ("Host key verification failed", "its host key is not known here",
     "ssh {user}@{address} once, and compare the key that it shows"),
    ("Permission denied", "your SSH keys are not authorised there", "ssh-copy-id {key}{user}@{address}"),
    ("Connection refused", "no SSH server runs there", "on that PC: apt-get install openssh-server"),
    ("Could not resolve", "no PC has this name", "give its address in the cluster file"),
    ("No route to host", "it is off, or its cable is unplugged",
     "switch it on, or remove it from worker_ips"),
    ("timed out", "it does not answer", "switch it on, or let its firewall pass SSH"),
)  # fmt: skip
"""In the output of `ssh`; what it means; what to do."""


class CannotReach(Exception):
    """No program could be started on the PC."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


@dataclass(frozen=True)
class Answer:
    """How a program on a PC ended."""

    status: int
    output: str
    errors: str

    @property
    def last_line(self) -> str:
        """Of what it printed, as the reason of its failure."""
        lines = (self.errors or self.output).strip().splitlines()
        return lines[-1] if lines else f"exit status {self.status}"


def run(file: ClusterFile, address: str, command: str, given: str = "", timeout_s: float = 120) -> Answer:
    """Run a shell command on a PC.

    Args:
        file: with the user and the key.
        address: of the PC.
        command: for its shell.
        given: the standard input of the command.
        timeout_s: for all of it.

    Raises:
        CannotReach: the command could not be started, or took too long.
    """
    options = ["BatchMode=yes", "StrictHostKeyChecking=yes", f"ConnectTimeout={CONNECT_S}"]
    words = ["ssh", *(word for option in options for word in ("-o", option))]
    words += ["-i", file.key] if file.key else []
    try:
        done = subprocess.run(
            [*words, "--", f"{file.user}@{address}", command],
            input=given, capture_output=True, text=True, timeout=timeout_s,
        )  # fmt: skip
    except FileNotFoundError:
        raise CannotReach("ssh is not installed on this PC", "here: apt-get install openssh-client") from None
    except subprocess.TimeoutExpired:
        raise CannotReach(
            f"it did not answer within {timeout_s:.0f} s", "check that it is not hung or overloaded"
        ) from None
    answer = Answer(done.returncode, done.stdout, done.stderr)
    if done.returncode == OF_SSH:
        raise _why(file, address, answer)
    return answer


def on_each(addresses: Sequence[str], ask: Callable[[str], Result]) -> dict[str, Result]:
    """The result of a function for each address, at the same time."""
    with ThreadPoolExecutor(max_workers=max(1, len(addresses))) as threads:
        return dict(zip(addresses, threads.map(ask, addresses), strict=True))


def _why(file: ClusterFile, address: str, answer: Answer) -> CannotReach:
    key = f"-i {file.key} " if file.key else ""
    for sign, reason, remedy in WHY:
        if sign in answer.errors:
            return CannotReach(reason, remedy.format(address=address, user=file.user, key=key))
    return CannotReach(answer.last_line, f"make this work first: ssh {key}{file.user}@{address}")
