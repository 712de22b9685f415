"""A sweep whose driver is killed at any moment goes on as if nothing had been."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from sweeps.analysis import sweep as analysis_sweep
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.training.time_breakdown import COSTS
from tests.conftest import ROOT, Command
from tests.support.dying import POINTS
from tests.support.killing import Murderer, check_nothing_is_lost, check_whole

TOY = (
    "--no-baseline",
    "--trainable",
    "tests.faulty.toy",
    "--no-ray-dashboard",
    "--no-preflight",
    "--max-epochs",
    "9",
    "--params",
    "epoch_s=0.05",
)
RANDOM = (
    *TOY,
    "--search-space",
    "tests.faulty.slopes",
    "--searcher",
    "random",
    "--scheduler",
    "asha",
    "--num-trials",
    "10",
)
GRID = (*TOY, "--search-space", "tests.faulty.slopes_grid", "--searcher", "grid", "--scheduler", "none")
TPE = (
    *TOY,
    "--search-space",
    "tests.faulty.slopes",
    "--searcher",
    "tpe",
    "--scheduler",
    "asha",
    "--num-trials",
    "10",
)
BOHB = (
    *(*TOY, "--search-space", "tests.faulty.slopes", "--num-trials", "10"),
    *("--scheduler", "bohb", "--searcher", "bohb"),
)
ENDS = (*TOY, "--search-space", "tests.faulty.ends", "--searcher", "grid", "--scheduler", "none")
DIGITS = (
    "--trainable",
    "digits_mlp",
    "--max-epochs",
    "9",
    "--no-ray-dashboard",
    "--no-preflight",
    "--max-concurrent",
    "1",
)
OF_THE_RUN = ["pid", "start", "end", "seconds", "log", *COSTS]  # log: it tells that another process went on
"""Columns that tell of a process or a clock."""


def seeded() -> random.Random:
    """Moments that differ from run to run; $KILL_SEED repeats them."""
    seed = int(os.environ.get("KILL_SEED", random.randrange(10**6)))
    print(f"KILL_SEED={seed}")
    return random.Random(seed)


def murderer(
    folder: Path, arguments: tuple[str, ...], environment: dict[str, str], most_bytes: int
) -> Murderer:
    diary = folder.parent / "attempts"
    diary.mkdir()
    return Murderer(folder, arguments, {**environment, "TOY_ATTEMPTS": str(diary)}, seeded(), most_bytes)


def check_same_when_killed(
    sweep: Command, words: Sequence[str], environment: dict[str, str], folder: Path
) -> str:
    """Assert that 9 trials of 9 epochs that are killed twice decide and end as if they were not; what the
    whole sweep, in the folder's `whole`, has printed."""
    whole = sweep(*words, "--name", "whole", "--results-dir", str(folder))
    assert whole.returncode == 0, whole.stdout + whole.stderr
    (folder / "killed").mkdir()
    killer = murderer(folder / "killed" / "sweep", words, environment, 6_000)
    done = killer.run(kills=2)
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout
    check_whole(Record.read(killer.folder), 9, [3], max_epochs=9, brackets=False, halving=True)
    ours, theirs = (
        each.trials.drop_columns(OF_THE_RUN).to_pydict()
        for each in map(analysis_sweep.load, (killer.folder, folder / "whole"))
    )
    assert ours == theirs
    return whole.stdout


def epochs_trained(folder: Path) -> int:
    return len((folder.parent / "attempts" / "epochs").read_text().splitlines())


