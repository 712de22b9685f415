"""Trials that run out of memory: each goes on in smaller parts, or is infeasible.

The memory really runs out: that of the process, which the trainable limits, or, on a GPU, that of the GPU.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
import yaml

from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.trial.messages import NORMS
from tests.conftest import Command
from tests.support.reports import words_of

HUNGRY = (
    "--no-baseline",
    "--trainable",
    "tests.faulty.hungry",
    "--no-ray-dashboard",
    "--no-preflight",
    "--searcher",
    "grid",
    "--scheduler",
    "none",
)
ON_GPU = torch.cuda.is_available()
GOES_ON = "it goes on with micro-batches of 8 rows, 2 for each step, so that its batch is 16 rows as before"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results") / "memory"


@pytest.fixture(scope="module")
def output(sweep: Command, folder: Path) -> str:
    done = sweep(
        *(*HUNGRY, "--search-space", "tests.faulty.hungry_space", "--max-epochs", "3", "--precision", "32"),
        *("--checkpoint-epochs", "1", "--max-concurrent", "1"),
        *("--name", folder.name, "--results-dir", str(folder.parent)),
        timeout_s=290,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def by_case(output: str, folder: Path) -> dict[str, TrialRow]:
    return {str(trial.params["case"]): trial for trial in Record.read(folder).trials}


@pytest.fixture(scope="module")
def steps(by_case: dict[str, TrialRow], attempts: Path) -> dict[tuple[str, int], list[int]]:
    """Case and epoch to the rows of each micro-batch that was trained."""
    found = defaultdict(list)
    for line in (attempts / "steps").read_text().splitlines():
        case, epoch, rows = line.split()
        found[case, int(epoch)].append(int(rows))
    return dict(found)


def test_a_trial_goes_on_with_half_and_says_so_once(
    by_case: dict[str, TrialRow], output: str, folder: Path
) -> None:
    trial = by_case["half"]
    assert (trial.status, list(trial.epochs), trial.failures) == ("finished", [1, 2, 3], 0)
    (notice,) = trial.notices
    assert notice.startswith("out of memory")
    assert notice.endswith(GOES_ON)
    assert output.count(f"Trial {trial.number}: {notice}") == 1
    log = (folder / "logs" / f"trial_{trial.number:04d}.log").read_text()
    assert ("CUDA out of memory" if ON_GPU else "can't allocate memory") in log


def test_its_result_is_that_of_whole_batches(by_case: dict[str, TrialRow]) -> None:
    """The same seed, order, steps and gradients, but for rounding; the last batch has 6 of 16 rows."""
    whole = by_case["fits"]
    for case in ("half", "quarter", "later"):
        for epoch, row in by_case[case].epochs.items():
            assert row.score == pytest.approx(whole.epochs[epoch].score, abs=1e-5)


def test_it_is_split_again_where_half_does_not_fit(by_case: dict[str, TrialRow]) -> None:
    trial = by_case["quarter"]
    assert trial.status == "finished"
    assert trial.micro_batches == [8, 4]


def test_it_goes_on_from_its_last_checkpoint(
    by_case: dict[str, TrialRow], steps: dict[tuple[str, int], list[int]]
) -> None:
    assert by_case["later"].micro_batches == [8]
    assert steps["later", 1] == [16, 16, 16, 6], "the first epoch is trained once, in whole batches"
    assert steps["later", 2] == steps["later", 3] == [8, 8, 8, 8, 8, 8, 6]


def test_batch_normalization_is_named_where_it_makes_a_difference(by_case: dict[str, TrialRow]) -> None:
    assert by_case["norm"].notices[0].endswith(GOES_ON + NORMS)


def test_what_does_not_fit_is_infeasible_with_its_reason(by_case: dict[str, TrialRow], output: str) -> None:
    reasons = {case: by_case[case].reason for case in ("never", "model", "unsplit")}
    assert {by_case[case].status for case in reasons} == {"infeasible"}
    assert "the model itself does not fit" in reasons["model"]
    assert "Rows has no attribute batch_size" in reasons["unsplit"]
    assert reasons["never"] == "out of memory with micro-batches of 8, 4 and 2 rows"
    assert "5 finished, 3 infeasible" in output
    assert f"Trial {by_case['model'].number} is infeasible: {reasons['model']}" in output
    assert "\nInfeasible 3 trials. Most common reason: " in output


def test_tables_and_the_winners_settings_have_the_micro_batch(
    by_case: dict[str, TrialRow], output: str, folder: Path
) -> None:
    rows = pq.read_table(folder / "trials.parquet").to_pylist()
    assert {row["params_case"]: row["micro_batch"] for row in rows} == {
        case: trial.micro_batch for case, trial in by_case.items()
    }
    assert by_case["fits"].micro_batch is None
    best = Record.read(folder).best()
    assert best is not None
    assert (
        yaml.safe_load((folder / "best" / "params.yaml").read_text())["fit"]["micro_batch"]
        == best.micro_batch
    )
    assert set(json.loads((folder / "best" / "metrics.json").read_text())["test"]) == {"test_loss"}
    report = words_of((folder / "report.html").read_text())
    assert "micro-batch" in report
    assert " 1 infeasible " in report, "the row of its cause"


def test_a_process_lives_on_after_memory_ran_out(by_case: dict[str, TrialRow]) -> None:
    assert len({trial.place["pid"] for trial in by_case.values()}) == 1


@pytest.mark.long
def test_two_workers_of_a_trial_halve_together(sweep: Command, tmp_path: Path) -> None:
    done = sweep(
        *(*HUNGRY, "--search-space", "tests.faulty.one_hungry", "--max-epochs", "2"),
        *("--workers-per-trial", "2", "--strategy", "ddp", "--max-concurrent", "1"),
        *("--name", "pair", "--results-dir", str(tmp_path)),
        timeout_s=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (trial,) = Record.read(tmp_path / "pair").trials
    assert (trial.status, trial.micro_batches) == ("finished", [4]), "of 8 rows of each worker"
