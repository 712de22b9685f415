"""The checkpoint store that a URL names."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from sweeps.common.yaml_values import load_yaml
from sweeps.config.sweep_folder import CONFIG_FILE
from sweeps.storage.backend import Door
from sweeps.storage.base import Storage
from sweeps.storage.folder import Folder
from sweeps.storage.remote import Remote
from sweeps.storage.s3 import S3
from sweeps.storage.sftp import Sftp
from sweeps.storage.url import _scheme


def door_of(url: str) -> Door:
    """The door to a URL that `storage.settled` has let pass."""
    return S3(url) if url.startswith("s3:") else Sftp(url)


def of(setting: str | None, sweep: Path) -> Storage:
    """The storage of a sweep.

    Args:
        setting: --storage.
        sweep: its folder; its name is that of its place in a storage that several sweeps share.
    """
    if setting is None:
        return Folder(sweep)
    if not _scheme(setting):
        return Folder(Path(setting) / sweep.name)
    return Remote(door_of(setting), sweep.name)


def of_sweep(sweep: Path) -> Storage:
    """The storage of a sweep that is there, by its settings; the folder itself where they can't be read."""
    setting = None
    with suppress(OSError, AttributeError):
        setting = load_yaml((sweep / CONFIG_FILE).read_text()).get("storage")
    return of(setting, sweep)
