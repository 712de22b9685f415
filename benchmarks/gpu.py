"""What a card does, in one table and one picture: `python -m benchmarks.gpu`

  train     epochs of fashion_cnn and fashion_vit, as shipped and large: fp32, bf16, fp16, ZeRO 2, compiled
  data      rows to the card by ParquetDataModule and by a DataLoader; the wait for data while a model trains
  ladder    the speed ladder with GPU-Util: of faces where its packages are installed, else of fashion_vit
  sharing   trials an hour with 1, 2, 4 and 8 trials on the card, and with as many as `auto` chooses
  overhead  a sweep of 24 small trials beside the same epochs without a sweep, and beside Ray Tune
  zero      ZeRO 2 beside plain fp16 with 1 M, 100 M and 1 B parameters

Each part is a process of its own, and ends in time: what it did not measure until then is left out and named.
What a part measured replaces what is in the results; other parts stay. Without a GPU all parts are skipped.
Fashion-MNIST must be there (`make data`). `make faces` brings what faces needs.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks import _measure
from benchmarks._gpu import PARTS

PATIENCE_S = 60.0
"""Behind the limit of a part, for what it measures just then."""
NAME = "gpu"
REHEARSES = """rehearse all on the CPU with tiny models: the figures mean nothing, and are written only where
--results-dir says"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    asked = parser.parse_args(arguments)
    folder: Path | None = asked.results_dir or (None if asked.on_cpu else _measure.results())
    if asked.on_cpu and folder is not None and folder.resolve() == _measure.results().resolve():
        parser.error(f"--results-dir {folder}: a rehearsal on the CPU measures nothing that belongs there")

    from benchmarks._gpu import card, picture, results  # here: PyTorch takes seconds, and --help needs none

    with tempfile.TemporaryDirectory(prefix="gpu-benchmark-") as own:
        file = (folder or Path(own)) / f"{NAME}.json"
        measured: list[str] = []
        for name in asked.part:
            module = _imported(name)
            why = "" if asked.on_cpu else card.why_none()
            if module is None or why:
                print(f"{name}: skipped: {why or 'it cannot be imported, see above'}", flush=True)
                continue
            try:
                part = _one(name, module, asked, Path(own), arguments)
                results.merge(file, name, part, PARTS)
                measured.append(name)
            except Exception:  # of any kind: the card is there for minutes, and the other parts go on
                traceback.print_exc()
                print(f"{name}: failed, see above", flush=True)
        parts = results.read(file)
        if parts:
            print(f"\n{results.table(parts)}\n\n{results.machines(parts)}\n", flush=True)
            with _printed("the picture"):
                picture.draw(parts, file.with_suffix(".png"))
        for name, part in parts.items():
            print("\n".join(results.words(name, part)), flush=True)
        if folder is not None and measured:
            print(f"{file}: {', '.join(measured)}; {file.with_suffix('.png').name}")
    return 0


def _one(
    name: str, module: ModuleType, asked: argparse.Namespace, folder: Path, arguments: Sequence[str] | None
) -> dict[str, Any]:
    """Measure a part in a process of its own; whatever ends that, what it noted counts."""
    from benchmarks._gpu import notes, results

    print(f"\n{name}: {(module.__doc__ or '').splitlines()[0]}", flush=True)
    file = folder / f"{name}.jsonl"
    limit_s, device = asked.limit_s, "cpu" if asked.on_cpu else "cuda"
    command = [
        sys.executable,
        "-m",
        "benchmarks._gpu",
        name,
        str(file),
        str(asked.repeats),
        str(limit_s),
        device,
    ]
    environment = {**os.environ, **({"CUDA_VISIBLE_DEVICES": ""} if asked.on_cpu else {})}
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    ended = ""
    try:
        status = process.wait(limit_s + PATIENCE_S)
        ended = f"its process ended with status {status}" if status else ""
    except subprocess.TimeoutExpired:
        ended = f"it took longer than {limit_s + PATIENCE_S:.0f} s and was ended"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also what it has left behind
        process.wait()
    if ended:
        print(f"{name}: {ended}", flush=True)
    found = notes.read(file)
    about: dict[str, Any] = next((run["about"] for run in found if "about" in run), {})
    runs = [run for run in found if "about" not in run]
    left_out = [run for run in runs if "failed" in run]
    ended = ended or (f"{len(left_out)} of {len(runs)} measurements are missing" if left_out else "")
    words = [Path(word).name if word.startswith("/") else word for word in arguments or sys.argv[1:]]
    return results.part(f"python -m benchmarks.{NAME} {' '.join(words)}".strip(), about, runs, ended, module)


def _imported(name: str) -> ModuleType | None:
    with _printed(name):
        return importlib.import_module(f"benchmarks._gpu.{name}")
    return None


@contextlib.contextmanager
def _printed(what: str) -> Any:
    """An error is printed, of whatever kind, and what follows goes on."""
    try:
        yield
    except Exception:
        traceback.print_exc()
        print(f"{what}: failed, see above", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, default = parser.add_argument, "(default: %(default)s)"
    add("--part", nargs="+", choices=PARTS, default=list(PARTS), help="parts to measure (default: all)")
    add("--repeats", type=int, default=3, help=f"of each measurement {default}")
    add(
        "--limit-s",
        type=float,
        default=400.0,
        help=f"seconds after which a part begins nothing more {default}",
    )
    add("--results-dir", type=Path, help="folder of gpu.json and gpu.png (default: benchmarks/results)")
    add("--on-cpu", action="store_true", help=REHEARSES)
    return parser


if __name__ == "__main__":
    sys.exit(main())
