"""The record: on disk the moment it counts, first word stands, and who is best."""

from __future__ import annotations

import math
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from optuna.distributions import FloatDistribution

from sweeps.record import JOURNAL, Record, Status

ROOT = Path(__file__).resolve().parents[1]
ENDS = [status for status in get_args(Status) if status != "unfinished"]


def new_record(folder: Path, mode: str = "max", trials: int = 0) -> Record:
    record = Record.create(folder, "s", mode, {"metric": "m", "fixed": {"width": 8}})
    for number in range(trials):
        record.begin({"lr": 0.1 * (number + 1)}, {"lr": FloatDistribution(0, 10)}, seed=number)
    return record


def scored(folder: Path, mode: str, scores: list[list[float]], status: Status = "finished") -> Record:
    """A record whose trials reported these scores, an epoch each, and ended."""
    record = new_record(folder, mode, len(scores))
    for number, of_trial in enumerate(scores):
        for epoch, score in enumerate(of_trial, start=1):
            record.report(number, epoch, score, {}, 1.0)
        record.end(number, status)
    return record


@pytest.mark.parametrize("status", ENDS)
def test_every_way_to_end_reads_back(status: Status, tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=2)
    record.place(0, {"pc": "pc1", "pid": 7, "gpu": ""})
    record.report(0, 1, 0.5, {"m": 0.5, "loss": 2.0}, 1.5)
    (tmp_path / "checkpoint").mkdir()
    record.checkpoint(0, str(tmp_path / "checkpoint"))
    record.end(0, status, "a reason", "logs/trial_0000.log")
    ended, live = Record.read(tmp_path).trials
    assert (ended.number, ended.status, ended.reason, ended.log) == (
        0,
        status,
        "a reason",
        "logs/trial_0000.log",
    )
    assert (ended.params, ended.seed, ended.place) == ({"lr": 0.1}, 0, {"pc": "pc1", "pid": 7, "gpu": ""})
    assert ended.checkpoint == str(tmp_path / "checkpoint")
    (tmp_path / "checkpoint").rmdir()
    assert Record.read(tmp_path).trials[0].checkpoint is None, "dropped since"
    assert ended.epochs == record.trials[0].epochs
    assert ended.end is not None
    assert (live.number, live.status, live.end, live.seed) == (1, "unfinished", None, 1)


def test_what_is_read_equals_what_was_written(tmp_path: Path) -> None:
    record = scored(tmp_path, "max", [[0.1, 0.3], [0.2, 0.6, 0.4]])
    record.begin({"lr": 9.0}, {}, 3)
    record.note("test", {"acc": 0.5})
    again = Record.read(tmp_path)
    assert again.about == record.about
    assert again.mode == "max"
    assert [trial.epochs for trial in again.trials] == [trial.epochs for trial in record.trials]
    assert again.scores_at(2) == record.scores_at(2) == {0: 0.3, 1: 0.6}
    assert [trial.number for trial in again.live] == [trial.number for trial in record.live] == [2]
    assert again.best() == again.trials[1]
    for ours, theirs in zip(record.trials, again.trials, strict=True):
        assert theirs.start == pytest.approx(ours.start, abs=1)
        assert theirs.end == pytest.approx(ours.end, abs=1)


def test_an_epoch_is_on_disk_the_moment_it_is_reported(tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=1)
    for epoch in (1, 2, 3):
        record.report(0, epoch, epoch / 10, {"m": epoch / 10}, 1.0)
        assert Record.read(tmp_path).trials[0].epochs == record.trials[0].epochs  # the first is still open
    record.end(0, "pruned")
    assert Record.read(tmp_path).trials[0].status == "pruned"


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_not_finite_is_kept_and_never_ranked(score: float, tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=1)
    record.report(0, 1, 0.25, {"m": 0.25}, 1.0)
    record.report(0, 2, score, {"m": score, "loss": math.nan}, 1.0)
    record.end(0, "diverged", f"m was {score} in epoch 2")
    for seen in (record, Record.read(tmp_path)):
        trial = seen.trials[0]
        assert repr(trial.epochs[2].score) == repr(score)
        assert repr(trial.epochs[2].metrics["m"]) == repr(score)
        assert math.isnan(trial.epochs[2].metrics["loss"])
        assert (trial.best_epoch("max"), trial.best_epoch("min"), trial.best_score("max")) == (1, 1, 0.25)
        assert seen.scores_at(2) == {}


def test_an_epoch_that_is_reported_again_changes_nothing(tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=1)
    record.report(0, 1, 0.5, {"m": 0.5}, 1.0)
    size = (tmp_path / JOURNAL).stat().st_size
    record.report(0, 1, 0.9, {"m": 0.9}, 2.0)
    assert (tmp_path / JOURNAL).stat().st_size == size
    for seen in (record, Record.read(tmp_path)):
        assert seen.trials[0].epochs[1].score == seen.scores_at(1)[0] == 0.5


def test_the_first_end_stands(tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=1)
    record.end(0, "failed", "first")
    record.end(0, "finished", "second")
    for seen in (record, Record.read(tmp_path)):
        assert (seen.trials[0].status, seen.trials[0].reason) == ("failed", "first")
        assert seen.live == []


