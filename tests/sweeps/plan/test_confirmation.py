"""Confirmation: the best trials again with new seeds, none of which the search hears of."""

from __future__ import annotations

import json
import shutil
import signal
import statistics
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
from optuna.distributions import FloatDistribution

from sweeps.common import params_file
from sweeps.common.objective import Objective
from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.execution import summary, winner
from sweeps.plan import confirmation, folder, resume
from sweeps.plan.build import make_plan
from sweeps.plan.describe import describe
from sweeps.record import record as record_module
from sweeps.record.journal import RecordUnreadable
from sweeps.record.record import FORMAT, WITHOUT_RERUNS, Record
from sweeps.record.reruns import seeds
from sweeps.record.trials import Status, TrialRow
from sweeps.search import brackets
from sweeps.search.record_searcher import RecordSearcher, RerunSearcher
from sweeps.space.flat import check
from sweeps.storage import retention
from sweeps.storage.folder import Folder
from sweeps.training import checkpoint_store
from sweeps.training.config import FitConfig
from tests.conftest import ROOT, Command, propose
from tests.support.drivers import driver_of

HYPERPARAMETER = {"slope": FloatDistribution(0.1, 1.0)}
ASKED = {"top": 2, "seeds": 2}
LUCKY = (
    *("--trainable", "tests.faulty.lucky", "--search-space", "tests.faulty.slopes", "--searcher", "random"),
    *("--num-trials", "4", "--max-epochs", "3", "--scheduler", "none", "--no-ray-dashboard"),
)


def searched(at: Path, *scores: float, mode: str = "max") -> Record:
    """A search that has ended, a trial of one epoch for each score."""
    record = Record.create(at, "s", mode, {"metric": "score", "seed": 0})
    for score in scores:
        add(record, score)
    return record


def add(record: Record, score: float) -> TrialRow:
    """A trial of the search from its start to its end."""
    trial = propose(record, {"slope": 0.1 + len(record.searched) / 100}, HYPERPARAMETER)
    record.report(trial.number, 1, score, {"score": score}, 1.0)
    record.end(trial.number, "finished")
    return trial


def rerun(record: Record, number: int, seed: int, score: float, status: Status = "finished") -> TrialRow:
    trial = record.trials[number]
    again = record.begin(trial.point, trial.optuna, seed, confirms=number)
    record.report(again.number, 1, score, {"score": score}, 1.0)
    if status != "unfinished":
        record.end(again.number, status)
    return again


def confirmed(at: Path) -> Record:
    """Trial 1 leads by 0.9, but its reruns have a mean of 0.5; those of trial 2 one of 0.7."""
    record = searched(at, 0.1, 0.9, 0.8)
    record.note("confirm", ASKED)
    for number, scores in ((1, (0.4, 0.6)), (2, (0.75, 0.65))):
        for seed, score in zip(seeds(0, 2), scores, strict=True):
            rerun(record, number, seed, score)
    return record


def test_seeds_are_new_distinct_and_more_of_them_begin_with_the_same() -> None:
    assert seeds(0, 3) == seeds(0, 5)[:3]
    assert len({0, *seeds(0, 100)}) == 101
    assert not set(seeds(0, 20)) & set(seeds(1, 20))
    assert all(0 <= seed < 2**32 for seed in seeds(7, 20))


def test_the_mean_over_new_seeds_chooses_not_the_luckiest_score(tmp_path: Path) -> None:
    record = confirmed(tmp_path)
    first, second = record.confirmed()
    assert (first.number, second.number) == (2, 1)
    assert first.mean == pytest.approx(0.7)
    assert first.std == pytest.approx(statistics.stdev((0.75, 0.65)))
    assert record.best() is record.trials[2]


def test_a_small_score_is_good_where_that_was_asked_for(tmp_path: Path) -> None:
    record = searched(tmp_path, 0.1, 0.2, mode="min")
    record.note("confirm", {"top": 2, "seeds": 1})
    rerun(record, 0, 1, 0.5)
    rerun(record, 1, 1, 0.3)
    assert [trial.number for trial in record.confirmed()] == [1, 0]


