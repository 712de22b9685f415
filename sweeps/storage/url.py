"""Where the checkpoints of a sweep go: its own folder, another one, `s3://bucket/prefix`, `sftp://host/path`.

A folder is written and read in place (`sweeps/training/checkpoint_store.py`), by all PCs that see it. What is
behind a network holds the same checkpoints as one file each (`remote.py`), so that a trial needs nothing of
the PC on which it was before.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from sweeps.common import atomic_io
from sweeps.common.errors import UserError
from sweeps.common.yaml_values import nearest

SCHEMES = ("s3", "sftp")


def settled(setting: str | None) -> str | None:
    """--storage as it is kept: checked as far as it can be from its text, a folder with its whole path.

    Raises:
        UserError: it is none, and what would be.
    """
    if setting is None:
        return None
    if scheme := _scheme(setting):
        return _settled_url(setting, scheme)
    _refuse_near_url(setting)
    folder = Path(setting).expanduser().resolve()
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--storage {setting}: is a file; give a folder, or a URL: {_forms()}")
    if fault := atomic_io.place_fault(folder / "sweep"):
        raise UserError(f"--storage {setting}: {fault}")
    return str(folder)


def _settled_url(setting: str, scheme: str) -> str:
    try:
        url = urlsplit(setting)
        _ = url.port
    except ValueError as error:
        raise UserError(f"--storage: {_without_password(setting)} is no URL: {error}") from None
    _refuse_secrets(url)
    what = f"--storage {setting}:"
    if scheme not in SCHEMES:
        raise UserError(
            f"{what} {scheme}:// is not known.{nearest(scheme, SCHEMES)} Give a folder, or one of {_forms()}"
        )
    if not url.hostname:
        missing = "a bucket" if scheme == "s3" else "a host"
        raise UserError(f"{what} {missing} is missing; as {_forms()}")
    if scheme == "sftp" and url.path.strip("/") in ("", "~"):
        raise UserError(f"{what} the path is missing; as {_forms()}")
    if url.path.startswith("/~"):
        raise UserError(f"{what} give the whole path: ~ is of a shell, and there is none")
    return setting.rstrip("/")


def _refuse_secrets(url: SplitResult) -> None:
    """What is in a setting ends up in sweep.yaml, in the record and on the screen."""
    kept = "a setting is kept in sweep.yaml and shown"
    if url.scheme == "s3" and "@" in url.netloc:
        raise UserError(
            f"--storage s3://...@{url.hostname}{url.path}: no keys in it, {kept}. S3's are taken from the "
            "environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or a profile (AWS_PROFILE)"
        )
    if url.password is not None:
        shown = f"{url.scheme}://{url.username}:...@{url.hostname}{url.path}"
        raise UserError(
            f"--storage {shown}: no password in it, {kept}. "
            "Log in by a key: of your SSH agent, or as ~/.ssh/config names it (IdentityFile)"
        )
    if url.query or url.fragment:
        raise UserError(f"--storage {url.scheme}://{url.hostname}{url.path}: nothing may follow the path")


def _refuse_near_url(setting: str) -> None:
    """What looks like a URL and would become a folder of that name."""
    if setting.startswith("."):
        return
    if match := re.match(r"([A-Za-z][A-Za-z0-9+.-]*):/*", setting):
        there = f"a host is {match[1]}? Then sftp://{match[1]}/path; " if match[1] not in SCHEMES else ""
        raise UserError(
            f"--storage {setting}: {there}a URL begins with scheme://, as {_forms()}; "
            f"a folder of that name is ./{setting}"
        )
    if re.match(r"[^/]+@[^/:]+:", setting):
        user_and_host, _, path = setting.partition(":")
        raise UserError(f"--storage {setting}: did you mean 'sftp://{user_and_host}/{path.lstrip('/')}'?")


def _scheme(setting: str) -> str:
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", setting)
    return match[1] if match else ""


def _without_password(setting: str) -> str:
    return re.sub(r"://[^/]*@", "://...@", setting)


def _forms() -> str:
    return "s3://bucket/prefix, sftp://[user@]host[:port]/path"
