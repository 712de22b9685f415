"""Files that are whole or not there, also after a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def write(path: Path, text: str) -> None:
    """Write a small file beside and rename it: it is never half."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    sync(part)
    part.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Down to the disk: a rename may outlive a power cut that the content did not."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
