"""One part in a process of its own: `python -m benchmarks._gpu NAME FILE REPEATS LIMIT_S cuda|cpu`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from benchmarks._gpu import card
from benchmarks._gpu.notes import Notes


def main(name: str, file: str, repeats: int, limit_s: float, device: str) -> None:
    notes = Notes(Path(file), repeats, limit_s, is_rehearsal=device == "cpu")
    part = importlib.import_module(f"benchmarks._gpu.{name}")  # sets the allocator, before CUDA is used
    notes.note({"about": card.about()})
    part.measure(notes)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), sys.argv[5])
