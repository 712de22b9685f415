"""Run a program on a PC by the system's own `ssh`: the user's keys, agent, known hosts; never a question."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from sweeps.pcs.cluster_file import ClusterFile

CONNECT_S = 10
"""Seconds that a PC has to answer at all."""
OF_SSH = 255
"""Exit status by which `ssh` says that it failed itself."""
Result = TypeVar("Result")
WHY = (
    ("HOST IDENTIFICATION HAS CHANGED", "its host key is not the one that is known",
     "was it set up anew? ssh-keygen -R {address}, then ssh {user}@{address}; if not: who is it?"),
    ("Host key verification failed", "its host key is not known here",
     "ssh {user}@{address} once, and compare the key that it shows"),
    ("Permission denied", "it takes no key of ours", "ssh-copy-id {key}{user}@{address}"),
    ("Connection refused", "no SSH server listens", "on it: apt-get install openssh-server"),
    ("Could not resolve", "no PC has this name", "give its address in the cluster file"),
    ("No route to host", "it is off, or its cable is out", "switch it on, or take it out of worker_ips"),
    ("timed out", "it does not answer", "switch it on (or its firewall drops SSH)"),
)  # fmt: skip
"""What `ssh` says, what that means, what to do."""


class CannotReach(Exception):
    """`ssh` came to no program on the PC."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


@dataclass(frozen=True)
class Said:
    """What a program on a PC answered."""

    status: int
    output: str
    errors: str


def run(file: ClusterFile, address: str, command: str, given: str = "", timeout_s: float = 120) -> Said:
    """Run a command of the shell there.

    Args:
        file: who logs in, with what.
        address: of the PC.
        command: for its shell.
        given: its standard input.
        timeout_s: seconds that it may take in all.

    Raises:
        CannotReach: and why.
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
        raise CannotReach("there is no ssh on this PC", "here: apt-get install openssh-client") from None
    except subprocess.TimeoutExpired:
        raise CannotReach(f"it did not answer within {timeout_s:.0f} s", "look at its screen") from None
    if done.returncode == OF_SSH:
        raise _why(file, address, done.stderr)
    return Said(done.returncode, done.stdout, done.stderr)


def on_each(addresses: Sequence[str], ask: Callable[[str], Result]) -> dict[str, Result]:
    """Address to what `ask` makes of it, all at a time."""
    with ThreadPoolExecutor(max_workers=max(1, len(addresses))) as threads:
        return dict(zip(addresses, threads.map(ask, addresses), strict=True))


def _why(file: ClusterFile, address: str, said: str) -> CannotReach:
    key = f"-i {file.key} " if file.key else ""
    for sign, reason, remedy in WHY:
        if sign in said:
            return CannotReach(reason, remedy.format(address=address, user=file.user, key=key))
    last = next(reversed(said.strip().splitlines()), "ssh failed")
    return CannotReach(last, f"ssh {key}{file.user}@{address}, until it works")
