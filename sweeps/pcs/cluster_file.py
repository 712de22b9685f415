"""`ray_cluster.yaml`, as far as `sweeps pcs` reads it: the PCs, the SSH login, where Ray is and its ports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sweeps.common.errors import UserError
from sweeps.common.yaml_values import load_yaml

DEFAULT = "ray_cluster.yaml"
PYTHON = "~/sweeps/.venv/bin/python"
"""On each PC, made by the file's `file_mounts` and `setup_commands`."""
PORTS = ("port", "node-manager-port", "object-manager-port")
"""Options of `ray start`. The first is for the head alone."""


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
