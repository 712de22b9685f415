"""A sweep that has ended, and one that runs, get more epochs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sweeps.analysis import sweep as analysis_sweep
from sweeps.record.record import Record
from tests.conftest import Command
from tests.end_to_end.test_resume import OF_THE_RUN, murderer
from tests.support.steered import epochs, running

CYCLED = (
    *("--trainable", "tests.faulty.cycled", "--search-space", "tests.faulty.slopes", "--searcher", "random"),
    *("--num-trials", "6", "--max-epochs", "3", "--grace-epochs", "1", "--max-concurrent", "1"),
    *("--no-baseline", "--no-ray-dashboard", "--no-preflight"),
)


@pytest.fixture(scope="module")
def ended(sweep: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep of 3 epochs that has ended."""
    results = tmp_path_factory.mktemp("ended")
    begun = sweep(*CYCLED, "--name", "sweep", "--results-dir", str(results))
    assert begun.returncode == 0, begun.stdout + begun.stderr
    return results / "sweep"


@pytest.mark.long
@pytest.mark.parametrize("chosen", ["restart", "anew"])
def test_a_kill_amid_more_epochs_changes_nothing(
    chosen: str, ended: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    tables = []
    for name, kills in (("whole", 0), ("killed", 1)):
        folder = tmp_path / name / "sweep"
        shutil.copytree(ended, folder)
        killer = murderer(folder, CYCLED, environment, 4_000)
        killer.resume = ("--max-epochs", "9", "--lr-schedule", chosen)
        done = killer.run(kills)
        assert done.returncode == 0, done.stdout
        tables.append(analysis_sweep.load(folder).trials.drop_columns(OF_THE_RUN).to_pydict())
        record = Record.read(folder)
        reached = sorted(len(trial.epochs) for trial in record.searched)
        assert reached == [1, 1, 1, 1, 3, 9], killer.log
        further = next(trial for trial in record.trials if len(trial.epochs) == 9)
        assert further.schedule["epochs"] == 9
        assert further.schedule_from == (3 if chosen == "restart" else 0)
    assert tables[0] == tables[1]


@pytest.mark.long
def test_a_sweep_gets_more_epochs_while_it_runs(environment: dict[str, str], tmp_path: Path) -> None:
    toy = ("--trainable", "tests.faulty.toy", "--search-space", "tests.faulty.slopes", "--searcher", "random")
    few = ("--scheduler", "none", "--params", "epoch_s=0.5", "--max-concurrent", "1", "--num-trials", "2")
    with running(tmp_path / "toy", environment, *toy, *few, "--max-epochs", "10", "--no-preflight") as sweep:
        sweep.wait_until("the second trial trains", lambda record: epochs(record, 1) > 0)
        assert "nothing is pruned; 1 trial trained 10 epochs: " in sweep.does("set", "max-epochs=14")
        assert sweep.wait() == 0
        record = sweep.record()
        assert [(trial.status, len(trial.epochs)) for trial in record.trials] == [("finished", 14)] * 2
        assert record.info.max_epochs == 14
        assert "Until " in (sweep.folder / "report.html").read_text()
