"""What a data set is made of, by content: raw files, the code that reads them, the knobs that it obeys.

The same content is the same key, wherever it lies and whenever it was touched; so a data set is found by
its key, prepared once, and never taken for another one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from training.durable import write

FACTS_FILE = "raw-files.json"
"""Path to [size, time of change, sha256]: what has not changed is not read again."""
KEY_DIGITS = 16

Facts = dict[str, list[Any]]


class RawFiles:
    """The checksums of raw files, remembered in a folder.

    Args:
        folder: where data sets are prepared.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FACTS_FILE
        try:
            self._known: Facts = json.loads(self._path.read_text())
        except (OSError, ValueError):
            self._known = {}

    def checksums(self, files: Iterable[Path], on_file: Callable[[], None]) -> dict[Path, str]:
        """File to the sha256 of its content; `on_file` is called after each.

        Raises:
            OSError: one can't be read.
        """
        paths = list(files)
        with ThreadPoolExecutor() as threads:  # hashing leaves the interpreter to others
            found = {}
            for path, facts in zip(paths, threads.map(self._facts_of, paths), strict=True):
                found[path] = facts
                on_file()
        now = {str(path.absolute()): facts for path, facts in found.items()}
        if any(self._known.get(name) != facts for name, facts in now.items()):
            self._known |= now
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write(self._path, json.dumps(self._known))
        return {path: str(facts[2]) for path, facts in found.items()}

    def _facts_of(self, path: Path) -> list[Any]:
        stat = path.stat()
        known = self._known.get(str(path.absolute()))
        if known is not None and known[:2] == [stat.st_size, stat.st_mtime_ns]:
            return known
        with path.open("rb") as content:
            return [stat.st_size, stat.st_mtime_ns, hashlib.file_digest(content, "sha256").hexdigest()]


def key_of(checksums: Mapping[str, str], code: Mapping[str, str], knobs: Mapping[str, Any]) -> str:
    """The key of a data set.

    Args:
        checksums: `split/name` of each raw file to the checksum of its content.
        code: file to its checksum.
        knobs: those that preparation depends on.
    """
    made_of = json.dumps([checksums, code, knobs], sort_keys=True)
    return hashlib.sha256(made_of.encode()).hexdigest()[:KEY_DIGITS]
