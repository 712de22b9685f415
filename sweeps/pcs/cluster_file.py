"""`ray_cluster.yaml`, as far as `sweeps pcs` reads it: the PCs, the SSH login, where Ray is and its ports.

Programs run on these PCs by the system's `ssh`, with the user's keys and known hosts, without questions.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from sweeps.common.errors import UserError
from sweeps.common.yaml_values import load_yaml

DEFAULT = "ray_cluster.yaml"
PYTHON = "~/sweeps/.venv/bin/python"
"""On each PC, made by the file's `file_mounts` and `setup_commands`."""
PORTS = ("port", "node-manager-port", "object-manager-port")
"""Options of `ray start`. The first is for the head alone."""
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


@dataclass(frozen=True)
class ClusterFile:
    """The content of a cluster file."""

    path: Path
    pcs: tuple[str, ...]
    """Addresses, the head's first."""
    user: str
    key: str | None
    """File of the private key; None: the keys of the user's SSH agent and settings."""
    temp_dir: str
    ports: Mapping[str, int]
    """The fixed ones of PORTS."""

    @property
    def head(self) -> str:
        return self.pcs[0]

    def ports_of(self, address: str) -> list[int]:
        """The ports of Ray on a PC."""
        return [port for name, port in self.ports.items() if name != "port" or address == self.head]

    def run(self, address: str, command: str, given: str = "") -> Answer:
        """Run a command for the shell of a PC, whose standard input is given.

        Raises:
            CannotReach: the command could not be started, or took too long.
        """
        options = ["BatchMode=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=10"]
        key = ["-i", self.key] if self.key else []
        login = f"{self.user}@{address}"
        words = ["ssh", *(word for option in options for word in ("-o", option)), *key, "--", login, command]
        try:
            done = subprocess.run(words, input=given, capture_output=True, text=True, timeout=120)
        except FileNotFoundError:
            raise CannotReach(
                "ssh is not installed on this PC", "here: apt-get install openssh-client"
            ) from None
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

    def on_each(self, ask: Callable[[str], Result]) -> dict[str, Result]:
        """The result of a function for the address of each PC, at the same time."""
        with ThreadPoolExecutor(max_workers=len(self.pcs)) as threads:
            return dict(zip(self.pcs, threads.map(ask, self.pcs), strict=True))


def read(path: Path) -> ClusterFile:
    """Read a cluster file.

    Raises:
        UserError: it can't be read, is not YAML, or lacks one of these settings.
    """
    try:
        content = load_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: can't be read ({why}); copy {DEFAULT} and fill it in") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    provider, auth = (_block(path, content, name) for name in ("provider", "auth"))
    if provider.get("type") != "local":
        raise UserError(f"{path}: provider.type {provider.get('type')}: must be local")
    workers = provider.get("worker_ips")
    if not isinstance(workers, list):
        raise UserError(f"{path}: provider.worker_ips: must be a list of addresses, [] for none")
    pcs = [_word(path, "provider.head_ip", provider.get("head_ip"))]
    pcs += [_word(path, "provider.worker_ips", address) for address in workers]
    if len(set(pcs)) < len(pcs):
        raise UserError(f"{path}: provider: an address is given twice: {', '.join(pcs)}")
    key = auth.get("ssh_private_key")
    started = " ".join(str(line) for line in content.get("head_start_ray_commands") or [])
    return ClusterFile(
        path=path,
        pcs=tuple(pcs),
        user=_word(path, "auth.ssh_user", auth.get("ssh_user")),
        key=None if key is None else str(Path(str(key)).expanduser()),
        temp_dir=_option(started, "temp-dir") or "/tmp/ray",
        ports={name: int(port) for name in PORTS if (port := _option(started, name) or "").isdigit()},
    )


def _block(path: Path, content: Any, name: str) -> dict[str, Any]:
    block = content.get(name) if isinstance(content, dict) else None
    if not isinstance(block, dict):
        raise UserError(f"{path}: {name}: must be 'name: value' lines")
    return block


def _word(path: Path, name: str, value: Any) -> str:
    """A name or an address. It becomes part of a command of SSH, where a dash would begin an option."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_:][\w.:-]*", value):
        raise UserError(f"{path}: {name} {value}: must be a name or an address")
    return value


def _option(command: str, name: str) -> str | None:
    found = re.search(rf"--{name}[= ](\S+)", command)
    return None if found is None else found[1]
