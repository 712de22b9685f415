"""Preparation of data: raw files to parts, parts to shards, and the manifest last.

The same call resumes an interrupted preparation: finished parts are kept.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import filelock
import numpy as np
import numpy.typing as npt

from sweeps.common.atomic_io import disk_is_full
from sweeps.common.cli.terminal import Bar
from sweeps.common.errors import CannotContinue, UserError
from sweeps.common.formatting import count, duration, shown_path, size
from sweeps.common.yaml_values import ParamValue
from sweeps.kinds.trainable import Trainable
from sweeps.training.config import MAX_BAD_PCT
from sweeps.training.data import dataset, ray_pipeline, shards
from sweeps.training.data.dataset import DataSet
from sweeps.training.data.raw_files import Item
from sweeps.training.data.shards import Column, Manifest, NotPrepared, Rows, Shard

SHARD_BYTES = 256 * 2**20
"""Size of a shard, about."""


def prepare_for_run(trainable: Trainable, params: Mapping[str, ParamValue]) -> Path | None:
    """The folder of a run's data, prepared now if need be; None for a trainable without `prepare`."""
    return (
        None if trainable.preparation is None else ensure_prepared(dataset.find_data_set(trainable, params))
    )


def ensure_prepared(
    data_set: DataSet,
    max_bad_pct: float = MAX_BAD_PCT,
    address: str | None = None,
    *,
    has_to_say: bool = False,
) -> Path:
    """Prepare a data set if it is missing or incomplete, and return its folder.

    Other processes of this PC that need the same data set wait.

    Args:
        max_bad_pct: share of raw files that may be left out as corrupt, in percent.
        address: Ray cluster to join; None: the one already joined, else a new one on this PC.
        has_to_say: print a line when the data is prepared already.

    Raises:
        CannotContinue: too many raw files are corrupt, or the disk is full; finished parts are kept.
    """
    # What is complete is written no more, and may lie where this user can't write: there is no lock to take.
    with contextlib.nullcontext() if data_set.is_there() else lock_preparation(data_set):
        try:
            if data_set.manifest() is not None:
                if has_to_say:
                    print(f"prepared already: {data_set.in_a_line()}", flush=True)
                return data_set.folder
        except NotPrepared as error:
            print(f"{error}. It is prepared again.", flush=True)
        try:
            _prepare(data_set, max_bad_pct, address)
        except OSError as error:
            if not disk_is_full(error, dataset.root()):
                raise
            shutil.rmtree(data_set.folder, ignore_errors=True)
            raise CannotContinue(
                f"{dataset.root()}: the disk is full. What is prepared is kept in "
                f"{data_set.parts_folder.name}. Free some space, or choose another --prepared-dir, and run "
                "the same command again"
            ) from None
        return data_set.folder


def _prepare(data_set: DataSet, max_bad_pct: float, address: str | None) -> None:
    began = time.monotonic()
    bad: dict[Item, str] = {}
    todo = [item for item in data_set.items if not data_set.part(item).exists()]
    hyperparameters = ", ".join(f"{name}={value}" for name, value in data_set.hyperparameters.items())
    what = f"{data_set.name} ({hyperparameters})" if hyperparameters else data_set.name
    done = len(data_set.items) - len(todo)
    before = f", {done:,} already prepared" if done else ""
    print(f"Preparing {what}: {data_set.source}{before}", flush=True)
    with contextlib.ExitStack() as stack:
        if todo:
            stack.enter_context(ray_pipeline.connected(data_set, address))
            found = stack.enter_context(contextlib.closing(ray_pipeline.run(data_set, todo)))
            for item, reason in found:
                bad[item] = reason
                _refuse_too_many(data_set, bad, max_bad_pct)
    columns, deviating = _agreed_columns(data_set, bad)
    bad |= deviating
    _refuse_too_many(data_set, bad, max_bad_pct)
    manifest = Manifest(
        columns=columns,
        splits=_write_shards(data_set, columns, bad),
        fingerprint=data_set.key,
        about={
            "trainable": data_set.description.name,
            "hyperparameters": dict(data_set.hyperparameters),
            "raw_files": len(data_set.items),
            "raw_bytes": data_set.raw_bytes,
            "skipped": [{"file": str(item.path), "reason": reason} for item, reason in bad.items()],
            "seconds": round(time.monotonic() - began, 1),
        },
    )
    manifest.write(data_set.folder)
    for path in (*map(data_set.part, data_set.items), *data_set.parts_folder.glob(".*.part")):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # it still holds parts of other raw files
        data_set.parts_folder.rmdir()
    _print_summary(data_set, manifest)


@contextlib.contextmanager
def lock_preparation(data_set: DataSet) -> Iterator[None]:
    """Wait until no other process of this PC prepares with the same code and hyperparameters."""
    path = dataset.root() / f".{data_set.parts_folder.name}.lock"
    lock = filelock.FileLock(path)  # the system releases a killed process's lock
    try:
        dataset.root().mkdir(parents=True, exist_ok=True)
        held = lock.acquire(timeout=0)
    except filelock.Timeout:
        print(f"Another process is preparing {data_set.name}. Waiting for it.", flush=True)
        held = lock.acquire()
    except OSError as error:
        raise UserError(f"--prepared-dir {dataset.root()}: {error.strerror}") from None
    with held:
        yield


