"""The disk space that a plan tells."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from sweeps.common.formatting import size
from sweeps.config.sweep_config import SweepConfig
from sweeps.plan import folder, run_start
from sweeps.plan.build import make_plan
from sweeps.plan.describe import describe, describe_disk
from sweeps.plan.plan import Plan
from tests.sweeps.plan.planned import config

MB = 10**6


def plan(results: Path, **changes: Any) -> Plan:
    """Nine trials, two at a time: at most four wait at rungs."""
    return make_plan(config(results, max_concurrent=2, num_trials=9, **changes))


@pytest.mark.parametrize(
    ("changes", "most", "end"),
    [
        ({}, 1 + 1 + 2 * 3 + 4 * 2, 1 + 1),  # the best, best/, two and one in writing of each, two that wait
        ({"keep_checkpoints": 5}, 5 + 1 + 2 * 3 + 4 * 2, 5 + 1),
        ({"keep_checkpoints": 99}, 9 + 1 + 2 * 3 + 4 * 2, 9 + 1),  # never more than there are trials
        ({"keep_checkpoints": "50MB"}, 5 + 1 + 2 * 3 + 4 * 2, 5 + 1),
        ({"keep_checkpoints": "1MB"}, 1 + 1 + 2 * 3 + 4 * 2, 1 + 1),  # the best one, whatever its size
        ({"keep_checkpoints": "1TB"}, 9 + 1 + 2 * 3 + 4 * 2, 9 + 1),
        ({"confirm": 2}, 1 + 1 + 2 * 3 + 4 * 2 + 3, 1 + 1 + 1),
        (
            {"metric": ["val_acc:max", "val_loss:min"], "scheduler": "none", "confirm": 2},
            9 * 3 + 2 * 3,
            9 * 3,
        ),
    ],
)
def test_checkpoints_are_kept_written_and_waited_with(
    changes: dict[str, Any], most: int, end: int, tmp_path: Path
) -> None:
    told = describe_disk(plan(tmp_path, **changes), 10 * MB)
    assert told.startswith(f"at most {size(most * 10 * MB)} while it runs, {size(end * 10 * MB)} when it has")


def test_as_long_as_no_size_is_known_the_plan_counts_checkpoints(tmp_path: Path) -> None:
    unknown = ", and up to 3 of trials that fail; the size of one is not known yet"
    assert describe_disk(plan(tmp_path)) == (
        f"at most 16 checkpoints while it runs, 2 when it has ended{unknown}"
    )
    assert describe_disk(plan(tmp_path, keep_checkpoints="20GB")) == (
        f"20GB of kept checkpoints, and at most 15 others while it runs{unknown}"
    )
    far = make_plan(config(tmp_path, address="10.0.0.1:6379", num_trials=9))
    assert "while it runs (and 3 more checkpoints for each trial that trains), 2 when" in describe_disk(
        far, 0
    )


def test_with_a_size_it_tells_bytes(tmp_path: Path) -> None:
    """As many checkpoints as above."""
    text = "at most 160 MB while it runs, 20 MB when it has ended, with checkpoints of 10 MB"
    text += ", and up to 3 of trials that fail"
    assert describe_disk(plan(tmp_path), 10 * MB) == text
    assert describe_disk(plan(tmp_path, storage=str(tmp_path / "far")), 10 * MB) == text


def test_a_disk_that_is_too_small_is_told(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    told = describe_disk(plan(tmp_path), free)
    assert re.search(
        r"with checkpoints of \S+ [GT]B, and up to 3 of trials that fail; the disk has \S+ [GT]B free$", told
    )


def test_a_resume_knows_the_size_from_its_record(tmp_path: Path) -> None:
    made = plan(tmp_path, name="before", searcher="random")
    with folder.opened(made) as record:
        run_start.begin_run(made, record)
        searcher = made.searcher.build(made.config, made.space, record)
        for megabytes in (7, 3):
            number = searcher.suggest("")["number"]
            record.report(number, 1, 0.5, {}, 1.0)
            record.note_trial(number, checkpoint_bytes=megabytes * MB)
            record.end(number, "pruned")
    again = make_plan(made.config.changed(resume=str(made.folder)))
    assert "\ndisk " not in describe(again), "its record is read later"
    with folder.opened(again) as record:
        assert "with checkpoints of 7 MB" in run_start.check_resume(again, record).text


def test_a_command_that_saves_nothing_is_resumed_without_a_word_on_checkpoints(tmp_path: Path) -> None:
    command = {"trainable": "command:true {x}", "ranges": {"x": "0..1"}, "metric": "score:max"}
    made = make_plan(SweepConfig.from_settings(**command, name="s", results_dir=str(tmp_path)))
    with folder.opened(made) as record:
        run_start.begin_run(made, record)
    again = make_plan(made.config.changed(resume=str(made.folder)))
    with folder.opened(again) as record:
        assert "disk: " not in run_start.check_resume(again, record).text
