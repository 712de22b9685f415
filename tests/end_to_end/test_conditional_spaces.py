"""A whole sweep over a space of a function, as a user runs it: TPE and ASHA."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sweeps.record.record import Record
from tests.conftest import Command


@pytest.mark.long
def test_a_trial_trains_with_the_hyperparameters_that_it_has(sweep: Command, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    done = sweep(
        *(
            "--no-baseline",
            "--trainable",
            "tests.faulty.toy",
            "--search-space",
            "tests.faulty.branches",
            "--no-ray-dashboard",
            "--no-preflight",
        ),
        *("--num-trials", "14", "--max-epochs", "3", "--grace-epochs", "1", "--seed", "1"),
        *("--name", folder.name, "--results-dir", str(folder.parent)),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "Warning" not in done.stdout
    plan, _, outcome = done.stdout.partition("Starting Ray")
    assert "slope          0.1 to 1, in " in plan
    assert "fault          one of none, stops" in plan
    assert "trials 14/14 ended" in outcome
    table = pq.read_table(folder / "trials.parquet")
    assert table.schema.field("params_slope").type == pa.float64()
    trials = table.to_pylist()
    assert {trial["params_fault"] for trial in trials} == {"none", "stops"}
    for trial, row in zip(trials, Record.read(folder).trials, strict=True):
        has_slope = trial["params_fault"] == "none"
        assert (trial["params_slope"] is not None) is has_slope
        assert "slope" not in row.fixed
        # Without one it is 1, as Params has it.
        assert row.epochs[1].score == pytest.approx(trial["params_slope"] if has_slope else 1.0)
        assert trial["params_epoch_s"] == 0.0
