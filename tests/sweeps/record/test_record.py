"""The record: on disk the moment it counts, first word stands, and who is best."""

from __future__ import annotations

import math
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection

from sweeps.common.objective import Objective
from sweeps.common.yaml_values import ParamValue
from sweeps.config.sweep_config import SweepConfig
from sweeps.config.sweep_folder import JOURNAL
from sweeps.record import limits
from sweeps.record import record as module
from sweeps.record.journal import RecordUnreadable
from sweeps.record.record import Record
from sweeps.record.sweep_info import FORMAT, Steered
from sweeps.record.trials import Pause, Status
from tests.conftest import ROOT, propose
from tests.sweeps.record.written import new_record, scored

ENDS = [status for status in get_args(Status) if status != "unfinished"]


@pytest.mark.parametrize("status", ENDS)
def test_every_way_to_end_reads_back(status: Status, tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=2)
    record.place(0, {"pc": "pc1", "pid": 7, "gpu": ""})
    record.report(0, 1, 0.5, {"m": 0.5, "loss": 2.0}, 1.5)
    record.notice(0, "a checkpoint was broken")
    record.notice(0, "the disk was full")
    record.end(0, status, "a reason", "logs/trial_0000.log")
    ended, live = Record.read(tmp_path).trials
    assert (ended.number, ended.status, ended.reason, ended.log) == (
        0,
        status,
        "a reason",
        "logs/trial_0000.log",
    )
    assert (ended.params, ended.seed, ended.place) == ({"lr": 0.1}, 0, {"pc": "pc1", "pid": 7, "gpu": ""})
    assert ended.notices == record.trials[0].notices == ["a checkpoint was broken", "the disk was full"]
    assert ended.epochs == record.trials[0].epochs
    assert ended.end is not None
    assert (live.number, live.status, live.end, live.seed, live.notices) == (1, "unfinished", None, 1, [])


def test_what_is_read_equals_what_was_written(tmp_path: Path) -> None:
    record = scored(tmp_path, "max", [[0.1, 0.3], [0.2, 0.6, 0.4]])
    propose(record, {"lr": 9.0}, seed=3)
    record.note("test", {"acc": 0.5})
    again = Record.read(tmp_path)
    assert again.about == record.about
    assert again.objective.mode == "max"
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
        assert (
            trial.best_epoch(Objective("m", "max")),
            trial.best_epoch(Objective("m", "min")),
            trial.best_score(Objective("m", "max")),
        ) == (1, 1, 0.25)
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


def test_all_kinds_of_hyperparameters_read_back_as_they_were(tmp_path: Path) -> None:
    params = {"a": 1, "b": 1.0, "c": "relu", "d": True, "e": 1e-300}
    propose(new_record(tmp_path), params)
    (trial,) = Record.read(tmp_path).trials
    assert {key: repr(value) for key, value in trial.params.items()} == {
        key: repr(value) for key, value in params.items()
    }


def test_a_folder_without_a_record_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"record.journal is missing"):
        Record.read(tmp_path)


def test_a_record_that_never_began_is_told_from_one_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).touch()
    with pytest.raises(FileNotFoundError, match=r"record.journal is empty"):
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


class Clock:
    """Stands in for the `time` of the record."""

    def __init__(self, now: float) -> None:
        self.now = now

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that a test sets; half an hour from now, so that it is ahead of Optuna's."""
    set_by_hand = Clock(round(time.time()) + 1800.0)
    monkeypatch.setattr(module, "time", set_by_hand)
    return set_by_hand


def test_a_clock_that_is_set_back_does_not_change_who_was_first_at_a_rung(
    clock: Clock, tmp_path: Path
) -> None:
    record = new_record(tmp_path, trials=4)
    record.report(2, 1, 0.2, {}, 1.0)
    clock.now -= 3600
    record.report(0, 1, 0.0, {}, 1.0)
    record.report(3, 1, 0.3, {}, 1.0)
    again = Record.reopen(tmp_path)  # and while the sweep stood still
    clock.now -= 3600
    again.report(1, 1, 0.1, {}, 1.0)
    for seen in (again, Record.read(tmp_path)):
        assert list(seen.scores_at(1)) == [2, 0, 3, 1]
        times = [seen.trials[number].epochs[1].time for number in (2, 0, 3, 1)]
        assert times == sorted(set(times))


def test_a_clock_that_is_set_back_ends_no_pause_before_it_and_no_trial_before_its_epochs(
    clock: Clock, tmp_path: Path
) -> None:
    record = new_record(tmp_path, trials=2)
    record.report(0, 1, 0.5, {}, 1.0)
    record.note_pause(0)
    clock.now -= 3600
    record.note_continued(0)
    record.report(0, 2, 0.6, {}, 1.0)
    record.report(1, 1, 0.4, {}, 1.0)
    record.end(1, "pruned")
    for seen in (record, Record.read(tmp_path)):
        first, second = seen.trials
        (pause,) = first.pauses.values()
        assert pause.ended is not None
        assert pause.began <= pause.ended
        assert second.end is not None
        assert first.epochs[2].time < second.epochs[1].time <= second.end
        assert limits.reached(SweepConfig(patience=1), seen, gpus=0) is not None


