"""`ray_cluster.yaml`, as far as we go by it: which PCs, who logs in with what, where Ray shall be."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sweeps.common.errors import UserError
from sweeps.common.yaml_values import load_yaml

DEFAULT = "ray_cluster.yaml"
PYTHON = "~/sweeps/.venv/bin/python"
"""On each PC, where the file's `file_mounts` and `setup_commands` put it."""
PORTS = ("port", "node-manager-port", "object-manager-port")
"""Of `ray start`. The first is the head's alone."""


@dataclass(frozen=True)
class ClusterFile:
    """A cluster file that was read."""

    path: Path
    head: str
    workers: tuple[str, ...]
    user: str
    key: str | None
    """File of the private key; None: those of the user's SSH agent and of his own settings."""
    temp_dir: str
    ports: Mapping[str, int]
    """Those of PORTS that are fixed."""

    @property
    def pcs(self) -> tuple[str, ...]:
        """Their addresses, the head's first."""
        return (self.head, *self.workers)

    def ports_of(self, address: str) -> list[int]:
        """Where Ray shall listen on a PC."""
        return [port for name, port in self.ports.items() if name != "port" or address == self.head]


def read(path: Path) -> ClusterFile:
    """Read a cluster file.

    Raises:
        UserError: it can't be read, is not YAML, or lacks what we go by.
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
        raise UserError(f"{path}: an address stands there twice: {', '.join(pcs)}")
    key = auth.get("ssh_private_key")
    started = " ".join(str(line) for line in content.get("head_start_ray_commands") or [])
    return ClusterFile(
        path=path,
        head=pcs[0],
        workers=tuple(pcs[1:]),
        user=_word(path, "auth.ssh_user", auth.get("ssh_user")),
        key=None if key is None else str(Path(str(key)).expanduser()),
        temp_dir=_option(started, "temp-dir") or "/tmp/ray",
        ports={name: int(port) for name in PORTS if (port := _option(started, name) or "").isdigit()},
    )


def of(arguments: Sequence[str]) -> ClusterFile:
    """That which was named on the command line, else the usual one."""
    return read(Path(arguments[0] if arguments else DEFAULT).expanduser())


def _block(path: Path, content: Any, name: str) -> dict[str, Any]:
    block = content.get(name) if isinstance(content, dict) else None
    if not isinstance(block, dict):
        raise UserError(f"{path}: {name}: must be 'name: value' lines")
    return block


def _word(path: Path, name: str, value: Any) -> str:
    """A name or an address: goes into a command of SSH, where a dash would begin an option."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_:][\w.:-]*", value):
        raise UserError(f"{path}: {name} {value}: must be a name or an address")
    return value


def _option(command: str, name: str) -> str | None:
    found = re.search(rf"--{name}[= ](\S+)", command)
    return None if found is None else found[1]
