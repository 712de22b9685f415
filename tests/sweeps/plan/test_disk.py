"""The disk space that a plan tells."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from sweeps.plan import disk, folder, resume, run_start
from sweeps.plan.build import make_plan
from sweeps.plan.describe import describe
from sweeps.plan.disk import DiskUse, checkpoint_use
from sweeps.plan.plan import Plan
from sweeps.training import checkpoint_store
from tests.sweeps.plan.planned import config

MB = 10**6


def plan(results: Path, **changes: Any) -> Plan:
    """Nine trials, two at a time: at most four wait at rungs."""
    return make_plan(config(results, max_concurrent=2, num_trials=9, **changes))


@pytest.mark.parametrize(
    ("keep", "trials", "running", "waiting", "reruns", "most", "end"),
    [
        (1, 24, 2, 0, 0, 1 + 1 + 2 * 3, 1 + 1),  # the best, best/, two and one in writing of each
        (1, 24, 2, 10, 0, 1 + 1 + 2 * 3 + 10 * 2, 1 + 1),
        (5, 24, 2, 10, 3, 5 + 1 + 2 * 3 + 10 * 2 + 3, 5 + 1 + 1),
        (99, 4, 2, 10, 0, 4 + 1 + 2 * 3 + 2 * 2, 4 + 1),  # never more than there are trials
        ("50MB", 24, 2, 10, 0, 5 + 1 + 2 * 3 + 10 * 2, 5 + 1),
        ("1MB", 24, 2, 0, 0, 1 + 1 + 2 * 3, 1 + 1),  # the best one is kept, whatever its size
        ("1TB", 4, 1, 0, 0, 4 + 1 + 3, 4 + 1),
    ],
)
def test_checkpoints_are_kept_written_and_waited_with(
    keep: int | str, trials: int, running: int, waiting: int, reruns: int, most: int, end: int
) -> None:
    of = checkpoint_use(10 * MB, keep, trials, running, waiting, reruns)
    assert of == DiskUse(most * 10 * MB, end * 10 * MB)


def test_as_long_as_no_size_is_known_the_plan_counts_checkpoints(tmp_path: Path) -> None:
    unknown = "the size of one is not known yet"
    assert disk.describe(plan(tmp_path)) == (
        f"at most 16 checkpoints while it runs, 2 when it has ended; {unknown}"
    )
    assert disk.describe(plan(tmp_path, keep_checkpoints="20GB")) == (
        f"20GB of kept checkpoints, and at most 15 others while it runs; {unknown}"
    )
    far = make_plan(config(tmp_path, address="10.0.0.1:6379", num_trials=9))
    assert "while it runs (and 3 more checkpoints for each trial that trains), 2 when" in disk.describe(far)


def test_with_a_size_it_tells_bytes(tmp_path: Path) -> None:
    """As many checkpoints as above."""
    text = "at most 160 MB while it runs, 20 MB when it has ended, with checkpoints of 10 MB"
    assert disk.describe(plan(tmp_path), 10 * MB) == text
    assert disk.describe(plan(tmp_path, storage=str(tmp_path / "far")), 10 * MB) == text


def test_a_disk_that_is_too_small_is_told(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    told = disk.describe(plan(tmp_path), free)
    assert re.search(r"with checkpoints of \S+ [GT]B; the disk has \S+ [GT]B free$", told)


def test_a_sweep_that_refines_others_knows_the_size_from_their_records(tmp_path: Path) -> None:
    """Wherever their checkpoints were, and though they may have been removed."""
    made = plan(tmp_path, name="parent", searcher="random")
    with folder.opened(made) as record:
        run_start.begin_run(made, record)
        searcher = made.searcher.build(made.config, made.space, record)
        for size in (7, 3):
            number = searcher.suggest("")["number"]
            record.report(number, 1, 0.5, {}, 1.0)
            record.note_checkpoint(number, size * MB)
            record.end(number, "pruned")
    child = make_plan(config(tmp_path, name="child", refine=str(made.folder), num_trials=9))
    assert re.search(r"checkpoints\s+of\s+7\s+MB$", describe(child), re.MULTILINE)
    again = make_plan(made.config.changed(resume=str(made.folder)))
    assert "\ndisk " not in describe(again), "its record is read later"
    with folder.opened(again) as record:
        assert "with checkpoints of 7 MB" in resume.check(again, record).text


def test_with_several_objectives_all_trials_may_be_on_the_front() -> None:
    of = checkpoint_use(1, 6, trials=6, running=2, waiting=0, reruns=6, front=6)
    live = 2 * (checkpoint_store.KEPT + 1)
    assert of == DiskUse(6 + 6 + live + 6, 18)