def test_epochs_of_the_same_moment_keep_the_order_in_which_they_came(clock: Clock, tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=4)
    for number in (3, 1, 2, 0):
        record.report(number, 1, 0.5, {}, 1.0)
    assert list(record.scores_at(1)) == list(Record.read(tmp_path).scores_at(1)) == [3, 1, 2, 0]


def cut_behind(folder: Path, word: str) -> None:
    """Leave of the journal what was written up to the last line with this word: there the driver died."""
    lines = (folder / JOURNAL).read_bytes().splitlines(keepends=True)
    last = max(index for index, line in enumerate(lines) if word.encode() in line)
    assert last + 1 < len(lines)
    (folder / JOURNAL).write_bytes(b"".join(lines[: last + 1]))


@pytest.mark.parametrize("last_written", ['"status"', '"reason"', '"log"'])
@pytest.mark.parametrize(
    ("status", "reason", "log"), [("finished", "", None), ("failed", "another", "logs/other.log")]
)
def test_an_end_that_was_written_by_half_counts_for_nothing_and_leaves_no_trace(
    last_written: str, status: Status, reason: str, log: str | None, tmp_path: Path
) -> None:
    record = new_record(tmp_path, trials=1)
    record.report(0, 1, 0.5, {}, 1.0)
    record.end(0, "diverged", "m was nan in epoch 2", "logs/trial_0000.log")
    cut_behind(tmp_path, last_written)
    again = Record.reopen(tmp_path)
    assert [(trial.number, trial.status, trial.end) for trial in again.live] == [(0, "unfinished", None)]
    again.report(0, 2, 0.75, {}, 1.0)
    again.end(0, status, reason, log)
    for seen in (again, Record.read(tmp_path)):
        assert seen.live == []
        (trial,) = seen.trials
        assert (trial.status, trial.reason, trial.log) == (status, reason, log)
        assert list(trial.epochs) == [1, 2]


def test_an_epoch_that_was_written_by_half_is_written_again(tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=1)
    record.report(0, 1, 0.5, {}, 1.0)
    cut_behind(tmp_path, "epoch:1")  # not yet what the dashboards plot
    again = Record.reopen(tmp_path)
    again.report(0, 1, 0.5, {}, 1.0)
    again.report(0, 2, 0.75, {}, 1.0)
    assert Record.read(tmp_path).trials[0].epochs == again.trials[0].epochs
    assert again.trials[0].epochs[1].score == 0.5


def test_a_torn_line_is_mended_before_the_record_is_written_on(tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=1)
    record.report(0, 1, 0.5, {}, 1.0)
    with (tmp_path / JOURNAL).open("ab") as file:
        file.write(b'{"op_code": 8, "wor')
    (tmp_path / f"{JOURNAL}.lock").symlink_to(tmp_path / JOURNAL)  # as Optuna's: nobody waits for it
    again = Record.reopen(tmp_path)
    again.report(0, 2, 0.75, {}, 1.0)
    assert list(Record.read(tmp_path).trials[0].epochs) == [1, 2]


def test_looking_at_a_record_changes_nothing_of_it(tmp_path: Path) -> None:
    """It may be of a sweep that runs: its last line may be on its way."""
    new_record(tmp_path, trials=1)
    with (tmp_path / JOURNAL).open("ab") as file:
        file.write(b'{"op_code": 8, "wor')
    before = (tmp_path / JOURNAL).read_bytes()
    assert len(Record.read(tmp_path).trials) == 1
    assert (tmp_path / JOURNAL).read_bytes() == before


def test_a_record_that_is_damaged_in_the_middle_is_refused_and_left_alone(tmp_path: Path) -> None:
    new_record(tmp_path, trials=2)
    lines = (tmp_path / JOURNAL).read_bytes().splitlines(keepends=True)
    lines[3] = b"\x00" * len(lines[3])
    damaged = b"".join([*lines[:3], lines[3] + b"\n", *lines[4:]])
    (tmp_path / JOURNAL).write_bytes(damaged)
    with pytest.raises(RecordUnreadable, match=f"{JOURNAL}: line 4 is damaged"):
        Record.read(tmp_path)
    with pytest.raises(RecordUnreadable, match="line 4 is damaged, and intact lines follow it"):
        Record.reopen(tmp_path)
    assert (tmp_path / JOURNAL).read_bytes() == damaged


