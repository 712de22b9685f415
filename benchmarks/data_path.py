"""How fast batches come, beside other ways to load them: `python -m benchmarks.data_path`

Images of 3 KB and 27 KB as uint8 with a label, without a transform, the page cache warm, one thread. Each arm
but `mmap` hands out batches in memory of their own; shuffled but for the arms in order.

  mmap      slices of the images alone, out of one mapped array into one buffer, in order: the ceiling
  mmap, new memory
            the same, each slice into memory of its own, as every other arm has to
  in order  ParquetDataModule, as validation reads it
  parquet   ParquetDataModule, as training reads it
  tensors   a DataLoader over a TensorDataset, row by row
  litdata   a StreamingDataLoader over litdata's own format
  files     a DataLoader over PNG files, each opened and decoded
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import _measure
from benchmarks._measure import Goal

if TYPE_CHECKING:
    from benchmarks._images import Images

Run = dict[str, Any]
"""side, arm, loader_workers, repeat, rows_per_s, gib_per_s, busy_before."""

PACKAGES = {"pillow": "PIL", "litdata": "litdata"}
"""Name to module."""
INSTALL = "pip install --no-deps litdata obstore tifffile pillow"
"""With their dependencies comes torchvision, and with it another PyTorch."""
NEEDS = {"files": "PIL", "litdata": "litdata"}
"""Arm to the module that it needs."""


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)

    import torch  # here: it takes seconds, and --help needs none

    from benchmarks._images import Images

    torch.set_num_threads(1)
    runs: list[Run] = []
    skipped: dict[str, str] = {}
    for side in asked.sides:
        with tempfile.TemporaryDirectory(prefix="data-path-") as folder:
            images = Images(Path(folder), side, max(1, asked.mib * 2**20 // (side**2 * 3)), asked.files)
            print(f"{_name(side)}: writing {images.rows:,} images in each form", flush=True)
            arms = _arms(asked, images, skipped)
            for repeat in range(asked.repeats):
                for name in _measure.in_turn(list(arms), repeat):
                    runs.append(_run(name, arms[name], images, repeat, asked))
                    print(_words(runs[-1]), flush=True)
    medians = summary(runs)
    print(describe(medians), flush=True)
    for arm, reason in skipped.items():
        print(f"{arm}: not measured: {reason}", flush=True)
    packages = {name: version(name) for name, module in PACKAGES.items() if find_spec(module)}
    content = {"runs": runs, "medians": medians, "skipped": skipped, "packages": packages}
    _measure.write("data_path", content, goals(medians, asked.sides))
    return 0


def summary(runs: Sequence[Run]) -> list[Run]:
    """Medians over the repeats."""
    keys = dict.fromkeys((run["side"], run["arm"], run["loader_workers"]) for run in runs)
    return [
        {
            "side": side, "arm": arm, "loader_workers": workers,
            **{
                key: _measure.median([run[key] for run in _of(runs, side, arm, workers)])
                for key in ("rows_per_s", "gib_per_s")
            },
        }
        for side, arm, workers in keys
    ]  # fmt: skip


def describe(medians: Sequence[Run]) -> str:
    rows = []
    for row in medians:
        ours = _rate(medians, row["side"], "parquet")
        rows.append(
            (
                f"{_name(row['side'])}  {row['arm']}, {row['loader_workers']} loader workers",
                f"{row['rows_per_s']:,.0f}",
                _measure.number(row["gib_per_s"], 3),
                _measure.number(None if ours is None else ours / row["rows_per_s"]),
            )
        )
    return _measure.table(("rows, arm", "rows/s", "GiB/s", "parquet is so many times as fast"), rows)


def goals(medians: Sequence[Run], sides: Sequence[int]) -> list[Goal]:
    """Others by the better of their loader workers; ours without any."""
    found = []
    for side in sides:
        size = _name(side).replace(" ", "")
        ours, in_order = _rate(medians, side, "parquet"), _rate(medians, side, "in order")
        bounds = {"files": 10.0, "tensors": 10.0, "litdata": 1.0}
        found += [
            Goal(f"to_{arm}_{size}", _ratio(ours, _best(medians, side, arm)), ">=", bound)
            for arm, bound in bounds.items()
        ]
        found.append(Goal(f"to_mmap_{size}", _ratio(in_order, _rate(medians, side, "mmap")), ">=", 0.5))
    return found


def _arms(
    asked: argparse.Namespace, images: Images, skipped: dict[str, str]
) -> dict[tuple[str, int], Iterable[Any]]:
    """(arm, loader workers) to its batches; those that can't run are noted with the reason."""
    from benchmarks._loaders import loaders

    arms = {}
    for workers in asked.loader_workers:
        for name, make in loaders(images, asked.batch_size, workers).items():
            if name not in asked.arms or (name.startswith("mmap") and workers):
                continue
            needed = NEEDS.get(name)
            if needed is not None and find_spec(needed) is None:
                skipped[name] = f"no module {needed}; {INSTALL}"
                continue
            arms[name, workers] = make()
    return arms


def _run(
    key: tuple[str, int], batches: Iterable[Any], images: Images, repeat: int, asked: argparse.Namespace
) -> Run:
    from benchmarks._loaders import rows_per_s

    busy = _measure.busy_cores(0.3)
    rate = rows_per_s(batches, asked.seconds)
    return {
        "side": images.side, "arm": key[0], "loader_workers": key[1], "repeat": repeat, "rows_per_s": rate,
        "gib_per_s": rate * images.row_bytes / 2**30, "busy_before": round(busy, 2),
    }  # fmt: skip


def _of(rows: Sequence[Run], side: int, arm: str, workers: int) -> list[Run]:
    return [row for row in rows if (row["side"], row["arm"], row["loader_workers"]) == (side, arm, workers)]


def _rate(medians: Sequence[Run], side: int, arm: str) -> float | None:
    """Without loader workers."""
    return next((row["rows_per_s"] for row in _of(medians, side, arm, 0)), None)


def _best(medians: Sequence[Run], side: int, arm: str) -> float | None:
    rates = [row["rows_per_s"] for row in medians if (row["side"], row["arm"]) == (side, arm)]
    return max(rates, default=None)


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or below is None else above / below


def _name(side: int) -> str:
    return f"{round(side**2 * 3 / 1024)} KB"


def _words(run: Run) -> str:
    return (
        f"{_name(run['side'])}, repeat {run['repeat'] + 1}, {run['arm']}, {run['loader_workers']} loader "
        f"workers: {run['rows_per_s']:,.0f} rows/s, {run['gib_per_s']:.3f} GiB/s "
        f"({run['busy_before']:.1f} cores busy before)"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.data_path",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = ["mmap", "mmap, new memory", "in order", "parquet", "tensors", "litdata", "files"]
    parser.add_argument("--sides", type=int, nargs="+", default=[32, 96], help="pixels of an image's side")
    parser.add_argument("--mib", type=int, default=192, help="size of all images")
    parser.add_argument("--files", type=int, default=2_000, help="how many of them are image files too")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--loader-workers", type=int, nargs="+", default=[0, 2])
    parser.add_argument("--arms", nargs="+", choices=names, default=names)
    parser.add_argument("--seconds", type=float, default=1.0, help="of an arm in a repeat, at least")
    parser.add_argument("--repeats", type=int, default=3)
    return parser


if __name__ == "__main__":
    sys.exit(main())
