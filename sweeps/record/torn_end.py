"""An incomplete last line of a record, which readers leave out: it is told, unless the sweep is running."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sweeps.common.formatting import command, shown_path
from sweeps.config.sweep_folder import JOURNAL
from sweeps.record import lock
from sweeps.record.journal import is_whole

BLOCK_BYTES = 2**16


def tell(folder: Path) -> None:
    """Print a line on standard error where a record ends in an incomplete line. One that is written at this
    moment may, too: it is complete a moment later."""
    if lock.is_held(folder) or not (torn := _torn_bytes(folder / JOURNAL)):
        return
    again = command("run", "--resume", shown_path(folder.resolve()))
    print(
        f"{shown_path(folder / JOURNAL)}: the last {torn:,} bytes are an incomplete line, which is left out: "
        f"its writer was killed, or the disk was full. A resume removes it: {again}",
        file=sys.stderr,
        flush=True,
    )


def _torn_bytes(path: Path) -> int:
    """The length of the last line if it is incomplete, else 0; only the end of the file is read."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        line, start = b"", size
        while start and b"\n" not in line[:-1]:
            start = max(0, start - BLOCK_BYTES)
            file.seek(start)
            line = file.read(size - start)
    line = line[line[:-1].rfind(b"\n") + 1 :]
    return 0 if not line or is_whole(line) else len(line)