def test_a_record_of_another_version_is_read_and_not_continued(tmp_path: Path) -> None:
    """The data are the first lines of a record of format 2."""
    shutil.copy(Path(__file__).parent / "another_version.journal", tmp_path / JOURNAL)
    read = Record.read(tmp_path)
    assert read.info.format not in (0, FORMAT)
    assert [trial.status for trial in read.trials] == ["pruned", "pruned"]
    assert read.info.trainables == ("curve",)
    with pytest.raises(RecordUnreadable, match=r"another version .* report open here; to resume it, use"):
        Record.reopen(tmp_path)


def test_a_record_of_another_version_that_can_not_be_read_says_so(tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=1)
    record.report(0, 1, 0.5, {}, 1.0)
    journal = tmp_path / JOURNAL
    later = journal.read_text().replace(f'"format":{FORMAT}', f'"format":{FORMAT + 1}')
    journal.write_text(later.replace('"seconds"', '"duration"'))
    with pytest.raises(RecordUnreadable, match="another version of sweeps has made this sweep, and this one"):
        Record.read(tmp_path)


def test_a_journal_of_another_program_is_refused(tmp_path: Path) -> None:
    storage = JournalStorage(JournalFileBackend(str(tmp_path / JOURNAL)))
    storage.create_new_study([StudyDirection.MAXIMIZE], "of somebody else")
    with pytest.raises(RecordUnreadable, match="this is an Optuna journal, but not the record of a sweep"):
        Record.reopen(tmp_path)


def test_a_second_study_in_the_journal_changes_nothing_of_the_sweep(tmp_path: Path) -> None:
    new_record(tmp_path, trials=1)
    storage = JournalStorage(JournalFileBackend(str(tmp_path / JOURNAL)))
    other = optuna.create_study(storage=storage, study_name="of somebody else", direction="minimize")
    other.set_user_attr("metric", "theirs")
    trial = other.ask()
    propose(record := Record.reopen(tmp_path), {"lr": 0.5}, {"lr": FloatDistribution(0, 10)}, seed=1)
    trial.set_user_attr("note", "theirs")
    other.tell(trial, 3.0)
    record.report(1, 1, 0.5, {}, 1.0)
    record.end(1, "finished")
    read = Record.read(tmp_path)
    assert read.info.objective.metric == "m"
    assert [(each.status, each.note) for each in read.trials] == [("unfinished", ""), ("finished", "")]
    theirs = optuna.load_study(storage=storage, study_name="of somebody else")
    assert [each.value for each in theirs.trials] == [3.0]


def test_a_folder_without_a_record_can_not_be_gone_on_with_and_gets_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no sweep in"):
        Record.reopen(tmp_path)
    assert list(tmp_path.iterdir()) == []


CHANGES: list[tuple[ParamValue, dict[str, BaseDistribution]]] = [
    ("z", {"a": CategoricalDistribution(["x", "y", "z"])}),
    ("y", {"a": CategoricalDistribution(["y"])}),
    (0.5, {"a": FloatDistribution(0.0, 1.0)}),
    (7, {}),
]


@pytest.mark.parametrize(("value", "words"), CHANGES)
def test_a_space_may_change_under_a_record(
    value: ParamValue, words: dict[str, BaseDistribution], tmp_path: Path
) -> None:
    """With --force; Optuna refuses other choices for a hyperparameter of the same name in `ask`, not here."""
    record = new_record(tmp_path)
    propose(record, {"a": "x", "b": 1}, {"a": CategoricalDistribution(["x", "y"])})
    again = Record.reopen(tmp_path)
    propose(again, {"a": value}, words)
    for seen in (again, Record.read(tmp_path)):
        assert [trial.params for trial in seen.trials] == [{"a": "x", "b": 1}, {"a": value}]


def test_a_sweep_has_run_for_as_long_as_each_of_its_runs_up_to_its_last_word(
    clock: Clock, tmp_path: Path
) -> None:
    record = new_record(tmp_path, trials=1)
    clock.now += 1_000  # planning and starting Ray do not count
    record.start_clock()
    clock.now += 100
    record.report(0, 1, 0.5, {}, 1.0)
    clock.now += 50  # then it was killed
    record = Record.reopen(tmp_path)
    clock.now += 5_000
    assert record.elapsed_s == pytest.approx(100)
    record.start_clock()
    clock.now += 10
    record.report(0, 2, 0.5, {}, 1.0)
    clock.now += 20
    assert record.elapsed_s == pytest.approx(130)
    record.note("elapsed_s", record.elapsed_s)  # it ended in order
    assert Record.read(tmp_path).elapsed_s == pytest.approx(130)
    assert [row.elapsed_s for row in Record.read(tmp_path).trials[0].epochs.values()] == pytest.approx(
        [100, 110]
    )


def test_a_record_of_before_there_were_runs_has_used_nothing(tmp_path: Path) -> None:
    assert scored(tmp_path, "max", [[0.5]]).elapsed_s == 0


