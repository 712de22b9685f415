"""Progress of long work: a bar on a terminal, elsewhere a line every ten seconds."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from tqdm import tqdm

from sweeps.common.formatting import duration, size

LINE_S = 10.0
"""Between two lines."""


class Bar:
    """Counts finished work, and prints how much is left.

    Args:
        title: of the work, as `Preparing`.
        total: units of work.
        done: units finished before.
        unit: name of one; B for bytes.
    """

    def __init__(self, title: str, total: int, *, done: int = 0, unit: str = "file") -> None:
        self._title, self._total, self._done, self._unit = title, total, done, unit
        self._before = done
        self._began = self._said = time.monotonic()
        self._bar = (
            tqdm(total=total, initial=done, desc=title, unit=unit, unit_scale=unit == "B", leave=False)
            if sys.stderr.isatty()
            else None
        )

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def add(self, units: int, note: str = "") -> None:
        """Count finished units; `note` is shown beside them."""
        self._done += units
        if self._bar is not None:
            self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(units)
        elif (now := time.monotonic()) - self._said >= LINE_S:
            self._said = now
            words = [f"{self._done:,} of {self._total:,} {self._unit}s"]
            if self._unit == "B":
                words = [f"{size(self._done)} of {size(self._total)}"]
            words += [note] if note else []
            if done := self._done - self._before:
                left_s = (self._total - self._done) * (now - self._began) / done
                words.append(f"about {duration(left_s)} left")
            print(f"{self._title}  {', '.join(words)}", flush=True)
