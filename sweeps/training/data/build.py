"""The whole of a preparation: raw files to parts, parts to shards, and the manifest last.

Interrupted anywhere, the same call goes on: parts that are there are not made again, and a data set
without its manifest is none.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import filelock

from sweeps.common.atomic_io import disk_is_full
from sweeps.common.errors import CannotPrepare, UserError
from sweeps.common.formatting import count, duration, place, size
from sweeps.common.progress import Bar
from sweeps.common.yaml_values import ParamValue
from sweeps.training.config import MAX_BAD_PCT
from sweeps.training.data import dataset, ray_pipeline, shuffle, staging
from sweeps.training.data.dataset import DataSet
from sweeps.training.data.raw_files import Item
from sweeps.training.data.shards import Column, Manifest, NotPrepared, Shard

SEED = 0
"""Of the order in which rows are written."""
SHOWN = 5
"""Raw files that are named where more can't be prepared."""


def of_trial(asked: str, module: ModuleType, params: Mapping[str, ParamValue]) -> Path | None:
    """The folder of the prepared data of one trial, prepared now where it is not yet; None for a trainable
    that has nothing prepared."""
    if not dataset.has_preparation(module):
        return None
    return ensure(dataset.look(asked, module, params))


def ensure(
    data_set: DataSet,
    max_bad_pct: float = MAX_BAD_PCT,
    address: str | None = None,
    *,
    has_to_say: bool = False,
) -> Path:
    """The folder of prepared data; it is prepared where that has not been done, or something is lost.

    Whoever comes first does it; other processes that want the same wait for it.

    Args:
        data_set: what is wanted.
        max_bad_pct: share of raw files that may be left out because they can't be prepared.
        address: Ray cluster to join; None: the one that is joined, else one of our own on this PC.
        has_to_say: say so where there is nothing to do.

    Raises:
        CannotPrepare: too many raw files are corrupt, or the disk is full; what was prepared is kept.
    """
    with alone(data_set):
        if _is_there(data_set):
            if has_to_say:
                print(f"prepared already: {data_set.in_a_line()}", flush=True)
            return data_set.folder
        try:
            _prepare(data_set, max_bad_pct, address)
        except (OSError, NotPrepared) as error:
            if isinstance(error, OSError) and not disk_is_full(error, dataset.root()):
                raise
            shutil.rmtree(data_set.folder, ignore_errors=True)
            what = str(error) if isinstance(error, NotPrepared) else "the disk is full"
            raise CannotPrepare(
                f"{dataset.root()}: {what}. What is prepared is kept in {data_set.parts_folder.name}; "
                "make room, or take another --prepared-dir, and give the same command again"
            ) from None
        return data_set.folder


def _is_there(data_set: DataSet) -> bool:
    try:
        return data_set.manifest() is not None
    except NotPrepared as error:
        print(f"{error}. It is prepared again.", flush=True)
        return False


def _prepare(data_set: DataSet, max_bad_pct: float, address: str | None) -> None:
    began = time.monotonic()
    allowed = int(len(data_set.items) * max_bad_pct / 100)
    bad: dict[Item, str] = {}
    todo = [item for item in data_set.items if not data_set.part(item).exists()]
    _say_begin(data_set, done=len(data_set.items) - len(todo))
    with contextlib.ExitStack() as stack:
        if todo:
            stack.enter_context(ray_pipeline.connected(data_set, address))
            found = stack.enter_context(contextlib.closing(ray_pipeline.run(data_set, todo, allowed)))
            for item, reason in found:
                bad[item] = reason
                _refuse_too_many(data_set, bad, allowed, max_bad_pct)
    columns, deviating = _agreed_columns(data_set, bad)
    bad |= deviating
    _refuse_too_many(data_set, bad, allowed, max_bad_pct)
    splits = _write_shards(data_set, columns, bad)
    manifest = Manifest(
        columns=columns,
        splits=splits,
        fingerprint=data_set.key,
        about={
            "trainable": data_set.trainable,
            "knobs": dict(data_set.hyperparameters),
            "raw_files": len(data_set.items),
            "raw_bytes": data_set.raw_bytes,
            "skipped": [{"file": str(item.path), "reason": reason} for item, reason in bad.items()],
            "seconds": round(time.monotonic() - began, 1),
        },
    )
    manifest.write(data_set.folder)
    _remove_parts(data_set)
    _say_end(data_set, manifest)


