"""What Tune is told, and what its end says."""

from __future__ import annotations

import errno
from pathlib import Path

from sweeps.execution.driver.tuner import _why_lost
from sweeps.record.journal import RecordLost


def wrapped(cause: BaseException) -> RuntimeError:
    """As Tune wraps what a callback raises."""
    error = RuntimeError("Traceback ...")
    error.__context__ = cause
    return error


def test_why_nothing_can_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    lost = RecordLost("the record can't be written: Input/output error (record.journal)")
    assert _why_lost(wrapped(lost), tmp_path) == str(lost)
    read_only = OSError(errno.EROFS, "Read-only file system", str(tmp_path / "tune" / "x.json"))
    assert _why_lost(wrapped(read_only), tmp_path) == (
        f"{tmp_path / 'tune' / 'x.json'} can't be written: Read-only file system"
    )
    assert _why_lost(wrapped(OSError(errno.ENOSPC, "full")), tmp_path) == f"the disk of {tmp_path} is full"
    assert _why_lost(wrapped(ValueError("a bug")), tmp_path) is None
    assert _why_lost(wrapped(OSError(errno.EROFS, "elsewhere", "/proc/x")), tmp_path) is None
    assert _why_lost(wrapped(ValueError("a bug")), tmp_path / "gone") == f"{tmp_path / 'gone'} is gone"
