"""The main job with all its defaults, as `make sweep` runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.analysis import sweep as analysis_sweep
from tests.conftest import Command


@pytest.mark.long
def test_the_default_sweep_finds_a_good_model(sweep: Command, tmp_path: Path) -> None:
    done = sweep(
        "--trainable", "fashion_cnn", "--name", "main", "--results-dir", str(tmp_path), timeout_s=1200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = analysis_sweep.load(tmp_path / "main")
    statuses = found.trials["status"].to_pylist()
    assert len(statuses) == 24
    assert set(statuses) <= {"finished", "pruned"}
    assert max(found.trials["best_val_acc"].to_pylist()) > 0.84
    assert found.about["test"]["test_acc"] > 0.8
