"""A sweep that says how long its driver wrote tables: `python -m benchmarks._timed_sweep FILE flags`

The flags are those of `sweeps run`. FILE gets a JSON list, the seconds of each writing.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from sweeps.execution.output import folder_files
from sweeps.run import main as run_main


def main(file: str, *flags: str) -> int:
    spent: list[float] = []
    write = folder_files.write_tables

    def timed(record: Any, folder: Path) -> str:
        began = time.perf_counter()
        why = write(record, folder)
        spent.append(time.perf_counter() - began)
        return why

    folder_files.write_tables = timed  # the driver, which imports it by name, is imported later
    status = run_main(flags)
    Path(file).write_text(json.dumps(spent))
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