@pytest.mark.parametrize(
    ("mode", "scores", "number", "epoch"),
    [
        ("max", [[0.1, 0.2], [0.9, 0.3], [0.5]], 1, 1),  # by the best epoch, not the last
        ("min", [[0.3, 0.2], [0.9, 0.1], [0.5]], 1, 2),
        ("max", [[0.1], [0.7], [0.7]], 1, 1),  # the earliest trial wins ties
        ("min", [[0.1], [0.1], [0.7]], 0, 1),
        ("max", [[0.1, 0.7, 0.7]], 0, 2),  # and the earliest epoch
        ("min", [[0.7, 0.1, 0.1]], 0, 2),
        ("max", [[-5.0], [-3.0]], 1, 1),
        ("max", [[0.0]], 0, 1),
        ("max", [[math.nan, 0.1], [math.inf]], 0, 2),
        ("min", [[math.nan, 0.1], [-math.inf]], 0, 2),
    ],
)
@pytest.mark.parametrize("status", ["finished", "pruned"])
def test_the_best_trial_is_that_with_the_best_finite_epoch(
    mode: str, scores: list[list[float]], number: int, epoch: int, status: Status, tmp_path: Path
) -> None:
    record = scored(tmp_path, mode, scores, status)
    for seen in (record, Record.read(tmp_path)):
        best = seen.best()
        assert best is not None
        assert (best.number, best.best_epoch(mode)) == (number, epoch)


def test_trials_may_end_in_any_order_and_the_earliest_still_wins_ties(tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=3)
    for number in (2, 0, 1):
        record.report(number, 1, 0.5, {}, 1.0)
        record.end(number, "finished")
    best, again = record.best(), Record.read(tmp_path).best()
    assert best is not None
    assert again is not None
    assert best.number == again.number == 0


@pytest.mark.parametrize("status", ["failed", "diverged"])
def test_a_trial_that_went_wrong_is_never_the_best(status: Status, tmp_path: Path) -> None:
    record = scored(tmp_path, "max", [[0.9]], status)
    assert record.best() is None
    record.begin({"lr": 1.0}, {}, 0)
    record.report(1, 1, 0.1, {}, 1.0)
    assert record.best() is None  # it still trains
    record.end(1, "pruned")
    for seen in (record, Record.read(tmp_path)):
        best = seen.best()
        assert best is not None
        assert best.number == 1


def test_a_trial_that_ended_without_an_epoch_is_no_best(tmp_path: Path) -> None:
    assert scored(tmp_path, "max", [[]], "pruned").best() is None


def test_all_kinds_of_knobs_read_back_as_they_were(tmp_path: Path) -> None:
    params = {"a": 1, "b": 1.0, "c": "relu", "d": True, "e": 1e-300}
    new_record(tmp_path).begin(params, {}, 0)
    (trial,) = Record.read(tmp_path).trials
    assert {key: repr(value) for key, value in trial.params.items()} == {
        key: repr(value) for key, value in params.items()
    }


def test_a_folder_without_a_record_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no sweep here \(record.journal is missing\)"):
        Record.read(tmp_path)


def test_a_record_that_never_began_is_told_from_one_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).touch()
    with pytest.raises(FileNotFoundError, match="ended before its record began"):
        Record.read(tmp_path)


def test_a_pickled_record_reads_the_same_journal(tmp_path: Path) -> None:
    record = scored(tmp_path, "max", [[0.5]])
    assert pickle.loads(pickle.dumps(record)).trials[0].epochs == record.trials[0].epochs


def test_a_record_without_a_last_whole_line_is_read_to_the_line_before(tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=1)
    record.report(0, 1, 0.5, {}, 1.0)
    whole = (tmp_path / JOURNAL).read_bytes()
    record.report(0, 2, 0.6, {}, 1.0)
    (tmp_path / JOURNAL).write_bytes((tmp_path / JOURNAL).read_bytes()[: len(whole) + 20])
    assert list(Record.read(tmp_path).trials[0].epochs) == [1]


WRITER = """
import sys
from pathlib import Path
from sweeps.record import Record
record = Record.create(Path(sys.argv[1]), "s", "max", {})
record.begin({"lr": 0.1}, {}, 0)
epoch = 0
while True:
    epoch += 1
    record.report(0, epoch, epoch / 1000, {"m": epoch / 1000}, 1.0)
    print(epoch, flush=True)
"""


def test_a_writer_that_is_killed_loses_no_epoch_it_reported(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line) == 30:
                os.kill(writer.pid, signal.SIGKILL)
                break
        reported = max([30, *(int(line) for line in writer.stdout if line.strip())])
    assert writer.returncode == -signal.SIGKILL
    (trial,) = Record.read(tmp_path).live
    found = sorted(trial.epochs)
    assert found == list(range(1, len(found) + 1))
    assert len(found) in (reported, reported + 1)  # one may be written and not yet printed
    assert all(trial.epochs[epoch].metrics == {"m": epoch / 1000} for epoch in found)