def check_toys(folder: Path, num_trials: int, rungs: list[int], kills: int, brackets: bool = False) -> None:
    """The toy's score is known, and so is how many epochs a kill may cost: of two trials, the epoch
    that was trained and not reported, and the one reported whose checkpoint was not yet written."""
    record = Record.read(folder)
    check_whole(record, num_trials, rungs, max_epochs=9, brackets=brackets)
    for trial in record.trials:
        for epoch, row in trial.epochs.items():
            assert row.score == pytest.approx(float(trial.params["slope"]) * epoch)
    reported = sum(len(trial.epochs) for trial in record.trials)
    assert reported <= epochs_trained(folder) <= reported + kills * 2 * 2
    best = record.best()
    assert best is not None
    assert best.params["slope"] == max(trial.params["slope"] for trial in record.trials)
    assert torch.load(folder / "best" / "weights.pt", weights_only=True)
    assert record.about["outcome"] == "finished"
    assert record.about["test"]["trial"] == best.number
    loaded, moments = analysis_sweep.load(folder), ["start", "end"]  # Optuna notes them by its own clock
    written = pq.read_table(folder / "trials.parquet").drop_columns(moments)
    assert written.equals(loaded.trials.drop_columns(moments))
    assert pq.read_table(folder / "epochs.parquet").equals(loaded.epochs)


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "rungs"), [(RANDOM, [3]), (GRID, [])], ids=["asha x random", "none x grid"]
)
def test_kills_at_random_moments_lose_nothing(
    arguments: tuple[str, ...], rungs: list[int], environment: dict[str, str], tmp_path: Path
) -> None:
    killer = murderer(tmp_path / "sweep", (*arguments, "--checkpoint-epochs", "1"), environment, 6_000)
    done = killer.run(kills=2)
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout
    check_toys(killer.folder, 10, rungs, killer.kills)


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "pair",
    [
        ("--num-trials", "10"),
        pytest.param(
            ("--scheduler", "asha", "--searcher", "tpe", "--num-trials", "8"), marks=pytest.mark.long
        ),
        # Enough for the model: it is asked from the ninth trial on.
        pytest.param(
            ("--scheduler", "bohb", "--searcher", "bohb", "--num-trials", "12"), marks=pytest.mark.long
        ),
    ],
    ids=["halving x gp", "asha x tpe", "bohb x bohb"],
)
def test_a_sweep_that_was_killed_decides_and_ends_as_one_that_was_not(
    pair: tuple[str, ...], kills: int, sweep: Command, environment: dict[str, str], tmp_path: Path
) -> None:
    """One trial at a time, on a CPU."""
    arguments = (*DIGITS, *pair, "--seed", "3")
    whole = sweep(*arguments, "--name", "whole", "--results-dir", str(tmp_path))
    assert whole.returncode == 0, whole.stdout + whole.stderr
    (tmp_path / "killed").mkdir()
    killer = murderer(tmp_path / "killed" / "sweep", arguments, environment, 7_000)
    done = killer.run(kills=kills)
    assert done.returncode == 0, done.stdout
    of_pair = {"brackets": "bohb" in pair, "halving": "--scheduler" not in pair}
    check_whole(Record.read(killer.folder), int(pair[-1]), [3], max_epochs=9, **of_pair)
    ours, theirs = analysis_sweep.load(killer.folder), analysis_sweep.load(tmp_path / "whole")
    assert (
        ours.trials.drop_columns(OF_THE_RUN).to_pydict() == theirs.trials.drop_columns(OF_THE_RUN).to_pydict()
    )
    time_columns = ["seconds", "time", *COSTS]
    assert (
        ours.epochs.drop_columns(time_columns).to_pydict()
        == theirs.epochs.drop_columns(time_columns).to_pydict()
    )
    assert {**ours.about["test"], "reported": 0} == {**theirs.about["test"], "reported": 0}
    best = [
        torch.load(folder / "best" / "weights.pt", weights_only=True)
        for folder in (killer.folder, tmp_path / "whole")
    ]
    assert all(torch.equal(best[0][name], best[1][name]) for name in best[0])


@pytest.mark.long
def test_a_driver_that_dies_between_any_two_writes_loses_nothing(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """One sweep that dies at each point in turn, with trials that lead, and that end by themselves."""
    killer = murderer(tmp_path / "sweep", (*ENDS, "--checkpoint-epochs", "1"), environment, 0)
    seen: dict[int, TrialRow] = {}
    for point in POINTS:
        command = killer.command()
        command[1:3] = ["-m", "tests.support.dying", point]
        died = subprocess.run(command, cwd=ROOT, env=killer.environment, capture_output=True, text=True)
        assert died.returncode == -signal.SIGKILL, f"{point}: {died.stdout}{died.stderr}"
        print(f"killed when {point}", flush=True)
        seen = check_nothing_is_lost(killer.folder, seen)
    done = killer.run(kills=0)
    assert done.returncode == 0, done.stdout
    record = Record.read(killer.folder)
    assert [list(trial.epochs) for trial in record.trials] == [[1, 2]] * 2 + [list(range(1, 10))] * 2
    assert [trial.status for trial in record.trials] == ["finished"] * 4
    assert [trial.reason for trial in record.trials[:2]] == ["ended by itself after epoch 2"] * 2
    for trial in record.trials:
        for epoch, row in trial.epochs.items():
            assert row.score == pytest.approx(float(trial.params["slope"]) * epoch)
    assert epochs_trained(killer.folder) <= 22 + 2 * len(POINTS)
    assert record.about["outcome"] == "finished"
    assert record.about["test"]["trial"] == 3
    tested = (tmp_path / "attempts" / "tested").read_text().splitlines()
    assert len(tested) == 2, "two batches, once: not again behind the last kill"
    assert [path.parent.name for path in (killer.folder / "checkpoints").glob("*/epoch_*")] == ["trial_0003"]


@pytest.mark.long
def test_fifty_kills(environment: dict[str, str], tmp_path: Path) -> None:
    """Of sweeps one after the other, of every kind in turn."""
    every_kind = itertools.cycle([(RANDOM, 10, [3]), (BOHB, 10, [3]), (TPE, 10, [3]), (GRID, 10, [])])
    kills = 0
    for turn, (arguments, num_trials, rungs) in enumerate(every_kind):
        if kills >= 50:
            break
        folder = tmp_path / f"sweep-{turn}" / "sweep"
        folder.parent.mkdir()
        killer = murderer(folder, (*arguments, "--checkpoint-epochs", "1"), environment, 4_000)
        done = killer.run(kills=10)
        kills += killer.kills
        print(f"sweep {turn}: {killer.kills} kills, {kills} in all", flush=True)
        assert done.returncode == 0, done.stdout
        check_toys(folder, num_trials, rungs, killer.kills, brackets=arguments is BOHB)
