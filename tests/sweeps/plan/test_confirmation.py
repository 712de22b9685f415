"""Confirmation: the best trials again with new seeds, none of which the search hears of."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
import yaml

from sweeps.common.formatting import shortest
from sweeps.common.objective import Objective
from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.kinds import params_file
from sweeps.plan import folder, run_start
from sweeps.plan.build import make_plan
from sweeps.plan.describe import describe
from sweeps.record.record import Record
from sweeps.record.reruns import seeds
from sweeps.record.sweep_info import Outcome
from sweeps.search.search_method import RecordSearcher
from sweeps.space.flat import check
from sweeps.training.config import FitConfig
from tests.conftest import ROOT, Command
from tests.support.confirmed import ASKED, add, rerun, searched

LUCKY = (
    "--no-baseline",
    *("--trainable", "tests.faulty.lucky", "--search-space", "tests.faulty.slopes", "--searcher", "random"),
    *(
        "--num-trials",
        "4",
        "--max-epochs",
        "3",
        "--scheduler",
        "none",
        "--no-ray-dashboard",
        "--no-preflight",
    ),
)


def searcher(name: str, record: Record, num_trials: int) -> RecordSearcher:
    from ray import tune

    from tests.faulty import toy

    config = SweepConfig.from_settings(
        num_trials=num_trials, max_epochs=1, grace_epochs=1, metric="score", mode="max"
    )
    takes = plugins.find("searcher", name)
    domains = {"slope": tune.quniform(0.1, 1.0, 0.01)}
    found: RecordSearcher = takes.build(config, check(domains, toy.Params, {}, takes.TAKES, name, ""), record)
    return found


@pytest.mark.parametrize("name", plugins.choices("searcher"))
def test_a_sweep_that_goes_on_behind_its_reruns_proposes_what_it_would_have(
    name: str, tmp_path: Path
) -> None:
    scores = [0.3, 0.1, 0.9, 0.5, 0.7, 0.2, 0.4, 0.8]
    points = []
    for place, seen in (("without", 0), ("with", 2)):
        (tmp_path / place).mkdir()
        record = searched(tmp_path / place, *scores)
        for number in record.leaders(9)[:seen]:
            rerun(record, number, 11, 9.0)
            rerun(record, number, 12, 9.0, "diverged")
        proposing = searcher(name, record, num_trials=10)
        proposing.slots = 9
        proposed = [proposing.suggest(str(number)) for number in range(3)]
        points.append([each["params"] for each in proposed[:2]])
        assert proposed[2] is None, "two of them train"
    assert points[0] == points[1]


def test_reruns_of_a_trial_that_leads_no_more_are_given_up(tmp_path: Path) -> None:
    record = searched(tmp_path, 0.1, 0.9, 0.8)
    record.note("confirm", {"top": 1, "seeds": 1})
    left = rerun(record, 1, seeds(0, 1)[0], 0.5, "unfinished")
    assert not record.give_up_reruns()
    add(record, 0.95)
    assert record.give_up_reruns() == [left.number]
    assert (left.status, left.reason) == ("pruned", "trial 1 is no longer to be confirmed")
    assert record.reruns_to_come() == [(4, seeds(0, 1)[0])]


def test_reruns_that_are_asked_for_no_more_are_given_up(tmp_path: Path) -> None:
    record = searched(tmp_path, 0.1, 0.9)
    record.note("confirm", ASKED)
    left = rerun(record, 1, seeds(0, 1)[0], 0.5, "unfinished")
    record.note("confirm", None)
    assert record.give_up_reruns() == [left.number]
    assert not record.is_to_be_confirmed
    assert not record.live


def config_of(tmp_path: Path, **changes: Any) -> SweepConfig:
    given = {"trainable": "tests.faulty.toy", "search_space": "tests.faulty.slopes", "name": "s"}
    rest = {"num_trials": 3, "gpus_per_trial": 0, "min_free_gb": 0.0, "results_dir": str(tmp_path)}
    return SweepConfig.from_settings(**{**given, **rest, **changes})


def test_the_plan_says_what_it_will_cost(tmp_path: Path) -> None:
    text = " ".join(describe(make_plan(config_of(tmp_path, confirm=2, confirm_top=5, max_epochs=9))).split())
    assert "confirm train the best 3 trials again with 2 new seeds each: 6 x 9 = 54 more epochs" in text
    assert "confirm" not in describe(make_plan(config_of(tmp_path)))
    timed = describe(make_plan(config_of(tmp_path, confirm=1, max_epochs=9, time_budget_hours=0.5)))
    assert "more epochs; --time-budget-hours 0.5 includes them" in " ".join(timed.split())


def test_a_finished_sweep_goes_on_when_confirmation_is_asked_for_and_not_twice(tmp_path: Path) -> None:
    plan = make_plan(config_of(tmp_path))
    with folder.opened(plan) as record:
        run_start.begin_run(plan, record)
        for score in (0.1, 0.9, 0.8):
            add(record, score)
        record.end_run(Outcome.FINISHED)

    def look(**asked: int) -> run_start.ResumeState:
        again = make_plan(config_of(tmp_path, resume=str(plan.folder), **asked))
        with folder.opened(again) as record:
            standing = run_start.check_resume(again, record)
            if not standing.is_finished:
                run_start.begin_run(again, record)
                for number, seed in record.reruns_to_come():
                    rerun(record, number, seed, 0.5)
                record.end_run(Outcome.FINISHED)
            return standing

    assert "with new seeds" in look().text
    assert look().is_finished
    going_on = look(confirm=2, confirm_top=2)
    cost = "then train the best 2 trials again with 2 new seeds each: 4 x 27 = 108 more epochs"
    assert cost in going_on.text
    assert look(confirm=2, confirm_top=2).is_finished
    assert not look(confirm=3, confirm_top=2).is_finished
    assert len(Record.read(plan.folder).trials) == 3 + 6


def test_reports_what_no_one_wants() -> None:
    from sweeps.common.errors import UserError
    from sweeps.config import cli

    with pytest.raises(UserError, match="--confirm -1: must be at least 0"):
        cli.parse(["--confirm", "-1"])
    with pytest.raises(UserError, match="--confirm-top 0: must be at least 1"):
        cli.parse(["--confirm", "1", "--confirm-top", "0"])
    with pytest.raises(UserError, match="--confirm-top needs --confirm"):
        cli.parse(["--confirm-top", "2"])


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def done(sweep: Command, results: Path) -> subprocess.CompletedProcess[str]:
    """A whole sweep with its confirmation."""
    asked = ("--confirm", "2", "--confirm-top", "2", "--name", "sure", "--results-dir", str(results))
    return sweep(*LUCKY, *asked, "--max-concurrent", "1", timeout_s=300)


@pytest.mark.long
def test_a_sweep_ends_with_the_mean_of_its_best_trials_over_new_seeds(
    done: subprocess.CompletedProcess[str], results: Path
) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    record = Record.read(results / "sure")
    reruns = [trial for trial in record.trials if trial.confirms is not None]
    assert [trial.number for trial in record.trials if trial.confirms is None] == [0, 1, 2, 3]
    assert {(trial.confirms, trial.seed) for trial in reruns} == {
        (number, seed) for number in record.leaders(2) for seed in seeds(0, 2)
    }
    assert all((trial.status, len(trial.epochs)) == ("finished", 3) for trial in reruns)
    best = record.confirmed()[0]
    assert record.best() is record.trials[best.number]
    assert (
        f"Best       trial {best.number}: score {best.mean:.4g} +/- {best.std:.4g}, mean of 2 reruns"
        in done.stdout
    )
    assert "reruns 4/4 ended; mean score: trial" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.long
def test_new_seeds_reach_the_weights_and_the_order_of_the_rows(
    done: subprocess.CompletedProcess[str], results: Path
) -> None:
    assert done.returncode == 0
    trials = Record.read(results / "sure").trials
    for metric in ("drawn", "first_row"):
        of_seed = {trial.seed: [row.metrics[metric] for row in trial.epochs.values()] for trial in trials}
        assert len({tuple(values) for values in of_seed.values()}) == 3
        for trial in trials:  # the same seed gives each trial the same
            assert [row.metrics[metric] for row in trial.epochs.values()] == of_seed[trial.seed]


@pytest.mark.long
def test_the_tables_tell_reruns_from_trials(done: subprocess.CompletedProcess[str], results: Path) -> None:
    assert done.returncode == 0
    rows = pq.read_table(results / "sure" / "trials.parquet").to_pylist()
    assert [row["confirms"] for row in rows[:4]] == [None] * 4
    assert sorted(row["confirms"] for row in rows[4:]) == sorted(Record.read(results / "sure").leaders(2) * 2)


@pytest.mark.long
def test_best_holds_the_winners_best_rerun_and_all_that_trains_it_again(
    done: subprocess.CompletedProcess[str], results: Path
) -> None:
    assert done.returncode == 0
    at, record = results / "sure", Record.read(results / "sure")
    best = record.confirmed()[0]
    run = max(
        record.reruns_of(best.number),
        key=lambda rerun: rerun.best_score(Objective("m", "max")) or 0.0,
    )
    about = yaml.safe_load((at / "best" / "params.yaml").read_text())
    assert (about["trial"], about["run"], about["fit"]["seed"]) == (best.number, run.number, run.seed)
    weights = torch.load(at / "best" / "weights.pt", weights_only=True)
    assert shortest(float(weights["weight"])) == run.epochs[3].metrics["drawn"]
    told = json.loads((at / "best" / "metrics.json").read_text())
    assert told["metrics"] == run.epochs[3].metrics
    assert told["test"]["test_score"] == pytest.approx(float(weights["weight"]))
    assert (told["confirmed"]["mean"], told["confirmed"]["std"]) == (best.mean, best.std)
    kept = {path.parent.name for path in (at / "checkpoints").glob("trial_*/epoch_*")}
    assert kept == {f"trial_{record.leaders(1)[0]:04d}", f"trial_{run.number:04d}"}


@pytest.mark.long
def test_the_command_that_it_names_gives_the_same_metrics_to_the_bit(
    done: subprocess.CompletedProcess[str], results: Path, environment: dict[str, str]
) -> None:
    named = next(line for line in done.stdout.splitlines() if line.startswith("Retrain"))
    command = named.removeprefix("Retrain").split()
    more = ["--name", "again", "--results-dir", str(results)]
    fitted = subprocess.run(
        [*command, *more], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert fitted.returncode == 0, fitted.stderr
    told = json.loads((results / "sure" / "best" / "metrics.json").read_text())
    lines = (results / "again" / "epochs.jsonl").read_text().splitlines()
    again = json.loads(lines[told["epoch"] - 1])
    assert {name: again[name] for name in told["metrics"]} == told["metrics"]
    mine, theirs = (
        yaml.safe_load((results / name / "best" / "params.yaml").read_text()) for name in ("again", "sure")
    )
    assert (mine["params"], mine["fit"]) == (theirs["params"], theirs["fit"])


def begun(results: Path, environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "sweeps.run", *arguments, "--results-dir", str(results)]
    with (results / "output.txt").open("w") as output:
        return subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, text=True
        )


def wait_for(process: subprocess.Popen[str], at: Path, is_there: Callable[[Record], bool]) -> None:
    """Until the record of a running sweep says so."""
    began = time.monotonic()
    while process.poll() is None:
        assert time.monotonic() - began < 170, "it never comes"
        if (at / "record.journal").is_file() and is_there(Record.read(at)):
            return
        time.sleep(0.2)
    raise AssertionError("the sweep ended before")


def has_begun_to_confirm(record: Record) -> bool:
    """One rerun has ended and another one is under way."""
    reruns = [trial for trial in record.trials if trial.confirms is not None]
    return any(t.status == "finished" for t in reruns) and any(
        t.status == "unfinished" and t.epochs for t in reruns
    )


@pytest.mark.long
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT])
def test_a_confirmation_that_is_stopped_goes_on_where_it_was(
    by: signal.Signals, tmp_path: Path, environment: dict[str, str], sweep: Command
) -> None:
    slow = ("--params", "epoch_s=0.4", "--checkpoint-epochs", "1", "--confirm", "2", "--confirm-top", "2")
    process = begun(tmp_path, environment, *LUCKY, *slow, "--name", "s")
    at = tmp_path / "s"
    wait_for(process, at, has_begun_to_confirm)
    process.send_signal(by)
    assert process.wait(170) == (130 if by == signal.SIGINT else -signal.SIGKILL)
    before = Record.read(at)
    assert not before.confirmed()
    if by == signal.SIGINT:
        output = (tmp_path / "output.txt").read_text()
        assert "The sweep was interrupted in its confirmation; " in output
        assert "not confirmed yet" in output
        assert "test" not in before.about, "its winner is not known yet"
    done = sweep("--resume", str(at), timeout_s=300)
    assert done.returncode == 0, done.stdout + done.stderr
    after = Record.read(at)
    assert after.rerun_trials == before.leaders(2)
    assert len(after.trials) == 4 + 4
    for old, new in zip(before.trials, after.trials, strict=False):
        assert new.status == "finished"
        assert {epoch: new.epochs[epoch] for epoch in old.epochs} == old.epochs
        if old.status == "finished":
            assert new.end == old.end, f"trial {old.number} has trained again"
    for trial in after.trials:  # one that went on trained as one that was never stopped
        assert len({row.metrics["drawn"] for row in trial.epochs.values()}) == 1
    of_seed: dict[int, set[tuple[float, ...]]] = {}
    for trial in after.trials:
        rows = tuple(row.metrics["first_row"] for row in trial.epochs.values())
        of_seed.setdefault(trial.seed, set()).add(rows)
    assert [len(rows) for rows in of_seed.values()] == [1, 1, 1]
    assert len(after.confirmed()) == 2


@pytest.mark.long
def test_a_confirmed_sweep_searches_on_and_confirms_what_is_then_the_top(
    done: subprocess.CompletedProcess[str], results: Path, tmp_path: Path, sweep: Command
) -> None:
    assert done.returncode == 0
    shutil.copytree(results / "sure", tmp_path / "sure")
    before = Record.read(tmp_path / "sure")
    more = sweep("--resume", str(tmp_path / "sure"), "--num-trials", "12", timeout_s=300)
    assert more.returncode == 0, more.stdout + more.stderr
    after = Record.read(tmp_path / "sure")
    assert len(after.searched) == 12
    assert after.searched[4].number == 8
    top = after.leaders(2)
    assert all(len(after.reruns_of(number)) == 2 for number in top)
    assert len(after.trials) == 12 + 2 * len({*top, *before.leaders(2)}), "none was rerun twice"
    assert [t.end for t in after.trials[:8]] == [t.end for t in before.trials]
    assert {trial.number for trial in after.confirmed()} == {*top, *before.leaders(2)}


@pytest.mark.long
def test_a_trial_that_breaks_with_other_seeds_does_not_win(tmp_path: Path, sweep: Command) -> None:
    space = make_plan(config_of(tmp_path, trainable="tests.faulty.lucky")).space
    slopes = [float(space.draw((0, number, 0)).params["slope"]) for number in range(4)]
    second, lead = sorted(range(4), key=lambda number: slopes[number])[-2:]
    edge = (slopes[lead] + slopes[second]) / 2
    done = sweep(
        *(*LUCKY, "--params", f"fragile_above={edge}", "--confirm", "2", "--confirm-top", "2"),
        *("--name", "s", "--results-dir", str(tmp_path)),
        timeout_s=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    record = Record.read(tmp_path / "s")
    assert record.leaders(1) == [lead]
    assert [(trial.number, trial.failures) for trial in record.confirmed()] == [(second, 0), (lead, 2)]
    assert f"Best       trial {second}: score" in done.stdout
    assert f"trial {lead}: no score, 2 reruns failed or diverged" in done.stdout
    assert yaml.safe_load((tmp_path / "s" / "best" / "params.yaml").read_text())["trial"] == second


@pytest.mark.long
@pytest.mark.parametrize("model", ["digits_mlp", "fashion_cnn"])
def test_each_trial_of_a_warm_process_trains_alike_in_a_fresh_one(
    model: str, tmp_path: Path, environment: dict[str, str], sweep: Command
) -> None:
    """Pruned ones too: of theirs the first epochs are the same."""
    rows = ("--params", "rows=600") if model == "fashion_cnn" else ()
    done = sweep(
        *("--trainable", model, *rows, "--num-trials", "4", "--searcher", "random", "--max-concurrent", "1"),
        *("--max-epochs", "4", "--grace-epochs", "2", "--reduction-factor", "2", "--seed", "5"),
        *("--name", "s", "--results-dir", str(tmp_path), "--no-dashboard"),
        timeout_s=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    record = Record.read(tmp_path / "s")
    assert len({trial.place["pid"] for trial in record.trials}) == 1
    assert "pruned" in {trial.status for trial in record.trials}
    config = FitConfig(max_epochs=4, metric="val_acc", mode="max", seed=5, threads=1)
    for trial in record.trials:
        file, name = tmp_path / f"{trial.number}.yaml", f"trial-{trial.number}"
        file.write_text(params_file.write(model, {**trial.fixed, **trial.params}, config.settings(), {}))
        command = [sys.executable, "-m", "sweeps.fit", model, "--params", str(file), "--name", name]
        fitted = subprocess.run(
            [*command, "--results-dir", str(tmp_path)],
            **{"cwd": ROOT, "env": environment, "capture_output": True, "text": True, "timeout": 170},
        )
        assert fitted.returncode == 0, fitted.stderr
        lines = [json.loads(line) for line in (tmp_path / name / "epochs.jsonl").read_text().splitlines()]
        for line in lines[: len(trial.epochs)]:
            expected = trial.epochs[line["epoch"]].metrics
            assert {metric: line[metric] for metric in expected} == expected
