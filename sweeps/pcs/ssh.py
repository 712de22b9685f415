"""Run a program on a PC by the system's `ssh`, with the user's keys and known hosts, without questions."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from sweeps.pcs.cluster_file import ClusterFile

Result = TypeVar("Result")


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


def run(file: ClusterFile, address: str, command: str, given: str = "") -> Answer:
    """Run a shell command on a PC.

    Args:
        file: with the user and the key.
        address: of the PC.
        command: for its shell.
        given: the standard input of the command.

    Raises:
        CannotReach: the command could not be started, or took too long.
    """
    options = ["BatchMode=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=10"]
    key = ["-i", file.key] if file.key else []
    login = f"{file.user}@{address}"
    words = ["ssh", *(word for option in options for word in ("-o", option)), *key, "--", login, command]
    try:
        done = subprocess.run(words, input=given, capture_output=True, text=True, timeout=120)
    except FileNotFoundError:
        raise CannotReach("ssh is not installed on this PC", "here: apt-get install openssh-client") from None
    except subprocess.TimeoutExpired:
        raise CannotReach(
            "it did not answer within 120 s", "check that it is not hung or overloaded"
        ) from None
    answer = Answer(done.returncode, done.stdout, done.stderr)
    if done.returncode == 255:  # `ssh` itself failed
        typed = shlex.join(["ssh", *key, login])
        remedy = f"switch it on, or remove it from worker_ips; this must work without a question: {typed}"
        raise CannotReach(answer.last_line, remedy)
    return answer


def on_each(addresses: Sequence[str], ask: Callable[[str], Result]) -> dict[str, Result]:
    """The result of a function for each address, at the same time."""
    with ThreadPoolExecutor(max_workers=max(1, len(addresses))) as threads:
        return dict(zip(addresses, threads.map(ask, addresses), strict=True))