def test_until_the_last_rerun_has_ended_the_winner_is_that_of_the_search(tmp_path: Path) -> None:
    record = searched(tmp_path, 0.1, 0.9, 0.8)
    record.note("confirm", ASKED)
    for number in (1, 2):
        rerun(record, number, seeds(0, 2)[0], 1.0 - number / 10)
    rerun(record, 1, seeds(0, 2)[1], 0.2)
    last = rerun(record, 2, seeds(0, 2)[1], 0.9, "unfinished")
    assert not record.confirmed()
    assert record.best() is record.trials[1]
    record.end(last.number, "finished")
    assert record.best() is record.trials[2]


@pytest.mark.parametrize("status", ["failed", "diverged"])
def test_a_trial_that_fails_with_a_new_seed_ranks_below_those_that_do_not(
    status: Status, tmp_path: Path
) -> None:
    record = searched(tmp_path, 0.1, 0.9, 0.8)
    record.note("confirm", ASKED)
    first, second = seeds(0, 2)
    rerun(record, 1, first, 0.95)
    rerun(record, 1, second, 0.95, status)
    rerun(record, 2, first, 0.3)
    rerun(record, 2, second, 0.3)
    assert [(trial.number, trial.failures, trial.scores) for trial in record.confirmed()] == [
        (2, 0, (0.3, 0.3)),
        (1, 1, (0.95,)),
    ]


def test_where_no_rerun_ends_well_the_winner_of_the_search_stands(tmp_path: Path) -> None:
    record = searched(tmp_path, 0.9)
    record.note("confirm", {"top": 3, "seeds": 1})
    rerun(record, 0, seeds(0, 1)[0], 0.5, "failed")
    assert [trial.scores for trial in record.confirmed()] == [()]
    assert record.best() is record.trials[0]
    assert not record.is_to_be_confirmed


def test_the_search_hears_of_no_rerun(tmp_path: Path) -> None:
    record = confirmed(tmp_path)
    assert list(record.scores_at(1)) == [0, 1, 2]
    assert record.leaders(9) == [1, 2, 0]
    assert [trial.number for trial in record.searched] == [0, 1, 2]


def test_all_of_it_reads_back(tmp_path: Path) -> None:
    record, again = confirmed(tmp_path), Record.read(tmp_path)
    assert [(t.confirms, t.seed) for t in again.trials] == [(t.confirms, t.seed) for t in record.trials]
    assert again.confirmed() == record.confirmed()
    assert again.about["format"] == FORMAT


def test_a_program_that_knows_no_reruns_refuses_a_record_that_has_some_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_module, "FORMAT", WITHOUT_RERUNS)
    (tmp_path / "without").mkdir()
    searched(tmp_path / "without", 0.5)
    assert Record.read(tmp_path / "without").leaders(1) == [0]
    monkeypatch.undo()
    confirmed(tmp_path)
    monkeypatch.setattr(record_module, "FORMAT", WITHOUT_RERUNS)
    with pytest.raises(RecordUnreadable, match="a newer version of this program has written it"):
        Record.read(tmp_path)


def searcher(name: str, record: Record, num_trials: int) -> RecordSearcher:
    from ray import tune

    from tests.faulty import toy

    config = SweepConfig.of(num_trials=num_trials, max_epochs=1, grace_epochs=1, metric="score", mode="max")
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
        assert proposed[2] == "FINISHED"
    assert points[0] == points[1]


def test_brackets_are_filled_as_if_nothing_had_been_rerun(tmp_path: Path) -> None:
    config = SweepConfig.of(num_trials=10, max_epochs=3, grace_epochs=1, reduction_factor=3)
    decided = []
    for place, seen in (("without", 0), ("with", 2)):
        (tmp_path / place).mkdir()
        record = searched(tmp_path / place, 0.1, 0.2, 0.3, 0.4, 0.5)
        record.note("runs", [{"num_trials": 5}, {"num_trials": 10}])
        for number in record.leaders(9)[:seen]:
            rerun(record, number, 11, 9.0)
        added = [add(record, score).number for score in (0.2, 0.9, 0.8, 0.1, 0.1)]
        assert added[0] == 5 + seen
        decided.append([brackets.decision(config, record, number, 1) for number in added])
    assert decided[0] == decided[1]
    assert "STOP" in decided[0]


