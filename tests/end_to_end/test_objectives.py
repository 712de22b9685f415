"""Whole sweeps with several objectives and with constraints, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from sweeps.analysis.sweep import Sweep
from sweeps.common.errors import UserError
from sweeps.config import cli
from sweeps.record.pareto import fronts
from sweeps.record.record import Record
from tests.conftest import Command
from tests.support.steered import running

LOGGED, KNOWN = "tests.faulty.two_metrics", "tests.faulty.known_size"
SHORT = ("--max-epochs", "3", "--grace-epochs", "1", "--no-ray-dashboard", "--no-preflight")


def test_a_front_is_found_pruned_kept_and_confirmed_with_a_constraint(sweep: Command, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    done = sweep(
        *("--trainable", LOGGED, *SHORT, "--metric", "acc:max", "size_m:min", "--constraint", "size_m<=7"),
        *("--num-trials", "12", "--confirm", "1", "--name", "s", "--results-dir", str(tmp_path)),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "acc (max), size_m (min) with size_m<=7, seed 0" in done.stdout
    record = Record.read(folder)
    assert (record.info.settings.searcher, record.info.settings.scheduler) == ("tpe", "halving")
    missed = [t for t in record.searched if t.status == "infeasible"]
    assert {t.number for t in missed} == {t.number for t in record.searched if int(t.params["width"]) > 70}
    assert all("misses the constraint size_m<=7 in epoch" in trial.reason for trial in missed)
    assert any(trial.status == "pruned" for trial in record.searched)
    sound = [trial for trial in record.searched if trial not in missed]
    values = [trial.losses(record.objectives) for trial in sound]
    first = {sound[row].number for row in fronts(np.array([each[1:] for each in values if each]))[0]}
    assert {trial.confirms for trial in record.trials if trial.confirms is not None} == first
    front = record.front()
    assert set(front) <= first
    assert f"Knee       trial {front[0]}: acc" in done.stdout
    metrics = json.loads((folder / "best" / "metrics.json").read_text())
    assert [each["trial"] for each in metrics["front"]] == front
    assert all((folder / "best" / each["folder"] / "weights.pt").is_file() for each in metrics["front"])
    assert [best.number for best in Sweep(record).front()] == front
    trials = pq.read_table(folder / "trials.parquet").to_pylist()
    assert [row["id"] for row in trials if row["on_front"]] == sorted(front)
    assert "Pareto front" in (folder / "report.html").read_text()
    with pytest.raises(UserError, match="--metric acc:max: the sweep has acc:max, size_m:min"):
        cli.parse(["--resume", str(folder), "--metric", "acc:max"])


@pytest.mark.long
def test_what_is_known_to_miss_a_constraint_is_never_trained_and_searchers_learn_from_it(
    sweep: Command, tmp_path: Path
) -> None:
    done = sweep(
        *("--trainable", KNOWN, *SHORT, "--constraint", "params_m<=5", "--num-trials", "30"),
        *("--name", "s", "--results-dir", str(tmp_path), "--seed", "1"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    record = Record.read(tmp_path / "s")
    missed = [trial.number for trial in record.searched if trial.status == "infeasible"]
    assert missed == [trial.number for trial in record.searched if int(trial.params["width"]) > 50]
    assert not any(record.trials[number].epochs for number in missed)
    assert 0 < len(missed) <= 10, "of which half would be by chance"
    assert sum(number >= 15 for number in missed) <= 2
    assert record.best() is not None
    metrics = record.trials[record.leaders(1)[0]].last_metrics
    assert {"params_m", "latency_ms"} <= metrics.keys()


@pytest.mark.long
def test_a_constraint_that_no_trial_can_meet_is_told_and_trains_nothing(
    sweep: Command, tmp_path: Path
) -> None:
    done = sweep(
        *("--trainable", KNOWN, *SHORT, "--constraint", "params_m<0.01", "--num-trials", "12"),
        *("--searcher", "random", "--name", "s", "--results-dir", str(tmp_path)),
    )
    assert done.returncode == 1, done.stdout + done.stderr
    told = "None of the first 10 trials meets the constraints: params_m<0.01 (the nearest was "
    assert done.stdout.count(told) == 1
    assert done.stdout.count("None of the first") == 1
    assert "Trial 9 infeasible after 0 epochs: params_m " in done.stdout
    assert "\nand 2 more, whose reasons are in the report and the results\n" in done.stdout
    assert "Traceback" not in done.stdout
    record = Record.read(tmp_path / "s")
    assert {trial.status for trial in record.trials} == {"infeasible"}
    assert not record.has_epochs


@pytest.mark.long
def test_fewer_trials_than_are_named_are_told_of_when_all_miss_a_constraint(
    sweep: Command, tmp_path: Path
) -> None:
    few = sweep(
        *("--trainable", KNOWN, *SHORT, "--constraint", "params_m<0.01", "--num-trials", "3"),
        *("--searcher", "random", "--name", "few", "--results-dir", str(tmp_path)),
    )
    assert "All trials that were to come miss a constraint before they are trained" in few.stdout


@pytest.mark.long
def test_a_sweep_whose_points_are_all_refused_takes_commands_and_ctrl_c(
    environment: dict[str, str], tmp_path: Path
) -> None:
    asked = ("--trainable", KNOWN, *SHORT[:4], "--no-preflight", "--searcher", "random")
    asked = (*asked, "--constraint", "params_m<0.01", "--num-trials", "1000000")
    with running(tmp_path / "s", environment, *asked) as sweep:
        sweep.wait_for("None of the first 10 trials meets the constraints: params_m<0.01")
        sweep.does("pause")
        sweep.wait_for("Paused since")
        begun = len(sweep.record().trials)
        sweep.does("go")
        sweep.wait_until("more points are drawn", lambda record: len(record.trials) > begun)
        sweep.interrupt()
        assert sweep.wait() == 130
        begun = len(sweep.record().trials)
        sweep.start()
        sweep.wait_until("more points are drawn", lambda record: len(record.trials) > begun)
        sweep.does("finish")
        assert sweep.wait() == 1
    assert "Traceback" not in sweep.printed
    assert {trial.status for trial in sweep.record().trials} == {"infeasible"}


@pytest.mark.long
def test_few_points_that_fit_are_all_found_and_trained_one_at_a_time(sweep: Command, tmp_path: Path) -> None:
    """Between two of them nothing trains."""
    done = sweep(
        *("--trainable", KNOWN, *SHORT, "--constraint", "params_m<=0.9", "--num-trials", "100"),
        *("--searcher", "random", "--scheduler", "none", "--max-concurrent", "1", "--name", "s"),
        *("--results-dir", str(tmp_path)),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    record = Record.read(tmp_path / "s")
    trained = [trial for trial in record.searched if trial.epochs]
    assert {trial.status for trial in trained} == {"finished"}
    assert [t.number for t in trained] == [t.number for t in record.searched if int(t.params["width"]) <= 9]
    assert 0 < len(trained) < 30
    assert len(record.searched) == 100