def _agreed_columns(data_set: DataSet, bad: Mapping[Item, str]) -> tuple[dict[str, Column], dict[Item, str]]:
    """The columns of most parts, and raw file to reason for the parts with other columns."""
    good = (item for item in data_set.items if item not in bad)
    found = {item: shards.columns_in(ray_pipeline.open_part(data_set.part(item))[0].schema) for item in good}
    if not found:
        return {}, {}
    counts = Counter(tuple(columns.items()) for columns in found.values())
    agreed = dict(counts.most_common(1)[0][0])
    return agreed, {
        item: f"its columns are {_in_words(columns)}; most files have {_in_words(agreed)}"
        for item, columns in found.items()
        if columns != agreed
    }


def _refuse_too_many(data_set: DataSet, bad: Mapping[Item, str], max_bad_pct: float) -> None:
    allowed = int(len(data_set.items) * max_bad_pct / 100)
    if len(bad) <= allowed and len(bad) < len(data_set.items):
        return
    raise CannotContinue(
        f"{count(len(bad), 'raw file')} of {len(data_set.items):,} can't be prepared; --max-bad-pct "
        f"{max_bad_pct:g} allows {allowed:,}. What is prepared is kept.\n{_listed(bad)}\n"
        f"To allow N percent: {data_set.command('--max-bad-pct', 'N')}"
    )


def _write_shards(
    data_set: DataSet, columns: Mapping[str, Column], bad: Mapping[Item, str]
) -> dict[str, list[Shard]]:
    shutil.rmtree(data_set.folder, ignore_errors=True)
    splits: dict[str, list[Shard]] = {}
    for number, split in enumerate(dict.fromkeys(item.split for item in data_set.items)):
        good = [item for item in data_set.items if item.split == split and item not in bad]
        if not good:
            raise CannotContinue(f"no raw file of split {split} can be prepared.\n{_listed(bad)}")
        paths = [data_set.part(item) for item in good]
        rows = sum(map(_rows_of, paths))
        with Bar(f"Shuffling {split}", rows, unit="row") as bar:
            splits[split] = []
            for shard in shuffle(data_set.folder, split, paths, columns, (0, number)):
                splits[split].append(shard)
                bar.add(shard.rows)
    return splits


def shuffle(
    folder: Path, split: str, parts: Sequence[Path], columns: Mapping[str, Column], seed: tuple[int, ...]
) -> Iterator[Shard]:
    """Write all rows of all parts as shards; the seed and the order of the parts decide the order of rows."""
    ends = [0, *itertools.accumulate(map(_rows_of, parts))]
    order = np.random.default_rng(seed).permutation(ends[-1])
    row_bytes = max(1, sum(column.row_bytes for column in columns.values()))
    groups = -(-len(order) // shards.rows_of_group(columns))
    # Four, where there are as many row groups: other programs distribute a data set by its files.
    count = max(-(-len(order) * row_bytes // SHARD_BYTES), min(4, groups))
    for number, wanted in enumerate(np.array_split(order, count)):
        file = f"{split}-{number:05d}.parquet"
        rows = _taken(parts, ends, wanted, columns)
        shard = shards.write_shard(folder, file, rows, columns)
        shards.MappedShard(folder, shard, columns)  # raises before a trial would
        yield shard


def _taken(
    parts: Sequence[Path],
    ends: Sequence[int],
    wanted: npt.NDArray[np.int64],
    columns: Mapping[str, Column],
) -> Rows:
    """The rows at the wanted positions, in that order. Each part is read once, from front to back."""
    taken = {name: np.empty((len(wanted), *column.shape), column.dtype) for name, column in columns.items()}
    by_position = np.argsort(wanted, kind="stable")
    positions = wanted[by_position]
    first = 0
    for part, (begin, end) in zip(parts, itertools.pairwise(ends), strict=True):
        if first == len(positions) or positions[first] >= end:  # it holds no wanted row
            continue
        for group in ray_pipeline.open_part(part):
            last = int(np.searchsorted(positions, begin + group.num_rows))
            if last > first:  # else nothing of it is copied
                for name, values in shards.to_arrays(group, columns).items():
                    taken[name][by_position[first:last]] = values[positions[first:last] - begin]
            begin, first = begin + group.num_rows, last
    return taken


def _rows_of(part: Path) -> int:
    return sum(group.num_rows for group in ray_pipeline.open_part(part))


def _print_summary(data_set: DataSet, manifest: Manifest) -> None:
    bytes_, shards = sum(s.size_bytes for s in manifest.shards), len(manifest.shards)
    lines = [
        ("prepared", shown_path(data_set.folder)),
        ("rows", ", ".join(f"{manifest.rows(split):,} {split}" for split in manifest.splits)),
        ("size", f"{size(bytes_)} in {count(shards, 'shard')}"),
        ("time", duration(manifest.about["seconds"])),
    ]
    if skipped := manifest.about["skipped"]:
        lines.append(("skipped", f"{len(skipped):,} of {count(len(data_set.items), 'raw file')}:"))
        lines += [("", f"{each['file']}: {each['reason']}") for each in skipped]
    print("\n".join(f"{title:<10} {text}" for title, text in lines), flush=True)


def _listed(bad: Mapping[Item, str]) -> str:
    lines = [f"  {item.path}: {reason}" for item, reason in bad.items()]
    more = [f"  and {len(lines) - 5:,} more"] if len(lines) > 5 else []
    return "\n".join([*lines[:5], *more])


def _in_words(columns: Mapping[str, Column]) -> str:
    return ", ".join(f"{name} {column.dtype}{list(column.shape)}" for name, column in columns.items())