def test_reruns_come_seed_by_seed_and_those_that_are_there_are_not_begun_again(tmp_path: Path) -> None:
    record = searched(tmp_path, 0.1, 0.9, 0.8)
    assert not record.is_to_be_confirmed
    record.note("confirm", ASKED)
    first, second = seeds(0, 2)
    assert record.reruns_to_come() == [(1, first), (2, first), (1, second), (2, second)]
    rerun(record, 2, first, 0.5)
    rerun(record, 1, first, 0.5, "unfinished")
    assert record.reruns_to_come() == [(1, second), (2, second)]
    nothing: Any = None  # the space: reruns are of points that there are
    handing = RerunSearcher(SweepConfig(), nothing, record)
    handing.slots = 2
    goes_on, new = handing.suggest("a"), handing.suggest("b")
    assert (goes_on["number"], new["seed"], new["params"]) == (4, second, {"slope": 0.11})
    assert handing.suggest("c") is None


def test_reruns_of_a_trial_that_leads_no_more_are_given_up(tmp_path: Path) -> None:
    record = searched(tmp_path, 0.1, 0.9, 0.8)
    record.note("confirm", {"top": 1, "seeds": 1})
    left = rerun(record, 1, seeds(0, 1)[0], 0.5, "unfinished")
    assert not confirmation.give_up_others(record)
    add(record, 0.95)
    assert confirmation.give_up_others(record) == [left.number]
    assert (left.status, left.reason) == ("pruned", "trial 1 is no longer to be confirmed")
    assert record.reruns_to_come() == [(4, seeds(0, 1)[0])]


def test_reruns_that_are_asked_for_no_more_are_given_up(tmp_path: Path) -> None:
    record = searched(tmp_path, 0.1, 0.9)
    record.note("confirm", ASKED)
    left = rerun(record, 1, seeds(0, 1)[0], 0.5, "unfinished")
    record.note("confirm", None)
    assert confirmation.give_up_others(record) == [left.number]
    assert not record.is_to_be_confirmed
    assert not record.live


def write_weights(at: Path, number: int) -> None:
    checkpoint_store.write(
        checkpoint_store.folder_of(at, number), 1, lambda into: (into / "weights.pt").touch()
    )


def test_of_reruns_the_weights_of_the_best_stay_and_in_the_end_of_the_winner_alone(tmp_path: Path) -> None:
    config, record = SweepConfig.of(keep_checkpoints=1), searched(tmp_path, 0.1, 0.9, 0.8)
    record.note("confirm", ASKED)
    first, second = seeds(0, 2)
    a = rerun(record, 1, first, 0.5)
    write_weights(tmp_path, a.number)
    b = rerun(record, 2, first, 0.6)
    write_weights(tmp_path, b.number)
    assert retention.kept(config, record, Folder(tmp_path)) == {1, a.number, b.number}
    c = rerun(record, 1, second, 0.7, "unfinished")
    assert retention.would_be_kept(config, record, Folder(tmp_path), c.number)
    d = rerun(record, 2, second, 0.1, "unfinished")
    assert not retention.would_be_kept(config, record, Folder(tmp_path), d.number)
    write_weights(tmp_path, c.number)
    record.end(c.number, "finished")
    record.end(d.number, "finished")
    assert retention.kept(config, record, Folder(tmp_path)) == {1, c.number}


def test_each_winner_is_scored_on_the_test_rows_once_and_how_many_were_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored = []

    def test(driver: object, run: TrialRow, weights: object) -> dict[str, float]:
        scored.append(run.number)
        return {"test_acc": run.number / 10}

    monkeypatch.setattr(winner, "_test", test)
    record = searched(tmp_path, 0.1, 0.9, 0.8)
    for number, often in (
        (1, "scored once"),
        (2, "scored 2 times, for trials 1, 2"),
        (1, "scored 2 times, for"),
    ):
        run = record.trials[number]
        scores = winner._scores(driver_of(tmp_path, record, SweepConfig()), run, tmp_path)
        assert (scores, record.about["test"]) == (
            {"test_acc": number / 10},
            {"trial": number, "test_acc": number / 10},
        )
        assert summary._how_often(record).startswith(often)
        record = Record.read(tmp_path)
    assert scored == [1, 2]