def test_lines_that_are_missing_are_noticed(tmp_path: Path) -> None:
    scored(tmp_path, "max", [[0.1, 0.2, 0.3]])
    lines = (tmp_path / JOURNAL).read_bytes().splitlines(keepends=True)
    without = [line for line in lines if b'"epoch:2"' not in line]
    assert len(without) == len(lines) - 1
    (tmp_path / JOURNAL).write_bytes(b"".join(without))
    with pytest.raises(RecordUnreadable, match=r"lines are missing \(trial 0 has epochs 1, 3\)"):
        Record.reopen(tmp_path)


WRITER = """
import sys
from pathlib import Path
from sweeps.space.point import Point, OptunaPoint
from sweeps.record.record import Record
record = Record.create(Path(sys.argv[1]), "s", "max", {})
record.begin(Point("net", {"lr": 0.1}), OptunaPoint(), 0)
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


def test_micro_batches_and_infeasible_trials_read_back(tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=2)
    record.note_trial(0, micro_batches=[32, 16])
    record.end(1, "infeasible", "out of memory: the model itself does not fit")
    first, second = Record.read(tmp_path).trials
    assert (first.micro_batches, first.micro_batch) == ([32, 16], 16)
    assert (second.micro_batches, second.micro_batch) == ([], None)
    assert (second.status, second.reason) == ("infeasible", "out of memory: the model itself does not fit")
    assert Record.read(tmp_path).leaders(9) == []


def test_the_commands_of_the_user_are_kept_with_their_time(tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=2)
    record.note_steered(Steered(["stop", "1"], "it stops", 5.0, "r1"))
    record.note_steered(Steered(["pause"], "", 6.0, "r2"))
    record.note_steered(Steered(["try", "lr=1"], "", 7.0, "r3", {"trainable": "t", "params": {"lr": 1}}))
    again = Record.read(tmp_path)
    assert again.info.steered == record.info.steered
    assert again.info.paused_at == 6.0
    assert [again.is_to_stop(number) for number in (0, 1)] == [False, True]
    assert [point.params for point in again.points_to_try()] == [{"lr": 1}]
    record.end(1, "stopped", "stopped by the user")
    record.note_steered(Steered(["go"], "", 8.0, "r4"))
    record.note_steered(Steered(["finish"], "", 9.0, "r5"))
    again = Record.read(tmp_path)
    assert (again.info.paused_at, again.is_to_stop(1), again.points_to_try()) == (None, False, [])
    assert (again.trials[1].status, again.trials[1].reason) == ("stopped", "stopped by the user")


def test_a_pause_has_its_times_and_ends_when_the_trial_goes_on(clock: Clock, tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=2)
    record.note_continued(0)
    record.report(0, 1, 0.5, {}, 1.0)
    record.note_continued(0)
    assert not record.trials[0].pauses, "it trained at a stretch"
    began = clock.now
    for _ in range(2):
        record.note_pause(0)
        clock.now += 7.0
    assert [trial.is_paused for trial in Record.read(tmp_path).trials] == [True, False]
    record.note_continued(0)
    record.report(0, 2, 0.5, {}, 1.0)
    record.note_pause(0)
    record.end(0, "pruned")
    for seen in (record, Record.read(tmp_path)):
        first, second = seen.trials[0].pauses.values()
        assert first == Pause(1, pytest.approx(began, abs=0.1), began + 14.0)
        assert (second.after_epoch, second.ended) == (2, None)
        assert not seen.trials[0].is_paused, "it has ended"


@pytest.mark.parametrize("typed", ["1", "01", "trial_1", "trial_0001"])
def test_a_trial_is_stopped_by_its_number_or_its_name(typed: str, tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=2)
    record.note_steered(Steered(["stop", typed], "it stops", 5.0, "r1"))
    for each in (record, Record.read(tmp_path)):
        assert [each.is_to_stop(number) for number in (0, 1)] == [False, True]


def test_the_number_of_trials_is_raised_and_lowered_but_not_below_those_that_have_begun(
    tmp_path: Path,
) -> None:
    record = new_record(tmp_path, trials=2)
    for asked, planned in (
        (8, [8]),
        (12, [8, 12]),
        (12, [8, 12]),
        (9, [8, 9]),
        (8, [8]),
        (1, [2]),
        (3, [2, 3]),
    ):
        record.plan_trials(asked)
        assert record.planned_trials == planned
    assert Record.read(tmp_path).planned_trials == [2, 3]


def test_the_clock_counts_nothing_while_it_is_stopped(tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=1)
    record.start_clock()
    record.stop_clock()
    stopped = record.elapsed_s
    assert stopped > 0
    assert record.elapsed_s == stopped
    assert Record.read(tmp_path).elapsed_s == stopped
    record.start_clock()
    assert record.elapsed_s > stopped
