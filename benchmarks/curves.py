"""Real learning curves as a table, for `benchmarks.search`: `python -m benchmarks.curves FOLDER FOLDER`

The table that is committed, `data/fashion_cnn_curves.parquet`, was made once by two sweeps of the grid
`benchmarks.curves_space` (288 points of fashion_cnn on 1,500 images, 27 epochs, one thread; half an hour to
an hour each), which go on with --resume where they were stopped:

  python -m sweeps.run --trainable fashion_cnn --search-space benchmarks.curves_space --searcher grid \\
      --scheduler none --params rows=1500 --max-epochs 27 --max-concurrent 1 --seed 0 --name curves_0
  python -m sweeps.run --trainable fashion_cnn --search-space benchmarks.curves_space --searcher grid \\
      --scheduler none --params rows=1500 --max-epochs 27 --max-concurrent 1 --seed 1 --name curves_1
  python -m benchmarks.curves results/curves_0 results/curves_1

A row per epoch: every hyperparameter of the grid, seed, epoch, val_acc, val_loss, seconds, status (of the
trial: one that diverged has fewer epochs).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps.common.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

TABLE = Path(__file__).parent / "data" / "fashion_cnn_curves.parquet"
METRICS = ("val_acc", "val_loss")
COLUMNS = ("seed", "epoch", *METRICS, "seconds", "status")
"""All other columns are hyperparameters."""

Place = tuple[int, ...]
"""A point of the grid: of each hyperparameter the position of its value, 0 the smallest."""


@dataclass(frozen=True)
class Curves:
    """The learning curves of a whole grid."""

    values: Mapping[str, tuple[Any, ...]]
    """Hyperparameter to its values in order."""
    scores: Mapping[tuple[Place, int], tuple[float, ...]]
    """Point and seed to val_acc after each epoch."""
    seconds: Mapping[tuple[Place, int], tuple[float, ...]]
    """The same of how long each epoch took."""

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(sorted({seed for _, seed in self.scores}))

    @property
    def epochs(self) -> int:
        """Of the longest curve."""
        return max(map(len, self.scores.values()))

    @property
    def qualities(self) -> dict[Place, float]:
        """Point to its score when it is trained to the end: of the best epoch, whose weights are kept, and
        the mean over the seeds."""
        ends: dict[Place, list[float]] = {}
        for (place, _), curve in self.scores.items():
            ends.setdefault(place, []).append(max(filter(math.isfinite, curve), default=0.0))
        return {place: math.fsum(scores) / len(scores) for place, scores in ends.items()}

    def place(self, positions: Mapping[str, Any]) -> Place:
        """A point, from the position of each hyperparameter's value."""
        return tuple(int(positions[name]) for name in self.values)


@cache
def load(path: str = str(TABLE)) -> Curves:
    """A table of curves.

    Raises:
        ValueError: points of the grid are missing, and how many.
    """
    import pyarrow.parquet as pq

    rows = sorted(pq.read_table(path).to_pylist(), key=lambda row: int(row["epoch"]))
    hyperparameters = [name for name in rows[0] if name not in COLUMNS]
    values = {name: tuple(sorted({row[name] for row in rows})) for name in hyperparameters}
    scores: dict[tuple[Place, int], list[float]] = {}
    seconds: dict[tuple[Place, int], list[float]] = {}
    for row in rows:
        key = tuple(values[name].index(row[name]) for name in hyperparameters), row["seed"]
        scores.setdefault(key, []).append(row["val_acc"])
        seconds.setdefault(key, []).append(row["seconds"])
    whole = math.prod(map(len, values.values())) * len({row["seed"] for row in rows})
    if len(scores) < whole:
        raise ValueError(f"{path}: {len(scores)} curves of {whole}, the grid with every seed")
    return Curves(
        values,
        {key: tuple(curve) for key, curve in scores.items()},
        {key: tuple(curve) for key, curve in seconds.items()},
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.curves",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", nargs="+", help="sweeps of one grid that have ended, a seed each")
    parser.add_argument(
        "--output", type=Path, default=TABLE, help="file to write (default: the committed one)"
    )
    asked = parser.parse_args(arguments)
    try:
        write(asked.folders, asked.output)
    except (UserError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def write(folders: Sequence[str], output: Path) -> None:
    """The curves of sweeps as one table.

    Raises:
        UserError: a trial has not ended, or sweeps differ in their hyperparameters.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = [_curves(folder) for folder in folders]
    for folder, table in zip(folders[1:], tables[1:], strict=True):
        for name in set(table.column_names) ^ set(tables[0].column_names):
            raise UserError(
                f"{folder} and {folders[0]}: only one has a hyperparameter {name}; give sweeps of one grid"
            )
    whole = pa.concat_tables(tables)
    output.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(whole, output, compression="zstd", compression_level=19)
    size_kb = output.stat().st_size / 1000
    print(f"{output}: {whole.num_rows:,} epochs of {len(folders)} sweeps, {size_kb:,.0f} KB")


def _curves(folder: str) -> pa.Table:
    import pyarrow as pa

    from sweeps.analysis import sweep

    record = sweep.load(folder).record
    rows: list[dict[str, Any]] = []
    for trial in record.trials:
        if trial.status not in ("finished", "diverged"):
            found = f"trial {trial.number} is {trial.status}"
            raise UserError(f"{folder}: {found}; all must have finished or diverged: --resume it")
        for epoch, row in sorted(trial.epochs.items()):
            measured = {name: row.metrics.get(name, math.nan) for name in METRICS}
            rows.append(
                {**trial.params, "seed": trial.seed, "epoch": epoch, **measured, "seconds": row.seconds,
                 "status": trial.status}
            )  # fmt: skip
    table = pa.Table.from_pylist(rows)
    floats = {name: pa.float32() for name in (*METRICS, "seconds")}
    kinds = {"seed": pa.int16(), "epoch": pa.int16(), **floats}
    return table.cast(pa.schema([(field.name, kinds.get(field.name, field.type)) for field in table.schema]))


if __name__ == "__main__":
    sys.exit(main())