def config_of(tmp_path: Path, **changes: Any) -> SweepConfig:
    given = {"trainable": "tests.faulty.toy", "search_space": "tests.faulty.slopes", "name": "s"}
    rest = {"num_trials": 3, "gpus_per_trial": 0, "min_free_gb": 0.0, "results_dir": str(tmp_path)}
    return SweepConfig.of(**{**given, **rest, **changes})


def test_the_plan_says_what_it_will_cost(tmp_path: Path) -> None:
    text = " ".join(describe(make_plan(config_of(tmp_path, confirm=2, confirm_top=5, max_epochs=9))).split())
    assert "confirm train the best 3 trials again with 2 new seeds each: 6 x 9 = 54 more epochs" in text
    assert "confirm" not in describe(make_plan(config_of(tmp_path)))
    timed = describe(make_plan(config_of(tmp_path, confirm=1, max_epochs=9, time_budget_hours=0.5)))
    assert "more epochs; --time-budget-hours 0.5 includes them" in " ".join(timed.split())


def test_a_finished_sweep_goes_on_when_confirmation_is_asked_for_and_not_twice(tmp_path: Path) -> None:
    plan = make_plan(config_of(tmp_path))
    with folder.opened(plan) as record:
        resume.begin_run(plan, record)
        for score in (0.1, 0.9, 0.8):
            add(record, score)
        resume.end_run(record, "finished")

    def look(**asked: int) -> resume.ResumeState:
        again = make_plan(config_of(tmp_path, resume=str(plan.folder), **asked))
        with folder.opened(again) as record:
            standing = resume.check(again, record)
            if not standing.is_finished:
                resume.begin_run(again, record)
                for number, seed in record.reruns_to_come():
                    rerun(record, number, seed, 0.5)
                resume.end_run(record, "finished")
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


def test_the_tables_tell_reruns_from_trials(done: subprocess.CompletedProcess[str], results: Path) -> None:
    assert done.returncode == 0
    rows = pq.read_table(results / "sure" / "trials.parquet").to_pylist()
    assert [row["confirms"] for row in rows[:4]] == [None] * 4
    assert sorted(row["confirms"] for row in rows[4:]) == sorted(Record.read(results / "sure").leaders(2) * 2)


def test_best_holds_the_winners_best_rerun_and_all_that_trains_it_again(
    done: subprocess.CompletedProcess[str], results: Path
) -> None:
    assert done.returncode == 0
    at, record = results / "sure", Record.read(results / "sure")
    best = record.confirmed()[0]
    run = max(record.reruns.of(best.number), key=lambda rerun: rerun.best_score(Objective("m", "max")) or 0.0)
    about = yaml.safe_load((at / "best" / "params.yaml").read_text())
    assert (about["trial"], about["run"], about["fit"]["seed"]) == (best.number, run.number, run.seed)
    weights = torch.load(at / "best" / "weights.pt", weights_only=True)
    assert float(weights["weight"]) == run.epochs[3].metrics["drawn"]
    told = json.loads((at / "best" / "metrics.json").read_text())
    assert told["metrics"] == run.epochs[3].metrics
    assert told["test"]["test_score"] == pytest.approx(float(weights["weight"]))
    assert (told["confirmed"]["mean"], told["confirmed"]["std"]) == (best.mean, best.std)
    kept = {path.parent.name for path in (at / "checkpoints").glob("trial_*/epoch_*")}
    assert kept == {f"trial_{record.leaders(1)[0]:04d}", f"trial_{run.number:04d}"}


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


@pytest.mark.slow
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
    assert after.reruns.numbers == before.leaders(2)
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


@pytest.mark.slow
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
    assert all(len(after.reruns.of(number)) == 2 for number in top)
    assert len(after.trials) == 12 + 2 * len({*top, *before.leaders(2)}), "none was rerun twice"
    assert [t.end for t in after.trials[:8]] == [t.end for t in before.trials]
    assert {trial.number for trial in after.confirmed()} == {*top, *before.leaders(2)}


@pytest.mark.slow
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


@pytest.mark.slow
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
