"""--storage: a folder, `s3://bucket/prefix` or `sftp://host/path`; by default the sweep's own folder.

A folder is read and written in place by all PCs that see it (`folder.py`). On a server each checkpoint is one
file (`remote.py`).
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from sweeps.common import atomic_io
from sweeps.common.errors import UserError
from sweeps.common.yaml_values import load_yaml, nearest
from sweeps.config.sweep_folder import SWEEP_FILE
from sweeps.storage.folder import Folder
from sweeps.storage.protocol import Storage
from sweeps.storage.remote import Backend, Remote

SCHEMES = ("s3", "sftp")
FORMS = "s3://bucket/prefix or sftp://[user@]host[:port]/path"
KEPT = "A setting is kept in sweep.yaml and shown"


def open_storage(setting: str | None, sweep: Path) -> Storage:
    """The storage of a sweep.

    Args:
        setting: a checked --storage.
        sweep: folder of the sweep; sweeps that share a storage have subfolders of these names.
    """
    if setting is None:
        return Folder(sweep)
    return Remote(backend_of(setting), sweep.name) if "://" in setting else Folder(Path(setting, sweep.name))


def open_storage_of(sweep: Path) -> Storage:
    """The storage that an existing sweep has in its settings; its own folder where they can't be read."""
    setting = None
    with suppress(OSError, AttributeError):
        setting = load_yaml((sweep / SWEEP_FILE).read_text()).get("storage")
    return open_storage(setting, sweep)


def backend_of(url: str) -> Backend:
    """The server of a checked URL."""
    if url.startswith("s3:"):
        from sweeps.storage.s3 import S3

        return S3(url)
    from sweeps.storage.sftp import Sftp

    return Sftp(url)


def check_setting(setting: str | None) -> str | None:
    """--storage as sweep.yaml keeps it: a URL, or the absolute path of a folder. No server is asked.

    Raises:
        UserError: it is neither.
    """
    if setting is None:
        return None
    if "://" in setting:
        _check_url(setting)
        return setting.rstrip("/")
    if near_url := re.match(r"((?:[^./@:][^/@:]*@)?[\w+-][\w.+-]*):/*(.*)", setting):
        host, path = near_url.groups()
        meant = f"{host}://{path}" if host in SCHEMES else f"sftp://{host}/{path}"
        raise UserError(
            f"--storage {setting}: a URL begins with s3:// or sftp://. Did you mean '{meant}'? "
            f"For a folder of that name give ./{setting}"
        )
    folder = Path(setting).expanduser().resolve()
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--storage {setting}: this is a file. Give a folder, or a URL: {FORMS}")
    if fault := atomic_io.place_fault(folder / "sweep"):
        raise UserError(f"--storage {setting}: {fault}")
    return str(folder)


def _check_url(setting: str) -> None:
    try:
        url = urlsplit(setting)
        _ = url.port
    except ValueError as error:
        shown = re.sub(r"://[^/]*@", "://...@", setting)
        raise UserError(f"--storage {shown}: not a URL: {error}. Give {FORMS}") from None
    _refuse_secrets(url)
    scheme = setting.partition("://")[0]
    fault = ""
    if scheme not in SCHEMES:
        near = nearest(scheme, SCHEMES)
        fault = f"{scheme}:// is not supported.{near} Give a folder, or a URL: {FORMS}"
    elif not url.hostname:
        fault = f"{'the bucket' if scheme == 's3' else 'the host'} is missing. Give {FORMS}"
    elif scheme == "sftp" and url.path.strip("/") in ("", "~"):
        fault = f"the path is missing. Give {FORMS}"
    elif url.path.startswith("/~"):
        fault = "give the whole path. ~ works in a shell only"
    if fault:
        raise UserError(f"--storage {setting}: {fault}")


def _refuse_secrets(url: SplitResult) -> None:
    if url.scheme == "s3" and "@" in url.netloc:
        raise UserError(
            f"--storage s3://...@{url.hostname}{url.path}: give no keys in a URL. {KEPT}. S3 keys are read "
            "from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from a profile (AWS_PROFILE)"
        )
    if url.password is not None:
        shown = f"{url.scheme}://{url.username}:...@{url.hostname}{url.path}"
        raise UserError(
            f"--storage {shown}: give no password in a URL. {KEPT}. "
            "Log in with a key of your SSH agent, or one that ~/.ssh/config names (IdentityFile)"
        )
    if url.query or url.fragment:
        shown = f"{url.scheme}://{url.hostname}{url.path}"
        raise UserError(f"--storage {shown}: nothing may follow the path, no ? and no #")