@contextlib.contextmanager
def alone(data_set: DataSet) -> Iterator[None]:
    """Wait until no other process of this PC prepares by this recipe; a killed one holds no lock."""
    lock = filelock.FileLock(data_set.lock_file)
    try:
        dataset.root().mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except filelock.Timeout:
        print(f"Another process prepares {data_set.name}: waiting for it ...", flush=True)
        lock.acquire()
    except OSError as error:
        raise UserError(f"--prepared-dir {dataset.root()}: {error.strerror}") from None
    try:
        yield
    finally:
        lock.release()


def _agreed_columns(data_set: DataSet, bad: Mapping[Item, str]) -> tuple[dict[str, Column], dict[Item, str]]:
    """The columns that most parts have, and why the files with other columns can't be used."""
    found = {item: staging.columns_of(data_set.part(item)) for item in data_set.items if item not in bad}
    if not found:
        return {}, {}
    kinds = Counter(repr(columns) for columns in found.values())
    agreed = next(c for c in found.values() if repr(c) == kinds.most_common(1)[0][0])
    return agreed, {
        item: f"its columns are {_words(columns)}; those of most files {_words(agreed)}"
        for item, columns in found.items()
        if columns != agreed
    }


def _refuse_too_many(data_set: DataSet, bad: Mapping[Item, str], allowed: int, max_bad_pct: float) -> None:
    if len(bad) <= allowed and len(bad) < len(data_set.items):
        return
    raise CannotPrepare(
        f"{count(len(bad), 'raw file')} of {len(data_set.items):,} can't be prepared, and --max-bad-pct "
        f"{max_bad_pct:g} allows {allowed:,}. What is prepared is kept.\n{_listed(bad)}\n"
        f"To leave out more of them (N percent): {data_set.command('--max-bad-pct', 'N')}"
    )


def _write_shards(
    data_set: DataSet, columns: Mapping[str, Column], bad: Mapping[Item, str]
) -> dict[str, list[Shard]]:
    shutil.rmtree(data_set.folder, ignore_errors=True)
    splits: dict[str, list[Shard]] = {}
    for number, split in enumerate(dict.fromkeys(item.split for item in data_set.items)):
        good = [item for item in data_set.items if item.split == split and item not in bad]
        if not good:
            raise CannotPrepare(f"no raw file of split {split} can be prepared.\n{_listed(bad)}")
        paths = [data_set.part(item) for item in good]
        rows = sum(map(staging.rows_of, paths))
        with Bar(f"Shuffling {split}", rows, unit="row") as bar:
            splits[split] = []
            for shard in shuffle.shuffled(data_set.folder, split, paths, columns, (SEED, number)):
                splits[split].append(shard)
                bar.add(shard.rows)
    return splits


def _remove_parts(data_set: DataSet) -> None:
    """Remove its parts and interrupted ones; those of a data set that is not complete yet stay."""
    for path in (*map(data_set.part, data_set.items), *data_set.parts_folder.glob(".*.part")):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # parts of other raw files are left
        data_set.parts_folder.rmdir()


def _say_begin(data_set: DataSet, done: int) -> None:
    hyperparameters = ", ".join(f"{name}={value}" for name, value in data_set.hyperparameters.items())
    what = f"{data_set.name} ({hyperparameters})" if hyperparameters else data_set.name
    files = f"{count(len(data_set.items), 'raw file')} of {size(data_set.raw_bytes)}"
    before = f", {done:,} of them before" if done else ""
    print(f"Preparing {what}: {files} in {data_set.folder_of_raw_files}{before}", flush=True)


def _say_end(data_set: DataSet, manifest: Manifest) -> None:
    all_shards = [shard for shards in manifest.splits.values() for shard in shards]
    lines = [
        ("prepared", place(data_set.folder)),
        ("rows", ", ".join(f"{manifest.rows(split):,} {split}" for split in manifest.splits)),
        ("size", f"{size(sum(s.size_bytes for s in all_shards))} in {count(len(all_shards), 'shard')}"),
        ("time", duration(manifest.about["seconds"])),
    ]
    if skipped := manifest.about["skipped"]:
        lines.append(("skipped", f"{len(skipped):,} of {count(len(data_set.items), 'raw file')}:"))
        lines += [("", f"{each['file']}: {each['reason']}") for each in skipped]
    print("\n".join(f"{title:<10} {text}" for title, text in lines), flush=True)


def _listed(bad: Mapping[Item, str]) -> str:
    lines = [f"  {item.path}: {reason}" for item, reason in list(bad.items())[:SHOWN]]
    return "\n".join([*lines, f"  ... and {len(bad) - SHOWN:,} more"] if len(bad) > SHOWN else lines)


def _words(columns: Mapping[str, Column]) -> str:
    return ", ".join(f"{name} {column.dtype}{list(column.shape)}" for name, column in columns.items())
