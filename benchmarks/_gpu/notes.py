"""What a part measures, noted at once: whatever ends the part, what it has measured is there."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks._gpu.line import Run


class Notes:
    """Runs of a part, as lines of JSON in a file.

    Args:
        file: to append to.
        repeats: of each measurement.
        limit_s: seconds after which no further measurement begins.
        is_rehearsal: whether all is tiny, and on the CPU.
    """

    def __init__(self, file: Path, repeats: int, limit_s: float, *, is_rehearsal: bool) -> None:
        self.repeats, self.is_rehearsal = repeats, is_rehearsal
        self._file, self._ends = file, time.monotonic() + limit_s

    @property
    def left_s(self) -> float:
        """Seconds that are left to the part."""
        return self._ends - time.monotonic()

    def measure(self, what: Mapping[str, Any], measured: Callable[[], Mapping[str, Any]]) -> bool:
        """Measure one thing and note it; an error is noted as its reason, and the part goes on.

        Args:
            what: names it.
            measured: its figures.

        Returns:
            Whether it was measured.
        """
        name = ", ".join(f"{key} {value}" if key == "repeat" else str(value) for key, value in what.items())
        if self.left_s <= 0:
            self.note({**what, "failed": "the time of the part was up"})
            print(f"  {name}: not measured: the time of the part was up", flush=True)
            return False
        began = time.monotonic()
        try:
            found = dict(measured())
        except Exception as error:  # of a part, a library or the driver of the card: the others are measured
            reason = f"{type(error).__name__}: {error}".strip()
            self.note({**what, "failed": reason, "took_s": round(time.monotonic() - began, 1)})
            print(f"  {name}: failed: {reason}", flush=True)
            traceback.print_exc()
            return False
        took_s = round(time.monotonic() - began, 1)
        self.note({**what, **found, "took_s": took_s})
        shown = ", ".join(f"{key} {_shown(value)}" for key, value in found.items() if _is_figure(value))
        print(f"  {name}: {shown} (took {took_s:.0f} s)", flush=True)
        return True

    def note(self, run: Run) -> None:
        """Keep a run at once."""
        with self._file.open("a") as file:
            file.write(json.dumps(run) + "\n")


def read(file: Path) -> list[Run]:
    """All runs; of a line that was cut off, none."""
    found = []
    for line in file.read_text().splitlines() if file.exists() else []:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return found


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float | str) and not isinstance(value, bool)


def _shown(value: object) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)
